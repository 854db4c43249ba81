"""A migrated copy that was damaged is not verified with other entries; seeded damages of its files, logs and entries.

Each damage runs the command in this process; STATESHIFT_FAULT_SEEDS=7 makes the damages of seed 7 again.
"""

from __future__ import annotations

import random

import pytest
from damaged_checkpoints import HDFS, ROCKSDB, UNWRITTEN, copied, run, verified
from fault_seeds import chosen_seeds
from spark_copies import rewrite, with_a_note

FEW, SOME, ALL = 3, 10, chosen_seeds("0-299")
"""How many damages each copy gets in `make test` and `make slow`; in `make faults` all."""
COPIES = [name for name in HDFS + ROCKSDB if name not in UNWRITTEN]


def refuses_or_is_right(name, seeds, scratch):
    sound = copied(name, scratch)
    assert 0 == run("verify", f"spark:{sound}")[0]
    for seed in seeds:
        damage, _, told, changed = verified(sound, seed, scratch)
        assert "Traceback" not in told, (damage, told)
        assert not changed, (seed, damage, told)


@pytest.mark.parametrize("name", ["aggregation", "rocksdb-changelog"])
def test_a_few_damages_are_found_or_change_nothing(name, tmp_path):
    refuses_or_is_right(name, range(FEW), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", COPIES[::2])
def test_some_damages_are_found_or_change_nothing(name, tmp_path):
    refuses_or_is_right(name, range(FEW, SOME), tmp_path)


@pytest.mark.faults
@pytest.mark.parametrize("name", COPIES)
def test_many_damages_are_found_or_change_nothing(name, tmp_path):
    refuses_or_is_right(name, ALL, tmp_path)


def changed(rows, chance):
    """The rows with one of them dropped, written twice under another key, changed, moved, or exchanged with another."""
    at = chance.randrange(len(rows))
    partition, key, value = rows[at]
    left = [*rows[:at], *rows[at + 1 :]]
    kind = chance.choice(["dropped", "added", "changed", "moved", "exchanged"])
    if kind == "dropped":
        return kind, left
    if kind == "added":
        return kind, [*rows, (partition, key | {"l": f"never {chance.random()}"}, value)]
    if kind == "changed":
        name = chance.choice([name for name in value if isinstance(value[name], int | str)])
        other = value[name] + 1 if isinstance(value[name], int) else f"{value[name]}x"
        return kind, [*left, (partition, key, value | {name: other})]
    if kind == "moved":
        return kind, [*left, (1 - partition, key, value)]
    others = [number for number, row in enumerate(rows) if row[2] != value]
    other = chance.choice(others)
    new = list(rows)
    new[at], new[other] = (partition, key, rows[other][2]), (*rows[other][:2], value)
    return kind, new


@pytest.mark.parametrize("name", ["aggregation", "rocksdb"])
def test_other_entries_are_never_verified(name, tmp_path):
    copy = with_a_note(name, tmp_path)
    chance, rows = random.Random(name), []  # noqa: S311 - repeatable
    rewrite(copy, lambda found: rows.extend(found) or found)
    for _ in range(10):
        kind, new = changed(rows, chance)
        rewrite(copy, lambda _, new=new: new)
        status, told = run("verify", f"spark:{copy}")
        assert (1, True) == (status, "FAILED" in told or "failed" in told), (kind, told)
    rewrite(copy, lambda _: rows)
    assert 0 == run("verify", f"spark:{copy}")[0]
