"""Hypothesis strategies of whole jobs and of the contents of their states; `testing` imports it only when needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from ..compat.testing.strategies import types, values_of
from ..compat.testing.strategies.hints import generic
from ..serializers.primitives.abilities import Float32, Int8, Int16, Int32
from .job import Job, Operator
from .runtime.descriptors import DESCRIPTORS, ListStateDescriptor, MapStateDescriptor, StateDescriptor

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

    from .testing import Contents

_UIDS = ("orders", "people", "totals", "alerts")
_NAMES = ("open", "last", "count", "seen", "rules", "paid")
_simple_keys = st.sampled_from([str, int, Int32, Int16, Int8, bool, float, Float32])
_keys = _simple_keys | st.lists(_simple_keys, min_size=2, max_size=3).map(lambda items: generic(tuple, *items))
"""Draws key types whose hash is the same in every JVM."""
_OF_ONE_VALUE = [kind for kind in DESCRIPTORS if not kind.row.pieces]


@st.composite
def jobs(draw: DrawFn, of: SearchStrategy[Any]) -> Job:
    """Draw a job; the types of its states come from `of`."""
    uids = draw(st.lists(st.sampled_from(_UIDS), min_size=1, max_size=3, unique=True))
    return Job([draw(_operators(uid, of)) for uid in uids])


@st.composite
def _operators(draw: DrawFn, uid: str, of: SearchStrategy[Any]) -> Operator:
    arguments: dict[str, list[Any]] = {"states": [], "list_states": [], "union_list_states": [], "broadcast_states": []}
    made = {"states": _keyed, "broadcast_states": _maps}
    likely = ["states", *arguments]
    for name in draw(st.lists(st.sampled_from(_NAMES), min_size=1, max_size=4, unique=True)):
        argument = draw(st.sampled_from(likely))
        arguments[argument].append(draw(made.get(argument, _lists)(name, of)))
    key: Any = draw(_keys) if arguments["states"] else None
    given: dict[str, Any] = {"key": key, **arguments}
    return Operator(uid, **given)


@st.composite
def _keyed(draw: DrawFn, name: str, of: SearchStrategy[Any]) -> StateDescriptor:
    has_ttl = draw(st.sampled_from([False, False, True]))
    kind = draw(st.sampled_from([*_OF_ONE_VALUE, None, None]))
    if kind is not None:
        make: Any = DESCRIPTORS[kind]
        single: StateDescriptor = make(name, *[None] * kind.row.takes_function, draw(of), time_to_live=has_ttl)
        return single
    several: StateDescriptor = draw(draw(st.sampled_from([_lists, _maps]))(name, of, has_ttl=has_ttl))
    return several


@st.composite
def _lists(draw: DrawFn, name: str, of: SearchStrategy[Any], *, has_ttl: bool = False) -> ListStateDescriptor:
    return ListStateDescriptor(name, draw(of), time_to_live=has_ttl)


@st.composite
def _maps(draw: DrawFn, name: str, of: SearchStrategy[Any], *, has_ttl: bool = False) -> MapStateDescriptor:
    return MapStateDescriptor(name, draw(types(max_depth=1, hashable=True)), draw(of), time_to_live=has_ttl)


@st.composite
def contents_of(draw: DrawFn, job: Job) -> Contents:
    """Draw the contents of a job's states, as `write_savepoint` takes them."""
    held: dict[str, Any] = {}
    for operator in job.operators:
        for state in operator.states:
            values = values_of(state.state_serializer()).filter(
                _holds_something if state.kind.row.pieces else _is_there
            )
            held[f"{operator.uid}/{state.name}"] = draw(st.dictionaries(values_of(operator.key), values, max_size=3))
        for listed in (*operator.list_states, *operator.union_list_states):
            held[f"{operator.uid}/{listed.name}"] = draw(values_of(listed.state_serializer()))
        for mapped in operator.broadcast_states:
            pairs = st.dictionaries(values_of(mapped.key_serializer), values_of(mapped.value_serializer), max_size=3)
            held[f"{operator.uid}/{mapped.name}"] = draw(pairs)
    return held


# As in Flink, None and an empty list or map are not stored as an entry. Hypothesis would turn a filter `bool` into a
# minimum size, and that fails for maps that can have only one key, such as an enum with one symbol.
def _is_there(value: Any) -> bool:
    return value is not None


def _holds_something(value: Any) -> bool:
    return len(value) > 0
