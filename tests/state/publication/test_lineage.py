"""`_stateshift.json`: written, read, and never trusted further than its form."""

import json

import pytest

from stateshift import CorruptSavepoint, Savepoint, UnsupportedFormat
from stateshift.state.publication.lineage import LINEAGE, FileDigest, Lineage, StateCount

COUNT = StateCount("00" * 16, "op", "state", "value", "convert", 5, 4, 1, "00ff")
FULL = Lineage(
    stateshift="1.0",
    created="2026-01-01T00:00:00+00:00",
    job="job a:b",
    source={"place": "/old", "metadata_sha256": "00"},
    plan={"operators": []},
    states=(COUNT,),
    files={"_metadata": FileDigest.of(b"abc")},
    history=({"job": "before"},),
)


@pytest.mark.parametrize("lineage", [FULL, Lineage(stateshift="1", created="", job="")])
def test_it_is_read_as_it_was_written(lineage):
    assert lineage == Lineage.from_json(lineage.to_json())


def test_equal_lineages_are_equal_bytes():
    other = Lineage.from_json(FULL.to_json())

    assert FULL.to_json() == other.to_json()
    assert FULL.to_json().endswith(b"\n")


def test_a_digest_is_size_and_xxh3_of_128_bits():
    assert FileDigest(3, "06b05ab6733a618578af5f94892f3950") == FileDigest.of(b"abc")


def test_a_lineage_becomes_history_without_its_files():
    (before, mine) = FULL.as_history()

    assert {"job": "before"} == before
    assert (FULL.source, FULL.plan, FULL.created) == (mine["source"], mine["plan"], mine["created"])
    assert {"files", "history"}.isdisjoint(mine)
    json.dumps(mine)


def test_savepoints_of_flink_have_none(savepoint_of):
    assert Savepoint.open(savepoint_of("rocksdb-account-v1")).lineage is None
    assert Savepoint.open(savepoint_of("rocksdb-account-v1")).lineage is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"5",
        b"\xff\xfe",
        b"{}",
        b'{"format": 2}',
        FULL.to_json()[:-20],
        FULL.to_json().replace(b'"states"', b'"stutes"'),
        FULL.to_json().replace(b'"written"', b'"wrote"'),
        FULL.to_json().replace(b'"xxh128"', b'"sha1"'),
        b'{"format": 2, "states": 5, "files": {}, "history": []}',
        b'{"format": 2, "states": [], "files": [], "history": []}',
        b"[" * 100000,
        FULL.to_json().replace(b'"kind": "value"', b'"kind": "valley"'),
        FULL.to_json().replace(b'"kind": "value"', b'"kind": []'),
        FULL.to_json().replace(b'"state": "state"', b'"state": ["state"]'),
        FULL.to_json().replace(b'"operator_id": "', b'"operator_id": {}, "operator_id_": "'),
        FULL.to_json().replace(b'"size": 3', b'"size": "3"'),
        FULL.to_json().replace(b'"source": {', b'"source": 5, "plan": {'),
    ],
    ids=range(21),
)
def test_what_is_no_lineage_is_corrupt_and_says_what_to_do(data):
    with pytest.raises(CorruptSavepoint, match="the lineage cannot be read") as caught:
        Lineage.from_json(data)
    assert LINEAGE == caught.value.where["file"]
    assert "remove the file" in caught.value.advice


@pytest.mark.parametrize("form", [1, 3])
def test_another_format_is_refused_as_such(form):
    with pytest.raises(UnsupportedFormat, match=f"has format {form}, but this release reads 2") as caught:
        Lineage.from_json(FULL.to_json().replace(b'"format": 2', b'"format": %d' % form))
    assert "remove the file" in caught.value.advice


def test_a_damaged_lineage_is_reported_with_the_savepoint(savepoint_copy):
    folder = savepoint_copy("rocksdb-account-v1")
    (folder / LINEAGE).write_bytes(b"{")

    with pytest.raises(CorruptSavepoint) as caught:
        Savepoint.open(folder)
    assert {"savepoint": str(folder), "file": LINEAGE} == caught.value.where
