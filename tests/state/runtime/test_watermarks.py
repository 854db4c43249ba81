"""What a program says of time stamps and watermarks."""

from datetime import timedelta

import pytest

from stateshift import DeclarationError
from stateshift.pyflink.common import Duration, WatermarkStrategy
from stateshift.pyflink.common.watermark_strategy import TimestampAssigner


class Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


def test_a_strategy_says_what_it_was_told():
    assigner = Second()
    told = (
        WatermarkStrategy
        .for_bounded_out_of_orderness(Duration.of_seconds(5))
        .with_timestamp_assigner(assigner)
        .with_idleness(Duration.of_minutes(1))
    )  # fmt: skip

    assert (timedelta(seconds=5), assigner, timedelta(minutes=1)) == (
        told.max_out_of_orderness, told.timestamp_assigner, told.idle_timeout
    )  # fmt: skip
    assert timedelta(0) == WatermarkStrategy.for_monotonous_timestamps().max_out_of_orderness
    assert WatermarkStrategy.no_watermarks().max_out_of_orderness is None


@pytest.mark.parametrize(
    ("made", "match"),
    [
        (lambda: WatermarkStrategy.for_bounded_out_of_orderness(5), "the max out of orderness is 5"),
        (lambda: WatermarkStrategy.no_watermarks().with_idleness(timedelta(-1)), "the idle timeout is"),
        (lambda: WatermarkStrategy.no_watermarks().with_timestamp_assigner(len), "is not a TimestampAssigner"),
    ],
)
def test_what_says_nothing_is_refused(made, match):
    with pytest.raises(DeclarationError, match=match):
        made()
