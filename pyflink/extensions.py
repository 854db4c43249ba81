"""What PyFlink does not have: operator state of functions, sources in Python, functions of a value and its state."""

from ..state.runtime.checkpointed import (
    CheckpointedFunction,
    CheckpointedRestoring,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    ListCheckpointed,
)
from ..state.runtime.sources import SourceContext, SourceFunction
from ..state.runtime.with_state import flat_map_with_state, map_with_state

__all__ = [
    "CheckpointListener", "CheckpointedFunction", "CheckpointedRestoring", "FunctionInitializationContext",
    "FunctionSnapshotContext", "ListCheckpointed", "SourceContext", "SourceFunction", "flat_map_with_state",
    "map_with_state",
]  # fmt: skip
