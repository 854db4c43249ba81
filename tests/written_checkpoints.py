"""Checkpoints that our own writers make of drawn queries, and the entries that a migration should make of theirs."""

from __future__ import annotations

import datetime as dt
import json
import tempfile
from collections import Counter
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path

import attrs
import numpy as np
import pyarrow as pa
import pytest
from drawn_queries import rows_of, struct, struct_json
from spark_changes import schema_bytes, schema_file

from stateshift.compat.queries.changes import FieldChanges
from stateshift.compat.queries.kinds import JOIN, SESSION, TIMERS, TRANSFORM
from stateshift.serializers.errors import IncompatibleState
from stateshift.serializers.spark_rows.row_encoder import encode_rows
from stateshift.serializers.spark_rows.rows import arrow_type
from stateshift.state.formats.spark.layout_encoder import LayoutEncoder
from stateshift.state.formats.spark.operators import _KINDS
from stateshift.state.formats.spark.partitioning import partitions_of
from stateshift.state.formats.spark.reader import DEFAULT_PROVIDER, ROCKSDB, SparkCheckpoint
from stateshift.state.formats.spark.rocksdb_writer import DatabaseWriter, write_parts
from stateshift.state.formats.spark.store_writer import EntryBlock, snapshots
from stateshift.state.migration.queries.checkpoint_copy import Copy
from stateshift.state.migration.queries.preparation import Known, NewSide, prepare_copy
from stateshift.state.migration.queries.providers import write_rows, written_families
from stateshift.state.storage.files import Folder

PARTITIONS, ROWS = 2, 6
BATCH_MS = 1_700_000_000_000
DEADLINE_MS = 2_000_000_000_000
NAMES = {kind: name for name, kind in _KINDS.items()}
LAYOUTS = {
    0: {"keyStateEncoderType": "NoPrefixKeyStateEncoderSpec"},
    1: {"keyStateEncoderType": "PrefixKeyScanStateEncoderSpec", "numColsPrefixKey": 1},
    -1: {"keyStateEncoderType": "RangeKeyScanStateEncoderSpec", "orderingOrdinals": [0]},
}


@attrs.frozen
class Settings:
    """What decides how entries are stored.

    Attributes:
        provider: Of the state stores.
        has_families: Whether joins have their stores in column families of one.
        is_avro: Whether variables are encoded in avro.
    """

    provider: str
    has_families: bool = False
    is_avro: bool = False

    @classmethod
    def draw(cls, query, random):
        kinds = {one.kind for side in (query.old, query.new) for one in side}
        if TRANSFORM not in kinds and random.random() < 0.5:
            return cls(DEFAULT_PROVIDER)
        return cls(ROCKSDB, random.random() < 0.5)

    def conf(self):
        prefix = "spark.sql.streaming.stateStore."
        provider = f"org.apache.spark.sql.execution.streaming.state.{self.provider}"
        encoding = "avro" if self.is_avro else "unsaferow"
        return {
            prefix + "providerClass": provider,
            prefix + "encodingFormat": encoding,
            prefix + "rocksdb.mergeOperatorVersion": "2",
            "spark.sql.streaming.join.stateFormatVersion": "3" if self.has_families else "2",
            "spark.sql.streaming.aggregation.stateFormatVersion": "2",
            "spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion": "2",
            "spark.sql.dropDuplicates.deterministicKeyOrder.enabled": "true",
        }


@attrs.frozen
class Entry:
    """An entry: its parts as `Kept` has them, and when it expires."""

    parts: tuple
    deadline: int | None = None


def entries_of(kept):
    """Draw the entries of a kept thing: each key once, and of a list two elements of each."""
    count = ROWS
    parts = [rows_of(columns, path, count) for path, columns in kept.parts]
    found = {}
    for at, one in enumerate(zip(*parts, strict=True)):
        deadline = DEADLINE_MS + at * 1000 if kept.expires else None
        deadline = DEADLINE_MS + at if kept.kind == "timers" else deadline
        found.setdefault(as_key(one[:-1] or one), Entry(one, deadline))
    entries = [*found.values()]
    if kept.kind == "list":
        again = rows_of(kept.value, kept.parts[-1][0], 2 * count)[count:]
        more = zip(entries, again, strict=False)
        entries = [
            both
            for one, value in more
            for both in (one, Entry((one.parts[0], value), one.deadline and one.deadline - 10_000))
        ]
    return entries


