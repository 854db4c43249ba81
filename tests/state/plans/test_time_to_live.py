"""Times to live of a compiled plan: durations as Flink has them, edits of these bytes alone, and doubts."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift import CorruptFile, DeclarationError
from stateshift.state.plans.compiled_plan import read_plan
from stateshift.state.plans.time_to_live import Duration, doubts, edited, parse_edit, ttl_of

SECOND = 1_000_000_000


@pytest.fixture
def data(root):
    return (root / "tests/fixtures/flink-sql-2.3/join/plan.json").read_bytes()


@pytest.mark.parametrize(
    ("text", "nanos", "written"),
    [
        ("3s", 3 * SECOND, "3 s"), ("3000 ms", 3 * SECOND, "3 s"), ("3000", 3 * SECOND, "3 s"),
        ("1 d", 86_400 * SECOND, "1 d"), ("24 hours", 86_400 * SECOND, "1 d"), ("90 min", 5_400 * SECOND, "90 m"),
        ("15 Minutes", 900 * SECOND, "15 m"), ("0", 0, "0 ms"), ("0 d", 0, "0 ms"), (" 7 ns ", 7, "7 ns"),
    ],
)  # fmt: skip
def test_a_duration_is_read_and_written_as_by_flink(text, nanos, written):
    found = Duration.parsed(text)

    assert (nanos, written) == (found.nanos, found.written())


@pytest.mark.parametrize("text", ["", "s", "-1 s", "1.5 s", "3 parsecs", "1 s 2 ms", "9" * 40])
def test_what_flink_would_not_read_is_none(text):
    assert Duration.parsed(text) is None


@given(st.integers(0, 10**20))
def test_what_is_written_is_read_again(nanos):
    assert Duration(nanos) == Duration.parsed(Duration(nanos).written())


def test_an_edit_changes_these_bytes_alone(data):
    plan = read_plan(data, "plan.json")
    text = edited(plan, [parse_edit(plan, "7:rightState=9 s"), parse_edit(plan, "7_join:0=3000")])

    pairs = zip(data.decode().splitlines(), text.splitlines(), strict=True)
    assert [('"ttl" : "0 ms",', '"ttl" : "3 s",'), ('"ttl" : "0 ms",', '"ttl" : "9 s",')] == [
        (old.strip(), new.strip()) for old, new in pairs if old != new
    ]
    again = read_plan(text.encode(), "plan.json")
    assert [3_000, 9_000] == [ttl_of(again, again.nodes[7], one).millis for one in again.nodes[7].states]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("7=3s", "7_join has 2 states"),
        ("7:2=3s", "7_join has no state '2'"),
        ("8=3s", "no time to live for 8_calc"),
        ("99=3s", "the plan has no operator '99'"),
        ("7:0=3 parsecs", "is no duration of Flink"),
        ("7:0", "sets nothing"),
        ("=3s", "sets nothing"),
    ],
)
def test_what_is_not_clear_is_asked(data, text, why):
    with pytest.raises(DeclarationError, match=why):
        parse_edit(read_plan(data, "plan.json"), text)


def test_a_state_is_not_given_two_times(data):
    plan = read_plan(data, "plan.json")

    with pytest.raises(DeclarationError, match="is given two times"):
        edited(plan, [parse_edit(plan, "7:0=3s"), parse_edit(plan, "7:leftState=4s")])


def test_an_operator_that_follows_the_job_says_so(data):
    found = json.loads(data)
    found["nodes"][7]["type"] = "stream-exec-over-aggregate_1"

    with pytest.raises(DeclarationError, match=r"follows table\.exec\.state\.ttl of the running job"):
        parse_edit(read_plan(json.dumps(found).encode(), "plan.json"), "8=3s")


def chained(data, upstream, downstream):
    """A plan in which the changes of a join go to an aggregate, with these times to live."""
    found = json.loads(data)
    join, calc = found["nodes"][6], found["nodes"][7]
    for state in join["state"]:
        state["ttl"] = upstream
    calc["type"] = "stream-exec-group-aggregate_1"
    calc["state"] = [{"index": 0, "ttl": downstream, "name": "groupAggregateState"}]
    return read_plan(json.dumps(found).encode(), "plan.json")


@pytest.mark.parametrize(
    ("upstream", "downstream", "is_odd"),
    [("1 d", "1 d", False), ("1 d", "2 d", False), ("1 d", "0 ms", False), ("1 d", "1 h", True), ("0 ms", "1 d", True)],
)
def test_state_that_goes_before_that_of_the_operators_before_it_is_in_doubt(data, upstream, downstream, is_odd):
    assert is_odd == any("before it keeps state" in one.why for one in doubts(chained(data, upstream, downstream)))


def test_a_number_without_a_unit_is_in_doubt(data):
    (doubt,) = doubts(chained(data, "5 ms", "5000"))

    assert "'5000' has no unit: Flink reads milliseconds" == doubt.why


def test_a_time_that_is_none_is_named_with_its_line(data):
    plan = chained(data, "soon", "1 d")

    with pytest.raises(CorruptFile, match="line 1, 7_join: the time to live 'soon' of leftState"):
        list(doubts(plan))
