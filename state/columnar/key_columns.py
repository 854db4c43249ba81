"""Columns in which every row must have a valid value, such as keys: their bytes and key groups, a block at a time.

Blocks are encoded at once, declined rows one by one by the serializer itself, which also checks each block. Key groups
equal those that `key_groups` computes for single keys.

numpy comes with the extra `spark`; nothing else imports this module. Source: format notes 5.1; performance notes,
"Key groups from scratch".
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...serializers.columns.codec import nulls_of
from ...serializers.containers.tuples import TupleSerializer
from ...serializers.containers.wrappers import OptionalSerializer
from ...serializers.errors import MigrationFailed, StateShiftError, ValueNotConvertible, located, shown
from ...serializers.views import SEPARATOR, DataInputView
from ..entry_keys import decode, encode
from ..key_groups import has_checked_hash, has_stable_hash, key_group, key_hasher
from .column_values import encode_column, encode_values, python_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...serializers.serializer import TypeSerializer
    from ...serializers.snapshot import TypeSerializerConfigSnapshot


def required(serializer: TypeSerializer[Any], column: pa.Array, name: str = "") -> pa.Array:
    """Encode a column as a block, and its declined rows one by one; an error has the row as `error.row`."""
    if not isinstance(serializer, OptionalSerializer):
        refuse_null(column, name)
    encoded = encode_column(serializer, column)
    data = encoded.join()
    declined = np.flatnonzero(encoded.declined)
    if len(declined):
        data = patched(data, encoded.declined, encode_values(serializer, column, declined.tolist()))
    _prove(serializer, column, data)
    return data


def encode_lists(serializer: TypeSerializer[Any], column: pa.Array, name: str) -> pa.Array:
    """Encode arrays as list state stores them: elements with separators; null for an empty array (no entry)."""
    refuse_null(column, name)
    if not len(column) or not pc.any(pc.greater(pc.list_value_length(column), 0)).as_py():
        return pa.nulls(len(column), pa.large_binary())
    try:
        elements = required(serializer, pc.list_flatten(column), name)
    except StateShiftError as error:
        element = error.__dict__.pop("row", None)
        if element is not None:
            error.row = pc.list_parent_indices(column)[element].as_py()  # type: ignore[attr-defined]
        error.where["path"] = "$[]" + str(error.where.get("path", "")).removeprefix("$")
        raise
    sizes = pc.list_value_length(column).to_numpy().astype(np.int64)
    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int64())
    lists = pa.LargeListArray.from_arrays(offsets, elements)
    return pc.replace_with_mask(
        pc.binary_join(lists, pa.scalar(SEPARATOR, pa.large_binary())),
        pa.array(sizes == 0),
        pa.scalar(None, pa.large_binary()),
    )


def _prove(serializer: TypeSerializer[Any], column: pa.Array, data: pa.Array) -> None:
    """Check that the serializer writes the first value of a block as the same bytes, and reads them (rule RUN-7)."""
    written = encode_values(serializer, column, [0])[0]
    read = decode(serializer, written)
    if written != data[0].as_py() or encode(serializer, read) != written:
        raise MigrationFailed(
            f"a block was written as {shown(data[0].as_py().hex())}, but its serializer reads and writes "
            f"{shown(written.hex())}",
            rule="RUN-7",
            advice="make the serializer deterministic; if it is not yours, report a bug: nothing is published",
        )


def refuse_null(column: pa.Array, name: str) -> None:
    """Raise if a column has a null; the error has the row as `error.row`."""
    if not column.null_count:
        return
    what = f" in the column {name!r}" if name else ""
    error = ValueNotConvertible(
        f"there is a null{what}, but the type is not optional",
        advice="remove such rows with dropna, or declare the type optional (T | None)",
    )
    error.row = int(np.flatnonzero(nulls_of(column))[0])  # type: ignore[attr-defined]  # read by the caller
    raise error


def patched(data: pa.Array, mask: np.ndarray[Any, np.dtype[np.bool_]], found: list[bytes]) -> pa.Array:
    """Return an array with the values under a mask replaced by `found`."""
    return pc.replace_with_mask(data, pa.array(mask), pa.array(found, pa.large_binary()))


Codes = np.ndarray[Any, np.dtype[np.uint32]]
"""Hashes, as unsigned 32-bit numbers."""

_U32 = np.uint32
_TRUE_HASH, _FALSE_HASH = 1231, 1237
_MASK = 0xFFFFFFFF
_SIGN = 1 << 31


def hash_column(serializer: TypeSerializer[Any], column: pa.Array, encoded: pa.Array) -> Codes:
    """Return the hashes of a block of keys, equal to those of `key_groups.key_hasher`.

    Args:
        serializer: The serializer of the keys.
        column: The keys; a struct for tuples. Hashes of nulls and of non-ASCII strings are meaningless.
        encoded: The bytes of the keys; they are hashed if the type has no stable Java hash.
    """
    if has_checked_hash(serializer):
        return _java_hashes(serializer.snapshot_configuration(), column)
    keys: list[bytes] = encoded.to_pylist()
    if not has_stable_hash(serializer):
        return np.fromiter(map(zlib.crc32, keys), np.uint32, len(keys))
    hashed = key_hasher(serializer)
    codes = (hashed(serializer.deserialize(DataInputView(key))) & _MASK for key in keys)
    return np.fromiter(codes, np.uint32, len(keys))


def _java_hashes(snapshot: TypeSerializerConfigSnapshot[Any], column: pa.Array) -> Codes:
    if snapshot.kind == "tuple":
        code: Codes = np.zeros(len(column), dtype=np.uint32)
        for child, part in zip(snapshot.children(), column.flatten(), strict=True):
            code = code * _U32(31) + _java_hashes(child, part)
        return code
    kind = snapshot.describe()
    if kind == "string":
        return _string_hashes(column)
    if column.null_count:
        column = pc.fill_null(column, pa.scalar(False if kind == "boolean" else 0, column.type))
    values = np.asarray(column.to_numpy(zero_copy_only=False))
    match kind:
        case "boolean":
            return np.where(values, _U32(_TRUE_HASH), _U32(_FALSE_HASH))
        case "float":
            with np.errstate(over="ignore"):
                floats = values.astype(np.float32)
            return _bits(floats, np.float32(np.nan), np.uint32)
        case "double":
            return _folded(_bits(values.astype(np.float64), np.float64(np.nan), np.uint64))
        case "long":
            return _folded(values.astype(np.int64).view(np.uint64))
        case _:
            return values.astype(np.int32).view(np.uint32)


def _bits(values: np.ndarray[Any, Any], nan: Any, form: type) -> np.ndarray[Any, Any]:
    """Return the bits of floating-point numbers, one pattern for all NaN, as Java hashes them."""
    return np.where(np.isnan(values), np.abs(nan), values).view(form)


def _folded(bits: np.ndarray[Any, np.dtype[np.uint64]]) -> Codes:
    return np.asarray(bits ^ bits >> np.uint64(32), dtype=np.uint64).astype(np.uint32)


def _string_hashes(column: pa.Array) -> Codes:
    """Return Java's hashes of ASCII strings: each sums its bytes times 31 to the power of the bytes after them."""
    column = pc.fill_null(column, "") if column.null_count else column
    lengths = np.asarray(pc.binary_length(column).to_numpy(zero_copy_only=False), dtype=np.int64)
    code: Codes = np.zeros(len(column), dtype=np.uint32)
    total = int(lengths.sum())
    if not total:
        return code
    data = np.frombuffer(b"".join(pc.cast(column, pa.large_binary()).to_pylist()), np.uint8)
    ends = np.cumsum(lengths)
    powers = np.ones(int(lengths.max()), dtype=np.uint32)
    np.multiply.accumulate(np.full(len(powers) - 1, 31, dtype=np.uint32), out=powers[1:], dtype=np.uint32)
    following = np.repeat(ends, lengths) - np.arange(total) - 1
    filled = lengths > 0
    code[filled] = np.add.reduceat(data * powers[following], (ends - lengths)[filled], dtype=np.uint32)
    return code


