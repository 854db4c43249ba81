"""Rows that an operator passes over: those that do not fit its type, and those without a key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa

from ...serializers.errors import ValueNotConvertible
from ...state.columnar.key_columns import encoded_keys, key_column
from ...state.streaming.slot import Elements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ...serializers.serializer import TypeSerializer
    from ...state.streaming.slot import SlotTask
    from .elements import ElementReader


def key_error(batch: pa.RecordBatch, names: Sequence[str]) -> ValueNotConvertible | None:
    """Return the error of a null in the key of some rows; None: there is none."""
    for name in names:
        if batch.column(name).null_count:
            return ValueNotConvertible(
                f"there is a null in the key column {name!r}, but a key cannot be null",
                advice=f'remove such rows: .dropna(subset=["{name}"]); or pass on_error="skip" to process(…)',
            )
    return None


def check_keys(batch: pa.RecordBatch, key: TypeSerializer[Any], names: Sequence[str]) -> None:
    """Raise `ValueNotConvertible` if a row has no key."""
    error = key_error(batch, names)
    if error is not None:
        raise error
    encoded_keys(key, key_column(key, [batch.column(name) for name in names]), 1)


def divided(
    batch: pa.RecordBatch, check: Callable[[pa.RecordBatch], Any]
) -> tuple[pa.RecordBatch, list[tuple[pa.RecordBatch, ValueNotConvertible]]]:
    """Return the rows that pass a check, and the other rows, each with its error.

    Few bad rows cost few checks: what fails is halved.
    """
    found = list(_checked(batch, check))
    bad = [(rows, error) for rows, error in found if error is not None]
    if not bad:
        return batch, []
    good = [rows for rows, error in found if error is None]
    return pa.concat_batches(good) if good else batch.slice(0, 0), bad


def _checked(
    batch: pa.RecordBatch, check: Callable[[pa.RecordBatch], Any]
) -> Iterator[tuple[pa.RecordBatch, ValueNotConvertible | None]]:
    try:
        check(batch)
    except ValueNotConvertible as error:
        if batch.num_rows == 1:
            yield batch, error
            return
    else:
        yield batch, None
        return
    half = batch.num_rows // 2
    yield from _checked(batch.slice(0, half), check)
    yield from _checked(batch.slice(half), check)


@attrs.frozen
class ToleratingReader:
    """Makes elements of rows, and leaves out rows that are not valid: the task passes over their errors.

    Attributes:
        reader: Makes elements of rows.
        task: The slot.
    """

    reader: ElementReader
    task: SlotTask

    @property
    def time_column(self) -> str:
        """The column of the time stamps; "": there is none."""
        return self.reader.time_column

    def read(self, index: int, batch: pa.RecordBatch) -> Elements:
        """Return the elements of some rows of an input, as an `ElementReader`."""
        return self._read(index, batch, lambda rows: self.reader.read(index, rows))

    def read_by_key(
        self, index: int, batch: pa.RecordBatch, stored: TypeSerializer[Any] | None, max_parallelism: int
    ) -> Elements:
        """Return the elements of some rows of an input, as an `ElementReader`."""
        return self._read(index, batch, lambda rows: self.reader.read_by_key(index, rows, stored, max_parallelism))

    def _read(self, index: int, batch: pa.RecordBatch, read: Callable[[pa.RecordBatch], Elements]) -> Elements:
        key, found = self.reader.key, Elements(index, None, ())

        def check(rows: pa.RecordBatch) -> None:
            nonlocal found
            if key is not None:
                check_keys(rows, key, self.reader.key_columns)
            found = read(rows)

        good, bad = divided(batch, check)
        for row, error in bad:
            (values,) = row.to_pylist()
            names = self.reader.key_columns
            of_key = None if key is None else tuple(values[name] for name in names) if names[1:] else values[names[0]]
            self.task.pass_over(error, (None, index, of_key, values))
        if not bad:
            return found  # of all rows
        return read(good) if good.num_rows else Elements(index, None if key is None else [], ())


def tolerant(reader: ElementReader, task: SlotTask) -> ElementReader | ToleratingReader:
    """Return the reader of a task's elements: one that leaves out bad rows, if the task tolerates them."""
    return ToleratingReader(reader, task) if task.tolerates else reader


def without_bad_keys(
    batch: pa.RecordBatch, key: TypeSerializer[Any], names: Sequence[str]
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Return the rows that have keys, and the others."""
    good, bad = divided(batch, lambda rows: check_keys(rows, key, names))
    return good, pa.concat_batches([rows for rows, _ in bad]) if bad else batch.slice(0, 0)
