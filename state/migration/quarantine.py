"""The quarantine for values that a task cannot convert (rule RUN-4): a file per task, created for the first value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from ...serializers.errors import MigrationFailed
from ...serializers.ways_out import Option, Told, WayOut
from ..publication.publish import stream_name
from ..publication.sink import StreamSink
from ..savepoint.quarantine import QuarantinedValue, StoredTypes, is_types_line, quarantine_part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ...compat.plan import OperatorPlan, StatePlan
    from ...serializers.snapshot import TypeSerializerConfigSnapshot
    from ..formats.flink.meta_info import StateMetaInfo
    from ..publication.lineage import StateCount
    from ..publication.sink import StoredBytes
    from ..storage.files import Folder
    from ..transcode.transcoder import BadValue


class QuarantineLines:
    """Passes on bad values as lines of a quarantine file; lines with equal types are passed on once.

    Args:
        plan: The plan of the operator, which limits the number of bad values.
        write: Takes each line.
    """

    def __init__(self, plan: OperatorPlan, write: Callable[[bytes], object]) -> None:
        self._plan, self._write = plan, write
        self._count = 0
        self._types = set[bytes]()

    def put(self, state: StatePlan, bad_values: Iterable[BadValue], types: StoredTypes | None) -> None:
        """Add bad values of one state, which `types` read; they are needed only if there are any.

        Raises:
            MigrationFailed: There are more values than the run may have in all.
        """
        self.keep(_lines(self._plan, state, bad_values, types))

    def keep(self, lines: Iterable[bytes]) -> None:
        """Add lines that other bad values were passed on as; raises as `put`."""
        for line in lines:
            if not is_types_line(line):
                self._count += 1
                _require_place(self._count, self._plan, line)
            elif line in self._types:
                continue
            else:
                self._types.add(line)
            self._write(line)


class Quarantine(QuarantineLines):
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
        name = stream_name(plan.operator_id, quarantine_part(part), subtask)
        self._sink = StreamSink(target, name, inline_bytes=0)
        super().__init__(plan, self._sink.write)

    def finish(self) -> StoredBytes | None:
        """Close the file, and return it; None if there was no bad value."""
        stored = self._sink.finish()
        return stored if stored.attempt else None

    def __enter__(self) -> Self:
        self._sink.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self._sink.__exit__(*raised)


def stored_types(
    plan: OperatorPlan, info: StateMetaInfo, key: TypeSerializerConfigSnapshot[Any] | None, max_parallelism: int
) -> StoredTypes:
    """Return the types by which the bad values of a state are read."""
    uid = "" if plan.new_id else plan.uid
    return StoredTypes.of(info, key, operator_id=plan.operator_id, uid=uid, max_parallelism=max_parallelism)


def _lines(
    plan: OperatorPlan, state: StatePlan, bad_values: Iterable[BadValue], types: StoredTypes | None
) -> Iterator[bytes]:
    """Yield the types of some bad values, if there are any, and the values."""
    is_first = types is not None
    for bad in bad_values:
        if is_first and types is not None:
            yield types.to_line()
            is_first = False
        yield _line(plan, state, bad, "" if types is None else types.digest)


def _line(plan: OperatorPlan, state: StatePlan, bad: BadValue, types: str) -> bytes:
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
        types=types,
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
        advice=("correct the converter or the new type", WayOut("allow more:", (Told(Option.MAX_BAD_VALUES),))),
        state=state,
        rule="RUN-4",
    )


def require_whole(counts: Iterable[StateCount]) -> None:
    """Refuse a result in which keys were merged while values of the same state are in quarantine (rules RUN-4, ROLE-4).

    A merged value that lacks the part of one of its keys looks complete.

    Raises:
        MigrationFailed: There is such a state.
    """
    for count in counts:
        if count.merged and count.quarantined:
            raise MigrationFailed(
                f"{count.merged:,} entries of {count.state} were merged into others, and {count.quarantined:,} of its "
                "values do not fit: a merged value that lacks one of its parts would look complete",
                advice=WayOut(
                    "let the converter take these values, or correct them; this lists them:",
                    command="stateshift check --scan",
                ),
                state=count.state,
                operator=count.operator or count.operator_id,
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
