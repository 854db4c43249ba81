"""Sinks get a batch once, though Spark repeats a batch that it did not commit."""

from __future__ import annotations

import pytest

from stateshift.pyflink.common import Encoder
from stateshift.pyflink.datastream import StreamExecutionEnvironment
from stateshift.pyflink.datastream.connectors.file_system import FileSink
from stateshift.spark.environment.shape import Shape
from stateshift.spark.environment.sinks import Sinks
from stateshift.spark.worker import dumped
from stateshift.state.environment.files import FileWriter
from stateshift.state.storage.files import Folder


class Batch:
    """Rows as Spark has them."""

    def __init__(self, *elements):
        self._rows = [(0, bytearray(dumped(element)), None) for element in elements]

    def select(self, *_):
        return self

    def collect(self):
        return self._rows


@pytest.fixture
def sinks(tmp_path):
    """`sinks(function)`: a start of a program with a sink."""

    def start(function):
        env = StreamExecutionEnvironment.get_execution_environment()
        env.from_collection([]).sink_to(function)
        return Sinks(Shape(env._taken(), env.settings), Folder.at(tmp_path / "sinks"), None)

    return start


def test_a_batch_that_sinks_have_had_is_left_out_also_after_a_restart(sinks):
    seen = []
    with sinks(seen.append) as first:
        first.take(Batch(1, 2), 0)
        first.take(Batch(3), 1)
        first.take(Batch(3), 1)
    with sinks(seen.append) as second:
        second.take(Batch(3), 1)
        second.take(Batch(4), 2)

    assert [1, 2, 3, 4] == seen


def test_a_batch_in_which_a_sink_failed_comes_again(sinks):
    seen = []

    def fail_at_two(element):
        seen.append(element)
        if seen == [1, 2]:
            raise ValueError("two")

    with sinks(fail_at_two) as first, pytest.raises(ValueError, match="two"):
        first.take(Batch(1, 2, 3), 0)
    assert "two" in str(first.error)
    with sinks(fail_at_two) as second:
        second.take(Batch(1, 2, 3), 0)

    assert [1, 2, 1, 2, 3] == seen


def test_files_have_each_element_once_wherever_the_process_dies(sinks, tmp_path, monkeypatch):
    def files():
        builder = FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder())
        return builder.build()

    class Died(BaseException):
        pass

    def die(*_):
        raise Died

    with sinks(files()) as first:
        first.take(Batch(1), 0)
    for method in ("snapshot_state", "notify_checkpoint_complete"):  # before the batch is noted, and after it
        monkeypatch.setattr(FileWriter, method, die)
        with sinks(files()) as dying, pytest.raises(Died):
            dying.take(Batch(2), 1)
        monkeypatch.undo()
    with sinks(files()) as last:
        last.take(Batch(2), 1)
        last.take(Batch(3), 2)
        last.finish()

    named = [path for path in (tmp_path / "out").rglob("part-*") if path.is_file()]
    assert ["1\n", "2\n", "3\n"] == sorted(path.read_text() for path in named)
