"""What `make demo-stream` shows is true."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.faults  # not for what it kills, but for the minute that it takes


def test_it_ends_with_all_accounts_equal(root):
    command = [sys.executable, root / "examples" / "stream_demo.py"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stdout + ran.stderr
    steps = ["$ stateshift inspect ", "$.visits", "3. The same start", "$ stateshift savepoint ", "all equal", "Proven"]
    assert sorted(steps, key=ran.stdout.index) == steps
