"""Every command on native snapshots of RocksDB and ForSt: it says of them what it says of canonical savepoints."""

from __future__ import annotations

import re
import shlex
import shutil
import struct
import sys

import attrs
import native_snapshots
import pytest

from stateshift import DataOutputView, Savepoint
from stateshift.state.formats.flink.handles import KEYED_HANDLE
from stateshift.state.formats.flink.metadata import METADATA, read_metadata, write_metadata

CLAIMED = "rocksdb-incremental-tuple-claimed"
MERGED = "rocksdb-incremental-merged-files"
TIMERS = "state.backend.rocksdb.timer-service.factory"
CANONICAL = ("--format", "canonical")
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
    operator = Savepoint.open(place).operator(native_snapshots.KEYED)  # Flink 1.20 stores no uids
    keyed = next(one for one in inspected.data["operators"] if one["operator_id"] == operator.operator_id)
    flinks = next(one for one in expected["operators"] if one["uid"] == native_snapshots.KEYED)
    assert {state: rows(one["entries"], one["kind"]) for state, one in flinks["keyed"].items()} == {
        state["name"]: state["entries"] for state in keyed["states"] if state["name"] in flinks["keyed"]
    }
    assert (expected["parallelism"], expected["max_parallelism"]) == (keyed["parallelism"], keyed["max_parallelism"])

    verified = run("verify", place)
    assert 0 == verified.status
    assert "every value ends where its type requires" in verified.stdout
    assert "are in the key group of their key" in verified.stdout
    assert "the checksums of RocksDB cover the blocks that were read" in verified.stdout

    assert 0 == run("init", place, "-o", "stored.py").status
    assert 0 == run("check", place, "--job", "stored:job").status
    assert 0 == run("check", place, "--like", place).status
    assert 0 == run("snapshot", place, "-o", "types.json").status
    diffed = run("diff", "types.json", place)
    assert 0 == diffed.status, diffed.stdout
    assert "equal" in diffed.stdout
    assert {"stored.py", "types.json"} == {file.name for file in job_folder.iterdir() if file.is_file()}


@pytest.mark.parametrize("name", native_snapshots.NAMES)
def test_it_becomes_canonical_and_nothing_else_changes(run, tmp_path, name):
    place = native_snapshots.snapshot(name)

    planned, migrated = run("plan", place, *CANONICAL), run("migrate", place, tmp_path / "new", *CANONICAL)
    diffed = run("diff", place, tmp_path / "new")

    assert (0, 0) == (planned.status, migrated.status), planned.stderr + migrated.stderr
    assert "from the native format into the canonical one" in planned.stdout
    assert 0 == run("verify", tmp_path / "new").status
    assert 0 == diffed.status, diffed.stdout
    assert "values: equal in" in diffed.stdout
    again = run("migrate", tmp_path / "new", tmp_path / "again")  # it is canonical now: nothing is left to change
    assert 2 == again.status
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize("name", [CLAIMED, MERGED, "forst-incremental-long-p2-m128"])
def test_it_stays_native_without_a_word(run, tmp_path, name):
    place = native_snapshots.snapshot(name)

    planned, migrated = run("plan", place), run("migrate", place, tmp_path / "new")

    assert (0, 0) == (planned.status, migrated.status), planned.stderr + migrated.stderr
    assert "in new files of RocksDB" in planned.stdout
    kept = "kept as they are, and not read: "
    (said,) = (line for line in planned.stdout.splitlines() if line.startswith(kept))
    assert said.removeprefix(kept).split(" files")[0] in migrated.stdout.split(kept)[1]
    started = f"flink run -s {tmp_path / 'new'} --claimMode NO_CLAIM -D{TIMERS}=ROCKSDB …"
    assert started in " ".join(migrated.stdout.split())
    assert 0 == run("verify", tmp_path / "new").status
    assert "values: equal in" in run("diff", place, tmp_path / "new").stdout
    assert {"database", None} == {
        operator["format"] for operator in run("inspect", tmp_path / "new", "--json").data["operators"]
    }


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
    assert re.search(rf"--checkpoint-root {native_snapshots.ORIGINAL_ROOT}/0*[12]/shared=FOLDER", refused.stderr)
    assert (0, 0) == (read.status, migrated.status), read.stderr + migrated.stderr
    assert 0 == run("diff", native_snapshots.snapshot(CLAIMED), tmp_path / "new").status


