"""Real Flink restores native savepoints that we write, on the backend that opens their files, and goes on from them."""

from __future__ import annotations

import copy
import io
import json
from contextlib import redirect_stdout
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

import native_snapshots
import pytest

from stateshift import (
    BigInt,
    Edits,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    MigrationOptions,
    Operator,
    Repartition,
    Savepoint,
    SavepointFormatType,
    SavepointWriter,
    Target,
    ValueStateDescriptor,
    migrate,
)
from stateshift.cli import main

CHANGES = ["types and names", "keys", "more subtasks", "fewer subtasks", "TTL on", "TTL off"]
SCENARIOS = {"Long": "all-long", "String": "all-string", "Java Tuple2<String, Long>": "all-tuple"}
KEYS = {"Long": int, "String": str, "Java Tuple2<String, Long>": tuple[str, int]}
LARGE = Job([Operator("op", key=int, states=[ValueStateDescriptor("text", str)])])
SAMPLE = "rocksdb-native-long-p2-m200"
CANONICAL = ["hashmap-string-p2-m128-files", "hashmap-zoo-p1-m128", "rocksdb-tuple-p2-m128", "rocksdb-windows-p1-m200"]
CHECKED = {"rocksdb-incremental-rescaled-2-to-3", "forst-incremental-long-p2-m128", SAMPLE}
CHECKED |= {"rocksdb-6.20-incremental-tuple-p2-m200"}


def some(names, chosen):
    """Names as parameters, of which only the chosen ones are of the short run."""
    return [pytest.param(name, marks=[] if name in chosen else pytest.mark.slow) for name in names]


@pytest.fixture
def written(tmp_path):
    """`written(source, job, **options)`: a native savepoint, migrated from a savepoint or a snapshot."""

    def make(source, job=None, name="native", **options):
        options = MigrationOptions(format=SavepointFormatType.NATIVE, **options)
        report = migrate(source, tmp_path / name, job, options)
        formats = {operator.keyed_format for operator in Savepoint.open(report.target).operators}
        assert {"database"} == formats - {""}
        return report.target

    return make


@pytest.mark.parametrize("name", some(native_snapshots.NAMES, CHECKED))
def test_flink_goes_on_from_it_with_incremental_checkpoints(
    flink_restore, same_contents, written, restorations, tmp_path, name
):
    release, expected = native_snapshots.RELEASES[name], native_snapshots.expected(name)
    target = written(native_snapshots.snapshot(name))

    restored = flink_restore(target, backend="rocksdb", release=release, following=tmp_path / "next")

    assert same_contents(expected, restored) == []
    (place,) = (tmp_path / "next").glob("*/chk-*")
    again = flink_restore(place, backend="rocksdb", release=release)
    ours, flinks = (with_keys(contents) for contents in (restored, again))
    assert same_contents({"operators": [ours]}, {"status": again["status"], "operators": [flinks]}) == []
    restorations.append((f"{name}, native again", release, release, "rocksdb", None))


@pytest.mark.parametrize("parallelism", [None, 4])
@pytest.mark.parametrize("name", some(native_snapshots.NAMES, CHECKED))
def test_with_a_type_that_was_changed(flink_restore, same_contents, written, name, parallelism):
    """Beside families that are kept; with more subtasks everything is rewritten."""
    expected = native_snapshots.expected(name)
    keyed = keyed_operator(expected)
    count = keyed["keyed"]["count"]
    count["entries"] = [[key, {"$bigint": str(value)}] for key, value in count["entries"]]
    assert count["entries"]
    states = [ValueStateDescriptor("count", BigInt)]
    job = Job([Operator(native_snapshots.KEYED, key=KEYS[keyed["key_type"]], states=states)])

    target = written(native_snapshots.snapshot(name), job, parallelism=parallelism)
    restored = flink_restore(target, backend="rocksdb", release=native_snapshots.RELEASES[name])

    assert same_contents(expected, restored) == []


