"""The report of a migration or of a dry run."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.plain_data import fields_of, plain
from ...compat.plan import MigrationPlan, StateAction
from ...compat.plan_data import to_data
from ...compat.scan_report import condition
from ...serializers.wording import many, repr_of
from ..publication.lineage import add_files
from ..transcode.executor_choice import TIMES_SLOWER
from .tasks import CopyTask, KeepTask, KeyedTask

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...compat.plan import StatePlan
    from ..publication.lineage import Lineage, StateCount, StateFiles
    from ..savepoint.reader import Savepoint
    from .estimate import Estimate
    from .journal import Redone
    from .plan_file import PlanFile
    from .tasks import Task


REPEATED = (
    "the dropped batch is planned again under its old number, with what the sources have then: a sink that writes"
    " again may see rows twice, and one that remembers batches (files, Delta, a foreachBatch that checks) and has this"
    " one leaves out what is new in it"
)
"""What follows where a batch of a query is dropped."""
_FILES = "operator_id operator state files bytes=size"
_SOURCE = "Source: "
"""How Flink begins the name of an operator that is a source."""


@attrs.frozen
class DroppedFields:
    """The fields that a state's values have lost, since the new type does not have them.

    Attributes:
        operator: The uid or id of the operator.
        state: The name of the state.
        paths: The paths of the fields.
        possible_renames: The fields that may have been renamed, as `old->new`.
        entries: The number of entries written.
    """

    operator: str
    state: str
    paths: tuple[str, ...]
    possible_renames: tuple[str, ...]
    entries: int


@attrs.frozen
class NewColumns:
    """The columns of a query that a state's values have got.

    Attributes:
        operator: The uid or id of the operator.
        state: The name of the state.
        filled: The paths of those that are null in what was stored.
        begun: The paths of aggregates that begin now, without what came before.
        entries: The number of entries written.
    """

    operator: str
    state: str
    filled: tuple[str, ...]
    begun: tuple[str, ...]
    entries: int


@attrs.frozen
class CarriedOver:
    """State that only its operator can read, and that is carried over as bytes.

    Attributes:
        operator: The uid or id of the operator.
        what: Its kind, in words.
        streams: The number of its streams.
        size_bytes: The number of their bytes.
    """

    operator: str
    what: str
    streams: int
    size_bytes: int


@attrs.frozen
class ContinuedOperator:
    """What becomes of an operator of a query.

    Attributes:
        was: The number and kind of the old operator; "": there is none, and it starts empty.
        becomes: Those of the new operator; "": there is none, and the state is dropped.
    """

    was: str
    becomes: str


@attrs.frozen
class QueryCopy:
    """What the copy of a query's checkpoint has beside state.

    Attributes:
        query_id: The id of the query in the copy; "" before the run, if the copy is to get one of its own.
        has_new_id: Whether that is another one than in the source.
        batch: The last committed batch; the new query goes on with the next one.
        watermark_ms: The event-time watermark, in milliseconds since 1970; 0: none.
        dropped_batch: The batch that was not committed, and is planned again; None: there is none.
        operators: What becomes of each operator.
        known_from: From where it is known what the old query computed; "": it is not.
        not_compared: What was not compared, a line each.
        not_shown: Which damage to the source its files could not show, a line each.
        content_sha256: The digest of what the copy contains: a run of a plan file has the same one.
    """

    query_id: str
    has_new_id: bool
    batch: int
    watermark_ms: int
    dropped_batch: int | None
    operators: tuple[ContinuedOperator, ...]
    known_from: str
    not_compared: tuple[str, ...]
    not_shown: tuple[str, ...]
    content_sha256: str

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before the new query starts."""
        dropped = (f"the state of operator {one.was} is dropped" for one in self.operators if not one.becomes)
        batch = () if self.dropped_batch is None else (f"batch {self.dropped_batch} is dropped: {REPEATED}",)
        return (*dropped, *batch)

    @property
    def going_back(self) -> str:
        """What going back to the source means once the new query has committed a batch."""
        delta = (
            "Delta takes the batch of the other query for a new one, so its rows are there twice"
            if self.has_new_id
            else "Delta leaves it out, too"
        )
        return (
            f"until the new query has committed batch {self.batch + 1}, the old one goes on from the source as if"
            " nothing had happened; after that the old one plans the batch again, with rows of its own: a sink that"
            f" writes again has both, a file sink leaves the batch out, {delta}"
        )

    def to_data(self) -> dict[str, Any]:
        """Return it as plain data, for `--json` and plan files."""
        return {**plain(self), "warnings": list(self.warnings)}


