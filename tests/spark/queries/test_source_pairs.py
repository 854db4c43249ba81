"""What a plan does not show: Spark restarts the changed query on the old checkpoint; the verdict agrees with it.

A query of the new code over all of history says what is right. A start without a flag where Spark yields something
else is an error of the verdict. An unchanged query starts, whatever a policy forbids.
"""

from __future__ import annotations

import shutil
import threading

import attrs
import pytest
import query_pairs
from pyspark.errors import PySparkException
from source_pairs import FILES, MODES, OLD_FILES, SETTINGS, draw, write_rows

from stateshift.compat.policy import Policy
from stateshift.serializers.compatibility import Flag
from stateshift.spark import check_query, start

ALL = Policy(forbid=Flag)


def some(seeds, most):
    """The seeds below a number are for `make slow`, all of them for `make faults`."""
    return [pytest.param(seed, marks=pytest.mark.slow if seed < most else pytest.mark.faults) for seed in seeds]


@attrs.frozen
class Outcome:
    """What Spark and the verdict say of a pair."""

    pair: object
    alone: str
    decision: str
    rules: tuple

    @property
    def is_wrong_start(self):
        return self.decision == "start" and self.alone == "wrong"

    def __str__(self):
        return f"{self.pair.change:38} {self.alone:8} {self.decision:8} {' '.join(self.rules)} {self.pair.was}"


def writer_of(query, spark, folder, checkpoint, batches):
    def collect(frame, batch):
        batches[batch] = sorted(map(str, frame.collect()))

    session = spark.newSession()
    for name, value in SETTINGS.items():
        session.conf.set(name, value)
    writer = query.build(session, folder).writeStream.outputMode(MODES.get(query.core, "update"))
    return writer.foreachBatch(collect).option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)


def run_recorded(writer, **options):
    """Run a query on what is there, as `stateshift.spark.start` does it."""
    start(writer, **options).awaitTermination()
    for thread in threading.enumerate():
        if thread.name == "stateshift recording":
            thread.join()


def outcome(pair, spark, folder, number):
    """Run the new query over all of history, then let Spark alone go on with it, and compare."""
    places = [folder / f"{name}-{number}" for name in ("alone", "history")]
    shutil.copytree(folder / "old", places[0])
    alone, history = {}, {}
    writer_of(pair.now, spark, folder, places[1], history).start().awaitTermination()
    report = check_query(places[0], writer_of(pair.now, spark, folder, places[0], alone))
    try:
        writer_of(pair.now, spark, folder, places[0], alone).start().awaitTermination()
    except PySparkException:
        result = "refused"
    else:
        last = FILES - 1
        result = "right" if alone.get(last) == history.get(last) else "wrong"
    is_flagged = any(finding.flags for finding in report.all_findings())
    decision = "flagged" if is_flagged and report.decision == "start" else str(report.decision)
    return Outcome(pair, result, decision, tuple(dict.fromkeys(one.rule for one in report.all_findings())))


def outcomes_of(seed, spark, folder, changes):
    pairs = draw(seed, changes)
    write_rows(folder, seed, range(OLD_FILES))
    run_recorded(writer_of(pairs[0].was, spark, folder, folder / "old", {}))
    write_rows(folder, seed, range(OLD_FILES, FILES))
    run_recorded(
        writer_of(pairs[0].was, spark, folder, shutil.copytree(folder / "old", folder / "same"), {}), policy=ALL
    )
    return [outcome(pair, spark, folder, number) for number, pair in enumerate(pairs)]


@pytest.mark.parametrize("seed", [0, *some(range(1, 10), 3)])
def test_no_changed_source_starts_with_other_results_without_a_flag(spark, tmp_path, seed):
    outcomes = outcomes_of(seed, spark, tmp_path, 10)

    print("", *map(str, outcomes), sep="\n")
    assert [str(one) for one in outcomes if one.is_wrong_start] == []
    assert len(outcomes) == 10


@pytest.mark.parametrize("seed", some(range(40), 3))
def test_an_unchanged_query_starts_again_whatever_is_forbidden(spark, tmp_path, seed):
    query, rows = query_pairs.draw(seed)[0].was, query_pairs.draw_rows(query_pairs.Random(seed))
    query_pairs.write_rows(tmp_path, rows, [0])
    made = [query.build(query.session(spark), tmp_path).writeStream.outputMode(query.mode) for _ in range(3)]
    batches = []
    for number, writer in enumerate(made):
        told = writer.foreachBatch(lambda frame, batch: batches.append((batch, len(frame.collect()))))
        told = told.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        options = {"policy": ALL, "require_recording": True} if number else {}
        run_recorded(told, **options)
        query_pairs.write_rows(tmp_path, rows, [number + 1])

    assert [batch for batch, _ in batches] == [0, 1, 2]
