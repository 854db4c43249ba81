"""Comparison of the values of two savepoints: key by key, one key group of both at a time.

The entries of a key group are sorted by their bytes, or in the order of a hash table, and they are in the same key
group at any parallelism. So the entries of one side are held in memory while those of the other are read. If the blocks
have equal bytes, nothing more is compared; if a key group is too large to be held, it is read several times, each time
for a part of its keys.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.description import StateKind
from ...compat.lazy_tables import state_in
from ...serializers.containers.wrappers import without_ttl_awareness
from ...serializers.errors import OldReaderUnavailable, StateShiftError, located, shown
from ...serializers.json_forms import tagger_of
from ..entry_keys import decode
from ..formats.flink.entries import EntryDecoder
from ..formats.flink.meta_info import NAMESPACE_SERIALIZER
from ..formats.flink.state_kinds import info_snapshot
from ..key_groups import prefix_size
from .chosen_keys import open_chosen
from .json_encoding import tagged_elements
from .opaque_state import COORDINATOR, CarriedState
from .states import keyed_handles

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from ...compat.description import StateDescription
    from ...compat.difference import Difference, OperatorDifference, StateDifference
    from ..formats.flink.blocks import Block
    from ..formats.flink.keyed_stream import KeyedReader
    from ..formats.flink.meta_info import StateMetaInfo
    from .chosen_keys import ChosenKeys
    from .reader import Savepoint, SavepointOperator
    from .states import SavepointState

HELD_BYTES = 64 << 20
FIRST = 3
_BYTES = "bytes"
_Entries = dict[str, dict[bytes, bytes]]


@attrs.frozen
class ValueChange:
    """One entry that differs.

    Attributes:
        what: `changed`, `added` (only B has it) or `removed` (only A has it).
        key: The key, with the namespace and the user key if there are any; for an operator's list the element.
        a: The value in A, or "".
        b: The value in B, or "".
    """

    what: str
    key: str
    a: str = ""
    b: str = ""


@attrs.define
class StateValues:
    """The differences in the values of one state.

    Attributes:
        operator_id: The operator's id in 32 hexadecimal digits.
        uid: The operator's uid, or "".
        state: The name of the state.
        kind: The kind of the state; `bytes` for state that is carried over as bytes, and compared as such.
        entries: The number of entries in A: each entry of a map and each element of an operator's list counts, a keyed
            list once, a broadcast map in one subtask only; of state that is compared as bytes, the number of streams.
        changed: The number of entries whose values differ.
        added: The number of entries that only B has.
        removed: The number of entries that only A has.
        first: The first entries that differ.
        not_compared: Why the values were not compared, or "".
        most: How many entries that differ are listed at most.
    """

    operator_id: str
    uid: str
    state: str
    kind: str
    entries: int = 0
    changed: int = 0
    added: int = 0
    removed: int = 0
    first: list[ValueChange] = attrs.field(factory=list)
    not_compared: str = ""
    most: int = FIRST

    @property
    def is_bytes(self) -> bool:
        """Whether streams were compared as bytes, not entries."""
        return self.kind == _BYTES

    @property
    def is_equal(self) -> bool:
        """Whether the values were compared, and are equal."""
        return not (self.changed or self.added or self.removed or self.not_compared)

    def add(self, what: str, tell: Callable[[], tuple[str, str, str]]) -> None:
        """Count an entry that differs; if it is one of the first, `tell` is called for its key and both values."""
        setattr(self, what, getattr(self, what) + 1)
        if len(self.first) < self.most:
            self.first.append(ValueChange(what, *tell()))


def compare_values(
    a: Savepoint,
    b: Savepoint,
    difference: Difference,
    progress: Callable[[str], None] = lambda _: None,
    key_groups: Mapping[str, Collection[int]] | None = None,
    *,
    most: int = FIRST,
    chosen: Mapping[str, ChosenKeys] | None = None,
) -> tuple[StateValues, ...]:
    """Compare the values of all states that both sides have, and the bytes of state that only its operator can read.

    Args:
        a: The one savepoint.
        b: The other savepoint.
        difference: The difference of their types.
        progress: Called with the name of what is compared.
        key_groups: The key groups that are compared, by operator id; None, or an operator that is not named: all.
        most: How many entries of a state that differ are listed at most.
        chosen: The keys whose entries alone are compared, by operator id; operators that are not named are left out,
            and so is state without keys. None: all are compared.

    Raises:
        CorruptSavepoint: A side is damaged.
    """
    found: list[StateValues] = []
    for operator in difference.operators:
        if operator.a is not None and operator.b is not None:
            progress(operator.uid or operator.operator_id)
            sides = a.operator(operator.a.operator_id), b.operator(operator.b.operator_id)
            keys = None if chosen is None else chosen.get(sides[0].operator_id)
            if chosen is not None and keys is None:
                continue
            groups = (key_groups or {}).get(sides[0].operator_id, range(sides[0].max_parallelism))
            if keys is not None and keys.key_groups is not None:
                groups = sorted(keys.key_groups.intersection(groups))
            found += _operator_values(operator, *sides, groups, most, keys)
            if keys is None:
                found += _carried_values(operator, *sides)
    return tuple(found)


def _operator_values(
    operator: OperatorDifference,
    a: SavepointOperator,
    b: SavepointOperator,
    key_groups: Iterable[int],
    most: int,
    chosen: ChosenKeys | None,
) -> Iterator[StateValues]:
    keyed: dict[str, StateValues] = {}
    for state in operator.states:
        if state.a is None or state.b is None or (chosen is not None and not state.a.kind.is_keyed):
            continue
        told = StateValues(a.operator_id, operator.uid, state.name, str(state.a.kind), most=most)
        told.not_compared = _why_not(operator, state) or _why_unread(state, a, b)
        if state.a.kind.is_keyed and not told.not_compared:
            keyed[state.name] = told
        elif not told.not_compared:
            _compare_elements(told, _state(a, state.name, state.a.kind), _state(b, state.name, state.b.kind))
        yield told
    if keyed:
        with ExitStack() as stack:
            sides = [stack.enter_context(closing(_KeyedSide(one, set(keyed), chosen))) for one in (a, b)]
            for group in key_groups:
                _compare_group(group, keyed, *sides)
            for name, why in (sides[0].hidden | sides[1].hidden).items():
                keyed[name].not_compared = why
        _leave_out_moved(operator, keyed)


def _leave_out_moved(operator: OperatorDifference, keyed: dict[str, StateValues]) -> None:
    """Do not tell differences of states that are migrated lazily: entries that were touched are in another table."""
    names = [state.name for state in operator.states]
    for state in {state_in(name) for name in names if state_in(name) != name}:
        tables = [keyed[name] for name in names if name in keyed and state_in(name) == state]
        if any(not table.is_equal for table in tables):
            for table in tables:
                table.changed = table.added = table.removed = 0
                table.first.clear()
                table.not_compared = "it is migrated lazily, so its values have several forms"


def _carried_values(operator: OperatorDifference, a: SavepointOperator, b: SavepointOperator) -> Iterator[StateValues]:
    """Compare state that is carried over as bytes, stream by stream; subtasks must be the same on both sides."""
    sides = [{state.kind: state for state in one.carried} for one in (a, b)]
    for kind in sorted(set().union(*sides)):
        told = StateValues(a.operator_id, operator.uid, kind, _BYTES)
        one, other = (side.get(kind, CarriedState(kind, kind, {})) for side in sides)
        told.entries = len(one.streams)
        if a.parallelism == b.parallelism or kind == COORDINATOR:
            _compare_streams(told, one, other, a, b)
        else:
            told.not_compared = "the numbers of subtasks differ, and only the operator itself can read these bytes"
        yield told


def _compare_streams(
    told: StateValues, one: CarriedState, other: CarriedState, a: SavepointOperator, b: SavepointOperator
) -> None:
    contents = one.content(a.folder), other.content(b.folder)
    for name in sorted(contents[0] | contents[1]):
        found = [content.get(name) for content in contents]
        if found[0] != found[1]:
            what = "added" if found[0] is None else "removed" if found[1] is None else "changed"
            sizes = [f"{side.streams[name].size:,} bytes" if name in side.streams else "" for side in (one, other)]
            told.add(what, lambda name=name, sizes=sizes: (name, *sizes))  # type: ignore[misc]


def _why_not(operator: OperatorDifference, state: StateDifference) -> str:
    one, other = state.a, state.b
    assert one is not None and other is not None  # noqa: S101, PT018 - the caller passes states of both sides
    if not state.is_equal and not _has_equal_keys(one, other):
        return "the types differ"
    if one.kind.is_keyed and operator.max_parallelism is not None:
        return "the numbers of key groups differ"
    return "the types of the keys differ" if one.kind.is_keyed and operator.key and operator.key.changes else ""


def _has_equal_keys(one: StateDescription, other: StateDescription) -> bool:
    """Whether an entry is found by its key on both sides, so that values of different types stand beside each other."""
    if one.kind is not other.kind or not one.kind.has_values:
        return False
    if one.namespace is None or other.namespace is None or one.namespace.snapshot != other.namespace.snapshot:
        return False
    if not one.kind.has_user_keys:
        return True
    keys = [next(iter(without_ttl_awareness(side.value.snapshot).children())) for side in (one, other)]
    return bool(keys[0] == keys[1])


def _why_unread(state: StateDifference, a: SavepointOperator, b: SavepointOperator) -> str:
    """Return why values of different types cannot be compared: only their bytes are known of one side."""
    if state.is_equal or state.a is None or state.b is None:
        return ""
    return _state(a, state.name, state.a.kind).unsupported or _state(b, state.name, state.b.kind).unsupported


def _state(operator: SavepointOperator, name: str, kind: StateKind) -> SavepointState:
    return next(state for state in operator.states if state.name == name and state.kind is kind)


def _compare_elements(told: StateValues, a: SavepointState, b: SavepointState) -> None:
    """Compare the elements of an operator's state, regardless of the subtasks that have them."""
    if a.unsupported or b.unsupported:
        told.not_compared = a.unsupported or b.unsupported
        return
    one, other = (
        Counter(json.dumps(item, sort_keys=True) for part in _parts(state) for item in part) for state in (a, b)
    )
    told.entries = one.total()
    for what, left in (("removed", one - other), ("added", other - one)):
        for text in sorted(left.elements()):
            told.add(what, lambda text=text: (shown(json.loads(text)), "", ""))  # type: ignore[misc]