def key_groups_of(codes: Codes, max_parallelism: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Return the key group of each hash."""
    code = codes * _U32(0xCC9E2D51)
    code = _rotated(code, 15) * _U32(0x1B873593)
    code = _rotated(code, 13) * _U32(5) + _U32(0xE6546B64)
    code ^= _U32(4)
    code = (code ^ code >> _U32(16)) * _U32(0x85EBCA6B)
    code = (code ^ code >> _U32(13)) * _U32(0xC2B2AE35)
    code ^= code >> _U32(16)
    spread = code.astype(np.int64)
    spread = np.where(spread < _SIGN, spread, (1 << 32) - spread)
    spread[spread == _SIGN] = 0  # Java's abs of its least int, by definition
    return np.asarray(spread % max_parallelism, dtype=np.int32)


def _rotated(code: Codes, bits: int) -> Codes:
    return code << _U32(bits) | code >> _U32(32 - bits)


def key_column(serializer: TypeSerializer[Any], columns: Sequence[pa.Array]) -> pa.Array:
    """Return the column of the keys: the only one, or a struct of several for a tuple.

    Args:
        serializer: The serializer of the keys.
        columns: The columns of the keys.
    """
    is_whole = len(columns) == 1 and (
        not isinstance(serializer, TupleSerializer) or pa.types.is_struct(columns[0].type)
    )
    if is_whole:
        return columns[0]
    return pa.StructArray.from_arrays(list(columns), names=[str(index) for index in range(len(columns))])


def encoded_keys(
    serializer: TypeSerializer[Any], column: pa.Array, max_parallelism: int
) -> tuple[pa.Array, np.ndarray[Any, np.dtype[np.int32]]]:
    """Return the bytes and the key group of each key of a column without nulls.

    Raises:
        ValueNotConvertible: A key does not fit the serializer.
    """
    encoded = encode_column(serializer, column)
    data = encoded.join()
    groups = key_groups_of(hash_column(serializer, column, data), max_parallelism)
    declined = np.flatnonzero(encoded.declined)
    if len(declined):
        hasher = key_hasher(serializer)
        found = []
        for value in python_values(serializer, column.take(pa.array(declined))):
            with located(key=shown(value), path="key"):
                found.append(encode(serializer, value))
                groups[declined[len(found) - 1]] = key_group(hasher(value), max_parallelism)
        data = patched(data, encoded.declined, found)
    return data, groups
