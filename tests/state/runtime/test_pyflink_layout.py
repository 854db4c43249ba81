"""Operators of PyFlink keep other states than their functions declare."""

import pytest

from stateshift import (
    AggregatingStateDescriptor,
    DeclarationError,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    Operator,
    ReducingStateDescriptor,
    UserCodeFailed,
    ValueStateDescriptor,
)
from stateshift.pyflink.common import Types

LONG, STRING = Types.LONG(), Types.STRING()
STATES = [
    ValueStateDescriptor("value", LONG),
    ReducingStateDescriptor("sum", None, LONG),
    AggregatingStateDescriptor("mean", None, Types.TUPLE([LONG, LONG])),
    ListStateDescriptor("list", STRING),
    MapStateDescriptor("map", STRING, LONG),
]


def kept(operator):
    return {one.name: (str(one.kind), one.describe()) for one in operator.describe().states}


def test_workers_in_processes_keep_bytes():
    operator = Operator.pyflink("counts", STATES, key=LONG)

    assert {
        "python-state-value": ("list", "list<bytes of long>"),
        "python-state-sum": ("list", "list<bytes of long>"),
        "python-state-mean": ("list", "list<bytes of tuple<long, long>>"),
        "python-state-list": ("list", "list<bytes of PyFlink string>"),
        "python-state-map": ("map", "map<wrapped bytes of PyFlink string, bytes of long>"),
    } == kept(operator)
    assert "row<long>" == operator.describe().key.describe()


def test_threads_keep_values():
    assert {
        "value": ("value", "long"),
        "sum": ("value", "long"),
        "mean": ("value", "pickle of tuple<long, long>"),
        "list": ("list", "list<string>"),
        "map": ("map", "map<string, long>"),
    } == kept(Operator.pyflink("counts", STATES, key=LONG, execution_mode="thread"))


@pytest.mark.parametrize(
    ("declared", "kept_as"),
    [
        (Types.INT(), "long"),
        (Types.FLOAT(), "double"),
        (Types.CHAR(), "string"),
        (Types.BIG_DEC(), "decimal"),
        (Types.ROW([LONG]), "pickle of row<long>"),
        (Types.TUPLE([Types.FLOAT()]), "bytes"),
        (Types.ROW([Types.INSTANT()]), "bytes"),
        (Types.PICKLED_BYTE_ARRAY(), "bytes"),
        (Types.MAP(STRING, Types.INT()), "map<string, long>"),
        (Types.OBJECT_ARRAY(Types.MAP(STRING, Types.INT())), "array<map<string, long>>"),
    ],
)
def test_threads_keep_what_java_gets(declared, kept_as):
    operator = Operator.pyflink("counts", [ValueStateDescriptor("one", declared)], key=LONG, execution_mode="thread")

    assert {"one": ("value", kept_as)} == kept(operator)


def test_what_threads_were_not_seen_to_keep_is_refused():
    with pytest.raises(DeclarationError, match=r"was not seen to keep java\.sql\.Date in thread mode") as refused:
        Operator.pyflink("dates", [ValueStateDescriptor("day", Types.SQL_DATE())], key=LONG, execution_mode="thread")
    assert "day" == refused.value.where["state"]


def test_broadcast_state_is_a_map_of_bytes():
    operator = Operator.pyflink("rules", broadcast_states=[MapStateDescriptor("rules", STRING, LONG)])

    assert {"python-state-rules": ("broadcast", "map<wrapped bytes of PyFlink string, bytes of long>")} == kept(
        operator
    )


class Counts(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", LONG))
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen", STRING, LONG))
        self.index = runtime_context.get_index_of_this_subtask()

    def process_element(self, value, ctx):
        yield from ()


class ReadsAtOnce(Counts):
    def open(self, runtime_context):
        super().open(runtime_context)
        self.count.value()


def test_a_function_says_itself_what_it_asks_for():
    operator = Operator.pyflink("counts", Counts(), key=LONG)

    assert ["python-state-count", "python-state-seen"] == [one.name for one in operator.states]


def test_a_function_that_does_more_than_ask_is_refused():
    with pytest.raises(UserCodeFailed, match="open of ReadsAtOnce was called to see its states"):
        Operator.pyflink("counts", ReadsAtOnce(), key=LONG)


def test_what_reads_bytes_of_flink_is_refused():
    with pytest.raises(DeclarationError, match="its entries are bytes of PyFlink"):
        Operator.pyflink("counts", [ValueStateDescriptor("count", LONG, fallback_deserializer=object())], key=LONG)
