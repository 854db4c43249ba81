"""Batches of an operator without Spark: the same packing and slots, called in this process, and what Spark would keep.

A test says what the engine may do: take a slot to another process, repeat a batch, let an attempt die.
"""

from __future__ import annotations

import json
import uuid
from functools import partial

import attrs
import pyarrow as pa
import spark_manifests

from stateshift import EmbeddedRocksDBStateBackend, HashMapStateBackend
from stateshift.serializers.hints import serializer_for
from stateshift.serializers.registry import registry
from stateshift.spark.streaming import runs, slot_runs
from stateshift.spark.streaming.blobs import Blob, Packing, slot_groups
from stateshift.spark.streaming.elements import ElementReader, ResultWriter
from stateshift.spark.streaming.query_plan import _side_serializers, key_serializer, output_hint
from stateshift.spark.streaming.results import handed_rows
from stateshift.spark.streaming.runs import RunFacts
from stateshift.spark.streaming.slot_runs import SlotRunner
from stateshift.spark.worker import Settings, dumped
from stateshift.state.backends.configuration import Configuration
from stateshift.state.backends.rocksdb import store
from stateshift.state.columnar.live_values import field_names
from stateshift.state.directory.directory import Epoch, StateDirectory
from stateshift.state.directory.manifest import Manifest
from stateshift.state.storage.files import Folder
from stateshift.state.streaming.measures import SlotMetrics
from stateshift.state.streaming.slot import InputSpec, OperatorSpec

INCREMENTAL = Configuration.of({"execution.checkpointing.incremental": True}, environment={})
BACKENDS = {
    "hashmap": HashMapStateBackend,
    "rocksdb": partial(EmbeddedRocksDBStateBackend, configuration=INCREMENTAL),
}


def divided(monkeypatch):
    """Return the RocksDB backend with all states in parts, however small."""
    monkeypatch.setattr(store, "_LARGE_BYTES", 1)
    return partial(BACKENDS["rocksdb"], key_ranges=3)


def close_slots():
    """Close what this process keeps of all queries."""
    for _, task in slot_runs._LIVE.values():
        task.close()
    slot_runs._LIVE.clear()


class Batches:
    """An operator with one keyed input, or several, that runs batch after batch."""

    def __init__(self, place, function, backend, *, schema, key, element=None, timestamp="", delay_ms=0, slots=2,
                 key_groups=8, uid="operator", output=None, side=(), retained=100, idle_ms=None, inputs=1,
                 before=None, base="", blob_bytes=1 << 20, as_spark=False, on_error="fail", **of_epoch):  # fmt: skip
        self.checkpoint = place.parent / f"{place.name}-checkpoint"
        self.directory = (
            StateDirectory.open(Folder.at(place)) if (place / "epochs").exists()
            else StateDirectory.create(Folder.at(place), str(self.checkpoint), key_groups)
        )  # fmt: skip
        self.as_spark = as_spark  # the checkpoint has the manifests, as Spark writes them
        if as_spark:
            spark_manifests.begin(self.checkpoint)
        self.committed: dict[int, bytes] = {} if before is None else dict(before.committed)
        self.number = 0 if before is None else before.number
        self.wakes: dict[int, int] = {}
        self.measured: list[SlotMetrics] = []
        epoch, after = self.directory.last_epoch, self.number - 1 if self.number else None
        if epoch is None or base:
            number = 1 if epoch is None else epoch.number + 1
            epoch = Epoch(number, slots, 2, slot_groups(slots, 2), {uid: "none"}, after, base, **of_epoch)
            self.directory.begin_epoch(epoch)
        self.run = RunFacts(self.directory.folder.place, uuid.uuid4().hex)
        self.directory.begin_run(self.run.token, epoch=epoch.number, retained=retained, after_batch=after,
                                 attempts=[one.attempt for one in self.manifests])  # fmt: skip
        self.settings = Settings(registry.additions(), redacted=False, attempts=1)
        self.schema = pa.schema(schema)
        keys = key_serializer(self.schema, key, None)
        element = serializer_for(element)
        names = tuple(field_names(element)) or tuple(self.schema.names)
        reader = ElementReader(element, names, keys, key, timestamp)
        reader.check(self.schema)
        spec = InputSpec(delay_ms if timestamp else None, idle_ms)
        self.packing = [
            Packing(
                self.run,
                self.settings,
                index,
                keys,
                key,
                timestamp,
                to_all=False,
                blob_bytes=blob_bytes,
                tolerates=on_error != "fail",
            )
            for index in range(inputs)
        ]
        writer = ResultWriter(serializer_for(output_hint(function, output)), _side_serializers(side, on_error))
        self.spec = OperatorSpec(uid, dumped(function), keys, (spec,) * inputs, backend, on_error=on_error)
        self.runner = SlotRunner(self.run, self.settings, self.spec, (reader,) * inputs, writer)

    def batch(self, *inputs, now_ms=0, commits=True, only=None, drains=False, rows_at_once=1_000_000):
        """Run a batch of rows (dicts) and return its results; one that is not committed can be run again.

        Args:
            inputs: The rows of each input.
            now_ms: The time of the batch.
            commits: Whether it is committed.
            only: The groups that run, such as those that a timer wakes; None: all.
            drains: Whether event time ends after it.
            rows_at_once: How many rows Spark has in an Arrow batch.
        """
        if drains:
            (before,) = (run for token, run in self.directory.runs().items() if token == self.run.token)
            facts = {**attrs.asdict(before), "drains": self.number}
            path = self.directory.folder.folder("runs")
            path.write(f"{self.run.token}.json", json.dumps(facts).encode())
            runs._read.cache_clear()
        self._log("offsets", f'v1\n{{"conf":{{}}}}\n{{"read":{self.number}}}')
        blobs: dict[int, list[Blob]] = {}
        for packing, rows in zip(self.packing, inputs, strict=False):
            table = pa.Table.from_pylist(rows, schema=self.schema)
            given = table.to_batches(max_chunksize=rows_at_once) or [pa.RecordBatch.from_pylist([], self.schema)]
            for packed_rows in packing(iter(given)):
                for row in packed_rows.to_pylist():
                    blob = Blob(row["input"], row["origin"], row["highest_ms"], row["rows"])
                    blobs.setdefault(row["slot_group"], []).append(blob)
        groups = sorted(blobs) if only is None else only  # as Spark orders them: lanes come first
        results, written = [], {}
        self.measured = []
        for group in groups:
            answer = self.runner(group, self.committed.get(group), blobs.get(group, []), now_ms, self.number)
            if answer.metrics is not None:
                self.measured.append(answer.metrics)
            if answer.manifest is not None:
                written[group] = answer.manifest
                self.wakes[group] = Manifest.from_bytes(answer.manifest).wake_ms
            if answer.results is not None:
                results += [row for part in handed_rows(answer.results) for row in part.to_pylist()]
        self.written = written
        if commits:
            self.committed.update(written)
            self.commit()
        return results

    def commit(self):
        """Commit the batch with the manifests that there are."""
        if self.as_spark:
            spark_manifests.commit(self.checkpoint, self.number, self.committed)
        self._log("commits", "v1\n{}")
        self.number += 1

    @property
    def groups(self):
        return self.directory.last_epoch.groups

    def _log(self, folder, text):
        (self.checkpoint / folder).mkdir(parents=True, exist_ok=True)
        (self.checkpoint / folder / str(self.number)).write_text(text, encoding="utf-8")

    def new_process(self):
        """All slots are opened again from their manifests."""
        close_slots()

    @property
    def manifests(self):
        return [Manifest.from_bytes(data) for data in self.committed.values()]
