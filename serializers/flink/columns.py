"""Columns of values that only Flink's metadata names.

void, and namespaces without content  no column, or nulls     time window  struct start, end: milliseconds since 1970
a value that Kryo wrote               binary: its bytes
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa

from ..columns.codec import names_of, plain, wrong
from ..columns.nested import Part, StructCodec
from ..columns.scalars import FramedBytesCodec, NothingCodec
from ..primitives.columns import long_codec
from .namespaces import (
    GlobalWindowSerializer,
    SqlTimeWindowSerializer,
    TimeWindow,
    TimeWindowSerializer,
    VoidNamespaceSerializer,
    VoidSerializer,
)
from .opaque import KryoBytesSerializer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..columns.codec import Codecs, ColumnTable, Taker
    from ..serializer import TypeSerializer

_WINDOW = ("start", "end")


@attrs.frozen
class WindowCodec(StructCodec):
    """Time windows."""

    def _arrow_value(self, value: Any) -> Any:
        return {"start": value.start, "end": value.end}

    def mismatches(self, kind: pa.DataType, path: str = "") -> Iterator[tuple[str, str]]:
        if names_of(kind) != _WINDOW or not all(pa.types.is_integer(field.type) for field in kind):
            yield path, wrong(self.serializer, kind, "a struct of start and end, in milliseconds")

    def taker(self) -> Taker:
        return lambda value: TimeWindow(*(value[name] for name in _WINDOW))


def _window(_: Codecs, serializer: TypeSerializer[Any]) -> WindowCodec:
    return WindowCodec(serializer, tuple(Part(name, long_codec()) for name in _WINDOW))


COLUMNS: ColumnTable = {
    KryoBytesSerializer: plain(FramedBytesCodec),
    VoidSerializer: plain(NothingCodec),
    VoidNamespaceSerializer: plain(NothingCodec),
    GlobalWindowSerializer: plain(NothingCodec),
    TimeWindowSerializer: _window,
    SqlTimeWindowSerializer: _window,
}
