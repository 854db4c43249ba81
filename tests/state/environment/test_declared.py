"""What a program declares is seen without running it, and is a job for checks."""

import pytest

from stateshift import DeclarationError, Savepoint, check
from stateshift.pyflink.common import Time, Types
from stateshift.pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from stateshift.pyflink.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from stateshift.pyflink.datastream.window import TumblingEventTimeWindows

LONG, STRING = Types.LONG(), Types.STRING()
PAIR = Types.TUPLE([LONG, LONG])


class Keeps(KeyedProcessFunction):
    def open(self, runtime_context):
        runtime_context.get_state(ValueStateDescriptor("count", LONG))
        runtime_context.get_list_state(ListStateDescriptor("events", STRING))
        runtime_context.get_map_state(MapStateDescriptor("counts", STRING, LONG))

    def process_element(self, value, ctx):
        raise AssertionError("nothing is run")


@pytest.fixture
def keyed():
    env = StreamExecutionEnvironment.get_execution_environment()
    return env, env.from_collection([(1, 2)], PAIR).key_by(lambda pair: pair[0], LONG)


def states_of(job):
    return {one.uid: {state.name for state in one.states} for one in job.operators}


def test_a_program_is_the_job_of_its_savepoint_in_pyflink(keyed, root):
    env, stream = keyed
    stream.process(Keeps()).uid("keeps").print()
    job = env.declared_job()
    savepoint = Savepoint.open(root / "tests/fixtures/pyflink-2.3/values-process/savepoint")
    (told,) = (one for one in check(savepoint.describe(), job.describe()).operators if one.uid == "keeps")

    names = {"python-state-count", "python-state-counts", "python-state-events"}
    assert {"keeps": names} == states_of(job)
    assert names <= {one.name for one in told.states if one.decision == "start"}
    assert 1 == len(env.declared_job().operators)


def test_windows_declare_their_contents(keyed):
    env, stream = keyed
    windows = stream.window(TumblingEventTimeWindows.of(Time.seconds(5)))
    windows.reduce(lambda a, b: (a[0], a[1] + b[1])).uid("reduced").print()

    assert {"reduced": {"python-state-window-contents"}} == states_of(env.declared_job())


def test_an_operator_with_state_needs_a_uid(keyed):
    env, stream = keyed
    stream.process(Keeps()).print()

    with pytest.raises(DeclarationError, match="has state and no uid"):
        env.declared_job()
