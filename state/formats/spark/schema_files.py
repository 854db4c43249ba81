"""The schema files of a state store: the types of its keys and values.

    UTF "v1"    UTF key schema, UTF value schema
    UTF "v2"    i32 n, n x UTF: the key schema; i32 n, n x UTF: the value schema
    UTF "v3"    i32 families, of each: UTF name, i16 id, key schema as in v2, i16 id, value schema as in v2,
                i32 n, n x UTF: how keys are laid out; i32 n, n x UTF: the schema of the user keys of a map

The first two lie in partition 0 of a store, as `_metadata/schema`; v3 beside the partitions, as
`_stateSchema/default/BATCH_ID`: a new file where a schema changed. Each schema is JSON. Source: notes on Spark, 4.1,
and `StateSchemaCompatibilityChecker` of Spark 4.3.
"""

from __future__ import annotations

import json
from typing import Any

import attrs

from ....serializers.errors import CorruptFile, CorruptSavepoint, UnsupportedFormat, cause_text
from ....serializers.spark_rows.spark_types import StoreSchema, parse_struct
from ....serializers.views import DataInputView


@attrs.frozen
class KeyLayout:
    """How the bytes of a key in RocksDB contain its row.

    Attributes:
        kind: `row`; `prefix`, the first columns apart; `range`, some columns as bytes that sort like them; `time first`
            or `time last`, the last column as such bytes.
        columns: The columns that are apart.
    """

    kind: str = "row"
    columns: tuple[int, ...] = ()

    @classmethod
    def of_prefix(cls, columns: int) -> KeyLayout:
        """Return the layout with a prefix of so many columns; 0: without a prefix."""
        return cls("prefix", tuple(range(columns))) if columns else cls()


@attrs.frozen
class ColumnFamily:
    """A part of a store that has a name and types of its own: a variable, an index, or a side of a join.

    Attributes:
        name: Its name.
        schema: The types.
        layout: How keys are laid out.
        key_id: The version of the key's type; with avro it is in front of each key.
        value_id: The version of the value's type, likewise.
    """

    name: str
    schema: StoreSchema
    layout: KeyLayout
    key_id: int
    value_id: int


def read_schema(data: bytes, file: str) -> StoreSchema:
    """Return the schema that a file contains.

    Raises:
        CorruptFile: The file is damaged.
        UnsupportedFormat: It has a version that this release does not read.
    """
    source = DataInputView(data)
    try:
        version = source.read_utf()
        if version == "v1":
            texts = [source.read_utf(), source.read_utf()]
        elif version == "v2":
            texts = [_chunks(source), _chunks(source)]
        else:
            raise _newer(version, "v1 and v2", file)
    except CorruptSavepoint as error:
        raise _damaged(error.what, file) from error
    key, value = (parse_struct(text, file=file) for text in texts)
    return StoreSchema(key, value)


def read_families(data: bytes, file: str) -> tuple[ColumnFamily, ...]:
    """Return the column families that a file describes.

    Raises:
        CorruptFile: The file is damaged.
        UnsupportedFormat: It has a version, or a layout of keys, that this release does not read.
    """
    source = DataInputView(data)
    try:
        version = source.read_utf()
        if version != "v3":
            raise _newer(version, "v3", file)
        return tuple(_family(source, file) for _ in range(source.read_size("column families", least_bytes_each=22)))
    except CorruptSavepoint as error:
        raise _damaged(error.what, file) from error


def _family(source: DataInputView, file: str) -> ColumnFamily:
    name, key_id = source.read_utf(), source.read_short()
    key, value_id = parse_struct(_chunks(source), file=file), source.read_short()
    value, layout = parse_struct(_chunks(source), file=file), _chunks(source)
    _chunks(source)  # the schema of the user keys is a part of that of the keys
    return ColumnFamily(name, StoreSchema(key, value), _layout(layout, len(key.fields), file), key_id, value_id)


def _layout(text: str, fields: int, file: str) -> KeyLayout:
    try:
        said: dict[str, Any] = json.loads(text)
        name = said["keyStateEncoderType"]
        columns = tuple(map(int, said.get("orderingOrdinals") or range(said.get("numColsPrefixKey") or 0)))
        if not {*columns} <= {*range(fields)}:
            raise ValueError(f"a key of {fields} fields has none of the number {max(columns)}")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(f"the layout of keys: {cause_text(error)}", file) from error
    if name not in _LAYOUTS:
        raise UnsupportedFormat(f"keys are laid out by {name}, which this release does not read", file=file)
    return KeyLayout(_LAYOUTS[name], columns)


_LAYOUTS = {
    "NoPrefixKeyStateEncoderSpec": "row",
    "PrefixKeyScanStateEncoderSpec": "prefix",
    "RangeKeyScanStateEncoderSpec": "range",
    "TimestampAsPrefixKeyStateEncoderSpec": "time first",
    "TimestampAsPostfixKeyStateEncoderSpec": "time last",
}


def _newer(version: str, known: str, file: str) -> UnsupportedFormat:
    return UnsupportedFormat(
        f"a schema file has version {version!r}; this release reads {known}",
        advice="upgrade stateshift: a newer Spark wrote it",
        file=file,
    )


def _damaged(what: str, file: str) -> CorruptFile:
    return CorruptFile(f"a schema file is damaged: {what}", file=file)


def _chunks(source: DataInputView) -> str:
    return "".join(source.read_utf() for _ in range(source.read_size("parts of a schema", least_bytes_each=2)))
