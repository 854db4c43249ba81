"""Where a program begins."""

from ...state.environment.environment import StreamExecutionEnvironment

__all__ = ["StreamExecutionEnvironment"]
