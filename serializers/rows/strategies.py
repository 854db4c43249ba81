"""Strategies of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from .serializers import RowSerializer
from .values import Row, RowKind

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from ..drawing import Drawing, StrategyTable


def _rows(drawing: Drawing, serializer: RowSerializer) -> SearchStrategy[Any]:
    columns = serializer.columns
    names = [column.name for column in columns if column.name]
    kinds = st.sampled_from(list(RowKind)) if serializer.supports_row_kind else st.just(RowKind.INSERT)
    items = st.tuples(*(drawing.nullable(column.serializer, takes_null=column.optional) for column in columns))

    def made(held: tuple[Any, ...], kind: RowKind) -> Row[*tuple[Any, ...]]:
        return Row._of(held, names, kind)  # noqa: SLF001 - the names may be any text

    return st.builds(made, items, kinds)


STRATEGIES: StrategyTable = {RowSerializer: _rows}
