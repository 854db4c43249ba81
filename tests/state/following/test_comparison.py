"""What changed between two databases, entry by entry: machine code finds what a comparison of all entries finds."""

from __future__ import annotations

import pytest
from rocksdb_files import Written, listed, written_by_chance

from stateshift.state.following import comparison
from stateshift.state.following.comparison import Changes
from stateshift.state.rocksdb.newest_entries import newest_entries
from stateshift.state.storage.files import Folder

pytest.importorskip("numba")


def entries(folder):
    return newest_entries([file for file, _ in listed(folder)], Folder.at(folder), None, None)


@pytest.mark.parametrize("room", [1, 3, 4096])
@pytest.mark.parametrize("seed", range(8))
def test_all_changes_are_found_once_and_up_to_a_key(tmp_path, monkeypatch, seed, room):
    monkeypatch.setattr(comparison, "_PAIRS", room)
    written, seeds = Written(block_bytes=100), (seed, seed + 100 if seed % 2 else seed)
    flushes = (3, 4 if seed % 4 else 0)  # sometimes one database goes on from the other, or there is nothing in it
    before, after = (
        written_by_chance(tmp_path / f"{at}", number, written, ranges=False, flushes=count)
        for at, (number, count) in enumerate(zip(seeds, flushes, strict=True))
    )

    found, bounds = [], []
    for bound, some in comparison._compared_by_blocks(entries(tmp_path / "0"), entries(tmp_path / "1")):
        assert all(not bounds or bounds[-1] < key for key in some.keys)
        assert all(key <= bound for key in some.keys)
        found.append(some)
        bounds.append(bound)

    keys = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    expected = Changes(keys, [[*map(before.get, keys)]], [*map(after.get, keys)])
    assert Changes.joined([Changes([], [[]], []), *found]) == expected
    assert sorted(bounds) == bounds
    if bounds:
        assert bounds[-1] >= max([*before, *after])