def as_key(value):
    """Return a value as text; numbers are equal whatever their type."""
    return repr(_plain(value))


def _plain(value):
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, dt.datetime):
        return str(value)
    return float(value) if isinstance(value, int | Decimal) and not isinstance(value, bool) else value


def stored_entries(kept, entries):
    """Return keys and values as Spark has them, by store: those of a kept thing, and what follows from them."""
    if kept.kind == "timers":
        word = kept.name.removesuffix("_keyToTimestamp")
        return {
            kept.name: [({"key": one.parts[0], "expiryTimestampMs": one.deadline}, NOTHING) for one in entries],
            f"{word}_timestampToKey": [
                ({"expiryTimestampMs": one.deadline, "key": one.parts[0]}, NOTHING) for one in entries
            ],
        }

    def key_of(one):
        return {"key": one.parts[0], "userKey": one.parts[1]} if kept.kind == "map" else one.parts[0]

    def value_of(one):
        value = one.parts[-1]
        return {"value": value, "ttlExpirationMs": one.deadline} if kept.expires else value

    found = {kept.name: [(key_of(one), value_of(one)) for one in entries]}
    if kept.kind == "list":
        lists = {}
        for one in entries:
            lists.setdefault(as_key(one.parts[0]), []).append(one)
        firsts = [(of[0].parts[0], len(of), min((one.deadline or 0) for one in of)) for of in lists.values()]
        if kept.expires:
            found[f"$ttl_{kept.name}"] = [({"expirationMs": end, "elementKey": key}, EMPTY) for key, _, end in firsts]
            found[f"$min_{kept.name}"] = [(key, {"expirationMs": end}) for key, _, end in firsts]
            found[f"$count_{kept.name}"] = [(key, {"count": count}) for key, count, _ in firsts]
        else:
            found[f"$rowCounter_{kept.name}"] = [(key, {"count": count}) for key, count, _ in firsts]
    elif kept.expires:
        found[f"$ttl_{kept.name}"] = [
            ({"expirationMs": one.deadline, "elementKey": key_of(one)}, EMPTY) for one in entries
        ]
    return found


NOTHING, EMPTY = {"__dummy__": None}, {"__empty__": None}


def write_checkpoint(folder, operators, settings, entries=None):
    """Write a checkpoint of one batch; `entries` are those of each operator, by name, or none."""
    for number, operator in enumerate(operators):
        _describe(folder, number, operator, settings)
    _file(folder / "metadata", json.dumps({"id": "5b1ce2b3-0000-4000-8000-000000000000"}))
    facts = {"batchWatermarkMs": 0, "batchTimestampMs": BATCH_MS, "conf": settings.conf()}
    _file(folder / "offsets" / "0", f"v1\n{json.dumps(facts)}")
    _file(folder / "commits" / "0", 'v1\n{"nextBatchWatermarkMs":0}')
    checkpoint = SparkCheckpoint.open(folder)
    for number, operator in enumerate(operators if entries is not None else ()):
        kept = {one.name: one for one in operator.kept}
        stored = {}
        for name, of in entries[number].items():
            stored |= stored_entries(kept[name], of)
        _write(folder / "state" / str(number), operator, checkpoint.operators[number], stored, settings)
    return folder


def _file(place, text):
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(text if isinstance(text, bytes) else text.encode())


def in_families(operator, settings):
    return operator.kind == TRANSFORM or (operator.kind == JOIN and settings.has_families)


