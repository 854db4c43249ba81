"""States written from rows in one process, as the data source does it in several; and what lies in a savepoint."""

from __future__ import annotations

import attrs
import pyarrow as pa
import pytest

from stateshift import Int32, Job, ListStateDescriptor, Operator, Savepoint, ValueStateDescriptor
from stateshift.state.columnar.state_types import Wanted
from stateshift.state.columnar.state_write import settle
from stateshift.state.formats.flink.keyed_readers import open_keyed
from stateshift.state.formats.flink.sources import open_stream
from stateshift.state.storage.files import Folder

FLINKS = "hashmap-long-p2-m128-snappy"
NUMBERS = pa.table({"key": pa.array(range(500), pa.int64()), "value": [f"v{n}" for n in range(500)]})


@attrs.frozen
class Visit:
    page: str
    seconds: Int32 = 0


JOB = Job(
    [
        Operator("o", key=str, states=[ValueStateDescriptor("s", Visit), ListStateDescriptor("l", Visit)]),
        Operator("lists", list_states=[ListStateDescriptor("offsets", int)]),
    ]
)


def write(
    target, rows, *, operator="o", state="s", base=None, overwrite=False, job=None, kind=None, tasks=3, **numbers
):
    """Write as the data source does, in this process."""
    wanted = Wanted(operator=operator, state=state, overwrite=overwrite, job=job, kind=kind)
    begun = Savepoint.open(base) if base else None
    work = settle(wanted, rows.schema, Folder.at(target), begun, **numbers).prepare()
    size = -(-rows.num_rows // tasks) or 1
    try:
        files = [work.encode(rows.slice(at * size, size).to_batches(max_chunksize=7), at) for at in range(tasks)]
        work.publish(files)
    except BaseException:
        work.give_up()
        raise
    return Savepoint.open(target)


def values(savepoint, operator="o", state="s"):
    return {entry.key: entry.value for entry in savepoint.operator(operator).state(state).read_entries()}


def bytes_of(savepoint):
    """All entries, and the bytes of all other streams, by operator, key group and state."""
    found = {}
    for operator in savepoint.operators:
        for subtask in operator.stored.subtasks:
            if subtask.managed_keyed is not None:
                with open_keyed(subtask.managed_keyed, savepoint.folder, operator.max_parallelism) as reader:
                    for block in reader.blocks():
                        place = operator.title, block.key_group, reader.header.states[block.state_id].name
                        found.setdefault(place, []).extend(block.items())
            if subtask.managed_operator is not None:
                with open_stream(subtask.managed_operator.stream, savepoint.folder) as stream:
                    found[operator.title, "lists", subtask.index] = stream.read_at(0, stream.size)
    return found


def ordered(savepoint):
    """The same, entries in the order of their keys: Flink's heap backend has none."""
    return {place: sorted(items) for place, items in bytes_of(savepoint).items()}


def others(found, state):
    return {place: content for place, content in found.items() if place[2] != state}


def refused(error, words, **arguments):
    with pytest.raises(error) as caught:
        write(**arguments)
    assert words in str(caught.value)
    assert caught.value.advice
    return caught.value
