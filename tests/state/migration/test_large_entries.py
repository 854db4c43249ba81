"""Entries and key groups that are larger than what a task reads at a time."""

from __future__ import annotations

import tracemalloc
from contextlib import contextmanager

import attrs
import pytest

from stateshift import (
    DataInputView,
    DataOutputView,
    Int32,
    Job,
    MapStateDescriptor,
    Operator,
    SavepointWriter,
    StateShiftError,
    ValuesCollide,
    ValueStateDescriptor,
    check,
    record,
)
from stateshift.compat.planner import plan
from stateshift.serializers.primitives.text import read_string, write_string
from stateshift.state.formats.flink.blocks import Block, BlockWalker
from stateshift.state.formats.flink.keyed_stream import RUN_BYTES
from stateshift.state.migration.block_rewriter import prove_readable
from stateshift.state.savepoint.verify import verify

LONG = "x" * (RUN_BYTES + 17)
NUMBERS = list(range(RUN_BYTES // 4 + 1_000))
MANY = dict.fromkeys(range(RUN_BYTES // 1_000 + 100), "y" * 1_000)


@attrs.define
class Old:
    text: str
    number: Int32


@record(aliases=[f"{__name__}.Old"])
@attrs.define
class New:
    text: str
    number: int
    added: bool = True


def job_of(row, number, text, converter=None):
    return Job([Operator("o", key=int, states=[
        ValueStateDescriptor("copied", str), ValueStateDescriptor("converted", text, converter=converter),
        ValueStateDescriptor("numbers", list[number]), MapStateDescriptor("many", number, str),
        ValueStateDescriptor("record", row),
    ])])  # fmt: skip


@pytest.fixture
def source(tmp_path):
    """One key with entries of more than 4 MiB, and a map of as much, and small ones next to it in all key groups."""
    with SavepointWriter(tmp_path / "old", job_of(Old, Int32, str), parallelism=2) as writer:
        for key in range(300):
            is_large = key == 7
            writer.put("o", "copied", key, LONG if is_large else str(key))
            writer.put("o", "converted", key, LONG if is_large else str(key))
            writer.put("o", "numbers", key, NUMBERS if is_large else [key])
            writer.put("o", "many", key, MANY if is_large else {key: "one"})
            writer.put("o", "record", key, Old(LONG if is_large else str(key), key))
    return tmp_path / "old"


def test_they_are_migrated_as_small_ones_are(source, tmp_path, migrate):
    new = migrate(source, tmp_path / "new", job_of(New, int, bytes, str.encode), parallelism=3)

    read = {
        state.name: {entry.key: entry.value for entry in state.read_entries()} for state in new.operator("o").states
    }
    texts = {key: LONG if key == 7 else str(key) for key in range(300)}
    assert read.keys() == {"copied", "converted", "numbers", "many", "record"}
    assert read["copied"] == texts
    assert read["converted"] == {key: text.encode() for key, text in texts.items()}
    assert read["numbers"] == {key: NUMBERS if key == 7 else [key] for key in range(300)}
    assert read["many"] == {key: MANY if key == 7 else {key: "one"} for key in range(300)}
    records = {key: (row.text, row.number, row.added) for key, row in read["record"].items()}
    assert records == {key: (text, key, True) for key, text in texts.items()}
    assert verify(new).ok


@contextmanager
def held():
    """Give a list that gets the most memory that was held in addition to what was there before."""
    tracemalloc.start()
    most: list[int] = []
    try:
        yield most
        most.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


def test_a_long_entry_is_held_once_while_its_pieces_come():
    size, piece = 16 << 20, 1 << 18
    entry = b"\0\0\0\2" + b"\x80k" + size.to_bytes(4, "big") + bytes(size)
    data = b"\0\0" + entry + b"\xff\xff"

    with held() as most:
        pieces = (memoryview(bytearray(data[at : at + piece])) for at in range(0, len(data), piece))
        (block,) = BlockWalker(0, 1, pieces, len(data)).blocks()

    assert len(entry) == len(block.data)
    assert most[0] < 1.25 * size


def test_one_long_entry_is_given_without_a_copy_of_its_block():
    size = 16 << 20
    block = Block.of(0, 0, [(b"\0k", bytes(size))])

    with held() as most:
        ((key, value),) = attrs.evolve(block, data=memoryview(bytearray(block.data))).items()

    assert (b"\0k", size) == (key, len(value))
    assert most[0] < 2.25 * size  # that of the view, and the value


@pytest.mark.slow
@pytest.mark.parametrize(("letter", "times"), [("x", 2.5), ("é", 5)])
def test_a_long_text_is_written_and_read_with_few_copies(letter, times):
    value, target = letter * (4 << 20), DataOutputView()

    with held() as most:
        write_string(value, target)
    source = DataInputView(target.getvalue())
    with held() as most_read:
        read = read_string(source)

    assert value == read
    assert most[0] < times * len(target)
    assert most_read[0] < times * len(target)


def planned(old, new):
    """Give the plan of a state whose type changes."""
    sides = (Job([Operator("o", key=int, states=[ValueStateDescriptor("s", side)])]).describe() for side in (old, new))
    (operator,) = plan(check(*sides)).operators
    (state,) = operator.states
    return state


NESTED = [
    (list[Int32] | None, list[int] | None, list(range(1 << 17)), "?[]"),
    (list[list[Int32]], list[list[int]], [list(range(1 << 16))] * 2, "[][]"),
    (list[list[Int32] | None], list[list[int] | None], [None, list(range(1 << 17))], "[]?[]"),
    (dict[Int32, str], dict[int, str], dict.fromkeys(range(1 << 10), "y" * 1_000), "{}"),
    (list[dict[Int32, str]], list[dict[int, str]], [dict.fromkeys(range(1 << 10), "y" * 1_000)], "[]{}"),
]


@pytest.mark.parametrize(("old", "new", "value", "path"), NESTED, ids=[path for *_, path in NESTED])
def test_of_lists_and_maps_within_a_long_value_a_piece_is_held_at_a_time_for_the_proof(old, new, value, path):
    state, target = planned(old, new), DataOutputView()
    state.value.writer.serialize(value, target)
    data = target.getvalue()

    with held() as most:
        prove_readable(state, data)
    with pytest.raises(StateShiftError) as damaged:
        prove_readable(state, data[:-1])
    with pytest.raises(StateShiftError, match="1 bytes follow"):
        prove_readable(state, data + b"\0")

    assert most[0] < 0.5 * len(data)
    assert f"${path}" == damaged.value.where["path"]


def test_a_long_map_whose_keys_are_the_same_is_not_proven():
    state, target = planned(dict[Int32, str], dict[int, str]), DataOutputView()
    state.value.writer.serialize({1: "a", 3: "a"}, target)

    with pytest.raises(ValuesCollide) as caught:
        prove_readable(state, target.getvalue().replace(b"\3\0", b"\1\0"))
    assert "$<key>" == caught.value.where["path"]
