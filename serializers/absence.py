"""The absence of a value, where None is a value. It is compared by identity, which pickling keeps."""

from __future__ import annotations

from enum import Enum
from typing import Final


class Absence(Enum):
    """A plain object would be another one after pickling: options of a record travel with a class by value."""

    NO_VALUE = "no value"

    def __repr__(self) -> str:
        return self.name


NO_VALUE: Final = Absence.NO_VALUE
"""Means "no value" where None is a value."""
