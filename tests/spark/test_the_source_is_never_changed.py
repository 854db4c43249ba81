"""No spelling of a place, no handle and no verb makes a run write to what it reads, or to what another reads.

A place is written in many ways: as a path, by links and mounts, as a URI, with various schemes, escapes, endpoints.
Each is given as the target of every verb that writes, in every mode, as it is and with a folder inside it. Then all
that lies around the source is what it was, down to the numbers of its files.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import source_safety
from pyarrow import fs
from pyspark.errors import PySparkException

from stateshift import Savepoint, StateSource, TargetExists, bootstrap
from stateshift.spark import register
from stateshift.state.savepoint.verify import verify

LOCAL = {
    "a path": "{world}/sp",
    "from the current folder": "sp",
    "from the current folder, with a dot": "./sp",
    "..": "x/../sp",
    "out and in again": "../world/sp",
    "a slash at the end": "{world}/sp/",
    "two slashes": "{world}//sp",
    "two slashes at the beginning": "/{world}/sp",
    "a dot": "{world}/./sp",
    "a link": "{world}/link",
    "a link to a link": "{world}/links/again",
    "a link in its parents": "{world}/up/sp",
    "a link, and .. behind it": "{world}/far/into/../sp",
    "/proc, root": "/proc/self/root{world}/sp",
    "/proc, current folder": "/proc/self/cwd/sp",
    "file:/": "file:{world}/sp",
    "file:///": "file://{world}/sp",
    "file://localhost": "file://localhost{world}/sp",
    "FILE:": "FILE:{world}/sp",
    "file:, a slash at the end": "file:{world}/sp/",
    "file:, two slashes": "file://{world}//sp",
    "file:, %": "file://{world}/s%70",
    "file:, % for a slash": "file://{world}%2Fsp",
    "file:, ..": "file:{world}/x/../sp",
    "file:, a link": "file:{world}/link",
    "file:, a link to a link": "file://{world}/links/again",
    "file:, a link in its parents": "file:{world}/up/sp",
    "file:, a link, and .. behind it": "file:{world}/far/into/../sp",
    "file:, /proc, root": "file:///proc/self/root{world}/sp",
    "file:, /proc, current folder": "file:/proc/self/cwd/sp",
}
"""Spellings of one local folder, `sp` in the folder `world`, which is the current one."""

STORE = {
    "s3": "s3://savepoints/{world}/sp?{here}",
    "s3a": "s3a://savepoints/{world}/sp?{here}",
    "s3n": "s3n://savepoints/{world}/sp?{here}",
    "S3": "S3://savepoints/{world}/sp?{here}",
    "S3a": "S3a://savepoints/{world}/sp?{here}",
    "%": "s3://savepoints/{world}/s%70?{here}",
    "% for a slash": "s3://savepoints/{world}%2Fsp?{here}",
    "% in the bucket": "s3://%73avepoints/{world}/sp?{here}",
    "a slash at the end": "s3://savepoints/{world}/sp/?{here}",
    "options in another order": "s3://savepoints/{world}/sp?scheme=http&endpoint_override=127.0.0.1:{port}",
    "another option": "s3://savepoints/{world}/sp?{here}&region=eu-central-1",
    "localhost": "s3://savepoints/{world}/sp?endpoint_override=localhost:{port}&scheme=http",
    "LOCALHOST": "s3://savepoints/{world}/sp?endpoint_override=LOCALHOST:{port}&scheme=http",
    "127.1": "s3://savepoints/{world}/sp?endpoint_override=127.1:{port}&scheme=http",
    "another port": "s3://savepoints/{world}/sp?endpoint_override=127.0.0.1:{proxy}&scheme=http",
    "another port, s3a, %": "s3a://savepoints/{world}/%73p?endpoint_override=localhost:{proxy}&scheme=http",
    "the environment": "s3://savepoints/{world}/sp",
    "the environment, s3a, %": "s3a://savepoints/{world}/s%70",
}
"""Spellings of one folder of a store."""

STRANGE = {
    "two slashes": "s3://savepoints/{world}//sp?{here}",
    "..": "s3://savepoints/{world}/x/../sp?{here}",
    "a dot": "s3://savepoints/{world}/./sp?{here}",
    "two escapes": "s3://savepoints/{world}/s%2570?{here}",
    "../ escaped": "s3://savepoints/{world}/x/%2E%2E/sp?{here}",
}
"""Whether these are the same folder is for the store to say; whichever it is, the source stays."""

INSIDE = "/inner"


def some_of(spellings, verbs, *, on_store=False):
    """Every spelling with every verb: each with a third of the others in every run, and with the rest in slow ones.

    On a store, where that takes minutes, a quarter is left of this; three quarters run with the faults.
    """

    def marks(number):
        if on_store and number % 4:
            return [pytest.mark.faults]
        return [pytest.mark.slow] if number // (4 if on_store else 1) % 3 else []

    return [
        pytest.param(spelling, verb, marks=marks(first + second))
        for first, spelling in enumerate(spellings)
        for second, verb in enumerate(verbs)
    ]


def inside(spelling):
    """Spell a folder inside the one that is spelled."""
    base, mark, options = spelling.partition("?")
    return base.rstrip("/") + INSIDE + mark + options


def refused(outcome, verb, source, target):
    """The run ended before it wrote anything, and its message is true."""
    told = " ".join(outcome.text.split())  # where its lines are divided depends on the paths

    assert outcome.status == 2, told
    assert "Traceback" not in told
    if verb != "clean":
        assert "Nothing was" in told
    if verb in source_safety.WITH_SOURCE and ("there is a savepoint in" in told or "lies inside the savepoint" in told):
        # Only a claim could prove that two endpoints are one, and none is created where a savepoint lies.
        assert urlsplit(target).query != urlsplit(source).query, told
        return
    if verb in source_safety.WITH_SOURCE:
        assert source_safety.names(told, target), f"the target {target} is not named in:\n{told}"
        assert source_safety.names(told, source), f"the source {source} is not named in:\n{told}"
        assert "is the source" in told or "inside" in told, told
        assert "--target-exists replace" not in told, "that would not help"


@pytest.fixture(scope="session")
def savepoint(tmp_path_factory):
    """A savepoint with two files of state; it is copied, and never given to a verb itself."""
    place = tmp_path_factory.mktemp("original") / "sp"
    source_safety.write_source(place)
    return place


@pytest.fixture
def world(tmp_path, savepoint, monkeypatch):
    """The current folder: the source `sp`, another savepoint, and the links that lead there."""
    folder = tmp_path / "world"
    for name in ("x", "links", "far"):
        (folder / name).mkdir(parents=True)
    shutil.copytree(savepoint, folder / "sp")
    shutil.copytree(savepoint, folder / "other")
    (folder / "link").symlink_to("sp")
    (folder / "links" / "again").symlink_to("../link")
    (folder / "up").symlink_to(folder)
    (folder / "far" / "into").symlink_to("../x")
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize(("spelling", "verb"), some_of(LOCAL, source_safety.VERBS))
def test_a_local_source_under_any_name_is_no_target(world, spelling, verb):
    source, target = str(world / "sp"), LOCAL[spelling].format(world=world)
    before = source_safety.tree(world)

    outcome = source_safety.VERBS[verb](source, target)

    assert source_safety.differences(before, source_safety.tree(world)) == {}, outcome.text
    refused(outcome, verb, source, target)


@pytest.mark.parametrize(("spelling", "verb"), some_of(LOCAL, source_safety.VERBS))
def test_no_target_lies_inside_a_local_source_under_any_name(world, spelling, verb):
    source, target = str(world / "sp"), inside(LOCAL[spelling].format(world=world))
    before = source_safety.tree(world)

    outcome = source_safety.VERBS[verb](source, target)

    assert source_safety.differences(before, source_safety.tree(world)) == {}, outcome.text
    if verb != "clean":  # there is nothing to remove, and it may say so
        refused(outcome, verb, source, target)


@pytest.mark.parametrize(("spelling", "verb"), some_of(LOCAL, source_safety.WITH_SOURCE))
def test_a_local_source_that_is_given_under_any_name_is_no_target(world, spelling, verb):
    source, target = LOCAL[spelling].format(world=world), str(world / "sp")
    before = source_safety.tree(world)

    outcome = source_safety.VERBS[verb](source, target)

    assert source_safety.differences(before, source_safety.tree(world)) == {}, outcome.text
    refused(outcome, verb, source, target)


@pytest.mark.parametrize("verb", source_safety.WITH_SOURCE)
@pytest.mark.parametrize("target", ["{world}/sp", "file:{world}/link", "{world}/sp/inner", "{world}/sp/_metadata"])
def test_a_source_may_be_given_as_its_metadata(world, target, verb):
    source, target = str(world / "sp" / "_metadata"), target.format(world=world)
    before = source_safety.tree(world)

    outcome = source_safety.VERBS[verb](source, target)

    assert source_safety.differences(before, source_safety.tree(world)) == {}, outcome.text
    assert outcome.status != 0, outcome.text


@pytest.mark.parametrize("verb", [verb for verb in source_safety.VERBS if verb != "clean"])
@pytest.mark.parametrize("target", ["other/inner", "other/deep/inner", "file:{world}/other/inner"])
def test_no_target_lies_inside_a_savepoint_that_is_not_the_source(world, target, verb):
    """Who removes or moves that savepoint would take the new one along."""
    target = target.format(world=world)
    before = source_safety.tree(world)

    outcome = source_safety.VERBS[verb](str(world / "sp"), target)

    assert source_safety.differences(before, source_safety.tree(world)) == {}, outcome.text
    assert outcome.status == 2, outcome.text
    assert source_safety.names(outcome.text, target), outcome.text
    assert "inside" in outcome.text


@pytest.mark.parametrize("verb", [verb for verb in source_safety.WITH_SOURCE if verb.endswith(("replace", "write"))])
def test_a_copy_made_of_hard_links_shares_no_bytes_with_the_source(world, verb):
    """Each file of both is one file under two names: to write into one would change the other."""
    shutil.rmtree(world / "other")
    (world / "other").mkdir()
    for file in (world / "sp").iterdir():
        (world / "other" / file.name).hardlink_to(file)
    before = source_safety.tree(world / "sp")

    source_safety.VERBS[verb](str(world / "sp"), str(world / "other"))

    assert source_safety.differences(before, source_safety.tree(world / "sp")) == {}
    assert verify(Savepoint.open(world / "other")).ok


MOUNTED = """
import json, os, pathlib, shutil, subprocess, sys
import source_safety