@pytest.mark.parametrize("verb", ["migrate", "plan", "verify", "diff"])
def test_all_files_that_a_download_lacks_are_named_before_anything_is_read(run, tmp_path, verb):
    copy = native_snapshots.copied(CLAIMED, tmp_path / "copy")
    gone = sorted((copy.parents[1] / f"{1:0>32}" / "shared").iterdir())[:3]
    for file in gone:
        file.unlink()
    whole = native_snapshots.snapshot(CLAIMED)
    words = {"migrate": [copy, tmp_path / "new", "--dry-run"], "diff": [whole, copy]}

    ran = run(verb, *words.get(verb, [copy]))

    assert (1 if verb == "verify" else 3) == ran.status
    told = ran.stdout if verb == "verify" else ran.stderr
    assert "3 files are missing" in told
    assert all(file.name in told for file in gone)
    assert (verb == "diff") is ("where: side B, savepoint " in told)


@pytest.mark.parametrize("pair", ["/old", "=/new", "/old="])
def test_a_root_without_two_places_is_wrong_usage(run, pair):
    ran = run("verify", native_snapshots.snapshot(CLAIMED), "--checkpoint-root", pair)

    assert 2 == ran.status
    assert "give OLD=NEW" in ran.stderr


def test_a_migration_ends_with_a_comparison_that_needs_no_further_option(run, tmp_path):
    copy = native_snapshots.copied(CLAIMED, tmp_path / "copy")
    files = (copy.parents[1] / f"{1:0>32}" / "shared").rename(tmp_path / "the files")
    root = f"{native_snapshots.ORIGINAL_ROOT}/{1:0>32}/shared={files}"

    migrated = run("migrate", copy, tmp_path / "new", "--checkpoint-root", root)

    (line,) = (line for line in migrated.stdout.splitlines() if "and that nothing is missing: " in line)
    _, command = line.split("stateshift ")
    assert ["diff", str(copy), str(tmp_path / "new"), "--checkpoint-root", root] == shlex.split(command)
    assert 0 == run(*shlex.split(command)).status


def test_sources_without_a_position_are_named(run, tmp_path):
    place = native_snapshots.snapshot("rocksdb-incremental-string-p1-m128")

    text, data = run("migrate", place, tmp_path / "a"), run("migrate", place, tmp_path / "b", "--json").data

    assert ["events", "rules"] == data["unplaced_sources"]
    told = (
        "no position of the sources events and rules is in the savepoint: the job begins where their configuration says"
    )
    assert f"  {told}" in text.stdout.splitlines()


# State that only its operator can read.


@pytest.fixture
def with_heap_timers(tmp_path):
    """A copy of a checkpoint with timers on the heap, and the file of one of their streams."""
    name = "rocksdb-heap-timers-p2"
    copy = shutil.copytree(native_snapshots.FIXTURES / "flink-2.3-native" / name, tmp_path / name)
    place = copy / "checkpoints" / f"{1:0>32}" / "chk-4"
    return place, place / Savepoint.open(place).operator("timers").stored.subtasks[0].raw_keyed.stream.path


def test_state_that_only_its_operator_reads_is_compared_as_bytes(run, tmp_path, with_heap_timers):
    place, file = with_heap_timers
    migrated = run("migrate", place, tmp_path / "new")

    equal = run("diff", place, tmp_path / "new")
    file.write_bytes(bytes(file.stat().st_size))
    zeroed = run("diff", place, tmp_path / "new")
    file.unlink()
    gone = run("diff", place, tmp_path / "new")

    assert (
        "  raw keyed state (timers that the job kept on the heap): 4 streams carried over as bytes"
        in migrated.stdout.splitlines()
    )
    assert (0, 1, 3) == (equal.status, zeroed.status, gone.status)
    assert (
        "values: equal in 2 states, with 40 entries; equal as bytes: raw keyed state in 4 streams"
        == equal.stdout.splitlines()[-1]
    )
    assert "different: the types are equal, values of 1 state are not" == zeroed.stdout.splitlines()[0]
    assert zeroed.stdout.splitlines()[-2:] == [
        "values of timers/raw keyed state: 1 changed, 0 added, 0 removed",
        "  ~ subtask 0  14,222 bytes -> 14,222 bytes",
    ]
    assert file.name in gone.stderr


def test_state_that_only_its_operator_reads_is_not_compared_at_another_parallelism(run, tmp_path, with_heap_timers):
    place, _ = with_heap_timers
    other = shutil.copytree(place.parents[2], tmp_path / "other") / "checkpoints" / f"{1:0>32}" / "chk-4"
    metadata = read_metadata((other / METADATA).read_bytes())
    operators = [attrs.evolve(one, parallelism=one.parallelism + 1) for one in metadata.operators]
    (other / METADATA).write_bytes(write_metadata(attrs.evolve(metadata, operators=tuple(operators))))

    ran = run("diff", place, other)

    assert 1 == ran.status
    (told,) = [line for line in ran.stdout.splitlines() if "timers/raw keyed state" in line]
    assert ": not compared, since the numbers of subtasks differ" in told


