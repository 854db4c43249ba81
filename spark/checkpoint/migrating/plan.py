"""What a migration does, decided before anything is written: stores paired, rows compared, gaps asked for."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING
from uuid import NAMESPACE_OID, uuid5

import attrs

from ....serializers.compatibility import Verdict
from ....serializers.errors import IncompatibleState, MigrationFailed, UnsupportedFormat
from ..columns import Reading
from ..judging import facts_changed, hidden_in, nobody_compared, sources_changed, with_plans
from ..operators import UNKNOWN
from ..query import describe_stored
from ..reader import PROVIDERS
from ..rules import UNCONVERTED
from .conversion import FieldChanges
from .meaning import meaning_of
from .operator_files import OperatorFiles
from .pairing import paired
from .store_plan import filled_columns, plan_empty_store, plan_store, problems_of, with_partitions
from .variables import KINDS, ProcessorPlan, empty_processor, plan_processor
from .ways_out import WayOut

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ..checking import Known
    from ..logs import BatchLog, PlannedBatch
    from ..query import QueryOperator
    from ..reader import SparkCheckpoint, SparkOperator
    from .new_side import NewSide
    from .pairing import Pair
    from .store_plan import StorePlan

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
_PATH = re.compile(r"[^\s,]*: ")
_RULE = re.compile(r"\[(SPK-\d+)\]$")


@attrs.frozen
class MigrationPlan:
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


def plan_migration(old: SparkCheckpoint, new: NewSide, known: Known, said: Said) -> MigrationPlan:
    """Return what a migration does; nothing is written. Arguments and errors as in `migrate_checkpoint`."""
    batch = _require_committed(old, drop_uncommitted=said.drop_uncommitted)
    _require_same_query(old, new)
    stored = describe_stored(old)
    were = with_plans(stored, known.query)
    pairs, unclear = paired(were, new.query.operators, said.operators)
    log = _copied_log(old, pairs, new)
    stores: list[StorePlan] = []
    processors: list[ProcessorPlan] = []
    fields: list[tuple[int, str, str]] = []
    meant: list[str] = []
    for was, becomes in pairs:
        if becomes is None or (was is not None and was.kind != becomes.kind):
            continue  # it is said why
        now = _operator(new.state, becomes.number)
        if not now.stores:
            raise UnsupportedFormat(
                f"operator {becomes.title} of the new query keeps nothing, and its files are not known to this release",
                advice="give the processor a state variable, or start with a new checkpoint",
                written="Nothing was written.",
            )
        files = OperatorFiles.of(now, old) if now.stores[0].family is not None else None
        if was is None:
            if files is not None and becomes.kind in KINDS:
                processors.append(empty_processor(now, files))
            else:
                empty = (plan_empty_store(one, becomes.kind, old, log) for one in now.stores)
                stores += (attrs.evolve(one, files=files) for one in empty)
            continue
        meaning = meaning_of(was, becomes, said.changes.get(was.number, FieldChanges()), said.accept)
        fields += ((was.number, was.title, problem) for problem in meaning.problems)
        meant += (f"operator {was.title}: {problem}" for problem in meaning.meant)
        before = _operator(old, was.number)
        if files is not None and was.kind in KINDS:
            found: list[str] = []
            processors.append(plan_processor(before, now, files, meaning.changes, found, is_done=said.is_done))
            fields += ((was.number, was.title, problem) for problem in found)
            continue
        plans = [
            plan_store(
                store, was.kind, now.store(store.name), meaning.changes,
                Reading.of(was.kind, was.stores, becomes.stores, store.name),
            )
            for store in before.stores
        ]  # fmt: skip
        known_ones = {problem.partition(": ")[0] for problem in meaning.problems}
        fields += (
            (was.number, was.title, f"{problem}{_computed(problem, becomes)}")
            for problem in problems_of(plans, meaning.changes)
            if problem.partition(": ")[0] not in known_ones
        )
        stores += (attrs.evolve(one, files=files) for one in plans)
    unknown = set(said.changes) - {one.number for one in old.operators}
    unclear += (f"there is no operator {number}, of which changes are said" for number in sorted(unknown))
    if new.is_planned:
        changed = sources_changed(stored, new.query, known.query)
        meant += (
            f"{one.path[2:-1]}: {one.old} -> {one.new}: {one.reason} [{one.rule}]"
            for one in changed
            if one.verdict is Verdict.INCOMPATIBLE and one.rule not in said.accept
        )
    of_fields = [f"operator {title}: {problem}" for _, title, problem in fields]
    if problems := [*unclear, *of_fields, *meant]:
        raise IncompatibleState(
            "the state cannot be taken over as it stands",
            details=[f"  {problem}" for problem in dict.fromkeys(problems)],
            advice=_ways_out(unclear, fields, meant),
            written="Nothing was written.",
        )
    dropped = tuple(one.title for one in were if said.operators.get(one.number, 0) is None)
    stores = [attrs.evolve(one, filled=filled_columns(one)) for one in stores]
    processors = [one.filled() for one in processors]
    return MigrationPlan(
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


def _ways_out(unclear: list[str], fields: list[tuple[int, str, str]], meant: list[str]) -> WayOut:
    """Return what a caller can do about problems of each kind."""
    ways = ["for an operator, such as {map}"] if unclear else []
    fields = sorted(fields, key=lambda one: UNCONVERTED in one[2])
    if fields and UNCONVERTED in fields[0][2]:
        ways.append("for a type that changes, such as {convert}")
    elif fields:
        ways.append("for a field, such as {fill}, {rename}, {keep} or {convert}")
    told = [problem for _, _, problem in fields]
    if any("merged" in one for one in told):
        ways.append("for values of keys that become equal, such as {merge}")
    if any("does not have the variable" in one for one in told):
        ways.append("for a variable that is dropped, such as {gone}")
    if any("time to live" in one for one in (*told, *meant)):
        ways.append("for a variable that expires, such as {ttl}")
    if meant:
        ways.append("for a change that is meant, such as {accept}")
    rules = [found for one in meant for found in _RULE.findall(one)]
    rule = rules[0] if rules else "SPK-13"
    operator, path = next(
        ((number, problem.partition(": ")[0]) for number, _, problem in fields if _PATH.match(problem)), (0, "")
    )
    return WayOut.of("; ".join(ways), rule=rule, operator=operator, path=path)


def _computed(problem: str, of: QueryOperator) -> str:
    """Return what the field of a problem is computed from in the new query, as far as that is known."""
    path = problem.partition(": ")[0]
    texts = [columns[path] for columns in of.columns.values() if path in columns]
    return f" (in the new query it is of {texts[0]})" if texts else ""


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
        if was is not None and becomes is not None:
            title = f"operator {becomes.title}"
            if was.is_planned:
                yield from (f"{title}: {what}" for what in becomes.unseen)
                changed = (one for one in facts_changed(was, becomes) if one.verdict is Verdict.COMPATIBLE)
                yield from (f"{title}: {one.path[2:-1]}: {one.reason}" for one in changed)
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
        if was is not None and becomes is not None:
            ids[becomes.number] = log.ids.get(was.number, ())
        elif becomes is not None:
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
            advice=WayOut.of(
                f"start the old code once more, let it finish the batch and stop it; or drop the batch with {{drop}}:"
                f" {REPEATED}"
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
