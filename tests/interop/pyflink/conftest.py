"""Real PyFlink as a fixture, in an environment of its own: STATESHIFT_PYFLINK is its folder of packages."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from stateshift.spark.java import java_home

HERE = Path(__file__).parent


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


@pytest.fixture(scope="session")
def run_pyflink(pyflink_python):
    """`run_pyflink(program, folder, …)` runs a job of real PyFlink and gives its results and its savepoint."""

    def run(program, folder, *options):
        command = [pyflink_python, HERE / "run_job.py", HERE / "programs" / program, folder, *map(str, options)]
        settings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        settings |= {"JAVA_HOME": str(java_home()), "PATH": f"{pyflink_python.parent}{os.pathsep}{settings['PATH']}"}
        ran = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=600, cwd=folder,
            env=settings,
        )  # fmt: skip
        assert 0 == ran.returncode, ran.stdout[-2000:] + ran.stderr[-6000:]
        results = [line for one in (folder / "results").iterdir() for line in one.read_text("utf-8").splitlines()]
        return results, ran.stdout.rstrip().rpartition("savepoint file:")[2]

    return run
