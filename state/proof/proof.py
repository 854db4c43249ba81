"""The proof of a savepoint by real Flink.

Flink restores the savepoint in a cluster within one process, takes a canonical savepoint of what it has restored, and
looks every key up (`Prove.java`). Both savepoints are then read here and compared: types, entries, timers, elements of
operator state. A value that our own reader and Flink take for another, a key that Flink does not find, or a timer that
is gone shows as a difference; so does an entry that the lineage counts and Flink does not have.

What Flink cannot restore without the job itself is named, and never counts as proven: state of classes that are not at
hand, and state that only its operator can read.
"""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from ... import __version__
from ...compat.description import StateKind, operator_id_of_uid
from ...compat.difference import compare
from ...serializers.errors import CorruptSavepoint, shown, values_are_redacted
from ...serializers.wording import many
from ..formats.flink.handles import (
    AbsoluteFileHandle,
    DatabaseHandle,
    RelativeFileHandle,
    SegmentHandle,
)
from ..formats.flink.metadata import METADATA, write_metadata
from ..formats.flink.roots import stored_file, uri_of
from ..progress import Progress
from ..publication.lineage import LINEAGE
from ..publication.publish import now
from ..savepoint.json_encoding import tagged_elements
from ..savepoint.reader import Savepoint, open_savepoint
from ..savepoint.states import keyed_handles
from ..savepoint.value_difference import compare_values
from ..savepoint.verify import Check, Outcome, counts_as_recorded, in_one_line
from .installation import kept_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ...compat.difference import OperatorDifference
    from ..formats.flink.handles import StreamHandle
    from ..formats.flink.metadata import OperatorState, SubtaskState
    from ..savepoint.reader import SavepointOperator
    from ..savepoint.states import SavepointState
    from ..savepoint.value_difference import StateValues
    from .installation import Answer, FlinkInstallation

_CHECK = "flink"
_HEAP_BYTES = 64 << 20
"""The most state that Flink restores to its heap, where each value passes through its serializer both ways."""
_MOST_CAUSES = 3
_KEYED_ONE_TO_ONE = {StateKind.VALUE, StateKind.LIST, StateKind.REDUCING, StateKind.AGGREGATING, StateKind.TIMERS}
"""The kinds of which Flink finds as many keys and namespaces as there are entries."""


@attrs.frozen
class Proof:
    """What a proof has found.

    Attributes:
        checks: The checks, one or more for each operator.
        certificate: The facts of the proof, as plain data.
    """

    checks: tuple[Check, ...]
    certificate: dict[str, Any]

    @property
    def ok(self) -> bool:
        """Whether nothing failed, and something was proven."""
        return bool(self.certificate["proven"])

    def write(self, savepoint: Savepoint) -> bool:
        """Write the certificate into the lineage of the savepoint; return whether it was written.

        It is not where there is no lineage, nor where nothing was found, so that an earlier certificate stays.
        """
        is_empty = not self.ok and not self.certificate["failed"]
        if is_empty or savepoint.lineage is None or not savepoint.folder.exists(LINEAGE):
            return False
        lineage = attrs.evolve(savepoint.lineage, proof=self.certificate)
        savepoint.folder.write(LINEAGE, lineage.to_json())
        return True


