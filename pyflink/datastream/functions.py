"""The functions of a program, and what they learn."""

from ...state.runtime.functions import (
    AggregateFunction,
    BaseBroadcastProcessFunction,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    Function,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    Partitioner,
    ProcessFunction,
    ReduceFunction,
    SinkFunction,
)
from ...state.runtime.runtime_context import KeyedStateStore, RuntimeContext
from ...state.runtime.sources import SourceFunction
from ...state.runtime.timer_service import TimerService
from ...state.runtime.windows.functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from ..absent import explain_absent

__all__ = [
    "AggregateFunction", "AllWindowFunction", "BaseBroadcastProcessFunction", "BroadcastProcessFunction",
    "CoFlatMapFunction", "CoMapFunction", "CoProcessFunction", "FilterFunction", "FlatMapFunction", "Function",
    "KeySelector", "KeyedBroadcastProcessFunction", "KeyedCoProcessFunction", "KeyedProcessFunction",
    "KeyedStateStore", "MapFunction", "Partitioner", "ProcessAllWindowFunction", "ProcessFunction",
    "ProcessWindowFunction", "ReduceFunction", "RuntimeContext", "SinkFunction", "SourceFunction", "TimerService",
    "WindowFunction",
]  # fmt: skip

explain_absent(__name__)
