"""SQL on state, run by DuckDB: each state of a savepoint, or of the checkpoint of a Spark query, is a table.

    with SqlSession(Savepoint.open("/data/sp-1")) as session:
        for row in session.run("select key, value.visits from account where key = 42").rows: ...

The table of a state is `"operator"."state"`, and `state` alone where only one operator has a state of that name. It has
the columns of Spark's data source `savepoint`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Self, TypeVar

import attrs
import duckdb

from ...compat.lazy_tables import state_in
from ...serializers.errors import DeclarationError, OldReaderUnavailable
from ..formats.spark.reader import SparkCheckpoint
from .dataset import StateDataset, StoreDataset
from .table import StateTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from ..savepoint.reader import Savepoint
    from .dataset import Rows

T = TypeVar("T")

_ROWS = 1_000
"""The rows that are taken of a result at a time."""


@attrs.frozen
class SqlTable:
    """A state as a table.

    Attributes:
        operator: The operator, which is the name of a schema.
        state: The state, which is the name of a table in it.
        rows: Its rows; None where they cannot be read.
        unreadable: Why they cannot, or "".
    """

    operator: str
    state: str
    rows: Rows | None = attrs.field(default=None, repr=False)
    unreadable: str = ""

    @property
    def columns(self) -> dict[str, str]:
        """The types of its columns by name, as DuckDB calls them; none where it cannot be read."""
        if self.rows is None:
            return {}
        return dict(zip(self.rows.schema.names, map(str, duckdb.from_arrow(self.rows).types), strict=True))


@attrs.frozen
class SqlResult:
    """The result of a statement.

    Attributes:
        columns: The names of its columns, and their types as DuckDB calls them.
        rows: The rows. Taking them raises the errors of reading state.
    """

    columns: tuple[tuple[str, str], ...]
    rows: Iterator[tuple[Any, ...]] = attrs.field(repr=False)


class SqlSession:
    """A database of DuckDB in memory in which states are tables. As a context manager it closes itself.

    Args:
        opened: A savepoint, or the checkpoint of a Spark query.
        exact: Whether big numbers and times of a savepoint are text, and rows have their kind.

    Attributes:
        tables: The tables.
        alone: The names of states that stand for one table.
    """

    def __init__(self, opened: Savepoint | SparkCheckpoint, *, exact: bool = False) -> None:
        self.tables = tuple(_tables(opened, exact=exact))
        self._connection = duckdb.connect(config={"python_enable_replacements": False})
        counts = Counter(table.state.lower() for table in self.tables)
        self.alone = frozenset(table.state for table in self.tables if counts[table.state.lower()] == 1)
        for number, table in enumerate(self.tables):
            if table.rows is None:
                continue
            self._connection.register(f"stateshift_{number}", table.rows)
            self._connection.execute(f"create schema if not exists {quoted(table.operator)}")
            names = [f"{quoted(table.operator)}.{quoted(table.state)}"]
            names += [quoted(table.state)] if table.state in self.alone else []
            for name in names:
                self._connection.execute(f"create view {name} as from stateshift_{number}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the database; no more rows can be taken."""
        self._connection.close()

    def run(self, statement: str) -> SqlResult:
        """Run a statement of SQL.

        Raises:
            DeclarationError: DuckDB refuses it; the message is DuckDB's.
            ValueNotConvertible, CorruptSavepoint: State cannot be read.
        """
        self._call(lambda: self._connection.execute(statement))
        described = self._connection.description or ()
        return SqlResult(tuple((name, str(kind)) for name, kind, *_ in described), self._rows())

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        while rows := self._call(lambda: self._connection.fetchmany(_ROWS)):
            yield from rows

    def _call(self, run: Callable[[], T]) -> T:
        try:
            return run()
        except duckdb.Error as error:
            for table in self.tables:
                if table.rows is not None and table.rows.error is not None:
                    raise table.rows.error from None
            what, *_ = str(error).split("\n\n")
            raise DeclarationError(f"DuckDB refuses the statement: {' '.join(what.split())}") from error


def quoted(name: str) -> str:
    """Return a name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


def _tables(opened: Savepoint | SparkCheckpoint, *, exact: bool) -> Iterator[SqlTable]:
    if isinstance(opened, SparkCheckpoint):
        for operator in opened.operators:
            for store in operator.states:
                rows = None if store.unsupported else StoreDataset(store)
                yield SqlTable(operator.title, store.name, rows, store.unsupported)
        return
    for one in opened.operators:
        for name in dict.fromkeys(state_in(state.name) if state.kind.is_keyed else state.name for state in one.states):
            try:
                yield SqlTable(one.title, name, StateDataset(StateTable.of(one, name, exact=exact)))
            except (OldReaderUnavailable, DeclarationError) as error:
                yield SqlTable(one.title, name, unreadable=error.what)
        if one.unreadable:
            yield SqlTable(one.title, "", unreadable=one.unreadable)
