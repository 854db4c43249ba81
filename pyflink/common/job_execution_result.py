"""What is known of a run that is over."""

from ...state.environment.execution import JobExecutionResult

__all__ = ["JobExecutionResult"]
