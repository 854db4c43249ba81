"""Who takes which elements: the rules of Flink's RoundRobinOperatorStateRepartitioner."""

from itertools import chain

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift import UnsupportedFormat
from stateshift.serializers.primitives.numeric import IntSerializerSnapshot, LongSerializerSnapshot
from stateshift.state.formats.flink.handles import (
    DistributionMode,
    InlineHandle,
    OperatorStateHandle,
    OperatorStateOffsets,
)
from stateshift.state.formats.flink.meta_info import broadcast_state, list_state
from stateshift.state.formats.flink.operator_stream import OperatorStreamHeader
from stateshift.state.formats.flink.redistribution import (
    deal_out,
    deal_out_at_start,
    java_hash_map_order,
    joined_headers,
)

SPLIT, UNION, BROADCAST = DistributionMode


def handle(mode=SPLIT, **counts):
    states = tuple(OperatorStateOffsets(name, mode, tuple(range(count))) for name, count in counts.items())
    return OperatorStateHandle(states, InlineHandle("", bytes(100)))


def taken(handles, parallelism, name):
    """For each new subtask: (old subtask, element) of one state."""
    places = {id(one): index for index, one in enumerate(handles)}
    return [
        [(places[id(share.handle)], element) for share in shares for element in share.elements.get(name, ())]
        for shares in deal_out(handles, parallelism)
    ]


def test_the_odd_elements_go_to_the_first_subtasks():
    handles = [handle(a=4), handle(a=1)]

    assert [[(0, 0), (0, 1)], [(0, 2), (0, 3)], [(1, 0)]] == taken(handles, 3, "a")
    assert [[(0, 0), (0, 1), (0, 2)], [(0, 3), (1, 0)]] == taken(handles, 2, "a")


@pytest.mark.parametrize("parallelism", [1, 2, 3, 5])
def test_starting_subtasks_get_union_states_whole_and_carry_each_element_once(parallelism):
    handles = [
        OperatorStateHandle(handle(UNION, u=3).states + handle(a=2).states, InlineHandle("", bytes(9))),
        handle(UNION, u=2),
    ]
    dealt = deal_out_at_start(handles, parallelism)

    assert [[range(3), range(2)]] * parallelism == [[share.elements["u"] for share in shares] for shares in dealt]
    carried = [(at, item) for shares in dealt for at, share in enumerate(shares) for item in share.carried["u"]]
    assert [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)] == sorted(carried)
    assert 2 == sum(len(share.elements.get("a", ())) for shares in dealt for share in shares)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=5), st.integers(1, 6))
def test_starting_subtasks_get_each_element_of_a_split_state_once(counts, parallelism):
    handles = [handle(a=count) for count in counts]
    dealt = deal_out_at_start(handles, parallelism)
    found = [
        [(at, item) for at, share in enumerate(shares) for item in share.elements.get("a", ())] for shares in dealt
    ]

    assert [(at, item) for at, count in enumerate(counts) for item in range(count)] == sorted(chain(*found))
    if len(counts) == parallelism:
        assert counts == [len(part) for part in found]


def test_the_next_state_begins_after_the_odd_ones_of_the_one_before():
    handles = [handle(a=4, b=4)]

    assert [2, 1, 1] == [len(part) for part in taken(handles, 3, "a")]
    assert [1, 2, 1] == [len(part) for part in taken(handles, 3, "b")]


NAMES = ["split-b", "elements", "pending", "b", "a", "offsets", "union", "Aa", "BB", "SourceReaderState",
         "writer_raw_states", "é", "state-10", *(f"state-{number}" for number in range(13, 40))]  # fmt: skip

JAVA = {
    9: "BB, Aa, a, split-b, b, offsets, pending, elements, union",
    13: "SourceReaderState, BB, Aa, a, split-b, b, writer_raw_states, offsets, pending, elements, é, state-10, union",
    40: "BB, Aa, split-b, pending, state-30, state-32, state-10, state-31, state-34, state-33, state-36, state-14, "
    "state-35, state-13, state-27, state-26, state-29, state-28, a, b, writer_raw_states, é, state-21, state-20, "
    "union, "
    "state-23, state-22, state-25, state-24, state-38, state-16, SourceReaderState, state-37, state-15, state-18, "
    "state-39, state-17, state-19, offsets, elements",
}
"""Read off a `java.util.HashMap` that was filled by `computeIfAbsent` with so many of the names."""


@pytest.mark.parametrize("count", JAVA)
def test_states_are_listed_in_the_order_of_a_java_hash_map(count):
    assert JAVA[count].split(", ") == java_hash_map_order(NAMES[:count])


@given(st.lists(st.lists(st.integers(0, 5), min_size=2, max_size=2), min_size=1, max_size=5), st.integers(1, 9))
def test_every_element_goes_to_one_subtask_and_no_subtask_has_two_more_than_another(counts, parallelism):
    handles = [handle(a=a, b=b) for a, b in counts]
    for name, index in (("a", 0), ("b", 1)):
        parts = taken(handles, parallelism, name)
        whole = [(at, element) for at, both in enumerate(counts) for element in range(both[index])]

        assert whole == sorted(element for part in parts for element in part)
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
        assert all(part == sorted(part) for part in parts)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=5), st.integers(1, 9))
def test_elements_of_a_union_stay_in_order_over_all_subtasks_and_each_is_stored_once(counts, parallelism):
    parts = taken([handle(UNION, u=count) for count in counts], parallelism, "u")

    assert [(at, element) for at, count in enumerate(counts) for element in range(count)] == list(chain(*parts))


@given(st.integers(1, 5), st.integers(1, 9))
def test_every_subtask_takes_a_whole_broadcast_map(subtasks, parallelism):
    parts = taken([handle(BROADCAST, m=1) for _ in range(subtasks)], parallelism, "m")

    assert [[(subtask % subtasks, 0)] for subtask in range(parallelism)] == parts


def test_a_broadcast_map_that_only_one_subtask_has_goes_to_all():
    assert [[(1, 0)]] * 3 == taken([handle(a=1), handle(BROADCAST, m=1)], 3, "m")


LISTS = OperatorStreamHeader((list_state("a", "UNION", IntSerializerSnapshot()),))
MORE = OperatorStreamHeader(
    (list_state("b", "UNION", IntSerializerSnapshot()), *LISTS.list_states),
    (broadcast_state("m", IntSerializerSnapshot(), IntSerializerSnapshot()),),
    compressed=True,
)


def test_all_states_of_all_subtasks_stand_under_one_header():
    joined = joined_headers([LISTS, MORE, LISTS])

    assert ["a", "b", "m"] == [info.name for info in joined.states]
    assert MORE.broadcast_states == joined.broadcast_states
    assert joined.compressed
    assert not joined_headers([LISTS]).compressed


@pytest.mark.parametrize(
    "other",
    [
        OperatorStreamHeader((list_state("a", "SPLIT_DISTRIBUTE", IntSerializerSnapshot()),)),
        OperatorStreamHeader((list_state("a", "UNION", LongSerializerSnapshot()),)),
        OperatorStreamHeader((), (broadcast_state("a", IntSerializerSnapshot(), IntSerializerSnapshot()),)),
    ],
)
def test_states_that_the_subtasks_describe_differently_are_refused(other):
    with pytest.raises(UnsupportedFormat, match="'a' differently") as caught:
        joined_headers([attrs.evolve(LISTS), other])

    assert "a" == caught.value.where["state"]
