"""A check and a migration pair fields alike: what the one names is what the other does, on drawn queries."""

from __future__ import annotations

import pyarrow as pa
import pytest
from drawn_queries import queries, rows_of, struct
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pairing_law import holds

from stateshift.compat.queries.changes import FieldChanges
from stateshift.compat.queries.store_pairs import pair_stores
from stateshift.serializers.spark_rows.rows import arrow_type
from stateshift.state.migration.queries.conversion import conversion

ROWS = 5


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(queries(), st.randoms(use_true_random=False))
def test_what_a_check_names_is_what_a_migration_does(query, random):
    holds(query, random, converted)


@pytest.mark.faults
@settings(max_examples=2_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(queries(), st.randoms(use_true_random=False))
def test_what_a_check_names_is_what_a_migration_does_in_2_000_cases(query, random):
    holds(query, random, converted)


def converted(case, said, fates, _):
    """Convert rows as a migration does, part by part, and compare each value."""
    for number, _, sides in case.pairs(said):
        changes = said.changes.get(number, FieldChanges())
        pair = pair_stores(*sides, changes.answers)
        for store in pair.stores:
            was, now, makes = fates[number].kept[store.store]
            for part, (path, old), (_, new), make in zip(store.parts, was.parts, now.parts, makes, strict=True):
                result = conversion(part, changes)
                assert result.problems == []
                before = rows_of(old, path, ROWS)
                column = pa.array(before, arrow_type(struct(old)))
                after = result.convert(column).to_pylist() if result.convert is not None else read_by_place(before, new)
                assert list(map(make, before)) == after, path


def read_by_place(rows, columns):
    """Rows whose bytes stay as they are, under the names of the new types."""
    return [{one.name: _by_place(value, one) for one, value in zip(columns, row.values(), strict=True)} for row in rows]


def _by_place(value, column):
    if not column.fields:
        return value
    if column.within == "map":
        return [(key, *read_by_place([one], column.fields)) for key, one in value]
    return read_by_place(value, column.fields) if column.within else read_by_place([value], column.fields)[0]
