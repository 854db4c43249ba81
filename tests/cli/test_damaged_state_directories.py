"""A damaged state directory ends no command with 0 and other contents, and none with a traceback."""

from __future__ import annotations

import json
import shutil

import damaged_directories
import pytest
from a_few import a_few
from damaged_directories import damage
from streaming_batches import BACKENDS

from stateshift.serializers.errors import CorruptFile
from stateshift.state.directory.directory import StateDirectory
from stateshift.state.storage.files import Folder

STEP = 3


@pytest.fixture(scope="module", params=sorted(BACKENDS))
def sound(request, tmp_path_factory):
    """State directory and checkpoint of a query that died in a batch; its contents, and a copy of both."""
    root = tmp_path_factory.mktemp("sound")
    contents = damaged_directories.make(root / "query" / "state", request.param)
    shutil.copytree(root / "query", root / "kept")
    return root / "query", contents, root / "kept"


@pytest.fixture
def query(sound):
    root, contents, kept = sound
    yield root / "state", contents, kept / "state"
    shutil.rmtree(root)
    shutil.copytree(kept, root)


def exported(run, place):
    ran = run("export", place, "--state", "total")
    assert "Traceback" not in ran.stderr
    assert ran.status in {0, 1, 2, 3}, ran
    return ran.status, {row["key"]: row["value"] for row in map(json.loads, ran.stdout.splitlines())}


def again(place, kept):
    shutil.rmtree(place)
    shutil.copytree(kept, place)


@pytest.mark.parametrize("first", a_few(range(0, 300, STEP), of=50, of_slow=4))
def test_a_damage_is_found_or_changes_nothing(run, query, tmp_path, first):
    place, contents, kept = query
    found = []
    for seed in range(first, first + STEP):
        again(place, kept)
        what = damage(place, seed)
        status, rows = exported(run, place)
        if status == 0 and rows != contents:
            found.append(f"{seed}: {what}: other contents")
        verified = run("verify", place)
        if verified.status not in {0, 1, 2, 3} or (status and not verified.status):
            found.append(f"{seed}: {what}: export ends with {status}, verify with {verified}")
        copy = tmp_path / f"copy {seed}"
        rewound = run("rewind", place, copy, "--checkpoint", tmp_path / f"back {seed}", "--to-batch", "4")
        status, rows = exported(run, copy) if rewound.status == 0 else (rewound.status, {})
        if rewound.status not in {0, 2, 3} or (status == 0 and rows != contents):
            found.append(f"{seed}: {what}: rewind ends with {rewound}, and its copy has {rows}")
        if rewound.status == 0 and status and not what.startswith("shared/"):  # which is linked, and not read
            found.append(f"{seed}: {what}: rewind ends with 0, and its copy cannot be read")
    assert [] == found


@pytest.mark.parametrize("first", a_few(range(0, 60, STEP), of=10))
def test_what_gc_deletes_from_a_damaged_directory_nothing_needed(run, query, first):
    place, contents, kept = query
    everything = [file.relative_to(place) for file in place.rglob("*") if file.is_file()]
    assert run("gc", place, "--older-than", "0").status == 0
    needed = [file.relative_to(place) for file in place.rglob("*") if file.is_file()]
    for seed in range(first, first + STEP):
        again(place, kept)
        what = damage(place, seed)
        damaged = {name for name in everything if _content(kept / name) != _content(place / name)}
        ran = run("gc", place, "--older-than", "0")
        assert ran.status in {0, 3}, f"{what}: {ran}"
        for name in damaged.intersection(everything if ran.status else needed):
            shutil.copy(kept / name, place / name)
        assert (0, contents) == exported(run, place), what


def _content(file):
    return file.read_bytes() if file.exists() else None


@pytest.fixture
def newest(query):
    """The newest committed manifest of each slot, and one that was not committed."""
    place, *_ = query
    names = sorted((place / "manifests").iterdir(), key=lambda file: file.name.split("-")[1:3])
    committed = [next(one for one in names if one.name.split("-")[1:3] == [str(slot), "4"]) for slot in range(3)]
    return committed, [one for one in names if one.name.split("-")[2] == "5"]


def test_a_missing_manifest_is_named(run, query, newest):
    (first, *_), _ = newest
    first.unlink()
    target = query[0].parent / "savepoint"
    for command in (
        ("export", query[0], "--state", "total"),
        ("verify", query[0]),
        ("inspect", query[0]),
        ("migrate", query[0], target),
        ("savepoint", query[0], target),
        ("gc", query[0]),
    ):
        ran = run(*command)
        assert ran.status == 3, ran
        assert "which Spark has committed with batch 4, is missing\n" in ran.stderr
        assert first.name in ran.stderr


def test_a_manifest_that_is_another_one_is_named(run, query, newest):
    place, *_ = query
    (first, second, _), uncommitted = newest
    for other in (second, uncommitted[0]):
        kept = first.read_bytes()
        shutil.copy(other, first)
        ran = run("export", place, "--state", "total")
        assert (3, "") == (ran.status, ran.stdout)
        assert "the manifest of slot 0 is not the one that Spark has committed with batch 4\n" in ran.stderr
        first.write_bytes(kept)


@pytest.mark.parametrize("name", ["epochs/1.json", "epochs/2.json"])
def test_a_missing_epoch_is_named(run, query, name):
    (query[0] / name).unlink()
    ran = run("inspect", query[0])
    assert ran.status == 3
    assert name in ran.stderr


def test_a_file_of_state_with_one_other_bit_is_named(run, query):
    place, *_ = query
    directory = StateDirectory.open(Folder.at(place))
    assert directory.last_epoch.number == 2
    for file in sorted((place / "files").iterdir()):
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
    ran = run("export", place, "--state", "total")
    assert (3, "") == (ran.status, ran.stdout)
    assert "its digest differs" in ran.stderr


def test_json_that_was_edited_does_not_match_its_seal(query):
    place, *_ = query
    file = place / "epochs" / "2.json"
    file.write_text(file.read_text(encoding="utf-8").replace('"slots": 3', '"slots": 2'), encoding="utf-8")
    with pytest.raises(CorruptFile, match="does not match its seal"):
        StateDirectory.open(Folder.at(place)).epoch(2)


def test_without_the_files_of_spark_names_decide_and_a_line_says_so(run, query):
    place, contents, _ = query
    (place.parent / "state-checkpoint/state/0/0/5.snapshot").write_bytes(b"")
    ran = run("export", place, "--state", "total")
    assert ran.status == 0
    assert contents == exported(run, place)[1]
    assert "not compared with what Spark has committed: the state of Spark in" in ran.stderr
    checks = run("verify", place, "--json").data["checks"]
    assert ["unproven"] == [one["status"] for one in checks if one["name"] == "committed"]
