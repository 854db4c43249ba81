"""Damages to savepoints, by seeds; and which bytes of an intact savepoint may be any: names, keys, values.

Only a digest can show that such a byte has changed. All others are framing, where damage is found.
"""

from __future__ import annotations

import random
import struct
from pathlib import Path

import attrs
import pytest

from stateshift import DataInputView, StateShiftError
from stateshift.compat.description import StateKind
from stateshift.serializers.flink.namespaces import GlobalWindowSerializer, VoidNamespaceSerializer
from stateshift.state.formats.flink.handles import InlineHandle, RelativeFileHandle
from stateshift.state.formats.flink.keyed_stream import read_keyed_header
from stateshift.state.formats.flink.meta_info import NAMESPACE_SERIALIZER
from stateshift.state.formats.flink.metadata import METADATA, read_metadata, write_metadata
from stateshift.state.formats.flink.operator_stream import read_operator_header
from stateshift.state.formats.flink.state_kinds import entry_key_format, info_snapshot, keyed_kind
from stateshift.state.key_groups import prefix_size

_SAME_LENGTH = [
    ("Long", "Byte", "Char", "Date"), ("Short", "Float"), ("String", "Double", "BigInt", "BigDec"),
    ("Boolean", "Instant", "SqlDate", "SqlTime"), ("LocalDate", "LocalTime"),
]  # fmt: skip
_END_MARK = 0xFFFF


class Places:
    """Bytes of the files of a savepoint that may be any."""

    def __init__(self, folder: Path) -> None:
        self.files = {file.name: file.read_bytes() for file in folder.iterdir() if file.name != "_stateshift.json"}
        self.free = {name: bytearray(len(data)) for name, data in self.files.items()}
        self.streams: list[tuple[str, str, int, int]] = []
        data = self.files[METADATA]
        self.metadata = self._recorded(METADATA, 0, lambda: read_metadata(data))
        self._mark(METADATA, 8, 16)  # the checkpoint id
        self._mark(METADATA, len(data) - len(self.metadata.properties), len(data))
        for operator in self.metadata.operators:
            at = data.index(operator.operator_id)
            self._mark(METADATA, at, at + 16)
            if not any(subtask.managed_keyed for subtask in operator.subtasks):
                self._mark(METADATA, at + 16, at + 24)  # numbers of subtasks and key groups, which nothing else shows
            for subtask in operator.subtasks:
                for part in (subtask.managed_keyed, subtask.managed_operator):
                    if part is not None:
                        self._stream(operator, part)

    def are_free(self, name: str, damaged: bytes, unreadable: set[str]) -> bool:
        """Whether all bytes that differ may be any, or are state of operators that is said to be unreadable."""
        sound, free = self.files[name], self.free[name].copy()
        for operator, file, base, size in self.streams:
            if file == name and operator in unreadable:
                free[base : base + size] = b"\1" * size
        return len(sound) == len(damaged) and all(
            free[at] for at, (one, other) in enumerate(zip(sound, damaged, strict=True)) if one != other
        )

    def _mark(self, name, start, end):
        self.free[name][start:end] = b"\1" * (end - start)

    def _recorded(self, name, base, read):
        """Read, and mark all texts that are read on the way."""
        read_utf = DataInputView.read_utf

        def recording(view):
            text = read_utf(view)
            start = view.position - len(text.encode())
            self._mark(name, base + start, base + view.position)
            return text

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(DataInputView, "read_utf", recording)
            return read()

    def _stream(self, operator, part):
        if isinstance(part.stream, InlineHandle):
            name, data = METADATA, part.stream.data
            base = self.files[METADATA].index(data)
        else:
            assert isinstance(part.stream, RelativeFileHandle)
            name, data, base = part.stream.path, self.files[part.stream.path], 0
        self.streams.append((operator.operator_id.hex(), name, base, len(data)))
        view = DataInputView(data)
        if hasattr(part, "offsets"):
            header = self._recorded(name, base, lambda: read_keyed_header(view))
            if not header.compressed:
                self._entries(operator, part, header, name, base, data)
            return
        header = self._recorded(name, base, lambda: read_operator_header(view))
        if not header.compressed:
            self._mark(name, base + view.position, base + len(data))

    def _entries(self, operator, part, header, name, base, data):
        formats = [_format(info, header, operator.max_parallelism) for info in header.states]
        prefix = prefix_size(operator.max_parallelism)
        for start in filter(None, part.offsets):
            at = start
            while (state := int.from_bytes(data[at : at + 2], "big")) != _END_MARK:
                at = self._run(at + 2, prefix, formats[state], name, base, data)

    def _run(self, at, prefix, entry_format, name, base, data):
        """Mark the entries of a state; give where they end."""
        is_last = False
        while not is_last:
            value_at = at + 8 + struct.unpack_from(">i", data, at)[0]
            end = value_at + struct.unpack_from(">i", data, value_at - 4)[0]
            is_last = data[at + 4] >= 0x80
            self._mark(name, base + at + 4 + prefix, base + value_at - 4)
            self._mark(name, base + value_at, base + end)
            keys, is_void = entry_format
            if is_void:
                parts = keys.split(bytes([data[at + 4] & 0x7F]) + data[at + 5 : value_at - 4])
                self.free[name][base + value_at - 5 - len(parts.user_key)] = 0
            at = end
        return at


