"""Arrays, rows and either of a savepoint that Flink wrote, migrated to other types."""

from __future__ import annotations

from typing import NamedTuple

import attrs
import pytest

from stateshift import (
    Array,
    Either,
    Float32,
    Int16,
    Int32,
    Job,
    Operator,
    Row,
    Savepoint,
    Target,
    ValueStateDescriptor,
    check,
    row_of,
)
from stateshift.compat.description import StateKind
from stateshift.state.savepoint.verify import verify

STORED = tuple(f"c{place}" for place in range(10))


class Wide(NamedTuple):
    """Columns of `widerow` in another order: one gone, one wider, one new."""

    c9: Int32 | None
    c1: int | None
    c0: Int32 | None
    c2: Int32 | None
    c3: Int32 | None
    c4: Int32 | None
    c5: Int32 | None
    c6: Int32 | None
    c7: Int32 | None
    note: str = "new"


JOB = Job(
    [
        Operator(
            "keyed-op",
            key=Int32,
            states=[
                ValueStateDescriptor("ints", Array[int]),
                ValueStateDescriptor("longs", list[int]),
                ValueStateDescriptor("shorts", Array[Int16 | None]),
                ValueStateDescriptor("boxedlongs", Array[int]),
                ValueStateDescriptor("listval", Array[float]),
                ValueStateDescriptor("strings", list[str | None]),
                ValueStateDescriptor("floats", Array[Float32]),
                ValueStateDescriptor("objarray", Array[tuple[str, int] | None]),
                ValueStateDescriptor("either", Either[str, float]),
                ValueStateDescriptor("widerow", row_of(Wide, stored=STORED)),
            ],
        )
    ]
)


@pytest.mark.parametrize("name", ["hashmap-zoo-p1-m128", "rocksdb-zoo-p1-m200"])
def test_every_value_becomes_that_of_its_new_type(savepoint_of, stored_values, migrate, tmp_path, name):
    before = stored_values(Savepoint.open(savepoint_of(name)))

    migrated = migrate(savepoint_of(name), tmp_path / "new", JOB, restore_target=Target.FLINK)

    after = stored_values(migrated)
    for state in ("ints", "longs", "shorts", "boxedlongs", "listval", "strings", "floats", "objarray", "either"):
        assert before[state] == after[state], state
    assert {key: as_wide(row) for key, row in before["widerow"].items()} == after["widerow"]
    assert "array<double>" == migrated.operator("keyed-op").state("listval").description.describe()
    assert verify(migrated).ok
    untouched = before.keys() - {state.name for state in JOB.operators[0].states}
    assert {state: before[state] for state in untouched} == {state: after[state] for state in untouched}


def as_wide(row):
    values = dict(zip(STORED, row, strict=True)) | {"note": "new"}
    return Row(*(values[name] for name in Wide._fields))


def test_what_was_migrated_starts_as_it_is(savepoint_of, migrate, tmp_path):
    """RUN-5; the stored columns are those of the job then."""
    migrated = migrate(savepoint_of("hashmap-zoo-p1-m128"), tmp_path / "new", JOB)
    (operator,) = JOB.operators
    states = [
        ValueStateDescriptor("widerow", row_of(Wide)) if state.name == "widerow" else state for state in operator.states
    ]

    assert "refuse" == check(migrated.describe(), JOB.describe()).decision
    assert "start" == check(migrated.describe(), Job([attrs.evolve(operator, states=states)]).describe()).decision


@pytest.fixture
def stored_values():
    """`stored_values(savepoint)`: by state and key, what can be compared by its text (NaN is not itself)."""

    def read(savepoint):
        (operator,) = (one for one in savepoint.operators if one.uid == "keyed-op" or len(one.states) > 30)
        return {
            state.name: {entry.key: _comparable(entry.value) for entry in state.read_entries()}
            for state in operator.states
            if state.kind.is_keyed and state.kind is not StateKind.TIMERS
        }

    return read


def _comparable(value):
    return repr(value) if isinstance(value, float) else value