def _describe(folder, number, operator, settings):
    """Write what describes an operator: its metadata, and the types of its stores."""
    stores = {name: of for one in operator.kept for name, of in one.stores().items()}
    place = folder / "state" / str(number)
    info = {"operatorId": number, "operatorName": NAMES[operator.kind]}
    if not in_families(operator, settings):
        listed = [
            {"storeName": name, "numColsPrefixKey": len(key) - 1 if operator.kind == SESSION else 0,
             "numPartitions": PARTITIONS}
            for name, (key, _, _) in stores.items()
        ]  # fmt: skip
        _file(place / "_metadata" / "metadata", f"v1\n{json.dumps({'operatorInfo': info, 'stateStoreInfo': listed})}")
        for name, (key, value, _) in stores.items():
            data = schema_file(*([one.json() for one in part] for part in (key, value)))
            _file(_partition(place, name, 0) / "_metadata" / "schema", data)
        return
    families = {
        name: [struct_json(key), struct_json(value), LAYOUTS[layout], {}]
        for name, (key, value, layout) in sorted(stores.items())
    }
    schema = place / "_stateSchema" / "default" / "0_schema"
    _file(schema, schema_bytes(families))
    listed = [
        {"storeName": "default", "numColsPrefixKey": 0, "numPartitions": PARTITIONS,
         "stateSchemaFilePaths": [f"file:{schema}"]}
    ]  # fmt: skip
    words = {"value": "ValueState", "list": "ListState", "map": "MapState", "timers": "TimerState"}
    variables = [
        {"stateName": one.name, "stateVariableType": words[one.kind], "ttlEnabled": one.expires}
        for one in operator.kept
        if one.kind != "rows"
    ]
    more = {"timeMode": "ProcessingTime", "outputMode": "Update", "stateVariables": variables}
    more = more if variables else {"useVirtualColumnFamilies": True}
    said = {"operatorInfo": info, "stateStoreInfo": listed, "operatorPropertiesJson": json.dumps(more)}
    _file(place / "_metadata" / "v2" / "0", f"v2\n{json.dumps(said)}")


def _partition(place, store, partition):
    return place / str(partition) / store if "-" in store else place / str(partition)


def grouping(operator, store, key):
    """Return the columns of a key by which Spark finds its partition."""
    if operator.kind == TRANSFORM:
        return key
    return key[:-1] if operator.kind == SESSION or store.endswith("-keyWithIndexToValue") else key


def _write(place, operator, opened, stored, settings):
    """Write the entries of an operator's stores."""
    columns = {name: of for one in operator.kept for name, of in one.stores().items()}
    if in_families(operator, settings):
        with ExitStack() as stack:
            families = written_families(opened.stores)
            writers = {
                at: stack.enter_context(
                    DatabaseWriter(Folder.at(place / str(at)), version=1, families=families, delimiter=b"")
                )
                for at in range(PARTITIONS)
            }
            for store in opened.stores:
                rows = stored.get(store.name) or []
                if rows:
                    keys, values = _arrays(rows, columns[store.name])
                    encoder, at = LayoutEncoder(settings.is_avro), _places(operator, store.name, rows, columns)
                    types = store.family.schema
                    of_keys = encoder.encode_keys(keys, types.key, store.key_layout)
                    write_parts(writers, store.name, of_keys, encoder.encode(values, types.value), at)
        return
    for store in opened.stores:
        rows = stored[store.name]
        keys, values = _arrays(rows, columns[store.name])
        at = _places(operator, store.name, rows, columns)
        encoded = encode_rows(keys, store.schema.key), encode_rows(values, store.schema.value)
        folders = [Folder.at(_partition(place, store.name, one)) for one in range(PARTITIONS)]
        if settings.provider == ROCKSDB:
            with ExitStack() as stack:
                writers = [stack.enter_context(DatabaseWriter(one, version=1, delimiter=b"")) for one in folders]
                write_rows(dict(enumerate(writers)), store, *encoded, at)
        else:
            with snapshots(folders, 1, "lz4") as streams:
                block = EntryBlock.of(*encoded, at, PARTITIONS, has_checksums=False)
                for one, stream in enumerate(streams):
                    stream.write(block.share(one))


def _arrays(rows, columns):
    return (pa.array([row[side] for row in rows], arrow_type(struct(columns[side]))) for side in (0, 1))


def _places(operator, name, rows, columns):
    """Return the partition of each entry, by Spark's hash of its grouping key."""
    key, of = [row[0] for row in rows], columns[name][0]
    if operator.kind == TRANSFORM:
        while {one.name for one in of} & {"elementKey", "expiryTimestampMs", "userKey"}:
            inner = "elementKey" if any(one.name == "elementKey" for one in of) else "key"
            key, of = [one[inner] for one in key], next(one.fields for one in of if one.name == inner)
    of = grouping(operator, name, of)
    names = {one.name for one in of}
    column = pa.array([{n: v for n, v in one.items() if n in names} for one in key], arrow_type(struct(of)))
    return partitions_of(column, struct(of), PARTITIONS) if rows else np.zeros(0, np.int64)


def read(checkpoint, number):
    """Return all entries of an operator: partition, key, value, by store; those of lists in their order."""
    found = {}
    for store in checkpoint.operators[number].stores:
        rows = found[store.name] = []
        for block in store.blocks():
            pairs = zip(block.key.to_pylist(), block.value.to_pylist(), strict=True)
            rows += ((block.partition, *pair) for pair in pairs)
    return found


