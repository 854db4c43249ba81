"""`make demo-stream`: flights as a stream on Spark; the class of their state changes in the middle; Flink goes on.

python stream_demo.py
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import accounts_v1
import accounts_v3
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from demo import HERE, proven, run, say, title
from flights_history import FLIGHTS, read_flights
from stream_accounts import UID, accounts, read

from stateshift import IncompatibleState, MigrationOptions, Savepoint
from stateshift.spark import StreamJob, session

FILES = 12
SLOTS = 2
RESTORE = HERE.parent / "tests" / "interop" / "flink-restore" / "run-restore.sh"


def steps(scratch: Path) -> bool:
    """Stream the first half into version 1, refuse version 2, migrate, stream the second half, compare."""
    flights = read_flights()
    known = flights.filter(pc.is_valid(flights["tailnum"])).sort_by("at").select(["tailnum", "flight"])
    files = [
        known.slice(start, -(-known.num_rows // FILES))
        for start in range(0, known.num_rows, -(-known.num_rows // FILES))
    ]
    incoming, state = scratch / "flights", scratch / "state"
    incoming.mkdir()

    title("1. A query with version 1 of the class; it is stopped in the middle of the year")
    write(files[: FILES // 2], incoming)
    spark = session()
    spark.conf.set("spark.sql.shuffle.partitions", str(SLOTS))

    def start(account: type, **options: Any) -> None:
        job = StreamJob(state, scratch / "checkpoint", slots=SLOTS)
        results = accounts(job, read(spark, str(incoming)), account)
        writer = results.writeStream.format("parquet").option("path", str(scratch / "often"))
        query = job.start(writer, available_now=True, **options)
        query.awaitTermination()
        told = [one["numInputRows"] for one in query.recentProgress if one["numInputRows"]]
        say(f"  {sum(told):,} flights in {len(told)} batches")

    start(accounts_v1.Account)
    run("inspect", str(state))

    title("2. The class changes: visits int -> long, score and email are new, obsolete is gone")
    write(files[FILES // 2 :], incoming)
    try:
        start(accounts_v3.Account)
    except IncompatibleState as refused:
        say(str(refused))
    else:
        return False

    title("3. The same start, and now it may migrate")
    # A start refuses what a migration would lose, unless it is accepted: obsolete goes, on purpose.
    start(accounts_v3.Account, on_incompatible="migrate", options=MigrationOptions())
    spark.stop()

    title("4. A savepoint of the query")
    target = str(scratch / "savepoint")
    run("savepoint", str(state), target)
    run("verify", target)

    title("5. Compare every account with all flights of the year")
    expected = expected_accounts(known)
    found = {entry.key: entry.value for entry in Savepoint.open(target).operator(UID).state("account").read_entries()}
    wrong = [key for key in expected.keys() | found.keys() if plain(found.get(key)) != expected.get(key)]
    say(f"  {len(expected):,} aircraft: {'all equal' if not wrong else f'{len(wrong)} differ, such as {wrong[0]}'}")

    title("6. Flink goes on from the savepoint")
    in_flink = restored_in_flink(target, scratch)
    return not wrong and flights.num_rows == FLIGHTS and in_flink in (None, expected)


def write(tables: list[pa.Table], folder: Path) -> None:
    """Write the files of a stream."""
    before = len(list(folder.iterdir()))
    for number, table in enumerate(tables, start=before):
        pq.write_table(table, folder / f"{number:02}.parquet")


def expected_accounts(flights: pa.Table) -> dict[str, Any]:
    """Return the account of each aircraft, made from all flights at once."""
    grouped = flights.group_by("tailnum").aggregate([("flight", "max"), ("flight", "count")])
    return {
        row["tailnum"]: {
            "id": row["flight_max"],
            "name": row["tailnum"],
            "visits": row["flight_count"],
            "score": 0.0,
            "email": None,
        }
        for row in grouped.to_pylist()
    }


def plain(account: Any) -> Any:
    """Return an account as a dict."""
    return None if account is None else account._asdict()


def restored_in_flink(savepoint: str, scratch: Path) -> dict[str, Any] | None:
    """Return the accounts that real Flink sees; None where it is not at hand."""
    cache = Path(os.environ.get("STATESHIFT_CACHE") or Path.home() / ".cache" / "stateshift")
    jars, built = cache / "flink-2.3.0", sorted(cache.glob("flink-restore-*/build-2.3/done"), key=os.path.getmtime)
    if not RESTORE.exists() or not jars.exists() or not built or shutil.which("java") is None:
        say("  Flink is not at hand here; `make interop` downloads it, and restores such savepoints.")
        return None
    out = scratch / "flink.json"
    variables = os.environ | {"JARS": str(jars), "WORK": str(built[-1].parent.parent), "EVO": "3"}
    ran = subprocess.run([RESTORE, savepoint, out], env=variables, capture_output=True, text=True, check=False)
    answer = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {"status": ran.stderr}
    if answer["status"] != "restored":
        say(f"  {answer}")
        return {}
    (operator,) = answer["operators"]
    found = {key: value["$pojo"]["fields"] for key, value in operator["keyed"]["account"]["entries"]}
    say(f"  real Flink 2.3 restored {len(found):,} accounts")
    return found


if __name__ == "__main__":
    raise SystemExit(proven(steps))
