"""Enums as hints."""

from __future__ import annotations

import enum

from .serializers import EnumSerializer


def serializer_of_class(cls: type) -> EnumSerializer | None:
    """Return the serializer of an enum, and None for any other class."""
    return EnumSerializer.of(cls) if issubclass(cls, enum.Enum) else None
