"""The command line in this process: what it prints, and the status it leaves."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import attrs
import pytest

from stateshift import redact_values
from stateshift.cli import main


@attrs.frozen
class Ran:
    """How a command ended."""

    status: int
    stdout: str
    stderr: str

    @property
    def data(self):
        """What it printed with `--json`; stdout is that one document."""
        return json.loads(self.stdout)


NEXT = re.compile(r"^next: (?:.* then )?stateshift (migrate .*)$", re.MULTILINE)


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """`run("inspect", folder)`: a command of this process. A migration that it says is next is tried, as a dry run.

    Lines are wide, so that tests find sentences whole; `test_folding.py` is about short ones.
    """
    monkeypatch.setattr("stateshift.cli.output._PIPED_WIDTH", 2000)
    nowhere = str(tmp_path / "no" / "where")

    def once(*arguments):
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return Ran(ended.value.code, printed.out, printed.err)

    def start(*arguments):
        ran = once(*arguments)
        for line in NEXT.findall(re.sub(r" \\\n +", " ", ran.stdout)):
            words = [nowhere if word == "NEW_SAVEPOINT" else word for word in shlex.split(line)]
            followed = once(*words, "--dry-run")
            is_a_values = followed.status == 6 or followed.stderr.startswith("UntrustedCode")  # no check sees values
            assert followed.status == 0 or is_a_values, f"it says {line}, which ends with {followed}"
        return ran

    yield start
    redact_values(False)


@pytest.fixture
def job_folder(tmp_path, monkeypatch):
    """An empty current folder, whose modules can be loaded."""
    folder = tmp_path / "jobs"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return folder


@pytest.fixture
def example_jobs(job_folder, root):
    """The current folder holds the jobs of the examples: `accounts_v1:job` to `accounts_v4:job`."""
    for file in (root / "examples").glob("accounts_*.py"):
        (job_folder / file.name).write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    return job_folder


@pytest.fixture
def damage():
    """Change a file in place: `replace=(old, new)`, `cut` so many bytes, `flip` a bit, `blot` out what is there."""

    def change(file, *, replace=None, cut=None, flip=None, blot=None):
        data = bytearray(Path(file).read_bytes())
        if replace is not None:
            old, new = replace
            assert len(old) == len(new)
            assert old in data
            data = bytearray(bytes(data).replace(old, new))
        if cut is not None:
            del data[-cut:]
        if flip is not None:
            data[flip] ^= 0x40
        if blot is not None:
            data[blot : blot + 64] = b"\xff" * 64
        Path(file).write_bytes(data)

    return change
