"""What a check names is what a migration does to files of real Spark: twenty old queries, and three new ones of each.

The new side is planned, and not started; where nothing is filled, Spark starts some of the new queries on the copies,
and they go on as if they had run from the beginning.
"""

from __future__ import annotations

from functools import partial
from random import Random

import pytest
from drawn_queries import Query
from live_queries import KINDS, draw_new, draw_old, write_rows
from pairing_law import Case, holds_for
from written_checkpoints import entries_in, migrates

from stateshift.compat.queries.kinds import AGGREGATION, DEDUPLICATION, JOIN
from stateshift.compat.queries.verdict import judge
from stateshift.spark.queries.description import describe_under
from stateshift.spark.queries.new_side import new_side
from stateshift.spark.queries.planning import UnstartedQuery
from stateshift.state.formats.spark.reader import SparkCheckpoint

pytestmark = pytest.mark.slow
MIGRATED, MOST_DRAWN = 3, 40
"""How many new queries of each old one are migrated, and of how many at most one is drawn."""
RESTARTED = {AGGREGATION, DEDUPLICATION, JOIN}
"""The kinds whose results show what is stored."""


@pytest.mark.parametrize("seed", range(len(KINDS)))
def test_each_entry_of_a_migrated_checkpoint_of_spark_is_right(spark, tmp_path, seed):
    random = Random(seed)  # noqa: S311 - it draws tests
    write_rows(tmp_path, random, 0)
    was = draw_old(random, KINDS[seed])
    was.writer(spark, tmp_path, tmp_path / "old").start().awaitTermination()
    old = SparkCheckpoint.open(tmp_path / "old")
    stored = old.describe()
    writer = was.writer(spark, tmp_path, tmp_path / "old")
    known = describe_under(UnstartedQuery.of(writer), old.log.last, "the old code")
    entries = entries_in(old, [was.operator()])
    assert any(entries[0].values())

    ran, restarts = 0, []
    for number in range(MOST_DRAWN):
        if ran == MIGRATED:
            break
        is_first = (
            ran == 0 and number < MOST_DRAWN // 2
        )  # nothing new in it, so that it goes on as if it had run from the beginning
        now, is_known = draw_new(random, was, adds=not is_first), is_first or random.random() < 0.5
        drawn = Query(((was.operator(), now.operator()),), is_known, (0,))
        target = tmp_path / f"copy-{number}"
        with new_side(old, None, now.writer(spark, tmp_path, target)) as side:
            report = judge(stored, side.query, known=known if is_known else None)
            assert types_of(drawn.descriptions()[2]) == types_of(side.query)
            case = Case(drawn, stored, known if is_known else None, side.query, report)
            of_case = []
            migrated = partial(in_place, entries=entries, old=old, side=side, target=target, done=of_case)
            ran += holds_for(case, random, migrated)[1]
        if is_known and any(goes_on(fates) for fates in of_case):
            restarts.append((now, target))
    assert ran == MIGRATED

    write_rows(tmp_path, random, 1)
    for now, target in restarts[:1] if was.kind in RESTARTED else ():
        results, history = {}, {}
        now.writer(spark, tmp_path, target, results).start().awaitTermination()
        now.writer(spark, tmp_path, tmp_path / "history", history).start().awaitTermination()
        assert {1: history[1]} == results


def in_place(case, said, fates, _, *, entries, old, side, target, done):
    migrates(case, said, fates, entries, old, side, target)
    done += fates.values()


def goes_on(fates):
    """Whether the new query has all that it would have, had it run from the beginning."""
    of_key = (one for one in fates.fate.dropped if one.startswith("key."))
    return not fates.fate.filled and not any(of_key)


def types_of(query):
    """The types of all stores, so that what was drawn is what Spark has."""
    (operator,) = query.computations
    return {name: (of.key.describe(), of.value.describe()) for name, of in operator.stores.items()}
