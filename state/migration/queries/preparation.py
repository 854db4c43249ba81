"""Preparation of a copy, before anything is written: stores are paired, rows compared, gaps asked for."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING
from uuid import NAMESPACE_OID, uuid5

import attrs

from ....compat.explain import finding_line
from ....compat.plan import MigrationPlan
from ....compat.queries.changes import FieldChanges
from ....compat.queries.conditions import facts_changed
from ....compat.queries.findings import problems_of
from ....compat.queries.operator_pairs import match_operators, unknown_numbers
from ....compat.queries.problems import problem
from ....compat.queries.store_pairs import pair_stores
from ....compat.queries.verdict import hidden_in, nobody_compared, sources_changed, with_plans
from ....serializers.compatibility import Verdict
from ....serializers.errors import IncompatibleState, MigrationFailed, UnsupportedFormat
from ....serializers.ways_out import Option, Told, WayOut
from ...formats.spark.checksums import crc32c, sums_of
from ...formats.spark.operators import UNKNOWN
from ...formats.spark.reader import PROVIDERS
from ..report import REPEATED, ContinuedOperator, QueryCopy
from .operator_files import OperatorFiles
from .planner import OperatorPlanner, empty_copy, with_partitions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from ....compat.description import Computation, JobDescription
    from ....compat.queries.store_pairs import OperatorPair
    from ....serializers.compatibility import Finding
    from ....serializers.errors import Detail
    from ...formats.spark.logs import BatchLog, PlannedBatch
    from ...formats.spark.reader import SparkCheckpoint, SparkOperator
    from .operator_copy import OperatorCopy

    Pair = tuple[Computation | None, Computation]
    Problem = tuple[Computation | None, Finding]
    """The old operator, None for the query, and what stands in the way of its migration."""

_OF_COLUMNS = "SPK-10"
"""The rule for columns that are computed from something else."""
_STREAMING = "spark.sql.streaming."
_SAME_SETTINGS = {
    _STREAMING + "aggregation.stateFormatVersion": "1",
    _STREAMING + "flatMapGroupsWithState.stateFormatVersion": "1",
    _STREAMING + "join.stateFormatVersion": "1",
    "spark.sql.dropDuplicates.deterministicKeyOrder.enabled": "false",
}
"""Settings that determine the types of state, and what Spark takes where a checkpoint has none."""


@attrs.frozen
class Known:
    """What is known of the query that wrote a checkpoint, beyond the checkpoint.

    Attributes:
        query: The query; None: nothing is known.
        gap: What is not known of it, in a sentence, or "".
    """

    query: JobDescription | None = None
    gap: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether the query is known that wrote all of the state."""
        return self.query is not None and not self.gap


@attrs.frozen
class NewSide:
    """The new query.

    Attributes:
        state: The types of its state, as Spark writes them.
        query: Its operators; of a checkpoint without what they compute.
        is_planned: Whether it is the query itself.
        known: What is known of the query that wrote the old checkpoint, if it is.
    """

    state: SparkCheckpoint
    query: JobDescription
    is_planned: bool
    known: Known = Known()


@attrs.frozen
class PreparedCopy:
    """A copy of a checkpoint that is ready to be written.

    Attributes:
        source: The checkpoint to copy.
        new: The new query, in words.
        log: The batches as the copy has them.
        operators: What is done with the state of each operator.
        query: What the copy has beside state.
    """

    source: SparkCheckpoint
    new: str
    log: BatchLog = attrs.field(repr=False)
    operators: tuple[OperatorCopy, ...]
    query: QueryCopy

    @property
    def settings(self) -> PlannedBatch:
        """The settings of the last planned batch."""
        planned = self.source.log.last
        assert planned is not None  # noqa: S101 - a batch is committed
        return planned

    @property
    def plan(self) -> MigrationPlan:
        """What is done, for people."""
        plans = (one.plan for one in sorted(self.operators, key=lambda one: one.number))
        return MigrationPlan(f"Spark checkpoint {self.source.place}", self.new, tuple(plans))

    @property
    def together(self) -> tuple[OperatorCopy, ...]:
        """The operators, apart by stores that have the same files."""
        return tuple(of for one in self.operators for of in one.together)


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


