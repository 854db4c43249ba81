"""States as datasets of Arrow, which DuckDB, Polars and others read as tables of their own.

    accounts = savepoint.dataset("account")
    duckdb.sql("select key, value.visits from accounts where key = 42")

`Savepoint.dataset` returns one. Columns that a query does not need are not decoded. A filter that leaves some values to
`key` or `key_group` reads only the key groups that can have them. Every filter is applied to all that is read.
"""

from __future__ import annotations

from abc import abstractmethod
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa
import pyarrow.dataset as ds

from ...compat.lazy_tables import state_in
from ...serializers.errors import StateNotFound, StateShiftError
from .filter_values import refers_to, values_left
from .listing import listing
from .table import StateTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..formats.spark.reader import SparkStore
    from ..savepoint.reader import Savepoint


@attrs.define
class Scan:
    """What is read for a query.

    Attributes:
        columns: The columns that are decoded.
        key_groups: The key groups that can have what is asked for; None: any.
        rows: The number of rows that were read so far.
    """

    columns: tuple[str, ...]
    key_groups: frozenset[int] | None = None
    rows: int = 0


class Rows(ds.Dataset):  # type: ignore[misc] # it has no types
    """A dataset whose rows are decoded when they are asked for.

    Attributes:
        scans: What was read for each query so far.
        error: The error that ended a query, since other libraries only keep its text.
    """

    def __init__(self) -> None:
        self.scans: list[Scan] = []
        self.error: StateShiftError | None = None
        self._context = copy_context()

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The schema of the columns."""

    @abstractmethod
    def _batches(self, scan: Scan) -> Iterator[pa.RecordBatch]:
        """Yield what is to be read, with its columns in the order of the schema."""

    def _key_groups(self, expression: Any) -> frozenset[int] | None:
        """Return the key groups that can have rows for a filter; None: all of them."""
        return None

    def scanner(self, columns: Any = None, filter: Any = None, **options: Any) -> ds.Scanner:  # noqa: A002 - as pyarrow
        """Return a scanner of what a query asks for: all other methods read by it.

        Args:
            columns: The names of the columns, or expressions by name; None: all columns.
            filter: An expression that is true for the rows to return; None: all rows.
            options: Other arguments of `pyarrow.dataset.Scanner.from_batches`.

        Raises:
            ValueNotConvertible: A column cannot represent a value; the error has key and path.
            CorruptSavepoint: The bytes are damaged; the error has file, offset, key and path.
        """
        scan = Scan(self._needed(columns, filter), self._key_groups(filter))
        self.scans.append(scan)
        schema = pa.schema([self.schema.field(name) for name in scan.columns])
        return ds.Scanner.from_batches(self._read(scan), schema=schema, columns=columns, filter=filter, **options)

    def _read(self, scan: Scan) -> Iterator[pa.RecordBatch]:
        batches, context = self._batches(scan), self._context.copy()  # threads of other libraries have their own
        try:
            while (batch := context.run(next, batches, None)) is not None:
                scan.rows += batch.num_rows
                yield batch
        except StateShiftError as error:
            self.error = error
            raise

    def _needed(self, columns: Any, expression: Any) -> tuple[str, ...]:
        """Return the columns that a query needs; at least one, whose length is the number of rows."""
        names: list[str] = self.schema.names
        if columns is None:
            return tuple(names)
        asked = columns.values() if isinstance(columns, dict) else ()
        named = set() if isinstance(columns, dict) else {*columns}
        expressions = [one for one in (expression, *asked) if one is not None]
        needed = [
            name for name in names if name in named or any(refers_to(one, name, self.schema) for one in expressions)
        ]
        return tuple(needed or names[:1])


class StateDataset(Rows):
    """A state of a savepoint.

    Attributes:
        table: The state.
    """

    def __init__(self, table: StateTable) -> None:
        super().__init__()
        self.table = table

    @property
    def schema(self) -> pa.Schema:
        """The schema of the columns."""
        return self.table.schema

    def _batches(self, scan: Scan) -> Iterator[pa.RecordBatch]:
        for piece in self.table.slices(1, scan.key_groups):
            yield from self.table.read(piece, key_groups=scan.key_groups, columns=scan.columns)

    def _key_groups(self, expression: Any) -> frozenset[int] | None:
        if expression is None or not self.table.kind.is_keyed:
            return None
        found = []
        groups = values_left(expression, "key_group", self.schema)
        if groups is not None:
            found.append(frozenset(groups))
        keys = values_left(expression, "key", self.schema)
        of_keys = None if keys is None else self._groups_of(keys)
        if of_keys is not None:
            found.append(frozenset(of_keys))
        return frozenset.intersection(*found) if found else None

    def _groups_of(self, keys: list[Any]) -> set[int] | None:
        try:
            return self.table.groups_of(keys)
        except StateShiftError:  # a value that no key can have
            return None


class StoreDataset(Rows):
    """A state of a Spark query.

    Attributes:
        store: The state.
    """

    def __init__(self, store: SparkStore) -> None:
        super().__init__()
        self.store = store

    @property
    def schema(self) -> pa.Schema:
        """The schema of the columns."""
        return self.store.arrow_schema

    def _batches(self, scan: Scan) -> Iterator[pa.RecordBatch]:
        for block in self.store.blocks():
            yield pa.RecordBatch.from_arrays([block.key, block.value], schema=self.schema).select(scan.columns)


def dataset_of(savepoint: Savepoint, name: str | None, operator: str | None, *, exact: bool) -> ds.Dataset:
    """Return the dataset of a state, or of all states; arguments and errors as those of `Savepoint.dataset`."""
    operators = savepoint.operators if operator is None else (savepoint.operator(operator),)
    if name is None:
        return ds.dataset([listing(operators)])
    named = [one for one in operators if any(name in {state.name, state_in(state.name)} for state in one.states)]
    if len(named) == 1:
        return StateDataset(StateTable.of(named[0], name, exact=exact))
    if operator is not None:
        operators[0].state(name)  # it raises the error
    if named:
        titles = ", ".join(one.title for one in named)
        raise StateNotFound(
            f"several operators have a state {name!r}: {titles}", advice="pass operator=…", savepoint=savepoint.place
        )
    known = sorted({state_in(state.name) for one in operators for state in one.states})
    raise StateNotFound(
        f"no operator has a state {name!r}; there are: {', '.join(known) or 'none'}", savepoint=savepoint.place
    )