def on_files(case, said, fates, random):
    """Write the old checkpoint, migrate it, and compare each entry of the copy with what it should be."""
    query, settings = case.query, Settings.draw(case.query, random)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        entries = [{one.name: entries_of(one) for one in operator.kept} for operator in query.old]
        old = SparkCheckpoint.open(write_checkpoint(folder / "old", query.old, settings, entries))
        new = SparkCheckpoint.open(write_checkpoint(folder / "new", query.new, settings))
        stored = old.describe()
        assert [one.stores for one in case.stored.computations] == [one.stores for one in stored.computations]
        side = NewSide(new, case.new, is_planned=True)
        migrates(case, said, fates, entries, old, side, folder / "copy")


def migrates(case, said, fates, entries, old, side, target):
    """Migrate a checkpoint with some entries, and compare each entry of the copy with what it should be."""
    plan = prepare_copy(old, attrs.evolve(side, known=Known(case.known)), said)
    expected = Expected(case, said, fates, entries)
    if expected.unmergeable:
        with pytest.raises(IncompatibleState, match="cannot be merged"):
            Copy(plan, Folder.at(target)).run()
        return
    Copy(plan, Folder.at(target)).run()
    copy = SparkCheckpoint.open(target)
    for number, operator in enumerate(case.query.new):
        wanted, made = expected.entries(number), read(copy, number)
        columns = {name: of for one in operator.kept for name, of in one.stores().items()}
        for name in columns:
            rows = wanted.get(name) or []
            at = _places(operator, name, rows, columns).tolist()
            right = Counter(as_key([place, *row]) for place, row in zip(at, rows, strict=True))
            assert right == Counter(map(as_key, made[name])), name


def entries_in(checkpoint, operators):
    """Return the entries of a checkpoint that Spark wrote, by operator and name."""
    found = []
    for number, operator in enumerate(operators):
        rows = read(checkpoint, number)
        found.append({one.name: [_entry(one, *row[1:]) for row in rows[one.name]] for one in operator.kept})
    return found


def _entry(kept, key, value):
    deadline = value["ttlExpirationMs"] if kept.expires else None
    value = value["value"] if kept.expires else value
    return Entry((key["key"], key["userKey"], value) if kept.kind == "map" else (key, value), deadline)


@attrs.frozen
class Expected:
    """What the entries of a copy should be."""

    case: object
    said: object
    fates: dict
    old: list

    @property
    def unmergeable(self):
        """Whether values of keys that become equal are of types that no rule merges."""
        return any(self._merged(*one)[1] for one in self._kept())

    def _kept(self, wanted=None):
        for number, (_, becomes), sides in self.case.pairs(self.said):
            if wanted in {None, sides[1].number}:
                changes = self.said.changes.get(number, FieldChanges())
                for name in (one.name for one in becomes.kept if one.name in self.fates[number].kept):
                    yield *self.fates[number].kept[name], self.old[number], changes

    def entries(self, number):
        """Return the entries of a new operator as they are stored, by store."""
        found = {}
        for was, now, makes, old, changes in self._kept(number):
            entries, _ = self._merged(was, now, makes, old, changes)
            found |= stored_entries(now, entries)
        return found

    def _merged(self, was, now, makes, old, changes):
        """Return the new entries, and whether some that become equal cannot be merged."""
        entries = [self._entry(one, was, now, makes, changes) for one in old[was.name]]
        if now.kind not in {"rows", "map"}:
            return entries, False
        groups = {}
        for one in entries:
            groups.setdefault(as_key(one.parts[:-1]), []).append(one)
        if len(groups) == len(entries):
            return entries, False
        if any(one.fields or one.within for one in now.value):
            return [], True
        merged = []
        for of in groups.values():
            value = {
                one.name: max((v for each in of if (v := each.parts[-1][one.name]) is not None), default=None)
                for one in now.value
            }
            ends = [one.deadline for one in of if one.deadline is not None]
            merged.append(Entry((*of[0].parts[:-1], value), max(ends, default=None)))
        return merged, False

    def _entry(self, one, was, now, makes, changes):
        parts = tuple(make(value) for make, value in zip(makes, one.parts, strict=True))
        deadline = one.deadline
        if now.name not in TIMERS:
            deadline = one.deadline if now.expires else None
            if now.expires and not was.expires:
                deadline = BATCH_MS + int(changes.ttls[now.name])
        return Entry(parts, deadline)
