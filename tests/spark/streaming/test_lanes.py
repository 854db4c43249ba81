"""What a batch has for a slot beyond the first blobs comes by lanes, and nothing of it is lost or exchanged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streaming_totals import totals, visits

from stateshift.spark.frames import partition_of
from stateshift.spark.streaming import blobs as packing
from stateshift.spark.streaming import lanes
from stateshift.spark.streaming.blobs import LANES, lanes_of, slot_of_lane


@given(st.integers(1, 9), st.integers(1, 12))
def test_lanes_lie_in_the_partition_of_their_slot_and_come_before_it(slots, partitions):
    found = [lanes_of(slot, slots, partitions) for slot in range(slots)]

    assert slots * LANES == len({lane for of_slot in found for lane in of_slot})
    for slot, of_slot in enumerate(found):
        assert list(of_slot) == sorted(of_slot)
        assert of_slot[-1] < 0
        assert {slot % partitions} == {partition_of(lane, partitions) for lane in of_slot}
        assert {slot} == {slot_of_lane(lane, slots) for lane in of_slot}


@pytest.fixture
def sent(monkeypatch):
    """The groups of all blobs that are sent, in the order of sending."""
    groups, blob = [], packing._blob

    def noted(group, *arguments):
        groups.append(group)
        return blob(group, *arguments)

    monkeypatch.setattr(packing, "_blob", noted)
    return groups


def test_a_batch_of_many_blobs_has_the_results_of_one(tmp_path, backend, sent):
    rows = [visits(**{f"user {number % 5}": number})[0] for number in range(600)]

    def results(name, **options):
        engine = totals(tmp_path / name, backend, **options)
        found = engine.batch(rows[:400], rows_at_once=1)
        engine.new_process()
        return found + engine.batch(rows[400:], rows_at_once=1)

    in_one = results("one")
    assert min(sent) >= 0
    in_many = results("many", blob_bytes=1)

    assert len({group for group in sent if group < 0}) > 10

    def of_users(found):
        return {user: [row for row in found if user in row.values()] for user in (f"user {n}" for n in range(5))}

    assert of_users(in_one) == of_users(in_many)
    assert 600 == len(in_many)


def test_what_an_attempt_left_is_not_taken_by_another(tmp_path, backend, monkeypatch):
    rows = [visits(ann=1)[0] for _ in range(100)]
    engine = totals(tmp_path / "state", backend, slots=1, blob_bytes=1)
    monkeypatch.setattr(lanes, "_attempt", lambda: 1)
    engine.batch(rows, rows_at_once=1, only=list(lanes_of(0, 1, 2)), commits=False)
    monkeypatch.setattr(lanes, "_attempt", lambda: 2)

    assert 100 == len(engine.batch(rows, rows_at_once=1))
