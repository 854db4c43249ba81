"""The results of a slot reach Spark in pieces, and results of one operator are elements of the next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import pyarrow as pa
import pytest
from streaming_batches import BACKENDS, Batches

from stateshift import DeclarationError, FunctionFailed, KeyedProcessFunction, StorageFailed
from stateshift.serializers.hints import serializer_for
from stateshift.spark.streaming import results, slot_runs
from stateshift.spark.streaming.carriers import Unpacking
from stateshift.spark.streaming.elements import ElementReader, ResultWriter, numbered_columns
from stateshift.spark.streaming.results import Results
from stateshift.spark.streaming.slot_runs import Answer


def rows_of(*texts):
    return pa.RecordBatch.from_pydict({"text": list(texts)})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return the folder of Spark's temporary files; what is above 1,000 bytes goes there."""
    monkeypatch.setattr(results, "HELD_BYTES", 1000)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/another")
    return tmp_path


def waiting(texts, at_once=50):
    found = Results()
    for start in range(0, len(texts), at_once):
        found.add(rows_of(*texts[start : start + at_once]))
    return found


def spark_rows(answer):
    """Return the rows of an answer as Spark hands them over: the metrics are gone."""
    rows = [{"rows": row["rows"], "file": row["file"]} for row in answer.rows()]
    return pa.RecordBatch.from_pylist(rows, pa.schema({"rows": pa.binary(), "file": pa.string()}))


def test_many_results_go_by_a_file_in_bounded_parts_and_in_their_order(folder):
    texts = [f"{number:0100}" for number in range(105)]

    given = spark_rows(Answer(None, waiting(texts).handed()))
    assert given.nbytes < 1000
    assert 1 == len(list(folder.iterdir()))
    parts = list(Unpacking()([given]))

    assert texts == [text for rows in parts for text in rows.column(0).to_pylist()]
    assert max(rows.nbytes for rows in parts) < 1500
    assert [] == list(folder.iterdir())


def test_few_results_go_by_spark(folder):
    given = spark_rows(Answer(None, waiting(["a", "b", "c"], 2).handed()))
    assert [] == list(folder.iterdir())
    assert ["a", "b", "c"] == [text for rows in Unpacking()([given]) for text in rows.column(0).to_pylist()]


def test_no_results_are_a_row_of_none():
    given = spark_rows(Answer(None, Results().handed()))
    assert [{"rows": b"", "file": None}] == given.to_pylist()
    assert [] == list(Unpacking()([given]))


def test_an_answer_without_results_is_no_row():
    assert [] == list(Answer(None).rows())


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


class Failing(Many):
    """Fails at 0."""

    def process_element(self, value: int, ctx: Any) -> Iterator[int]:
        yield from super().process_element(value, ctx)
        assert value


@pytest.mark.parametrize("last", [1, 0])
def test_the_file_of_many_results_is_gone_when_they_are_read_or_the_function_has_failed(
    tmp_path, monkeypatch, folder, last
):
    monkeypatch.setattr(slot_runs, "_MOST_RESULTS", 10)
    files = set()
    written = results.Results.add
    monkeypatch.setattr(
        results.Results, "add", lambda self, rows: written(self, rows) or files.update(folder.glob("*results*"))
    )
    engine = Batches(
        tmp_path / "state", Failing(), BACKENDS["hashmap"], schema={"value": pa.int64()}, key=("value",), element=int,
        slots=1,
    )  # fmt: skip

    if last:
        assert 2001 == len(engine.batch([{"value": 2000}, {"value": last}]))
    else:
        with pytest.raises(FunctionFailed):
            engine.batch([{"value": 2000}, {"value": last}])

    assert 1 == len(files)
    assert [] == list(folder.glob("*results*"))


@pytest.mark.parametrize("on_error", ["fail", "skip"])
def test_results_that_cannot_be_written_are_no_error_of_the_function_that_is_passed_over(
    tmp_path, monkeypatch, on_error
):
    monkeypatch.setattr(results, "HELD_BYTES", 1000)
    monkeypatch.setattr(slot_runs, "_MOST_RESULTS", 10)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "gone"))
    engine = Batches(
        tmp_path / "state", Many(), BACKENDS["hashmap"], schema={"value": pa.int64()}, key=("value",), element=int,
        on_error=on_error,
    )  # fmt: skip
    with pytest.raises(StorageFailed, match=r"results of a batch cannot be written to a temporary file in .*gone"):
        engine.batch([{"value": 2000}])


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
