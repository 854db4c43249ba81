"""Writing of a rekeyed subtask's stream: its entries are sorted by key, and keys that became one are merged or refused.

The entries of one state in one new key group, and the keys of that key group, are in memory at a time.
Source: rules ROLE-4, RUN-2 and RUN-5.
"""

from __future__ import annotations

import json
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ...compat.description import StateKind
from ...compat.plan import StateAction
from ...serializers.errors import CorruptSavepoint, MigrationFailed, ValuesCollide, located
from ...serializers.pickled.trust import trusting
from ...serializers.ways_out import Option, Told, WayOut
from ..formats.flink.blocks import Block
from ..formats.flink.state_kinds import keyed_kind
from ..publication.lineage import StateCount
from ..runner import BATCH_BYTES
from ..storage.prefetch import in_batches, pair_bytes
from ..transcode.executor_choice import choose_executor
from ..transcode.frames import add_keys
from .block_rewriter import Tally
from .key_writer import KeyWriter
from .merger import Merger
from .outputs import keyed_output
from .quarantine import Quarantine
from .shuffle_batches import BEGIN, entries_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ...compat.plan import OperatorPlan, StatePlan
    from ..runner import ShuffleBatch
    from ..storage.files import Folder
    from .shuffle_batches import SentEntry
    from .tasks import RekeyTask, TaskResult


def write_batches(task: RekeyTask, batches: Iterable[ShuffleBatch], source: Folder, target: Folder) -> TaskResult:
    """Write the stream of one new subtask.

    Args:
        task: The task of the subtask.
        batches: All entries of the subtask, sorted by key group and state.
        source: The folder of the stored streams.
        target: The folder to write to.

    Raises:
        ValuesCollide: Two stored keys become one, and there is no merge function for their values.
        MigrationFailed: The counts of a reading are missing.
    """
    told: list[dict[str, Any]] = []
    with (
        located(operator=task.title),
        keyed_output(task, task.header, source, target, choose_executor(task.size_bytes)) as output,
        Quarantine(target, task.plan, "keyed", task.subtask) as quarantine,
    ):
        united = _United(task)
        for (group, state_id), found in groupby(batches, key=lambda batch: (batch.key_group, batch.state_id)):
            if group == BEGIN:
                told += [json.loads(batch.data) for batch in found if batch.data]
                continue
            for block in united.blocks(group, state_id, found):
                output.writer.add(block)
        written = output.finish()
        quarantine.keep(sorted(line.encode() for reading in told for line in reading["quarantine"]))
        aside = quarantine.finish()
        if task.subtask == 0 and len(told) != len(task.readings):
            raise MigrationFailed(f"of {len(task.readings)} readings only {len(told)} reported")
    sent = tuple(StateCount(**count) for reading in told for count in reading["counts"])
    foreign = sum(reading["foreign"] for reading in told)
    return written.result(counts=united.counts(), sent=sent, quarantine=aside, foreign=foreign)


