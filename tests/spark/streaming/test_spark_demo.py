"""What `make demo-spark` shows is true."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow


def test_spark_gets_one_change_wrong_and_refuses_the_other_and_the_copy_goes_on(root):
    command = [sys.executable, root / "examples" / "spark_demo.py"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stdout + ran.stderr
    steps = ["Spark alone", "$ stateshift check ", "SPK-2", "$ stateshift migrate ", "says the same", "Proven"]
    assert sorted(steps, key=ran.stdout.index) == steps
