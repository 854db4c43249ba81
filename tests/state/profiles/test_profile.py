"""Profiles beside figures that are computed from objects, one after the other."""

from __future__ import annotations

import enum
import json
import math
import os
import random
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import attrs
import pytest
from spark_checkpoints import names

from stateshift import (
    DeclarationError,
    Int32,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    Operator,
    Savepoint,
    SavepointWriter,
    StateNotFound,
    TtlValue,
    ValueStateDescriptor,
)
from stateshift.compat.profiles import profile_data
from stateshift.state.formats.flink.keyed_readers import open_keyed
from stateshift.state.formats.spark.reader import SparkCheckpoint
from stateshift.state.savepoint.states import keyed_handles

FIXTURES = Path(__file__).parents[2] / "fixtures"
SAVEPOINTS = sorted(one.parent for one in FIXTURES.glob("*/*/savepoint/_metadata"))
SOME = [one for one in SAVEPOINTS if one.parent.parent.name.startswith("flink-2.3")][::4]
EVERY = int(os.environ.get("STATESHIFT_PROFILES", "12"))
"""Of how many savepoints and checkpoints one is read; STATESHIFT_PROFILES=1: all of them."""
START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = 86_400_000


class Color(enum.Enum):
    RED = 1
    GREEN = 2
    BLUE = 3


@attrs.frozen
class Part:
    weight: float | None
    names: list[str]


@attrs.frozen
class Thing:
    color: Color
    count: Int32
    note: str | None = None
    part: Part | None = None


JOB = Job(
    [
        Operator(
            "things",
            key=str,
            states=[
                ValueStateDescriptor("thing", Thing),
                MapStateDescriptor("by_name", str, Thing),
                ListStateDescriptor("seen", int),
                ValueStateDescriptor("stamped", int, time_to_live=True),
            ],
        ),
        Operator("lists", list_states=[ListStateDescriptor("offsets", int)]),
    ]
)


def thing(draw):
    part = Part(draw.choice([None, math.nan, draw.uniform(-5, 5)]), ["é", "b" * draw.randrange(9)][: draw.randrange(3)])
    return Thing(draw.choice(list(Color)), draw.randrange(-99, 99), draw.choice([None, "", "x" * draw.randrange(40)]),
                 draw.choice([None, part]))  # fmt: skip


def write(place, keys, seed=0):
    """Write things, and return them by state."""
    draw = random.Random(seed)  # noqa: S311 - test data
    stored = {"thing": {}, "by_name": {}, "seen": {}, "stamped": {}}
    with SavepointWriter(place, JOB, parallelism=2) as writer:
        for number in range(keys):
            key = f"key-{number}"
            stored["thing"][key] = thing(draw)
            stored["by_name"][key] = {f"n{one}": thing(draw) for one in range(draw.choice([1, 1, 2, 30]))}
            stored["seen"][key] = [draw.randrange(1 << 40) for _ in range(draw.randrange(1, 20))]
            stamp = int(START.timestamp() * 1000) - draw.randrange(-3 * DAY, 60 * DAY)
            stored["stamped"][key] = TtlValue(stamp, number)
            for name, values in stored.items():
                writer.put("things", name, key, values[key])
    return stored


def stored_sizes(savepoint):
    """The sizes of entries by state: pairs of key and value sizes; and their bytes by state and key group."""
    sizes, groups = defaultdict(list), defaultdict(Counter)
    for operator in savepoint.operators:
        for handle in keyed_handles(operator.stored):
            with open_keyed(handle, savepoint.folder, operator.max_parallelism) as reader:
                for block in reader.blocks():
                    name = reader.header.states[block.state_id].name
                    found = [(len(key), len(value)) for key, value in block.items()]
                    sizes[name] += found
                    groups[name][block.key_group] += sum(map(sum, found)) + 8 * len(found)
    return sizes, groups


def buckets(numbers):
    return [(count, one) for one, count in sorted(Counter(number.bit_length() for number in numbers).items())]


def of_distribution(found):
    return [(count, digits) for digits, count in enumerate(found.buckets) if count]


