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
from ..absent import explain_absent

__all__ = [
    "AllWindowedStream", "BroadcastConnectedStream", "BroadcastStream", "CloseableIterator", "ConnectedStreams",
    "DataStream", "DataStreamSink", "KeyedStream", "WindowedStream",
]  # fmt: skip

explain_absent(__name__)
