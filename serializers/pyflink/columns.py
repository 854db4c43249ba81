"""Columns of bytes of PyFlink's coders: binary, or what the type of Flink has whose values are the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ..columns.codec import CounterpartCodec, plain
from ..containers.columns import BinaryCodec
from ..containers.lists import ListSerializer
from ..sql.columns import InnerCodec
from .byte_keys import ByteArrayWrapperSerializer
from .coders import CODERS
from .contents import PyFlinkBytes, PyFlinkElements, PyFlinkKey, PyFlinkPickle

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from ..columns.codec import Codecs, ColumnCodec, ColumnTable, Taker
    from .coders import CoderSerializer
    from .contents import ContentSerializer


def _as_counterpart(codecs: Codecs, serializer: CoderSerializer[Any]) -> ColumnCodec:
    own, to_own, _ = serializer.same_as
    return CounterpartCodec(serializer, codecs.of(own), to_own)


@attrs.frozen
class ContentCodec(InnerCodec):
    """Values in bytes of PyFlink, which are written from columns as those of the content are."""

    def mismatches(self, kind: pa.DataType, path: str = "") -> Iterator[tuple[str, str]]:
        yield from self.inner.mismatches(kind, path)

    def taker(self) -> Taker | None:
        return self.inner.taker()

    def within(self, kind: pa.DataType, path: str) -> Iterator[tuple[ColumnCodec, pa.DataType, str]]:
        yield from self.inner.within(kind, path)


def _content(codecs: Codecs, serializer: ContentSerializer) -> ColumnCodec:
    return ContentCodec(serializer, codecs.of(serializer.content))


def _contents(codecs: Codecs, serializer: PyFlinkElements) -> ColumnCodec:
    return ContentCodec(serializer, codecs.of(ListSerializer(serializer.content)))


COLUMNS: ColumnTable = {
    ByteArrayWrapperSerializer: plain(BinaryCodec),
    PyFlinkBytes: _content,
    PyFlinkKey: _content,
    PyFlinkPickle: _content,
    PyFlinkElements: _contents,
    **dict.fromkeys(CODERS, _as_counterpart),
}