original, folder, others = map(pathlib.Path, sys.argv[1:])
world = folder / "world"
(folder / "mnt").mkdir(parents=True)
found = []
for what, spelling in (("sp", "{mnt}"), ("sp", "file:{mnt}"), ("", "{mnt}/sp"), ("", "file:{mnt}/sp")):
    for end in ("", "/inner"):
        for verb, act in source_safety.VERBS.items():
            shutil.rmtree(world, ignore_errors=True)
            shutil.copytree(original, world / "sp")
            subprocess.run(["mount", "--bind", world / what, folder / "mnt"], check=True)
            before = source_safety.tree(world)
            source, target = str(world / "sp"), spelling.format(mnt=folder / "mnt") + end
            outcome = act(source, target)
            changed = source_safety.differences(before, source_safety.tree(world))
            subprocess.run(["umount", folder / "mnt"], check=True)
            found.append([verb, source, target, changed, outcome.status, outcome.text])
others.write_text(json.dumps(found))
"""


@pytest.fixture(scope="session")
def may_mount():
    """The beginning of a command whose mounts no other process sees."""
    for user in ([], ["--user", "--map-root-user"]):
        alone = ["unshare", *user, "--mount", "--propagation", "private"]
        try:
            tried = subprocess.run([*alone, "mount", "--bind", "/tmp", "/mnt"], capture_output=True, check=False)  # noqa: S108
        except FileNotFoundError:
            break
        if tried.returncode == 0:
            return alone
    pytest.skip("no mounts may be made here")


def test_a_source_that_is_mounted_a_second_time_is_no_target(may_mount, savepoint, tmp_path):
    """As a whole, and as part of a folder; all verbs in one process, since each process would have to mount again."""
    environment = os.environ | {"PYTHONPATH": str(Path(source_safety.__file__).parent)}
    places = savepoint, tmp_path / "mounts", tmp_path / "found"
    subprocess.run([*may_mount, sys.executable, "-c", MOUNTED, *places], env=environment, check=True, timeout=300)

    found = json.loads((tmp_path / "found").read_text())
    assert len(found) == 8 * len(source_safety.VERBS)
    assert [] == [(verb, target, changed) for verb, _, target, changed, _, _ in found if changed]
    for verb, source, target, _, status, text in found:
        if (verb, target.endswith(INSIDE)) != ("clean", True):
            refused(source_safety.Outcome(status, text), verb, source, target)


# The state files of a checkpoint lie in a folder next to its own.


SHARED = {
    "a path": "{job}/shared",
    "..": "{job}/chk-7/../shared",
    "a link": "{job}/link",
    "file:, a link in its parents": "file:{job}/up/shared",
    "file:, %": "file://{job}/share%64",
    "/proc": "file:///proc/self/root{job}/shared",
}


@pytest.fixture
def checkpoint(tmp_path, savepoint):
    """The folder of a job: its checkpoint `chk-7` refers to files in `shared`, which are named as a run names them."""
    job = tmp_path / "job"
    (job / "shared").mkdir(parents=True)
    shutil.copytree(savepoint, job / "chk-7")
    source_safety.point_elsewhere(job / "chk-7", job / "shared", f"file:{job}/shared")
    (job / "link").symlink_to("shared")
    (job / "up").symlink_to(job)
    return job


@pytest.mark.parametrize("verb", source_safety.VERBS)
@pytest.mark.parametrize("spelling", SHARED)
def test_no_target_is_a_folder_that_handles_of_the_source_point_into(checkpoint, spelling, verb):
    source, target = str(checkpoint / "chk-7"), SHARED[spelling].format(job=checkpoint)
    before = source_safety.tree(checkpoint)
    assert len(list((checkpoint / "shared").iterdir())) == 2

    outcome = source_safety.VERBS[verb](source, target)

    assert source_safety.differences(before, source_safety.tree(checkpoint)) == {}, outcome.text
    if verb in source_safety.WITH_SOURCE:
        assert outcome.status == 2, outcome.text
        assert source_safety.names(outcome.text, target), outcome.text
        assert "Nothing was" in outcome.text
    elif outcome.status == 0:
        assert verb == "clean"
        assert "removed" not in outcome.text


def test_a_checkpoint_whose_files_lie_next_to_it_is_migrated_elsewhere(checkpoint):
    """What is protected is protected; what is allowed works."""
    before = source_safety.tree(checkpoint)

    outcome = source_safety.VERBS["migrate, fail"](str(checkpoint / "chk-7"), str(checkpoint.parent / "new"))

    assert outcome.status == 0, outcome.text
    assert verify(Savepoint.open(checkpoint.parent / "new")).ok
    assert source_safety.differences(before, source_safety.tree(checkpoint)) == {}


# The same on a store.


@pytest.fixture(scope="session")
def proxy(s3):
    with source_safety.Proxy(s3.port) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def spell(s3, proxy):
    """`spell("s3://…/{world}/…", name)`: how the server is reached is filled in."""

    def fill(spelling, name):
        return spelling.format(world=name, here=s3.options.removeprefix("?"), port=s3.port, proxy=proxy.port)

    return fill


@pytest.fixture
def place(s3, savepoint, request, monkeypatch):
    """The name of a folder on the server, in which the source is `sp`; the environment knows the server, too."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{s3.port}")
    name = f"sacred-{abs(hash(request.node.nodeid)):x}"
    fs.copy_files(str(savepoint), f"savepoints/{name}/sp", destination_filesystem=s3.files)
    yield name
    s3.files.delete_dir(f"savepoints/{name}")


