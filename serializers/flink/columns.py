"""Columns of values that only Flink's metadata names.

void, and namespaces without content  no column, or nulls     time window  struct start, end: milliseconds since 1970
a value that Kryo wrote               binary: its bytes
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ..columns.factory import plain
from ..columns.parts import Part, StructCodec
from ..columns.scalars import FramedBytesCodec, NothingCodec
from ..primitives.columns import long_codec
from .kryo import KryoBytesSerializer
from .void import VoidSerializer
from .windows import GlobalWindowSerializer, TimeWindowSerializer, VoidNamespaceSerializer

if TYPE_CHECKING:
    from ..columns.codec import ColumnCodec
    from ..columns.factory import Codecs, ColumnTable


@attrs.frozen
class WindowCodec(StructCodec):
    """Time windows."""

    def _told(self, value: Any) -> Any:
        return {"start": value.start, "end": value.end}


def _window(_: Codecs, serializer: TimeWindowSerializer) -> ColumnCodec:
    return WindowCodec(serializer, (Part("start", long_codec()), Part("end", long_codec())))


COLUMNS: ColumnTable = {
    KryoBytesSerializer: plain(FramedBytesCodec),
    VoidSerializer: plain(NothingCodec),
    VoidNamespaceSerializer: plain(NothingCodec),
    GlobalWindowSerializer: plain(NothingCodec),
    TimeWindowSerializer: _window,
}
