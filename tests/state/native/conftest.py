"""A writer of the heap backend's native format, for tests: real Flink wrote two such savepoints, and tests need more.

Source: format notes, section 9.
"""

import attrs
import cramjam
import pytest

from stateshift import DataInputView, DataOutputView
from stateshift.compat.description import StateKind
from stateshift.state.entry_keys import end_of
from stateshift.state.formats.flink.handles import NATIVE, InlineHandle, KeyGroupsHandle
from stateshift.state.formats.flink.keyed_stream import KeyedStreamReader, write_keyed_header
from stateshift.state.formats.flink.metadata import read_metadata, write_metadata
from stateshift.state.formats.flink.sources import open_stream
from stateshift.state.formats.flink.state_kinds import entry_key_format, keyed_kind
from stateshift.state.key_groups import prefix_size
from stateshift.state.storage.files import Folder


def native_entries(info, key, max_parallelism, block_items):
    """Give the native entries of a state within one key group from its canonical ones."""
    kind = keyed_kind(info)
    if kind is StateKind.TIMERS:
        return [entry_key[prefix_size(max_parallelism) :] for entry_key, _ in block_items]
    form = entry_key_format(info, key, max_parallelism)
    parts = [(form.split(entry_key), value) for entry_key, value in block_items]
    if kind is StateKind.LIST:
        element = end_of(info.value.restore_serializer().element)
        return [place.namespace + place.key + _counted(_elements(value, element)) for place, value in parts]
    if kind is StateKind.MAP:
        maps = {}
        for place, value in parts:
            flagged = value if value[:1] == b"\0" else b"\1"
            maps.setdefault(place.namespace + place.key, []).append(place.user_key + flagged)
        return [place + _counted(entries) for place, entries in maps.items()]
    return [place.namespace + place.key + value for place, value in parts]


def _elements(value, element):
    source, found = DataInputView(value), []
    while source.remaining():
        start = source.position
        element.skip(source)
        found.append(source.span(start))
        source.skip_bytes(min(1, source.remaining()))
    return found


def _counted(parts):
    return len(parts).to_bytes(4, "big") + b"".join(parts)


def write_native_stream(header, key_groups, entries, order=None):
    """Write a native stream.

    Args:
        header: With the compression that is wanted.
        key_groups: Those of the subtask.
        entries: Native entries by key group and state id.
        order: In which the states of each key group come; by default as in the header.

    Returns:
        The bytes, and the offsets of the key groups.
    """
    target, offsets = DataOutputView(), []
    write_keyed_header(header, target)
    for group in key_groups:
        offsets.append(len(target))
        target.write_int(group)
        for state_id in order or range(len(header.states)):
            block = state_id.to_bytes(2, "big") + _counted(entries.get((group, state_id), []))
            target.write(bytes(cramjam.snappy.compress(block)) if header.compressed else block)
    return target.getvalue(), tuple(offsets)


@pytest.fixture(scope="session")
def native_stream():
    """`native_stream(header, key_groups, entries, order=None)`: bytes and offsets of a native stream."""
    return write_native_stream


@pytest.fixture(scope="session")
def as_native():
    """`as_native(folder, compressed=…, order=…)`: rewrite the keyed state of a savepoint natively, in place.

    `order` gives the ids of the states, in the order in which they come in a key group, from those of the header.
    """

    def rewrite(folder, *, compressed=False, order=None):
        place = Folder.at(folder)
        metadata = read_metadata(place.read("_metadata"))
        operators = tuple(_native_operator(operator, place, compressed, order) for operator in metadata.operators)
        (folder / "_metadata").write_bytes(write_metadata(attrs.evolve(metadata, operators=operators)))
        (folder / "_stateshift.json").unlink(missing_ok=True)  # as of Flink's, there are no digests then

    return rewrite


def _native_operator(operator, place, compressed, order):
    subtasks = []
    for subtask in operator.subtasks:
        handle = subtask.managed_keyed
        if handle is not None:
            with open_stream(handle.stream, place) as source:
                reader = KeyedStreamReader.open(source, handle)
                data, offsets = _native_bytes(reader, handle, operator.max_parallelism, compressed, order)
            stream = InlineHandle("native", data)
            subtask = attrs.evolve(  # noqa: PLW2901 - with its new handle
                subtask, managed_keyed=KeyGroupsHandle(NATIVE, handle.first_key_group, offsets, stream, "id")
            )
        subtasks.append(subtask)
    return attrs.evolve(operator, subtasks=tuple(subtasks))


def _native_bytes(reader, handle, max_parallelism, compressed, order):
    header = attrs.evolve(reader.header, compressed=compressed)
    key = header.key_snapshot.restore_serializer()
    entries = {}
    for block in reader.blocks():
        place = (block.key_group, block.state_id)
        entries.setdefault(place, []).extend(block.items())
    native = {
        (group, state_id): native_entries(header.states[state_id], key, max_parallelism, items)
        for (group, state_id), items in entries.items()
    }
    return write_native_stream(header, handle.key_groups, native, order(header.states) if order else None)