class _United:
    """Sorts the entries of a subtask, merges or refuses keys that became one, and counts."""

    def __init__(self, task: RekeyTask) -> None:
        rekeying = task.plan.rekeying
        assert rekeying is not None  # noqa: S101 - a rekeying task has it
        self._task = task
        self._keys = KeyWriter.of(rekeying, task.max_parallelism)
        self._received = [Tally() for _ in task.header.states]
        self._written, self._merged = [0] * len(self._received), [0] * len(self._received)
        merging = dict(rekeying.merges)
        plans = [_plan_of(task.plan, info.name) for info in task.header.states]
        self._mergers = [Merger(merging[plan.name]) if plan and plan.name in merging else None for plan in plans]
        self._owners: dict[bytes, bytes] = {}
        self._group = BEGIN

    def blocks(self, group: int, state_id: int, batches: Iterable[ShuffleBatch]) -> Iterator[Block]:
        """Yield blocks with the entries of one state in one key group, sorted by key."""
        if group != self._group:
            self._owners.clear()
            self._group = group
        entries = sorted(entry for batch in batches for entry in entries_of(batch))
        tally = self._received[state_id]
        tally.read += len(entries)
        tally.keys_read = add_keys(tally.keys_read, (entry.entry_key for entry in entries))
        with located(state=self._task.header.states[state_id].name):
            by_key = groupby(entries, key=lambda entry: entry.entry_key)
            values = ((key, self._one_value(state_id, list(same))) for key, same in by_key)
            pairs = ((key, value) for key, value in values if value is not None)
            for pieces in in_batches(pairs, pair_bytes, BATCH_BYTES):
                self._written[state_id] += len(pieces)
                yield Block.of(group, state_id, pieces)

    def _one_value(self, state_id: int, same: list[SentEntry]) -> bytes | None:
        """Return the value of a new key; None if a merge returned an empty list."""
        for entry in same:
            self._claim(entry)
        if len(same) == 1:
            return same[0].value
        first, second = same[:2]
        if len({entry.old_key for entry in same}) < len(same):
            raise CorruptSavepoint(
                f"the key {self._keys.shown_new(first.key)} has two entries instead of one", rule="ROLE-4"
            )
        self._merged[state_id] += len(same) - 1
        if keyed_kind(self._task.header.states[state_id]) is StateKind.TIMERS:
            return first.value
        merger = self._mergers[state_id]
        if merger is None:
            raise self._collision(first.old_key, second)
        plan = _plan_of(self._task.plan, self._task.header.states[state_id].name)
        with located(key=self._keys.shown_new(first.key)), trusting(plan.trust if plan is not None else ()):
            value = merger.merged([entry.value for entry in same])
        self._merged[state_id] += value is None
        return value

    def _claim(self, entry: SentEntry) -> None:
        """Raise if another stored key, in any state, has become the same new key, unless there are merge functions.

        Keys that keep their bytes cannot collide.
        """
        if self._keys.keeps_bytes:
            return
        owner = self._owners.setdefault(entry.key, entry.old_key)
        if owner != entry.old_key and not any(self._mergers):
            raise self._collision(owner, entry)

    def _collision(self, first: bytes, second: SentEntry) -> ValuesCollide:
        keys = self._keys
        both = " and ".join(keys.shown_old(old) for old in sorted((first, second.old_key)))
        unsaid = sorted(
            info.name
            for info, merger in zip(self._task.header.states, self._mergers, strict=True)
            if merger is None and keyed_kind(info) is not StateKind.TIMERS
        )
        return ValuesCollide(
            f"two keys become one: {both} both become {keys.shown_new(second.key)}",
            advice=(
                "let the key_converter of the operator keep them apart",
                WayOut(
                    "merge their values:",
                    (Told.of(Option.MERGE, "STATE", "MODULE:FUNCTION"),),
                    more=f" (states without one: {', '.join(unsaid)})",
                ),
            ),
            key=keys.shown_new(second.key),
            path="$<key>",
            rule="ROLE-4",
        )

    def counts(self) -> tuple[StateCount, ...]:
        """Return the counts of the subtask, by state."""
        return tuple(self._count(state_id) for state_id in range(len(self._received)))

    def _count(self, state_id: int) -> StateCount:
        info, plan = self._task.header.states[state_id], self._task.plan
        state, received = _plan_of(plan, info.name), self._received[state_id]
        return StateCount(
            plan.new_id or plan.operator_id,
            plan.uid,
            info.name,
            str(keyed_kind(info)),
            str(StateAction.REKEY if state is None else state.action),
            received.read,
            self._written[state_id],
            keys=f"{received.keys_read:016x}",
            merged=self._merged[state_id],
        )


def _plan_of(plan: OperatorPlan, new_name: str) -> StatePlan | None:
    """Return the plan of a keyed state by its new name; None if there is none."""
    return next(
        (state for state in plan.states if state.kind.is_keyed and new_name == (state.new_name or state.name)), None
    )