def assert_is_exact(savepoint, stored, profile):
    states = {one.state: one for one in profile.states}
    sizes, groups = stored_sizes(savepoint)
    for name, found in states.items():
        if name not in stored:
            continue
        values = [value for _, value in sizes[name]]
        assert (found.entries, found.key_bytes) == (len(sizes[name]), sum(key for key, _ in sizes[name]))
        assert (found.value_bytes, found.size_bytes) == (sum(values), sum(groups[name].values()))
        assert of_distribution(found.value_sizes) == buckets(values)
        by_group, by_subtask = found.spreads
        assert sum(share.size_bytes for share in by_group.shares) == found.size_bytes
        assert by_group.spread.largest == max(groups[name].values())
        assert sum(share.entries for share in by_subtask.shares) == found.entries
    assert of_distribution(states["by_name"].lengths) == buckets(map(len, stored["by_name"].values()))
    assert of_distribution(states["seen"].lengths) == buckets(map(len, stored["seen"].values()))
    assert {(one.key, one.entries) for one in states["by_name"].heaviest.keys} <= {
        (key, len(value)) for key, value in stored["by_name"].items()
    }
    for name, things in (
        ("thing", [*stored["thing"].values()]),
        ("by_name", [one for value in stored["by_name"].values() for one in value.values()]),
    ):
        fields = {one.path: one for one in states[name].fields}
        assert {one.value: one.count for one in fields["value.color"].frequent} == Counter(
            one.color.name for one in things
        )
        counts = [one.count for one in things]
        assert (fields["value.count"].smallest, fields["value.count"].largest) == (min(counts), max(counts))
        notes = [one.note for one in things]
        there = [note for note in notes if note is not None]
        assert (fields["value.note"].count, fields["value.note"].nulls) == (len(notes), notes.count(None))
        assert (fields["value.note"].smallest, fields["value.note"].largest) == (min(there), max(there))
        parts = [one.part for one in things if one.part is not None]
        weights = [one.weight for one in parts if one.weight is not None and not math.isnan(one.weight)]
        weight = fields["value.part.weight"]
        assert (weight.count, weight.nulls) == (len(parts), [one.weight for one in parts].count(None))
        assert (weight.smallest, weight.largest) == (min(weights), max(weights))
        assert of_distribution(fields["value.part.names"].lengths) == buckets(len(one.names) for one in parts)
        names = [text for one in parts for text in one.names]
        assert (fields["value.part.names[]"].count, fields["value.part.names[]"].largest) == (len(names), max(names))


def key_bytes(savepoint):
    """The bytes of each key over all states of the operator `things`, by objects."""
    sums = Counter()
    operator = savepoint.operator("things")
    for found in operator.measure(keys=20_000).states:
        for one in found.largest.keys if found.largest else ():
            sums[one.key] += one.size_bytes
    return sums


def test_figures_are_those_of_all_entries(tmp_path):
    stored = write(tmp_path / "sp", 300)
    savepoint = Savepoint.open(tmp_path / "sp")
    profile = savepoint.profile()

    assert_is_exact(savepoint, stored, profile)
    sums, (operator, *_) = key_bytes(savepoint), profile.operators
    assert [one.size_bytes for one in operator.heaviest.keys] == [size for _, size in sums.most_common(10)]
    assert all(sums[one.key] == one.size_bytes for one in operator.heaviest.keys)
    assert operator.heaviest.missing_bytes == 0
    assert [one.size_bytes for one in profile.states] == sorted(
        (one.size_bytes for one in profile.states), reverse=True
    )


@pytest.mark.slow
def test_figures_of_100000_entries_are_exact(tmp_path):
    stored = write(tmp_path / "sp", 12_000, seed=1)
    savepoint = Savepoint.open(tmp_path / "sp")
    profile = savepoint.profile()

    assert sum(one.entries for one in profile.states) > 100_000
    assert_is_exact(savepoint, stored, profile)
    sums = key_bytes(savepoint)
    assert [one.size_bytes for one in profile.operators[0].heaviest.keys] == [size for _, size in sums.most_common(10)]


def test_ages_are_counted_to_the_reference_time(tmp_path):
    stored = write(tmp_path / "sp", 200)
    reference = int(START.timestamp() * 1000)
    profile = Savepoint.open(tmp_path / "sp").profile(
        state="stamped", reference_time=START, time_to_live={"stamped": timedelta(days=30)}
    )
    ages = [reference - one.last_access_ms for one in stored["stamped"].values()]
    found = profile.states[0].ages

    assert found.ahead == sum(age < 0 for age in ages) > 0
    assert of_distribution(found.ages_ms) == buckets(age for age in ages if age >= 0)
    assert found.expired == sum(age >= 30 * DAY for age in ages) > 0
    assert found.time_to_live_ms == 30 * DAY


def test_without_a_time_to_live_nothing_is_said_to_have_expired(tmp_path):
    write(tmp_path / "sp", 5)
    states = {one.state: one for one in Savepoint.open(tmp_path / "sp").profile().states}

    assert states["stamped"].ages.expired is None
    assert states["thing"].ages is None


