"""What a migration does with the variables of a transformWithState, decided before anything is written.

Variables pair by name. A path begins with `key.` for a column of the grouping key; else with the name of a variable:

    count.n            a field of a value
    log[].n            one of the elements of a list
    seen{key}.n        one of the keys of a map
    seen{}.n           one of its values

Beside a variable Spark keeps what follows from it: keys by the end of their time to live, the lengths of lists, timers
by time. These families are derived from the variable's new entries. Source: `TTLState`, `ListStateMetricsImpl` and
`TimerStateImpl` of Spark 4.3.
"""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any

import attrs

from ....compat.plan import StateAction
from ....compat.queries.changes import FieldChanges
from ....compat.queries.kinds import TIME_TO_LIVE, TIMERS_BY_TIME
from ....compat.queries.problems import Asks, Problem, deadline_problem
from ....serializers.compatibility import Finding, Path, Verdict
from ....serializers.errors import UnsupportedFormat
from ....serializers.spark_rows.spark_types import SparkType
from .backfill import FilledColumn
from .conversion import Conversion, conversion, equal_keys
from .store_plan import planned_state

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ....compat.plan import StatePlan
    from ....compat.queries.store_pairs import OperatorPair, StorePair, Variable
    from ....serializers.spark_rows.pairing import FieldPair
    from ...formats.spark.logs import PlannedBatch
    from ...formats.spark.reader import SparkOperator, SparkStore
    from .operator_files import OperatorFiles

_EXPIRY = {True: "it expires", False: ""}


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
class VariablePlan:
    """What is done with a variable, or with the timers.

    Attributes:
        was: The stored entries.
        now: The new variable: its name, and the types of its entries.
        indexes: The families that follow from it in the new query, by the word in their names.
        user_key: The conversion of the keys of a map.
        value: The conversion of values, without their deadlines.
        type: The type of the new values, without their deadlines.
        deadlines: What is done with these.
        is_same: Whether the bytes of all entries stay as they are, also those of its indexes.
        findings: What changes.
        filled: The fields whose values a DataFrame has.
    """

    was: SparkStore = attrs.field(repr=False)
    now: SparkStore = attrs.field(repr=False)
    indexes: dict[str, SparkStore] = attrs.field(repr=False)
    user_key: Conversion = attrs.field(repr=False)
    value: Conversion = attrs.field(repr=False)
    type: SparkType = attrs.field(repr=False)
    deadlines: Deadlines = Deadlines()
    is_same: bool = False
    findings: tuple[Finding, ...] = ()
    filled: tuple[FilledColumn, ...] = ()

    @property
    def may_collide(self) -> bool:
        """Whether keys of a map may become equal."""
        return bool(self.user_key.dropped)


@attrs.frozen
class ProcessorPlan:
    """What is done with the variables of an operator.

    Attributes:
        operator: The operator of the old query; of one that starts empty, the new one.
        now: The operator of the new query.
        key: The conversion of the grouping key.
        key_types: The grouping key before and after.
        variables: What is done with each variable that has entries, and with timers.
        added: The names of the variables that are new.
        dropped: The variables, and timers, that the new query does not have.
        files: What the copy says of types and variables.
        changes: What the types do not say.
        is_empty: Whether the operator has no old one, and starts empty.
    """

    operator: SparkOperator
    now: SparkOperator
    key: Conversion = attrs.field(repr=False)
    key_types: tuple[SparkType, SparkType] = attrs.field(repr=False)
    variables: tuple[VariablePlan, ...]
    added: tuple[str, ...]
    dropped: tuple[SparkStore, ...]
    files: OperatorFiles = attrs.field(repr=False)
    changes: FieldChanges
    is_empty: bool = False

    @property
    def number(self) -> int:
        """The number of the operator in the new query."""
        return self.now.number

    @property
    def was(self) -> int | None:
        """The number of the old operator; None: there is none, and it starts empty."""
        return None if self.is_empty else self.operator.number

    @property
    def facts(self) -> list[Any]:
        """What tells from others what the copy will contain."""
        digests = (filled.digest for variable in self.variables for filled in variable.filled)
        return [
            self.number, self.is_empty or self.was, self.files.schema.hex(), json.dumps(self.files.facts),
            *self.changes.digest(), *digests,
        ]  # fmt: skip

    @property
    def kind(self) -> str:
        """The kind of the operator."""
        return self.now.kind

    def states(self) -> Iterator[StatePlan]:
        """Yield what is done with each variable, for people."""
        for one in self.variables:
            yield planned_state(StateAction.CONVERT, one.was, one.now, (*self.key.findings, *one.findings))
        new = _variables(self.now)
        yield from (planned_state(StateAction.NEW, None, new[name]) for name in self.added)
        yield from (planned_state(StateAction.DROP, store, None) for store in self.dropped)

    def filled(self) -> ProcessorPlan:
        """Read the values that DataFrames have for fields of variables; errors as in `FilledColumn.of`."""
        return attrs.evolve(self, variables=tuple(map(self._filled, self.variables)))

    def _filled(self, one: VariablePlan) -> VariablePlan:
        found = [
            FilledColumn.of(fill, path, self.key_types[1], one.type)
            for path, fill in sorted(self.changes.backfills.items())
            if path.partition(".")[0] == one.now.name
        ]
        return attrs.evolve(one, filled=tuple(found))


def empty_processor(now: SparkOperator, files: OperatorFiles) -> ProcessorPlan:
    """Return the plan of an operator that has no old one."""
    types = SparkType("struct")  # nothing of it is converted
    added = tuple(name for name in _variables(now) if not name.startswith("$"))
    return ProcessorPlan(now, now, Conversion(), (types, types), (), added, (), files, FieldChanges(), is_empty=True)


