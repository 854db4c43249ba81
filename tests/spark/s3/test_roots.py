"""Handles on a store: opened as the savepoint is, whatever they say of themselves, and only below it."""

from __future__ import annotations

import pytest
from redirecting import add_raw, redirect_to

from stateshift import MigrationOptions, Savepoint, UntrustedPlace, migrate
from stateshift.state.formats.flink.handles import AbsoluteFileHandle
from stateshift.state.savepoint.verify import verify

FILES = "rocksdb-long-p2-m200-files"
WIDER = MigrationOptions(parallelism=3)


@pytest.mark.parametrize(
    "spelled", ["s3://savepoints/{}", "s3a://savepoints/{}", "S3N://SAVEPOINTS/{}", "s3://savepoints/x/..//%{:x}{}"]
)
def test_handles_are_opened_with_the_options_of_the_savepoint(savepoint_copy, upload, tmp_path, spelled):
    name = f"own-{spelled[:3].lower()}-{len(spelled)}".replace(":", "")
    folder = savepoint_copy(FILES)
    redirect_to(folder, spelled.format(ord(name[0]), name[1:]) if "x/.." in spelled else spelled.format(name))
    place = upload(folder, name)

    assert verify(Savepoint.open(place)).ok
    assert verify(Savepoint.open(migrate(place, tmp_path / "new", options=WIDER).target)).ok


def test_a_file_next_to_a_savepoint_on_a_store_is_read_where_it_is_allowed(savepoint_copy, upload, s3, tmp_path):
    folder = savepoint_copy(FILES)
    upload(folder, "parts")
    redirect_to(folder, "s3a://savepoints/parts")
    for file in folder.iterdir():
        if file.name != "_metadata":
            file.unlink()
    place = upload(folder, "whole")

    with pytest.raises(UntrustedPlace) as refused:
        Savepoint.open(place)

    assert ("s3://savepoints/parts",) == refused.value.roots
    with pytest.raises(UntrustedPlace):  # Amazon's: the place says how that one is reached
        Savepoint.open(place, allow_roots=["s3://savepoints/part"])
    allowed = [s3.place("parts")]
    assert verify(Savepoint.open(place, allow_roots=allowed)).ok
    report = migrate(place, tmp_path / "new", options=WIDER, allow_roots=allowed)
    assert verify(Savepoint.open(report.target)).ok


def test_a_file_of_this_machine_next_to_a_savepoint_on_a_store_is_refused(savepoint_copy, upload, tmp_path):
    folder = savepoint_copy(FILES)
    (tmp_path / "secret").write_bytes(b"hidden")
    add_raw(folder, AbsoluteFileHandle(f"file:{tmp_path}/secret", 6))

    with pytest.raises(UntrustedPlace) as refused:
        Savepoint.open(upload(folder, "with-a-local-file"))

    assert (str(tmp_path),) == refused.value.roots