@pytest.mark.parametrize(("spelling", "verb"), some_of(STORE, source_safety.VERBS, on_store=True))
def test_a_source_on_a_store_under_any_name_is_no_target(s3, place, spell, spelling, verb):
    source, target = spell(STORE["s3"], place), spell(STORE[spelling], place)
    before = source_safety.store_tree(s3.files, f"savepoints/{place}")

    outcome = source_safety.VERBS[verb](source, target)

    assert source_safety.differences(before, source_safety.store_tree(s3.files, f"savepoints/{place}")) == {}, (
        outcome.text
    )
    refused(outcome, verb, source, target)


@pytest.mark.parametrize(
    ("spelling", "verb"),
    some_of(STORE, ["migrate, fail", "repartition, replace", "write", "SavepointWriter", "clean"], on_store=True),
)
def test_no_target_lies_inside_a_source_on_a_store_under_any_name(s3, place, spell, spelling, verb):
    source, target = spell(STORE["s3"], place), inside(spell(STORE[spelling], place))
    before = source_safety.store_tree(s3.files, f"savepoints/{place}")

    outcome = source_safety.VERBS[verb](source, target)

    assert source_safety.differences(before, source_safety.store_tree(s3.files, f"savepoints/{place}")) == {}, (
        outcome.text
    )
    if verb != "clean":
        refused(outcome, verb, source, target)


