"""State directory and checkpoint on an object store."""

from __future__ import annotations

import attrs
import pytest
from object_store import s3, upload  # noqa: F401 - fixtures
from streaming_batches import BACKENDS
from streaming_totals import totals, totals_in, visits

from stateshift import Savepoint
from stateshift.spark.streaming.savepoints import take_savepoint
from stateshift.state.directory.directory import StateDirectory
from stateshift.state.directory.garbage import collect
from stateshift.state.directory.holds import held, oldest_held
from stateshift.state.storage.files import Folder


@pytest.fixture
def place(tmp_path, upload):  # noqa: F811 - the fixture
    """A query's state directory on the server, with a batch that was repeated."""
    engine = totals(tmp_path / "state", BACKENDS["hashmap"], slots=1, retained=0)
    engine.batch(visits(ann=1, bob=2))
    engine.batch(visits(ann=10), commits=False)
    engine.new_process()
    engine = totals(tmp_path / "state", BACKENDS["hashmap"], before=engine, retained=0)
    engine.batch(visits(ann=10))
    checkpoint = upload(engine.checkpoint, f"{tmp_path.name}-checkpoint")
    attrs.evolve(engine.directory, checkpoint=checkpoint).write_facts()
    return upload(tmp_path / "state", f"{tmp_path.name}-state")


def test_a_state_directory_on_a_store_is_read_held_copied_and_swept(place, tmp_path):
    directory = StateDirectory.open(Folder.at(place))
    assert totals_in(Savepoint.open(place)) == {"ann": 11, "bob": 2}
    with held(directory.folder, 1):
        assert oldest_held(directory.folder) == 1
    assert oldest_held(directory.folder) is None

    take_savepoint(place, tmp_path / "savepoint")
    found = collect(directory, older_than_h=0)

    assert totals_in(Savepoint.open(tmp_path / "savepoint")) == {"ann": 11, "bob": 2}
    assert sorted({one.name.partition("/")[0] for one in found.deleted}) == ["manifests", "runs"]
    assert totals_in(Savepoint.open(place)) == {"ann": 11, "bob": 2}
    assert collect(directory, older_than_h=0).deleted == ()