def _format(info, header, groups):
    """How the keys of a state's entries are made of parts, and whether their namespaces are one byte 0."""
    key = header.key_snapshot.restore_serializer()
    is_queue = keyed_kind(info) is StateKind.TIMERS
    namespace = info.value.children()[1] if is_queue else info_snapshot(info, NAMESPACE_SERIALIZER)
    namespace = namespace.restore_serializer()
    return entry_key_format(info, key, groups), isinstance(namespace, VoidNamespaceSerializer | GlobalWindowSerializer)


@attrs.frozen
class Damage:
    """One damage to one file.

    Attributes:
        kind: What was done.
        file: To which file.
        data: What lies there now.
        told: Whether what it changes is a number, an offset or a type, which says itself what is what; else bytes.
    """

    kind: str
    file: str
    data: bytes = attrs.field(repr=False)
    told: bool = False


def damage_of(places: Places, seed: int) -> Damage:
    """Make the damage of a seed."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    while True:
        make = chance.choice([_flip, _flip, _byte, _run, _cut, _swap, _compression, _type, _number, _appended])
        found = make(places, chance)
        if found is not None and found.data != places.files[found.file]:
            return found


def _somewhere(places, chance):
    name = chance.choice([METADATA, *sorted(places.files)])
    return name, bytearray(places.files[name])


def _flip(places, chance):
    name, data = _somewhere(places, chance)
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return Damage("flip", name, bytes(data))


def _byte(places, chance):
    name, data = _somewhere(places, chance)
    data[chance.randrange(len(data))] = chance.choice([0, 1, 0x7F, 0x80, 0xFF])
    return Damage("byte", name, bytes(data))


def _run(places, chance):
    name, data = _somewhere(places, chance)
    size = chance.randint(2, min(16, len(data)))
    at = chance.randrange(len(data) - size + 1)
    data[at : at + size] = b"\xff" * size
    return Damage("run", name, bytes(data))


def _cut(places, chance):
    name, data = _somewhere(places, chance)
    return Damage("cut", name, bytes(data[: chance.randrange(len(data))]), told=True)


def _appended(places, chance):
    name, data = _somewhere(places, chance)
    return Damage("appended", name, bytes(data) + chance.randbytes(chance.randint(1, 9)), told=True)


def _swap(places, chance):
    name, data = _somewhere(places, chance)
    size = chance.randint(1, min(64, len(data) // 2))
    one = chance.randrange(len(data) - 2 * size + 1)
    other = chance.randrange(one + size, len(data) - size + 1)
    data[one : one + size], data[other : other + size] = data[other : other + size], data[one : one + size]
    return Damage("swap", name, bytes(data))


def _compression(places, chance):
    _, name, base, _ = chance.choice(places.streams)
    data = bytearray(places.files[name])
    data[base + 4] ^= 1
    return Damage("compression", name, bytes(data), told=True)


def _type(places, chance):
    """Give a type of another name, as long, wherever it stands in one place."""
    _, name, base, size = chance.choice(places.streams)
    data, alike = places.files[name], list(chance.choice(_SAME_LENGTH))
    chance.shuffle(alike)
    for old in alike:
        text = f"{old}Serializer${old}SerializerSnapshot".encode()
        found = [at for at in range(base, base + size) if data.startswith(text, at)]
        if found:
            at, new = chance.choice(found), chance.choice([one for one in alike if one != old])
            replaced = f"{new}Serializer${new}SerializerSnapshot".encode()
            return Damage("type", name, data[:at] + replaced + data[at + len(text) :], told=True)
    return None


def _number(places, chance):
    """Change a number of `_metadata` that shows where state is, or how much there is."""
    metadata = places.metadata
    at = chance.randrange(len(metadata.operators))
    operator = metadata.operators[at]
    with_state = [subtask for subtask in operator.subtasks if subtask.has_state]
    if not with_state:
        return None
    subtask = chance.choice(with_state)
    change = chance.choice([_offsets, _offsets, _first, _elements, _size, _index])
    changed = change(subtask, chance)
    if changed is None:
        return None
    subtasks = tuple(changed if one is subtask else one for one in operator.subtasks)
    operators = list(metadata.operators)
    operators[at] = attrs.evolve(operator, subtasks=subtasks)
    try:
        data = write_metadata(attrs.evolve(metadata, operators=tuple(operators)))
    except StateShiftError:
        return None
    return Damage(f"number {change.__name__}", METADATA, data, told=True)


def _moved(offsets, chance):
    at, other = chance.randrange(len(offsets)), chance.randrange(len(offsets))
    new = list(offsets)
    if chance.random() < 0.5:
        new[at], new[other] = new[other], new[at]
    else:
        new[at] = max(0, chance.choice([0, new[at] + chance.choice([-2, -1, 1, 2, 9]), new[other]]))
    return tuple(new)


def _offsets(subtask, chance):
    handle = subtask.managed_keyed
    if handle is None:
        return None
    return attrs.evolve(subtask, managed_keyed=attrs.evolve(handle, offsets=_moved(handle.offsets, chance)))


def _first(subtask, chance):
    handle = subtask.managed_keyed
    if handle is None:
        return None
    if chance.random() < 0.5:
        return attrs.evolve(subtask, managed_keyed=attrs.evolve(handle, first_key_group=handle.first_key_group + 1))
    return attrs.evolve(subtask, managed_keyed=attrs.evolve(handle, offsets=handle.offsets[:-1]))


def _elements(subtask, chance):
    handle = subtask.managed_operator
    if handle is None:
        return None
    states = list(handle.states)
    at = chance.randrange(len(states))
    state = states[at]
    if chance.random() < 0.3 or not state.offsets:
        modes = [mode for mode in type(state.mode) if mode is not state.mode]
        states[at] = attrs.evolve(state, mode=chance.choice(modes))
    elif chance.random() < 0.3:
        states[at] = attrs.evolve(state, offsets=state.offsets[:-1])
    else:
        states[at] = attrs.evolve(state, offsets=_moved(state.offsets, chance))
    return attrs.evolve(subtask, managed_operator=attrs.evolve(handle, states=tuple(states)))


def _size(subtask, chance):
    """Say another size of a stream's file, or cut what lies within."""
    part = chance.choice([name for name in ("managed_keyed", "managed_operator") if getattr(subtask, name) is not None])
    handle = getattr(subtask, part)
    stream = handle.stream
    if isinstance(stream, InlineHandle):
        stream = attrs.evolve(stream, data=stream.data[: -chance.randint(1, 9)])
    else:
        stream = attrs.evolve(stream, size=stream.size + chance.choice([-1, 1, 100]))
    return attrs.evolve(subtask, **{part: attrs.evolve(handle, stream=stream)})


def _index(subtask, chance):
    return attrs.evolve(subtask, index=subtask.index + chance.choice([1, 2]))
