"""The scan after a check: the stored entries are read as the new job, or its migration, would read them.

One pass over the states with flags that only the data can answer. It runs in this process, holds a block of entries at
a time, and takes the block operations of a migration where there are any.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.description import StateKind
from ...compat.plan import StateAction
from ...compat.planner import plan_scan
from ...compat.scan_report import FailingPlace, ScannedState, ScanReport
from ...serializers.errors import (
    OldReaderUnavailable,
    StateShiftError,
    UnsupportedFormat,
    ValueNotConvertible,
    add_step,
    located,
    shown,
    values_are_redacted,
)
from ...serializers.pickled.trust import trusting
from ...serializers.wording import many
from ..entry_keys import EntryKeyFormat, shown_key
from ..formats.flink.meta_info import NAMESPACE_SERIALIZER, MetaInfoKind
from ..formats.flink.operator_stream import read_operator_stream
from ..formats.flink.sources import open_stream
from ..formats.flink.state_kinds import info_snapshot, keyed_kind
from ..progress import Progress, ProgressMeter
from ..savepoint.entry_pass import observe
from ..savepoint.states import keyed_handles
from ..transcode.executor_choice import choose_executor
from ..transcode.factory import make_element_transcoder
from ..transcode.objects import recode_all
from ..transcode.transcoder import BadValue
from .block_rewriter import BlockRewriter
from .rewrite import count_elements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ...compat.plan import MigrationPlan, Recoding, StatePlan
    from ...compat.planner import ScanPlan
    from ...compat.report import CheckReport, StateReport
    from ..formats.flink.blocks import Block
    from ..formats.flink.handles import KeyedHandle, OperatorStateHandle
    from ..formats.flink.keyed_stream import KeyedReader
    from ..savepoint.reader import Savepoint, SavepointOperator

    _Planned = tuple[StatePlan, "_Found", Recoding | None]
    """The plan of a state, its answer, and how its namespaces are read if they have flags."""

COUNTED_BYTES = 64 << 20
"""How many bytes of an operator's entries are read to count the values that fail like the one that ended a run."""
FIRST_KEYS = 5
"""How many keys of failing entries an answer names."""
_INDEX = re.compile(r"\[[^\]]*\]")
_NO_READER = "there is no reader for them"
_REFUSED = "the check refuses it for another reason"


def scan(
    savepoint: Savepoint, report: CheckReport, *, progress: Callable[[Progress], None] = lambda _: None
) -> ScanReport:
    """Read the states with flags that only the data can answer, and count the entries that would fail.

    Args:
        savepoint: The savepoint that `report` is about; it is only read.
        report: The report of the check.
        progress: Called with the progress.

    Raises:
        ValuesCollide: Two keys of a map become one, which no value can be blamed for (rule MAP-3).
        CorruptSavepoint, SavepointNotFound, StorageFailed: The savepoint cannot be read.
    """
    plans = list(plan_scan(report))
    operators = {one.operator_id: one for one in savepoint.operators}
    stored = [operators[plan.stored_id] for plan in plans]
    meter = ProgressMeter(progress, "scanning", sum(map(_streams, stored)), sum(one.size_bytes for one in stored))
    answers: list[ScannedState] = []
    for plan, operator in zip(plans, stored, strict=True):
        with located(savepoint=savepoint.place, operator=operator.title):
            answers += _scanned(plan, operator, meter)
    return ScanReport(tuple(answers))


def count_like(error: ValueNotConvertible, savepoint: Savepoint, plan: MigrationPlan) -> Iterator[str]:
    """Yield how many values of the state of an error do not fit, where they can be counted."""
    for operator in savepoint.operators:
        planned = plan.operator(operator.operator_id)
        if planned is None or error.where.get("operator") not in {operator.title, str(operator.stored)}:
            continue
        for state in planned.states:
            if state.name != error.where.get("state") or state.action is not StateAction.CONVERT:
                continue
            found = _Found(bytes_left=COUNTED_BYTES)
            try:
                _read(operator, {state.name: (state, found, None)} if state.kind.is_keyed else {}, state, found)
            except StateShiftError:
                return  # the error that is reported says more
            if found.failing:
                whole = "" if found.bytes_left > 0 else " that were read"
                entries = many(found.entries, "entry", "entries")
                yield f"in all: {found.failing:,} of {entries}{whole} of {state.name} do not fit"


def _read(operator: SavepointOperator, keyed: dict[str, _Planned], state: StatePlan, found: _Found) -> None:
    if keyed:
        for handle in keyed_handles(operator.stored):
            _read_keyed(_Keyed(None, keyed, None), handle, operator)
        return
    for lists in (one.lists for one in operator.stored.subtasks if one.lists is not None):
        _read_lists([(state, found)], lists, operator)


