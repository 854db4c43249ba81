"""`stateshift sql` beside `to_arrow`: an aggregate of a whole state, and a query for one key.

    python -m benchmarks.sql_query [--entries 5000000] [--rounds 5] [--shape S2] [--json]

`to_arrow` makes a table of all columns. `aggregate` is the number of rows and the largest value of each field, by
DuckDB, which takes the same columns batch by batch. `key` is a query for one key. Figures are medians of the rounds, in
which all take turns.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time

import duckdb

from stateshift import Savepoint

from .machine import arguments_of, facts, print_table, scratch_folder, told
from .shapes import SHAPES, STATE, write_savepoint

WARM_UP = 1


def main() -> int:
    """Print the seconds of each way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--shape", default="S2", choices=("S2", "S2n", "wide"))
    arguments = arguments_of(parser)
    seconds: dict[str, list[float]] = {"to_arrow": [], "aggregate": [], "key": []}
    with scratch_folder(arguments.folder) as scratch:
        write_savepoint(SHAPES[arguments.shape], arguments.entries, scratch / "source")
        state = Savepoint.open(scratch / "source").dataset(STATE)
        key = state.head(1)["key"][0].as_py()
        fields = [f'value."{field.name}"' for field in state.schema.field("value").type]
        largest = ", ".join(f"max({name})" for name in ("key", *fields))
        queries = {
            "aggregate": f"select count(*), {largest} from state",  # noqa: S608 - names of ours
            "key": f"select * from state where key = {key!r}",  # noqa: S608
        }
        for turn in range(arguments.rounds + WARM_UP):
            for way, found in seconds.items():
                started = time.perf_counter()
                if way == "to_arrow":
                    state.to_table()
                else:
                    duckdb.sql(queries[way]).fetchall()
                if turn >= WARM_UP:
                    found.append(time.perf_counter() - started)
        groups = len(state.scans[-1].key_groups or ())
    medians = {way: statistics.median(found) for way, found in seconds.items()}
    machine = facts(rounds=arguments.rounds, duckdb=duckdb.__version__)
    if arguments.json:
        print(json.dumps({"machine": machine, "entries": arguments.entries, "seconds": medians, "key_groups": groups}))
        return 0
    rows = [(way, f"{one:.3f}", f"{one / medians['to_arrow']:.2f}") for way, one in medians.items()]
    print_table(f"{arguments.entries:,} entries of {arguments.shape}", ("", "s", "of to_arrow"), rows)
    print(f"key: {groups} key group read")
    print(told(machine))
    return 0


if __name__ == "__main__":
    sys.exit(main())
