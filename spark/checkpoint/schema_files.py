"""The files in which a state store says of which types its keys and values are.

    UTF "v1"    UTF key schema, UTF value schema
    UTF "v2"    i32 n, n x UTF: the key schema; i32 n, n x UTF: the value schema

Both lie in partition 0 of a store, as `_metadata/schema`; each schema is JSON. Source: notes on Spark, 4.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ...serializers.errors import CorruptFile, CorruptSavepoint, UnsupportedFormat
from ...serializers.views import DataInputView
from .spark_types import parse_struct

if TYPE_CHECKING:
    from .spark_types import SparkType


@attrs.frozen
class StoreSchema:
    """The types of a store's entries."""

    key: SparkType
    value: SparkType


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
            raise UnsupportedFormat(
                f"a schema file has version {version!r}; this release reads v1 and v2",
                advice="upgrade stateshift: a newer Spark wrote it",
                file=file,
            )
    except CorruptSavepoint as error:
        raise CorruptFile(f"a schema file is damaged: {error.what}", file=file) from error
    key, value = (parse_struct(text, file=file) for text in texts)
    return StoreSchema(key, value)


def _chunks(source: DataInputView) -> str:
    return "".join(source.read_utf() for _ in range(source.read_size("parts of a schema", least_bytes_each=2)))
