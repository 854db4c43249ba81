"""Verifying a savepoint is measured along with the migration that wrote it."""

from __future__ import annotations

import pytest


@pytest.mark.slow
def test_a_look_has_its_ratio_to_the_migration(benchmark):
    found = benchmark("verify", "--entries", 2000, "--runs", 1, "--shapes", "S2,list")

    assert ["S2", "list"] == list(found["shapes"])
    for commands in found["shapes"].values():
        migrate, *looks = commands.values()
        assert ["migrate", "verify", "verify --values"] == list(commands)
        assert 1 == migrate["ratio"]
        assert [look["cpu_s"] / migrate["cpu_s"] for look in looks] == [look["ratio"] for look in looks]
