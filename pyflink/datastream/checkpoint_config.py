"""Settings of checkpoints."""

from ...state.environment.environment import CheckpointConfig

__all__ = ["CheckpointConfig"]
