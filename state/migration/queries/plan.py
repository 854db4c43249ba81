"""What a migration does, decided before anything is written: stores paired, rows compared, gaps asked for."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING
from uuid import NAMESPACE_OID, uuid5

import attrs

from ....compat.queries.changes import FieldChanges
from ....compat.queries.facts import facts_changed
from ....compat.queries.kinds import OF_VARIABLES
from ....compat.queries.operator_pairs import match_operators, unknown_numbers
from ....compat.queries.problems import OF_COLUMNS, Asks, Problem, problems_of
from ....compat.queries.store_pairs import pair_stores
from ....compat.queries.verdict import hidden_in, nobody_compared, sources_changed, with_plans
from ....serializers.compatibility import Verdict
from ....serializers.errors import IncompatibleState, MigrationFailed, UnsupportedFormat
from ....serializers.ways_out import Option, Told, WayOut
from ...formats.spark.descriptions import describe_stored
from ...formats.spark.operators import UNKNOWN
from ...formats.spark.reader import PROVIDERS
from .operator_files import OperatorFiles
from .store_plan import filled_columns, plan_empty_store, plan_store, with_partitions
from .variables import ProcessorPlan, empty_processor, plan_processor

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from ....compat.queries.description import QueryDescription, QueryOperator
    from ...formats.spark.logs import BatchLog, PlannedBatch
    from ...formats.spark.reader import SparkCheckpoint, SparkOperator
    from .store_plan import StorePlan

    Pair = tuple[QueryOperator | None, QueryOperator]

_STREAMING = "spark.sql.streaming."
_SAME_SETTINGS = {
    _STREAMING + "aggregation.stateFormatVersion": "1",
    _STREAMING + "flatMapGroupsWithState.stateFormatVersion": "1",
    _STREAMING + "join.stateFormatVersion": "1",
    "spark.sql.dropDuplicates.deterministicKeyOrder.enabled": "false",
}
"""Settings that determine the types of state, and what Spark takes where a checkpoint has none."""
REPEATED = (
    "the dropped batch is planned again under its old number, with what the sources have then: a sink that writes"
    " again may see rows twice, and one that remembers batches (files, Delta, a foreachBatch that checks) and has this"
    " one leaves out what is new in it"
)
"""What follows where a batch is dropped."""


@attrs.frozen
class Known:
    """What is known of the query that wrote a checkpoint, beyond the checkpoint.

    Attributes:
        query: The query; None: nothing is known.
        gap: What is not known of it, in a sentence, or "".
    """

    query: QueryDescription | None = None
    gap: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether it is known of all that is stored."""
        return self.query is not None and not self.gap


@attrs.frozen
class NewSide:
    """The new query.

    Attributes:
        state: The types of its state, as Spark writes them.
        query: Its operators; of a checkpoint without what they compute.
        is_planned: Whether it is the query itself.
    """

    state: SparkCheckpoint
    query: QueryDescription
    is_planned: bool


@attrs.frozen
class CheckpointPlan:
    """What a migration does.

    Attributes:
        source: The checkpoint to copy.
        log: The batches as the copy has them.
        stores: What is done with each store.
        batch: The last committed batch.
        dropped_batch: The batch that was planned and not committed, which the copy does not have; None: there is none.
        processors: What is done with the variables of each transformWithState.
        dropped_operators: The operators whose state the copy does not have.
        has_new_id: Whether the copy gets a query id of its own.
        known_from: From where it is known what the old query computed; "": it is not.
        not_compared: What was not compared, a line each.
    """

    source: SparkCheckpoint
    log: BatchLog = attrs.field(repr=False)
    stores: tuple[StorePlan, ...]
    batch: int
    dropped_batch: int | None = None
    processors: tuple[ProcessorPlan, ...] = ()
    dropped_operators: tuple[str, ...] = ()
    has_new_id: bool = False
    known_from: str = ""
    not_compared: tuple[str, ...] = ()

    @property
    def settings(self) -> PlannedBatch:
        """The settings of the last planned batch."""
        planned = self.source.log.last
        assert planned is not None  # noqa: S101 - a batch is committed
        return planned

    @property
    def together(self) -> tuple[tuple[StorePlan, ...], ...]:
        """What is done with stores, those together that have the same files: the column families of one."""
        found: dict[tuple[int, str], list[StorePlan]] = {}
        for one in self.stores:
            found.setdefault((one.number, one.now.facts.name), []).append(one)
        return tuple(map(tuple, found.values()))

    def digest(self) -> str:
        """Return a digest of what the copy will contain; a run resumes only what has the same one."""
        log = self.source.log
        facts = [self.source.place, log.query_id, self.batch, self.dropped_batch, self.has_new_id]
        facts += [
            [
                one.number,
                one.is_empty or one.store.operator,
                one.store.name,
                one.schema_file.hex(),
                *one.changes.digest(),
                *(filled.digest for filled in one.filled),
            ]
            for one in self.stores
        ]
        facts += [
            [
                one.number,
                one.is_empty or one.operator.number,
                one.files.schema.hex(),
                json.dumps(one.files.facts),
                *one.changes.digest(),
                *(filled.digest for variable in one.variables for filled in variable.filled),
            ]
            for one in self.processors
        ]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]


