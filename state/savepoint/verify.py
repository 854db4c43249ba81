"""Is a savepoint sound? Structure, digests where there are any, and key groups as rule RUN-3 says.

Nothing is converted to objects but keys: values are passed over by their layout, so their ends are proven and their
meaning is not.
"""

from __future__ import annotations

import enum
import hashlib
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.description import StateKind
from ...serializers.errors import CorruptSavepoint, StateShiftError, located, shown
from ...serializers.layout import Nullable, Separated
from ...serializers.views import DataInputView
from ..key_groups import has_stable_hash, key_group, key_group_range, key_hasher
from .entry_keys import EntryKeyFormat, TimerKeyFormat, decode
from .keyed_stream import KeyedStreamReader
from .lineage import LINEAGE
from .meta_info import NAMESPACE_SERIALIZER
from .metadata import METADATA
from .operator_stream import read_operator_stream
from .sources import open_stream
from .states import info_snapshot, keyed_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...serializers.layout import Layout
    from ...serializers.serializer import TypeSerializer
    from .blocks import Block
    from .files import Folder
    from .handles import KeyedHandle
    from .keyed_stream import KeyedStreamHeader
    from .reader import Savepoint, SavepointOperator

_READ_BYTES = 4 << 20


class Outcome(enum.StrEnum):
    """What a check came to."""

    OK = "ok"
    UNPROVEN = "unproven"
    FAILED = "failed"


@attrs.frozen
class Check:
    """One thing that was looked at.

    Attributes:
        name: What: structure, digests, key groups, values, counts.
        status: What it came to.
        detail: One sentence.
        where: Operator and state, or file; "" for the whole.
    """

    name: str
    status: Outcome
    detail: str
    where: str = ""


@attrs.frozen
class VerifyReport:
    """All checks of a savepoint.

    Attributes:
        place: The savepoint.
        checks: In the order in which they were made.
    """

    place: str
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing failed; what is unproven is no failure."""
        return all(check.status is not Outcome.FAILED for check in self.checks)


def verify(savepoint: Savepoint, *, progress: Callable[[str], None] | None = None) -> VerifyReport:
    """Look at everything that can be proven of a savepoint.

    Args:
        savepoint: Which.
        progress: Is called with the operator that is looked at next.
    """
    checks = [Check("structure", Outcome.OK, _summary(savepoint), METADATA)]
    checks += _digests(savepoint)
    entries: dict[tuple[str, str], int] = {}
    for operator in savepoint.operators:
        if progress is not None:
            progress(operator.title)
        checks += _operator(savepoint, operator, entries)
    checks += _counts(savepoint, entries)
    return VerifyReport(savepoint.place, tuple(checks))


def _summary(savepoint: Savepoint) -> str:
    metadata = savepoint.metadata
    with_state = sum(operator.stored.has_state for operator in savepoint.operators)
    return (
        f"version {metadata.version}, checkpoint {metadata.checkpoint_id}, "
        f"{len(metadata.operators)} operators, {with_state} with state"
    )


def _digests(savepoint: Savepoint) -> Iterator[Check]:
    if savepoint.lineage is None:
        yield Check("digests", Outcome.UNPROVEN, f"there is no {LINEAGE} with digests, as Flink writes none")
        return
    wrong = 0
    for name, expected in savepoint.lineage.files.items():
        problem = _digest_problem(savepoint.folder, name, expected.size, expected.sha256)
        if problem:
            wrong += 1
            yield Check("digests", Outcome.FAILED, problem, name)
    if not wrong:
        yield Check("digests", Outcome.OK, f"{len(savepoint.lineage.files)} files are what {LINEAGE} says")


def _digest_problem(folder: Folder, name: str, size: int, sha256: str) -> str:
    try:
        with folder.open_range(name) as file:
            if file.size != size:
                return f"the file has {file.size} bytes and should have {size}"
            digest = hashlib.sha256()
            for start in range(0, size, _READ_BYTES):
                digest.update(file.read_at(start, min(_READ_BYTES, size - start)))
    except StateShiftError as error:
        return error.what
    return "" if digest.hexdigest() == sha256 else "the SHA-256 digest of the file is another one"


def _operator(savepoint: Savepoint, operator: SavepointOperator, entries: dict[tuple[str, str], int]) -> list[Check]:
    checks: list[Check] = []
    with located(savepoint=savepoint.place, operator=operator.title):
        headers = _guarded("structure", operator, lambda: _header_checks(operator))
        checks += headers
        if not headers:
            checks += _guarded("key groups", operator, lambda: _keyed_checks(savepoint, operator, entries))
            checks += _guarded("elements", operator, lambda: _operator_checks(savepoint, operator, entries))
    return checks


def _header_checks(operator: SavepointOperator) -> Iterator[Check]:
    """What keeps an operator's streams from being looked at; nothing where they can be."""
    if operator.unreadable:
        yield Check("structure", Outcome.UNPROVEN, operator.unreadable, operator.title)


