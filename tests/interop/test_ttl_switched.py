"""Time to live switched on and off (STATE-4, STATE-5): real Flink restores it, and nothing expires because of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from stateshift import (
    AggregatingStateDescriptor,
    Int32,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    MigrationOptions,
    Operator,
    ReducingStateDescriptor,
    SavepointWriter,
    TtlValue,
    ValueStateDescriptor,
    migrate,
)

SOURCES = ["hashmap-long-p1-m128", "rocksdb-long-p2-m200-files"]
BACKENDS = ["hashmap", "rocksdb"]
SWITCHED = ("count", "events", "counts", "labels", "total", "average")
HOUR = timedelta(hours=1)
HOUR_MS = 3_600_000


def everything(*, on, **session):
    """The states of the fixtures' job that have TTL there (`session`) or get it here, with TTL on or off."""
    states = [
        ValueStateDescriptor("count", int, time_to_live=on),
        ListStateDescriptor("events", str, time_to_live=on),
        MapStateDescriptor("counts", str, int, time_to_live=on),
        MapStateDescriptor("labels", str, str | None, time_to_live=on),
        ReducingStateDescriptor("total", None, int, time_to_live=on),
        AggregatingStateDescriptor("average", None, tuple[int, int], time_to_live=on),
        ValueStateDescriptor("session", int, **session),
    ]
    return Job([Operator("keyed-op", key=int, states=states)])


@pytest.fixture(scope="module")
def switched(spark, savepoint_of, tmp_path_factory):
    """A savepoint of real Flink in which TTL is on where it was off, and off where it was on."""
    done = {}

    def switch(name):
        if name not in done:
            done[name] = tmp_path_factory.mktemp("switched") / "savepoint"
            migrate(savepoint_of(name), done[name], everything(on=True), session=spark)
        return done[name]

    return switch


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", SOURCES)
def test_a_job_whose_ttl_was_switched_finds_the_same_values(
    flink_restore, same_contents, expected_of, switched, name, backend
):
    restored = flink_restore(switched(name), scenario="all-long", backend=backend, ttl=SWITCHED, ttl_ms=HOUR_MS)

    assert same_contents(expected_of(name), restored) == []


@pytest.mark.parametrize("name", SOURCES)
def test_on_and_off_again_is_what_was_there_before(
    flink_restore, same_contents, expected_of, switched, spark, tmp_path, name
):
    back = everything(on=False, time_to_live=True)
    migrate(switched(name), tmp_path / "back", back, session=spark)

    restored = flink_restore(tmp_path / "back", scenario="all-long")
    assert same_contents(expected_of(name), restored) == []


def keyed(restored):
    """Key and value by state, of the operator with keyed state."""
    (operator,) = [operator for operator in restored["operators"] if operator["keyed"]]
    return {name: dict(state["entries"]) for name, state in operator["keyed"].items()}


def test_what_is_stamped_long_ago_is_gone_in_flink_so_that_stamps_count(flink_restore, savepoint_of, spark, tmp_path):
    """The other half of `the same values`: a stamp two hours old is looked at, and takes the value away."""
    options = MigrationOptions(reference_time=datetime.now(UTC) - 2 * HOUR)
    migrate(savepoint_of(SOURCES[0]), tmp_path / "new", everything(on=True), options, session=spark)

    restored = flink_restore(tmp_path / "new", scenario="all-long", ttl=SWITCHED, ttl_ms=HOUR_MS)
    states = keyed(restored)
    assert {name: {} for name in SWITCHED} == {name: states[name] for name in SWITCHED}
    assert 6 == len(states["session"])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_wider_type_comes_with_the_stamp(flink_restore, spark, tmp_path, backend):
    old, new = (
        Job([Operator("keyed-op", key=int, states=[ValueStateDescriptor("count", hint, time_to_live=on)])])
        for hint, on in ((Int32, False), (int, True))
    )
    with SavepointWriter(tmp_path / "old", old) as writer:
        for key in range(5):
            writer.put("keyed-op", "count", key, -key)
    migrate(tmp_path / "old", tmp_path / "new", new, session=spark)

    restored = flink_restore(tmp_path / "new", scenario="all-long", backend=backend, ttl=["count"], ttl_ms=HOUR_MS)
    assert {key: -key for key in range(5)} == keyed(restored)["count"]


def test_a_null_that_has_no_form_after_a_stamp_is_not_listed(flink_restore, spark, tmp_path):
    """The finding says so, and has the flag `lossy`; the texts of `labels` above have one, and are listed."""
    old, new = (
        Job([Operator("keyed-op", key=int, states=[MapStateDescriptor("counts", str, int | None, time_to_live=on)])])
        for on in (False, True)
    )
    with SavepointWriter(tmp_path / "old", old) as writer:
        writer.put("keyed-op", "counts", 1, {"a": 5, "b": None})
    migrate(tmp_path / "old", tmp_path / "new", new, session=spark)

    restored = flink_restore(tmp_path / "new", scenario="all-long", ttl=["counts"], ttl_ms=HOUR_MS)
    assert {1: {"$map": [["a", 5]]}} == keyed(restored)["counts"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_had_expired_does_not_come_back_when_ttl_goes(flink_restore, spark, tmp_path, backend):
    def job(**ttl):
        states = [ValueStateDescriptor("count", int, **ttl), ListStateDescriptor("events", str, **ttl)]
        return Job([Operator("keyed-op", key=int, states=states)])

    now = datetime.now(UTC)
    fresh, stale = (int((now - age).timestamp() * 1000) for age in (HOUR / 2, 2 * HOUR))
    with SavepointWriter(tmp_path / "old", job(time_to_live=True)) as writer:
        writer.put("keyed-op", "count", 1, TtlValue(fresh, 10))
        writer.put("keyed-op", "count", 2, TtlValue(stale, 20))
        writer.put("keyed-op", "events", 1, [TtlValue(stale, "old"), TtlValue(fresh, "new")])
        writer.put("keyed-op", "events", 2, [TtlValue(stale, "old"), TtlValue(stale, "older")])
    migrate(tmp_path / "old", tmp_path / "new", job(former_time_to_live=HOUR), session=spark)

    with_ttl = flink_restore(tmp_path / "old", scenario="all-long", backend=backend, ttl=SWITCHED, ttl_ms=HOUR_MS)
    without = flink_restore(tmp_path / "new", scenario="all-long", backend=backend, ttl=[])
    assert {"count": {1: 10}, "events": {1: ["new"]}} == keyed(without)
    assert keyed(with_ttl) == keyed(without)


def test_a_savepoint_of_flink_1_20_goes_back_to_it_with_ttl_switched(
    flink_restore, same_contents, expected_of, savepoint_of, spark, tmp_path
):
    name = "hashmap-long-p1-m128"
    migrate(savepoint_of(name, version="1.20"), tmp_path / "new", everything(on=True), session=spark)

    restored = flink_restore(tmp_path / "new", scenario="all-long", release="1.20", ttl=SWITCHED, ttl_ms=HOUR_MS)
    assert same_contents(expected_of(name, version="1.20"), restored) == []