@attrs.frozen
class Said:
    """What types do not say of a migration.

    Attributes:
        changes: The changes of rows, by the number of the old operator.
        operators: The new numbers of old operators; None: the state is dropped.
        accept: Rules whose findings are accepted, as in a check.
        drop_uncommitted: Whether a batch that is not committed is left out.
        new_query_id: Whether the copy gets a query id of its own.
        is_done: Whether the copy is there, so that deadlines that have passed since are none of its faults.
    """

    changes: Mapping[int, FieldChanges] = attrs.field(factory=dict)
    operators: Mapping[int, int | None] = attrs.field(factory=dict)
    accept: tuple[str, ...] = ()
    drop_uncommitted: bool = False
    new_query_id: bool = False
    is_done: bool = False


def plan_migration(old: SparkCheckpoint, new: NewSide, known: Known, said: Said) -> CheckpointPlan:
    """Return what a migration does; nothing is written. Arguments and errors as in `migrate_checkpoint`."""
    batch = _require_committed(old, drop_uncommitted=said.drop_uncommitted)
    _require_same_query(old, new)
    stored = describe_stored(old)
    were = with_plans(stored, known.query)
    unknown = tuple(unknown_numbers(were, new.query.operators, said.operators))
    matches = () if unknown else match_operators(were, new.query.operators, said.operators)
    unclear = [*unknown, *(problem for one in matches if (problem := one.problem()) is not None)]
    pairs = [(one.was, one.becomes) for one in matches if one.becomes is not None and one.problem() is None]
    log = _copied_log(old, pairs, new)
    stores: list[StorePlan] = []
    processors: list[ProcessorPlan] = []
    problems = [OperatorProblem(None, "", one) for one in unclear]
    planned = old.log.last
    is_by_name = planned is not None and planned.encoding == "avro"
    for was, becomes in pairs:
        now = _operator(new.state, becomes.number)
        if not now.stores:
            raise UnsupportedFormat(
                f"operator {becomes.title} of the new query keeps nothing, and its files are not known to this release",
                advice="give the processor a state variable, or start with a new checkpoint",
                written="Nothing was written.",
            )
        files = OperatorFiles.of(now, old) if now.stores[0].family is not None else None
        if was is None:
            if files is not None and becomes.kind in OF_VARIABLES:
                processors.append(empty_processor(now, files))
            else:
                empty = (plan_empty_store(one, becomes.kind, old, log) for one in now.stores)
                stores += (attrs.evolve(one, files=files) for one in empty)
            continue
        changes = said.changes.get(was.number, FieldChanges())
        pair = pair_stores(
            was, becomes, changes.answers, is_by_name=is_by_name, accepts_otherwise=OF_COLUMNS in said.accept
        )
        changes = attrs.evolve(changes, renames=pair.renames)
        found = [*problems_of(pair, changes), *_meant(was, becomes, changes, said.accept)]
        before = _operator(old, was.number)
        if files is not None and was.kind in OF_VARIABLES:
            processors.append(plan_processor(before, now, files, pair, changes, found, is_done=said.is_done))
        else:
            plans = [plan_store(store, now.store(store.name), pair, changes) for store in before.stores]
            stores += (attrs.evolve(one, files=files) for one in plans)
            found += (problem for one in plans for part in (one.key, one.value) for problem in part.problems)
        problems += (OperatorProblem(was.number, was.title, problem) for problem in found)
    for number in sorted(set(said.changes) - {one.number for one in old.operators}):
        told = f"there is no operator {number}, of which changes are said"
        problems.append(OperatorProblem(None, "", Problem(Asks.OPERATOR, told)))
    if new.is_planned:
        for one in sources_changed(stored, new.query, known.query):
            if one.verdict is Verdict.INCOMPATIBLE and one.rule not in said.accept:
                told, name = f"{one.old} -> {one.new}: {one.reason}", one.path.words
                problems.append(OperatorProblem(None, "", Problem(Asks.MEANT, told, name, one.rule)))
    if problems:
        raise IncompatibleState(
            "the state cannot be taken over as it stands",
            details=[f"  {problem}" for problem in dict.fromkeys(map(str, sorted(problems, key=_place)))],
            advice=_ways_out(problems),
            needs_all=True,
            written="Nothing was written.",
        )
    dropped = tuple(one.title for one in were if said.operators.get(one.number, 0) is None)
    stores = [attrs.evolve(one, filled=filled_columns(one)) for one in stores]
    processors = [one.filled() for one in processors]
    return CheckpointPlan(
        old,
        log,
        tuple(stores),
        batch,
        old.log.unfinished,
        tuple(processors),
        dropped,
        said.new_query_id,
        known.query.origin if known.query else "",
        tuple(_not_compared(new, known, pairs)),
    )


