"""Where fuzzing begins: inputs made of the savepoints of real Flink in tests/fixtures, and of every snapshot class."""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import enum
import itertools
import json
import pickle
import random
import uuid
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from pieces import compressed, streams_apart, with_handles

from stateshift import (
    BigInt,
    DataOutputView,
    Int32,
    MigrationOptions,
    Savepoint,
    StateShiftError,
    parse_edits,
    serializer_for,
)
from stateshift.compat.description import StateKind
from stateshift.compat.gate.recording import to_json
from stateshift.serializers.containers.wrappers import LazyMigrationSnapshot, TtlAwareSerializerSnapshot
from stateshift.serializers.pyflink.contents import RecordedContentSnapshot
from stateshift.serializers.registry import registry
from stateshift.serializers.snapshot import CompositeTypeSerializerSnapshot, snapshot_from_bytes, snapshot_to_bytes
from stateshift.state.entry_keys import EntryKeyFormat
from stateshift.state.formats.flink.handles import CANONICAL, NATIVE, DatabaseHandle, InlineHandle, KeyGroupsHandle
from stateshift.state.formats.flink.keyed_stream import KeyedStreamReader, write_keyed_header, write_keyed_stream
from stateshift.state.formats.flink.meta_info import NAMESPACE_SERIALIZER
from stateshift.state.formats.flink.metadata import SavepointMetadata, SubtaskState, read_metadata, write_metadata
from stateshift.state.formats.flink.sources import InlineBytes, open_stream
from stateshift.state.formats.flink.state_kinds import keyed_kind
from stateshift.state.migration.plan_file import NewTypes
from stateshift.state.migration.planning import make_plan
from stateshift.state.publication.lineage import FileDigest, Lineage, StateCount
from stateshift.state.storage.files import Folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stateshift import TypeSerializerConfigSnapshot
    from stateshift.state.formats.flink.blocks import Block
    from stateshift.state.formats.flink.handles import OperatorStateHandle
    from stateshift.state.formats.flink.keyed_stream import KeyedStreamHeader
    from stateshift.state.formats.flink.metadata import OperatorState

FIXTURES = Path(__file__).parents[1] / "fixtures"
_KEPT_GROUPS = 2
_ONE_BYTE_GROUPS = 128
_VALUES_OF_A_STATE = 3
_COMPOSITIONS = 120
_LARGEST = 32 << 10


class Colour(enum.Enum):
    RED = 1
    GREEN = 2


@attrs.frozen
class Point:
    """A record without a Java class: stateshift's own snapshot."""

    x: int
    y: float | None = None
    name: str = ""
    tags: list[str] = attrs.field(factory=list)
    colour: Colour = Colour.RED


@attrs.frozen
class Tree:
    """A record that contains itself."""

    name: str
    trees: list[Tree] = attrs.field(factory=list)
    around: Tree | None = None


HINTS = (
    Point, Tree, list[Point], dict[str, Point | None], Colour, Decimal, BigInt, tuple[int, str, bool], set[Int32],
    bytes | None,
)  # fmt: skip


@cache
def fixtures() -> tuple[bytes, ...]:
    """The `_metadata` of each fixture, with every stream inline."""
    folders = map(Folder.at, sorted(FIXTURES.glob("flink-*/*/savepoint")))
    return tuple(write_metadata(_all_inline(folder)) for folder in folders)


def _all_inline(folder: Folder) -> SavepointMetadata:
    return with_handles(read_metadata(folder.read("_metadata")), lambda handle: _inline(handle, folder))


def _inline(handle: KeyGroupsHandle | OperatorStateHandle, folder: Folder) -> KeyGroupsHandle | OperatorStateHandle:
    with open_stream(handle.stream, folder) as source:
        return attrs.evolve(handle, stream=InlineHandle("", source.read_at(0, source.size)))


