"""Strategies of the symbols of enums."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from .serializers import EnumSerializer, JavaEnumSerializer, Symbol

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from ..drawing import Drawing, StrategyTable


def _symbols(_: Drawing, serializer: EnumSerializer) -> SearchStrategy[Any]:
    cls, name = serializer.enum_class, serializer.name
    return st.sampled_from([Symbol(symbol, name) for symbol in serializer.symbols] if cls is None else list(cls))


STRATEGIES: StrategyTable = {EnumSerializer: _symbols, JavaEnumSerializer: _symbols}
