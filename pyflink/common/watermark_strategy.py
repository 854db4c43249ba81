"""Time stamps and watermarks of a source."""

from ...state.runtime.watermarks import TimestampAssigner, WatermarkStrategy

__all__ = ["TimestampAssigner", "WatermarkStrategy"]
