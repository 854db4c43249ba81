"""The partition of a key: Spark's own hash of its columns, Murmur3 with the seed 42, modulo the number of partitions.

Each column continues with the hash of the columns before it, and a null leaves it as it is; so do the fields of a
struct and the elements of an array. The last bytes of a text, up to three, are mixed in one by one. Source:
`HashPartitioning`, `Murmur3Hash` and `Murmur3_x86_32.hashUnsafeBytes` of Spark 4.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ....serializers.columns.bytes_at import numbers_at
from ....serializers.errors import UnsupportedFormat
from ....serializers.spark_rows.row_encoder import long_decimal_bytes, longs_of, numbers_of, offsets_of, validity_of

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from ....serializers.spark_rows.spark_types import SparkType

    Numbers = NDArray[Any]

_SEED = 42
_C1, _C2, _MORE = np.uint32(0xCC9E2D51), np.uint32(0x1B873593), np.uint32(0xE6546B64)
_F1, _F2 = np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)
_NAN32, _NAN64 = np.uint32(0x7FC00000), np.uint64(0x7FF8000000000000)
_TEXTS = frozenset({"string", "char", "varchar", "binary"})


def partitions_of(keys: pa.StructArray, of: SparkType, partitions: int) -> Numbers:
    """Return the partition of each key.

    Args:
        keys: The keys.
        of: Their type.
        partitions: The number of partitions.

    Raises:
        UnsupportedFormat: The key has a type whose hash this release does not know.
    """
    hashes = np.full(len(keys), _SEED, np.uint32)
    for index, field in enumerate(of.fields):
        hashes = _hashed(keys.field(index), field.type, hashes)
    found: Numbers = hashes.view(np.int32).astype(np.int64) % partitions
    return found


def require_placed(keys: pa.StructArray, of: SparkType, partitions: int, partition: int) -> None:
    """Check that stored keys lie where Spark's hash has them; else it is not known where changed ones belong.

    Raises:
        UnsupportedFormat: Some lie elsewhere.
    """
    if (partitions_of(keys, of, partitions) != partition).any():
        raise UnsupportedFormat(
            "keys do not lie in the partitions that Spark's hash has for them, so that it is not known where changed"
            " keys belong",
            advice="keep the keys as they are; a Spark before 3.3 may have placed them by fewer columns, and processors"
            " of pandas store a null of a key as the text NaN with pandas 3",
        )


def _hashed(column: pa.Array, of: SparkType, seeds: Numbers) -> Numbers:
    """Return the hash of each value, continued from a seed for each; a null leaves the seed."""
    if of.word == "void":
        return seeds
    valid = validity_of(column)
    if of.word == "struct":
        hashes = seeds
        for index, field in enumerate(of.fields):
            hashes = _hashed(column.field(index), field.type, hashes)
    elif of.word == "array":
        hashes = _arrays(column, of, seeds)
    elif of.word in _TEXTS:
        offsets = offsets_of(column)
        data = np.frombuffer(column.buffers()[2] or b"", np.uint8)
        hashes = _bytes(data, offsets[:-1], np.diff(offsets), seeds)
    elif (numbers := numbers_of(column, of, valid)) is not None:
        hashes = _numbers(numbers, of, seeds)
    elif of.word == "decimal":
        data, starts, sizes = long_decimal_bytes(column)
        hashes = _bytes(data, starts, sizes, seeds)
    else:
        raise UnsupportedFormat(
            f"the hash of {of.describe()} is not known to this release, so its keys cannot move to other partitions",
            advice="keep the key as it is",
        )
    return np.where(valid, hashes, seeds)


def _numbers(numbers: Numbers, of: SparkType, seeds: Numbers) -> Numbers:
    """Hash numbers, which are unsigned: small ones as an int, others as a long."""
    if of.word == "float":
        numbers = np.where(numbers == 0x80000000, np.uint32(0), numbers)  # -0.0
        numbers = np.where(np.isnan(numbers.view(np.float32)), _NAN32, numbers)
    elif of.word == "double":
        numbers = np.where(numbers == np.uint64(1 << 63), np.uint64(0), numbers)
        numbers = np.where(np.isnan(numbers.view(np.float64)), _NAN64, numbers)
    if numbers.itemsize == 8:
        pairs = numbers.view(np.uint32).reshape(-1, 2)
        return _finished(_mixed(_mixed(seeds, pairs[:, 0]), pairs[:, 1]), np.uint32(8))
    if of.word != "boolean":
        numbers = numbers.view(f"i{numbers.itemsize}").astype(np.int32)
    return _finished(_mixed(seeds, numbers.astype(np.uint32)), np.uint32(4))


def _bytes(data: Numbers, starts: Numbers, sizes: Numbers, seeds: Numbers) -> Numbers:
    """Hash byte strings, all at once: word by word, the longest ones to the end."""
    hashes = seeds.copy()
    order = np.argsort(-sizes, kind="stable")
    words = (sizes[order]) >> 2
    for word in range(int(words[0]) if len(words) else 0):
        rows = order[: np.searchsorted(-words, -word, side="left")]
        hashes[rows] = _mixed(hashes[rows], numbers_at(data, starts[rows] + 4 * word, "<u4"))
    for index in range(3):
        rows = np.flatnonzero(sizes & 3 > index)
        single = data[starts[rows] + (sizes[rows] & ~3) + index].view(np.int8).astype(np.int32).view(np.uint32)
        hashes[rows] = _mixed(hashes[rows], single)
    return _finished(hashes, sizes.astype(np.uint32))


def _arrays(column: pa.Array, of: SparkType, seeds: Numbers) -> Numbers:
    """Hash arrays: element i of all that have one, then element i + 1."""
    offsets = offsets_of(column)
    counts, hashes = np.diff(offsets), seeds.copy()
    for index in range(int(counts.max(initial=0))):
        rows = np.flatnonzero(counts > index)
        elements = column.values.take(longs_of(offsets[rows] + index))
        hashes[rows] = _hashed(elements, of.fields[0].type, hashes[rows])
    return hashes


def _mixed(hashes: Numbers, words: Numbers) -> Numbers:
    words = _rotated(words * _C1, 15) * _C2
    mixed: Numbers = _rotated(hashes ^ words, 13) * np.uint32(5) + _MORE
    return mixed


def _rotated(words: Numbers, bits: int) -> Numbers:
    rotated: Numbers = (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))
    return rotated


def _finished(hashes: Numbers, sizes: Numbers | np.uint32) -> Numbers:
    hashes = hashes ^ sizes
    hashes = (hashes ^ (hashes >> np.uint32(16))) * _F1
    hashes = (hashes ^ (hashes >> np.uint32(13))) * _F2
    finished: Numbers = hashes ^ (hashes >> np.uint32(16))
    return finished
