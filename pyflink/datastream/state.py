"""Descriptors and handles of states."""

from ...state.runtime.checkpointed import OperatorStateStore
from ...state.runtime.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from ...state.runtime.states import (
    AggregatingState,
    AppendingState,
    BroadcastState,
    ListState,
    MapState,
    MergingState,
    ReadOnlyBroadcastState,
    ReducingState,
    State,
    ValueState,
)
from ...state.runtime.time_to_live import StateTtlConfig

__all__ = [
    "AggregatingState", "AggregatingStateDescriptor", "AppendingState", "BroadcastState", "ListState",
    "ListStateDescriptor", "MapState", "MapStateDescriptor", "MergingState", "OperatorStateStore",
    "ReadOnlyBroadcastState", "ReducingState", "ReducingStateDescriptor", "State", "StateDescriptor", "StateTtlConfig",
    "ValueState", "ValueStateDescriptor",
]  # fmt: skip
