"""The programs of benchmarks/ as their reader starts them, with few entries."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest


@pytest.fixture
def benchmark(root):
    """`benchmark("compare", "--shapes", "S1")`: what the program printed as JSON; it must have succeeded."""

    def run(name, *arguments, **variables):
        command = [sys.executable, "-m", f"benchmarks.{name}", "--json", *map(str, arguments)]
        ran = subprocess.run(
            command, cwd=root, env=os.environ | variables, capture_output=True, text=True, timeout=300, check=False
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return json.loads(ran.stdout)

    return run
