"""Stored queries that are started again where they were written, and what they then give."""

from __future__ import annotations

import json
import os

import pyarrow as pa
import pyarrow.parquet as pq

import stateshift.spark
from stateshift.spark import StreamJob

USERS = [f"user {number}" for number in range(6)]
AT_S = 1_767_225_600
PARQUET = pa.schema([("user", pa.string()), ("amount", pa.int64()), ("at", pa.int64())])


def feed(folder, number, *payments):
    """Write a file of payments: tuples of a user, an amount, and milliseconds."""
    place = folder / "in"
    place.mkdir(parents=True, exist_ok=True)
    named = [dict(zip(PARQUET.names, one, strict=True)) for one in payments]
    pq.write_table(pa.Table.from_pylist(named, PARQUET), place / f".{number}")
    os.utime(place / f".{number}", (AT_S + number, AT_S + number))
    (place / f".{number}").rename(place / f"{number:05}.parquet")


def feed_rows(folder, number, place="in"):
    """Write a file of rows for a query of Spark alone."""
    (folder / place).mkdir(parents=True, exist_ok=True)
    lines = [
        {"k": "abc"[n % 3], "n": n, "w": 2 * n, "at": f"2026-01-01T00:{10 * number + n % 10:02}:00Z"}
        for n in range(20 * number, 20 * number + 20)
    ]
    file = folder / place / f"{number}.json"
    file.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    os.utime(file, (AT_S + number, AT_S + number))


def run_accounts(spark, folder, columns, function, *, carrier=None, backend=None, **how):
    """Run the query of accounts until all files are processed; without a carrier and a backend with those it had."""
    configuration = {"state.backend.type": backend} if backend else None
    job = StreamJob(
        folder / "state", folder / "checkpoint", slots=2, max_parallelism=8, carrier=carrier,
        configuration=configuration,
    )  # fmt: skip
    payments = spark.readStream.schema(columns).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    told = job.stream(payments, timestamp="at").key_by("user").process(function, uid="accounts")
    writer = told.writeStream.format("json").option("path", str(folder / "out"))
    job.start(writer, available_now=True, **how).awaitTermination()


def run_source(folder, user, end):
    """Run the query of a source until that has emitted so many numbers."""
    job = StreamJob(folder / "state", folder / "checkpoint", slots=2, max_parallelism=8)
    numbers = job.source(user.Counter(end), uid="counter", output_type=user.Reading, max_rows=20)
    sums = job.stream(numbers).key_by("digit").process(user.Sums(), uid="sums")
    writer = sums.writeStream.format("json").option("path", str(folder / "out"))
    job.start(writer, available_now=True).awaitTermination()


def results(folder):
    """Return what the sink has, sorted."""
    lines = (line for file in (folder / "out").glob("*.json") for line in file.read_text().splitlines())
    return sorted(json.loads(line)["value"] for line in lines)


def new_results(folder, run):
    """Return what the sink has of a run that it had not before."""
    before = results(folder)
    run()
    after = results(folder)
    for one in before:
        after.remove(one)
    return after


def restarted(spark, kind, folder, user):
    """Start a stored query again, with new rows, and return what it gives for them."""
    now = user.AccountsNow() if kind.startswith("lazy") else user.Accounts()
    backend = "hashmap" if kind.startswith("hashmap") else "rocksdb"
    if kind == "source":
        return new_results(folder, lambda: run_source(folder, user, 65))
    if kind in {"sums", "sums-unrecorded", "windows", "distinct", "joined", "with_names", "migrated"}:
        name = {"migrated": "sums_and_counts", "sums-unrecorded": "sums"}.get(kind, kind)
        return restarted_spark(spark, folder, getattr(user, name), "new" if kind == "migrated" else "checkpoint")
    feed(folder, 5, *((name, 100, (AT_S + 130) * 1000) for name in USERS))
    return new_results(folder, lambda: run_accounts(spark, folder, user.COLUMNS, now, backend=backend))


def upgraded(spark, kind, folder, user):
    """The same with the new class of its state."""
    feed(folder, 5, *((name, 100, (AT_S + 130) * 1000) for name in USERS))
    backend = "hashmap" if kind.startswith("hashmap") else "rocksdb"
    now = user.AccountsNow()
    how = {"backend": backend, "on_incompatible": "migrate"}
    return new_results(folder, lambda: run_accounts(spark, folder, user.COLUMNS, now, **how))


def restarted_spark(spark, folder, build, checkpoint):
    """Start a query of Spark alone, checked, with new rows, and return what its next batch has."""
    os.environ["STORED_QUERY"] = folder.name
    for place in ("in", "other"):
        if (folder / place).exists():
            feed_rows(folder, 2, place)
    found = []
    writer = build(spark).foreachBatch(lambda batch, _: found.extend(map(str, batch.collect())))
    writer = writer.trigger(availableNow=True).option("checkpointLocation", str(folder / checkpoint))
    stateshift.spark.start(writer).awaitTermination()
    return sorted(found)
