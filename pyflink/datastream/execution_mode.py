"""How a program runs."""

from ...state.environment.settings import RuntimeExecutionMode

__all__ = ["RuntimeExecutionMode"]
