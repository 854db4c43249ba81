"""The JSON form of decoded rows, with the tags of an export (`serializers.json_forms`).

A struct is an object; the second of two fields of one name gets `#2`. A timestamp is `$instant`, one without a time
zone `$localdatetime`, whatever the year; a decimal `$bigdec`; an interval `$interval`: months, days and nanoseconds.
Text that is not UTF-8, which Spark accepts, is `$bytes`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ..json_forms import sorted_by_text, tagged_float
from ..primitives.numeric import split_decimal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .spark_types import SparkType

_MICROS = 1_000_000


def json_values(column: pa.Array, of: SparkType) -> list[Any]:
    """Return the values of a column as JSON has them.

    Args:
        column: The column, as `rows.decode_rows` returns it.
        of: Its type.
    """
    valid = column.is_valid().to_pylist()
    found = _PARTS.get(of.word, _scalars)(column, of)
    return [value if there else None for value, there in zip(found, valid, strict=True)]


def _scalars(column: pa.Array, of: SparkType) -> Iterator[Any]:
    if of.word.startswith("interval"):
        return _intervals(column, of)
    return iter(column.to_pylist())


def _structs(column: pa.Array, of: SparkType) -> Iterator[Any]:
    names = of.names
    if not names:
        return iter([{}] * len(column))
    columns = [json_values(column.field(index), field.type) for index, field in enumerate(of.fields)]
    return (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))


def _arrays(column: pa.Array, of: SparkType) -> Iterator[Any]:
    values = json_values(column.values, of.fields[0].type)
    offsets = column.offsets.to_pylist()
    return (values[start:end] for start, end in pairwise(offsets))


def _maps(column: pa.Array, of: SparkType) -> Iterator[Any]:
    keys, values = (
        json_values(part, field.type) for part, field in zip((column.keys, column.items), of.fields, strict=True)
    )
    pairs = [list(pair) for pair in zip(keys, values, strict=True)]
    offsets = column.offsets.to_pylist()
    return ({"$map": sorted_by_text(pairs[start:end])} for start, end in pairwise(offsets))


def _texts(column: pa.Array, _: SparkType) -> Iterator[Any]:
    try:
        return iter(column.to_pylist())
    except UnicodeDecodeError:
        return map(_text, column.cast(pa.binary()).to_pylist())


def _text(data: bytes | None) -> Any:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return {"$bytes": data.hex() if data else ""}


def _tagged(tag: str, form: Callable[[Any], Any]) -> Callable[[pa.Array, SparkType], Iterator[Any]]:
    """Return a function that tags the values of a column which has numbers."""

    def convert(column: pa.Array, _: SparkType) -> Iterator[Any]:
        numbers = column.cast(pa.int32() if pa.types.is_date32(column.type) else pa.int64())
        return (None if number is None else {tag: form(number)} for number in numbers.to_pylist())

    return convert


def _floats(column: pa.Array, _: SparkType) -> Iterator[Any]:
    return (None if value is None else tagged_float(value) for value in column.to_pylist())


def _decimals(column: pa.Array, _: SparkType) -> Iterator[Any]:
    for value in column.to_pylist():
        if value is None:
            yield None
            continue
        unscaled, scale = split_decimal(value)
        yield {"$bigdec": [str(unscaled), scale]}


def _intervals(column: pa.Array, of: SparkType) -> Iterator[Any]:
    """Yield intervals; those of days and time have no months, and are counted in nanoseconds alone."""
    if pa.types.is_duration(column.type):
        return _tagged("$interval", lambda micros: [0, 0, micros * 1000])(column, of)
    return (None if value is None else {"$interval": list(value)} for value in column.to_pylist())


def _civil(days: int) -> list[int]:
    """Return year, month and day."""
    day = np.datetime64(days, "D")
    month = day.astype("datetime64[M]")
    year = int(month.astype("datetime64[Y]").astype(int)) + 1970
    return [year, int(month.astype(int)) % 12 + 1, int((day - month.astype("datetime64[D]")).astype(int)) + 1]


def _instant(micros: int) -> list[int]:
    seconds, rest = divmod(micros, _MICROS)
    return [seconds, rest * 1000]


def _local(micros: int) -> list[int]:
    days, rest = divmod(micros, 86_400 * _MICROS)
    return [*_civil(days), *_clock(rest * 1000)]


def _clock(nanos: int) -> list[int]:
    seconds, rest = divmod(nanos, 1_000_000_000)
    return [seconds // 3600, seconds // 60 % 60, seconds % 60, rest]


_PARTS: dict[str, Callable[[pa.Array, SparkType], Iterator[Any]]] = {
    "struct": _structs,
    "array": _arrays,
    "map": _maps,
    "string": _texts,
    "char": _texts,
    "varchar": _texts,
    "float": _floats,
    "double": _floats,
    "binary": lambda column, _: (None if value is None else {"$bytes": value.hex()} for value in column.to_pylist()),
    "decimal": _decimals,
    "date": _tagged("$localdate", _civil),
    "timestamp": _tagged("$instant", _instant),
    "timestamp_ntz": _tagged("$localdatetime", _local),
    "time": _tagged("$localtime", _clock),
}
