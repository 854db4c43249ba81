"""States as tables: what real Flink wrote, in columns."""

import attrs
import pyarrow.compute as pc
import pytest

from stateshift import (
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    OldReaderUnavailable,
    Operator,
    Savepoint,
    SavepointWriter,
    StateNotFound,
    ValueNotConvertible,
    ValueStateDescriptor,
)
from stateshift.state.columnar.dataset import StateDataset
from stateshift.state.columnar.table import StateTable
from stateshift.state.transcode.executor_choice import VARIABLE


def readable(place):
    return [
        (operator, state)
        for operator in Savepoint.open(place).operators
        for state in operator.states
        if not state.unsupported
    ]


# What Spark's types do not hold: rows that are no INSERT, big numbers of 40 digits, nanoseconds.
ONLY_EXACT = {"row", "bigdec", "bigint", "instant", "localdatetime", "localtime", "sqltimestamp"}
ONLY_EXACT |= {"deduplicate-state", "data-state-with-update", "values"}  # of SQL: rows that are updates


@pytest.mark.parametrize("exact", [False, True])
def test_columns_of_all_that_flink_wrote_hold_what_the_entries_hold(canonical, rows_of, holds, exact):
    for operator, state in readable(canonical):
        table = StateTable.of(operator, state.name, exact=exact)
        try:
            rows = rows_of(table)
        except ValueNotConvertible:
            assert not exact
            assert state.name in ONLY_EXACT
            continue

        assert holds(rows, state), (operator.title, state.name)
        assert holds(rows_of(table, singly=True), state), (operator.title, state.name)


def test_all_decoders_give_the_same_columns(canonical, rows_of, monkeypatch):
    pytest.importorskip("numba")
    for operator, state in readable(canonical):
        table = StateTable.of(operator, state.name, exact=True)
        by_executor = []
        for name in ("objects", "numba"):
            monkeypatch.setenv(VARIABLE, name)
            by_executor.append(rows_of(table))
        objects, numba = by_executor

        assert repr(objects) == repr(numba), (operator.title, state.name)


def test_slices_are_between_key_groups_and_hold_all_entries_once(savepoint_of, table_of):
    savepoint = Savepoint.open(savepoint_of("rocksdb-account-v1"))
    table = table_of(savepoint, "account-state", "account")

    slices = table.slices(5)
    groups = [group for piece in slices for group in piece.key_groups]
    keys = [row["key"] for piece in slices for batch in table.read(piece) for row in batch.to_pylist()]

    assert 2 == savepoint.operator("account-state").parallelism == len(table.slices(1))
    assert 5 <= len(slices) <= 7  # about so many, and no slice reaches from one stream into another
    assert len(set(groups)) == len(groups)
    assert sorted(entry.key for entry in savepoint.operator("account-state").state("account").read_entries()) == sorted(
        keys
    )


def test_a_key_is_looked_for_in_its_key_group_alone(savepoint_of, table_of):
    table = table_of(Savepoint.open(savepoint_of("rocksdb-account-v1")), "account-state", "account")
    (row, *_) = (row for piece in table.slices(1) for batch in table.read(piece) for row in batch.to_pylist())

    groups = table.groups_of([row["key"]])
    (piece,) = table.slices(8, groups)
    (batch,) = table.read(piece, key_groups=groups)

    assert {row["key_group"]} == groups == {*batch["key_group"].to_pylist()}
    assert [row] == StateDataset(table).to_table(filter=pc.field("key") == row["key"]).to_pylist()


def test_a_state_that_nothing_reads_says_where_in_its_type_that_lies(kryo_in_pojo, table_of):
    with pytest.raises(OldReaderUnavailable, match=r"kryo<.*(.|\n)*state thing, path \$\.inner"):
        table_of(Savepoint.open(kryo_in_pojo), "keyed-op", "thing")


def test_a_state_that_there_is_not_is_reported_with_those_that_there_are(savepoint_of, table_of):
    with pytest.raises(StateNotFound, match=r"no state 'acount'; it has: .*account-by-name"):
        table_of(Savepoint.open(savepoint_of("rocksdb-account-v1")), "account-state", "acount")


def test_a_value_that_no_column_holds_is_reported_with_key_and_path_and_the_way_out(savepoint_of, table_of, rows_of):
    table = table_of(Savepoint.open(savepoint_of("rocksdb-zoo-p1-m200")), "keyed-op", "instant")

    with pytest.raises(
        ValueNotConvertible, match=r"has nanoseconds(.|\n)*state instant, key \S+, path \$(.|\n)*'exact'"
    ):
        rows_of(table)


def test_native_state_of_the_heap_backend_is_a_table_too(native_heap, rows_of, holds):
    for operator, state in readable(native_heap):
        if state.name not in ONLY_EXACT:
            assert holds(rows_of(StateTable.of(operator, state.name)), state), (operator.title, state.name)


def test_a_stream_that_describes_less_than_others_do_is_read_by_its_own_snapshots(savepoint_of, rows_of):
    operator = Savepoint.open(savepoint_of("hashmap-subclass-registered")).operator("keyed-op")
    table = StateTable.of(operator, "home")
    key, namespace, value = table.snapshots
    more = attrs.evolve(value, unregistered=(attrs.evolve(value.registered[0], name="fx.Other"),))
    wider = attrs.evolve(table, snapshots=(key, namespace, more))

    assert rows_of(table) == rows_of(wider)


FEW = Job([
    Operator("o", key=int, states=[ValueStateDescriptor("s", str), MapStateDescriptor("m", str, int)],
             list_states=[ListStateDescriptor("l", int)]),
])  # fmt: skip


@pytest.mark.parametrize(("parallelism", "entries"), [(127, 3), (128, 128), (128, 0), (3, 0)])
def test_subtasks_and_states_without_entries_have_no_rows(tmp_path, rows_of, holds, parallelism, entries):
    with SavepointWriter(tmp_path / "sp", FEW, max_parallelism=128, parallelism=parallelism) as writer:
        for number in range(entries):
            writer.put("o", "s", number, f"v{number}")
    operator = Savepoint.open(tmp_path / "sp").operator("o")

    found = {state.name: rows_of(StateTable.of(operator, state.name)) for state in operator.states}
    assert {"s": entries, "m": 0, "l": 0} == {name: len(rows) for name, rows in found.items()}
    assert all(holds(rows, operator.state(name)) for name, rows in found.items())
