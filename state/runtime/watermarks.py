"""What a program says of the time stamps of a source and of how far event time has come; an engine follows it.

The names are those of `pyflink.common.watermark_strategy`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import timedelta
from typing import Any

import attrs

from ...serializers.errors import DeclarationError, shown


class TimestampAssigner(ABC):
    """Assigns time stamps to elements."""

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """Return the time stamp of an element, in milliseconds since 1970 UTC.

        Args:
            value: The element.
            record_timestamp: The time stamp that it has; without one -2**63.
        """


def _checked(_: Any, attribute: Any, length: Any) -> None:
    if length is not None and (not isinstance(length, timedelta) or length < timedelta(0)):
        what = attribute.name.replace("_", " ")
        raise DeclarationError(f"the {what} is {shown(length)}", advice="pass Duration.of_seconds(…) or a timedelta")


@attrs.frozen
class WatermarkStrategy:
    """Where the watermark is after some elements: at the largest time stamp, less a length of time and a millisecond.

    Attributes:
        max_out_of_orderness: That length of time; None: there are no watermarks.
        timestamp_assigner: Gives elements their time stamps; None: they have those of their source.
        idle_timeout: After which time without elements an input no longer holds the watermark back; None: it always
            does.

    Raises:
        DeclarationError: A length of time is not a timedelta, or is negative.
    """

    max_out_of_orderness: timedelta | None = attrs.field(validator=_checked)
    timestamp_assigner: TimestampAssigner | None = None
    idle_timeout: timedelta | None = attrs.field(default=None, validator=_checked)

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: timedelta) -> WatermarkStrategy:
        """Return the strategy of elements that come later than others by a length of time at most."""
        return WatermarkStrategy(max_out_of_orderness)

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """Return the strategy of elements whose time stamps never decrease."""
        return WatermarkStrategy(timedelta(0))

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """Return the strategy without watermarks: no time of event time comes, but for the end of bounded input."""
        return WatermarkStrategy(None)

    def with_timestamp_assigner(self, timestamp_assigner: TimestampAssigner) -> WatermarkStrategy:
        """Return the same with time stamps of an assigner.

        Raises:
            DeclarationError: It is none.
        """
        if not isinstance(timestamp_assigner, TimestampAssigner):
            raise DeclarationError(
                f"{shown(timestamp_assigner)} is not a TimestampAssigner",
                advice="inherit from it, and define extract_timestamp(self, value, record_timestamp)",
            )
        return attrs.evolve(self, timestamp_assigner=timestamp_assigner)

    def with_idleness(self, idle_timeout: timedelta) -> WatermarkStrategy:
        """Return the same where an input without elements for this long no longer holds the watermark back.

        PyFlink's own loses the assigner here; this one keeps it.
        """
        return attrs.evolve(self, idle_timeout=idle_timeout)
