"""State of Flink SQL that real Flink wrote: all of it is read, and written from its values to the same bytes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sql_samples import kept
from written_anew import bare

from stateshift import Savepoint
from stateshift.compat.description import StateKind
from stateshift.serializers.views import DataInputView, DataOutputView
from stateshift.state.formats.flink.keyed_stream import KeyedStreamReader
from stateshift.state.formats.flink.meta_info import MetaInfoKind
from stateshift.state.formats.flink.state_kinds import entry_key_format, keyed_kind
from stateshift.state.savepoint.json_encoding import tagged_operator

FIXTURES = Path(__file__).parents[2] / "fixtures" / "flink-sql-2.3"
SAMPLES, NATIVE = (sorted(FIXTURES.glob(f"*/{form}")) for form in ("savepoint", "native"))
EACH = pytest.mark.parametrize("sample", SAMPLES, ids=[one.parent.name for one in SAMPLES])
OF_GENERATED_CODE = {"aggregate-wide-keys"}
"""Their keys have nulls as generated code writes them, which is not how a row serializer does."""


def anew(serializer, source, target, made):
    """Write a value that is read, and give whether more follows."""
    serializer.serialize(made(serializer.deserialize(source)), target)
    return source.remaining() > 0


def written(kind, serializer, data, made):
    """Give the bytes of the values of an entry, written from what they are."""
    source, target = DataInputView(data), DataOutputView()
    if kind is StateKind.LIST:
        while anew(serializer.element, source, target, made):
            target.write(source.read_fully(1))  # what stands between elements
    elif kind is StateKind.MAP:
        target.write_boolean(source.read_boolean())
        assert not anew(serializer.value, source, target, made)
    else:
        assert not anew(serializer, source, target, made)
    return target.getvalue()


def parts_of(entries, key, made):
    """Yield what is stored, and the same written anew, of the entries of a stream."""
    for info, form, data, value in entries:
        serializer, kind, parts = info.value.restore_serializer(), keyed_kind(info), form.split(data)
        yield parts.key, written(StateKind.VALUE, key, parts.key, made)
        yield value, written(kind, serializer, value, made)
        if kind is StateKind.MAP:
            yield parts.user_key, written(StateKind.VALUE, serializer.key, parts.user_key, made)


@pytest.mark.parametrize(
    "savepoint", [*SAMPLES, *NATIVE], ids=[f"{one.parent.name}-{one.name}" for one in (*SAMPLES, *NATIVE)]
)
def test_what_is_exported_is_what_the_inputs_say(savepoint):
    expected = json.loads((savepoint.parent / "expected.json").read_text("utf-8"))
    operators = Savepoint.open(savepoint).operators

    assert kept(expected["operators"]) == kept([tagged_operator(one, one.states) for one in operators])


@EACH
def test_every_state_is_read(sample):
    states = [state for operator in Savepoint.open(sample).operators for state in operator.states]

    assert {""} == {state.unsupported for state in states}


@EACH
@pytest.mark.parametrize("made", [bare, lambda value: value], ids=["made anew", "as read"])
def test_every_entry_is_written_from_its_values_to_the_same_bytes(sample, keyed_streams_of, made):
    found = []
    for operator, _, handle, source in keyed_streams_of(sample):
        reader = KeyedStreamReader.open(source, handle)
        key = reader.header.key_snapshot.restore_serializer()
        infos = reader.header.states
        entries = [
            (infos[block.state_id], entry_key_format(infos[block.state_id], key, operator.max_parallelism), *entry)
            for block in reader.blocks()
            if infos[block.state_id].kind is not MetaInfoKind.PRIORITY_QUEUE
            for entry in block.items()
        ]
        found += parts_of(entries, key, made)

    same = [stored == given for stored, given in found]
    assert found
    assert all(same) != (made is bare and sample.parent.name in OF_GENERATED_CODE)
