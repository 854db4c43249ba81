"""The state of a query is found in its state directory, whatever died while it ran."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from streaming_batches import BACKENDS, close_slots
from streaming_totals import totals, totals_in, visits

from stateshift import Savepoint, SavepointNotFound
from stateshift.serializers.errors import CorruptFile, DeclarationError
from stateshift.state.directory.committed_state import AttemptsUndecided
from stateshift.state.formats.flink.metadata import METADATA, write_metadata
from stateshift.state.storage.files import Folder


def test_a_state_directory_is_opened_as_the_state_after_its_last_committed_batch(tmp_path, backend):
    engine = totals(tmp_path / "state", backend)
    engine.batch(visits(ann=1, bob=2))
    engine.batch(visits(ann=3))

    opened = Savepoint.open(tmp_path / "state")

    assert totals_in(opened) == {"ann": 4, "bob": 2}
    assert (opened.query.batch, opened.query.epoch) == (1, 1)
    assert opened.query.checkpoint == str(tmp_path / "state-checkpoint")
    assert opened.position["offsets"].endswith('{"read":1}')
    assert opened.metadata.checkpoint_id == 2


def test_what_a_batch_wrote_that_is_not_committed_is_ignored(tmp_path, backend):
    engine = totals(tmp_path / "state", backend)
    engine.batch(visits(ann=1, bob=2))
    engine.batch(visits(ann=10), commits=False)

    assert totals_in(Savepoint.open(tmp_path / "state")) == {"ann": 1, "bob": 2}


def test_a_batch_that_another_start_repeated_is_that_of_the_last_start(tmp_path, backend):
    first = totals(tmp_path / "state", backend)
    first.batch(visits(ann=1, bob=2))
    first.batch(visits(ann=10), commits=False)
    first.new_process()

    second = totals(tmp_path / "state", backend, before=first)
    second.batch(visits(ann=10))

    assert totals_in(Savepoint.open(tmp_path / "state")) == {"ann": 11, "bob": 2}


def test_of_two_attempts_the_next_manifest_says_which_one_was_committed(tmp_path, backend):
    engine = totals(tmp_path / "state", backend, slots=1)
    engine.batch(visits(ann=1))
    engine.batch(visits(ann=10), commits=False)
    engine.batch(visits(ann=10))
    place = tmp_path / "state"
    with pytest.raises(
        AttemptsUndecided, match="2 attempts of a task wrote the state of slot 0 after batch 1"
    ) as found:
        Savepoint.open(place)
    assert "start the query once" in str(found.value)

    engine.batch(visits(ann=100), commits=False)

    assert totals_in(Savepoint.open(place)) == {"ann": 11}


def test_the_next_start_notes_which_attempt_was_committed(tmp_path, backend):
    engine = totals(tmp_path / "state", backend, slots=1)
    engine.batch(visits(ann=1), commits=False)
    engine.new_process()
    engine.batch(visits(ann=1))
    with pytest.raises(AttemptsUndecided):
        Savepoint.open(tmp_path / "state")

    totals(tmp_path / "state", backend, before=engine)

    assert totals_in(Savepoint.open(tmp_path / "state")) == {"ann": 1}


def test_a_slot_that_had_no_work_has_the_state_of_an_earlier_batch(tmp_path, backend):
    engine = totals(tmp_path / "state", backend, slots=4)
    engine.batch(visits(ann=1, bob=2, cy=3, dan=4))
    for _ in range(3):
        engine.batch(only=sorted(engine.committed)[:1])

    opened = Savepoint.open(tmp_path / "state")

    assert totals_in(opened) == {"ann": 1, "bob": 2, "cy": 3, "dan": 4}
    assert opened.query.batch == 3


def begin_epoch(engine, backend, slots):
    """A new epoch of the query of an engine: it begins with its state after the last committed batch."""
    place = engine.directory.folder.place
    savepoint = Savepoint.open(place)
    number = savepoint.query.epoch + 1
    base = engine.directory.base(str(number))
    base.create()
    base.write(METADATA, write_metadata(savepoint.metadata))
    engine.new_process()
    return totals(engine.checkpoint.parent / "state", backend, slots=slots, before=engine, base=str(number))


def test_a_new_epoch_counts_from_its_first_committed_batch(tmp_path, backend):
    first = totals(tmp_path / "state", backend, slots=2)
    first.batch(visits(ann=1, bob=2, cy=3, dan=4))

    second = begin_epoch(first, backend, slots=3)
    assert Savepoint.open(tmp_path / "state").query.epoch == 1
    second.batch(visits(ann=10), commits=False)
    assert totals_in(Savepoint.open(tmp_path / "state")) == {"ann": 1, "bob": 2, "cy": 3, "dan": 4}

    second.new_process()
    third = totals(tmp_path / "state", backend, before=second)
    third.batch(visits(ann=10))

    opened = Savepoint.open(tmp_path / "state")
    assert (opened.query.epoch, opened.operator("operator").parallelism) == (2, 3)
    assert totals_in(opened) == {"ann": 11, "bob": 2, "cy": 3, "dan": 4}


def test_a_state_of_which_a_part_is_of_the_epoch_before_is_refused(tmp_path, backend):
    first = totals(tmp_path / "state", backend, slots=2)
    first.batch(visits(ann=1, bob=2, cy=3, dan=4))
    second = begin_epoch(first, backend, slots=2)

    second.batch(only=sorted(second.committed)[:1])

    with pytest.raises(DeclarationError, match="some slots have not run since epoch 2 began"):
        Savepoint.open(tmp_path / "state")


def test_without_its_checkpoint_a_state_directory_says_which_one_is_missing(tmp_path, backend):
    engine = totals(tmp_path / "state", backend)
    with pytest.raises(SavepointNotFound, match="which is not there"):
        Savepoint.open(tmp_path / "state")
    engine.batch(visits(ann=1), commits=False)
    with pytest.raises(SavepointNotFound, match="has no committed batch yet"):
        Savepoint.open(tmp_path / "state")


def test_a_start_that_is_not_recorded_any_more_is_an_error_and_no_older_state(tmp_path, backend):
    engine = totals(tmp_path / "state", backend)
    engine.batch(visits(ann=1))
    second = totals(tmp_path / "state", backend, before=engine)
    second.batch(visits(ann=1))
    Folder.at(tmp_path / "state" / "runs").delete(f"{second.run.token}.json")

    with pytest.raises(CorruptFile, match="start 2 of the query is not recorded"):
        Savepoint.open(tmp_path / "state")


STEPS = st.lists(
    st.tuples(st.sampled_from(["batch", "dies", "retried", "restart", "moves"]), st.integers(0, 9)), max_size=12
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=25)
@given(steps=STEPS, as_spark=st.booleans())
def test_whatever_dies_the_state_is_that_of_the_committed_batches(steps, as_spark, tmp_path_factory):
    place = tmp_path_factory.mktemp("query") / "state"
    close_slots()
    engine, expected = totals(place, BACKENDS["hashmap"], slots=2, as_spark=as_spark), {}
    may_be_unknown = False
    for what, number in steps:
        user, amount = "abcdefghij"[number], number + 1
        if what == "batch":
            engine.batch(visits(**{user: amount}))
            expected[user] = expected.get(user, 0) + amount
            may_be_unknown = False
        elif what == "dies":  # a batch, and the driver with it
            engine.batch(visits(**{user: amount}), commits=False)
            engine.new_process()
            engine = totals(place, BACKENDS["hashmap"], before=engine, as_spark=as_spark)
            may_be_unknown = False
        elif what == "retried":
            engine.batch(visits(**{user: amount}), commits=False)
            engine.new_process()
            engine.batch(visits(**{user: amount}))
            expected[user] = expected.get(user, 0) + amount
            may_be_unknown = True
        elif what == "restart":
            engine.new_process()
            engine = totals(place, BACKENDS["hashmap"], before=engine, as_spark=as_spark)
            may_be_unknown = False
        else:
            engine.new_process()
    if not expected:
        return
    try:
        found = totals_in(Savepoint.open(place))
    except AttemptsUndecided:
        assert may_be_unknown
        assert not as_spark
    else:
        assert found == expected


def test_a_state_directory_that_was_moved_is_read_and_goes_on(tmp_path, backend):
    engine = totals(tmp_path / "state", backend)
    engine.batch(visits(ann=1, bob=2))
    engine.new_process()
    (tmp_path / "moved").mkdir()
    (tmp_path / "state").rename(tmp_path / "moved" / "state")

    assert totals_in(Savepoint.open(tmp_path / "moved" / "state")) == {"ann": 1, "bob": 2}
