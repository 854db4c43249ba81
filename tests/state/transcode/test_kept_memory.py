"""What is freed and asked for again by the megabyte comes without new pages of the system."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

ROUNDS = """
import resource
from stateshift.state.transcode.numba_kernels import keep_freed_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def round():
    pieces = [b"x" * (1 << 20) for _ in range(40)]

keep_freed_memory()
round()
before = faults()
for _ in range(10):
    round()
print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library goes its own ways")
def test_megabytes_that_were_freed_are_taken_again_as_they_are():
    done = subprocess.run([sys.executable, "-c", ROUNDS], capture_output=True, text=True, check=True)

    pages = 10 * (40 << 20) // 4096
    assert int(done.stdout) < pages // 100