@attrs.frozen(kw_only=True)
class MigrationReport:
    """The report of a migration; for a dry run, of what it would do.

    Attributes:
        source: The location of the savepoint or checkpoint that was read; it is never changed.
        target: The location of the new one.
        plan: The plan of the migration.
        dry_run: Whether nothing was written.
        tasks: The number of streams to rewrite; of a query, of partitions.
        copies: The number of files to copy unchanged; of a query, of partitions.
        bytes_read: The size of all streams read; None: it was not measured.
        bytes_written: The size of all streams written; 0 in a dry run; None: it was not measured.
        states: The counts of the states in rewritten operators; empty in a dry run.
        plan_file: For a dry run, the plan as a plan file tells it.
        tried: For a dry run, whether there was an entry that was converted, by operator id and state.
        seconds: The duration.
        phases: The seconds of each phase, by name, in order; see `Progress`. Time between and after the phases is only
            in `seconds`.
        estimate: The estimate of the run, with its engine.
        resumed: The number of streams that an earlier, dead run had finished.
        redone: The streams that it had finished and that were done again, each with the reason.
        source_quarantined: The number of values in the quarantine of the source; they stay there.
        source_has_digests: Whether the files of the source could be checked against digests.
        lacks_numba: Whether objects did the work of much faster machine code because numba was not installed.
        missing_timers: A warning if Flink may have left timers out of the source, or "".
        unproven: Why the state of a query was not compared with what its engine has committed, or "".
        must_declare: Whether an operator of the job has raw keyed state of its own, which Flink restores only for
            operators that declare it.
        unread: The reason why the state of an operator could not be read and was copied as bytes, by operator.
        foreign_entries: The number of entries in files of databases that were left out, as they are of key groups that
            subtasks gave away in a rescaling.
        moved_from: The folders in which a moved checkpoint names its files; empty if it was not moved.
        carried: State that only its operator can read, and that is carried over as bytes.
        unplaced_sources: The names of the sources of which the savepoint has no position.
        query: What the copy of a query's checkpoint has beside state; None: it is a savepoint.
        kept: The states that stay in files of databases, which are linked or copied without being read.
        read_files: For a dry run, the stored states in files of databases that would be read.
    """

    source: str
    target: str
    plan: MigrationPlan
    dry_run: bool = True
    tasks: int
    copies: int
    bytes_read: int | None
    bytes_written: int | None = 0
    states: tuple[StateCount, ...] = ()
    plan_file: PlanFile | None = None
    tried: dict[tuple[str, str], bool] = attrs.field(factory=dict)
    seconds: float = 0.0
    phases: dict[str, float] = attrs.field(factory=dict)
    estimate: Estimate | None = None
    resumed: int = 0
    redone: tuple[Redone, ...] = ()
    source_quarantined: int = 0
    source_has_digests: bool = True
    lacks_numba: bool = False
    missing_timers: str = ""
    unproven: str = ""
    must_declare: bool = False
    unread: dict[str, str] = attrs.field(factory=dict)
    foreign_entries: int = 0
    moved_from: tuple[str, ...] = ()
    carried: tuple[CarriedOver, ...] = ()
    unplaced_sources: tuple[str, ...] = ()
    query: QueryCopy | None = None
    kept: tuple[StateFiles, ...] = ()
    read_files: tuple[StateFiles, ...] = ()

    @classmethod
    def planned(cls, savepoint: Savepoint, plan: MigrationPlan, target: str, tasks: Sequence[Task]) -> MigrationReport:
        """Return the report of a migration before it runs."""
        copies, lineage = sum(isinstance(task, CopyTask) for task in tasks), savepoint.lineage
        return cls(
            source=savepoint.place,
            target=target,
            plan=plan,
            tasks=len(tasks) - copies - sum(isinstance(task, KeepTask) for task in tasks),
            copies=copies,
            bytes_read=sum(task.size_bytes for task in tasks),
            kept=add_files(one for task in tasks if isinstance(task, KeyedTask | KeepTask) for one in task.kept_states),
            source_quarantined=0 if lineage is None else lineage.quarantined,
            source_has_digests=savepoint.has_digests,
            missing_timers=savepoint.missing_timers,
            unproven="" if savepoint.query is None else savepoint.query.unproven,
            must_declare=any(
                savepoint.operator(one.operator_id).has_custom_raw_keyed_state for one in plan.operators if one.in_job
            ),
            unread={one.title: one.unreadable for one in savepoint.operators if one.unreadable},
            moved_from=savepoint.moved_from,
            carried=tuple(
                CarriedOver(operator.title, state.what, len(state.streams), state.size_bytes)
                for operator in savepoint.operators
                for state in operator.carried
            ),
            unplaced_sources=tuple(
                operator.name.removeprefix(_SOURCE)
                for operator in savepoint.operators
                if operator.name.startswith(_SOURCE) and not (operator.stored.has_state or operator.stored.finished)
            ),
        )

    def finished(
        self, lineage: Lineage, bytes_written: int, seconds: float, phases: dict[str, float]
    ) -> MigrationReport:
        """Return the report of the finished migration."""
        return attrs.evolve(
            self,
            dry_run=False,
            bytes_written=bytes_written,
            states=lineage.states,
            kept=lineage.kept,
            seconds=seconds,
            phases=phases,
        )

    def __repr__(self) -> str:
        return repr_of(self, *self._told(), f"from {self.source}", f"to {self.target}")

    def _repr_html_(self) -> str:
        from ...compat.pages.plan import migration_pieces
        from ...compat.pages.rendering import fragment

        if self.plan_file is not None:
            return self.plan_file._repr_html_()
        told, bad = self._told()
        facts = [("source", self.source), ("new", self.target), ("rollback", self.rollback)]
        facts += [("in quarantine", bad)] if bad else []
        return fragment(migration_pieces(self.to_data(), self.plan, told, facts))

    def _told(self) -> tuple[str, str]:
        """Return what was done, and what was put aside, in words."""
        counts = Counter(count.action for count in self.states)
        done = ", ".join(f"{count} {action}" for action, count in counts.items())
        entries = many(sum(count.written for count in self.states), "entry", "entries")
        told = f"{entries} written in {self.seconds:.1f} s" + (f"; states: {done}" if done else "")
        bad = f"{many(self.quarantined, 'value')} in quarantine" if self.quarantined else ""
        return "a dry run: nothing was written" if self.dry_run else told, bad

    @property
    def quarantined(self) -> int:
        """The number of values that did not fit and were quarantined."""
        return sum(count.quarantined for count in self.states)

    @property
    def condition(self) -> str:
        """The condition under which no value fails in states whose bytes stay, and so were not read; or ""."""
        states = (state for operator in self.plan.operators for state in operator.states)
        unread = (state for state in states if state.action is not StateAction.CONVERT)
        return condition(finding for state in unread for finding in state.findings)

    @property
    def dropped_fields(self) -> tuple[DroppedFields, ...]:
        """The fields that the written values have lost, by state; empty before a run."""
        return tuple(
            DroppedFields(title, name, state.drops, state.possible_renames, entries)
            for title, name, state, entries in self._converted()
            if state.drops
        )

    @property
    def new_columns(self) -> tuple[NewColumns, ...]:
        """The columns of a query that the written values have got, by state; empty before a run."""
        return tuple(
            NewColumns(title, name, state.fills, state.begins, entries)
            for title, name, state, entries in self._converted()
            if state.fills or state.begins
        )

    def _converted(self) -> Iterator[tuple[str, str, StatePlan, int]]:
        """Yield the converted states: operator, name, plan, and the number of entries written."""
        written = {(count.operator_id, count.kind, count.state): count.written for count in self.states}
        for operator in self.plan.operators:
            for state in operator.states:
                place = operator.new_id or operator.operator_id, str(state.kind), state.new_name or state.name
                if state.action is StateAction.CONVERT and place in written:
                    yield operator.uid or place[0], place[2], state, written[place]

    @property
    def copied_only(self) -> bool:
        """Whether no state had to be rewritten, so that files were copied unchanged."""
        continued = () if self.query is None else self.query.operators
        return self.plan.is_empty and all(one.was == one.becomes for one in continued)

    @property
    def unseen_damage(self) -> str:
        """A text about the damage of the source that could not be detected, or ""."""
        if self.source_has_digests:
            return ""
        return (
            "there were no digests to check the source against: damage within keys, values and names that left them "
            "readable cannot be detected"
        )

    @property
    def slowness(self) -> str:
        """A text about why the run was many times slower than necessary, or ""."""
        if not self.lacks_numba:
            return ""
        return (
            f"numba was not installed where the state was read: objects did it, which takes about {TIMES_SLOWER} times "
            "as long (pip install 'stateshift[spark]')"
        )

    @property
    def rollback(self) -> str:
        """A text about what to do if the new job must be rolled back (rule RUN-8)."""
        if self.query is not None:
            return self.query.going_back
        if self.moved_from:
            places = " and ".join(self.moved_from)
            return f"{self.source} is untouched; the old job starts on it once its files are back in {places}"
        return f"start the old job on {self.source}: it is untouched"

    def to_data(self) -> dict[str, Any]:
        """Return the report as plain data, for `--json`."""
        return {
            **fields_of(self, "source target dry_run copied_only streams_rewritten=tasks files_copied=copies"),
            **fields_of(self, "streams_resumed=resumed streams_redone=redone estimate bytes_read bytes_written"),
            "seconds": round(self.seconds, 3),
            "phases": {phase: round(seconds, 3) for phase, seconds in self.phases.items()},
            "operators": plain(self.plan.operators, "operator_id uid rewritten=is_rewritten"),
            **fields_of(self, "states dropped_fields new_columns quarantined source_quarantined foreign_entries"),
            "tried": [
                {"operator_id": operator_id, "state": state, "converted": found}
                for (operator_id, state), found in self.tried.items()
            ],
            "carried_over": plain(self.carried, "operator what streams bytes=size_bytes"),
            "kept_files": plain(self.kept, _FILES),
            "read_files": plain(self.read_files, _FILES),
            "unplaced_sources": list(self.unplaced_sources),
            **fields_of(self, "condition? missing_timers? unproven? unseen_damage? slowness? unread"),
            "source_untouched": True,
            "rollback": self.rollback,
            "plan": to_data(self.plan),
            "query": None if self.query is None else self.query.to_data(),
        }
