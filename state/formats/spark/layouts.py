"""How RocksDB's keys and values contain rows, decoded by columns.

    encoded row      u8 0, then the row: as Spark's bytes (`rows`); or i16 id of its type, and avro (`avro_rows`)
    key, row         an encoded row
    key, prefix      i32 size, encoded row of the first columns, encoded row of the others
    key, range       i32 size, columns that sort as bytes, encoded row of the others
    key, time first  i64 time, its sign bit turned, big-endian; encoded row of the other columns
    key, time last   the same, the other way round
    value            an encoded row
    value of a list  i32 size, encoded row, …, with a delimiter between elements (`store_files.elements_of`)

A column that sorts as bytes is u8 0 negative, 1, or 2 null, and a big-endian number; the bits of a negative `float` or
`double` are turned. They are the binary fields of a row; in avro the first byte is a field of its own. In avro the row
of a prefix has no id. Numbers without another word are little-endian. Source: `RocksDBStateEncoder` of Spark 4.3.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa

from ....serializers.errors import CorruptFile, UnsupportedFormat
from ....serializers.spark_rows.avro_rows import decode_avro
from ....serializers.spark_rows.rows import decode_rows
from ....serializers.spark_rows.spark_types import SparkField, SparkType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .schema_files import KeyLayout

_SIZE, _ID = struct.Struct("<i"), struct.Struct("<h")
_TIME_BYTES = 8
_DAMAGED = "take another copy of the checkpoint"
SORTED = {"tinyint": ">i1", "smallint": ">i2", "int": ">i4", "bigint": ">i8", "float": ">f4", "double": ">f8"}
"""The numbers that may be sorted by, and how their bytes are."""
_BINARY = SparkType("binary")


@attrs.frozen
class RowEncoding:
    """How rows are encoded.

    Attributes:
        writers: With avro, the types of stored values by their ids; None: rows are Spark's bytes.
    """

    writers: Mapping[int, SparkType] | None = None

    def decode(
        self, stored: Sequence[bytes], of: SparkType, *, is_value: bool = False, has_id: bool = True
    ) -> pa.StructArray:
        """Decode encoded rows of a struct.

        Raises:
            CorruptFile: A row is damaged.
            UnsupportedFormat: The struct has a type that this release does not read.
        """
        for one in stored:
            if not one or one[0]:
                raise CorruptFile(f"a row begins with {one[:1].hex() or 'nothing'}, and not with 00", advice=_DAMAGED)
        if self.writers is None:
            return decode_rows([one[1:] for one in stored], of)
        if not has_id:
            return decode_avro([one[1:] for one in stored], [of] * len(stored), of)
        if any(len(one) < 1 + _ID.size for one in stored):
            raise CorruptFile("a row has no id of its type", advice=_DAMAGED)
        ids = [_ID.unpack_from(one, 1)[0] for one in stored]
        known = self.writers if is_value else dict.fromkeys(ids, of)
        for number in {*ids}.difference(known):
            raise CorruptFile(f"a row has a type of the id {number}, which no schema file describes", advice=_DAMAGED)
        return decode_avro([one[1 + _ID.size :] for one in stored], [known[number] for number in ids], of)

    def decode_values(self, stored: Sequence[bytes], of: SparkType) -> pa.StructArray:
        """Decode values; errors as in `decode`."""
        return self.decode(stored, of, is_value=True)

    def decode_keys(self, stored: Sequence[bytes], of: SparkType, layout: KeyLayout) -> pa.StructArray:
        """Decode keys; errors as in `decode`."""
        if layout.kind == "row":
            return self.decode(stored, of)
        if layout.kind.startswith("time"):
            return self._with_times(stored, of, is_first=layout.kind == "time first")
        first, others = zip(*map(_parted, stored), strict=True) if stored else ((), ())
        apart = struct_of(of, layout.columns)
        rest = [index for index in range(len(of.fields)) if index not in layout.columns]
        if layout.kind == "prefix":
            found = self.decode(first, apart, has_id=False).flatten()
        else:
            found = self._sorted(first, apart)
        columns = dict(zip(layout.columns, found, strict=True))
        columns |= zip(rest, self.decode(others, struct_of(of, rest)).flatten(), strict=True) if rest else ()
        return joined([columns[index] for index in range(len(of.fields))], of)

    def _with_times(self, stored: Sequence[bytes], of: SparkType, *, is_first: bool) -> pa.StructArray:
        if any(len(one) < _TIME_BYTES for one in stored):
            raise CorruptFile("a key is too short for its time", advice=_DAMAGED)
        cut = slice(_TIME_BYTES) if is_first else slice(-_TIME_BYTES, None)
        rest = slice(_TIME_BYTES, None) if is_first else slice(-_TIME_BYTES)
        times = np.frombuffer(b"".join(one[cut] for one in stored), ">u8") ^ np.uint64(1 << 63)
        others = self.decode([one[rest] for one in stored], struct_of(of, range(len(of.fields) - 1)))
        return joined([*others.flatten(), pa.array(times.astype(np.uint64).view(np.int64))], of)

    def _sorted(self, stored: Sequence[bytes], of: SparkType) -> list[pa.Array]:
        """Return columns whose bytes sort as their numbers do."""
        for field in of.fields:
            if field.type.word not in SORTED:
                raise UnsupportedFormat(f"keys that are sorted by {field.type.describe()} are not read by this release")
        each = 1 if self.writers is None else 2
        parts = [SparkField(str(number), _BINARY, is_nullable=False) for number in range(each * len(of.fields))]
        found = self.decode(stored, SparkType("struct", tuple(parts)), has_id=False).flatten()
        chunks = [column.to_pylist() for column in found]
        columns = []
        for index, field in enumerate(of.fields):
            one = zip(*chunks[each * index : each * (index + 1)], strict=True)
            columns.append(_numbers([b"".join(part or b"" for part in parts) for parts in one], field.type))
        return columns


def _numbers(chunks: list[bytes], of: SparkType) -> pa.Array:
    kind = np.dtype(SORTED[of.word])
    if any(len(one) != 1 + kind.itemsize or one[0] > 2 for one in chunks):
        raise CorruptFile(f"a key is damaged: a sorted {of.describe()} has another size", advice=_DAMAGED)
    raw = np.frombuffer(b"".join(chunks), np.uint8).reshape(len(chunks), 1 + kind.itemsize)
    bits = raw[:, 1:].copy()
    if kind.kind == "f":
        bits[raw[:, 0] == 0] ^= 0xFF
    return pa.array(bits.view(kind)[:, 0].astype(kind.newbyteorder("=")), mask=raw[:, 0] == 2)


def _parted(key: bytes) -> tuple[bytes, bytes]:
    size = _SIZE.unpack_from(key)[0] if len(key) >= _SIZE.size else -1
    if not 0 <= size <= len(key) - _SIZE.size:
        raise CorruptFile("a key is damaged: its first part is larger than itself", advice=_DAMAGED)
    return key[_SIZE.size : _SIZE.size + size], key[_SIZE.size + size :]


def struct_of(of: SparkType, columns: Sequence[int]) -> SparkType:
    """Return a struct of some of the fields of another one."""
    return SparkType("struct", tuple(of.fields[index] for index in columns))


def joined(columns: list[Any], of: SparkType) -> pa.StructArray:
    """Return columns as rows of a struct."""
    return pa.StructArray.from_arrays(
        columns, fields=[pa.field(n, c.type) for n, c in zip(of.names, columns, strict=True)]
    )