def prepare_copy(old: SparkCheckpoint, new: NewSide, said: Said) -> PreparedCopy:
    """Return a copy that is ready to be written. Arguments and errors as in `migrate_checkpoint`."""
    batch = _require_committed(old, drop_uncommitted=said.drop_uncommitted)
    _require_same_query(old, new)
    stored, known = old.describe(), new.known
    were, become = with_plans(stored, known.query).computations, new.query.computations
    unclear: list[Problem] = [(None, one) for one in unknown_numbers(were, become, said.operators)]
    matches = () if unclear else match_operators(were, become, said.operators)
    unclear += [(one.was, found) for one in matches if (found := one.problem()) is not None]
    pairs = [(one.was, one.becomes) for one in matches if one.becomes is not None and one.problem() is None]
    steps = _Steps(old, new, said, _copied_log(old, pairs, new))
    for was, becomes in pairs:
        steps.add(was, becomes)
    for number in sorted(set(said.changes) - {one.number for one in old.operators}):
        told = f"there is no operator {number}, of which changes are said"
        unclear.append((None, problem("", "SPK-14", told, "say them of another operator, or not at all")))
    if new.is_planned:
        read = _refusing(sources_changed(stored, new.query, known.query))
        unclear += [(None, one) for one in read if one.rule not in said.accept]
    if refusing := [*unclear, *steps.problems]:
        raise _refusal(refusing)
    operators = tuple(one.filled() for one in steps.operators)
    facts = [old.place, old.log.query_id, batch, old.log.unfinished, said.new_query_id]
    facts += [each for one in sorted(operators, key=lambda one: one.has_variables) for each in one.facts]
    query = QueryCopy(
        "" if said.new_query_id else old.log.query_id,
        said.new_query_id,
        batch,
        old.log.watermark_ms,
        old.log.unfinished,
        tuple(_continued(were, pairs)),
        known.query.origin if known.query else "",
        tuple(_not_compared(new, steps.pairs)),
        tuple(not_shown(old)),
        hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32],
    )
    return PreparedCopy(old, new.query.origin, steps.log, operators, query)


@attrs.define
class _Steps:
    """What is done with the operators, one after the other."""

    old: SparkCheckpoint
    new: NewSide
    said: Said
    log: BatchLog
    operators: list[OperatorCopy] = attrs.field(factory=list)
    pairs: list[OperatorPair] = attrs.field(factory=list)
    problems: list[Problem] = attrs.field(factory=list)

    def add(self, was: Computation | None, becomes: Computation) -> None:
        """Plan an operator; raises `UnsupportedFormat`."""
        now = _operator(self.new.state, becomes.number)
        if not now.stores:
            raise UnsupportedFormat.before_writing(
                f"operator {becomes.title} of the new query keeps nothing, and its files are not known to this release",
                advice="give the processor a state variable, or start with a new checkpoint",
            )
        files = OperatorFiles.of(now, self.old) if now.stores[0].family is not None else None
        if was is None:
            self.operators.append(empty_copy(now, files, self.old, self.log))
        else:
            self._add_pair(was, becomes, now, files)

    def _add_pair(
        self, was: Computation, becomes: Computation, now: SparkOperator, files: OperatorFiles | None
    ) -> None:
        changes, planned = self.said.changes.get(was.number, FieldChanges()), self.old.log.last
        pair = pair_stores(
            was,
            becomes,
            changes.answers,
            is_by_name=planned is not None and planned.encoding == "avro",
            accepts_otherwise=_OF_COLUMNS in self.said.accept,
        )
        self.pairs.append(pair)
        changes = attrs.evolve(changes, renames=pair.renames)
        found = [*problems_of(pair, changes), *_meant(pair, changes, self.said.accept)]
        before = _operator(self.old, was.number)
        planner = OperatorPlanner(before, now, files, pair, changes, found, self.said.is_done)
        self.operators.append(planner.run())
        self.problems += ((was, one) for one in found)


def _refusal(problems: list[Problem]) -> IncompatibleState:
    """Return the error that says all that stands in the way, as a check says it."""
    lines: list[Detail] = []
    told = (("the query" if was is None else f"operator {was.title}", finding) for was, finding in problems)
    for of, finding in dict.fromkeys(told):
        lines.append(f"  {of}: {finding_line(finding)}")
        lines.append(("    ways out: ", tuple(attrs.evolve(way, command="") for way in finding.ways_out)))
    return IncompatibleState.before_writing(
        "the state cannot be taken over as it stands",
        details=lines,
        advice="take a way out of each, and migrate again",
    )


def _continued(were: Iterable[Computation], pairs: Iterable[Pair]) -> Iterator[ContinuedOperator]:
    """Yield what becomes of each operator: those of the new query, then those whose state is dropped."""
    taken = {was.number for was, _ in pairs if was is not None}
    yield from (ContinuedOperator("" if was is None else was.title, becomes.title) for was, becomes in pairs)
    yield from (ContinuedOperator(one.title, "") for one in were if one.number not in taken)