def metadata() -> list[bytes]:
    """Each `_metadata` as Flink wrote it."""
    return [file.read_bytes() for file in sorted(FIXTURES.glob("flink-*/*/savepoint/_metadata"))]


def savepoints() -> list[bytes]:
    """Whole savepoints: all operators at once, their streams shortened to a few key groups."""
    return [data for data in sorted(map(_shortened, fixtures()), key=len) if len(data) <= _LARGEST]


@cache
def _streams() -> tuple[tuple[str, bytes], ...]:
    """Savepoints with one operator, one subtask and one stream each, and of what kind that is.

    Keyed ones have one state each and the two first key groups that it is in, as Flink wrote them; so that an execution
    takes a millisecond. Each is there compressed, and where it is a value in the native format, too.
    """
    found: dict[bytes, str] = {}
    seen = set()
    for operator, subtask in ((o, s) for data in fixtures() for o in read_metadata(data).operators for s in o.subtasks):
        if subtask.managed_operator is not None:
            found[_alone(operator, subtask, "managed_operator", subtask.managed_operator)] = "operator"
        if subtask.managed_keyed is None or isinstance(subtask.managed_keyed, DatabaseHandle):
            continue
        if not subtask.managed_keyed.is_canonical:
            found[_alone(operator, subtask, "managed_keyed", subtask.managed_keyed)] = "native"
            continue
        for reader, state_id in _readable(subtask.managed_keyed):
            info, header = reader.header.states[state_id], attrs.evolve(reader.header, compressed=False)
            one = attrs.evolve(header, states=(info,))
            target = DataOutputView()
            write_keyed_header(one, target)
            if (operator.max_parallelism > _ONE_BYTE_GROUPS, target.getvalue()) in seen:
                continue
            seen.add((operator.max_parallelism > _ONE_BYTE_GROUPS, target.getvalue()))
            blocks = [attrs.evolve(block, state_id=0) for block in reader.blocks() if block.state_id == state_id]
            data, offsets = write_keyed_stream(one, subtask.managed_keyed.key_groups, blocks[:_KEPT_GROUPS])
            handle = KeyGroupsHandle(CANONICAL, subtask.managed_keyed.first_key_group, offsets, InlineHandle("", data))
            found[_alone(operator, subtask, "managed_keyed", handle)] = "canonical"
            found[_alone(operator, subtask, "managed_keyed", compressed(handle))] = "snappy"
            if keyed_kind(info) is StateKind.VALUE:
                handle = _native(one, target.getvalue(), blocks[:_KEPT_GROUPS], handle, operator.max_parallelism)
                found[_alone(operator, subtask, "managed_keyed", handle)] = "native"
    return tuple((kind, data) for data, kind in sorted(found.items(), key=lambda item: (len(item[0]), item[0])))


def _alone(operator: OperatorState, subtask: SubtaskState, part: str, handle: object) -> bytes:
    only = SubtaskState(subtask.index, **{part: handle})
    return write_metadata(SavepointMetadata.new((attrs.evolve(operator, subtasks=(only,), coordinator=None),)))


def _readable(handle: KeyGroupsHandle) -> Iterator[tuple[KeyedStreamReader, int]]:
    try:
        reader = KeyedStreamReader.open(InlineBytes(handle.stream.data), handle)
    except StateShiftError:
        return  # a snapshot of a class that is not known
    yield from ((reader, state_id) for state_id in range(len(reader.header.states)))


def _native(
    header: KeyedStreamHeader, begin: bytes, blocks: list[Block], handle: KeyGroupsHandle, max_parallelism: int
) -> KeyGroupsHandle:
    """Write a value state in the heap backend's native format: each key group with its number, id, count, entries."""
    namespace = header.states[0].snapshot(NAMESPACE_SERIALIZER).restore_serializer()
    keys = EntryKeyFormat.of(StateKind.VALUE, header.key_snapshot.restore_serializer(), namespace, max_parallelism)
    items = {block.key_group: list(block.items()) for block in blocks}
    data, offsets = bytearray(begin), []
    for group in handle.key_groups:
        offsets.append(len(data))
        data += group.to_bytes(4, "big") + bytes(2) + len(items.get(group, ())).to_bytes(4, "big")
        for key, value in items.get(group, ()):
            parts = keys.split(key)
            data += parts.namespace + parts.key + value
    return attrs.evolve(handle, tag=NATIVE, offsets=tuple(offsets), stream=InlineHandle("", bytes(data)))