def _parts(state: SavepointState) -> list[list[Any]]:
    parts = tagged_elements(state)
    if state.kind is not StateKind.BROADCAST:
        return parts
    return [one["$map"] for one in parts[0]] if parts else []  # every subtask has the whole map


def _compare_group(group: int, told: dict[str, StateValues], a: _KeyedSide, b: _KeyedSide) -> None:
    held = [side.held(group) for side in (a, b)]
    if held[0] is not None and held[1] is not None:
        for name, values in told.items():
            one, other = held[0].get(name, ()), held[1].get(name, ())
            values.entries += sum(block.entries for block in one)
            if not a.is_like(b, name) or b"".join(block.data for block in one) != b"".join(
                block.data for block in other
            ):
                _compare_entries(values, _entries(one), _entries(other), a, b)
        return
    parts = -(-max(a.size(group), b.size(group)) // HELD_BYTES) + 1
    for part in range(parts):
        chosen = [side.some(group, lambda key: zlib.crc32(key) % parts == part) for side in (a, b)]  # noqa: B023
        for name, values in told.items():
            some, others = (side.get(name, {}) for side in chosen)
            values.entries += len(some)
            _compare_entries(values, some, others, a, b)


def _entries(blocks: Sequence[Block]) -> dict[bytes, bytes]:
    return {key: value for block in blocks for key, value in block.items()}


def _compare_entries(
    told: StateValues, one: dict[bytes, bytes], other: dict[bytes, bytes], a: _KeyedSide, b: _KeyedSide
) -> None:
    name, is_like = told.state, a.is_like(b, told.state)
    for key, value in one.items():
        found = other.pop(key, None)
        if found is None:
            told.add("removed", lambda key=key, value=value: (a.key(name, key), a.value(name, key, value), ""))  # type: ignore[misc]
        elif (found != value or not is_like) and a.tagged(name, key, value) != b.tagged(name, key, found):
            told.add(
                "changed",
                lambda key=key, value=value, found=found: (  # type: ignore[misc]
                    a.key(name, key),
                    a.value(name, key, value),
                    b.value(name, key, found),
                ),
            )
    for key, value in other.items():
        told.add("added", lambda key=key, value=value: (b.key(name, key), "", b.value(name, key, value)))  # type: ignore[misc]


class _KeyedSide:
    """The keyed states of an operator in one savepoint; one of its streams is open at a time."""

    def __init__(self, operator: SavepointOperator, states: set[str], chosen: ChosenKeys | None) -> None:
        self._operator, self._states, self._chosen = operator, states, chosen
        self._handles = list(keyed_handles(operator.stored))
        self._open = ExitStack()
        self._reader: KeyedReader | None = None
        self._key_groups = range(0)
        self._readers: dict[str, Callable[[bytes, bytes], Any] | None] = {}
        self.hidden: dict[str, str] = {}

    def close(self) -> None:
        """Close the stream that is open."""
        self._open.close()

    def held(self, group: int) -> dict[str, list[Block]] | None:
        """Return the blocks of a key group by state; None where they exceed `HELD_BYTES`."""
        found: dict[str, list[Block]] = {}
        size = 0
        for name, block in self._blocks(group):
            size += len(block.data)
            if size > HELD_BYTES:
                return None
            found.setdefault(name, []).append(block)
        return found

    def size(self, group: int) -> int:
        """Return the number of bytes of a key group."""
        return sum(len(block.data) for _, block in self._blocks(group))

    def some(self, group: int, wanted: Callable[[bytes], bool]) -> _Entries:
        """Return the entries of a key group by state whose keys `wanted` accepts."""
        found: _Entries = {}
        for name, block in self._blocks(group):
            found.setdefault(name, {}).update((key, value) for key, value in block.items() if wanted(key))
        return found

    def is_like(self, other: _KeyedSide, name: str) -> bool:
        """Whether equal bytes are equal values in the streams that are open."""
        return bool(self._types(name) == other._types(name))

    def key(self, name: str, key: bytes) -> str:
        """Return the text of a key for a report; in hexadecimal where it cannot be read."""
        read = self._reader_of(name)
        if read is None:
            return shown(key.hex())
        try:
            told = read(key, b"")[0]
        except StateShiftError:
            return shown(key.hex())
        return ", ".join(shown(part) for part in told)

    def value(self, name: str, key: bytes, value: bytes) -> str:
        """Return the text of a value for a report; in hexadecimal where it cannot be read."""
        read = self._reader_of(name)
        return shown(value.hex() if read is None else read(key, value)[1])

    def tagged(self, name: str, key: bytes, value: bytes) -> str | bytes:
        """Return a form that is the same for equal values, in any order of a set or map; without a reader the bytes."""
        read = self._reader_of(name)
        if read is None:
            return value
        return json.dumps(read(key, value)[2](), sort_keys=True)

    def _blocks(self, group: int) -> Iterator[tuple[str, Block]]:
        reader = self._at(group)
        if reader is None:
            return
        with located(savepoint=self._operator.folder.place, operator=self._operator.title, file=reader.name):
            names = [info.name for info in reader.header.states]
            wanted = [at for at, name in enumerate(names) if name in self._states and name not in self.hidden]
            for block in reader.blocks(range(group, group + 1), wanted) if wanted else ():
                yield names[block.state_id], block

    def _at(self, group: int) -> KeyedReader | None:
        if group in self._key_groups:
            return self._reader
        handle = next((one for one in self._handles if group in one.key_groups), None)
        if handle is None:
            return None
        self._open.close()
        folder, groups = self._operator.folder, self._operator.max_parallelism
        self._reader = self._open.enter_context(open_chosen(handle, folder, groups, self._chosen))
        self._key_groups, self._readers = handle.key_groups, {}
        self.hidden |= {name: why for name, why in self._reader.hidden.items() if name in self._states}
        return self._reader

    def _info(self, name: str) -> StateMetaInfo | None:
        states = () if self._reader is None else self._reader.header.states
        return next((info for info in states if info.name == name), None)

    def _types(self, name: str) -> Any:
        info = self._info(name)
        return None if info is None else info.value

    def _reader_of(self, name: str) -> Callable[[bytes, bytes], Any] | None:
        if name not in self._readers:
            try:
                self._readers[name] = self._made(name)
            except OldReaderUnavailable:
                self._readers[name] = None
        return self._readers[name]

    def _made(self, name: str) -> Callable[[bytes, bytes], Any] | None:
        """Return a function that reads an entry: the parts of its key, its value, and a function for its JSON form."""
        info, reader, groups = self._info(name), self._reader, self._operator.max_parallelism
        if info is None or reader is None:
            return None
        kind = next(state.kind for state in self._operator.states if state.name == name and state.kind.is_keyed)
        if kind is StateKind.TIMERS:
            timer, start = info.value.restore_serializer(), prefix_size(groups)
            return lambda key, value: ((decode(timer, key[start:]),), value, value.hex)
        space = info_snapshot(info, NAMESPACE_SERIALIZER)
        decoder = EntryDecoder.of(kind, reader.header.key_snapshot, space, info.value, groups)
        tag = tagger_of(info.value)

        def read(key: bytes, value: bytes) -> Any:
            place, namespace, user_key = decoder.place(key)
            parts = [part for part in decoder.read_key(place, namespace) if part is not None]
            if kind.has_user_keys:
                parts.append(decode(decoder.value.key, user_key))  # type: ignore[attr-defined]  # of a map
            if not value and not kind.has_elements:
                return parts, None, None
            found = decoder.read_value(user_key, value)
            if kind.has_user_keys:
                return parts, found[1], lambda: tag({found[0]: found[1]})
            return parts, found, lambda: tag(found)

        return read