def prove(
    savepoint: Savepoint,
    flink: FlinkInstallation,
    *,
    sample: float = 1.0,
    progress: Callable[[Progress], None] = lambda _: None,
) -> Proof:
    """Prove a savepoint by real Flink; nothing of it is written.

    Args:
        savepoint: The savepoint or checkpoint.
        flink: The Flink that restores it.
        sample: The part of the key groups that Flink restores, above 0 and at most 1; of native snapshots the part of
            the subtasks, whose files are restored as a whole. Operator state is always proven whole.
        progress: Called with what Flink does.

    Raises:
        FlinkFailed: Flink ended without an answer.
        CorruptSavepoint: Headers of the savepoint are damaged.
    """
    began = time.monotonic()
    chosen = {} if sample >= 1 else {one.operator_id: _chosen(one, sample) for one in savepoint.operators}
    backend = _backend_of(savepoint)
    with tempfile.TemporaryDirectory(prefix="stateshift-prove-", ignore_cleanup_errors=True) as name:
        scratch = Path(name).resolve()
        progress(Progress(f"starting Flink {flink.release}", 0, 1))
        place = _given(savepoint, chosen, scratch)
        answer = flink.restore(
            place, scratch, backend, lambda step: progress(Progress(f"Flink {flink.release} {step}", 0, 1))
        )
        findings = _Findings(savepoint, flink.release, answer, chosen)
        checks = tuple(findings.checks_or_damage(progress))
    statuses = Counter(check.status for check in checks)
    certificate = {
        "by": "flink",
        "flink": flink.release,
        "java": answer.java,
        "stateshift": __version__,
        "created": now(),
        "proven": bool(statuses[Outcome.OK]) and not statuses[Outcome.FAILED],
        "backend": backend,
        "metadata_sha256": savepoint.metadata_sha256,
        "states": findings.states,
        "entries": findings.entries,
        "keys_found": answer.found.total() - answer.lost.total(),
        "sample": {
            one.operator_id: {"key_groups": len(chosen[one.operator_id]), "of": one.max_parallelism}
            for one in savepoint.operators
            if one.operator_id in chosen and any(keyed_handles(one.stored))
        },
        "not_proven": [_told(check) for check in checks if check.status is Outcome.UNPROVEN],
        "failed": [_told(check) for check in checks if check.status is Outcome.FAILED],
        "seconds": round(time.monotonic() - began, 1),
    }
    return Proof(checks, certificate)


def _told(check: Check) -> str:
    return f"{check.where}: {check.detail}" if check.where else check.detail


def _backend_of(savepoint: Savepoint) -> str:
    """Return the state backend that restores a savepoint: only one reads a native format."""
    formats = {operator.keyed_format for operator in savepoint.operators}
    size = sum(handle.size for one in savepoint.metadata.operators for handle in keyed_handles(one))
    is_large = "heap" not in formats and size > _HEAP_BYTES
    return "rocksdb" if "database" in formats or is_large else "hashmap"


def _chosen(operator: SavepointOperator, sample: float) -> list[int]:
    """Return the key groups of a sample, spread evenly; of native snapshots all those of some subtasks."""
    handles = sorted(keyed_handles(operator.stored), key=lambda handle: handle.key_groups.start)
    if all(handle.is_canonical for handle in handles):
        return _spread(range(operator.max_parallelism), sample)
    return [group for index in _spread(range(len(handles)), sample) for group in handles[index].key_groups]


