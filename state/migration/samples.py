"""Entries before and after: a few of each state that changes, converted as the migration converts them.

Nothing is written, and little is read: the first entries, spread over key groups and subtasks, or those of some keys.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import attrs

from ...compat.description import StateKind
from ...compat.entry_samples import Dropped, EntryFailure, EntrySamples, Fate, SampledEntry, SampledState
from ...compat.plan import StateAction
from ...serializers.errors import (
    OldReaderUnavailable,
    UnsupportedFormat,
    ValueNotConvertible,
    located,
    shown,
    values_are_redacted,
)
from ...serializers.pickled.trust import trusting
from ..formats.flink.blocks import Block
from ..formats.flink.meta_info import KEY_SERIALIZER, VALUE_SERIALIZER, MetaInfoKind
from ..formats.flink.operator_stream import read_operator_stream
from ..formats.flink.sources import open_stream
from ..savepoint.chosen_keys import open_chosen
from ..savepoint.states import keyed_handles
from ..transcode.elements import single_maps
from ..transcode.executor_choice import choose_executor
from ..transcode.factory import make_element_transcoder
from .block_rewriter import BlockRewriter, whole_runs
from .entry_sides import EntryRules, Seen, Side, Values
from .joined_tables import JoinedTables
from .key_writer import EntryKeys, KeyWriter
from .rewrite import new_keyed_header
from .stream_rewriter import new_state_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ...compat.plan import MigrationPlan, OperatorPlan, StatePlan
    from ..formats.flink.handles import KeyedHandle, OperatorStateHandle
    from ..formats.flink.keyed_stream import KeyedReader, KeyedStreamHeader
    from ..formats.flink.meta_info import StateMetaInfo
    from ..savepoint.chosen_keys import ChosenKeys
    from ..savepoint.reader import Savepoint, SavepointOperator
    from ..transcode.transcoder import BadValue, ElementTranscoder
    from .entry_sides import Item

T = TypeVar("T")

FEW = 5
"""How many entries of a state are shown by default."""
MOST_OF_KEYS = 100
"""How many entries of a state are shown at most of chosen keys: a map may have millions."""
_MOST_READ_BYTES = 64 << 20
"""How many bytes of an operator are read at most to find first entries: a state may have none."""


@attrs.frozen
class SampleChoice:
    """Which entries are shown.

    Attributes:
        first: How many first entries of each state.
        chosen: The keys whose entries are shown instead, by operator id; None: there are none.
        keys: These keys, as they were written.
        skipped: What is told of operators that cannot have them, or of which everything is read.
    """

    first: int = FEW
    chosen: Mapping[str, ChosenKeys] | None = None
    keys: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


def sample_entries(savepoint: Savepoint, plan: MigrationPlan, choice: SampleChoice | None = None) -> EntrySamples:
    """Return a few entries of each state that a plan changes, before and after.

    Args:
        savepoint: The source of the plan; it is only read.
        plan: The plan.
        choice: Which entries; None: the first `FEW` of each state.

    Raises:
        CorruptSavepoint, SavepointNotFound, StorageFailed: The savepoint cannot be read.
        OldReaderUnavailable: A key cannot be read.
    """
    choice = choice or SampleChoice()
    states: list[SampledState] = []
    unchanged = 0
    for operator in savepoint.operators:
        planned = plan.operator(operator.operator_id)
        if planned is None:
            continue
        chosen = None if choice.chosen is None else choice.chosen.get(operator.operator_id)
        changed = [state for state in planned.states if _is_changed(planned, state)]
        unchanged += len(planned.states) - len(changed)
        if choice.chosen is None or chosen is not None:
            with located(savepoint=savepoint.place, operator=operator.title):
                found = [*_Sampling(operator, planned, choice, chosen).states(changed)]
            visible = [one for one in found if not _only_header(one)]
            unchanged += len(found) - len(visible)
            states += visible
    return EntrySamples(states=tuple(states), unchanged=unchanged, keys=choice.keys, skipped=choice.skipped)


def _is_changed(operator: OperatorPlan, state: StatePlan) -> bool:
    """Whether entries of a state become others, or what is read of them does."""
    match state.action:
        case StateAction.COPY:
            return False
        case StateAction.RELABEL:
            return [*state.old] != [*state.new]
        case StateAction.REKEY:
            return operator.rekeying is not None and operator.rekeying.key is not None
        case _:
            return True


def _only_header(state: SampledState) -> bool:
    """Whether only the header of a state changes, as far as its entries show."""
    is_same = all(one.fate is Fate.SAME for one in state.entries)
    return state.action == StateAction.RELABEL and is_same and state.new_state == state.state


@attrs.define
class _Taken:
    """The entries that were taken of a state.

    Attributes:
        entries: The entries.
        keys: What tells them from others.
        has_others: Whether there are others, or may be.
        not_shown: Why none can be taken, or "".
    """

    entries: list[SampledEntry] = attrs.field(factory=list)
    keys: set[bytes] = attrs.field(factory=set)
    has_others: bool = False
    not_shown: str = ""


@attrs.frozen
class _Sampling:
    """Takes entries of an operator's states."""

    operator: SavepointOperator
    plan: OperatorPlan
    choice: SampleChoice
    chosen: ChosenKeys | None

    def states(self, changed: Sequence[StatePlan]) -> Iterator[SampledState]:
        """Yield the states that change, with their entries; of chosen keys no state without keys."""
        keyed = {state.name: _Taken() for state in changed if state.kind.is_keyed}
        if keyed:
            self._read_keyed(keyed)
        elements = [(state, _Taken()) for state in changed if not state.kind.is_keyed and self.chosen is None]
        subtasks = sorted(self.operator.stored.subtasks, key=lambda subtask: subtask.index)
        for subtask in subtasks if elements else ():
            if subtask.lists is not None:
                self._read_elements(subtask.index, subtask.lists, elements)
        yield from (self._sampled(state, keyed[state.name]) for state in changed if state.kind.is_keyed)
        yield from (self._sampled(state, taken) for state, taken in elements)

    def _sampled(self, state: StatePlan, taken: _Taken) -> SampledState:
        has_new = state.action is not StateAction.DROP
        return SampledState(
            operator_id=self.operator.operator_id,
            operator=self.operator.title,
            state=state.name,
            new_state=(state.new_name or state.name) if has_new else "",
            kind=str(state.kind if state.transform is None else state.transform.old_kind),
            new_kind=str(state.kind) if has_new else "",
            action=str(state.action),
            entries=tuple(taken.entries),
            is_all=not taken.has_others,
            not_shown=taken.not_shown,
            may_be_merged=self.plan.rekeying is not None and state.name in dict(self.plan.rekeying.merges),
        )

    def _read_keyed(self, taken: Mapping[str, _Taken]) -> None:
        handles = list(keyed_handles(self.operator.stored))
        if self.chosen is not None:
            for handle in handles:
                if self.chosen.among(handle.key_groups):
                    with self._opened(handle) as stream:
                        stream.take(taken, self.choice.first)
            return
        most, left_bytes = self.choice.first, _MOST_READ_BYTES
        spread = evenly(handles, most)
        for at, handle in enumerate([*spread, *(one for one in handles if one not in spread)], 1):
            lacking = [one for one in taken.values() if len(one.entries) < most and not one.not_shown]
            if not lacking or left_bytes <= 0:
                for one in taken.values():
                    one.has_others = True
                break
            quota = -(-most * min(at, len(spread)) // len(spread))
            with self._opened(handle) as stream:
                stream.take_spread(taken, quota, -(-most // len(spread)))
                left_bytes -= stream.take(taken, quota, left_bytes)

    @contextmanager
    def _opened(self, handle: KeyedHandle) -> Iterator[_Stream]:
        operator, groups = self.operator, self.operator.max_parallelism
        opened = open_chosen(handle, operator.folder, groups, self.chosen)
        with opened as reader, located(file=reader.name):
            yield _Stream.of(self.plan, operator, handle, reader)

    def _read_elements(
        self, subtask: int, handle: OperatorStateHandle, states: Iterable[tuple[StatePlan, _Taken]]
    ) -> None:
        with open_stream(handle.stream, self.operator.folder) as stream:
            stored = read_operator_stream(stream, handle)
        for state, taken in states:
            is_map = state.kind is StateKind.BROADCAST
            info = stored.header.state(state.name, is_map=is_map)
            if info is None or (is_map and taken.entries):  # every subtask has the whole map
                continue
            with located(file=stream.name, state=state.name):
                try:
                    elements = _Elements.of(self.operator, self.plan, state, info)
                except (OldReaderUnavailable, UnsupportedFormat) as error:
                    taken.not_shown = error.what.splitlines()[0]
                    continue
                for element in elements.split(stored.parts_of(info)):
                    if len(taken.entries) >= self.choice.first:
                        taken.has_others = True
                        break
                    taken.entries.append(attrs.evolve(elements.entry(element), subtask=None if is_map else subtask))


def evenly(items: Sequence[T], count: int) -> list[T]:
    """Return some items, spread over all."""
    count = min(count, len(items))
    return [items[at * len(items) // count] for at in range(count)]


@attrs.define
class _Stream:
    """An open stream of keyed state, and how its entries are converted.

    Attributes:
        plan: The plan of the operator.
        operator: The operator.
        handle: The handle of the stream.
        reader: Its reader.
        header: The header that a new stream gets.
        new_ids: The ids of states in it, by stored id.
        joined: What joins the tables of states that were migrated lazily.
    """

    plan: OperatorPlan
    operator: SavepointOperator
    handle: KeyedHandle
    reader: KeyedReader
    header: KeyedStreamHeader
    new_ids: list[int | None]
    joined: JoinedTables | None
    _made: dict[int, _Converting] = attrs.field(factory=dict, init=False)

    @classmethod
    def of(cls, plan: OperatorPlan, operator: SavepointOperator, handle: KeyedHandle, reader: KeyedReader) -> _Stream:
        header, infos = new_keyed_header(plan, [reader.header]), reader.header.states
        new_ids = [new_state_id(plan, info, header) for info in infos]
        return cls(plan, operator, handle, reader, header, new_ids, JoinedTables.of(plan, infos, new_ids))

    def take_spread(self, taken: Mapping[str, _Taken], quota: int, groups: int) -> None:
        """Take an entry of each state from each of some key groups."""
        for group in evenly([*self.handle.group_sizes(self.handle.key_groups)], groups):
            wanted = {name: one for name, one in taken.items() if len(one.entries) < quota}
            for block in self._blocks(wanted, range(group, group + 1)):
                name = self.reader.header.states[block.state_id].name
                if name in wanted:
                    self._take(block, wanted.pop(name), 1)
                if not wanted:
                    break

    def take(self, taken: Mapping[str, _Taken], quota: int, most_bytes: int = sys.maxsize) -> int:
        """Take entries of each state, as they come, until there are as many as wanted; return the bytes read."""
        read, wanted = 0, dict(taken)
        for block in self._blocks(wanted):
            name = self.reader.header.states[block.state_id].name
            if name in wanted and self._take(block, wanted[name], quota - len(wanted[name].entries)):
                wanted.pop(name).has_others = True
            read += block.size_bytes
            if not wanted or read > most_bytes:
                break
        for one in wanted.values() if read > most_bytes else ():
            one.has_others = True
        return read

    def _blocks(self, taken: Mapping[str, _Taken], groups: range | None = None) -> Iterator[Block]:
        infos, hidden = self.reader.header.states, self.reader.hidden
        for at, info in enumerate(infos):
            if (one := taken.get(info.name)) is not None and not one.not_shown:
                one.not_shown = hidden.get(info.name, "") or self._why_not(at)
        ids = [at for at, info in enumerate(infos) if info.name in taken and not taken[info.name].not_shown]
        rewriters = [self._converting(at).rewriter if at in ids else None for at in range(len(infos))]
        return whole_runs(self.reader.blocks(groups, ids), rewriters) if ids else iter(())

    def _why_not(self, at: int) -> str:
        """Return why the entries of a state cannot be read, or ""."""
        try:
            self._converting(at)
        except (OldReaderUnavailable, UnsupportedFormat) as error:
            return error.what.splitlines()[0]
        return ""

    def _take(self, block: Block, taken: _Taken, most: int) -> bool:
        """Take as many entries of a block, none of which was taken before; return whether it has others."""
        converting = self._converting(block.state_id)
        with located(state=converting.info.name):
            for items in converting.apart(block):
                address = converting.address(items[0][0])
                if address in taken.keys:
                    continue
                if most <= 0:
                    return True
                taken.entries.append(converting.entry(block.key_group, items))
                taken.keys.add(address)
                most -= 1
        return False

    def _converting(self, at: int) -> _Converting:
        if at not in self._made:
            self._made[at] = _Converting.of(self, at)
        return self._made[at]

    def newer_keys(self, at: int, group: int) -> set[bytes]:
        """Return the new keys, within a key group, of those tables that have later values than one of a state."""
        ages = {} if self.joined is None else self.joined.ages
        newer = [one for one in ages if self.new_ids[one] == self.new_ids[at] and ages[one] < ages.get(at, -1)]
        found = set[bytes]()
        for block in self.reader.blocks(range(group, group + 1), newer) if newer else ():
            rewriter = self._converting(block.state_id).rewriter
            new = block if rewriter is None else rewriter.convert(block, block.state_id).block
            found.update(key for key, _ in new.items())
        return found


class _Failed(Exception):
    """A value does not fit, and could be put aside."""

    def __init__(self, bad: BadValue) -> None:
        self.bad = bad


def _sampled(rules: EntryRules, before: Seen, convert: Callable[[], Seen | Dropped | None]) -> SampledEntry:
    """Return an entry before and after; `convert` returns what it becomes, or why it is left out.

    It raises `ValueNotConvertible` where the migration would fail, and `_Failed` where the value could be put aside.
    """
    try:
        after = convert()
    except _Failed as failed:
        bad = failed.bad
        reason = f"{shown(bad.reason)}: {bad.cause}" if values_are_redacted() else bad.reason
        return rules.failed(before, EntryFailure(path=bad.path, rule=bad.rule, reason=reason), ends=False)
    except ValueNotConvertible as error:
        path, rule = (str(error.where.get(name, none)) for name, none in (("path", "$"), ("rule", "")))
        return rules.failed(before, EntryFailure(path=path, rule=rule, reason=error.what), ends=True)
    return rules.changed(before, after) if isinstance(after, Seen) else rules.dropped(before, after)


@attrs.frozen
class _Converting:
    """The conversion of the entries of one state of a stream."""

    stream: _Stream
    at: int
    info: StateMetaInfo
    plan: StatePlan
    rewriter: BlockRewriter | None
    old: Side
    new: Side | None
    moving: EntryKeys | None
    rules: EntryRules

    @classmethod
    def of(cls, stream: _Stream, at: int) -> _Converting:
        operator, header, groups = stream.operator, stream.reader.header, stream.operator.max_parallelism
        info, new, moving = header.states[at], None, None
        plan = stream.plan.state(info.name, keyed=True)
        assert plan is not None  # noqa: S101 - only states of the plan are read
        rewriter = BlockRewriter.of(info, plan, header.key_snapshot, groups, stream.reader.executor, forgets=True)
        if info.kind is not MetaInfoKind.PRIORITY_QUEUE:
            known = next(one for one in operator.states if one.name == info.name and one.kind.is_keyed)
            info = info.with_snapshots(VALUE_SERIALIZER=known.known(info.value))
        old, new_id = Side.of(info, header.key_snapshot, groups, plan.value), stream.new_ids[at]
        if new_id is not None:
            new_info, new_groups = stream.header.states[new_id], stream.plan.max_parallelism or groups
            new = Side.of(new_info, stream.header.key_snapshot, new_groups)
            if stream.plan.rekeying is not None:
                keys = KeyWriter.of(stream.plan.rekeying, new_groups)
                moving = EntryKeys.of(new_info, header.key_snapshot.restore_serializer(), keys, groups)
        is_whole = rewriter is not None and (plan.transform is not None or rewriter.transcoder.needs_whole_run)
        rules = EntryRules.of(
            plan,
            info.value,
            None if new is None else new.info.value,
            is_whole=is_whole,
            quarantines=stream.plan.max_bad_values > 0,
        )
        return cls(stream, at, info, plan, rewriter, old, new, moving, rules)

    def address(self, entry_key: bytes) -> bytes:
        """Return what tells an entry from others: its key, or that of all entries that are converted together."""
        is_together = self.rules.is_whole and self.old.kind.has_user_keys
        return self.old.keys.address(entry_key) if is_together else entry_key

    def apart(self, block: Block) -> Iterable[list[Item]]:
        """Return the entries of a block, together where they are converted together."""
        if not (self.rules.is_whole and self.old.kind.has_user_keys):
            return ([item] for item in block.items())
        found: dict[bytes, list[Item]] = {}
        for key, value in block.items():
            found.setdefault(self.address(key), []).append((key, value))
        return found.values()

    def entry(self, group: int, items: list[Item]) -> SampledEntry:
        """Convert an entry, or the entries of a key, and return it before and after."""
        with trusting(self.plan.trust):
            before = self.old.read(items, is_whole=self.rules.is_whole)
            return _sampled(self.rules, before, lambda: self._converted(group, items))

    def _converted(self, group: int, items: list[Item]) -> Seen | Dropped | None:
        if self.new is None:
            return Dropped.STATE
        new_items, dropped = items, None
        if self.rewriter is not None:
            done = self.rewriter.convert(Block.of(group, self.at, items), self.at)
            for bad in done.transcoded.quarantined:
                raise _Failed(bad)
            new_items = list(done.block.items())
            dropped = Dropped.EXPIRED if self.plan.transform is None else Dropped.EMPTY
        if newer := self.stream.newer_keys(self.at, group):
            kept = [item for item in new_items if item[0] not in newer]
            new_items, dropped = kept, dropped if len(kept) == len(new_items) else Dropped.SUPERSEDED
        if self.moving is not None:
            new_items = [(self.moving.moved(key, group)[1].entry_key, value) for key, value in new_items]
        return self.new.read(new_items, is_whole=self.rules.is_whole) if new_items else dropped


@attrs.frozen
class _Elements:
    """The conversion of the elements of an operator's list state, or of the entries of a broadcast map."""

    plan: StatePlan
    old: Values
    new: Values | None
    transcoder: ElementTranscoder | None
    rules: EntryRules

    @classmethod
    def of(cls, operator: SavepointOperator, plan: OperatorPlan, state: StatePlan, info: StateMetaInfo) -> _Elements:
        known = next(one for one in operator.states if one.name == info.name and one.kind is state.kind)
        info = info.with_snapshots(VALUE_SERIALIZER=known.known(info.value))
        labels = {VALUE_SERIALIZER: state.new.value, KEY_SERIALIZER: state.new.key}
        told = info.with_snapshots(**{role: snapshot for role, snapshot in labels.items() if snapshot is not None})
        new = None if state.action is StateAction.DROP else Values.of(told)
        is_converted = state.action is StateAction.CONVERT
        return cls(
            state,
            Values.of(info, state.value),
            new,
            make_element_transcoder(state, choose_executor(0), quarantines=True) if is_converted else None,
            EntryRules.of(
                state, info.value, state.new.value if new else None, is_whole=False, quarantines=plan.max_bad_values > 0
            ),
        )

    def split(self, parts: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the elements, or the entries of the map, each as a map of its own."""
        for part in parts:
            if self.plan.kind is StateKind.BROADCAST:
                yield from single_maps(self.plan, part)
            else:
                yield part

    def entry(self, element: bytes) -> SampledEntry:
        """Convert an element, or an entry of the map, and return it before and after."""
        with trusting(self.plan.trust):
            return _sampled(self.rules, self.old.seen(element), lambda: self._converted(element))

    def _converted(self, element: bytes) -> Seen | Dropped:
        if self.new is None:
            return Dropped.STATE
        if self.transcoder is not None:
            done = self.transcoder.transcode([element])
            for bad in done.quarantined:
                raise _Failed(bad)
            (element,) = done.elements
        return self.new.seen(element)
