"""Types, rows, times and schemas."""

from ..absent import explain_absent
from .configuration import Configuration
from .execution_config import ExecutionConfig
from .job_execution_result import JobExecutionResult
from .serialization import Encoder, SimpleStringSchema
from .time import Duration, Instant, Time
from .typeinfo import TypeInformation, Types
from .types import Row, RowKind
from .watermark_strategy import WatermarkStrategy

__all__ = [
    "Configuration", "Duration", "Encoder", "ExecutionConfig", "Instant", "JobExecutionResult", "Row", "RowKind",
    "SimpleStringSchema", "Time", "TypeInformation", "Types", "WatermarkStrategy",
]  # fmt: skip

explain_absent(__name__)
