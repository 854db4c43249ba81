"""Columns of tuples, Either and time-stamped values, as structs.

tuple   struct f0, f1, …
either  struct is_left, left, right
ttl     struct last_access_ms, value
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa

from ..columns.codec import ColumnCodec, Decoded, taken, told_at
from ..columns.kinds import names_of, wrong
from ..columns.parts import StructCodec, struct_array
from .either import Left, Right
from .ttl import TtlValue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..columns.codec import Cells, Taker

STAMPED, _EITHER = ("last_access_ms", "value"), ("is_left", "left", "right")
_NO_STAMP = (
    "has no time of last access: use a struct of last_access_ms and value, or a function that returns "
    "TtlValue(last_access_ms, value)"
)


@attrs.frozen
class TupleCodec(StructCodec):
    """Tuples: the fields, without bytes between them."""

    def _told(self, value: Any) -> Any:
        pairs = enumerate(zip(self.parts, value, strict=True))
        return {part.name: told_at(part.codec, item, f"({index})") for index, (part, item) in pairs}

    def mismatches(self, kind: pa.DataType, path: str = "") -> Iterator[tuple[str, str]]:
        if not pa.types.is_struct(kind) or kind.num_fields != len(self.parts):
            yield path, wrong(self.serializer, kind, f"a struct of {len(self.parts)} fields")
            return
        for index, part in enumerate(self.parts):
            yield from part.codec.mismatches(kind.field(index).type, f"{path}({index})")

    def taker(self) -> Taker:
        takers = [part.codec.taker() for part in self.parts]
        return lambda value: tuple(taken(*pair) for pair in zip(takers, value.values(), strict=True))

    def within(self, kind: pa.DataType, path: str) -> Iterator[tuple[ColumnCodec, pa.DataType, str]]:
        for part, field in zip(self.parts, kind, strict=True):
            yield part.codec, field.type, f"{path}.{field.name}"


@attrs.frozen
class TtlCodec(StructCodec):
    """Values with the time of their last access."""

    def _told(self, value: Any) -> Any:
        return {STAMPED[0]: value.last_access_ms, STAMPED[1]: self.parts[1].codec.tell(value.value)}

    def mismatches(self, kind: pa.DataType, path: str = "") -> Iterator[tuple[str, str]]:
        if names_of(kind) != STAMPED:
            yield path, _NO_STAMP
            return
        for part, field in zip(self.parts, kind, strict=True):
            yield from part.codec.mismatches(field.type, f"{path}.{part.name}")

    def taker(self) -> Taker:
        taker = self.parts[1].codec.taker()
        return lambda value: TtlValue(value[STAMPED[0]], taken(taker, value[STAMPED[1]]))

    def within(self, kind: pa.DataType, path: str) -> Iterator[tuple[ColumnCodec, pa.DataType, str]]:
        yield self.parts[1].codec, kind.field(1).type, f"{path}.{kind.field(1).name}"


@attrs.frozen
class EitherCodec(ColumnCodec):
    """Either values: a flag, and the value of the side that it names.

    Attributes:
        left: The codec of values after the flag 1.
        right: The codec of values after the flag 0.
    """

    left: ColumnCodec
    right: ColumnCodec

    @property
    def kind(self) -> pa.DataType:
        return pa.struct([("is_left", pa.bool_()), ("left", self.left.kind), ("right", self.right.kind)])

    def _told(self, value: Any) -> Any:
        if isinstance(value, Left):
            return {"is_left": True, "left": told_at(self.left, value.value, "<left>")}
        return {"is_left": False, "right": told_at(self.right, value.value, "<right>")}

    def decode(self, cells: Cells) -> Decoded:
        begins, odd = cells.skipped(1)
        flags = cells.data[cells.starts]
        odd |= flags > 1
        left = self.left.decode_some(cells.moved(begins), flags == 1)
        right = self.right.decode_some(cells.moved(begins), flags != 1)
        columns = [pa.array(flags == 1), left.column, right.column]
        column = struct_array(self.kind, columns, len(cells))
        return Decoded(column, np.maximum(left.ends, right.ends), odd | left.odd | right.odd)

    def mismatches(self, kind: pa.DataType, path: str = "") -> Iterator[tuple[str, str]]:
        if names_of(kind) != _EITHER or not pa.types.is_boolean(kind.field(0).type):
            what = "is of one type, but one of two is declared: use a struct of is_left, left and right"
            yield path, f"{what}, or a function that returns Left(value) or Right(value)"
            return
        yield from self.left.mismatches(kind.field(1).type, f"{path}.left")
        yield from self.right.mismatches(kind.field(2).type, f"{path}.right")

    def taker(self) -> Taker:
        sides: dict[bool, tuple[type[Left[Any] | Right[Any]], Taker | None, str]] = {
            True: (Left, self.left.taker(), "left"),
            False: (Right, self.right.taker(), "right"),
        }

        def take(value: dict[str, Any]) -> Any:
            side, taker, name = sides[value["is_left"]]
            return side(taken(taker, value[name]))

        return take

    def within(self, kind: pa.DataType, path: str) -> Iterator[tuple[ColumnCodec, pa.DataType, str]]:
        yield self.left, kind.field(1).type, f"{path}.left"
        yield self.right, kind.field(2).type, f"{path}.right"
