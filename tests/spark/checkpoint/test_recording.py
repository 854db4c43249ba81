"""Recordings of queries: which batches they count for, also after a process died at any moment."""

from __future__ import annotations

import shutil

import pytest

from stateshift.spark.checkpoint.query import describe_stored
from stateshift.spark.checkpoint.reader import SparkCheckpoint
from stateshift.spark.checkpoint.recording import Recorder, find_recording
from stateshift.state.storage.files import Folder


@pytest.fixture
def checkpoint(root, tmp_path):
    """A checkpoint whose last committed batch is 2."""
    return shutil.copytree(root / "tests" / "fixtures" / "spark-4.3" / "checksums" / "checkpoint", tmp_path / "copy")


def recorder(place, first):
    opened = SparkCheckpoint.open(place)
    return Recorder(Folder.at(place), describe_stored(opened), opened.log.query_id, first)


def commit(place, batch):
    for log in ("offsets", "commits"):
        shutil.copy(place / log / "2", place / log / str(batch))


def found(place):
    recording = find_recording(SparkCheckpoint.open(place))
    return recording and (recording.first, recording.last, recording.is_whole)


def test_a_query_that_dies_right_after_its_first_commit_is_recorded(checkpoint):
    recorder(checkpoint, 3).begin()
    assert found(checkpoint) is None

    commit(checkpoint, 3)

    assert found(checkpoint) == (3, 3, True)


def test_a_query_that_ends_without_a_word_counts_for_one_batch_more_and_no_other(checkpoint):
    recorder(checkpoint, 2).record()
    commit(checkpoint, 3)
    assert found(checkpoint) == (2, 3, True)

    commit(checkpoint, 4)

    assert found(checkpoint) == (2, 2, False)


def test_what_runs_after_a_query_has_ended_is_not_its_own(checkpoint):
    recorder(checkpoint, 2).end()
    assert found(checkpoint) == (2, 2, True)

    commit(checkpoint, 3)

    assert found(checkpoint) == (2, 2, False)


def test_a_start_that_fails_takes_its_recording_back(checkpoint):
    recorder(checkpoint, 2).end()
    failed = recorder(checkpoint, 3)
    failed.begin()

    failed.end()
    commit(checkpoint, 3)

    assert found(checkpoint) == (2, 2, False)
