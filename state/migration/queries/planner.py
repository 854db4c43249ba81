"""The planner: it decides what is done with the stores of an operator, which the check has paired.

Variables pair by name. A path begins with `key.` for a column of the grouping key; else with the name of a variable:

    count.n            a field of a value
    log[].n            one of the elements of a list
    seen{key}.n        one of the keys of a map
    seen{}.n           one of its values
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import attrs

from ....compat.queries.changes import FieldChanges
from ....compat.queries.kinds import OF_VARIABLES, SESSION, TIME_TO_LIVE, TIMERS_BY_TIME
from ....compat.queries.problems import deadline_problem, problem
from ....serializers.compatibility import Finding, Path, Verdict
from ....serializers.errors import UnsupportedFormat
from ...formats.spark.families import SCHEMAS
from ...formats.spark.operators import METADATA
from .conversion import Conversion, conversion, equal_keys
from .operator_copy import Deadlines, OperatorCopy, StoreCopy

if TYPE_CHECKING:
    from ....compat.queries.store_pairs import OperatorPair, StorePair, Variable
    from ....serializers.spark_rows.pairing import FieldPair
    from ....serializers.spark_rows.spark_types import SparkType
    from ...formats.spark.logs import BatchLog, PlannedBatch
    from ...formats.spark.reader import SparkCheckpoint, SparkOperator, SparkStore
    from .operator_files import OperatorFiles

_ROWS_OF_JOINS = ("-keyWithIndexToValue", "-keyWithTsToValues", "-tsWithKey")
_EXPIRY = {True: "it expires", False: ""}


def with_partitions(store: SparkStore, old: SparkCheckpoint) -> SparkStore:
    """Return a store of the new query with as many partitions as those of the old one."""
    return attrs.evolve(store, facts=attrs.evolve(store.facts, partitions=old.partitions))


def empty_copy(now: SparkOperator, files: OperatorFiles | None, old: SparkCheckpoint, log: BatchLog) -> OperatorCopy:
    """Return what is done with an operator that has no old one."""
    if files is not None and now.kind in OF_VARIABLES:
        added = tuple(one for name, one in _variables(now).items() if not name.startswith("$"))
        return OperatorCopy(None, now, (), FieldChanges(), files, added)
    without = attrs.evolve(log, committed=None)
    stores = (
        StoreCopy(attrs.evolve(with_partitions(one, old), log=without), one, schema_file=_schema_file(one))
        for one in now.stores
    )
    return OperatorCopy(None, now, tuple(stores), FieldChanges(), files)


@attrs.define
class OperatorPlanner:
    """Decides what is done with an operator's state; why what is said does not fit is added to the problems.

    Attributes:
        was: The operator.
        now: The new operator.
        files: What the copy says of it, if its stores are column families.
        pair: What becomes of its stores.
        changes: What the types do not say.
        problems: The problems so far.
        is_done: As in `Said`.
    """

    was: SparkOperator
    now: SparkOperator
    files: OperatorFiles | None
    pair: OperatorPair
    changes: FieldChanges
    problems: list[Finding]
    is_done: bool

    def run(self) -> OperatorCopy:
        """Return the decision; raises `UnsupportedFormat` if entries cannot be read."""
        if self.files is None or self.pair.was.kind not in OF_VARIABLES:
            rows = tuple(self._rows(store, self.now.state(store.name)) for store in self.was.stores)
            return OperatorCopy(self.was, self.now, rows, self.changes, self.files)
        for store in (*self.was.stores, *self.now.stores):
            if store.unsupported:
                raise UnsupportedFormat.before_writing(
                    store.unsupported, operator=self.was.title, state=store.name,
                    advice="start the new query with a new checkpoint",
                )  # fmt: skip
        old, new = _variables(self.was), _variables(self.now)
        key = self._converted(self.pair.stores[0].parts[0]) if self.pair.stores else Conversion()
        stores = tuple(self._variable(old[one.source], new[one.store], one, key) for one in self.pair.stores)
        dropped = (*(old[name] for name in self.pair.gone), *(one for one in self.was.forgotten if not one.is_index))
        added = tuple(new[name] for name in self.pair.added if name[0] != "$")
        return OperatorCopy(self.was, self.now, stores, self.changes, self.files, added, dropped)

    def _converted(self, pair: FieldPair) -> Conversion:
        found = conversion(pair, self.changes)
        self.problems += found.problems
        return found

    def _rows(self, was: SparkStore, now: SparkStore) -> StoreCopy:
        """Decide what is done with a store, whose types both sides know."""
        old, new = was.require_schema(), now.require_schema()
        (parts,) = (one.parts for one in self.pair.stores if one.store == was.name)
        key, value = map(self._converted, parts)
        is_longer = self.pair.was.kind == SESSION or was.name.endswith(_ROWS_OF_JOINS)
        return StoreCopy(
            was,
            now,
            key,
            value,
            (_group(old.key, is_longer=is_longer), _group(new.key, is_longer=is_longer)),
            _schema_file(now),
            is_same=key.convert is None and value.convert is None,
            findings=(*key.findings, *value.findings, *equal_keys(key, new.value, "value")),
        )

    def _variable(self, was: SparkStore, now: SparkStore, pair: StorePair, key: Conversion) -> StoreCopy:
        before, after = pair.variables or (None, None)
        found = StoreCopy(
            was,
            now,
            key,
            groups=pair.parts[0].types,
            indexes=_indexes(self.now, now.name, after),
            is_same=key.convert is None and self._has_same_ids(was, before),
            findings=tuple(key.findings),
        )
        if before is None or after is None:
            return found
        *keys, value = map(self._converted, pair.parts[1:] or pair.parts)
        user_key = keys[0] if keys else Conversion()
        findings = list(key.findings)
        deadlines = self._deadlines(now.name, was.log.last, before, after, findings)
        findings += (*user_key.findings, *value.findings, *equal_keys(user_key, after.value, pair.parts[-1].path))
        stays = user_key.convert is None and value.convert is None and not deadlines.is_changed
        return attrs.evolve(
            found,
            value=value,
            user_key=user_key,
            deadlines=deadlines,
            is_same=found.is_same and stays,
            findings=tuple(findings),
        )

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
                " first batch would remove every entry"
            )
            self.problems.append(problem(name, "SPK-14", told, "say a longer time"))
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


def _group(key: SparkType, *, is_longer: bool) -> SparkType:
    """Return the columns of a key by which Spark finds its partition.

    The last column of the others is what tells entries of one group apart: the start of a session, the number or the
    time of a row of a join.
    """
    return attrs.evolve(key, fields=key.fields[:-1]) if is_longer else key


def _schema_file(store: SparkStore) -> bytes:
    if store.family is not None:
        return store.folder.folder(SCHEMAS).folder(store.facts.name).read(store.facts.schemas[0])
    return store._partition(0).read(f"{METADATA}/schema")  # noqa: SLF001 - of this package