@pytest.mark.parametrize(
    ("spelling", "verb"), some_of(STORE, ["migrate, replace", "repartition, replace", "write"], on_store=True)
)
def test_a_source_on_a_store_that_is_given_under_any_name_is_no_target(s3, place, spell, spelling, verb):
    source, target = spell(STORE[spelling], place), spell(STORE["s3"], place)
    before = source_safety.store_tree(s3.files, f"savepoints/{place}")

    outcome = source_safety.VERBS[verb](source, target)

    assert source_safety.differences(before, source_safety.store_tree(s3.files, f"savepoints/{place}")) == {}, (
        outcome.text
    )
    refused(outcome, verb, source, target)


@pytest.mark.parametrize(("spelling", "verb"), some_of(STRANGE, source_safety.WITH_SOURCE))
def test_a_spelling_that_stores_read_differently_harms_no_source(s3, place, spell, spelling, verb):
    source, target = spell(STORE["s3"], place), spell(STRANGE[spelling], place)
    before = source_safety.store_tree(s3.files, f"savepoints/{place}/sp")

    outcome = source_safety.VERBS[verb](source, target)

    assert source_safety.differences(before, source_safety.store_tree(s3.files, f"savepoints/{place}/sp")) == {}, (
        outcome.text
    )
    assert "Traceback" not in outcome.text
    if outcome.status == 0:
        assert verify(Savepoint.open(target)).ok
    assert not [name for name in source_safety.store_tree(s3.files, f"savepoints/{place}") if "_claim-" in name]