@pytest.mark.parametrize("absolute", [True, False])
@pytest.mark.parametrize("release", some(["2.3", "1.20"], {"2.3"}))
def test_a_job_that_claims_it_needs_absolute_names(flink_restore, same_contents, written, tmp_path, release, absolute):
    """FLINK-39964: else the first incremental checkpoint names files where they are not."""
    with SavepointWriter(tmp_path / "large", LARGE) as writer:
        for key in range(3000):
            writer.put("op", "text", key, sha256(b"%d" % key).hexdigest())
    target = written(tmp_path / "large", absolute=absolute, restore_target=Target(f"flink-{release}"))
    assert absolute is (b"file:" in Path(target, "_metadata").read_bytes())

    first = flink_restore(target, backend="rocksdb", release=release, following=tmp_path / "next", claim=True)
    (place,) = (tmp_path / "next").glob("*/chk-*")
    again = flink_restore(place, backend="rocksdb", release=release)

    assert "restored" == first["status"]
    assert ("restored" if absolute else "failed") == again["status"]
    if absolute:
        ours, flinks = (with_keys(contents) for contents in (first, again))
        assert same_contents({"operators": [ours]}, {"status": "restored", "operators": [flinks]}) == []


@pytest.mark.parametrize("change", some(CHANGES, {"types and names"}))
@pytest.mark.parametrize("release", some(["2.3", "1.20"], {"2.3"}))
@pytest.mark.parametrize("name", some(native_snapshots.NAMES, {SAMPLE}))
def test_after_each_change_it_takes_checkpoints_which_we_read_and_flink_restores(
    flink_restore, same_contents, written, tmp_path, name, release, change
):
    """With everything in `make interop-native`, and one of them in the short run."""
    expected, job, options, restoring = changed(native_snapshots.expected(name), change)
    options |= {"restore_target": Target(f"flink-{release}")}
    restoring |= {"backend": "rocksdb", "release": release}

    target = written(native_snapshots.snapshot(name), job, **options)
    restored = flink_restore(target, following=tmp_path / "next", **restoring)
    assert same_contents(expected, restored) == []

    (place,) = (tmp_path / "next").glob("*/chk-*")
    flinks, read = with_keys(restored), with_keys(exported(place))
    assert same_contents({"operators": [flinks]}, {"operators": [read]}, export=True) == []
    if change == "keys" and "-string-" in name:
        return  # the operators of one job have other numbers of key groups, and exchange their ids
    for option in ("scenario", "ttl"):  # whose operator has another id
        restoring.pop(option, None)
    again = flink_restore(place, **restoring)
    assert "restored" == again["status"], again["causes"]
    assert same_contents({"operators": [flinks]}, {"status": again["status"], "operators": [with_keys(again)]}) == []


def changed(expected, change):
    """What a change makes of the contents of a snapshot; the job and the options of its migration; those of Flink."""
    expected = copy.deepcopy(expected)
    keyed = keyed_operator(expected)
    states, key_type = keyed["keyed"], keyed["key_type"]
    key, scenario = KEYS[key_type], SCENARIOS[key_type]
    if change == "types and names":
        count = states["numbers"] = states.pop("count")
        count["entries"] = [[key, {"$bigint": str(value)}] for key, value in count["entries"]]
        states["lists"] = states.pop("events")
        del states["counts"]
        edits = Edits(drop=("counts",), rename_states=(("count", "numbers"), ("events", "lists")))
        job = Job([Operator(native_snapshots.KEYED, key=key, states=[ValueStateDescriptor("numbers", BigInt)])])
        return expected, job, {"edits": edits}, {}
    if change == "keys":
        if key is str:
            return expected, None, {"repartition": Repartition(max_parallelism={"": 1000})}, {}
        for state in (*states.values(), *({"entries": found} for found in keyed["timers"].values())):
            for entry in state["entries"]:
                entry[0] = with_large_number(entry[0])
        wider = BigInt if key is int else tuple[str, BigInt]
        return expected, Job([Operator(native_snapshots.KEYED, key=wider)]), {"repartition": Repartition()}, {}
    if change == "more subtasks":
        return expected, None, {"parallelism": 4}, {"parallelism": 4}
    if change == "fewer subtasks":
        return expected, None, {"parallelism": 1}, {"parallelism": 1}
    if change == "TTL on":
        lived = [
            ValueStateDescriptor("count", int, time_to_live=True),
            ListStateDescriptor("events", str, time_to_live=True),
            MapStateDescriptor("counts", str, int, time_to_live=True),
        ]
        ttl = ("count", "events", "counts", "session")
        return (
            expected,
            Job([Operator(native_snapshots.KEYED, key=key, states=lived)]),
            {},
            {"scenario": scenario, "ttl": ttl},
        )
    assert change == "TTL off"
    job = Job([Operator(native_snapshots.KEYED, key=key, states=[ValueStateDescriptor("session", int)])])
    return expected, job, {}, {"scenario": scenario, "ttl": ()}


