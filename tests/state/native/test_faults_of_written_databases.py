"""Faults while a native savepoint is written: it is complete, resumed or refused, and never has fewer entries."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import damaged_databases
import killed_native
import native_snapshots
import pytest
from fault_seeds import chosen_seeds
from object_store import s3, upload  # noqa: F401 - fixtures

from stateshift import (
    Edits,
    IfTargetExists,
    MigrationOptions,
    Savepoint,
    SourceChanged,
    migrate,
)
from stateshift.state.migration import outputs, rewrite
from stateshift.state.savepoint.verify import verify

TESTS = Path(__file__).parents[2]
SAMPLE = "rocksdb-native-long-p2-m200"
DROP = ("--drop", "counts")
EDITS = Edits(drop=("counts",))
SPREAD = pytest.mark.parametrize("seed", chosen_seeds("0-39"))
INSIDE = """
import subprocess, sys
disk, size, *command = sys.argv[1:]
subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", disk], check=True)
ran = subprocess.run(command, capture_output=True, text=True)
left = subprocess.run(["find", disk, "-type", "f"], capture_output=True, text=True).stdout
print(ran.returncode, left, ran.stderr, sep="\\n")
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return native_snapshots.apart(SAMPLE, tmp_path_factory.mktemp("source") / "copy")


@pytest.fixture(scope="module")
def sound(source, tmp_path_factory):
    """What a migration that nothing disturbs writes, as an export says it."""
    status, states, told = damaged_databases.migrated(source, tmp_path_factory.mktemp("sound") / "made", DROP)
    assert 0 == status, told
    return states


def killed(source, target, step, *options):
    ran = subprocess.run(
        [sys.executable, killed_native.__file__, str(source), str(target), str(step), *DROP, *options],
        capture_output=True, text=True, check=False, timeout=120, env=os.environ | {"PYTHONPATH": str(TESTS)},
    )  # fmt: skip
    return ran.returncode, ran.stdout


@pytest.fixture(scope="module")
def steps(source, tmp_path_factory):
    """How many steps it takes."""
    status, out = killed(source, tmp_path_factory.mktemp("steps") / "made", -1)
    assert 0 == status
    return int(out.splitlines()[-1])


