"""Where a program begins."""

from typing import Any

from ...state.environment.environment import StreamExecutionEnvironment
from ...state.environment.execution import JobExecutionResult


def _on_spark(*given: Any) -> JobExecutionResult:
    from ...spark.environment.run import run_on_spark

    return run_on_spark(*given)


StreamExecutionEnvironment.on_spark = staticmethod(_on_spark)  # loaded when a program is first run so

__all__ = ["StreamExecutionEnvironment"]
