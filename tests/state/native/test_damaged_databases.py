"""Damaged native snapshots: never other contents, always an error in words, and nothing is written beside their files.

Each snapshot is damaged in a process of its own, see `damaged_databases`: RocksDB could end it.
"""

from __future__ import annotations

import json
import subprocess
import sys

import damaged_databases
import native_snapshots
import pytest

KINDS = len(damaged_databases.DAMAGES)
SEEDS = {"once": range(KINDS), "again": range(KINDS, 2 * KINDS)}
"""Each kind of damage once in each snapshot, in another place of it in `make faults`."""
FIRST_LINE = ("CorruptSavepoint: ", "SavepointNotFound: ", "UnsupportedFormat: ", "UnknownSnapshot: ", "left out: ")


def damaged(name, seeds, scratch):
    """What came of each seed of a snapshot."""
    first = native_snapshots.NAMES.index(name) * 2 * KINDS + seeds.start
    ran = subprocess.run(
        [sys.executable, damaged_databases.__file__, name, str(first), str(first + len(seeds)), scratch],
        capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert (0, "") == (ran.returncode, ran.stderr), f"it ended at {lines[-1:]}"
    outcomes = [line for line in lines if "status" in line]
    assert len(seeds) == len(outcomes)
    return outcomes


@pytest.mark.slow
@pytest.mark.parametrize("name", native_snapshots.NAMES)
@pytest.mark.parametrize("seeds", ["once", pytest.param("again", marks=pytest.mark.faults)])
def test_what_is_read_of_a_damaged_snapshot_is_what_was_there(name, seeds, tmp_path):
    for one in damaged(name, SEEDS[seeds], tmp_path):
        if one["kind"] != "name":  # a name that nothing else shows may be any, as in canonical savepoints
            assert [] == one["changed"], one
        assert one["intact"], one
        assert one["status"] in {0, 3, 7}, one
        assert "Traceback" not in one["told"], one
        if one["status"]:
            assert one["told"].startswith(FIRST_LINE), one
            assert "\\n" not in one["told"], one
