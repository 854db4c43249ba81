"""Timers."""

from ...state.runtime.timer_service import TimerService

__all__ = ["TimerService"]