@pytest.mark.parametrize("verb", source_safety.VERBS)
def test_no_target_is_a_folder_of_a_store_that_handles_of_the_source_point_into(
    s3, place, spell, tmp_path, savepoint, verb
):
    """The handles of such a checkpoint say nothing of how the store is reached: the environment does."""
    shutil.copytree(savepoint, tmp_path / "sp")
    (tmp_path / "shared").mkdir()
    source_safety.point_elsewhere(tmp_path / "sp", tmp_path / "shared", f"s3://savepoints/{place}/job/shared")
    for name, there in (("sp", "chk-7"), ("shared", "shared")):
        fs.copy_files(str(tmp_path / name), f"savepoints/{place}/job/{there}", destination_filesystem=s3.files)
    source, target = f"s3://savepoints/{place}/job/chk-7", spell("s3a://savepoints/{world}/job/share%64?{here}", place)
    before = source_safety.store_tree(s3.files, f"savepoints/{place}")

    outcome = source_safety.VERBS[verb](source, target)

    assert source_safety.differences(before, source_safety.store_tree(s3.files, f"savepoints/{place}")) == {}, (
        outcome.text
    )
    if verb in source_safety.WITH_SOURCE:
        assert outcome.status == 2, outcome.text
        assert source_safety.names(outcome.text, target), outcome.text


