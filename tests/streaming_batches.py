"""Batches of an operator without Spark: the same packing and slots, called in this process, and what Spark would keep.

A test says what the engine may do: take a slot to another process, repeat a batch, let an attempt die.
"""

from __future__ import annotations

import pyarrow as pa

from stateshift.serializers.hints import serializer_for
from stateshift.serializers.registry import registry
from stateshift.spark.streaming import slot_runs
from stateshift.spark.streaming.building import key_serializer, output_hint
from stateshift.spark.streaming.carriers import packed
from stateshift.spark.streaming.elements import ElementReader, ResultWriter
from stateshift.spark.streaming.grouping import slot_groups
from stateshift.spark.streaming.packing import Packing, unpacked
from stateshift.spark.streaming.runs import RunFacts
from stateshift.spark.streaming.slot_runs import Blob, SlotRunner
from stateshift.spark.worker import Settings, dumped
from stateshift.state.columnar.live_values import field_names
from stateshift.state.storage.files import Folder
from stateshift.state.streaming.directory import Epoch, StateDirectory
from stateshift.state.streaming.manifest import Manifest
from stateshift.state.streaming.slot import InputSpec, OperatorSpec


class Batches:
    """An operator with one keyed input, or several, that runs batch after batch."""

    def __init__(self, place, function, backend, *, schema, key, element=None, timestamp="", delay_ms=0, slots=2,
                 key_groups=8, uid="operator", output=None, side=(), retained=100, idle_ms=None, inputs=1):  # fmt: skip
        self.directory = (
            StateDirectory.open(Folder.at(place)) if (place / "epochs").exists()
            else StateDirectory.create(Folder.at(place), "checkpoint", key_groups)
        )  # fmt: skip
        last = self.directory.last_epoch
        if last is None:
            self.directory.begin_epoch(Epoch(1, slots, 2, slot_groups(slots, 2), {}))
        self.run = RunFacts(self.directory.folder.place, f"run-{id(self)}-{len(list(place.rglob('*')))}")
        self.directory.begin_run(self.run.token, {"epoch": 1 if last is None else last.number, "retained": retained})
        self.settings = Settings(registry.additions(), redacted=False, attempts=1)
        self.schema = pa.schema(schema)
        keys = key_serializer(self.schema, key, None)
        element = serializer_for(element)
        names = tuple(field_names(element)) or tuple(self.schema.names)
        reader = ElementReader(element, names, keys, key, timestamp)
        reader.check(self.schema)
        spec = InputSpec(delay_ms if timestamp else None, idle_ms)
        self.packing = [
            Packing(self.run, self.settings, index, keys, key, timestamp, to_all=False, blob_bytes=1 << 20)
            for index in range(inputs)
        ]
        writer = ResultWriter(
            serializer_for(output_hint(function, output)), {tag.tag_id: serializer_for(tag.type_info) for tag in side}
        )
        self.spec = OperatorSpec(uid, dumped(function), keys, (spec,) * inputs, key_groups, backend)
        self.runner = SlotRunner(self.run, self.settings, self.spec, (reader,) * inputs, writer)
        self.committed: dict[int, bytes] = {}
        self.number = 0
        self.wakes: dict[int, int] = {}

    def batch(self, *inputs, now_ms=0, commits=True, only=None):
        """Run a batch of rows (dicts) and return its results; one that is not committed can be run again.

        Args:
            inputs: The rows of each input.
            now_ms: The time of the batch.
            commits: Whether it is committed.
            only: The groups that run, such as those that a timer wakes; None: all.
        """
        blobs: dict[int, list[Blob]] = {}
        for packing, rows in zip(self.packing, inputs, strict=False):
            for packed_rows in packing(iter([pa.RecordBatch.from_pylist(rows, schema=self.schema)])):
                for row in packed_rows.to_pylist():
                    blob = Blob(row["input"], row["origin"], row["highest_ms"], row["rows"])
                    blobs.setdefault(row["slot_group"], []).append(blob)
        groups = sorted(blobs) if only is None else only
        results, written = [], {}
        for group in groups:
            answer = self.runner(group, self.committed.get(group), blobs.get(group, []), now_ms, self.number)
            if answer.manifest is not None:
                written[group] = answer.manifest
                self.wakes[group] = answer.wake_ms
            rows = packed(answer)
            results += [row for part in (unpacked(rows) if rows else []) for row in part.to_pylist()]
        if commits:
            self.committed.update(written)
            self.number += 1
        return results

    def new_process(self):
        """All slots are opened again from their manifests."""
        for _, task in slot_runs._LIVE.values():
            task.close()
        slot_runs._LIVE.clear()

    @property
    def manifests(self):
        return [Manifest.from_bytes(data) for data in self.committed.values()]
