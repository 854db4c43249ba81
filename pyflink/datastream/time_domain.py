"""Event time and processing time."""

from ...state.timers import TimeDomain

__all__ = ["TimeDomain"]
