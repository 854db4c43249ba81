"""What sinks get of a batch that is run again; the page on exactly once says the same."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from streaming_totals import Totals


def totals(job, query):
    return job.stream(query.frame()).key_by("user").process(Totals(), uid="totals")


@pytest.fixture
def visits(query):
    return query("user string, amount long")


@pytest.mark.slow
def test_foreach_batch_gets_a_batch_that_was_not_committed_again_with_its_number(visits):
    visits.feed(("ann", 1), ("bob", 2))
    visits.feed(("ann", 3), ("bob", 4))
    written, by_number, started = [], {}, []

    def write(batch, number):
        rows = sorted(row.value for row in batch.collect())
        written.append((number, rows))
        by_number[number] = rows
        if number == 1 and written.count((number, rows)) == 1:
            raise ZeroDivisionError("after it was written")

    def run():
        job = visits.job()
        started.append(job.start(totals(job, visits).writeStream.foreachBatch(write), available_now=True))
        started[-1].awaitTermination()

    with pytest.raises(StreamingQueryException, match="after it was written"):
        run()
    run()

    assert [(0, [1, 2]), (1, [4, 6]), (1, [4, 6])] == written  # at least once, and always the same
    assert {0: [1, 2], 1: [4, 6]} == by_number  # exactly once, where a batch replaces the one with its number
    measured = [(one.batchId, one.observedMetrics["totals"]["rows"]) for run in started for one in run.recentProgress]
    assert [(0, 2), (1, 2)] == measured  # what failed is not reported


@pytest.mark.slow
def test_results_in_memory_end_with_their_query_but_its_state_does_not(visits):
    visits.feed(("ann", 1))

    def into_memory(name):
        job = visits.job()
        writer = totals(job, visits).writeStream.format("memory").queryName(name)
        job.start(writer, available_now=True).awaitTermination()
        return [row.value for row in visits.spark.table(name).collect()]

    assert [1] == into_memory("first")
    visits.feed(("ann", 2))
    with pytest.raises(AnalysisException, match="does not support recovering from checkpoint"):
        into_memory("second")
    job, written = visits.job(), []
    writer = totals(job, visits).writeStream.foreachBatch(lambda batch, _: written.extend(batch.collect()))
    job.start(writer, available_now=True).awaitTermination()

    assert [3] == [row.value for row in written]


@pytest.mark.slow
def test_files_in_another_folder_have_the_results_from_then_on(visits):
    visits.feed(("ann", 1))
    visits.run(totals)
    (visits.place / "out").rename(visits.place / "before")
    visits.feed(("ann", 2))
    visits.run(totals)

    assert [(3,)] == visits.results()
