"""What a migration does with the state of an operator, as it was decided before anything is written.

A store is one of rows, which are converted as a whole; or the entries of a variable of transformWithState, or its
timers. Beside a variable Spark keeps what follows from it: keys by the end of their time to live, the lengths of lists,
timers by time. These families are derived from the variable's new entries. Source: `TTLState`, `ListStateMetricsImpl`
and `TimerStateImpl` of Spark 4.3.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs

from ....compat.description import StateKind
from ....compat.header_snapshots import Labels
from ....compat.plan import OperatorAction, OperatorPlan, StateAction, StatePlan
from ....compat.queries.kinds import OF_VARIABLES
from ....serializers.spark_rows.spark_types import SparkType
from .backfill import FilledColumn
from .conversion import Conversion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ....compat.queries.changes import FieldChanges
    from ....serializers.compatibility import Finding
    from ...formats.spark.reader import SparkOperator, SparkStore
    from .operator_files import OperatorFiles

_NOTHING = SparkType("struct")


@attrs.frozen
class Deadlines:
    """What is done with the times at which entries expire, in milliseconds since 1970.

    Attributes:
        were: Whether stored entries have one.
        are: Whether the new ones do.
        at_ms: The deadline of entries that had none.
        later_ms: By how much the others are later.
    """

    were: bool = False
    are: bool = False
    at_ms: int = 0
    later_ms: int = 0

    @property
    def is_changed(self) -> bool:
        """Whether the times of entries change."""
        return self.were is not self.are or self.later_ms != 0


@attrs.frozen
class StoreCopy:
    """What is done with a store of rows, with a variable, or with timers.

    Attributes:
        was: The stored entries; of an operator that starts empty, the new store, without entries.
        now: The new store: its name, types, and how they are laid out.
        key: The conversion of keys; of a variable, that of its grouping keys.
        value: The conversion of values, without their deadlines.
        groups: The columns of keys by which Spark finds their partitions, before and after.
        schema_file: The schema file of a store of rows, as Spark wrote it for the new types.
        is_same: Whether the bytes of all entries stay as they are; also those of its indexes.
        findings: What changes.
        indexes: The families that follow from a variable in the new query, by the word in their names.
        user_key: The conversion of the keys of a map.
        deadlines: What is done with the times at which entries expire.
        filled: The fields whose values a DataFrame has.
    """

    was: SparkStore = attrs.field(repr=False)
    now: SparkStore = attrs.field(repr=False)
    key: Conversion = attrs.field(factory=Conversion, repr=False)
    value: Conversion = attrs.field(factory=Conversion, repr=False)
    groups: tuple[SparkType, SparkType] = attrs.field(default=(_NOTHING, _NOTHING), repr=False)
    schema_file: bytes = attrs.field(default=b"", repr=False)
    is_same: bool = False
    findings: tuple[Finding, ...] = ()
    indexes: dict[str, SparkStore] = attrs.field(factory=dict, repr=False)
    user_key: Conversion = attrs.field(factory=Conversion, repr=False)
    deadlines: Deadlines = Deadlines()
    filled: tuple[FilledColumn, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing of it is stored."""
        return self.was.log.committed is None

    @property
    def moves(self) -> bool:
        """Whether entries move to other partitions."""
        return self.key.convert is not None

    @property
    def may_collide(self) -> bool:
        """Whether keys may become equal."""
        return bool(self.key.dropped or self.key.by_function or self.user_key.dropped)

    @property
    def value_type(self) -> SparkType:
        """The type of the new values, without their deadlines."""
        of = self.now.require_schema().value
        return of.fields[0].type if self.deadlines.are else of


