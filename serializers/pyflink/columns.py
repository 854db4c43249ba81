"""Columns of bytes of PyFlink's coders: binary, or what the type of Flink has whose values are the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..columns.codec import CounterpartCodec, plain
from ..containers.columns import BinaryCodec
from .byte_keys import ByteArrayWrapperSerializer
from .coders import CODERS

if TYPE_CHECKING:
    from ..columns.codec import Codecs, ColumnCodec, ColumnTable
    from .coders import CoderSerializer


def _as_counterpart(codecs: Codecs, serializer: CoderSerializer[Any]) -> ColumnCodec:
    own, to_own, _ = serializer.same_as
    return CounterpartCodec(serializer, codecs.of(own), to_own)


COLUMNS: ColumnTable = {
    ByteArrayWrapperSerializer: plain(BinaryCodec),
    **dict.fromkeys(CODERS, _as_counterpart),
}
