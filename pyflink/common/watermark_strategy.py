"""Time stamps and watermarks of a source."""

from ...state.runtime.watermarks import TimestampAssigner, WatermarkStrategy
from ..absent import explain_absent

__all__ = ["TimestampAssigner", "WatermarkStrategy"]

explain_absent(__name__)
