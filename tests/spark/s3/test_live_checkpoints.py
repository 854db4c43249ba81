"""Incremental checkpoints of live state on a real S3-compatible server."""

from __future__ import annotations

from pathlib import PurePosixPath

from checkpointing import contents, restore, take
from pyarrow.fs import FileSelector

from stateshift import (
    Configuration,
    EmbeddedRocksDBStateBackend,
    ListStateDescriptor,
    ValueStateDescriptor,
    open_checkpoints,
    serializer_for,
)
from stateshift.state.publication.checkpoints import clean_job
from stateshift.state.storage.files import Folder

GROUPS = 8


def backend_of():
    configuration = Configuration.of({"execution.checkpointing.incremental": True}, environment={})
    return EmbeddedRocksDBStateBackend(serializer_for(int), GROUPS, range(GROUPS), configuration=configuration)


def files_below(s3, name):
    found = s3.files.get_file_info(FileSelector(f"savepoints/{name}", recursive=True))
    return {PurePosixPath(info.path).relative_to(f"savepoints/{name}").as_posix() for info in found if info.is_file}


def test_checkpoints_are_retained_cleaned_and_restored(s3):
    job, backend, restored = "b" * 32, backend_of(), backend_of()
    value = backend.get_or_create_keyed_state(ValueStateDescriptor("value", str))
    several = backend.get_or_create_keyed_state(ListStateDescriptor("several", int))
    with open_checkpoints(Folder.at(s3.place("live")), job, retained=2) as storage:
        for number in range(1, 5):
            for key in range(0, 5000, number):
                backend.set_current_key(key)
                value.update("x" * 20)
                several.add(number)
            folder, (handle,) = take(storage, [backend])
        stray = "01234567-89ab-cdef-0123-456789abcdef"
        storage.shared.write(stray, b"x")
        place = storage.folder
    assert [f"shared/{stray}"] == list(clean_job(place))
    found = files_below(s3, f"live/{job}")
    restore(folder, restored)

    assert contents(backend) == contents(restored)
    assert {"chk-3", "chk-4"} == {name.split("/")[0] for name in found if name.startswith("chk-")}
    assert {file.stream.uri.rpartition("/")[2] for file in handle.shared} <= {name.split("/")[-1] for name in found}
    backend.dispose()
    restored.dispose()
