"""The memory of a profile does not grow with the number of entries."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

CODE = """
import sys
from benchmarks.shapes import SHAPES, write_savepoint
from pathlib import Path
write_savepoint(SHAPES["S2"], int(sys.argv[2]), Path(sys.argv[1]))
"""
PROFILE = """
import sys
from stateshift import Savepoint
Savepoint.open(sys.argv[1]).profile()
print(open("/proc/self/status").read())
"""


def peak_kb(root, place):
    ran = subprocess.run(
        [sys.executable, "-c", PROFILE, str(place)], cwd=root, check=True, capture_output=True, text=True
    )
    return int(re.findall(r"VmHWM:\s+(\d+) kB", ran.stdout)[0])


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak is told by Linux alone")
def test_five_times_the_entries_need_no_more_memory(root, tmp_path):
    peaks = []
    for entries in (120_000, 600_000):
        place = tmp_path / str(entries)
        subprocess.run([sys.executable, "-c", CODE, str(place), str(entries)], cwd=root, check=True)
        peaks.append(peak_kb(root, place))

    assert peaks[1] < 1.15 * peaks[0]
