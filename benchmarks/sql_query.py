"""`stateshift sql` beside `to_arrow`: an aggregate of a whole state, and a query for one key.

    python -m benchmarks.sql_query [--entries 5000000] [--rounds 5] [--shape S2] [--json]

`to_arrow` makes a table of all columns. `aggregate` is the number of rows and the largest value of each field, by
DuckDB, which takes the same columns batch by batch. `key` is a query for one key. Figures are medians of the rounds, in
which all take turns.
"""

from __future__ import annotations

import argparse
import json
import sys

import duckdb

from stateshift import Savepoint

from .machine import arguments_of, facts, in_turns, print_medians, scratch_folder, told
from .shapes import SHAPES, STATE, write_savepoint


def main() -> int:
    """Print the seconds of each way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--shape", default="S2", choices=("S2", "S2n", "wide"))
    arguments = arguments_of(parser)
    with scratch_folder(arguments.folder) as scratch:
        write_savepoint(SHAPES[arguments.shape], arguments.entries, scratch / "source")
        state = Savepoint.open(scratch / "source").dataset(STATE)
        key = state.head(1)["key"][0].as_py()
        fields = [f'value."{field.name}"' for field in state.schema.field("value").type]
        largest = ", ".join(f"max({name})" for name in ("key", *fields))
        aggregate = f"select count(*), {largest} from state"  # noqa: S608 - names of ours
        one = f"select * from state where key = {key!r}"  # noqa: S608
        duckdb.register("state", state)
        ways = {
            "to_arrow": state.to_table,
            "aggregate": lambda: duckdb.sql(aggregate).fetchall(),
            "key": lambda: duckdb.sql(one).fetchall(),
        }
        medians = in_turns(ways, arguments.rounds)
        groups = len(state.scans[-1].key_groups or ())
    machine = facts(rounds=arguments.rounds, duckdb=duckdb.__version__)
    if arguments.json:
        print(json.dumps({"machine": machine, "entries": arguments.entries, "seconds": medians, "key_groups": groups}))
        return 0
    title = f"{arguments.entries:,} entries of {arguments.shape}"
    print_medians(title, medians, f"key: {groups} key group read", told(machine))
    return 0


if __name__ == "__main__":
    sys.exit(main())