@pytest.mark.parametrize(("end", "verb"), some_of(["sp", "sp/inner"], source_safety.WITH_SOURCE))
def test_two_stores_may_have_a_bucket_and_a_folder_of_one_name(s3, other_s3, place, spell, verb, end):
    """They are two places, however alike they are called."""
    source, target = spell(STORE["s3"], place), other_s3.place(f"{place}/{end}")
    before = source_safety.store_tree(s3.files, f"savepoints/{place}")

    outcome = source_safety.VERBS[verb](source, target)

    assert outcome.status == 0, outcome.text
    assert source_safety.differences(before, source_safety.store_tree(s3.files, f"savepoints/{place}")) == {}
    written = source_safety.store_tree(other_s3.files, f"savepoints/{place}/{end}")
    assert "_metadata" in written
    assert not [name for name in written if "_claim-" in name or ".attempt-" in name or name.endswith(".done")]
    assert verify(Savepoint.open(target)).ok
    other_s3.files.delete_dir(f"savepoints/{place}")


def test_what_lies_in_the_second_store_is_replaced_and_the_first_is_as_it_was(s3, other_s3, place, spell):
    source, target = spell(STORE["s3"], place), other_s3.place(f"{place}/sp")
    first = source_safety.VERBS["migrate, fail"](source, target)
    before = source_safety.store_tree(s3.files, f"savepoints/{place}")

    again = source_safety.VERBS["repartition, replace"](source, target)

    assert (first.status, again.status) == (0, 0), first.text + again.text
    assert source_safety.differences(before, source_safety.store_tree(s3.files, f"savepoints/{place}")) == {}
    assert verify(Savepoint.open(target)).ok


# A few with Spark itself: its steps run in processes of their own.


SPELLED = ["a path", "file:, a link"]


@pytest.fixture
def rows(spark):
    register(spark)
    return spark.range(100).selectExpr("id as key", "id as value")


@pytest.mark.parametrize("end", ["", INSIDE])
@pytest.mark.parametrize("spelling", SPELLED)
def test_a_write_on_spark_finds_its_base_under_any_name(rows, world, spelling, end):
    base, target = str(world / "sp"), LOCAL[spelling].format(world=world) + end
    before = source_safety.tree(world)
    options = {"operator": "counter", "state": "count", "base": base}

    with pytest.raises(PySparkException) as caught:
        rows.write.format("savepoint").mode("overwrite").options(**options).save(target)

    assert source_safety.differences(before, source_safety.tree(world)) == {}
    assert "TargetExists: " in str(caught.value)
    assert source_safety.names(str(caught.value), base)
    assert source_safety.names(str(caught.value), target)


@pytest.mark.parametrize("end", ["", INSIDE])
@pytest.mark.parametrize("spelling", SPELLED)
def test_a_bootstrap_writes_into_no_savepoint_under_any_name(rows, world, spelling, end):
    target = LOCAL[spelling].format(world=world) + end
    before = source_safety.tree(world)
    source = StateSource("counter", "count", rows, key_by="key", value="value")

    with pytest.raises(TargetExists) as caught:
        bootstrap(target, source_safety.OLD, source)

    assert source_safety.differences(before, source_safety.tree(world)) == {}
    assert "Nothing was" in str(caught.value)


def test_a_bootstrap_on_a_store_writes_into_no_savepoint_under_any_name(rows, s3, place, spell):
    before = source_safety.store_tree(s3.files, f"savepoints/{place}")
    source = StateSource("counter", "count", rows, key_by="key", value="value")

    for spelling in ("s3a", "%", "another port"):
        for target in (spell(STORE[spelling], place), inside(spell(STORE[spelling], place))):
            with pytest.raises(TargetExists):
                bootstrap(target, source_safety.OLD, source)

    assert source_safety.differences(before, source_safety.store_tree(s3.files, f"savepoints/{place}")) == {}
