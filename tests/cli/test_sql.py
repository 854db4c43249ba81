"""`stateshift sql`: states as tables of DuckDB."""

from __future__ import annotations

import duckdb
import pytest
import spark_checkpoints

from stateshift import Job, Operator, ValueStateDescriptor
from stateshift.state.testing import write_savepoint


@pytest.fixture
def accounts(savepoint_of):
    return savepoint_of("rocksdb-account-v1")


def test_a_query_prints_its_rows_and_what_was_read(run, accounts):
    ran = run("sql", accounts, "select key, value.name, value.visits from account where key in (-23, -6) order by key")

    assert (0, "key  name  visits\n-23  acc1       3\n -6  acc2       6\n") == (ran.status, ran.stdout)
    assert ["2 rows", "read of account of account-state: 2 entries in 2 key groups"] == ran.stderr.splitlines()


def test_any_other_condition_reads_the_whole_state(run, accounts):
    ran = run("sql", accounts, "select count(*) from account where value.visits > 20")

    assert "read of account of account-state: 10 entries" in ran.stderr.splitlines()


def test_tables_are_joined_by_their_whole_names(run, accounts):
    statement = (
        'select a.key, a.value.name, len(b.value) from "account-state".account a'
        ' join "account-state".accounts b using (key) where a.key = -23'
    )
    assert "-23  acc1" in run("sql", accounts, statement).stdout


def test_a_result_can_be_written_to_a_file(run, accounts, tmp_path):
    file = tmp_path / "accounts.parquet"
    assert 0 == run("sql", accounts, f"copy (from account) to '{file}'").status
    assert [(10,)] == duckdb.read_parquet(str(file)).count("*").fetchall()


def test_json_has_columns_rows_and_what_was_read(run, accounts):
    data = run("sql", accounts, "select key, key, value from account where key = -23", "--json").data

    assert [
        {"name": "key", "type": "BIGINT"},
        {"name": "key_1", "type": "BIGINT"},
        {"name": "value", "type": 'STRUCT(id BIGINT, "name" VARCHAR, obsolete VARCHAR, visits INTEGER)'},
    ] == data["columns"]
    value = {"id": 1, "name": "acc1", "obsolete": "old1", "visits": 3}
    assert [{"key": -23, "key_1": -23, "value": value}] == data["rows"]
    read = {"operator": "account-state", "state": "account", "columns": ["key", "value"], "key_groups": [6]}
    assert [read | {"entries": 1}] == data["read"]


def test_without_a_statement_the_tables_are_listed(run, accounts):
    listed = run("sql", accounts).stdout
    tables = {table["state"]: table for table in run("sql", accounts, "--json").data["tables"]}

    assert "account-by-name" in listed
    names = [column["name"] for column in tables["account-by-name"]["columns"]]
    assert ["key_group", "key", "user_key", "value"] == names


def test_a_spark_checkpoint_has_tables_of_keys_and_values(run):
    place = f"spark:{spark_checkpoints.place('aggregation')}"

    ran = run("sql", place, 'select key.k, value.sum from "default" order by all', "--json")

    exported = run("export", place, "--format", "tagged").data["operators"][0]["keyed"]["default"]["entries"]
    expected = sorted((key["k"], value["sum"]) for key, value in exported)
    assert expected == [tuple(row.values()) for row in ran.data["rows"]]


def test_what_duckdb_refuses_is_wrong_usage(run, accounts):
    ran = run("sql", accounts, "select * from acount")

    assert 2 == ran.status
    assert "DuckDB refuses the statement: Catalog Error: Table with name acount does not exist!" in ran.stderr


def test_no_variable_of_python_is_a_table(run, accounts):
    assert 2 == run("sql", accounts, "select * from savepoint").status


def test_states_of_one_name_have_the_name_of_their_operator(run, tmp_path):
    state = ValueStateDescriptor("total", int)
    job = Job([Operator("a", key=str, states=[state]), Operator("b", key=str, states=[state])])
    write_savepoint(tmp_path / "sp", job, {"a/total": {"x": 1}, "b/total": {"x": 2}})

    assert 2 == run("sql", tmp_path / "sp", "select value from total").status
    assert "2" in run("sql", tmp_path / "sp", "select value from b.total").stdout
    assert "a.total" in run("sql", tmp_path / "sp").stdout


def test_an_error_of_reading_state_is_that_error(run, savepoint_of):
    place = savepoint_of("hashmap-zoo-p1-m128")
    ran = run("sql", place, "select * from instant", "--json")

    assert 6 == ran.status
    assert "ValueNotConvertible" == ran.data["error"]["type"]
    assert {"key", "path", "state"} <= {*ran.data["error"]["where"]}
    assert "1969-12-31T23:59:57.999999999Z" in run("sql", place, "select * from instant", "--exact").stdout


def test_redact_and_a_result_do_not_go_together(run, accounts):
    assert 2 == run("sql", accounts, "select 1", "--redact").status