@attrs.define
class ProcessorPlanner:
    """Decides what is done with an operator's variables; why what is said does not fit is added to the problems.

    Attributes:
        was: The operator.
        now: The new operator.
        files: What the copy says of it.
        pair: What becomes of its variables.
        changes: What the types do not say.
        problems: The problems so far.
        is_done: As in `Said`.
        key: The conversion of the grouping key.
    """

    was: SparkOperator
    now: SparkOperator
    files: OperatorFiles
    pair: OperatorPair
    changes: FieldChanges
    problems: list[Problem]
    is_done: bool
    key: Conversion = attrs.field(factory=Conversion)

    def run(self) -> ProcessorPlan:
        """Return the plan; raises `UnsupportedFormat` if entries cannot be read."""
        for store in (*self.was.stores, *self.now.stores):
            if store.unsupported:
                raise UnsupportedFormat.before_writing(
                    store.unsupported, operator=self.was.title, state=store.name,
                    advice="start the new query with a new checkpoint",
                )  # fmt: skip
        old, new = _variables(self.was), _variables(self.now)
        groups = SparkType("struct"), SparkType("struct")  # without stores nothing of it is converted
        if self.pair.stores:
            group = self.pair.stores[0].parts[0]
            self.key, groups = self._converted(group), group.types
        variables = [self._variable(old[one.source], new[one.store], one) for one in self.pair.stores]
        dropped = (*(old[name] for name in self.pair.gone), *(one for one in self.was.forgotten if not one.is_index))
        added = tuple(name for name in self.pair.added if name[0] != "$")
        return ProcessorPlan(
            self.was, self.now, self.key, groups, tuple(variables), added, dropped, self.files, self.changes
        )

    def _converted(self, pair: FieldPair) -> Conversion:
        found = conversion(pair, self.changes)
        self.problems += found.problems
        return found

    def _variable(self, was: SparkStore, now: SparkStore, pair: StorePair) -> VariablePlan:
        before, after = pair.variables or (None, None)
        indexes = _indexes(self.now, now.name, after)
        is_same = self.key.convert is None and self._has_same_ids(was, before)
        if before is None or after is None:
            nothing = SparkType("struct")
            return VariablePlan(was, now, indexes, Conversion(), Conversion(), nothing, is_same=is_same)
        *keys, value = map(self._converted, pair.parts[1:] or pair.parts)
        user_key = keys[0] if keys else Conversion()
        findings: list[Finding] = []
        deadlines = self._deadlines(now.name, was.log.last, before, after, findings)
        findings += (*user_key.findings, *value.findings, *equal_keys(user_key, after.value, pair.parts[-1].path))
        is_same = is_same and user_key.convert is None and value.convert is None and not deadlines.is_changed
        return VariablePlan(was, now, indexes, user_key, value, after.value, deadlines, is_same, tuple(findings))

    def _has_same_ids(self, was: SparkStore, variable: Variable | None) -> bool:
        """Whether stored rows have the ids of types that those of a copy have."""
        planned = was.log.last
        if planned is None or planned.encoding != "avro":
            return True
        stores = (was, *_indexes(self.was, was.name, variable).values())
        return all(one.family is not None and {*one.family.writers} == {0} for one in stores)

    def _deadlines(
        self, name: str, planned: PlannedBatch | None, was: Variable, now: Variable, findings: list[Finding]
    ) -> Deadlines:
        def tell(reason: str) -> None:
            path = Path.naming(TIME_TO_LIVE + name, name)
            findings.append(Finding(path, "SPK-14", Verdict.REQUIRES_MIGRATION, _EXPIRY[were], _EXPIRY[are], reason))

        said, were, are = self.changes.ttls.get(name, ""), was.expires, now.expires
        if deadline_problem(was, now, said):
            return Deadlines(were, are)
        if were and not are:
            tell("its entries have no time to live now; those that had not been removed stay")
        if not said or planned is None:
            return Deadlines(were, are)
        if were:
            tell(f"each entry expires {int(said):+,} ms from when it did")
            return Deadlines(were, are, later_ms=int(said))
        at_ms = planned.time_ms + int(said)
        tell(f"stored entries expire {_time_text(at_ms)}, {int(said):,} ms after the last batch")
        if not self.is_done and at_ms <= dt.datetime.now(dt.UTC).timestamp() * 1000:
            told = (
                f"{int(said):,} ms after the last batch, which was {_time_text(planned.time_ms)}, have passed: the"
                " first batch would remove every entry; say a longer time for what is stored"
            )
            self.problems.append(Problem(Asks.DEADLINE, told, name))
        return Deadlines(were, are, at_ms=at_ms)


def _time_text(milliseconds: int) -> str:
    return dt.datetime.fromtimestamp(milliseconds // 1000, dt.UTC).isoformat(sep=" ")


def _variables(operator: SparkOperator) -> dict[str, SparkStore]:
    """Return the variables of an operator, and its timers, by name."""
    names = {*operator.facts.variables}
    return {one.name: one for one in operator.stores if one.name in names and not one.is_index}


def _indexes(operator: SparkOperator, name: str, variable: Variable | None) -> dict[str, SparkStore]:
    """Return the families that follow from a variable, by the word in their names; None: from timers."""
    if variable is None:
        return {"timers": operator.index(next(by_time for by_time, of in TIMERS_BY_TIME.items() if of == name))}
    found = {one.name: one for one in operator.stores}
    return {word: found[index] for word in variable.indexes if (index := f"${word}_{name}") in found}