def _guarded(name: str, operator: SavepointOperator, look: Callable[[], Iterator[Check]]) -> list[Check]:
    try:
        return list(look())
    except StateShiftError as error:
        places = [
            f"{place} {error.where[place]}" for place in ("state", "file", "offset", "key") if place in error.where
        ]
        return [Check(name, Outcome.FAILED, error.what, ", ".join([operator.title, *places]))]


def _keyed_checks(
    savepoint: Savepoint, operator: SavepointOperator, entries: dict[tuple[str, str], int]
) -> Iterator[Check]:
    found, unread, stable, native = 0, set[str](), True, False
    subtasks = [subtask for subtask in operator.stored.subtasks if subtask.managed_keyed is not None]
    for subtask in subtasks:
        handle = subtask.managed_keyed
        assert handle is not None  # noqa: S101 - chosen above
        expected = key_group_range(subtask.index, operator.parallelism, operator.max_parallelism)
        if handle.key_groups != expected:
            raise CorruptSavepoint(
                f"subtask {subtask.index} has key groups {handle.first_key_group} to {handle.key_groups.stop - 1} and "
                f"should have {expected.start} to {expected.stop - 1}"
            )
        if not handle.is_canonical:
            native = True
            continue
        part = _verify_stream(savepoint.folder, operator, handle, entries)
        found += part.entries
        unread |= part.unread
        stable &= part.hashed
    if not subtasks:
        return
    if native:
        yield Check(
            "key groups", Outcome.UNPROVEN, "the entries are in the heap backend's native format", operator.title
        )
        return
    if stable:
        yield Check("key groups", Outcome.OK, f"{found} entries lie where their keys hash to", operator.title)
    else:
        key = operator.key.describe() if operator.key else "?"
        detail = (
            f"{found} entries lie in the range of their subtask; keys of type {key} have no stable hash to prove more"
        )
        yield Check("key groups", Outcome.UNPROVEN, detail, operator.title)
    if unread:
        names = ", ".join(sorted(unread))
        detail = f"the values of {names} are not read by this release, only their framing"
        yield Check("values", Outcome.UNPROVEN, detail, operator.title)
    elif found:
        yield Check("values", Outcome.OK, "every value ends where its type says", operator.title)


@attrs.define
class _StreamProof:
    """What was seen in one keyed stream."""

    entries: int = 0
    hashed: bool = True
    unread: set[str] = attrs.field(factory=set)


def _verify_stream(
    folder: Folder, operator: SavepointOperator, handle: KeyedHandle, entries: dict[tuple[str, str], int]
) -> _StreamProof:
    proof = _StreamProof()
    with open_stream(handle.stream, folder) as source:
        reader = KeyedStreamReader.open(source, handle)
        proofs = _state_proofs(reader.header, operator, proof)
        for block in reader.blocks():
            state = proofs[block.state_id]
            with located(file=source.name, state=state.name):
                state.look_at(block)
            proof.entries += block.entries
            place = (operator.operator_id, state.name)
            entries[place] = entries.get(place, 0) + block.entries
    return proof


def _state_proofs(header: KeyedStreamHeader, operator: SavepointOperator, proof: _StreamProof) -> list[_StateProof]:
    try:
        key = header.key_snapshot.restore_serializer()
    except StateShiftError:
        proof.hashed = False
        proof.unread |= {info.name for info in header.states}
        return [_StateProof(info.name, operator.max_parallelism) for info in header.states]
    hasher = key_hasher(key) if has_stable_hash(key) else None
    proof.hashed &= hasher is not None
    proofs = []
    for info in header.states:
        kind, state = keyed_kind(info), _StateProof(info.name, operator.max_parallelism, key, hasher)
        proofs.append(state)
        try:
            if kind is StateKind.TIMERS:
                namespace = info.value.children()[1].restore_serializer()
                state.split = TimerKeyFormat.of(key, namespace, operator.max_parallelism).split
                continue
            namespace = info_snapshot(info, NAMESPACE_SERIALIZER).restore_serializer()
            form = EntryKeyFormat.of(key, namespace, operator.max_parallelism, has_user_key=kind is StateKind.MAP)
            state.split = form.split
            serializer: Any = info.value.restore_serializer()
            state.value = _value_layout(kind, serializer)
            state.user_key = serializer.key.layout if kind is StateKind.MAP else None
        except StateShiftError:
            state.value = None
        if state.value is None or not state.value.can_skip:
            proof.unread.add(info.name)
    return proofs


