"""What Spark does not carry is refused before anything runs: by name, and with the way out."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from stateshift.pyflink.common import Duration, Types, WatermarkStrategy
from stateshift.pyflink.datastream import MapFunction, SourceFunction, StreamExecutionEnvironment
from stateshift.pyflink.extensions import ListCheckpointed
from stateshift.serializers.errors import DeclarationError
from stateshift.state.environment import environment

SPARK = SimpleNamespace()
"""A session that is never asked for anything."""


class Once(SourceFunction):
    def run(self, ctx):
        ctx.collect(1)

    def cancel(self):
        pass


class Counting(MapFunction, ListCheckpointed):
    state_type = int

    def map(self, value):
        return value

    def snapshot_state(self, checkpoint_id, timestamp):
        return []

    def restore_state(self, state):
        pass


def totals(stream, name):
    return stream.key_by(lambda value: value, Types.LONG()).reduce(max).name(name).uid(name.lower())


def an_unordered_collection(env):
    env.from_collection({1, 2}).print()


def a_source_without_a_position(env):
    env.add_source(Once(), "Once").print()


def results_that_two_take(env):
    first = totals(env.from_collection([1]), "First")
    first.print()
    totals(first, "Second")


def a_partitioner(env):
    dealt = env.from_collection([1]).partition_custom(lambda key, count: key % count, lambda value: value)
    dealt.map(Counting()).name("Counts")


def time_stamps_of_several_places(env):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1))
    one, two = (env.from_collection([1]).assign_timestamps_and_watermarks(strategy).name(name) for name in "AB")
    totals(one.union(two), "Total")


def unlike_parallelisms(env):
    env.from_collection([1]).map(Counting()).name("Counts").set_parallelism(1)
    totals(env.from_collection([1]), "Total").set_parallelism(3)


def unlike_key_groups(env):
    totals(env.from_collection([1]), "A").set_max_parallelism(64)
    totals(env.from_collection([1]), "B").set_max_parallelism(128)


@pytest.mark.parametrize(
    ("program", "what", "todo"),
    [
        (an_unordered_collection, r"the source 'Collection Source' has no order", r"pass a list"),
        (a_source_without_a_position, r"the source 'Once' \(Once\) does not keep how far", "ListCheckpointed"),
        (results_that_two_take, r"'First' \(uid 'first'\) go to 'Second'.* and the sinks", "cut the program in two"),
        (a_partitioner, "chooses the subtasks of 'Counts'", "key the stream"),
        (time_stamps_of_several_places, r"'Total'.*several places \('A', 'B'\)", "behind the union"),
        (unlike_parallelisms, "'Counts' has 1 subtasks, and another operator 3", "in two programs"),
        (unlike_key_groups, "operators have 64 and 128 key groups", "the same for all"),
    ],
)
def test_a_program_that_cannot_be_carried_is_refused(tmp_path, program, what, todo):
    env = StreamExecutionEnvironment.get_execution_environment()
    program(env)

    with pytest.raises(DeclarationError, match=what) as refused:
        env.execute(spark=SPARK, checkpoint=tmp_path / "checkpoint")

    assert todo in str(refused.value)
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("how", "what"),
    [
        ({"spark": SPARK}, "a program on Spark needs a folder for its checkpoint"),
        ({"checkpoint": "c"}, "the checkpoint c is one of Spark, and no session is given"),
        ({"spark": SPARK, "checkpoint": True}, "the checkpoint is True, not a folder"),
    ],
)
def test_session_and_checkpoint_belong_together(how, what):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1]).print()

    with pytest.raises(DeclarationError, match=what):
        env.execute(**how)


def test_an_environment_that_knows_no_spark_says_so(monkeypatch):
    monkeypatch.setattr(environment.StreamExecutionEnvironment, "on_spark", None)
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1]).print()

    with pytest.raises(DeclarationError, match="knows no Spark"):
        env.execute(spark=SPARK, checkpoint="c")
