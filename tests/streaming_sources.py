"""Sources whose elements are known, and a reader of one without Spark: what Spark asks it, a test asks."""

from __future__ import annotations

import time
import uuid

from stateshift import ListCheckpointed, SourceFunction
from stateshift.serializers.hints import serializer_for
from stateshift.serializers.registry import registry
from stateshift.spark.streaming.blobs import slot_groups
from stateshift.spark.streaming.elements import ResultWriter
from stateshift.spark.streaming.runs import RunFacts
from stateshift.spark.streaming.sources import SourceReader, SourceWork
from stateshift.spark.worker import Settings, dumped
from stateshift.state.directory.directory import Epoch, StateDirectory
from stateshift.state.storage.files import Folder
from stateshift.state.streaming.source import SourceSpec

GROUPS = 8


class Counter(SourceFunction, ListCheckpointed):
    """Emits 0, 1, 2, and so on, exactly once.

    Args:
        end: Where it ends.
        pause_s: How long it waits before each hundredth element.
    """

    state_type = int

    def __init__(self, end, pause_s=0.0):
        self.next, self.end, self.pause_s = 0, end, pause_s
        self.is_running = True

    def run(self, ctx):
        lock = ctx.get_checkpoint_lock()
        while self.is_running and self.next < self.end:
            if self.pause_s and not self.next % 100:
                time.sleep(self.pause_s)
            with lock:
                ctx.collect(self.next)
                self.next += 1

    def cancel(self):
        self.is_running = False

    def snapshot_state(self, checkpoint_id, timestamp):
        return [self.next]

    def restore_state(self, state):
        (self.next,) = state


class Reading:
    """A start of a query with one source, in this process; Spark's logs are written by the test."""

    def __init__(self, place, function, *, output=int, timestamp="", max_rows=10, retained=100, base=""):
        self.place, self.checkpoint = place, place.parent / f"{place.name}-checkpoint"
        is_new = not (place / "epochs").exists()
        open_or_create = StateDirectory.create if is_new else StateDirectory.open
        self.directory = open_or_create(Folder.at(place), *([str(self.checkpoint), GROUPS] if is_new else []))
        epoch = self.directory.last_epoch
        if epoch is None or base:
            number = 1 if epoch is None else epoch.number + 1
            epoch = Epoch(number, 1, 1, slot_groups(1, 1), {}, base=base)
            self.directory.begin_epoch(epoch)
        run = RunFacts(self.directory.folder.place, uuid.uuid4().hex)
        self.directory.begin_run(run.token, epoch=epoch.number, retained=retained)
        spec = SourceSpec("counter", dumped(function), GROUPS, max_rows, bool(timestamp))
        settings = Settings(registry.additions(), redacted=False, attempts=1)
        writer = ResultWriter(serializer_for(output))
        self.reader = SourceReader(SourceWork(run, settings, spec, writer, timestamp, 5.0, ()))
        self.reader.prepareForTriggerAvailableNow()

    def rows(self, start, end):
        """Return the rows between two offsets."""
        parts = self.reader.partitions(start, end)
        return [row for part in parts for batch in self.reader.read(part) for row in batch.to_pylist()]

    def values(self, start, end):
        return [row["value"] for row in self.rows(start, end)]

    def log(self, batch, offset, *, commits=True):
        """Note a batch as Spark does."""
        for folder, text in (("offsets", f'v1\n{{"conf":{{}}}}\n{offset}'), ("commits", "v1\n{}")):
            if folder == "offsets" or commits:
                (self.checkpoint / folder).mkdir(parents=True, exist_ok=True)
                (self.checkpoint / folder / str(batch)).write_text(text, encoding="utf-8")