def _streams(operator: SavepointOperator) -> int:
    return len(list(keyed_handles(operator.stored))) + sum(one.lists is not None for one in operator.stored.subtasks)


@attrs.define
class _Found:
    """The answer for a state or key as it grows: at most `FIRST_KEYS` keys of each path are held."""

    entries: int = 0
    failing: int = 0
    not_scanned: str = ""
    bytes_left: int = sys.maxsize
    _places: dict[str, FailingPlace] = attrs.field(factory=dict)

    def add(self, entries: int, bad_values: Iterable[BadValue]) -> None:
        self.entries += entries
        for bad in bad_values:
            self.failing += 1
            path = _INDEX.sub("[]", bad.path)
            before = self._places.get(path) or FailingPlace(path, 0, (), bad.rule, _reason(bad))
            is_told = bool(bad.key) and len(before.keys) < FIRST_KEYS and bad.key not in before.keys
            keys = (*before.keys, bad.key) if is_told else before.keys
            self._places[path] = attrs.evolve(before, count=before.count + 1, keys=keys)

    def answer(self, plan: ScanPlan, state: StateReport | None) -> ScannedState:
        return ScannedState(
            operator_id=plan.operator.operator_id,
            operator=plan.operator.uid,
            state=state.name if state is not None else "",
            kind=str(state.kind) if state is not None else "key",
            scope=state.kind.scope if state is not None else "",
            entries=self.entries,
            failing=self.failing,
            places=tuple(sorted(self._places.values(), key=lambda place: -place.count)),
            not_scanned=self.not_scanned,
        )


def _reason(bad: BadValue) -> str:
    return f"{shown(bad.reason)}: {bad.cause}" if values_are_redacted() else bad.reason


def _scanned(plan: ScanPlan, operator: SavepointOperator, meter: ProgressMeter) -> list[ScannedState]:
    """Return the answers for an operator: its key first, then its states."""
    founds = {id(state): _Found(not_scanned=_why_not(plan, state, how)) for state, how in plan.states}
    keys = _Found() if plan.key is not None else None
    readable = [(state, how) for state, how in plan.states if how is not None]
    keyed = {
        how.name: (how, founds[id(state)], plan.namespaces.get(state.name))
        for state, how in readable
        if how.kind.is_keyed
    }
    if keyed or keys is not None:
        for handle in keyed_handles(operator.stored):
            _read_keyed(_Keyed(plan.key, keyed, keys), handle, operator, meter.take)
            meter.add(handle.size)
    listed = [(how, founds[id(state)]) for state, how in readable if not how.kind.is_keyed]
    for lists in (one.lists for one in operator.stored.subtasks if one.lists is not None and listed):
        _read_lists(listed, lists, operator)
        meter.add(lists.stream.size)
    why = operator.unreadable_keyed
    if keys is not None and why:
        keys.not_scanned = why
    first = [keys.answer(plan, None)] if keys is not None else []
    return [*first, *(founds[id(state)].answer(plan, state) for state, _ in plan.states)]


def _why_not(plan: ScanPlan, state: StateReport, how: StatePlan | None) -> str:
    """Return why a state cannot be scanned, or ""."""
    if how is None:
        return _REFUSED
    return "" if how.action is StateAction.CONVERT or state.name in plan.namespaces else _NO_READER


@attrs.frozen
class _Keyed:
    """What is read of keyed streams: keys, and states by stored name with their plan, answer, and namespaces."""

    key: Recoding | None
    states: dict[str, _Planned]
    keys: _Found | None


def _read_keyed(
    what: _Keyed, handle: KeyedHandle, operator: SavepointOperator, take: Callable[[int], None] = lambda _: None
) -> None:
    def looks(reader: KeyedReader) -> dict[int, _Looks]:
        for name, why in reader.hidden.items():
            found = what.states[name][1] if name in what.states else what.keys
            if found is not None:
                found.not_scanned = why
        return {
            at: _looks(what, reader, at, operator)
            for at, info in enumerate(reader.header.states)
            if info.name not in reader.hidden and (what.keys is not None or info.name in what.states)
        }

    def is_enough() -> bool:
        return all(found.bytes_left <= 0 for _, found, _ in what.states.values()) and what.keys is None

    observe(handle, operator.folder, operator.max_parallelism, looks, take=take, is_enough=is_enough)


