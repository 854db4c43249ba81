"""`Default`: the value of a field or column that stored records or rows lack; and the absence of a value."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final

import attrs

from .errors import shown

if TYPE_CHECKING:
    from collections.abc import Callable


class Absence(Enum):
    """A plain object would be another one after pickling: options of a record travel with a class by value."""

    NO_VALUE = "no value"

    def __repr__(self) -> str:
        return self.name


NO_VALUE: Final = Absence.NO_VALUE
"""Means "no value" where None is a value."""


@attrs.frozen
class Default:
    """A value for a field that stored records lack: a constant, or made for each record.

    Attributes:
        value: The constant.
        factory: Makes a value for each record, in place of the constant.
        title: What messages call it: "the default", "Java's default".
        null: What messages call the absence of a value: "None", "null".
    """

    value: Any = attrs.field(default=None, hash=False)  # a dict has no hash; equal ones only meet in one bucket
    factory: Callable[[], Any] | None = None
    title: str = attrs.field(default="the default", eq=False)
    null: str = attrs.field(default="None", eq=False)

    def make(self) -> Any:
        """Return the value for one record."""
        return self.value if self.factory is None else self.factory()

    def describe(self) -> str:
        """Return how messages show the value: `0`, `list()`."""
        if self.factory is None:
            return self.null if self.value is None else shown(self.value)
        return f"{getattr(self.factory, '__qualname__', repr(self.factory))}()"
