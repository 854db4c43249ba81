"""Settings of a run."""

from ...state.environment.environment import ExecutionConfig

__all__ = ["ExecutionConfig"]
