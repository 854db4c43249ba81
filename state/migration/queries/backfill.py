"""`Backfill`: the values of a new field by key, from a DataFrame: an aggregate over what the query once read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pyarrow as pa
from xxhash import xxh3_64_intdigest

from ....serializers.errors import DeclarationError, IncompatibleState, cause_text
from ....serializers.spark_rows.row_encoder import encode_rows, rows_of, validity_of
from ....serializers.spark_rows.rows import arrow_type, bitmap_of
from ....serializers.spark_rows.spark_types import SparkType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ....compat.queries.changes import Backfill


@attrs.frozen
class FilledColumn:
    """A field of values that a backfill fills.

    Attributes:
        index: The number of the field.
        path: Its path.
        values: Its values.
        rows: The number of the value by the bytes of the key.
        is_complete: Whether each key must have one.
        digest: What tells these values from others, in any order.
    """

    index: int
    path: str
    values: pa.Array = attrs.field(repr=False)
    rows: dict[bytes, int] = attrs.field(repr=False)
    is_complete: bool
    digest: int

    @classmethod
    def of(cls, fill: Backfill, path: str, key: SparkType, value: SparkType) -> FilledColumn:
        """Read the values of a field.

        Args:
            fill: Where they are.
            path: The path of the field, `value.NAME`, or that of a variable's value.
            key: The type of the new keys.
            value: The type of the new values.

        Raises:
            DeclarationError: A column is missing, or has values of another type, or a key has two rows.
        """
        table = fill.table
        names = [name for name, field in zip(key.names, key.fields, strict=True) if field.type.word != "void"]
        if missing := [name for name in (*names, fill.column) if name not in table.column_names]:
            raise DeclarationError.before_writing(
                f"the DataFrame that fills {path} has no column {', '.join(missing)}; it has"
                f" {', '.join(table.column_names)}",
                advice=f"name its columns as the fields of the key: {', '.join(names) or 'there are none'}",
            )
        index = value.names.index(path.partition(".")[2])
        try:
            keys = [
                pa.nulls(len(table)) if name not in names else _column(table, name, field.type)
                for name, field in zip(key.names, key.fields, strict=True)
            ]
            values = _column(table, fill.column, value.fields[index].type)
        except pa.ArrowException as error:
            raise DeclarationError.before_writing(
                f"the DataFrame that fills {path} has values of another type: {cause_text(error)}",
                advice=f"cast them: the key is {key.describe()}, the field {value.fields[index].type.describe()}",
            ) from error
        rows = {one: at for at, one in enumerate(_encoded(keys, key))}
        if len(rows) != len(table):
            raise DeclarationError.before_writing(
                f"the DataFrame that fills {path} has {len(table) - len(rows):,} rows of a key that has another row",
                advice=f"group it by {', '.join(names)}",
            )
        both = SparkType("struct", (*key.fields, value.fields[index]))
        digest = sum(map(xxh3_64_intdigest, _encoded([*keys, values], both))) % (1 << 64)
        return cls(index, path, values, rows, fill.is_complete, digest)

    def into(self, column: pa.StructArray, keys: Sequence[bytes]) -> pa.StructArray:
        """Return values with this field filled.

        Raises:
            IncompatibleState: A key has no row.
        """
        at = [self.rows.get(key) for key in keys]
        if self.is_complete and (lacking := at.count(None)):
            raise IncompatibleState(
                f"{lacking:,} of {len(at):,} keys in a block have no row in the DataFrame that fills {self.path}",
                advice="add their rows; or Backfill(…, is_complete=False), if they begin with null",
            )
        columns = [column.field(one) for one in range(column.type.num_fields)]
        columns[self.index] = self.values.take(pa.array(at, pa.int64()))
        fields = [pa.field(one.name, part.type) for one, part in zip(column.type, columns, strict=True)]
        bitmap = bitmap_of(validity_of(column))
        return pa.Array.from_buffers(pa.struct(fields), len(column), [bitmap], children=columns)


def _encoded(columns: list[pa.Array], of: SparkType) -> Sequence[bytes]:
    fields = [pa.field(name, one.type) for name, one in zip(of.names, columns, strict=True)]
    count = len(columns[0])
    return (
        rows_of(encode_rows(pa.Array.from_buffers(pa.struct(fields), count, [None], children=columns), of))
        if count
        else []
    )


def _column(table: pa.Table, name: str, of: SparkType) -> pa.Array:
    found = table[name].combine_chunks()
    column = found if isinstance(found, pa.Array) else pa.concat_arrays(found.chunks)
    return column.cast(arrow_type(of))
