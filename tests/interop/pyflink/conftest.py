"""Real PyFlink as a fixture, in an environment of its own: STATESHIFT_PYFLINK is its folder of packages."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def pyflink_python():
    """The interpreter of the environment with PyFlink."""
    if "STATESHIFT_PYFLINK" not in os.environ:
        if os.environ.get("STATESHIFT_INTEROP") == "required":
            pytest.fail("STATESHIFT_PYFLINK names no folder with the package pyflink")
        pytest.skip("STATESHIFT_PYFLINK names no folder with the package pyflink")
    return Path(os.environ["STATESHIFT_PYFLINK"]).parents[2] / "bin" / "python"


@pytest.fixture(scope="session")
def ask_coders(pyflink_python):
    """`ask_coders(question)`: what the slow and the fast coder write and read; see coder_server.py."""
    server = Path(__file__).parent / "coder_server.py"
    with subprocess.Popen(
        [pyflink_python, server], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    ) as process:

        def ask(**question):
            process.stdin.write(json.dumps(question) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            assert line, "the process with PyFlink has ended; its error is above"
            return json.loads(line)

        yield ask
        process.stdin.close()
