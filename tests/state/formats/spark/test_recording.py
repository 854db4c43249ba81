"""Recordings of queries: which batches they count for."""

from __future__ import annotations

import shutil

import pytest

from stateshift.state.formats.spark.reader import SparkCheckpoint
from stateshift.state.formats.spark.recording import Recorder, find_recording
from stateshift.state.storage.files import Folder


@pytest.fixture
def checkpoint(root, tmp_path):
    """A checkpoint whose last committed batch is 2."""
    return shutil.copytree(root / "tests" / "fixtures" / "spark-4.3" / "checksums" / "checkpoint", tmp_path / "copy")


def record(place, first):
    opened = SparkCheckpoint.open(place)
    Recorder(Folder.at(place), opened.describe(), opened.log.query_id, first).record()


def commit(place, batch):
    for log in ("offsets", "commits"):
        shutil.copy(place / log / "2", place / log / str(batch))


def found(place):
    recording = find_recording(SparkCheckpoint.open(place))
    return recording and (recording.first, recording.last, recording.is_whole)


def test_a_recording_counts_up_to_the_last_batch_that_was_seen(checkpoint):
    record(checkpoint, 2)
    assert found(checkpoint) == (2, 2, True)

    commit(checkpoint, 3)  # by other code, or by the query, which was killed before it could note that

    assert found(checkpoint) == (2, 2, False)


def test_a_query_without_a_committed_batch_leaves_no_recording(checkpoint):
    record(checkpoint, 3)

    commit(checkpoint, 3)

    assert found(checkpoint) is None
