"""`stateshift sql`: a query over the states of a savepoint, as tables of DuckDB."""

from __future__ import annotations

from datetime import date, time
from itertools import count
from typing import TYPE_CHECKING, Any

import click

from ...compat.plain_data import fields_of
from ...serializers.errors import values_are_redacted
from ...serializers.json_forms import tagged_float
from ...serializers.wording import json_text, many
from ..failures import Status, libraries_needed
from ..options import columns_option, common_options, import_option, old_job_option, open_state, savepoint_argument
from ..output import Column, Table, print_json, print_notice, print_styled
from ..progress import reading

if TYPE_CHECKING:
    from ...state.columnar.dataset import Scan
    from ...state.columnar.sql import SqlSession, SqlTable

_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL")


@click.command(
    "sql",
    epilog="""\b
Examples:
  stateshift sql /data/savepoints/sp-1
  stateshift sql /data/savepoints/sp-1 "select key, value.visits from account where key = 42"
  stateshift sql /data/savepoints/sp-1 'select count(*) from "account-state"."account"'
  stateshift sql /data/savepoints/sp-1 "copy (from account) to 'account.parquet'"
  stateshift sql spark:/data/checkpoints/clicks 'select * from "default" order by value.count desc limit 10'

\b
The table of a state is "operator"."state", or the name of the state alone where only one operator has such a state.
It has the columns key_group, key, namespace, user_key and value, as far as the state has them.
Conditions on key and key_group (=, in) read only the key groups that can have them; others read the whole state.
Needs pip install 'stateshift[sql]'.""",
)
@savepoint_argument()
@click.argument("statement", required=False)
@click.option("--exact", is_flag=True, help="Big numbers and times as text, exactly as they are stored.")
@columns_option
@old_job_option
@import_option
@common_options
def command(savepoint: str, *, statement: str | None, exact: bool, plan: str, old_job: str, with_json: bool) -> int:
    """Run STATEMENT, a query in the SQL of DuckDB, on the states of SAVEPOINT.

    Without a statement, the tables and their columns are listed. SAVEPOINT is only read. What was read of each table
    is said on stderr.
    """
    if statement and values_are_redacted():
        raise click.UsageError("the result is keys and values, which --redact hides")
    from ...state.formats.flink.keyed_readers import databases_once

    with libraries_needed("sql"):
        from ...state.columnar.sql import SqlSession
    until_end = click.get_current_context().with_resource
    until_end(databases_once())
    session = until_end(SqlSession(open_state(savepoint, plan, old_job), exact=exact))
    if not statement:
        _list_tables(session, with_json=with_json)
        return Status.DONE
    with reading("reading", 1, to_stdout=True) as done:
        result = session.run(statement)
        rows = list(result.rows)
        done()
    names = _unique([name for name, _ in result.columns])
    scans = [(table, scan) for table in session.tables if table.rows is not None for scan in table.rows.scans]
    if with_json:
        print_json(
            {
                "columns": [
                    {"name": name, "type": kind} for name, (_, kind) in zip(names, result.columns, strict=True)
                ],
                "rows": [dict(zip(names, map(_plain, row), strict=True)) for row in rows],
                "read": [{"operator": table.operator, "state": table.state} | _facts(scan) for table, scan in scans],
            }
        )
        return Status.DONE
    columns = [
        Column(name, is_number=kind.startswith(_NUMBERS)) for name, (_, kind) in zip(names, result.columns, strict=True)
    ]
    if columns:
        print_styled([Table.of(columns, ([_text(value) for value in row] for row in rows), indent=0)])
        print_notice(many(len(rows), "row"))
    for table, scan in scans:
        print_notice(f"read of {table.state} of {table.operator}: {_told(scan)}")
    return Status.DONE


def _list_tables(session: SqlSession, *, with_json: bool) -> None:
    if with_json:
        print_json({"tables": [_table_data(table) for table in session.tables]})
        return
    named = [
        (table.state if table.state in session.alone else f"{table.operator}.{table.state}", table)
        for table in session.tables
    ]
    rows = [
        (name if not number else "", column, kind)
        for name, table in named
        for number, (column, kind) in enumerate(table.columns.items())
    ]
    print_styled([Table.of([Column("table"), Column("column"), Column("type", is_text=True)], rows, indent=0)])
    for table in session.tables:
        if table.unreadable:
            print_notice(f"no table: {table.state or 'the states'} of {table.operator}: {table.unreadable}")


def _table_data(table: SqlTable) -> dict[str, Any]:
    columns = [{"name": name, "type": kind} for name, kind in table.columns.items()]
    return fields_of(table, "operator state") | {"columns": columns, "unreadable": table.unreadable or None}


def _facts(scan: Scan) -> dict[str, Any]:
    groups = None if scan.key_groups is None else sorted(scan.key_groups)
    return {"columns": list(scan.columns), "key_groups": groups, "entries": scan.rows}


def _told(scan: Scan) -> str:
    where = "" if scan.key_groups is None else f" in {many(len(scan.key_groups), 'key group')}"
    return many(scan.rows, "entry", "entries") + where


def _unique(names: list[str]) -> list[str]:
    """Return names of which none is there twice."""
    found: list[str] = []
    for name in names:
        others = (f"{name}_{number}" for number in count(1))
        found.append(name if name not in found else next(one for one in others if one not in {*found, *names}))
    return found


def _plain(value: Any) -> Any:
    """Return a value of DuckDB as JSON has it, with the tags of an export."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return tagged_float(value)
        case bytes():
            return {"$bytes": value.hex()}
        case dict():
            return {str(name): _plain(one) for name, one in value.items()}
        case list() | tuple():
            return [_plain(one) for one in value]
        case date() | time():
            return value.isoformat()
        case _:
            return str(value)


def _text(value: Any) -> str:
    if value is None:
        return "NULL"
    plain = _plain(value)
    return plain if isinstance(plain, str) else json_text(plain)
