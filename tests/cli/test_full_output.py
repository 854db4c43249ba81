"""Output that cannot be written, as on a full disk, is an error in a line, with the status of a failure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize(
    "arguments",
    [
        ["export", "SAVEPOINT"],
        ["inspect", "SAVEPOINT", "--json"],
        ["verify", "SAVEPOINT"],
        ["inspect", "nowhere", "--json"],
        ["rules"],
        ["--help"],
        ["nonsense", "--json"],
    ],
    ids=" ".join,
)
def test_it_is_said_and_no_traceback_is(root, arguments):
    place = root / "tests" / "fixtures" / "flink-2.3" / "hashmap-account-v1" / "savepoint"
    given = [str(place) if one == "SAVEPOINT" else one for one in arguments]
    with FULL.open("w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "stateshift", *given], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )

    assert ran.returncode == 6, ran.stderr
    assert ran.stderr.endswith("Error: the output cannot be written: No space left on device\n")
    assert "Traceback" not in ran.stderr


@pytest.mark.skipif(not FULL.exists(), reason="only Linux has a device that is always full")
def test_the_status_of_an_error_stays_where_stderr_is_full():
    with FULL.open("w") as full:
        ran = subprocess.run([sys.executable, "-m", "stateshift", "inspect", "nowhere"], stderr=full, check=False)

    assert ran.returncode == 3