def _value_layout(kind: StateKind, serializer: Any) -> Layout:
    if kind is StateKind.LIST:
        return Separated(serializer.element.layout)
    return Nullable(serializer.value.layout) if kind is StateKind.MAP else serializer.layout


@attrs.define
class _StateProof:
    """Looks at the entries of one state of one stream."""

    name: str
    max_parallelism: int
    key: TypeSerializer[Any] | None = None
    hasher: Callable[[Any], int] | None = None
    split: Callable[[bytes], Any] | None = None
    value: Layout | None = None
    user_key: Layout | None = None

    def look_at(self, block: Block) -> None:
        """Raise `CorruptSavepoint` where an entry does not lie in its place, or does not end where it should."""
        prefix = block.key_group.to_bytes(1 if self.max_parallelism <= 128 else 2, "big")
        for key, value in block.items():
            if not key.startswith(prefix):
                raise self._misplaced(block, key)
            parts = self.split(key) if self.split is not None else None
            if parts is not None and self.key is not None and self.hasher is not None:
                decoded = decode(self.key, parts.key)
                if key_group(self.hasher(decoded), self.max_parallelism) != block.key_group:
                    raise self._misplaced(block, key, shown(decoded))
            if self.value is not None and self.value.can_skip:
                self._skip(self.value, value, key)
            if self.user_key is not None and self.user_key.can_skip and parts is not None:
                self._skip(self.user_key, parts.user_key, key)

    @staticmethod
    def _skip(layout: Layout, data: bytes, key: bytes) -> None:
        source = DataInputView(data)
        with located(key=shown(key.hex())):
            if isinstance(layout, Nullable) and data[:1] == b"\x01":
                return  # what follows a null flag of map state carries no meaning (format notes 5.3)
            layout.skip(source)
            if source.remaining():
                raise CorruptSavepoint(f"{source.remaining()} bytes follow a value")

    @staticmethod
    def _misplaced(block: Block, key: bytes, text: str = "") -> CorruptSavepoint:
        return CorruptSavepoint(
            f"an entry lies in key group {block.key_group} and belongs to another: Flink would never find it (RUN-3)",
            key=text or shown(key.hex()),
        )


def _operator_checks(
    savepoint: Savepoint, operator: SavepointOperator, entries: dict[tuple[str, str], int]
) -> Iterator[Check]:
    states = {state.name: state for state in operator.states if not state.kind.is_keyed}
    found, unread = 0, set[str]()
    for subtask in operator.stored.subtasks:
        if subtask.managed_operator is None:
            continue
        with open_stream(subtask.managed_operator.stream, savepoint.folder) as source:
            stream = read_operator_stream(source, subtask.managed_operator)
        for name, elements in stream.elements.items():
            place = (operator.operator_id, name)
            entries[place] = entries.get(place, 0) + len(elements)
            found += len(elements)
            if states[name].unsupported:
                unread.add(name)
                continue
            layout = states[name].description.value.snapshot.restore_serializer().layout
            for element in elements if layout.can_skip else ():
                with located(state=name):
                    _StateProof._skip(layout, element, element[:20])  # noqa: SLF001 - the same proof
    if unread:
        detail = f"the elements of {', '.join(sorted(unread))} are not read by this release"
        yield Check("elements", Outcome.UNPROVEN, detail, operator.title)
    elif found:
        yield Check("elements", Outcome.OK, f"{found} elements end where their types say", operator.title)


def _counts(savepoint: Savepoint, entries: dict[tuple[str, str], int]) -> Iterator[Check]:
    if savepoint.lineage is None or not savepoint.lineage.states:
        return
    wrong = [
        (count, entries.get((count.operator_id, count.state), 0))
        for count in savepoint.lineage.states
        if count.kind != StateKind.BROADCAST and entries.get((count.operator_id, count.state), 0) != count.written
    ]
    for count, found in wrong:
        detail = f"{found} entries, and {LINEAGE} says {count.written}"
        yield Check("counts", Outcome.FAILED, detail, f"{count.operator or count.operator_id}, state {count.state}")
    if not wrong:
        yield Check("counts", Outcome.OK, f"{len(savepoint.lineage.states)} states have as many entries as recorded")
