"""States as datasets of Arrow: what a query gets, and what is read for it."""

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift import OldReaderUnavailable, Savepoint, StateNotFound
from stateshift.state.columnar.filter_values import refers_to, values_left

SCHEMA = pa.schema({"key": pa.int64(), "name": pa.string(), "value": pa.struct({"visits": pa.int32()})})
SOME = ["hashmap-collections", "hashmap-string-p2-m128-files", "hashmap-tuple-p2-m200", "hashmap-zoo-p1-m128"]
SOME += ["rocksdb-long-p2-m200-files", "rocksdb-windows-p1-m200"]
NUMBERS = st.integers(-3, 3)


def literals(kind):
    return {"key": NUMBERS, "name": st.sampled_from("abc"), "visits": NUMBERS}[kind]


@st.composite
def conditions(draw):
    name = draw(st.sampled_from(["key", "name", "visits"]))
    field = pc.field("value", "visits") if name == "visits" else pc.field(name)
    one = literals(name)
    return draw(
        st.sampled_from([
            field == draw(one), field != draw(one), field > draw(one), field <= draw(one),
            field.is_null(), field.is_valid(),
            field.isin(draw(st.lists(one, min_size=1, max_size=4))), ~field.isin([draw(one)]),
        ])
    )  # fmt: skip


filters = st.recursive(
    conditions(),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda two: two[0] & two[1]),
        st.tuples(inner, inner).map(lambda two: two[0] | two[1]),
        inner.map(lambda one: ~one),
    ),
    max_leaves=5,
)
rows = st.lists(
    st.fixed_dictionaries({
        "key": st.none() | NUMBERS,
        "name": st.none() | st.sampled_from("abc"),
        "value": st.none() | st.fixed_dictionaries({"visits": st.none() | NUMBERS}),
    })
)  # fmt: skip


@given(filters, rows)
def test_rows_that_fulfil_a_filter_have_the_values_that_it_leaves(expression, rows):
    table = pa.Table.from_pylist(rows, SCHEMA)
    fulfilling = table.filter(expression)
    for column in ("key", "name"):
        left = values_left(expression, column, SCHEMA)
        if left is not None:
            assert set(fulfilling[column].to_pylist()) <= set(left)


@pytest.mark.parametrize(
    ("expression", "left"),
    [
        (pc.field("key") == 2, [2]),
        ((pc.field("key") == 2) | (pc.field("key") == 1), [1, 2]),
        (pc.field("key").isin([1, 3]), [1, 3]),
        ((pc.field("key") == 2) & (pc.field("value", "visits") > 5), [2, 5]),
        ((pc.field("key") >= 2) & (pc.field("key") <= 2), [2]),
        (pc.field("key") > 2, None),
        (pc.field("key") != 2, None),
        ((pc.field("key") == 2) | (pc.field("value", "visits") == 2), None),
        (pc.field("key").is_null(), None),
        (pc.field("name") == "a", None),
    ],
)
def test_a_filter_leaves_some_values_only_where_that_is_certain(expression, left):
    assert left == values_left(expression, "key", SCHEMA)


def test_it_is_known_which_columns_an_expression_needs():
    expression = (pc.field("value", "visits") > 1) & (pc.field("key") == 2)

    assert ["key", "value"] == [name for name in SCHEMA.names if refers_to(expression, name, SCHEMA)]


@pytest.mark.parametrize("name", SOME)
def test_a_dataset_has_what_the_table_has_whole_and_by_column(savepoint_of, rows_of, name):
    savepoint = Savepoint.open(savepoint_of(name))
    for operator in savepoint.operators:
        for state in operator.states:
            try:
                dataset = savepoint.dataset(state.name, operator.title, exact=True)
            except OldReaderUnavailable:
                assert state.unsupported
                continue
            rows = rows_of(dataset.table)
            assert repr(rows) == repr(dataset.to_table().to_pylist())
            assert len(rows) == dataset.count_rows()
            for column in dataset.schema.names:  # each by itself is what it is among the others
                alone = dataset.to_table(columns=[column])[column].to_pylist()
                assert repr([row[column] for row in rows]) == repr(alone)


@pytest.mark.parametrize("name", SOME)
def test_a_key_is_found_in_its_key_group(savepoint_of, name):
    savepoint = Savepoint.open(savepoint_of(name))
    for operator in savepoint.operators:
        for state in operator.states:
            if state.unsupported or not state.kind.is_keyed:
                continue
            dataset = savepoint.dataset(state.name, operator.title, exact=True)
            every = dataset.to_table()
            kind = dataset.schema.field("key").type
            if not every.num_rows or not (pa.types.is_integer(kind) or pa.types.is_string(kind)):
                continue
            key = every["key"][0].as_py()
            found = dataset.to_table(filter=pc.field("key") == key)
            assert found.to_pylist() == every.filter(pc.field("key") == key).to_pylist()
            groups = dataset.scans[-1].key_groups
            assert groups is None or groups == {*found["key_group"].to_pylist()}
            assert groups is not None or pa.types.is_string(kind)  # keys of Kryo and the like are text


def test_duckdb_reads_what_a_query_needs(savepoint_of):
    savepoint = Savepoint.open(savepoint_of("rocksdb-account-v1"))
    accounts = savepoint.dataset("account")
    with duckdb.connect() as connection:
        connection.register("accounts", accounts)
        assert [(-23, 3)] == connection.execute("select key, value.visits from accounts where key = -23").fetchall()
        assert [(10,)] == connection.execute("select count(*) from accounts").fetchall()
        groups = "select count(*) from accounts where key_group in (6, 94)"
        assert [(2,)] == connection.execute(groups).fetchall()
    one, whole, some = accounts.scans
    assert (frozenset({6}), 1) == (one.key_groups, one.rows)
    assert (None, 10) == (whole.key_groups, whole.rows)
    assert "value" not in whole.columns
    assert (frozenset({6, 94}), 2) == (some.key_groups, some.rows)


def test_arrow_and_pandas_have_the_state_and_the_list_of_states(savepoint_of):
    savepoint = Savepoint.open(savepoint_of("rocksdb-account-v1"))

    assert 10 == savepoint.to_arrow("account").num_rows
    assert ["key"] == savepoint.to_arrow("account", "account-state", columns=["key"]).column_names
    assert [-23] == savepoint.to_pandas("account", filter=pc.field("key") == -23)["key"].tolist()
    assert {"account", "accounts", "pending"} <= {*savepoint.to_arrow(columns=["state"])["state"].to_pylist()}


def test_a_state_that_is_not_there_is_named_with_those_that_are(savepoint_of):
    savepoint = Savepoint.open(savepoint_of("rocksdb-account-v1"))

    with pytest.raises(StateNotFound, match=r"no operator has a state 'acount'; there are: .*account"):
        savepoint.dataset("acount")
    with pytest.raises(StateNotFound, match=r"the operator has no state 'pending'; it has: .*account"):
        savepoint.dataset("pending", "account-state")
