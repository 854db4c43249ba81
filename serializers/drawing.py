"""Strategies of values: what the `strategies` modules of the families are written in terms of.

This module and those import hypothesis, so they are loaded only when values are drawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
from hypothesis import strategies as st

from .errors import DeclarationError
from .families import Ability, families

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hypothesis.strategies import SearchStrategy

    from .serializer import TypeSerializer

    Strategy = Callable[["Drawing", Any], SearchStrategy[Any]]
    """Returns the strategy of the values of a serializer; `Drawing.values` has those of the serializers in it."""
    StrategyTable = Mapping[type, Strategy]
    """The table of `Ability.STRATEGIES`."""

MOST_ITEMS = 4
"""The maximum number of items of a container."""


@attrs.define
class Drawing:
    """One traversal of a type.

    Attributes:
        own: Strategies for the caller's own serializers.
        named: Strategies for the types that others refer to by name, such as records that contain themselves.
    """

    own: Mapping[type[TypeSerializer[Any]], SearchStrategy[Any]]
    named: dict[str, SearchStrategy[Any]] = attrs.field(factory=dict)

    def values(self, serializer: TypeSerializer[Any]) -> SearchStrategy[Any]:
        """Return the strategy of the values of one serializer.

        Raises:
            DeclarationError: There is none.
        """
        own = self.own.get(type(serializer))
        if own is not None:
            return own
        strategy: Strategy | None = families.find(Ability.STRATEGIES, type(serializer))
        if strategy is None:
            raise DeclarationError(
                f"there is no strategy for values of {serializer.describe()}",
                advice=f"pass one: own={{{type(serializer).__name__}: …}}",
            )
        return strategy(self, serializer)

    def nullable(self, serializer: TypeSerializer[Any], *, takes_null: bool) -> SearchStrategy[Any]:
        """Return the strategy of values that are also None where the layout around them has a flag for it."""
        return st.none() | self.values(serializer) if takes_null else self.values(serializer)


def always(values: SearchStrategy[Any]) -> Strategy:
    """Return what a table holds for a class whose serializers all have the same values."""
    return lambda _, __: values


def whole(bits: int) -> SearchStrategy[int]:
    """Draw signed whole numbers of so many bits and a sign; the extreme ones come often."""
    least, most = -(1 << bits), (1 << bits) - 1
    return st.sampled_from([0, 1, -1, most, least]) | st.integers(least, most)