def _shortened(data: bytes) -> bytes:
    return write_metadata(with_handles(read_metadata(data), _first_groups))


def _first_groups(handle: KeyGroupsHandle | OperatorStateHandle) -> KeyGroupsHandle | OperatorStateHandle:
    """Keep the first key groups of a canonical stream: what two do not show, hundreds do not either."""
    if not isinstance(handle, KeyGroupsHandle) or not handle.is_canonical:
        return handle
    starts = sorted(offset for offset in handle.offsets if offset)
    if len(starts) <= _KEPT_GROUPS:
        return handle
    end = starts[_KEPT_GROUPS]
    offsets = tuple(offset if offset < end else 0 for offset in handle.offsets)
    return attrs.evolve(handle, offsets=offsets, stream=InlineHandle("", handle.stream.data[:end]))


def streams(kind: str) -> list[bytes]:
    """One stream each: canonical, snappy, native, operator."""
    return [data for found, data in _streams() if found == kind and len(data) <= _LARGEST]


def lineages() -> list[bytes]:
    """A lineage as a migration writes it."""
    count = StateCount("00" * 16, "accounts", "account", "value", "convert", 4, 4, 0, "ff")
    files = {"_metadata": FileDigest(3, "ab" * 16)}
    full = Lineage(stateshift="1", created="2024-01-01", job="j:job", states=(count,), files=files, history=({"a": 1},))
    return [full.to_json(), Lineage(stateshift="1", created="", job="").to_json()]


def plans() -> list[bytes]:
    """A plan with all options, and one without changes."""
    savepoint = Savepoint.open(FIXTURES / "flink-2.3" / "hashmap-account-v1" / "savepoint")
    edits = parse_edits(drop=["pending"], rename_states=["account=konto"], rename_uids=["account-state=a"])
    options = MigrationOptions(edits=edits, parallelism=2)
    found = [make_plan(savepoint, None, one, NewTypes(stay=True)) for one in (options, MigrationOptions())]
    return [plan.to_json().encode() for plan in found]


def records() -> list[bytes]:
    """The types of a savepoint, recorded."""
    return [to_json(Savepoint(Folder.at(FIXTURES), read_metadata(data)).describe()).encode() for data in fixtures()[:6]]


@cache
def snapshots() -> tuple[bytes, ...]:
    """Every snapshot that Flink wrote, every registered class, and seeded compositions of them."""
    found = {data: None for state in _read_states() for data in map(snapshot_to_bytes, state[:2])}
    found |= dict.fromkeys(snapshot_to_bytes(serializer_for(hint).snapshot_configuration()) for hint in HINTS)
    of_sql = json.loads((FIXTURES / "flink-sql-types.json").read_text(encoding="utf-8"))
    found |= dict.fromkeys(bytes.fromhex(one["snapshot"]) for one in of_sql)
    rng = random.Random(4)  # noqa: S311 - the same each time
    samples = [cls() for _, cls in sorted(registry._snapshots.items())]
    simple = [sample for sample in samples if _is_read_again(sample)]
    composites = [one for one in registry._snapshots.values() if issubclass(one, CompositeTypeSerializerSnapshot)]
    pool = [*simple, *map(snapshot_from_bytes, found)]
    pool += [TtlAwareSerializerSnapshot(has_ttl=inner.kind == "ttl", inner=inner) for inner in pool]
    pool += [LazyMigrationSnapshot(pool[0]), RecordedContentSnapshot("PyFlinkBytes", pool[0])]
    for at in range(_COMPOSITIONS):
        cls = composites[at % len(composites)]
        size = cls.nested_count if cls.nested_count >= 0 else rng.randrange(4)
        made = cls()
        made.nested = tuple(rng.choice(pool) for _ in range(size))
        if _is_read_again(made):
            pool.append(made)
    return tuple(dict.fromkeys([*found, *map(snapshot_to_bytes, pool)]))