@attrs.frozen
class OperatorProblem:
    """A problem of an operator.

    Attributes:
        number: The number of the old operator; None: it is of the query.
        title: The operator in messages.
        problem: What it is.
    """

    number: int | None
    title: str
    problem: Problem

    def __str__(self) -> str:
        return str(self.problem) if self.number is None else f"operator {self.title}: {self.problem}"


def _place(one: OperatorProblem) -> int:
    """Return where a problem stands among others: first which operator is which, last what is meant."""
    what = one.problem.asks
    return 0 if what is Asks.OPERATOR else 2 if what is Asks.MEANT else 1


def _ways_out(problems: list[OperatorProblem]) -> tuple[WayOut, ...]:
    """Return what a caller can do about problems of each kind."""
    found = {kind: [one for one in problems if one.problem.asks is kind] for kind in Asks}
    rule = next((one.problem.rule for one in found[Asks.MEANT]), "SPK-13")
    of_paths = (one for kind in (Asks.FIELD, Asks.MERGE, Asks.TYPE) for one in found[kind] if one.problem.path)
    first = next(of_paths, None)
    number, path = (first.number or 0, first.problem.path) if first is not None else (0, "")
    part = path.partition(".")[0] or "value"
    fill, rename, keep, convert, merge = (
        Told.of(Option.FILL, number, path or "value.count", 0),
        Told.of(Option.RENAME_FIELD, number, f"{part}.old", path or "value.new"),
        Told.of(Option.KEEP_FIELD, number, path or "value.x"),
        Told.of(Option.CONVERT_FIELD, number, path or "value.x", "module:function"),
        Told.of(Option.MERGE_FIELD, number, path if path and part == "value" else "value.x", "sum"),
    )
    known = {
        Asks.OPERATOR: attrs.evolve(
            _such("for an operator", Told.of(Option.MAP, number, 1), Told.of(Option.MAP, number, "")),
            more=" to drop its state",
        ),
        Asks.FIELD: _such("for a field", fill, rename, keep, convert),
        Asks.TYPE: _such("for a type that changes", convert),
        Asks.MERGE: _such("for values of keys that become equal", merge),  # values are merged, and never keys
        Asks.VARIABLE: _such("for a variable that is dropped", Told.of(Option.DROP_VARIABLE, number, "total")),
        Asks.DEADLINE: _such("for a variable that expires", Told.of(Option.TTL, number, "count", 3_600_000)),
        Asks.MEANT: _such("for a change that is meant", Told.of(Option.ACCEPT, rule)),
    }
    return tuple(way for kind, way in known.items() if found[kind] and not (kind is Asks.TYPE and found[Asks.FIELD]))


def _such(words: str, *told: Told) -> WayOut:
    return WayOut(f"{words}, such as", told, is_choice=True)


def _meant(
    was: QueryOperator, becomes: QueryOperator, changes: FieldChanges, accept: Collection[str]
) -> Iterator[Problem]:
    """Yield what else decides what an operator keeps, is another, and must be accepted."""
    if not (was.is_planned and becomes.is_planned):
        return
    for finding in facts_changed(was, becomes):
        if finding.verdict is not Verdict.INCOMPATIBLE:
            continue  # the code of a function, which a migration does not ask for
        name, variable = finding.path.words, finding.path.subject
        is_asked = variable != name and not (finding.old and finding.new)  # types show it, too
        if finding.rule not in accept and not is_asked and variable not in changes.ttls:
            told = f"{finding.old or 'none'} -> {finding.new or 'none'}: {finding.reason}"
            yield Problem(Asks.MEANT, told, name, finding.rule)


def _operator(checkpoint: SparkCheckpoint, number: int) -> SparkOperator:
    return next(one for one in checkpoint.operators if one.number == number)


