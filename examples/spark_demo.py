"""`make demo-spark`: two changes of a plain PySpark query: one that Spark gets wrong, and one that it refuses.

The queries are in `orders.py`. Every command is as you would type it in the folder where they run.
"""

from __future__ import annotations

import json
import re
import shutil
from contextlib import chdir
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orders
from demo import HERE, proven, run, say, title
from pyspark.errors import StreamingQueryException

from stateshift.spark import session

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

SHOPS = ("Bergen", "Oslo", "Tromsø")
ORDERS = 300
Totals = dict[str, dict[str, Any]]


def steps(scratch: Path) -> bool:
    """Run the query of last year, then each change of it on a copy of its checkpoint."""
    shutil.copy(HERE / "orders.py", scratch)
    with chdir(scratch):
        return changes(session("local[2]", conf={"spark.sql.shuffle.partitions": "2"}))


def changes(spark: SparkSession) -> bool:
    """Make both changes, in the folder of the query."""
    history = [order(number) for number in range(ORDERS)]
    write(history, "1.json")
    title("1. A query sums what shops are paid and what they refund; it is stopped, and its code changes")
    show("after 300 orders:", started(orders.totals, spark, "checkpoint"))
    shutil.copytree("checkpoint", "copy-for-spark")
    shutil.copytree("checkpoint", "another-copy-for-spark")

    title("2. A clean-up exchanges the two sums. Spark alone, on a copy of the checkpoint, starts:")
    history += (new := [order(number, tip=number % 7) for number in range(ORDERS, ORDERS + 30)])
    write(new, "2.json")
    wrong = started(orders.exchanged, spark, "copy-for-spark")
    show("30 orders later it says:", wrong)
    show("and this is right:", true := expected(history, "paid", "refunded"))
    say("No error, no warning: both sums are bigint, and Spark compares nothing else. stateshift says it before:", "")
    run("check", "spark:checkpoint", "--query", "orders:exchanged", "--was", "orders:totals", expected=4, folder=".")

    title("3. Another change: one aggregate more. Spark alone refuses:")
    refusal = refused(orders.with_tip, spark, "another-copy-for-spark")
    say("", "The advice on the web is to delete the checkpoint, and with it all sums. Instead:", "")
    run(
        "migrate", "spark:checkpoint", "spark:checkpoint-v2", "--query", "orders:with_tip", "--was", "orders:totals",
        "--fill", "0:value.max=null", folder=".",
    )  # fmt: skip

    title("4. The new query goes on from the copy")
    found = started(orders.with_tip, spark, "checkpoint-v2")
    show("it says:", found)
    true_now = expected(history, "paid", "refunded", best_tip="tip")
    is_equal = found == true_now
    said = "the same" if is_equal else true_now
    say(f"  the same query over all {len(history)} orders since the beginning says {said}")
    spark.stop()
    return wrong != true and "NOT_COMPATIBLE" in refusal and is_equal


def order(number: int, *, tip: int | None = None) -> dict[str, Any]:
    """Return an order."""
    paid = 10 + number * 37 % 90
    return {"shop": SHOPS[number % 3], "paid": paid, "refunded": paid if number % 10 == 0 else 0, "tip": tip}


def write(rows: list[dict[str, Any]], name: str) -> None:
    """Write a file of orders, which a query reads as a batch."""
    Path("orders").mkdir(exist_ok=True)
    Path("orders", name).write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")


def started(query: Callable[[SparkSession], DataStreamWriter], spark: SparkSession, checkpoint: str) -> Totals:
    """Run a query over the orders that are new to it, by Spark alone; return its last row for each shop."""
    results: Totals = {}

    def collect(frame: Any, _: int) -> None:
        results.update({row["shop"]: row.asDict() for row in frame.collect()})

    writer = query(spark).foreachBatch(collect).option("checkpointLocation", str(Path(checkpoint).absolute()))
    writer.trigger(availableNow=True).start().awaitTermination()
    return results


def refused(query: Callable[[SparkSession], DataStreamWriter], spark: SparkSession, checkpoint: str) -> str:
    """Run a query that Spark refuses; return the name of its error, of which Spark itself prints the rest."""
    try:
        started(query, spark, checkpoint)
    except StreamingQueryException as error:
        found = re.search(r"\w+NOT_COMPATIBLE", str(error))
        return found[0] if found else ""
    return ""


def expected(history: list[dict[str, Any]], *sums: str, best_tip: str = "") -> Totals:
    """Return what a query over all orders says, made in plain Python."""
    totals: Totals = {}
    for shop in SHOPS:
        its = [one for one in history if one["shop"] == shop]
        totals[shop] = {"shop": shop} | {name: sum(one[name] for one in its) for name in sums}
        if best_tip:
            totals[shop]["best_tip"] = max(one["tip"] for one in its if one["tip"] is not None)
    return totals


def show(words: str, totals: Totals) -> None:
    """Print the rows of a query."""
    say(f"  {words}")
    for shop in sorted(totals):
        row = {name: value for name, value in sorted(totals[shop].items(), reverse=True) if name != "shop"}
        say(f"    {shop:<8}" + "".join(f"  {name} {value:>6,}" for name, value in row.items()))


if __name__ == "__main__":
    raise SystemExit(proven(steps))
