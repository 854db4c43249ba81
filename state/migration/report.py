"""What a migration did, or would do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ...compat.plan import MigrationPlan, OperatorAction, StateAction
from ...compat.plan_data import to_data
from ..transcode.choice import TIMES_SLOWER
from .tasks import CopyTask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..savepoint.reader import Savepoint
    from ..storage.lineage import Lineage, StateCount
    from .estimate import Estimate
    from .journal import Redone
    from .tasks import Task


@attrs.frozen
class DroppedFields:
    """What values of a state have lost, since the new type does not have it.

    Attributes:
        operator: Its uid or id.
        state: Its name.
        paths: Of the fields.
        possible_renames: Those that may be called otherwise now, as `old->new`.
        entries: Of how many entries.
    """

    operator: str
    state: str
    paths: tuple[str, ...]
    possible_renames: tuple[str, ...]
    entries: int


@attrs.frozen(kw_only=True)
class MigrationReport:
    """What a migration did; of a dry run, what it would do.

    Attributes:
        source: The savepoint that was read; it is never changed.
        target: Where the new one is.
        plan: What was carried out.
        dry_run: Whether nothing was written.
        tasks: Number of streams to rewrite.
        copies: Number of files to copy as they are.
        bytes_read: Bytes of all streams read.
        bytes_written: Bytes of all streams written; 0 in a dry run.
        states: Counts of the states in rewritten operators; empty in a dry run.
        tried: In a dry run, by operator id and state: whether there was an entry, and it was converted.
        seconds: How long it took.
        phases: Seconds of each of its phases, by name, in order; see `Progress`. What is between and after them is
            in `seconds` alone.
        estimate: What the run was expected to take, and who carries it out.
        resumed: How many streams were finished before, by a run that died.
        redone: Streams that it had finished, too, and that were done again: each with the reason.
        source_quarantined: How many values lie in the quarantine of the source; they stay there.
        source_has_digests: Whether digests told what each file of the source must be.
        lacks_numba: Whether plain Python did what machine code does many times as fast, since numba was not there.
        unread: By operator whose state was carried over as bytes: why nothing of it could be read.
    """

    source: str
    target: str
    plan: MigrationPlan
    dry_run: bool = True
    tasks: int
    copies: int
    bytes_read: int
    bytes_written: int = 0
    states: tuple[StateCount, ...] = ()
    tried: dict[tuple[str, str], bool] = attrs.field(factory=dict)
    seconds: float = 0.0
    phases: dict[str, float] = attrs.field(factory=dict)
    estimate: Estimate | None = None
    resumed: int = 0
    redone: tuple[Redone, ...] = ()
    source_quarantined: int = 0
    source_has_digests: bool = True
    lacks_numba: bool = False
    unread: dict[str, str] = attrs.field(factory=dict)

    @classmethod
    def planned(cls, savepoint: Savepoint, plan: MigrationPlan, target: str, tasks: Sequence[Task]) -> MigrationReport:
        """Report what will be done."""
        copies, lineage = sum(isinstance(task, CopyTask) for task in tasks), savepoint.lineage
        return cls(
            source=savepoint.place,
            target=target,
            plan=plan,
            tasks=len(tasks) - copies,
            copies=copies,
            bytes_read=sum(task.size_bytes for task in tasks),
            source_quarantined=0 if lineage is None else lineage.quarantined,
            source_has_digests=savepoint.has_digests,
            unread={one.title: one.unreadable for one in savepoint.operators if one.unreadable},
        )

    def finished(
        self, lineage: Lineage, bytes_written: int, seconds: float, phases: dict[str, float]
    ) -> MigrationReport:
        """Report what was done."""
        return attrs.evolve(
            self,
            dry_run=False,
            bytes_written=bytes_written,
            states=lineage.states,
            seconds=seconds,
            phases=phases,
        )

    @property
    def quarantined(self) -> int:
        """How many values did not fit and were put into quarantine."""
        return sum(count.quarantined for count in self.states)

    @property
    def dropped_fields(self) -> tuple[DroppedFields, ...]:
        """What the values that were written have lost, and in how many entries; nothing before a run."""
        written = {(count.operator_id, count.kind, count.state): count.written for count in self.states}
        found = []
        for operator in self.plan.operators:
            for state in operator.states:
                place = operator.new_id or operator.operator_id, str(state.kind), state.new_name or state.name
                if state.action is StateAction.CONVERT and state.drops and place in written:
                    title = operator.uid or place[0]
                    found.append(DroppedFields(title, place[2], state.drops, state.possible_renames, written[place]))
        return tuple(found)

    @property
    def copied_only(self) -> bool:
        """Whether no state had to be rewritten, so that files were copied as they are."""
        return self.plan.is_empty

    @property
    def unseen_damage(self) -> str:
        """What damage of the source nothing could show, or ""."""
        if self.source_has_digests:
            return ""
        return (
            "there were no digests to hold the source against: "
            "damage within keys, values and names that left them readable could not be seen"
        )

    @property
    def slowness(self) -> str:
        """Return why the run took many times as long as it would have, or ""."""
        if not self.lacks_numba:
            return ""
        return (
            "numba is not installed where the state was gone through: plain Python did it, "
            f"which takes about {TIMES_SLOWER} times as long (pip install 'stateshift[spark]')"
        )

    @property
    def rollback(self) -> str:
        """What to do if the new job has to go back (rule RUN-8)."""
        return f"start the old job on {self.source}: it is untouched"

    def to_data(self) -> dict[str, Any]:
        """Give the report as plain data, for `--json`."""
        operators = [
            {
                "operator_id": operator.operator_id,
                "uid": operator.uid,
                "rewritten": operator.action is OperatorAction.REWRITE,
            }
            for operator in self.plan.operators
        ]
        return {
            "source": self.source,
            "target": self.target,
            "dry_run": self.dry_run,
            "copied_only": self.copied_only,
            "streams_rewritten": self.tasks,
            "files_copied": self.copies,
            "streams_resumed": self.resumed,
            "streams_redone": [attrs.asdict(stream) for stream in self.redone],
            "estimate": None if self.estimate is None else attrs.asdict(self.estimate),
            "bytes_read": self.bytes_read,
            "bytes_written": self.bytes_written,
            "seconds": round(self.seconds, 3),
            "phases": {phase: round(seconds, 3) for phase, seconds in self.phases.items()},
            "operators": operators,
            "states": [attrs.asdict(count) for count in self.states],
            "dropped_fields": [attrs.asdict(one) for one in self.dropped_fields],
            "quarantined": self.quarantined,
            "source_quarantined": self.source_quarantined,
            "tried": [
                {"operator_id": operator_id, "state": state, "converted": found}
                for (operator_id, state), found in self.tried.items()
            ],
            "unseen_damage": self.unseen_damage or None,
            "slowness": self.slowness or None,
            "unread": self.unread,
            "source_untouched": True,
            "rollback": self.rollback,
            "plan": to_data(self.plan),
        }
