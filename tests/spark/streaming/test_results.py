"""The results of a slot reach Spark in pieces, and results of one operator are elements of the next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import pyarrow as pa
import pytest
from streaming_batches import BACKENDS, Batches

from stateshift import DeclarationError, KeyedProcessFunction
from stateshift.serializers.hints import serializer_for
from stateshift.spark.streaming import carriers, results, slot_runs
from stateshift.spark.streaming.carriers import frames_of
from stateshift.spark.streaming.elements import ElementReader, ResultWriter, numbered_columns
from stateshift.spark.streaming.packing import unpacked
from stateshift.spark.streaming.results import Results
from stateshift.spark.streaming.slot_runs import Answer


def rows_of(*texts):
    return pa.RecordBatch.from_pydict({"text": list(texts)})


def texts_in(pieces):
    return [text for piece in pieces for rows in unpacked(piece) for text in rows.column(0).to_pylist()]


@pytest.mark.parametrize("held", [100, 1 << 30], ids=["in a file", "in memory"])
def test_results_come_in_pieces_of_bounded_size_and_in_their_order(monkeypatch, held):
    monkeypatch.setattr(results, "HELD_BYTES", held)
    monkeypatch.setattr(results, "PIECE_BYTES", 1000)
    waiting, texts = Results(), [f"{number:0100}" for number in range(100)]
    for start in range(0, 100, 50):
        waiting.add(rows_of(*texts[start : start + 50]))

    pieces = list(waiting)

    assert texts == texts_in(pieces)
    assert max(map(len, pieces)) < 2000


def test_no_results_are_one_empty_piece():
    assert [b""] == list(Results())


class Many(KeyedProcessFunction):
    """Has many results for each element."""

    def process_element(self, value: int, ctx: Any) -> Iterator[int]:
        yield from range(value)


def test_many_results_of_one_element_become_rows_before_all_of_them_are_there(tmp_path, monkeypatch):
    monkeypatch.setattr(slot_runs, "_MOST_RESULTS", 10)
    sizes = []
    written = ResultWriter.rows_of
    monkeypatch.setattr(
        ResultWriter, "rows_of", lambda self, task: sizes.append(len(task.results)) or written(self, task)
    )
    engine = Batches(
        tmp_path, Many(), BACKENDS["hashmap"], schema={"value": pa.int64()}, key=("value",), element=int, slots=1
    )

    found = engine.batch([{"value": 25}, {"value": 7}])

    assert sorted([*range(25), *range(7)]) == sorted(row["value"] for row in found)
    assert max(sizes) == 10
    assert sum(one.results for one in engine.measured) == 32


def test_spark_gets_empty_rows_after_results_that_are_large_together(monkeypatch):
    monkeypatch.setattr(carriers, "_HANDED_BYTES", 100)

    frames = frames_of(Answer(None, [b"a" * 60, b"b" * 60, b"c" * 60]))

    assert [1, 1, 10_000, 1] == [len(frame) for frame in frames]


@attrs.frozen
class Total:
    user: str
    side_output: str


@attrs.frozen
class Sum:
    user: str
    large: int


@pytest.mark.parametrize(
    ("main", "sides", "words"),
    [
        (Sum, ["large"], r"side output 'large' has the name of a column of the main output.*user, large"),
        (Sum, ["LARGE"], r"side output 'LARGE' has the name of a column"),
        (int, ["value"], r"side output 'value' has the name of a column"),
        (tuple[str, int], ["f0"], r"side output 'f0' has the name of a column"),
        (Total, ["large"], r"the results have a field 'side_output'"),
        (Sum, ["side_output"], r"a side output cannot have the name 'side_output'"),
        (Sum, ["late", "Late"], r"'late' and 'Late' differ in upper and lower case alone"),
    ],
)
def test_outputs_whose_columns_have_one_name_are_refused(main, sides, words):
    writer = ResultWriter(serializer_for(main), {name: serializer_for(int) for name in sides})
    with pytest.raises(DeclarationError, match=words):
        writer.check()


def test_outputs_with_names_of_their_own_are_accepted():
    ResultWriter(serializer_for(Total)).check()
    ResultWriter(serializer_for(Sum), {"late": serializer_for(int)}).check()


@pytest.mark.parametrize(
    ("hint", "value"),
    [(tuple[str, int], ("ann", 1)), (tuple[int], (1,)), (tuple[tuple[str, int], int], (("ann", 1), 2)),
     (tuple[str, int] | None, ("ann", 1))],
)  # fmt: skip
def test_a_tuple_that_an_operator_has_as_result_is_an_element_of_the_next(hint, value):
    serializer = serializer_for(hint)
    rows = ResultWriter(serializer).write([value], [])
    reader = ElementReader(serializer, numbered_columns(serializer), None, (), "")
    reader.check(rows.schema)
    assert [value] == list(reader.read(0, rows).values)