@attrs.define
class _Looks:
    """Everything that looks at the blocks of one state."""

    rewriter: BlockRewriter | None = None
    found: _Found | None = None
    parts: list[_Part] = attrs.field(factory=list)

    @property
    def needs_whole_run(self) -> bool:
        """Whether its transcoder needs all entries of a key group at once."""
        return self.rewriter is not None and self.rewriter.transcoder.needs_whole_run

    def look(self, block: Block) -> None:
        try:
            failing: dict[bytes, BadValue] = {}
            if self.rewriter is not None and self.found is not None and not self.found.not_scanned:
                block.refuse_oversized()
                prefix = block.key_group.to_bytes(self.rewriter.framing.keys.prefix, "big")
                with trusting(self.rewriter.plan.trust):
                    done = self.rewriter.transcoder.transcode(block.data, prefix)
                failing = {bad.key_bytes: bad for bad in done.quarantined}
            for part in self.parts:
                bad_values = part.bad_values(block)
                if part.found is None:
                    failing |= {bad.key_bytes: bad for bad in bad_values}
                else:
                    part.found.add(block.entries, bad_values)
            if self.found is not None:
                self.found.bytes_left -= len(block.data)
                self.found.add(block.entries, failing.values())
        except (OldReaderUnavailable, UnsupportedFormat) as error:
            if self.found is None:
                raise
            self.found.not_scanned = error.what.splitlines()[0]


@attrs.define
class _Part:
    """Reads the keys or the namespaces of entries; equal bytes in a block are read once.

    Attributes:
        recoding: How they are read.
        keys: The format of the entries' keys.
        show: Returns a key as text.
        of_key: Whether the key is read; else the namespace.
        found: The answer to which the failures belong; None: to that of the state.
    """

    recoding: Recoding
    keys: EntryKeyFormat
    show: Callable[[bytes], str]
    of_key: bool
    found: _Found | None = None

    def bad_values(self, block: Block) -> list[BadValue]:
        """Return the entries of a block whose part would fail."""
        known: dict[bytes, ValueNotConvertible | None] = {}
        bad_values = []
        for key, value in block.items():
            parts = self.keys.split(key)
            data = parts.key if self.of_key else parts.namespace
            if data not in known:
                known[data] = self._failure(data)
            error = known[data]
            bad = None if error is None else BadValue.of(error, key, value, block.key_group)
            if bad is not None:
                bad_values.append(attrs.evolve(bad, key=self.show(parts.key)))
        return bad_values

    def _failure(self, data: bytes) -> ValueNotConvertible | None:
        try:
            recode_all(self.recoding, data)
        except ValueNotConvertible as error:
            add_step(error, self.recoding.step)
            return error
        return None


def _looks(what: _Keyed, reader: KeyedReader, at: int, operator: SavepointOperator) -> _Looks:
    info, key, groups = reader.header.states[at], reader.header.key_snapshot, operator.max_parallelism
    how, found, namespace = what.states.get(info.name, (None, None, None))
    looks = _Looks(found=found)
    looks.rewriter = BlockRewriter.of(info, how, key, groups, reader.executor, forgets=True)
    if what.key is None and namespace is None:
        return looks
    keys = key.restore_serializer()
    if info.kind is MetaInfoKind.PRIORITY_QUEUE:
        spaces: Any = info.value.children()[1].restore_serializer()
    else:
        spaces = info_snapshot(info, NAMESPACE_SERIALIZER).restore_serializer()
    form = EntryKeyFormat.of(keyed_kind(info), keys, spaces, groups)

    def show(data: bytes) -> str:
        return shown_key(keys, data)

    if what.key is not None:
        looks.parts.append(_Part(what.key, form, show, of_key=True, found=what.keys))
    if namespace is not None:
        looks.parts.append(_Part(namespace, form, show, of_key=False))
    return looks


def _read_lists(
    listed: list[tuple[StatePlan, _Found]], handle: OperatorStateHandle, operator: SavepointOperator
) -> None:
    with open_stream(handle.stream, operator.folder) as stream:
        stored = read_operator_stream(stream, handle)
        executor = choose_executor(handle.stream.size)
        for how, found in listed:
            is_map = how.kind is StateKind.BROADCAST
            info = stored.header.state(how.name, is_map=is_map)
            if info is None:
                continue
            parts = stored.parts_of(info)
            transcoder = make_element_transcoder(how, executor, quarantines=True)
            with located(file=stream.name, state=how.name), trusting(how.trust):
                done = transcoder.transcode(parts)
            found.add(count_elements(parts, is_map=is_map), done.quarantined)