def test_what_is_asked_has_to_be_there(tmp_path):
    write(tmp_path / "sp", 5)
    savepoint = Savepoint.open(tmp_path / "sp")

    with pytest.raises(StateNotFound, match=r"no operator has a state 'other'; there are: .*by_name"):
        savepoint.profile(state="other")
    with pytest.raises(DeclarationError, match="given for 'other', and no state that is read is called so"):
        savepoint.profile(time_to_live={"other": timedelta(1)})
    with pytest.raises(DeclarationError, match="no time zone"):
        savepoint.profile(reference_time=datetime(2026, 1, 1))  # noqa: DTZ001 - what is refused
    assert [one.state for one in savepoint.profile(operator="things", state="seen").states] == ["seen"]


def test_a_keyed_state_and_a_list_may_have_one_name(tmp_path):
    states, lists = [ValueStateDescriptor("same", int)], [ListStateDescriptor("same", int)]
    with SavepointWriter(tmp_path / "sp", Job([Operator("o", key=str, states=states, list_states=lists)])) as writer:
        writer.put("o", "same", "a", 1)
        for number in (2, 3, 4):
            writer.add("o", "same", number)
    found = {
        one.kind: (one.entries, one.fields[-1].largest) for one in Savepoint.open(tmp_path / "sp").profile().states
    }

    assert {kind: found[kind] for kind in ("value", "split_list")} == {"value": (1, 1), "split_list": (3, 4)}


def test_progress_is_told(tmp_path):
    write(tmp_path / "sp", 50)
    told = []
    Savepoint.open(tmp_path / "sp").profile(progress=told.append)

    assert {one.phase for one in told} == {"profiling"}
    assert told[-1].done == told[-1].total
    assert told[-1].entries > 0


def fits(savepoint, profile):
    """Whether entries and bytes are those that are counted without decoding."""
    states = {(one.operator_id, one.state, one.kind): (one.entries, one.size_bytes) for one in profile.states}
    json.dumps(profile_data(profile))
    for operator in savepoint.measure():
        for found in operator.states:
            if found.measure is not None:
                place = operator.operator.operator_id, found.state.name, str(found.state.kind)
                assert states[place] == (found.measure.entries, found.measure.size_bytes)


@pytest.mark.parametrize("place", SOME, ids=lambda place: place.parent.name)
def test_savepoints_of_flink(place):
    savepoint = Savepoint.open(place)
    fits(savepoint, savepoint.profile())


@pytest.mark.slow
@pytest.mark.parametrize(
    "place",
    SAVEPOINTS[1::EVERY] if EVERY > 1 else SAVEPOINTS,
    ids=lambda place: f"{place.parent.parent.name}-{place.parent.name}",
)
def test_all_savepoints(place):
    savepoint = Savepoint.open(place)
    fits(savepoint, savepoint.profile())


def test_fields_of_subclasses_count_where_the_class_has_them(savepoint_of):
    profile = Savepoint.open(savepoint_of("hashmap-subclass-registered")).profile(state="home")
    fields = {one.path: one for one in profile.states[0].fields}

    assert {(one.value, one.count) for one in fields["value.class"].frequent} == {
        ("fx.Scenarios$Address", 3),
        ("fx.Scenarios$FancyAddress", 3),
    }
    assert (fields["value.planet"].count, fields["value.planet"].nulls) == (3, 1)
    assert (fields["value.street"].count, fields["value.street"].nulls) == (6, 0)


@pytest.mark.parametrize("name", ["aggregation", "session", "transform", "rocksdb-join", "types"])
def test_checkpoints_of_spark(name):
    assert_fits_spark(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", names()[::EVERY])
def test_all_checkpoints_of_spark(name):
    assert_fits_spark(name)


def assert_fits_spark(name):
    checkpoint = SparkCheckpoint.open(FIXTURES / "spark-4.3" / name / "checkpoint")
    profile = checkpoint.profile()
    json.dumps(profile_data(profile))
    states = {(one.operator_id, one.state): one for one in profile.states}
    for operator in checkpoint.operators:
        for store in operator.stores:
            sizes, found = store.measure(), states[str(operator.number), store.name]
            assert found.entries == sum(one.entries for one in sizes)
            assert found.size_bytes == sum(one.size_bytes for one in sizes)
            assert [share.entries for spread in found.spreads for share in spread.shares][: len(sizes)] in (
                [],
                [one.entries for one in sizes],
            )
