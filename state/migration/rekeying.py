"""Rewriting of all keys of an operator, apart from the engine that shuffles the entries.

    read_parcels      reads a piece of the stored state, and yields `Parcel`s of entries of a state and new key group
    write_parcels     writes the stream of a new subtask from its sorted `Parcel`s (`merge_partitions`)
    settled           checks that the subtasks received what the readings sent

A reading holds about `HELD_BYTES` of entries, and the keys of one stored key group.
Source: rules ROLE-4, RUN-2, RUN-3, RUN-5, RUN-7.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import attrs

from ...compat.plan import StateAction
from ...compat.structuring import plain
from ...serializers.errors import MigrationFailed, located
from ..key_groups import subtask_of
from ..savepoint.keyed_readers import open_keyed
from ..transcode.framed import add_keys
from .block_rewriter import Tally
from .key_writer import EntryKeys, KeyWriter
from .merge_partitions import write_parcels
from .quarantine import Gathered
from .rekey_task import digest_of
from .shuffle_batches import BEGIN, PARCEL_BYTES, Parcel, framed
from .stream_rewriter import StreamRewriter, new_state_id

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from ...compat.plan import OperatorPlan
    from ..savepoint.handles import KeyedHandle
    from ..savepoint.keyed_readers import KeyedReader
    from ..storage.files import Folder
    from ..storage.lineage import StateCount
    from ..transcode.choice import ExecutorName
    from .rekey_task import RekeyTask
    from .tasks import TaskResult

HELD_BYTES = 32 << 20
"""The approximate size of the entries that a reading holds before it yields them all."""
_PARCEL_OVERHEAD = 200


def rekeyed_here(
    tasks: Sequence[RekeyTask], source: Folder, target: Folder, executor: ExecutorName
) -> list[TaskResult]:
    """Write streams of one operator without an engine; all their entries are held in memory, and sorted here."""
    held: dict[int, list[Parcel]] = {task.subtask: [] for task in tasks}
    for at in range(len(tasks[0].readings)):
        for parcel in read_parcels(tasks[0], at, source, held.keys(), executor):
            held[parcel.subtask].append(parcel)
    for parcels in held.values():
        parcels.sort(key=lambda parcel: (parcel.key_group, parcel.state_id))
    return [write_parcels(task, held[task.subtask], target) for task in tasks]


def read_parcels(
    task: RekeyTask, at: int, source: Folder, wanted: Collection[int], executor: ExecutorName
) -> Iterator[Parcel]:
    """Read a piece of the stored state, and yield its entries with new keys.

    Args:
        task: Any task of the operator.
        at: The index of the reading.
        source: The folder of the stored streams.
        wanted: The subtasks to write; entries of others are read and counted, but not yielded.
        executor: The name of the executor of op lists.

    Raises:
        ValueNotConvertible: A key or a value does not fit its new type.
        CorruptSavepoint: The stream is damaged, or entries lie in a wrong key group.
    """
    reading = task.readings[at]
    if at == 0:
        yield from (Parcel(subtask, BEGIN, BEGIN, b"") for subtask in sorted(wanted))
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
        work = _Reading(task, reader, frozenset(wanted))
        yield from work.parcels(reading.key_groups)
        if 0 in wanted:
            told = {
                "counts": plain([*work.counts()]),
                "quarantine": [line.decode() for line in work.aside.lines],
            }
            yield Parcel(0, BEGIN, BEGIN, json.dumps(told).encode())


def rekey_sample(plan: OperatorPlan, state: str, handle: KeyedHandle, max_parallelism: int, source: Folder) -> bool:
    """Rewrite the key of a state's first entry as a trial; return False if there is no entry (rule READ-5)."""
    with open_keyed(handle, source, max_parallelism) as reader:
        wanted = [at for at, info in enumerate(reader.header.states) if info.name == state]
        assert plan.rekeying is not None  # noqa: S101 - the caller passes only rekeyed operators
        for block in reader.blocks(state_ids=wanted) if wanted else ():
            info = reader.header.states[block.state_id]
            keys = KeyWriter.of(plan.rekeying, plan.max_parallelism or max_parallelism)
            old = reader.header.key_snapshot.restore_serializer()
            entries = EntryKeys.of(info, info, old, keys, max_parallelism)
            for key, _ in block.items():  # noqa: PERF102 - a block is not a dict
                entries.moved(key, block.key_group)
                return True
    return False


