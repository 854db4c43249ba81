"""What a checkpoint promises."""

from ...state.environment.settings import CheckpointingMode

__all__ = ["CheckpointingMode"]