def dies_and_is_finished(source, sound, steps, tmp_path, seed):
    """What is there after a kill is complete or no savepoint; both ways to go on give all."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    step, again = chance.randrange(steps), chance.choice(["fail", "resume"])
    target = tmp_path / "made"
    status, _ = killed(source, target, step)
    assert -signal.SIGKILL == status
    if (target / "_metadata").exists():
        assert sound == damaged_databases.exported(target)[1]
        again = "resume"
    status, _, told = damaged_databases.ran("migrate", source, target, *DROP, "--target-exists", again)
    if status and (target / "_metadata").exists() and "there is a savepoint" in told:
        status = 0  # it had been published, and its notes were removed
    assert 0 == status, (step, told)
    assert 0 == damaged_databases.ran("verify", target)[0]
    assert sound == damaged_databases.exported(target)[1]
    left = {path.name for path in target.iterdir()}
    assert not any(".attempt" in name or name.endswith(".done") or name.startswith("_run-") for name in left), left


@pytest.mark.slow
@pytest.mark.faults
@SPREAD
def test_a_run_that_is_killed_is_complete_or_can_be_finished(source, sound, steps, tmp_path, seed):
    dies_and_is_finished(source, sound, steps, tmp_path, seed)


@pytest.mark.slow
def test_a_run_that_is_killed_once_is_finished(source, sound, steps, tmp_path):
    """Many more in `make faults`."""
    dies_and_is_finished(source, sound, steps, tmp_path, seed=1)


@pytest.mark.parametrize("state", ["note", "count"])
def test_a_kept_file_that_vanishes_before_it_is_linked_ends_the_run(source, tmp_path, monkeypatch, state):
    """As do files of a checkpoint that its job deletes meanwhile."""
    copy = shutil.copytree(source.parent, tmp_path / "copy") / source.name
    linked = outputs.linked_stream

    def after_it_vanished(stream, *arguments):
        (copy / stream.path).unlink(missing_ok=True)
        return linked(stream, *arguments)

    monkeypatch.setattr(outputs, "linked_stream", after_it_vanished)
    edits = Edits(drop=("counts",), rename_states=((state, "renamed"),))
    with pytest.raises(SourceChanged, match="while it was being read"):
        migrate(copy, tmp_path / "made", None, MigrationOptions(edits=edits))
    assert not (tmp_path / "made").exists()


def test_a_file_that_vanishes_while_it_is_read_ends_the_run_or_is_read_whole(source, tmp_path, monkeypatch):
    copy = shutil.copytree(source.parent, tmp_path / "copy") / source.name
    opened = rewrite.open_keyed

    def and_vanished(handle, *arguments, **named):
        context = opened(handle, *arguments, **named)
        for file in handle.shared:
            (copy / file.stream.path).unlink()
        return context

    monkeypatch.setattr(rewrite, "open_keyed", and_vanished)
    with pytest.raises(SourceChanged, match="while it was being read"):
        migrate(copy, tmp_path / "made", None, MigrationOptions(edits=EDITS))
    assert not (tmp_path / "made").exists()


@pytest.mark.slow
@pytest.mark.parametrize("size", [pytest.param("20k", id="kept"), pytest.param("100k", id="kept and written")])
def test_a_full_disk_ends_the_run_and_leaves_nothing(source, tmp_path, size):
    """Files are copied there. The estimate of the space that is needed is not asked here."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if shutil.which("unshare") is None:
        pytest.skip("no small disk can be mounted here: there is no `unshare`")
    mounts = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", disk]
    if subprocess.run(mounts, capture_output=True, check=False).returncode:
        pytest.skip("no small disk can be mounted here")
    blind = "import sys; from stateshift.state.migration.estimate import Estimate\n"
    blind += "Estimate.require_space = lambda *_: None\nfrom stateshift.cli import main; main(sys.argv[1:])"
    told = [disk, size, sys.executable, "-c", blind, "migrate", source, disk / "made", *DROP, "--parallelism"]
    ran = subprocess.run(
        ["unshare", "-rm", sys.executable, "-c", INSIDE, *map(str, told), "2"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip

    status, *left = ran.stdout.split("\n")
    assert "6" == status, ran.stdout
    assert "" == left[0], ran.stdout
    assert "NoSpaceLeft: " in ran.stdout


@pytest.mark.slow
@pytest.mark.parametrize("ways", [("s3", "local"), ("local", "s3"), ("s3", "s3")], ids=" to ".join)
def test_from_and_to_an_object_store(request, source, sound, tmp_path, ways):
    """As in the default run on one disk: what is kept is copied by the store itself, or once through this machine."""
    where, to = ways
    server = request.getfixturevalue("s3")
    place = request.getfixturevalue("upload")(source, f"{tmp_path.name}-source") if where == "s3" else source
    target = server.place(f"{tmp_path.name}-made") if to == "s3" else tmp_path / "made"
    options = MigrationOptions(edits=EDITS)

    planned = migrate(place, target, None, options, dry_run=True)
    report = migrate(place, target, None, options)

    assert planned.kept == report.kept != ()
    assert verify(Savepoint.open(target)).ok
    assert sound == damaged_databases.exported(target)[1]
    again = migrate(place, target, None, options, target_exists=IfTargetExists.REPLACE)
    assert report.kept == again.kept
    assert sound == damaged_databases.exported(target)[1]
    assert sound == damaged_databases.migrated(target, tmp_path / "all", ("--parallelism", "4"))[1] | {
        name: state for name, state in sound.items() if " keyed " not in name
    }
