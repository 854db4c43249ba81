"""Streams, functions, states and windows."""

from .functions import (
    AggregateFunction,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    Partitioner,
    ProcessFunction,
    ProcessWindowFunction,
    ReduceFunction,
    RuntimeContext,
    SinkFunction,
    SourceFunction,
    WindowFunction,
)
from .output_tag import OutputTag
from .time_domain import TimeDomain
from .timerservice import TimerService
from .window import (
    CountWindow,
    GlobalWindow,
    MergingWindowAssigner,
    TimeWindow,
    Trigger,
    TriggerResult,
    Window,
    WindowAssigner,
)

__all__ = [
    "AggregateFunction", "BroadcastProcessFunction", "CoFlatMapFunction", "CoMapFunction", "CoProcessFunction",
    "CountWindow", "FilterFunction", "FlatMapFunction", "GlobalWindow",
    "KeySelector", "KeyedBroadcastProcessFunction", "KeyedCoProcessFunction",
    "KeyedProcessFunction", "MapFunction", "MergingWindowAssigner", "OutputTag", "Partitioner", "ProcessFunction",
    "ProcessWindowFunction", "ReduceFunction", "RuntimeContext", "SinkFunction", "SourceFunction", "TimeDomain",
    "TimeWindow", "TimerService", "Trigger", "TriggerResult", "Window", "WindowAssigner", "WindowFunction",
]  # fmt: skip
