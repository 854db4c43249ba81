"""A run that dies after it has published its savepoint: it is resumed, or how the rest goes is said; nothing stays."""

import os
from contextlib import suppress

import native_snapshots
import pytest

from stateshift import (
    Edits,
    IfTargetExists,
    Job,
    MigrationOptions,
    Operator,
    Repartition,
    SavepointWriter,
    TargetExists,
    ValueStateDescriptor,
    migrate,
)
from stateshift.state.publication.publish import clean
from stateshift.state.publication.target_lock import CLAIM_NAME
from stateshift.state.savepoint.reader import Savepoint
from stateshift.state.savepoint.verify import verify
from stateshift.state.storage.files import Folder

JOB = Job([Operator("one", key=int, states=[ValueStateDescriptor("count", int)])])
MIGRATIONS = {
    "states": MigrationOptions(edits=Edits(drop=("counts",))),
    "key groups": MigrationOptions(repartition=Repartition(max_parallelism=128)),
}


class Killed(BaseException):
    """Ends a run without what it does at its end."""


def deletions(place, last, run):
    """Run something, which dies before this one of the deletions after its publication; return how many there were."""
    deleted, delete = [], Folder.delete

    def counted(folder, name):
        if len(deleted) > last:
            return
        if (place / "_metadata").exists():
            deleted.append(name)
            if len(deleted) > last:
                raise Killed
        delete(folder, name)

    with pytest.MonkeyPatch.context() as patched, suppress(Killed):
        patched.setattr(Folder, "delete", counted)
        run()
    for name in filter(CLAIM_NAME.fullmatch, Folder.at(place).names()):  # its process is gone
        (place / name).write_bytes(b"{}")
        os.utime(place / name, (0, 0))
    return len(deleted)


def of_runs(place):
    return [
        name for name in Folder.at(place).names() if name.startswith(("_run-", "_claim-")) or name.endswith(".done")
    ]


@pytest.mark.parametrize("what", MIGRATIONS)
def test_a_migration_that_dies_at_its_end_is_resumed(tmp_path, what):
    source = native_snapshots.copied("rocksdb-native-long-p2-m200", tmp_path / "copy")
    for last in range(
        deletions(tmp_path / "whole", 99, lambda: migrate(source, tmp_path / "whole", None, MIGRATIONS[what]))
    ):
        place = tmp_path / str(last)
        deletions(place, last, lambda place=place: migrate(source, place, None, MIGRATIONS[what]))
        assert of_runs(place)
        with pytest.raises(TargetExists, match="stateshift clean"):
            migrate(source, place, None, MIGRATIONS[what])

        report = migrate(source, place, None, MIGRATIONS[what], target_exists=IfTargetExists.RESUME)

        assert report.resumed
        assert [] == of_runs(place)
        assert verify(Savepoint.open(place)).ok


def test_a_writer_that_dies_at_its_end_is_cleaned_up_after(tmp_path):
    def write(place):
        with SavepointWriter(place, JOB) as writer:
            assert writer

    for last in range(deletions(tmp_path / "whole", 99, lambda: write(tmp_path / "whole"))):
        place = tmp_path / str(last)
        deletions(place, last, lambda place=place: write(place))
        assert of_runs(place)

        with pytest.raises(TargetExists, match="stateshift clean"):
            write(place)
        clean(Folder.at(place))

        assert [] == of_runs(place)
        with pytest.raises(TargetExists) as raised:
            write(place)
        assert "clean" not in str(raised.value)
