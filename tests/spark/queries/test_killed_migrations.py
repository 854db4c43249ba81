"""Migrations that are killed at seeded moments, and a query of Spark started on what each of them left.

Such a query starts from the beginning where there is no copy yet, is refused where one is unfinished, and goes on where
it is complete. Half of the moments are drawn from time, and half from what a migration does to the storage, so that
short phases are met, too. STATESHIFT_FAULT_SEEDS=7 kills at the moments of seed 7 again.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter

import attrs
import pytest
from fault_seeds import chosen_seeds
from pyspark.sql import functions as F  # noqa: N812 - as its users write it
from spark_processors import CHANGES as PROCESSOR_CHANGES
from spark_processors import keeping
from spark_queries import settings
from spark_streams import (
    JOIN_CHANGES,
    SESSION_CHANGES,
    TwoStreams,
    batch,
    in_sessions,
    in_sessions_anew,
    joined,
    joined_anew,
    stored,
)

from stateshift.compat.queries.changes import FieldChanges
from stateshift.serializers.errors import TargetExists
from stateshift.spark.queries.migration import migrate_checkpoint
from stateshift.state.migration.queries.checkpoint_copy import UNFINISHED

pytestmark = pytest.mark.faults

FEW = frozenset({"join", "processor"})
"""Kinds whose state Spark writes slowly."""
PROVIDER = "org.apache.spark.sql.execution.streaming.state.{}StateStoreProvider"


def history(keys):
    """Rows of this many keys: a batch before a migration, and two after it; the last one passes the watermark."""
    return [batch(0, 3 * keys, 0, keys)], [batch(0, keys, 4, keys), batch(61, 62, 50, keys)]


def sums(s, _):
    return s.groupBy(F.window("at", "5 minutes"), "k", "l").agg(F.sum("n"), F.max("n"), F.min("d")).drop("window")


def sums_anew(s, _):
    wide = F.max(F.col("n").cast("bigint"))
    return s.groupBy("l", "k", F.window("at", "5 minutes")).agg(wide, F.sum("n")).drop("window")


def distinct(s, _):
    return s.select("k", "l", "n").dropDuplicates(["k", "l", "n"])


def distinct_anew(s, _):
    return s.select("l", "k").dropDuplicates(["l", "k"])


KINDS = {
    "aggregation": (sums, sums_anew, FieldChanges()),
    "dedup": (distinct, distinct_anew, FieldChanges()),
    "join": (joined("left_outer"), joined_anew("left_outer"), JOIN_CHANGES),
    "session": (in_sessions, in_sessions_anew, SESSION_CHANGES),
    "processor": (keeping(), keeping(is_new=True), PROCESSOR_CHANGES),
}


@attrs.define
class Killed:
    """A migration of `old` to `new` that is killed, and the queries on what it left.

    Attributes:
        streams: The queries.
        new: The new query.
        changes: What the migration is told.
        facts_of: Looks at all files of a folder.
        before: The files of the source.
        copied: The entries of a complete copy.
        later: What the new query yields from a complete copy.
        every: What it yields from the beginning.
        took_s: How long a migration takes.
        steps: How many steps it takes.
        phases: How many runs were killed in each phase.
    """

    streams: TwoStreams
    new: object
    changes: FieldChanges
    facts_of: object
    before: dict = attrs.field(init=False)
    copied: dict = attrs.field(init=False)
    later: list = attrs.field(init=False)
    every: list = attrs.field(init=False)
    took_s: float = attrs.field(init=False)
    steps: int = attrs.field(init=False)
    phases: Counter = attrs.field(factory=Counter, init=False)

    @property
    def folder(self):
        return self.streams.folder

    @property
    def target(self):
        return self.folder / "new"

    @classmethod
    def of(cls, streams, kind, facts_of):
        """Run the old query and the new one, and a whole migration."""
        old, new, changes = KINDS[kind]
        before, after = history(211 if kind in FEW else 5003)
        streams.feed(before)
        streams.run(old, "old")
        first = streams.run(new, "probe")
        shutil.copytree(streams.folder / "probe", streams.folder / "whole")
        streams.feed(after)
        killed = cls(streams, new, changes, facts_of)
        killed.before, killed.copied = facts_of(streams.folder / "old"), stored(streams.folder / "whole")
        killed.later = streams.run(new, "whole")
        killed.every = sorted(first + killed.later, key=str)
        with killed.started() as run:
            start = time.perf_counter()
            killed.steps = int(run.stdout.read())
            killed.took_s = time.perf_counter() - start
        killed.require_complete()
        return killed

    def started(self, step=-1):
        """Start a migration, and return when it begins."""
        changes = json.dumps(attrs.asdict(self.changes, filter=lambda _, value: bool(value)))
        places = (self.folder / name for name in ("old", "new", "probe"))
        program = self.folder / "killed_migrations.py"
        command = [sys.executable, program, *places, changes, str(step)]
        run = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)
        assert run.stdout.readline() == "ready\n"
        return run

    def kill(self, moment, *, by_time):
        """Kill a migration at a moment: 0 is its beginning, and 1 the end of one that begins anew."""
        with self.started(-1 if by_time else int(moment * self.steps)) as run:
            if by_time:
                time.sleep(moment * self.took_s)
                run.send_signal(signal.SIGKILL)
        assert self.facts_of(self.folder / "old") == self.before
        self.phases[self.phase if run.returncode < 0 else "ended before"] += 1

    @property
    def phase(self):
        """What a run was doing when it died, by what it left."""
        metadata = self.target / "metadata"
        if not metadata.exists():
            return "beginning"
        if not metadata.read_text().startswith(UNFINISHED):
            return "complete"
        written = len(self.parts_of(self.target))
        if not written:
            return "state" if (self.target / "state").exists() else "logs"
        return "all state" if written == len(self.parts_of(self.folder / "whole")) else "state"

    @staticmethod
    def parts_of(checkpoint):
        """The partitions of stores of which a snapshot is there."""
        return {file.parent for kind in ("snapshot", "zip") for file in checkpoint.glob(f"state/**/[0-9]*.{kind}")}

    def query(self):
        """Start the new query on what a run left; return whether that was complete."""
        phase = self.phase
        if phase == "beginning":
            left = self.target.rglob("*")
            assert all(file.name.startswith("_claim-") or ".attempt-" in file.name for file in left)
            if self.phases[phase] == 1:  # the others left the same
                assert self.streams.run(self.new, "new") == self.every
                with pytest.raises(TargetExists):
                    self.migrate()
                shutil.rmtree(self.target)
        elif phase == "complete":
            self.require_complete()
        else:
            left = self.facts_of(self.target)
            with pytest.raises(Exception, match=UNFINISHED):
                self.streams.run(self.new, "new")
            assert self.facts_of(self.target) == left
        return phase == "complete"

    def migrate(self):
        places = (self.folder / name for name in ("old", "new"))
        return migrate_checkpoint(*places, like=self.folder / "probe", changes={0: self.changes})

    def require_complete(self, *, is_run=True):
        """Check that the copy is what Spark itself would have written, and that the query goes on from it."""
        assert stored(self.target) == self.copied
        assert not [path for path in self.target.rglob("*") if ".attempt-" in path.name]
        if is_run:
            assert self.streams.run(self.new, "new") == self.later
        shutil.rmtree(self.target)


@pytest.mark.parametrize(
    ("provider", "kind"),
    [
        *(("HDFSBacked", kind) for kind in ("aggregation", "dedup", "join", "session")),
        *(("RocksDB", kind) for kind in ("aggregation", "dedup", "join", "session", "processor")),
    ],
)
def test_a_query_never_starts_on_half_a_copy_and_the_next_run_finishes_it(
    spark, tmp_path, root, facts_of, provider, kind
):
    shutil.copy(root / "tests" / "killed_migrations.py", tmp_path)
    given = {
        "spark.sql.streaming.stateStore.providerClass": PROVIDER.format(provider),
        "spark.sql.shuffle.partitions": "5",
        "spark.sql.session.timeZone": "UTC",
    }
    seeds = chosen_seeds("0-9")
    with settings(spark, **given):
        killed = Killed.of(TwoStreams(spark, tmp_path), kind, facts_of)
        print(f"{provider} {kind}: a migration has {killed.steps} steps, and takes {killed.took_s:.2f} s")
        for seed in seeds:
            draw = random.Random(f"{kind} {seed}")  # noqa: S311 - repeatable
            for nth in range(1, 2 + draw.randrange(2)):  # what was killed has less to do the next time
                killed.kill(draw.random() / nth, by_time=seed % 2 == 0)
                is_complete = killed.query()
            if not is_complete:
                killed.migrate()
                killed.require_complete(is_run=seed % 5 == 0)
        print(dict(killed.phases))

    assert killed.phases["state"] > 0 or len(seeds) < 10