# Without the library that reads databases.


@pytest.fixture
def without_rocksdict(monkeypatch):
    """As on a machine where it is not installed."""
    monkeypatch.setitem(sys.modules, "rocksdict", None)


@pytest.mark.usefixtures("without_rocksdict", "job_folder")
@pytest.mark.parametrize(
    "verb", [["export"], ["verify"], ["init", "-o", "-"], ["plan"], ["migrate", "TARGET"], ["diff", "SP"]], ids=" ".join
)
def test_what_reads_entries_says_what_to_install(run, tmp_path, verb):
    place = native_snapshots.snapshot("rocksdb-native-long-p2-m200")
    words = {"SP": place, "TARGET": tmp_path / "new"}

    ran = run(verb[0], place, *(words.get(word, word) for word in verb[1:]))

    assert 2 == ran.status, ran.stdout + ran.stderr
    assert (
        "LibraryNotFound: state in files of RocksDB is read by a library that is not installed: rocksdict" in ran.stderr
    )
    assert "what to do: pip install 'stateshift[rocksdb]'" in ran.stderr
    assert not (tmp_path / "new").exists()


@pytest.mark.usefixtures("without_rocksdict")
def test_inspect_shows_all_but_the_numbers(run):
    """Types are in the header of the state: they are read without the library."""
    ran = run("inspect", native_snapshots.snapshot("rocksdb-native-long-p2-m200"))

    assert 2 == ran.status
    assert "key long, parallelism 2, max parallelism 200" in ran.stdout
    assert "tuple<long, long> (not counted)" in ran.stdout
    assert "damaged" not in ran.stdout
    assert "what to do: pip install 'stateshift[rocksdb]'" in ran.stderr


@pytest.mark.usefixtures("without_rocksdict", "job_folder")
def test_what_compares_types_needs_no_library(run):
    place = native_snapshots.snapshot("rocksdb-native-long-p2-m200")

    assert 0 == run("check", place, "--like", place).status
    assert 0 == run("snapshot", place, "-o", "types.json").status
    assert 0 == run("diff", "types.json", place).status


# What is refused.


def refused(run, place, words):
    ran = run("verify", place)
    assert 3 == ran.status, ran.stdout + ran.stderr
    assert words in ran.stderr
    return ran


@pytest.mark.parametrize("tag", [13, 14])
def test_a_checkpoint_of_the_changelog_backend_is_refused_with_the_way_out(run, tmp_path, tag):
    """Its latest changes are in a log: what can be read without is of an earlier moment."""
    copy = native_snapshots.copied("rocksdb-native-long-p2-m200", tmp_path / "copy")
    data = (copy / "_metadata").read_bytes()
    target = DataOutputView()
    KEYED_HANDLE.write(target, native_snapshots.keyed_handles(copy)[0])
    handle = target.getvalue()
    assert 1 == data.count(handle)
    changelog = bytes([14]) + struct.pack(">iiqi", 0, 100, 1000, 1) + handle + struct.pack(">iqqH", 0, 1, 2, 2) + b"id"
    if tag == 13:
        changelog = bytes([13]) + struct.pack(">iiiqqH", 0, 100, 0, 5, 5, 2) + b"id" + struct.pack(">H", 3) + b"log"
    (copy / "_metadata").write_bytes(data.replace(handle, changelog))

    ran = refused(
        run, copy, "UnsupportedFormat: the keyed state handle is of a checkpoint of the changelog state backend"
    )

    assert "take a savepoint in the canonical format" in ran.stderr


@pytest.mark.parametrize(
    "name", ["../000034.sst", "/etc/passwd", "a/000034.sst", "000034.sst/", "LOCK", "IDENTITY", "000034.log", "",
             "MANIFEST-", "OPTIONS-x", "CURRENT ", "..", "000034.sst\0", "\N{ARABIC-INDIC DIGIT THREE}.sst"]
)  # fmt: skip
def test_a_name_that_no_database_gives_its_files_is_refused(run, tmp_path, name):
    """Files are linked under these names: none may leave the folder, or mean something else to RocksDB."""
    copy = native_snapshots.copied("rocksdb-native-long-p2-m200", tmp_path / "copy")

    def named(index, handle):
        first, *others = handle.shared
        return attrs.evolve(handle, shared=(attrs.evolve(first, name=name), *others)) if index == 0 else handle

    native_snapshots.with_keyed_handles(copy, named)
    ran = run("export", copy, "--state", "count")

    assert 3 == ran.status, ran.stdout + ran.stderr
    assert "is not the name of a file of a RocksDB database" in ran.stderr
    assert "" == ran.stdout