def _not_compared(new: NewSide, known: Known, pairs: Iterable[Pair]) -> Iterator[str]:
    """Yield what nobody compared: a line each."""
    if not new.is_planned:
        yield "what types do not show, such as which column is aggregated, or the length of windows"
        return
    if known.gap:
        yield known.gap
    for was, becomes in pairs:
        if was is not None:
            title = f"operator {becomes.title}"
            if was.is_planned:
                yield from (f"{title}: {what}" for what in becomes.unseen)
                changed = (one for one in facts_changed(was, becomes) if one.verdict is Verdict.COMPATIBLE)
                yield from (f"{title}: {one.path.words}: {one.reason}" for one in changed)
            else:
                yield f"{title}: {hidden_in(was.kind)}"
    if known.query is not None:
        yield from nobody_compared(new.query, known.query)


def _copied_log(old: SparkCheckpoint, pairs: Iterable[Pair], new: NewSide) -> BatchLog:
    """Return the batches as the copy has them: ids of files have the numbers of the new operators."""
    log = old.log
    if log.format == 1:
        return log
    ids: dict[int, tuple[tuple[str, ...], ...]] = {}
    for was, becomes in pairs:
        if was is not None:
            ids[becomes.number] = log.ids.get(was.number, ())
        else:
            operator = _operator(new.state, becomes.number)
            count = len({store.facts.name for store in operator.stores})
            ids[becomes.number] = tuple(
                (str(uuid5(NAMESPACE_OID, f"{log.query_id} {log.committed} {becomes.number} {partition}")),) * count
                for partition in range(with_partitions(operator.stores[0], old).partitions)
            )
    return attrs.evolve(log, ids=ids)


def _require_committed(old: SparkCheckpoint, *, drop_uncommitted: bool) -> int:
    """Return the last committed batch."""
    log = old.log
    if any(one.kind == UNKNOWN for one in old.operators):
        raise UnsupportedFormat(
            "the checkpoint is from before Spark 4.0, and does not say what its operators are",
            advice="run one batch of the old query with Spark 4.0 or later, which writes that; then migrate",
            written="Nothing was written.",
        )
    if log.committed is None:
        raise MigrationFailed(
            "no batch of the query is committed, so there is no state to migrate",
            advice="start the new query with a new checkpoint",
            written="Nothing was written.",
        )
    if not old.operators:
        raise MigrationFailed(
            "the query has no stateful operator (Spark allows none with asynchronous progress), so there is no state to"
            " migrate",
            advice="start the new query with the old checkpoint, which has the offsets of its sources",
            written="Nothing was written.",
        )
    if log.unfinished is not None and not drop_uncommitted:
        raise MigrationFailed(
            f"batch {log.unfinished} is planned and not committed: the query is running it, or died in it",
            advice=(
                "start the old code once more, let it finish the batch and stop it",
                WayOut("drop the batch with", (Told(Option.DROP_UNCOMMITTED),), more=f": {REPEATED}"),
            ),
            written="Nothing was written.",
        )
    return log.committed


def _require_same_query(old: SparkCheckpoint, new: NewSide) -> None:
    """Refuse checkpoints of queries with other sources or settings, and other providers."""
    for checkpoint in (old, new.state):
        planned = checkpoint.log.last
        if planned is None or planned.provider not in PROVIDERS:
            provider = "no provider" if planned is None else planned.provider
            raise UnsupportedFormat(
                f"this release migrates state of {' and '.join(PROVIDERS)}, and here it is that of {provider}",
                savepoint=checkpoint.place,
                checkpoint=checkpoint.place,
                advice="start the new query with a new checkpoint",
                written="Nothing was written.",
            )
    assert old.log.last is not None  # noqa: S101 - checked above
    details = []
    assert new.state.log.last is not None  # noqa: S101 - checked above
    sources = [one.name for one in old.log.last.sources]
    now = new.query.sources
    if len(sources) != len(now) or (not new.is_planned and sources != list(now)):
        details.append(f"  sources: {', '.join(sources)} -> {', '.join(now)}")
    providers = [log.provider for log in (old.log.last, new.state.log.last)]
    if providers[0] != providers[1]:
        details.append(
            f"  provider of state stores: {' -> '.join(providers)}; the old one stays, so set it for the probe"
        )
    for name, default in _SAME_SETTINGS.items():
        pinned, other = (log.settings.get(name, default) for log in (old.log.last, new.state.log.last))
        if pinned != other:
            details.append(f"  the setting {name}: {pinned} -> {other}; the old one stays, so set it before the probe")
    if details:
        raise IncompatibleState(
            "the new query differs in more than the types of its state",
            details=details,
            advice="sources are paired by their numbers: keep them, or start with a new checkpoint",
            written="Nothing was written.",
        )
