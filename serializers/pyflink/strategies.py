"""Strategies of bytes of PyFlink's coders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from ..drawing import MOST_ITEMS, always
from .byte_keys import ByteArrayWrapperSerializer
from .coders import (
    CoderDateSerializer,
    CoderDecimalSerializer,
    CoderStringSerializer,
    CoderTimeSerializer,
    CoderTimestampSerializer,
)
from .contents import PyFlinkBytes, PyFlinkElements, PyFlinkKey, PyFlinkPickle

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from ..drawing import Drawing, StrategyTable
    from .contents import ContentSerializer


def _whole(value: Any) -> Any:
    return value.replace(microsecond=value.microsecond // 1000 * 1000)


def _content(drawing: Drawing, serializer: ContentSerializer) -> SearchStrategy[Any]:
    return drawing.values(serializer.content)


def _contents(drawing: Drawing, serializer: ContentSerializer) -> SearchStrategy[Any]:
    return st.lists(drawing.values(serializer.content), min_size=1, max_size=MOST_ITEMS)


STRATEGIES: StrategyTable = {
    ByteArrayWrapperSerializer: always(st.binary(max_size=12)),
    CoderStringSerializer: always(st.text(max_size=12)),
    CoderDecimalSerializer: always(st.decimals(allow_nan=False)),
    CoderDateSerializer: always(st.dates()),
    CoderTimeSerializer: always(st.times().map(_whole)),
    CoderTimestampSerializer: always(st.datetimes().map(_whole)),
    PyFlinkBytes: _content,
    PyFlinkKey: _content,
    PyFlinkPickle: _content,
    PyFlinkElements: _contents,
}
