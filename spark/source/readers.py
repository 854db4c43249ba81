"""Readers of the data source: one for the rows of a state, one for the list of states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from ...serializers.errors import StateShiftError, redact_values
from ...serializers.registry import registry
from ...state.columnar.listing import listing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql.datasource import Filter

    from ...serializers.registry import Additions
    from ...state.columnar.table import Slice, StateTable
    from ...state.savepoint.reader import SavepointOperator


class StatePartition(InputPartition):
    """The part that one task reads."""

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
        self._keys: list[Any] | None = None
        self._key_groups: set[int] | None = None

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - as Spark calls it
        """Use filters on one or several values of `key` and `key_group` to read only their key groups.

        All filters are returned, since Spark has to apply them again. Spark 4.0 does not call this method.
        """
        from pyspark.sql.datasource import EqualNullSafe, EqualTo, In  # since Spark 4.1

        for one in filters:
            if isinstance(one, EqualTo | EqualNullSafe):
                self._restrict(one.attribute, [one.value])
            elif isinstance(one, In):
                self._restrict(one.attribute, list(one.value))
        return filters

    def _restrict(self, column: tuple[str, ...], values: list[Any]) -> None:
        values = [value for value in values if value is not None]
        groups: set[int] | None = None
        if column == ("key_group",) and "key_group" in self._table.schema.names:
            groups = set(values)
        elif column == ("key",):
            try:
                groups = self._table.groups_of(values)
            except StateShiftError:  # a value that no key can have: Spark will find no row
                return
            if groups is not None:
                self._keys = values if self._keys is None else [value for value in self._keys if value in values]
        if groups is not None:
            self._key_groups = groups if self._key_groups is None else self._key_groups & groups

    def partitions(self) -> list[InputPartition]:
        return [StatePartition(piece) for piece in self._table.slices(self._tasks, self._key_groups)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        registry.add(self._registered)
        redact_values(self._redacted)
        if isinstance(partition, StatePartition):  # Spark creates one of its own if there are none
            yield from self._table.read(partition.value, keys=self._keys, key_groups=self._key_groups)


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
