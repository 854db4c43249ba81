"""Real Flink restores states of another kind than those it wrote: what a state transform has made of them (STATE-2)."""

from __future__ import annotations

import copy

import pytest

from stateshift import (
    Int32,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    Operator,
    ReducingStateDescriptor,
    StateTransform,
    ValueStateDescriptor,
    migrate,
)

PLACES = [("hashmap", 1), ("rocksdb", 3)]
SOURCES = {"hashmap-string-p2-m128-files": str, "rocksdb-tuple-p2-m128": tuple[str, int]}


def twice(count):
    return [count, count]


def by_place(events):
    return {f"{place:03}": event for place, event in enumerate(events)}


def most(counts):
    return max(counts.values())


def of_pair(pair):
    return pair[0] if pair[1] else None


def as_it_is(total):
    return total


def names_of(labels):
    return sorted(name for name, label in labels.items() if label is None)


def job_of(key):
    """Every keyed kind of state comes from another one."""
    states = [
        ListStateDescriptor("count", int, transform=StateTransform.from_value(twice)),
        MapStateDescriptor("events", str, str, transform=StateTransform.from_list(by_place)),
        ValueStateDescriptor("counts", Int32, transform=StateTransform.from_map(most)),
        ReducingStateDescriptor("average", None, int, transform=StateTransform.from_aggregating(of_pair)),
        ValueStateDescriptor("total", int, transform=StateTransform.from_reducing(as_it_is)),
        ListStateDescriptor("labels", str, transform=StateTransform.from_map(names_of)),
    ]
    return Job([Operator("keyed-op", key=key, states=states)])


def transformed(expected):
    """The same of what Flink read back itself, in its words."""
    changes = {
        "count": ("LIST", lambda count: [count, count]),
        "events": ("MAP", lambda events: {"$map": [[f"{i:03}", event] for i, event in enumerate(events)]}),
        "counts": ("VALUE", lambda counts: max(count for _, count in counts["$map"])),
        "average": ("REDUCING", lambda pair: pair["$tuple"][0]),
        "total": ("VALUE", lambda total: total),
        "labels": ("LIST", lambda labels: sorted(name for name, label in labels["$map"] if label is None)),
    }
    expected = copy.deepcopy(expected)
    (operator,) = [operator for operator in expected["operators"] if operator["uid"] == "keyed-op"]
    for name, (kind, change) in changes.items():
        state = operator["keyed"][name]
        assert state["entries"]
        assert kind != state["kind"]
        state["kind"] = kind
        state["entries"] = [[key, new] for key, old in state["entries"] if (new := change(old)) != []]
    return expected


@pytest.fixture(scope="module")
def migrated(spark, savepoint_of, tmp_path_factory):
    """Migrate a savepoint, once."""
    done = {}

    def of(name):
        if name not in done:
            done[name] = tmp_path_factory.mktemp("transformed") / "savepoint"
            migrate(savepoint_of(name), done[name], job_of(SOURCES[name]), session=spark)
        return done[name]

    return of


@pytest.mark.parametrize(("backend", "parallelism"), PLACES)
@pytest.mark.parametrize("name", SOURCES)
def test_a_state_of_another_kind_is_restored_with_what_its_transform_gave(
    flink_restore, same_contents, expected_of, migrated, name, backend, parallelism
):
    restored = flink_restore(migrated(name), backend=backend, parallelism=parallelism)

    assert same_contents(transformed(expected_of(name)), restored) == []