class _Reading:
    """Reads a piece of stored state; counts the entries that it reads and yields."""

    def __init__(self, task: RekeyTask, reader: KeyedReader, wanted: frozenset[int]) -> None:
        assert task.plan.rekeying is not None  # noqa: S101 - a rekeying task has it
        self._task, self._reader, self._wanted = task, reader, wanted
        self._tallies = {info.name: Tally() for info in reader.header.states}
        self._sent = [Tally() for _ in task.header.states]
        self._held: dict[tuple[int, int], bytearray] = {}
        self.aside = Gathered(task.plan)
        self._keys = KeyWriter.of(task.plan.rekeying, task.max_parallelism)
        old = reader.header.key_snapshot.restore_serializer()
        self._entries = {
            new_id: EntryKeys.of(info, task.header.states[new_id], old, self._keys, task.stored_max_parallelism)
            for info in reader.header.states
            if (new_id := new_state_id(task.plan, info, task.header)) is not None
        }

    def parcels(self, key_groups: range) -> Iterator[Parcel]:
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
                    if subtask_of(group, task.parallelism, task.max_parallelism) not in self._wanted:
                        continue
                    parcel = self._held.setdefault((group, block.state_id), bytearray())
                    before = len(parcel) or -_PARCEL_OVERHEAD
                    parcel += framed(entry, value)
                    size += len(parcel) - before
                    if len(parcel) >= PARCEL_BYTES:
                        size -= len(parcel) + _PARCEL_OVERHEAD
                        yield self._parcel((group, block.state_id))
                    elif size >= HELD_BYTES:
                        size = 0
                        yield from self._all_parcels()
        yield from self._all_parcels()

    def _all_parcels(self) -> Iterator[Parcel]:
        for place in sorted(self._held):
            yield self._parcel(place)

    def _parcel(self, place: tuple[int, int]) -> Parcel:
        group, state_id = place
        subtask = subtask_of(group, self._task.parallelism, self._task.max_parallelism)
        return Parcel(subtask, group, state_id, bytes(self._held.pop(place)))

    def counts(self) -> Iterator[StateCount]:
        """Yield the counts of each stored state, after checking that no entry was lost here (RUN-2)."""
        task = self._task
        for info in self._reader.header.states:
            count = self._tallies[info.name].result(task.plan, task.plan.state(info.name, keyed=True), info)
            new_id = new_state_id(task.plan, info, task.header)
            if new_id is None:
                yield count
                continue
            sent = self._sent[new_id]
            moved = count.written if count.entries is None else count.entries
            if sent.written != moved:
                raise _lost(info.name, f"{moved:,} entries were read and {sent.written:,} sent on")
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
    by_place = {_place(count): count for count in counts}
    for count in sent:
        if count.action == StateAction.DROP:
            by_place[_place(count)] = count
            continue
        there = by_place[_place(count)]
        moved = count.written if count.entries is None else count.entries
        if (there.read, there.keys) != (moved, count.keys):
            what = f"{moved:,} entries were sent and {there.read:,} received"
            raise _lost(count.state, f"{what}, and the checksums of their keys are {count.keys} and {there.keys}")
        if there.read != there.written + there.merged:
            raise _lost(count.state, f"{there.read:,} entries were received, and {there.written:,} written")
        by_place[_place(count)] = _whole(count, there)
    return tuple(by_place.values())


def _whole(sent: StateCount, there: StateCount) -> StateCount:
    """Return the counts of a rekeyed state from source to target; if its kind has changed, they count keys."""
    whole = attrs.evolve(sent, merged=there.merged)
    if sent.entries is None:
        return attrs.evolve(whole, written=there.written)
    return attrs.evolve(whole, entries=there.written)


def _place(count: StateCount) -> tuple[str, str, str]:
    return count.operator_id, count.kind, count.state
