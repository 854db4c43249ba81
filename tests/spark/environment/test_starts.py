"""Every start of a program on Spark is checked, and says what to do in the words of `execute`."""

from __future__ import annotations

import pytest

from stateshift import verify
from stateshift.pyflink.common import Types
from stateshift.pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from stateshift.pyflink.datastream.state import ValueStateDescriptor
from stateshift.serializers.errors import DeclarationError
from stateshift.state.backends.restore_check import RestoreRefused


class Totals(KeyedProcessFunction):
    def __init__(self, state_type):
        self.state_type = state_type

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", self.state_type))

    def process_element(self, value, ctx):
        self.total.update((self.total.value() or 0) + value)
        yield self.total.value()


def totals(state_type, key_type=None, uid="totals"):
    def program(env, elements):
        keyed = env.from_collection(elements).uid("numbers").key_by(lambda _: 1, key_type or Types.LONG())
        return keyed.process(Totals(state_type)).uid(uid)

    return program


@pytest.mark.slow
def test_changed_types_are_migrated_if_that_is_allowed(run):
    assert [1] == run(totals(Types.INT()), ([1], 1))

    with pytest.raises(RestoreRefused, match='pass on_incompatible="migrate" to execute'):
        run(totals(Types.LONG()), ([1, 2], 1))
    assert [2**31] == run(totals(Types.LONG()), ([1, 2**31 - 1], 2), on_incompatible="migrate")
    with pytest.raises(RestoreRefused, match="run the program once without Spark"):
        run(totals(Types.LONG(), Types.STRING()), ([1], 1))


@pytest.mark.slow
def test_a_savepoint_goes_from_a_local_run_to_spark_and_back(stateshift_spark, tmp_path):
    def results(elements, **how):
        start = {"execution.savepoint.path": tmp_path / how.pop("start")} if "start" in how else {}
        env = StreamExecutionEnvironment.get_execution_environment(start)
        seen = []
        totals(Types.LONG(), uid=how.pop("uid", "totals"))(env, elements).add_sink(seen.append)
        env.execute(**how)
        return seen

    on_spark = {"spark": stateshift_spark, "checkpoint": tmp_path / "checkpoint"}
    assert [1, 3] == results([1, 2], savepoint=tmp_path / "here")
    with pytest.raises(DeclarationError, match="has state of operators that the program does not have"):
        results([1], start="here", uid="other", **on_spark)
    assert [6] == results([3], start="here", savepoint=tmp_path / "of-spark", **on_spark)
    assert verify(tmp_path / "of-spark").ok
    assert [10] == results([4], start="of-spark")