def _is_read_again(snapshot: TypeSerializerConfigSnapshot[Any]) -> bool:
    try:
        return snapshot_from_bytes(snapshot_to_bytes(snapshot)) is not None
    except StateShiftError:
        return False


@cache
def _read_states() -> tuple[tuple[Any, Any, tuple[bytes, ...]], ...]:
    """Key snapshot, value snapshot and some values of each keyed state of the fixtures."""
    found = []
    for data in fixtures():
        for operator in Savepoint(Folder.at(FIXTURES), read_metadata(data)).operators:
            for subtask in operator.stored.subtasks:
                if subtask.managed_keyed is not None and subtask.managed_keyed.is_canonical:
                    found += _states_of(subtask.managed_keyed)
    return tuple(found)


def _states_of(handle: KeyGroupsHandle) -> Iterator[tuple[Any, Any, tuple[bytes, ...]]]:
    for reader, state_id in _readable(handle):
        blocks = (block for block in reader.blocks() if block.state_id == state_id)
        values = dict.fromkeys(value for block in blocks for _, value in block.items())
        value = reader.header.states[state_id].value
        yield reader.header.key_snapshot, value, tuple(itertools.islice(values, _VALUES_OF_A_STATE))


def values() -> list[bytes]:
    """A snapshot, and a value of its serializer: real ones of Flink's, and zeros for all others."""
    real = [snapshot_to_bytes(value) + data for _, value, some in _read_states() for data in some]
    made = [snapshot + bytes(size) for snapshot in snapshots() for size in (1, 40)]
    return list(dict.fromkeys([*real, *made]))


def conversions() -> list[bytes]:
    """An old snapshot, a new one, and a value of the old one's serializer."""
    rng = random.Random(5)  # noqa: S311 - the same each time
    real = [(snapshot_to_bytes(value), some) for _, value, some in _read_states() if some]
    pairs = [old + rng.choice(real)[0] + rng.choice(some) for old, some in real]
    same = [old + old + rng.choice(some) for old, some in real]
    made = [one + rng.choice(snapshots()) + bytes(20) for one in snapshots()]
    return list(dict.fromkeys([*pairs, *same, *made]))


def pickles() -> list[bytes]:
    """Values of the library's types, in all protocols, and a call of a function."""
    values = [
        {"a": [1, 2.5, None, "é", b"x"], (1, 2): {3}},
        collections.OrderedDict(a=collections.deque([1], 3)),
        [decimal.Decimal("1.5"), dt.datetime(2024, 2, 29, tzinfo=dt.UTC), uuid.UUID(int=7), bytearray(b"x"), 1j],
        print,
    ]
    return [pickle.dumps(value, protocol) for value in values for protocol in range(2, 6)]


def words() -> list[bytes]:
    """Words for a mutator: names of snapshot classes with their length, magic numbers, counts at the edge."""
    names = [len(name).to_bytes(2, "big") + name.encode() for name in sorted(registry._snapshots)]
    numbers = [0, 1, 2, 3, 6, 911108, 1333245, 2**31 - 1, -1, -(2**31), 2**24]
    return [*names, *(number.to_bytes(4, "big", signed=True) for number in numbers), bytes(8), b"\x7f" + b"\xff" * 7]


def apart_of(data: bytes) -> list[bytes]:
    """The pieces of a savepoint; for looking at a finding."""
    return streams_apart(data).parts