def with_large_number(key):
    if isinstance(key, int):
        return {"$bigint": str(key)}
    text, number = key["$tuple"]
    return {"$tuple": [text, with_large_number(number)]}


def exported(place):
    """What our export of a snapshot says."""
    out = io.StringIO()
    with redirect_stdout(out), pytest.raises(SystemExit) as ended:
        main(["export", str(place), "--format", "tagged"])
    assert 0 == ended.value.code
    return json.loads(out.getvalue())


def with_keys(restored):
    """The operator with keyed state as Flink saw it; in its own checkpoints, it has another id."""
    (found,) = (operator for operator in restored["operators"] if operator.get("keyed"))
    return {**found, "operator_id": "keyed", "operator": {}, "broadcast": {}}


def keyed_operator(contents):
    return next(operator for operator in contents["operators"] if operator["uid"] == native_snapshots.KEYED)


@pytest.mark.parametrize(("parallelism", "restored_at"), [(None, None), (None, 3), (1, 1), (5, 2)])
def test_with_states_renamed_and_dropped_at_other_parallelisms(
    flink_restore, same_contents, written, parallelism, restored_at
):
    expected = native_snapshots.expected(SAMPLE)
    states = keyed_operator(expected)["keyed"]
    states["numbers"] = states.pop("count")
    states["lists"] = states.pop("events")
    del states["counts"]
    edits = Edits(drop=("counts",), rename_states=(("count", "numbers"), ("events", "lists")))

    target = written(native_snapshots.snapshot(SAMPLE), edits=edits, parallelism=parallelism)
    restored = flink_restore(target, backend="rocksdb", parallelism=restored_at)

    assert same_contents(expected, restored) == []


def test_with_keys_of_another_type_in_other_key_groups(flink_restore, written):
    expected = native_snapshots.expected(SAMPLE)
    keyed = keyed_operator(expected)
    entries = len(keyed["keyed"]["count"]["entries"])
    timers = {name: len(found) for name, found in keyed["timers"].items()}

    target = written(
        native_snapshots.snapshot(SAMPLE),
        Job([Operator(native_snapshots.KEYED, key=BigInt)]),
        repartition=Repartition(max_parallelism={"": 1000}),
    )
    restored = flink_restore(target, backend="rocksdb")

    found = with_keys(restored)
    assert entries == len(found["keyed"]["count"]["entries"])
    assert timers == {name: len(one) for name, one in found["timers"].items()}
    assert [] == restored["warnings"]


@pytest.mark.parametrize("name", CANONICAL)
def test_what_was_canonical_is_restored_as_native(
    flink_restore, same_contents, expected_of, savepoint_of, written, name
):
    """Of the heap backend, too, whose entries are in no order; with timers, windows, and every type."""
    restored = flink_restore(written(savepoint_of(name)), backend="rocksdb")

    assert same_contents(expected_of(name), restored) == []


def test_with_time_to_live_switched_on_and_off_again(flink_restore, same_contents, expected_of, savepoint_of, written):
    def job(on, **session):
        states = [
            ValueStateDescriptor("count", int, time_to_live=on),
            ListStateDescriptor("events", str, time_to_live=on),
            MapStateDescriptor("counts", str, int, time_to_live=on),
            ValueStateDescriptor("session", int, **session),
        ]
        return Job([Operator("keyed-op", key=int, states=states)])

    name, ttl_ms = "rocksdb-long-p2-m200-files", timedelta(hours=1) // timedelta(milliseconds=1)
    target = written(savepoint_of(name), job(on=True))
    restored = flink_restore(
        target, scenario="all-long", backend="rocksdb", ttl=("count", "events", "counts"), ttl_ms=ttl_ms
    )
    assert same_contents(expected_of(name), restored) == []

    back = written(target, job(on=False, time_to_live=True), name="back")
    assert same_contents(expected_of(name), flink_restore(back, scenario="all-long", backend="rocksdb")) == []


@pytest.mark.parametrize("name", some(native_snapshots.NAMES, {SAMPLE}))
def test_flink_1_20_reads_what_is_written_for_it(flink_restore, same_contents, written, restorations, name):
    target = written(native_snapshots.snapshot(name), restore_target=Target.FLINK_1_20)

    restored = flink_restore(target, backend="rocksdb", release="1.20")

    assert same_contents(native_snapshots.expected(name), restored) == []
    restorations.append((f"{name}, native again", native_snapshots.RELEASES[name], "1.20", "rocksdb", None))
