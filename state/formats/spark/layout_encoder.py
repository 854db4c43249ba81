"""Rows encoded as keys and values of RocksDB: the inverse of `layouts`, which says how they are laid out.

With avro every row has the id 0 of its type: a copy has one schema file.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import attrs
import numpy as np
import pyarrow as pa

from ....serializers.errors import UnsupportedFormat
from ....serializers.spark_rows.avro_encoder import encode_avro
from ....serializers.spark_rows.row_encoder import encode_rows, numbers_of, rows_of, validity_of
from ....serializers.spark_rows.spark_types import SparkField, SparkType
from .layouts import SORTED, joined, struct_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .schema_files import KeyLayout

_SIZE = struct.Struct("<i")
_HEAD, _ID = b"\0", b"\0\0"
_BINARY = SparkType("binary")


@attrs.frozen
class LayoutEncoder:
    """Encodes the rows of a store with column families.

    Attributes:
        is_avro: Whether rows are encoded in avro; else they are Spark's bytes.
    """

    is_avro: bool

    def encode(self, rows: pa.StructArray, of: SparkType, *, has_id: bool = True) -> list[bytes]:
        """Encode rows of a struct, none of which is null.

        Raises:
            IncompatibleState: A value is null where avro has no null.
            UnsupportedFormat: The struct has a type that is not written.
        """
        if not self.is_avro:
            return [*rows_of(encode_rows(rows, of), zeros=len(_HEAD))]
        head = _HEAD + _ID if has_id else _HEAD
        return [head + one for one in encode_avro(rows, of)]

    def encode_keys(self, keys: pa.StructArray, of: SparkType, layout: KeyLayout) -> list[bytes]:
        """Encode keys; errors as in `encode`."""
        if layout.kind == "row":
            return self.encode(keys, of)
        columns = keys.flatten()
        if layout.kind.startswith("time"):
            others = self.encode(*_part(columns, of, range(len(columns) - 1)))
            times = map(bytes, _sorted(columns[-1], of.fields[-1].type)[:, 1:] ^ _SIGN)
            pairs = zip(times, others, strict=True)
            return [a + b if layout.kind == "time first" else b + a for a, b in pairs]
        if layout.kind == "prefix":
            first = self.encode(*_part(columns, of, layout.columns), has_id=False)
        else:
            first = self._ranges([columns[one] for one in layout.columns], struct_of(of, layout.columns))
        rest = [index for index in range(len(columns)) if index not in layout.columns]
        last = self.encode(*_part(columns, of, rest)) if rest else [b""] * len(keys)
        return [_SIZE.pack(len(one)) + one + other for one, other in zip(first, last, strict=True)]

    def _ranges(self, columns: list[pa.Array], of: SparkType) -> list[bytes]:
        """Encode columns as bytes that sort as their numbers do."""
        parts: list[pa.Array] = []
        for column, field in zip(columns, of.fields, strict=True):
            raw = _sorted(column, field.type)
            cuts = (raw[:, :1], raw[:, 1:]) if self.is_avro else (raw,)
            parts += (pa.array([row.tobytes() for row in np.ascontiguousarray(one)], pa.binary()) for one in cuts)
        fields = tuple(SparkField(str(number), _BINARY, is_nullable=False) for number in range(len(parts)))
        binary = SparkType("struct", fields)
        return self.encode(joined(parts, binary), binary, has_id=False)


_SIGN = np.array([0x80, 0, 0, 0, 0, 0, 0, 0], np.uint8)


def _sorted(column: pa.Array, of: SparkType) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """Return for each number a row of bytes that sorts as it does: its sign, or 2 for null, and the number."""
    if of.word not in SORTED:
        raise UnsupportedFormat(f"keys that are sorted by {of.describe()} are not written by this release")
    kind, valid = np.dtype(SORTED[of.word]), validity_of(column)
    numbers = numbers_of(column, of, valid)
    assert numbers is not None  # noqa: S101 - it is one of the numbers above
    bits = numbers.astype(numbers.dtype.newbyteorder(">")).view(np.uint8).reshape(len(column), kind.itemsize)
    is_negative = bits[:, 0] >= 0x80
    raw = np.empty((len(column), 1 + kind.itemsize), np.uint8)
    raw[:, 0] = np.where(valid, np.where(is_negative, 0, 1), 2)
    raw[:, 1:] = bits
    if kind.kind == "f":
        raw[is_negative, 1:] ^= 0xFF
    return raw


def _part(columns: Sequence[pa.Array], of: SparkType, indexes: Sequence[int]) -> tuple[pa.StructArray, SparkType]:
    part = struct_of(of, indexes)
    return joined([columns[index] for index in indexes], part), part
