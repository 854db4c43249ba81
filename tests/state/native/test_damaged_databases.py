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
PARTS = 3
"""In `make test` each snapshot has a third of the kinds of damage; each kind comes to three snapshots."""
FIRST_LINE = ("CorruptSavepoint: ", "SavepointNotFound: ", "UnsupportedFormat: ", "UnknownSnapshot: ", "left out: ")


def seeds_of(name, which):
    """The seeds of a snapshot: every kind of damage comes once, and again in another place."""
    number = native_snapshots.NAMES.index(name)
    first = number * 2 * KINDS + (KINDS if which == "again" else 0)
    seeds = range(first, first + KINDS)
    if which == "again":
        return seeds
    of_part = [seed for seed in seeds if seed % PARTS == number % PARTS]
    return of_part if which == "a third" else [seed for seed in seeds if seed not in of_part]


def damaged(name, seeds, scratch, *options):
    """What came of each seed of a snapshot."""
    ran = subprocess.run(
        [sys.executable, damaged_databases.__file__, *options, name, scratch, *map(str, seeds)],
        capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert (0, "") == (ran.returncode, ran.stderr), f"it ended at {lines[-1:]}"
    outcomes = [line for line in lines if "status" in line]
    assert len(seeds) == len(outcomes)
    return outcomes


@pytest.mark.slow
@pytest.mark.parametrize("name", native_snapshots.NAMES)
@pytest.mark.parametrize(
    "which", ["a third", *(pytest.param(others, marks=pytest.mark.faults) for others in ("the rest", "again"))]
)
def test_what_is_read_of_a_damaged_snapshot_is_what_was_there(name, which, tmp_path):
    for one in damaged(name, seeds_of(name, which), tmp_path):
        if one["kind"] != "name":  # a name that nothing else shows may be any, as in canonical savepoints
            assert [] == one["changed"], one
        assert one["intact"], one
        assert one["status"] in {0, 3, 7}, one
        assert "Traceback" not in one["told"], one
        if one["status"]:
            assert one["told"].startswith(FIRST_LINE), one
            assert "\\n" not in one["told"], one


SAMPLE = [0, 3, 8, 24]


@pytest.mark.slow
@pytest.mark.parametrize("name", native_snapshots.NAMES)
@pytest.mark.parametrize("which", [pytest.param("all", marks=pytest.mark.faults), "a few"])
def test_what_is_migrated_of_a_damaged_snapshot_is_what_was_there_or_verify_finds_it(name, which, tmp_path):
    """Of files that are kept, damage is found by `verify`; of those that are read, by the migration itself."""
    number = native_snapshots.NAMES.index(name)
    if which == "a few" and number:
        pytest.skip("one snapshot is enough here: all of them in `make faults`")
    seeds = SAMPLE if number == 0 and which == "a few" else range(number * KINDS, number * KINDS + KINDS + 2)
    for one in damaged(name, seeds, tmp_path, "--migrated"):
        if one["kind"] != "name":
            assert [] == one["changed"], one
        assert one["intact"], one
        assert "Traceback" not in one["told"], one
