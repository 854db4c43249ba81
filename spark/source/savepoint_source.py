"""The data source `savepoint`: its registration, its options, its schema, and its readers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import attrs
from pyspark.errors import PySparkTypeError
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema

from ...serializers.errors import DeclarationError, StateShiftError, located, redact_values, values_are_redacted
from ...serializers.registry import Additions, registry
from ...state.columnar.listing import LISTING, listing
from ...state.columnar.table import StateTable
from ...state.savepoint.chosen_keys import ChosenKeys
from ...state.savepoint.reader import Savepoint
from ...state.savepoint.written_keys import WrittenKey, choose, stored_key
from ...state.storage.files import Folder
from ..user_modules import shipped
from .options import bare, flag, number, refuse_unknown, roots
from .writer import StateWriter

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSourceWriter
    from pyspark.sql.types import StructType

    from ...state.columnar.table import Slice
    from ...state.savepoint.reader import SavepointOperator
    from ...state.storage.files import Root

ALL = "*"
_PLACES = ("path", "base")
_OPTIONS = ("operator", "state", "key", "key_group", "exact", "tasks", "path", "allow_roots", "checkpoint_roots")


class SavepointDataSource(DataSource):
    """Savepoints of Flink and stateshift as a Spark data source, registered by `stateshift.spark.register`.

    Options for reading; those for writing are in `writer`:
        operator: The uid or id of the operator. Not needed if only one has state.
        state: The name of the state; `*` or nothing lists all states.
        key: A key, as `stateshift get` takes it: only its entries are read, and only its key group if that is known.
        key_group: The number of a key group: only its entries are read.
        exact: `true`: big numbers and times as text, rows with their kind, exactly as they are stored.
        tasks: The approximate number of tasks to read with; by default two per core.
        allow_roots: Further folders that may contain files of the savepoint, separated by commas; see `Savepoint.open`.
        checkpoint_roots: Pairs OLD=NEW, separated by commas: files that a moved checkpoint names in OLD lie in NEW.
        path: The savepoint's folder or URI, the argument of `load`; relative to the current folder at registration.
    """

    tasks: ClassVar[int] = 8
    registered: ClassVar[Additions] = Additions()
    redacted: ClassVar[bool] = False
    home: ClassVar[str] = ""

    @classmethod
    def name(cls) -> str:
        return "savepoint"

    def schema(self) -> StructType:
        table = self._table()
        try:
            return from_arrow_schema(LISTING if table is None else table.schema, prefer_timestamp_ntz=True)
        except PySparkTypeError as error:
            raise bare(
                StateShiftError(
                    f"this release of Spark has no type for a column of the state: {error}",
                    advice="read it with option('exact', 'true'), which gives times of day as text, or on Spark 4.1",
                )
            ) from None

    def reader(self, schema: StructType) -> DataSourceReader:
        table = self._table()
        if table is None:
            return ListingReader(self._opened()[1], self.registered)
        return StateReader(table, number(self.options, "tasks") or self.tasks, self.registered, self.redacted)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001 - as Spark calls it
        registry.add(self.registered)
        redact_values(self.redacted)
        if self.home and self.home not in sys.path:
            sys.path.append(self.home)  # the module of a job may be there
        resolved = {name: self._resolved(str(self.options[name])) for name in _PLACES if name in self.options}
        allowed = self._allowed()
        options = {
            **self.options,
            **resolved,
            "allow_roots": ",".join(root for root in allowed if isinstance(root, str)),
            "checkpoint_roots": ",".join("=".join(root) for root in allowed if not isinstance(root, str)),
        }
        return StateWriter(options, schema, overwrite=overwrite)

    def _table(self) -> StateTable | None:
        """Return the table that the options name; None if they ask for the list of states."""
        try:
            return self._found()
        except StateShiftError as error:
            raise bare(error) from None

    def _found(self) -> StateTable | None:
        self._prepare()
        name = self.options.get("state", ALL)
        savepoint, found = self._opened()
        if name == ALL:
            return None
        operators = [operator for operator in found if operator.stored.has_state]
        if len(operators) != 1:
            titles = ", ".join(operator.title for operator in operators) or "none"
            raise StateShiftError(
                f"option('operator', …) is missing; operators with state are: {titles}",
                advice="pass a uid or id; option('state', '*') lists all states",
                savepoint=self._place(),
            )
        chosen = self._chosen(operators[0], is_of_flink=savepoint.is_of_flink)
        return StateTable.of(operators[0], name, exact=flag(self.options, "exact"), chosen=chosen)

    def _chosen(self, operator: SavepointOperator, *, is_of_flink: bool) -> ChosenKeys | None:
        """Return the choice of the key and the key group that the options name; None: all entries are read.

        Spark's filters do not choose them: up to 4.3, Spark reads a DataFrame that has no filter as it has read
        another one of the same `load` that has some.
        """
        key, group = self.options.get("key"), self.options.get("key_group")
        if key is None and group is None:
            return None
        if operator.key is None:
            raise DeclarationError("the options 'key' and 'key_group' are of keyed state, which the operator has not")
        chosen: ChosenKeys | None = ChosenKeys()
        if key is not None:
            chosen = choose(operator.key, [WrittenKey.of(key)], operator.max_parallelism)
        if chosen is None:
            raise DeclarationError(
                f"the option 'key' is {WrittenKey.of(key or '').shown}, and the keys are {operator.key.describe()}",
                advice=f"write it as a stored key is: {stored_key(operator) or 'there is none'}",
            )
        if not (chosen.is_certain or is_of_flink):
            chosen = chosen.everywhere  # earlier releases may have placed it by another hash
        if group is None:
            return chosen
        if not group.isdecimal() or not int(group) < operator.max_parallelism:
            raise DeclarationError(
                f"the option 'key_group' is {group!r}", advice=f"use a number below {operator.max_parallelism}"
            )
        groups = frozenset({int(group)})
        return attrs.evolve(chosen, key_groups=groups if chosen.key_groups is None else groups & chosen.key_groups)

    def _prepare(self) -> None:
        """Restore the registrations and settings of the registering process in this one; refuse unknown options."""
        registry.add(self.registered)
        redact_values(self.redacted)
        refuse_unknown(self.options, _OPTIONS, "read")

    def _opened(self) -> tuple[Savepoint, tuple[SavepointOperator, ...]]:
        """Return the savepoint, and the operator that the options name, or all operators."""
        savepoint = Savepoint.open(self._place(), allow_roots=self._allowed())
        with located(savepoint=savepoint.place):
            wanted = self.options.get("operator", ALL)
            return savepoint, savepoint.operators if wanted == ALL else (savepoint.operator(wanted),)

    def _place(self) -> str:
        place = self.options.get("path")
        if not place:
            raise StateShiftError("no savepoint was given", advice="give its folder or URI: .load('/data/savepoint-1')")
        return self._resolved(str(place))

    def _allowed(self) -> tuple[Root, ...]:
        return tuple(
            self._resolved(root) if isinstance(root, str) else (root[0], self._resolved(root[1]))
            for root in roots(self.options)
        )

    def _resolved(self, place: str) -> str:
        """Return a path relative to the folder that was current at registration: Spark's process has another one."""
        return str(Path(self.home) / place) if Folder(place).is_local else place


