"""The quarantine for values that a task cannot convert (rule RUN-4): a file per task, created for the first value."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol, Self

import attrs

from ...serializers.errors import MigrationFailed
from ..savepoint.quarantine import QuarantinedValue, quarantine_part
from ..storage.publish import stream_name
from ..storage.sink import StreamSink

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from ...compat.plan import OperatorPlan, StatePlan
    from ..storage.files import Folder
    from ..storage.lineage import StateCount
    from ..storage.sink import StoredBytes
    from ..transcode.bad_values import BadValue


class TakesBadValues(Protocol):
    """A receiver of bad values."""

    def put(self, state: StatePlan, bad_values: Iterable[BadValue]) -> None:
        """Add bad values of one state."""
        ...


class Quarantine:
    """The quarantine of one task. It is used in a `with` block: if that fails, its file is removed.

    Like a stream, the file has the name of the attempt until the run is published: a task that is killed and tried
    again does not write values twice.

    Args:
        target: The folder that the task writes to.
        plan: The plan of its operator, which limits the number of bad values.
        part: The part of the stream that the task writes: `keyed` or `operator`.
        subtask: The subtask of that stream.
    """

    def __init__(self, target: Folder, plan: OperatorPlan, part: str, subtask: int) -> None:
        self._plan = plan
        name = stream_name(plan.operator_id, quarantine_part(part), subtask)
        self._sink = StreamSink(target, name, inline_bytes=0)
        self._count = 0

    def put(self, state: StatePlan, bad_values: Iterable[BadValue]) -> None:
        """Write bad values of one state to the file.

        Raises:
            MigrationFailed: There are more values than the run may have in all.
        """
        self.keep(map(partial(_line, self._plan, state), bad_values))

    def keep(self, lines: Iterable[bytes]) -> None:
        """Write lines from `Gathered` to the file."""
        for line in lines:
            self._count += 1
            _require_place(self._count, self._plan, line)
            self._sink.write(line)

    def finish(self) -> StoredBytes | None:
        """Close the file, and return it; None if there was no bad value."""
        stored = self._sink.finish()
        return stored if stored.attempt else None

    def __enter__(self) -> Self:
        self._sink.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sink.__exit__(kind, error, trace)


@attrs.define
class Gathered:
    """Collects the bad values of a reading, which writes no file: they are sent with its counts (ROLE-4).

    Attributes:
        plan: The plan of the operator, which limits the number of bad values.
        lines: The bad values, as lines of a quarantine file.
    """

    plan: OperatorPlan
    lines: list[bytes] = attrs.field(factory=list)

    def put(self, state: StatePlan, bad_values: Iterable[BadValue]) -> None:
        """Add bad values of one state; raises as `Quarantine.put`."""
        for bad in bad_values:
            self.lines.append(_line(self.plan, state, bad))
            _require_place(len(self.lines), self.plan, self.lines[-1])


def _line(plan: OperatorPlan, state: StatePlan, bad: BadValue) -> bytes:
    return QuarantinedValue(
        operator_id=plan.new_id or plan.operator_id,
        operator=plan.uid,
        state=state.new_name or state.name,
        kind=str(state.kind),
        key_group=bad.key_group,
        key=bad.key or None,
        user_key=bad.user_key or None,
        path=bad.path,
        rule=bad.rule or None,
        reason=bad.reason,
        cause=bad.cause,
        key_bytes=bad.key_bytes,
        value_bytes=bad.value_bytes,
    ).to_line()


def _require_place(count: int, plan: OperatorPlan, line: bytes) -> None:
    if count > plan.max_bad_values:
        last = QuarantinedValue.from_line(line)
        raise too_many(count, plan.max_bad_values, last.reason, last.state)


def too_many(count: int, limit: int, reason: str = "", state: str | None = None) -> MigrationFailed:
    """Return the error of a run with too many quarantined values."""
    last = f"; the last: {reason}" if reason else ""
    return MigrationFailed(
        f"{count:,} values do not fit their new types, but only {limit:,} may go to quarantine{last}",
        advice="correct the converter or the new type; or allow more with --max-bad-values",
        state=state,
        rule="RUN-4",
    )


def require_few(counts: Iterable[StateCount], limit: int) -> None:
    """Check the number of quarantined values of all tasks against the limit, before anything is published.

    Raises:
        MigrationFailed: There are more quarantined values.
    """
    found = [count for count in counts if count.quarantined]
    total = sum(count.quarantined for count in found)
    if total > limit:
        raise too_many(total, limit, state=", ".join(dict.fromkeys(count.state for count in found)))