def _spread(numbers: range, sample: float) -> list[int]:
    count = max(1, math.ceil(len(numbers) * sample))
    return [numbers[(2 * index + 1) * len(numbers) // (2 * count)] for index in range(count)] if numbers else []


def _given(savepoint: Savepoint, chosen: dict[str, list[int]], scratch: Path) -> str:
    """Return the local folder of what Flink restores: the savepoint itself where it can be.

    It cannot where only a sample is restored, files lie elsewhere than `_metadata` says, or an operator has raw keyed
    state of its own, which only that operator can restore: then it is a `_metadata` that names the same files.
    """
    own = {one.operator_id for one in savepoint.operators if one.has_custom_raw_keyed_state}
    if savepoint.folder.is_local and not chosen and not savepoint.moved_from and not own:
        return savepoint.place
    target = scratch / "given"
    target.mkdir()
    placed = _Placing(savepoint, target).placed
    operators = []
    for stored in savepoint.metadata.operators:
        groups = chosen.get(stored.operator_id.hex())
        subtasks = []
        for one in stored.subtasks:
            raw = None if stored.operator_id.hex() in own else one.raw_keyed
            with_sample = attrs.evolve(
                one, managed_keyed=_some(one.managed_keyed, groups), raw_keyed=_some(raw, groups), raw_operator=None
            )
            subtasks.append(_placed_subtask(with_sample, placed))
        operators.append(attrs.evolve(stored, subtasks=tuple(subtasks), coordinator=None))
    metadata = attrs.evolve(savepoint.metadata, operators=tuple(operators))
    (target / METADATA).write_bytes(write_metadata(metadata))
    return str(target)


def _some(handle: Any, groups: list[int] | None) -> Any:
    """Return a handle of keyed state without the key groups that are not chosen; None if it has no other."""
    if handle is None or groups is None:
        return handle
    kept = set(groups)
    if not kept.intersection(handle.key_groups):
        return None
    if isinstance(handle, DatabaseHandle) or not handle.is_canonical:
        return handle
    pairs = zip(handle.key_groups, handle.offsets, strict=True)
    return attrs.evolve(handle, offsets=tuple(offset if group in kept else 0 for group, offset in pairs))


def _placed_subtask(subtask: SubtaskState, placed: Callable[[StreamHandle], StreamHandle]) -> SubtaskState:
    handles: dict[str, Any] = {}
    for name in ("managed_operator", "managed_keyed", "raw_keyed"):
        handle = getattr(subtask, name)
        if handle is None:
            continue
        handles[name] = attrs.evolve(handle, stream=placed(handle.stream))
        if isinstance(handle, DatabaseHandle):
            of_kinds = {
                kind: tuple(attrs.evolve(file, stream=placed(file.stream)) for file in getattr(handle, kind))
                for kind in ("shared", "private")
            }
            handles[name] = attrs.evolve(handles[name], **of_kinds)
    return attrs.evolve(subtask, **handles)


@attrs.define
class _Placing:
    """Names the files of a savepoint where they lie; those of a store are fetched first.

    Attributes:
        savepoint: The savepoint.
        target: The folder for files that are fetched.
    """

    savepoint: Savepoint
    target: Path
    _fetched: dict[tuple[str, str], str] = attrs.field(factory=dict, init=False)

    def placed(self, stream: StreamHandle) -> StreamHandle:
        """Return the handle of a stream that Flink can open."""
        if isinstance(stream, RelativeFileHandle):
            return AbsoluteFileHandle(self._uri(self.savepoint.folder, stream.path), stream.size)
        if isinstance(stream, AbsoluteFileHandle | SegmentHandle):
            return attrs.evolve(stream, uri=self._uri(*stored_file(stream.uri, self.savepoint.folder)))
        return stream

    def _uri(self, folder: Any, name: str) -> str:
        if folder.is_local:
            return f"{uri_of(folder)}/{name}"
        place = (folder.place, name)
        if place not in self._fetched:
            file = self.target / f"file-{len(self._fetched)}"
            with folder.open_range(name) as source, file.open("wb") as copy:
                for piece in source.pieces():
                    copy.write(piece)
            self._fetched[place] = file.as_uri()
        return self._fetched[place]


@attrs.define
class _Findings:
    """Compares a savepoint with what Flink wrote of it.

    Attributes:
        savepoint: The savepoint.
        release: The release of Flink.
        answer: What Flink found.
        chosen: The key groups of a sample, by operator id; empty without one.
        states: The number of states that are equal.
        entries: The number of their entries.
    """

    savepoint: Savepoint
    release: str
    answer: Answer
    chosen: dict[str, list[int]]
    states: int = 0
    entries: int = 0

    def checks_or_damage(self, progress: Callable[[Progress], None]) -> Iterator[Check]:
        """Yield the checks; where the savepoint is damaged, so that it cannot be compared, up to that."""
        try:
            yield from self.checks(progress)
        except CorruptSavepoint as error:
            yield Check(_CHECK, Outcome.FAILED, f"it cannot be compared: {in_one_line(error)}")

    def checks(self, progress: Callable[[Progress], None]) -> Iterator[Check]:
        """Yield the checks of all operators that have state."""
        if self.answer.refused:
            yield Check(_CHECK, Outcome.FAILED, self._refusal(self.answer.refused))
            return
        stored = self._taken() if self.answer.savepoint is not None else None
        of_id: dict[str, OperatorDifference] = {}
        values: dict[str, list[StateValues]] = {}
        if stored is not None:
            difference = compare(self.savepoint.describe(), stored.describe())
            of_id = {one.a.operator_id: one for one in difference.operators if one.a is not None}
            tell = lambda name: progress(Progress(f"comparing {name}", 0, 1))  # noqa: E731 - a name for one line
            for one in compare_values(self.savepoint, stored, difference, tell, self.chosen):
                values.setdefault(one.operator_id, []).append(one)
                if one.kind == StateKind.UNION_LIST and one.added:
                    self._united(one, stored)
        for operator in self.savepoint.operators:
            if operator.has_state:
                of_operator = values.get(operator.operator_id, [])
                yield from self._operator(operator, of_id.get(operator.operator_id), of_operator)
        if not self.chosen:
            yield from self._counted(values)

    def _counted(self, values: dict[str, list[StateValues]]) -> Iterator[Check]:
        """Compare the numbers of entries that Flink wrote with those that the migration counted."""
        counts = Counter[tuple[str, str, str]]()
        known = {name for name, found in values.items() if not any(one.not_compared for one in found)}
        known -= self.answer.left_out.keys()
        for one in (one for name in known for one in values[name] if not one.is_bytes):
            counts[one.operator_id, StateKind(one.kind).scope, one.state] += one.entries - one.removed + one.added
        unknown = {one.operator_id for one in self.savepoint.operators} - known
        for check in counts_as_recorded(self.savepoint, counts, unknown):
            if check.status is not Outcome.UNPROVEN:
                yield attrs.evolve(check, name=_CHECK, detail=f"{check.detail}, in what Flink wrote")

    def _united(self, values: StateValues, taken: Savepoint) -> None:
        """Compare what each subtask has of a state that is united on restore: the elements of all subtasks."""
        sides = (self.savepoint.operator(values.operator_id), taken.operator(values.operator_id))
        ours, flinks = (_united(side.state(values.state)) for side in sides)
        if all(part == sum(ours, Counter()) for part in flinks):
            values.added = 0
            values.first.clear()

    def _refusal(self, causes: Iterable[str]) -> str:
        """Return Flink's own words, the innermost cause last, and where its log is."""
        last = list(causes)[-_MOST_CAUSES:]
        words = [cause.partition(":")[0] for cause in last] if values_are_redacted() else last
        told = "; caused by ".join(words)
        took = self.answer.savepoint is not None
        what = "restored it, and failed to look its keys up" if took else "does not restore it"
        return f"Flink {self.release} {what}: {told}; its log is {kept_log(self.answer.log)}"

    def _taken(self) -> Savepoint:
        """Return the savepoint that Flink took, with the operators under the ids of the proven one.

        Flink finds the state of an operator by a hash that is given, and writes it under the hash of its uid, which
        here is the id in text.
        """
        of_id = {operator_id_of_uid(one.operator_id): one.stored for one in self.savepoint.operators}
        taken = open_savepoint(str(self.answer.savepoint))
        operators = tuple(
            attrs.evolve(
                one,
                operator_id=of_id[one.operator_id].operator_id,
                uid=of_id[one.operator_id].uid,
                name=of_id[one.operator_id].name,
            )
            for one in taken.metadata.operators
            if one.operator_id in of_id
        )
        return attrs.evolve(taken, metadata=attrs.evolve(taken.metadata, operators=operators))

    def _operator(
        self, operator: SavepointOperator, difference: OperatorDifference | None, values: list[StateValues]
    ) -> Iterator[Check]:
        def check(status: Outcome, detail: str) -> Check:
            return Check(_CHECK, status, detail, operator.title)

        for carried in operator.carried:
            if not carried.is_timers:
                yield check(Outcome.UNPROVEN, f"{carried.what}, which only the operator itself can restore")
        if why := self.answer.left_out.get(operator.operator_id):
            why = why.partition(":")[0] if values_are_redacted() else why
            yield check(
                Outcome.UNPROVEN, f"Flink {self.release} cannot read its types without the job's classes: {why}"
            )
            return
        if why := self.answer.broken.get(operator.operator_id):
            why = why.partition(":")[0] if values_are_redacted() else why
            yield check(Outcome.FAILED, f"Flink {self.release} cannot read its header: {why}")
            return
        if not operator.stored.parallelism or not any(_managed(operator.stored)):
            return
        if difference is None or difference.b is None:
            yield check(Outcome.FAILED, f"Flink {self.release} wrote no state of it")
            return
        if difference.unreadable:
            yield check(Outcome.UNPROVEN, f"not compared, as its states are not all known: {difference.unreadable}")
            return
        yield from self._types(operator, difference)
        yield from self._values(operator, values)

    def _types(self, operator: SavepointOperator, difference: OperatorDifference) -> Iterator[Check]:
        """Yield the states that Flink wrote with another type, and those that cannot be compared."""
        on_heap = any(carried.is_timers for carried in operator.carried)
        if difference.key is not None and difference.key.changes:
            yield Check(_CHECK, Outcome.FAILED, f"Flink {self.release} wrote another type of keys", operator.title)
        for state in difference.states:
            where = f"{operator.title}, state {state.name}"
            if on_heap and state.a is None and state.b is not None and state.b.kind is StateKind.TIMERS:
                detail = f"Flink {self.release} restored timers that the job kept on the heap"
                yield Check(
                    _CHECK, Outcome.UNPROVEN, f"{detail}: they are stored in a form that is not compared", where
                )
            elif not state.is_equal:
                detail = f"Flink {self.release} wrote it with another type, or not at all"
                yield Check(_CHECK, Outcome.FAILED, detail, where)

    def _values(self, operator: SavepointOperator, values: list[StateValues]) -> Iterator[Check]:
        """Yield what the entries of an operator show; those that are equal are counted."""
        states = entries = keys = 0
        for one in values:
            if one.is_bytes:
                continue
            where = f"{operator.title}, state {one.state}"
            place = operator.operator_id, one.state
            wrong = [Check(_CHECK, Outcome.FAILED, detail, where) for detail in self._wrong(one, place)]
            yield from wrong
            if one.not_compared:
                yield Check(_CHECK, Outcome.UNPROVEN, f"not compared, since {one.not_compared}", where)
            elif not wrong:
                states, entries, keys = states + 1, entries + one.entries, keys + self.answer.found[place]
        self.states, self.entries = self.states + states, self.entries + entries
        if states:
            groups = self.chosen.get(operator.operator_id, []) if operator.key is not None else []
            sampled = f", in {len(groups)} of {operator.max_parallelism} key groups" if groups else ""
            looked_up = f"; it found {many(keys, 'key and timer', 'keys and timers')} again" if keys else ""
            equal = f"{many(entries, 'entry', 'entries')} of {many(states, 'state')}{sampled}"
            detail = f"Flink {self.release} restored and wrote {equal}, equal to what is stored{looked_up}"
            yield Check(_CHECK, Outcome.OK, detail, operator.title)

    def _wrong(self, values: StateValues, place: tuple[str, str]) -> Iterator[str]:
        """Yield what is wrong with a state, in words."""
        if values.changed or values.added or values.removed:
            first = values.first[0]
            both = f", {first.a} -> {first.b}" if first.a or first.b else ""
            yield (
                f"{values.changed:,} changed, {values.added:,} added, {values.removed:,} removed in what Flink"
                f" {self.release} wrote; the first is {first.what}: {first.key}{both}"
            )
        if lost := self.answer.lost[place]:
            examples = shown(self.answer.examples[place])
            yield f"Flink {self.release} does not find {lost:,} of {self.answer.found[place]:,}, such as {examples}"
        elif not values.not_compared and not values.changed:
            kind, found = StateKind(values.kind), self.answer.found[place]
            wanted = values.entries - values.removed + values.added
            if found != wanted and (kind in _KEYED_ONE_TO_ONE or (kind is StateKind.MAP and not found)):
                yield f"Flink {self.release} finds {found:,} keys, of {wanted:,}"


def _managed(stored: OperatorState) -> Iterator[object]:
    """Yield the handles of state that Flink restores without the operator; timers on the heap are raw state."""
    for subtask in stored.subtasks:
        yield from filter(None, (subtask.managed_keyed, subtask.lists))


def _united(state: SavepointState) -> list[Counter[str]]:
    """Return the elements that each subtask has of a state."""
    return [Counter(json.dumps(item, sort_keys=True) for item in part) for part in tagged_elements(state)]
