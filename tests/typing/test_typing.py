"""Code of users that type checkers agree with (`make types`) also runs."""

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


@pytest.mark.parametrize("module", sorted(file.stem for file in FOLDER.glob("[!t]*.py")))
def test_it_runs(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"import {module}"],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (0, "") == (done.returncode, done.stderr)
