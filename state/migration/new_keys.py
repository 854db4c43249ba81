"""Rewriting of all keys of an operator, apart from the engine that shuffles the entries.

    read_batches      reads a piece of the stored state, and yields entries of one state and new key group together
    write_batches     writes the stream of a new subtask from its sorted `ShuffleBatch`es (`merge_partitions`)
    settled           checks that the subtasks received what the readings sent

A reading holds about `HELD_BYTES` of entries, and the keys of one stored key group.
Source: rules ROLE-4, RUN-2, RUN-3, RUN-5, RUN-7.
"""

from __future__ import annotations

import json
from itertools import groupby
from typing import TYPE_CHECKING, ClassVar, Self

import attrs

from ...compat.plain_data import plain
from ...compat.plan import StateAction
from ...serializers.errors import MigrationFailed, located
from ..formats.flink.keyed_readers import open_keyed
from ..key_groups import subtask_of
from ..publication.lineage import add_counts
from ..runner import BATCH_BYTES, ShuffleBatch, Shuffled
from ..transcode.frames import add_keys
from .block_rewriter import Tally
from .key_writer import EntryKeys, KeyWriter
from .merge_partitions import write_batches
from .quarantine import QuarantineLines
from .shuffle_batches import BEGIN, framed
from .stream_rewriter import StreamRewriter, new_state_id
from .tasks import digest_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ...compat.plan import OperatorPlan
    from ..formats.flink.handles import KeyedHandle
    from ..formats.flink.keyed_stream import KeyedReader
    from ..publication.lineage import StateCount
    from ..runner import Conditions
    from ..storage.files import Folder
    from ..transcode.executor_choice import ExecutorName
    from .journal import Journal
    from .tasks import RekeyTask, TaskResult

HELD_BYTES = 32 << 20
"""The approximate size of the entries that a reading holds before it yields them all."""
_BATCH_OVERHEAD = 200


@attrs.frozen
class Rekeying(Shuffled["RekeyTask", "TaskResult"]):
    """The streams of operators whose keys are all rewritten; other streams of these operators may exist already.

    Attributes:
        target: The folder to write to.
        journal: The journal of the results; None: they are not recorded.
    """

    target: Folder
    journal: Journal | None = None

    needs: ClassVar[str] = "rewriting keys"

    def title(self, task: RekeyTask) -> str:
        return task.title

    def entries(self, result: TaskResult) -> int:
        return result.entries

    def readings(self) -> list[tuple[int, int]]:
        firsts: dict[str, int] = {}
        for at, task in enumerate(self.tasks):
            firsts.setdefault(task.plan.operator_id, at)
        return [(at, number) for at in firsts.values() for number in range(len(self.tasks[at].readings))]

    def read(self, at: int, number: int, conditions: Conditions) -> Iterator[ShuffleBatch]:
        operator_id = self.tasks[at].plan.operator_id
        streams = {
            task.subtask: stream for stream, task in enumerate(self.tasks) if task.plan.operator_id == operator_id
        }
        return read_batches(self.tasks[at], number, self.source, streams, conditions.executor)

    def write(self, at: int, batches: Iterable[ShuffleBatch], conditions: Conditions) -> TaskResult:
        result = write_batches(self.tasks[at], batches, self.source, self.target)
        result = attrs.evolve(result, lacks_numba=conditions.lacks_numba)
        if self.journal is not None:
            self.journal.record(result)
        return result

    def apart(self) -> Iterator[Self]:
        """Yield the works of single operators, each of which is read only once."""
        tasks = sorted(self.tasks, key=lambda task: task.plan.operator_id)
        for _, own in groupby(tasks, key=lambda task: task.plan.operator_id):
            yield attrs.evolve(self, tasks=tuple(own))


def read_batches(
    task: RekeyTask, at: int, source: Folder, streams: Mapping[int, int], executor: ExecutorName
) -> Iterator[ShuffleBatch]:
    """Read a piece of the stored state, and yield its entries with new keys.

    Args:
        task: Any task of the operator.
        at: The index of the reading.
        source: The folder of the stored streams.
        streams: The numbers of the streams to write, by subtask; entries of others are read and counted, but not
            yielded.
        executor: The name of the executor of op lists.

    Raises:
        ValueNotConvertible: A key or a value does not fit its new type.
        CorruptSavepoint: The stream is damaged, or entries lie in a wrong key group.
    """
    reading = task.readings[at]
    if at == 0:
        yield from (ShuffleBatch(streams[subtask], BEGIN, BEGIN, b"") for subtask in sorted(streams))
    with (
        located(savepoint=source.place, operator=task.title),
        open_keyed(
            reading.handle,
            source,
            task.stored_max_parallelism,
            digest_of(task.digests, reading.handle.stream) if reading.is_first else "",
            executor=executor,
        ) as reader,
    ):
        work = _Reading(task, reader, streams)
        yield from work.batches(reading.key_groups)
        if 0 in streams:
            told = {
                "counts": plain([*work.counts()]),
                "quarantine": [line.decode() for line in work.lines],
                "foreign": reader.foreign if reading.is_first else 0,
            }
            yield ShuffleBatch(streams[0], BEGIN, BEGIN, json.dumps(told).encode())


def rekey_sample(plan: OperatorPlan, state: str, handle: KeyedHandle, max_parallelism: int, source: Folder) -> bool:
    """Rewrite the key of a state's first entry as a trial; return False if there is no entry (rule READ-5)."""
    with open_keyed(handle, source, max_parallelism) as reader:
        wanted = [at for at, info in enumerate(reader.header.states) if info.name == state]
        assert plan.rekeying is not None  # noqa: S101 - the caller passes only rekeyed operators
        for block in reader.blocks(state_ids=wanted) if wanted else ():
            info = reader.header.states[block.state_id]
            keys = KeyWriter.of(plan.rekeying, plan.max_parallelism or max_parallelism)
            old = reader.header.key_snapshot.restore_serializer()
            entries = EntryKeys.of(info, old, keys, max_parallelism)
            for key, _ in block.items():  # noqa: PERF102 - a block is not a dict
                entries.moved(key, block.key_group)
                return True
    return False


