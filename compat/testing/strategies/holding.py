"""Values of a type, as its serializer accepts them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....serializers.drawing import Drawing
from ....serializers.hints import serializer_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypothesis.strategies import SearchStrategy

    from ....serializers.serializer import TypeSerializer


def values_of(
    hint: Any, *, own: Mapping[type[TypeSerializer[Any]], SearchStrategy[Any]] | None = None
) -> SearchStrategy[Any]:
    """Draw values of a type which its serializer writes, and reads back as equal values.

    Extreme numbers, empty texts and containers, and every symbol of an enum come often. Floats are never NaN, which is
    not equal to itself, and texts have no lone surrogates.

    Args:
        hint: The type hint or serializer.
        own: Strategies for serializers of your own, by class; used wherever such a serializer is part of the type. A
            family of your own registers them instead.

    Raises:
        DeclarationError: The type has no serializer, or a serializer in it has no strategy.
    """
    return Drawing(own or {}).values(serializer_for(hint))
