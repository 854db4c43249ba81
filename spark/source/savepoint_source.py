"""The data source `savepoint`: its options, its schema, and the choice of reader."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pyspark.errors import PySparkTypeError
from pyspark.sql.datasource import DataSource
from pyspark.sql.pandas.types import from_arrow_schema

from ...serializers.errors import StateShiftError, located, redact_values
from ...serializers.registry import Additions, registry
from ...state.columnar.listing import LISTING
from ...state.columnar.table import StateTable
from ...state.savepoint.reader import Savepoint
from ...state.storage.files import Folder
from .options import bare, flag, number, refuse_unknown, roots
from .readers import ListingReader, StateReader
from .writer import StateWriter

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceWriter
    from pyspark.sql.types import StructType

    from ...state.savepoint.reader import SavepointOperator
    from ...state.storage.files import Root

ALL = "*"
_PLACES = ("path", "base")
_OPTIONS = ("operator", "state", "exact", "tasks", "path", "allow_roots", "checkpoint_roots")


class SavepointDataSource(DataSource):
    """Savepoints of Flink and stateshift as a Spark data source, registered by `stateshift.spark.register`.

    Options for reading; those for writing are in `writer`:
        operator: The uid or id of the operator. Not needed if only one has state.
        state: The name of the state; `*` or nothing lists all states.
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
            return ListingReader(self._operators(), self.registered)
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
        if name == ALL:
            self._operators()
            return None
        operators = [operator for operator in self._operators() if operator.stored.has_state]
        if len(operators) != 1:
            titles = ", ".join(operator.title for operator in operators) or "none"
            raise StateShiftError(
                f"option('operator', …) is missing; operators with state are: {titles}",
                advice="pass a uid or id; option('state', '*') lists all states",
                savepoint=self._place(),
            )
        return StateTable.of(operators[0], name, exact=flag(self.options, "exact"))

    def _prepare(self) -> None:
        """Restore the registrations and settings of the registering process in this one; refuse unknown options."""
        registry.add(self.registered)
        redact_values(self.redacted)
        refuse_unknown(self.options, _OPTIONS, "read")

    def _operators(self) -> tuple[SavepointOperator, ...]:
        """Return the operator that the options name, or all operators."""
        savepoint = Savepoint.open(self._place(), allow_roots=self._allowed())
        with located(savepoint=savepoint.place):
            wanted = self.options.get("operator", ALL)
            return savepoint.operators if wanted == ALL else (savepoint.operator(wanted),)

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
