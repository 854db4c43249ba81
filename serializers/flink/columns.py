"""Columns of values that only Flink's metadata names.

void, and namespaces without content  no column, or nulls     time window  struct start, end: milliseconds since 1970
                                                              count window struct id: its number
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
    CountWindow,
    CountWindowSerializer,
    GlobalWindowSerializer,
    SqlGlobalWindowSerializer,
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


@attrs.frozen
class WindowCodec(StructCodec):
    """Windows that have numbers, which are the attributes of their class.

    Attributes:
        of: The class.
        expected: What a column must be, in words.
    """

    of: type
    expected: str

    def _arrow_value(self, value: Any) -> Any:
        return {part.name: getattr(value, part.name) for part in self.parts}

    def mismatches(self, kind: pa.DataType, path: str = "") -> Iterator[tuple[str, str]]:
        names = tuple(part.name for part in self.parts)
        if names_of(kind) != names or not all(pa.types.is_integer(field.type) for field in kind):
            yield path, wrong(self.serializer, kind, self.expected)

    def taker(self) -> Taker:
        return lambda value: self.of(*(value[part.name] for part in self.parts))


def _window(_: Codecs, serializer: TypeSerializer[Any]) -> WindowCodec:
    parts = tuple(Part(name, long_codec()) for name in ("start", "end"))
    return WindowCodec(serializer, parts, TimeWindow, "a struct of start and end, in milliseconds")


def _count_window(_: Codecs, serializer: TypeSerializer[Any]) -> WindowCodec:
    return WindowCodec(serializer, (Part("id", long_codec()),), CountWindow, "a struct of an id")


COLUMNS: ColumnTable = {
    KryoBytesSerializer: plain(FramedBytesCodec),
    VoidSerializer: plain(NothingCodec),
    VoidNamespaceSerializer: plain(NothingCodec),
    GlobalWindowSerializer: plain(NothingCodec),
    SqlGlobalWindowSerializer: plain(NothingCodec),
    CountWindowSerializer: _count_window,
    TimeWindowSerializer: _window,
    SqlTimeWindowSerializer: _window,
}
