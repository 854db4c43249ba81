"""Streams."""

from ...state.environment.streams import (
    AllWindowedStream,
    BroadcastConnectedStream,
    BroadcastStream,
    CloseableIterator,
    ConnectedStreams,
    DataStream,
    DataStreamSink,
    KeyedStream,
    WindowedStream,
)

__all__ = [
    "AllWindowedStream", "BroadcastConnectedStream", "BroadcastStream", "CloseableIterator", "ConnectedStreams",
    "DataStream", "DataStreamSink", "KeyedStream", "WindowedStream",
]  # fmt: skip
