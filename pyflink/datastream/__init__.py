"""Streams, functions, states and windows."""

from ..absent import explain_absent
from .checkpoint_config import CheckpointConfig
from .checkpointing_mode import CheckpointingMode
from .data_stream import (
    BroadcastConnectedStream,
    BroadcastStream,
    ConnectedStreams,
    DataStream,
    DataStreamSink,
    KeyedStream,
    WindowedStream,
)
from .execution_mode import RuntimeExecutionMode
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
from .stream_execution_environment import StreamExecutionEnvironment
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
    "AggregateFunction", "BroadcastConnectedStream", "BroadcastProcessFunction", "BroadcastStream", "CheckpointConfig",
    "CheckpointingMode", "CoFlatMapFunction", "CoMapFunction", "CoProcessFunction", "ConnectedStreams", "CountWindow",
    "DataStream", "DataStreamSink", "FilterFunction", "FlatMapFunction", "GlobalWindow", "KeySelector",
    "KeyedBroadcastProcessFunction", "KeyedCoProcessFunction", "KeyedProcessFunction", "KeyedStream", "MapFunction",
    "MergingWindowAssigner", "OutputTag", "Partitioner", "ProcessFunction", "ProcessWindowFunction", "ReduceFunction",
    "RuntimeContext", "RuntimeExecutionMode", "SinkFunction", "SourceFunction", "StreamExecutionEnvironment",
    "TimeDomain", "TimeWindow", "TimerService", "Trigger", "TriggerResult", "Window", "WindowAssigner",
    "WindowFunction", "WindowedStream",
]  # fmt: skip

explain_absent(__name__)
