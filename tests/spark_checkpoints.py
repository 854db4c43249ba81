"""The checkpoints in tests/fixtures/spark-4.3, and what Spark's own state reader says of them, as an export has it.

Spark's answers are the text of its `to_json`, which knows neither tags nor microseconds as numbers: `as_exported` turns
a value of it into what `stateshift export` prints.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import re
import struct
from collections import Counter
from decimal import Context, Decimal
from pathlib import Path

from stateshift.serializers.spark_rows.json_values import json_values

FIXTURES = Path(__file__).parent / "fixtures" / "spark-4.3"
EXACT = Context(prec=60)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def names():
    return sorted(folder.name for folder in FIXTURES.iterdir() if (folder / "checkpoint").is_dir())


def place(name):
    return FIXTURES / name / "checkpoint"


def expected(name):
    """What Spark says of each store: operator, name, partitions, batches, and rows, or an error."""
    return json.loads((FIXTURES / name / "expected.json").read_text(encoding="utf-8"))


def parsed(line):
    """A row of Spark: partition, key and value; objects are lists of pairs, since names may occur twice.

    An element of a list, an entry of a map and a timer have columns of their own; here they are as they are stored.
    """
    row = dict(json.loads(line, object_pairs_hook=list, parse_float=Decimal))
    key, value = row.get("key"), row.get("list_element", row.get("user_map_value", row.get("value")))
    if "user_map_key" in row:
        key = [("key", key), ("userKey", row["user_map_key"])]
    if "expiration_timestamp_ms" in row:
        key, value = [("key", key), ("expiryTimestampMs", row["expiration_timestamp_ms"])], [("__dummy__", None)]
    return row["partition_id"], key, value


def as_exported(value, of):
    """Turn a value of `to_json` into its form in an export."""
    if value is None:
        return None
    if of.word == "struct":
        values = [item for _, item in value]
        return {
            name: as_exported(item, field.type) for name, item, field in zip(of.names, values, of.fields, strict=True)
        }
    if of.word == "array":
        return [as_exported(item, of.fields[0].type) for item in value]
    if of.word == "map":
        pairs = [[key, as_exported(item, of.fields[1].type)] for key, item in value]
        return {"$map": sorted(pairs, key=lambda pair: json.dumps(pair, sort_keys=True))}
    convert = _SCALARS.get(of.word) or (_interval if of.word.startswith("interval") else None)
    return value if convert is None else convert(value, of)


def _float(value, _):
    return {"$double": value} if isinstance(value, str) else float(value)


def _short_float(value, _):
    if isinstance(value, str):
        return {"$double": value}
    return struct.unpack("<f", struct.pack("<f", float(value)))[0]


def _decimal(value, of):
    return {"$bigdec": [str(int(EXACT.scaleb(Decimal(value), of.scale))), of.scale]}


def _date(value, _):
    day = dt.date.fromisoformat(value)
    return {"$localdate": [day.year, day.month, day.day]}


def _instant(value, _):
    since = dt.datetime.fromisoformat(value) - EPOCH
    return {"$instant": [since.days * 86_400 + since.seconds, since.microseconds * 1000]}


def _local(value, _):
    at = dt.datetime.fromisoformat(value)
    return {"$localdatetime": [at.year, at.month, at.day, at.hour, at.minute, at.second, at.microsecond * 1000]}


def _interval(value, of):
    text = re.fullmatch(r"INTERVAL '(-?)(.*)' .*", value)
    sign = -1 if text[1] else 1
    if "month" in of.word or "year" in of.word:
        years, _, months = text[2].rpartition("-")
        return {"$interval": [sign * (int(years or 0) * 12 + int(months)), 0, 0]}
    days, _, clock = text[2].rpartition(" ")
    hours, minutes, seconds = clock.split(":")
    whole = ((int(days or 0) * 24 + int(hours)) * 60 + int(minutes)) * 60
    return {"$interval": [0, 0, sign * (whole * 10**9 + int(Decimal(seconds) * 10**9))]}


_SCALARS = {
    "float": _short_float,
    "double": _float,
    "decimal": _decimal,
    "date": _date,
    "timestamp": _instant,
    "timestamp_ntz": _local,
    "binary": lambda value, _: {"$bytes": base64.b64decode(value).hex()},
}


def rows_of(store):
    """The entries of a store as an export has them, with their partitions."""
    found = Counter()
    for block in store.blocks():
        block.key.validate(full=True)
        block.value.validate(full=True)
        keys, values = json_values(block.key, store.schema.key), json_values(block.value, store.schema.value)
        found.update(json.dumps([block.partition, key, value]) for key, value in zip(keys, values, strict=True))
    return found
