"""Every command on native snapshots of RocksDB and ForSt: it says of them what it says of canonical savepoints."""

from __future__ import annotations

import shutil

import native_snapshots
import pytest

CLAIMED = "rocksdb-incremental-tuple-claimed"
MERGED = "rocksdb-incremental-merged-files"
COUNT = 'ValueStateDescriptor("count", int)'
CHANGED = 'ValueStateDescriptor("count", BigInt)'


def rows(entries, kind):
    """How many entries a state has by what its keys have."""
    return sum(len(value["$map"]) for _, value in entries) if kind == "MAP" else len(entries)


@pytest.mark.parametrize("name", native_snapshots.NAMES)
def test_what_only_reads_reads_it(run, job_folder, name):
    place = native_snapshots.snapshot(name)
    expected = native_snapshots.expected(name)

    inspected = run("inspect", place, "--json")
    assert (0, "") == (inspected.status, inspected.stderr)
    keyed = next(one for one in inspected.data["operators"] if one["uid"] == native_snapshots.KEYED)
    flinks = next(one for one in expected["operators"] if one["uid"] == native_snapshots.KEYED)
    assert {state: rows(one["entries"], one["kind"]) for state, one in flinks["keyed"].items()} == {
        state["name"]: state["entries"] for state in keyed["states"] if state["name"] in flinks["keyed"]
    }
    assert (expected["parallelism"], expected["max_parallelism"]) == (keyed["parallelism"], keyed["max_parallelism"])

    verified = run("verify", place)
    assert 0 == verified.status
    assert "every value ends where its type requires" in verified.stdout
    assert "are in the key group of their key" in verified.stdout

    assert 0 == run("init", place, "-o", "stored.py").status
    assert 0 == run("check", place, "--job", "stored:job").status
    assert 0 == run("check", place, "--like", place).status
    assert 0 == run("snapshot", place, "-o", "types.json").status
    diffed = run("diff", "types.json", place)
    assert 0 == diffed.status, diffed.stdout
    assert "equal" in diffed.stdout
    assert {"stored.py", "types.json"} == {file.name for file in job_folder.iterdir() if file.is_file()}


@pytest.mark.parametrize("name", native_snapshots.NAMES)
def test_it_becomes_canonical_without_a_job_and_nothing_else_changes(run, tmp_path, name):
    place = native_snapshots.snapshot(name)

    planned, migrated = run("plan", place), run("migrate", place, tmp_path / "new")
    diffed = run("diff", place, tmp_path / "new")

    assert (0, 0) == (planned.status, migrated.status), planned.stderr + migrated.stderr
    assert "from the native format into the canonical one" in planned.stdout
    assert 0 == run("verify", tmp_path / "new").status
    assert 0 == diffed.status, diffed.stdout
    assert "values: equal in" in diffed.stdout
    again = run("migrate", tmp_path / "new", tmp_path / "again")  # it is canonical now: nothing is left to change
    assert 2 == again.status
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize("name", [CLAIMED, MERGED, "forst-incremental-long-p2-m128", "rocksdb-native-long-p2-m200"])
def test_a_type_changes_on_the_way(run, job_folder, tmp_path, name):
    place = native_snapshots.snapshot(name)
    run("init", place, "-o", "stored.py")
    source = (job_folder / "stored.py").read_text(encoding="utf-8")
    changed = source.replace(COUNT, CHANGED).replace("import enum", "import enum\n\nfrom stateshift import BigInt", 1)
    assert COUNT in source
    (job_folder / "changed.py").write_text(changed, encoding="utf-8")

    checked = run("check", place, "--job", "changed:job")
    migrated = run("migrate", place, tmp_path / "new", "--job", "changed:job", "--parallelism", "3")

    assert 4 == checked.status
    assert "migrate: 1 of " in checked.stdout
    assert "long -> bigint  every long fits a bigint" in checked.stdout
    assert 0 == migrated.status, migrated.stderr
    assert 0 == run("check", tmp_path / "new", "--job", "changed:job").status
    exported = run("export", tmp_path / "new", "--operator", native_snapshots.KEYED, "--format", "tagged").data
    found = exported["operators"][0]["keyed"]
    flinks = next(o for o in native_snapshots.expected(name)["operators"] if o["uid"] == native_snapshots.KEYED)
    for state, one in flinks["keyed"].items():
        entries = one["entries"]
        if state == "count":
            entries = [[key, {"$bigint": str(value)}] for key, value in entries]
        assert sorted(map(str, entries)) == sorted(map(str, found[state]["entries"]))


def test_a_moved_checkpoint_says_what_is_needed_and_is_read_with_it(run, tmp_path):
    """`--checkpoint-root` is given twice: two jobs have files of it."""
    copy = native_snapshots.copied(CLAIMED, tmp_path / "copy")
    shutil.move(copy, tmp_path / "alone")
    roots = []
    for job in ("1", "2"):
        folder = f"{native_snapshots.ORIGINAL_ROOT}/{job:0>32}/shared"
        shutil.move(copy.parents[1] / f"{job:0>32}" / "shared", tmp_path / f"of {job}")
        roots += ["--checkpoint-root", f"{folder}={tmp_path}/of {job}"]

    refused, half = run("verify", tmp_path / "alone"), run("verify", tmp_path / "alone", *roots[:2])
    read = run("verify", tmp_path / "alone", *roots)
    migrated = run("migrate", tmp_path / "alone", tmp_path / "new", *roots)

    assert (2, 2) == (refused.status, half.status)
    assert f"{native_snapshots.ORIGINAL_ROOT}/{'1':0>32}/shared" in refused.stderr
    assert f"{native_snapshots.ORIGINAL_ROOT}/{'1':0>32}/shared" not in half.stderr
    assert f"{native_snapshots.ORIGINAL_ROOT}/{'2':0>32}/shared" in half.stderr
    assert f"--checkpoint-root {native_snapshots.ORIGINAL_ROOT}/{'1':0>32}/shared=FOLDER" in refused.stderr
    assert (0, 0) == (read.status, migrated.status), read.stderr + migrated.stderr
    assert 0 == run("diff", native_snapshots.snapshot(CLAIMED), tmp_path / "new").status


@pytest.mark.parametrize("pair", ["/old", "=/new", "/old="])
def test_a_root_without_two_places_is_wrong_usage(run, pair):
    ran = run("verify", native_snapshots.snapshot(CLAIMED), "--checkpoint-root", pair)

    assert 2 == ran.status
    assert "give OLD=NEW" in ran.stderr