def _refusing(found: Iterable[Finding]) -> Iterator[Finding]:
    return (one for one in found if one.verdict is Verdict.INCOMPATIBLE)


def _meant(pair: OperatorPair, changes: FieldChanges, accept: Collection[str]) -> Iterator[Finding]:
    """Yield the changes beside types that must be accepted, such as another filter."""
    if not (pair.was.is_known and pair.becomes.is_known):
        return
    for finding in _refusing(facts_changed(pair)):  # the code of a function is not asked for
        variable = finding.path.subject
        is_asked = variable != finding.path.words and not (finding.old and finding.new)  # types show it, too
        if finding.rule not in accept and not is_asked and variable not in changes.ttls:
            yield finding


def _operator(checkpoint: SparkCheckpoint, number: int) -> SparkOperator:
    return next(one for one in checkpoint.operators if one.number == number)


def _not_compared(new: NewSide, pairs: Iterable[OperatorPair]) -> Iterator[str]:
    """Yield what was not compared, a line each."""
    if not new.is_planned:
        yield "what types do not show, such as which column is aggregated, or the length of windows"
        return
    if new.known.gap:
        yield new.known.gap
    for pair in pairs:
        title = f"operator {pair.becomes.title}"
        if pair.was.is_known:
            yield from (f"{title}: {what}" for what in pair.becomes.unseen)
            changed = (one for one in facts_changed(pair) if one.verdict is Verdict.COMPATIBLE)
            yield from (f"{title}: {one.path.words}: {one.reason}" for one in changed)
        else:
            yield f"{title}: {hidden_in(pair.was.kind)}"
    if new.known.query is not None:
        yield from nobody_compared(new.query, new.known.query)


def not_shown(source: SparkCheckpoint) -> Iterator[str]:
    """Yield the damage that the files of a checkpoint cannot show, a line each."""
    planned, folder = source.log.last, source.folder
    for operator in source.operators:
        if planned is not None and any(one.lacks_checksums for one in operator.stores):
            yield (
                f"operator {operator.title}: its files are compressed by {planned.codec} without checksums: values that"
                " are damaged can look like others"
            )
    if not sums_of(folder, "metadata") or not sums_of(folder, f"offsets/{source.log.committed}"):
        yield "offsets and commits have no checksums beside them: damage that leaves them JSON is not seen"
    if crc32c() is None and planned is not None:
        yield "Spark's own checksums: their library is not installed (pip install 'stateshift[rocksdb]')"


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
        raise UnsupportedFormat.before_writing(
            "the checkpoint is from before Spark 4.0, and does not say what its operators are",
            advice="run one batch of the old query with Spark 4.0 or later, which writes that; then migrate",
        )
    if log.committed is None:
        raise MigrationFailed.before_writing(
            "no batch of the query is committed, so there is no state to migrate",
            advice="start the new query with a new checkpoint",
        )
    if not old.operators:
        raise MigrationFailed.before_writing(
            "the query has no stateful operator (Spark allows none with asynchronous progress), so there is no state to"
            " migrate",
            advice="start the new query with the old checkpoint, which has the offsets of its sources",
        )
    if log.unfinished is not None and not drop_uncommitted:
        raise MigrationFailed.before_writing(
            f"batch {log.unfinished} is planned and not committed: the query is running it, or died in it",
            advice=(
                "start the old code once more, let it finish the batch and stop it",
                WayOut("drop the batch with", (Told(Option.DROP_UNCOMMITTED),), more=f": {REPEATED}"),
            ),
        )
    return log.committed


def _require_same_query(old: SparkCheckpoint, new: NewSide) -> None:
    """Refuse checkpoints of queries with other sources or settings, and other providers."""
    for checkpoint in (old, new.state):
        planned = checkpoint.log.last
        if planned is None or planned.provider not in PROVIDERS:
            provider = "no provider" if planned is None else planned.provider
            raise UnsupportedFormat.before_writing(
                f"this release migrates state of {' and '.join(PROVIDERS)}, and here it is that of {provider}",
                savepoint=checkpoint.place,
                checkpoint=checkpoint.place,
                advice="start the new query with a new checkpoint",
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
        raise IncompatibleState.before_writing(
            "the new query differs in more than the types of its state",
            details=details,
            advice="sources are paired by their numbers: keep them, or start with a new checkpoint",
        )
