"""Progress messages of a run."""

import pytest

from stateshift import Progress
from stateshift.cli.progress import details

MIB = 1 << 20


@pytest.mark.parametrize(
    ("progress", "told"),
    [
        (Progress("starting Spark", 0, 1), ""),
        (Progress("encoding", 3, 8), ""),
        (Progress("migrating", 0, 8, bytes_total=80 * MIB), ""),
        (Progress("migrating", 2, 8, 1_200_000, 20 * MIB, 80 * MIB, 10.0),
         "1,200,000 entries, 20.0 MiB of 80.0 MiB, 2.0 MiB/s, 0:30 left"),
        (Progress("copying", 1, 8, 0, 10 * MIB, 800 * MIB, 10.0), "10.0 MiB of 800.0 MiB, 1.0 MiB/s, 13:10 left"),
        (Progress("migrating", 8, 8, 1, 80 * MIB, 80 * MIB, 40.0), "1 entry, 80.0 MiB of 80.0 MiB"),
    ],
)  # fmt: skip
def test_entries_bytes_rate_and_time_left_are_reported_as_far_as_they_are_known(progress, told):
    assert details(progress) == told