_TASKS_PER_CORE = 2


def register(session: SparkSession) -> SparkSession:
    """Register the format of `session.read.format("savepoint")`.

    Snapshot classes registered before (`register_snapshot`) are sent to the workers with the source, by value if
    their module is not installed: call this again after registering more. The workers import stateshift, which must be
    installed there.

    Args:
        session: Any session, including one of Spark Connect.

    Returns:
        The session.
    """
    # The class is sent to Spark's processes by value: it is created here, so that no module contains it.
    registered = registry.additions()
    facts = {
        "tasks": _cores(session) * _TASKS_PER_CORE,
        "registered": registered,
        "redacted": values_are_redacted(),
        "home": str(Path.cwd()),
        "__doc__": SavepointDataSource.__doc__,
    }
    with shipped(session, registered):
        session.dataSource.register(type("RegisteredSavepoints", (SavepointDataSource,), facts))
    return session


def _cores(session: SparkSession) -> int:
    """Return the number of tasks that the session runs at a time; with Spark Connect, which hides it, a constant."""
    try:
        return session.sparkContext.defaultParallelism
    except Exception:  # noqa: BLE001 - the type of its error differs between releases
        return 4


class StatePartition(InputPartition):
    """The part of a state that one task reads."""

    def __init__(self, piece: Slice) -> None:
        super().__init__(piece)


class StateReader(DataSourceReader):
    """Reads a state in slices of its key groups.

    Args:
        table: The state.
        tasks: The approximate number of slices.
        registered: What was registered in the driver.
        redacted: Whether messages leave out keys and values.
    """

    def __init__(self, table: StateTable, tasks: int, registered: Additions, redacted: bool) -> None:  # noqa: FBT001 - positional from the source
        self._table = table
        self._tasks = tasks
        self._registered = registered
        self._redacted = redacted

    def partitions(self) -> list[InputPartition]:
        return [StatePartition(piece) for piece in self._table.slices(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        registry.add(self._registered)
        redact_values(self._redacted)
        if isinstance(partition, StatePartition):  # Spark creates one of its own if there are none
            yield from self._table.read(partition.value)


class ListingReader(DataSourceReader):
    """Lists the states of some operators, each in a task of its own.

    Args:
        operators: The operators; opened once, because the state of a query that runs changes from batch to batch.
        registered: What was registered in the driver.
    """

    def __init__(self, operators: tuple[SavepointOperator, ...], registered: Additions) -> None:
        self._operators = operators
        self._registered = registered

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(operator) for operator in self._operators]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        registry.add(self._registered)
        if partition.value is not None:
            yield listing([partition.value])