class _Reading:
    """Reads a piece of stored state; counts the entries that it reads and yields."""

    def __init__(self, task: RekeyTask, reader: KeyedReader, streams: Mapping[int, int]) -> None:
        assert task.plan.rekeying is not None  # noqa: S101 - a rekeying task has it
        self._task, self._reader, self._streams = task, reader, streams
        self._tallies = {info.name: Tally() for info in reader.header.states}
        self._sent = [Tally() for _ in task.header.states]
        self._held: dict[tuple[int, int], bytearray] = {}
        self.lines: list[bytes] = []  # of bad values, which are sent with the counts: a reading writes no file
        self.aside = QuarantineLines(task.plan, self.lines.append)
        self._keys = KeyWriter.of(task.plan.rekeying, task.max_parallelism)
        old = reader.header.key_snapshot.restore_serializer()
        self._entries = {
            new_id: EntryKeys.of(task.header.states[new_id], old, self._keys, task.stored_max_parallelism)
            for info in reader.header.states
            if (new_id := new_state_id(task.plan, info, task.header)) is not None
        }

    def batches(self, key_groups: range) -> Iterator[ShuffleBatch]:
        """Yield all entries of some stored key groups, packed by new key group and state."""
        task, size, current = self._task, 0, -1
        stream = StreamRewriter(
            task.plan, task.stored_max_parallelism, self._reader, task.header, self._tallies, self.aside
        )
        for block in stream.blocks(key_groups):
            if block.key_group != current:
                self._keys.forget()
                current = block.key_group
            entries, tally = self._entries[block.state_id], self._sent[block.state_id]
            with located(file=self._reader.name, state=task.header.states[block.state_id].name):
                for key, value in block.items():
                    group, entry = entries.moved(key, current)
                    tally.written += 1
                    tally.keys_written = add_keys(tally.keys_written, (entry.entry_key,))
                    if subtask_of(group, task.parallelism, task.max_parallelism) not in self._streams:
                        continue
                    batch = self._held.setdefault((group, block.state_id), bytearray())
                    before = len(batch) or -_BATCH_OVERHEAD
                    batch += framed(entry, value)
                    size += len(batch) - before
                    if len(batch) >= BATCH_BYTES:
                        size -= len(batch) + _BATCH_OVERHEAD
                        yield self._batch((group, block.state_id))
                    elif size >= HELD_BYTES:
                        size = 0
                        yield from self._all_batches()
        yield from self._all_batches()

    def _all_batches(self) -> Iterator[ShuffleBatch]:
        for place in sorted(self._held):
            yield self._batch(place)

    def _batch(self, place: tuple[int, int]) -> ShuffleBatch:
        group, state_id = place
        subtask = subtask_of(group, self._task.parallelism, self._task.max_parallelism)
        return ShuffleBatch(self._streams[subtask], group, state_id, bytes(self._held.pop(place)))

    def counts(self) -> Iterator[StateCount]:
        """Yield the counts of each stored state, after checking that no entry was lost here (RUN-2)."""
        task, new_ids = self._task, dict[tuple[str, str, str], int | None]()
        counts = []
        for info in self._reader.header.states:
            count = self._tallies[info.name].result(task.plan, task.plan.state(info.name, keyed=True), info)
            new_ids[count.place] = new_state_id(task.plan, info, task.header)
            counts.append(count)
        for count in add_counts(counts):  # tables of a state may become one
            new_id = new_ids[count.place]
            if new_id is None:
                yield count
                continue
            sent = self._sent[new_id]
            moved = count.written if count.entries is None else count.entries
            if sent.written != moved:
                raise _lost(count.state, f"{moved:,} entries were read and {sent.written:,} sent on")
            yield attrs.evolve(count, keys=f"{sent.keys_written:016x}")


def _lost(state: str, what: str) -> MigrationFailed:
    return MigrationFailed(what, state=state, advice="this is a bug in stateshift; nothing is published")


def settled(counts: tuple[StateCount, ...], sent: tuple[StateCount, ...]) -> tuple[StateCount, ...]:
    """Return the final counts of all states, after checking that all entries sent were received (rule RUN-2).

    Args:
        counts: The counts of all states, added up over all streams.
        sent: The counts of the states whose keys were rewritten, added up over all readings.

    Raises:
        MigrationFailed: The counts differ.
    """
    by_place = {count.place: count for count in counts}
    for count in sent:
        if count.action == StateAction.DROP:
            by_place[count.place] = count
            continue
        there = by_place[count.place]
        moved = count.written if count.entries is None else count.entries
        if (there.read, there.keys) != (moved, count.keys):
            what = f"{moved:,} entries were sent and {there.read:,} received"
            raise _lost(count.state, f"{what}, and the checksums of their keys are {count.keys} and {there.keys}")
        if there.read != there.written + there.merged:
            raise _lost(count.state, f"{there.read:,} entries were received, and {there.written:,} written")
        by_place[count.place] = _whole(count, there)
    return tuple(by_place.values())


def _whole(sent: StateCount, there: StateCount) -> StateCount:
    """Return the counts of a rekeyed state from source to target; if its kind has changed, they count keys."""
    whole = attrs.evolve(sent, merged=sent.merged + there.merged)
    if sent.entries is None:
        return attrs.evolve(whole, written=there.written)
    return attrs.evolve(whole, entries=there.written)
