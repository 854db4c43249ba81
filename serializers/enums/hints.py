"""Enums as hints; it is asked about every class, and loads their serializers for enums alone."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .serializers import EnumSerializer


def serializer_of_class(cls: type) -> EnumSerializer | None:
    """Return the serializer of an enum, and None for any other class."""
    if not issubclass(cls, enum.Enum):
        return None
    from .serializers import EnumSerializer

    return EnumSerializer.of(cls)