@attrs.frozen
class OperatorCopy:
    """What is done with the state of an operator.

    Attributes:
        was: The operator of the old query; None: there is none, and it starts empty.
        now: The operator of the new query.
        stores: What is done with each store, or with each variable that has entries, and timers.
        changes: What the types do not say.
        files: What the copy says of types and variables, if stores are column families.
        added: The variables that are new.
        dropped: The variables, and timers, that the new query does not have.
    """

    was: SparkOperator | None
    now: SparkOperator
    stores: tuple[StoreCopy, ...]
    changes: FieldChanges
    files: OperatorFiles | None = attrs.field(default=None, repr=False)
    added: tuple[SparkStore, ...] = ()
    dropped: tuple[SparkStore, ...] = ()

    @property
    def number(self) -> int:
        """The number of the operator in the new query."""
        return self.now.number

    @property
    def old_number(self) -> int | None:
        """The number of the operator in the old query; None: there is none, and it starts empty."""
        return None if self.was is None else self.was.number

    @property
    def has_variables(self) -> bool:
        """Whether its state is in variables."""
        return self.files is not None and self.now.kind in OF_VARIABLES

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return self.files.partitions if self.has_variables and self.files is not None else self.stores[0].was.partitions

    @property
    def families(self) -> Iterator[SparkStore]:
        """The column families of the copy; Spark makes a counter of rows only for lists that do not expire."""
        made = {one.name for store in self.stores for one in store.indexes.values()}
        return (one for one in self.now.stores if not one.name.startswith("$rowCounter_") or one.name in made)

    @property
    def together(self) -> tuple[OperatorCopy, ...]:
        """The operator with those of its stores that have the same files; column families are in one database."""
        if self.has_variables:
            return (self,)
        found: dict[str, list[StoreCopy]] = {}
        for one in self.stores:
            found.setdefault(one.now.facts.name, []).append(one)
        return tuple(attrs.evolve(self, stores=tuple(stores)) for stores in found.values())

    @property
    def is_converted(self) -> bool:
        """Whether entries are rewritten; else the files are copied. Stores that have the same files go together."""
        return self.has_variables or any(one.is_empty or not one.is_same for one in self.stores)

    @property
    def facts(self) -> list[list[Any]]:
        """What tells from others what the copy will contain."""
        was = True if self.old_number is None else self.old_number
        if self.has_variables and self.files is not None:
            digests = (filled.digest for one in self.stores for filled in one.filled)
            types = self.files.schema.hex(), json.dumps(self.files.facts)
            return [[self.number, was, *types, *self.changes.digest(), *digests]]
        return [
            [self.number, was, one.was.name, one.schema_file.hex(), *self.changes.digest(),
             *(filled.digest for filled in one.filled)]
            for one in self.stores
        ]  # fmt: skip

    @property
    def plan(self) -> OperatorPlan:
        """What is done, for people."""
        states = tuple(self._states())
        action = OperatorAction.REWRITE if any(one.changes for one in states) else OperatorAction.COPY
        return OperatorPlan(str(self.number), self.now.title, action, None, relabels_key=False, states=states)

    def _states(self) -> Iterator[StatePlan]:
        for of in self.together:
            for one in of.stores:
                if one.is_empty:
                    yield _state(StateAction.NEW, None, one.now)
                else:
                    action = StateAction.CONVERT if of.is_converted else StateAction.COPY
                    yield _state(action, one.was, one.now, one.findings)
        yield from (_state(StateAction.NEW, None, one) for one in self.added)
        yield from (_state(StateAction.DROP, one, None) for one in self.dropped)

    def filled(self) -> OperatorCopy:
        """Read the values that DataFrames have for fields; errors as in `FilledColumn.of`."""
        return attrs.evolve(self, stores=tuple(map(self._filled, self.stores)))

    def _filled(self, one: StoreCopy) -> StoreCopy:
        key = one.groups[1] if self.has_variables else one.now.require_schema().key
        found = tuple(
            FilledColumn.of(fill, path, key, one.value_type)
            for path, fill in sorted(self.changes.backfills.items())
            if not self.has_variables or path.partition(".")[0] == one.now.name
        )
        return attrs.evolve(one, filled=found)


def _state(
    action: StateAction, was: SparkStore | None, now: SparkStore | None, findings: tuple[Finding, ...] = ()
) -> StatePlan:
    """Return what is done with a store or a variable; one of both sides may not have it."""
    sides = [one for one in (was, now) if one is not None]
    labels = [Labels.of(one.description) for one in sides if one.description is not None]
    name, new_name = sides[0].name, sides[-1].name if sides[-1].name != sides[0].name else ""
    return StatePlan(name, StateKind.VALUE, action, labels[0], labels[-1], findings=findings, new_name=new_name)
