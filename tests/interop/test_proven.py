"""`--prove flink` with real Flink: it passes on what Flink wrote and we wrote, and finds faults that were planted."""

from __future__ import annotations

import shutil
from itertools import product
from pathlib import Path

import attrs
import native_snapshots
import pytest

from stateshift import (
    Job,
    MigrationOptions,
    Operator,
    Savepoint,
    SavepointFormatType,
    SavepointWriter,
    Target,
    TimerServiceDescriptor,
    ValueStateDescriptor,
    migrate,
)
from stateshift.state.formats.flink.handles import InlineHandle
from stateshift.state.formats.flink.keyed_readers import open_keyed
from stateshift.state.proof.installation import FlinkFailed, FlinkInstallation
from stateshift.state.proof.proof import prove
from stateshift.state.savepoint.verify import Outcome

FIXTURES = native_snapshots.FIXTURES
SAMPLE = "flink-2.3/rocksdb-long-p2-m200-files/savepoint"
PLACES = sorted(
    str(file.parent.relative_to(FIXTURES))
    for folder in ("flink-2.3", "flink-1.20", "flink-2.3-native", "flink-1.20-native", "flink-sql-2.3", "pyflink-2.3")
    for file in (FIXTURES / folder).rglob("_metadata")
)
KEYED = "keyed-op"
TIMERS = TimerServiceDescriptor("timers")


@pytest.fixture(scope="session")
def proven_by(flink):
    """`proven_by(place)`: the proof by a release of Flink, which has the classes of the fixtures' jobs."""

    def proven(place, release="2.3", **options):
        ready = flink(release)
        version = "2" if "account-v2" in str(place) else "3" if "account-v3" in str(place) else "1"
        build = ready.work / f"build-{release}"
        installation = FlinkInstallation.find(str(ready.jars), [str(build / "classes"), str(build / f"evo-v{version}")])
        return prove(Savepoint.open(place), installation, **options)

    return proven


def failed(proof):
    return [check.detail for check in proof.checks if check.status is Outcome.FAILED]


def release_of(place):
    """The release that restores a fixture: files of RocksDB are read by the release that wrote them."""
    return "1.20" if place.startswith("flink-1.20") else "2.3"


@pytest.mark.parametrize(
    "place", [pytest.param(one, marks=[] if one == SAMPLE else pytest.mark.slow) for one in PLACES]
)
def test_what_flink_wrote_is_proven(proven_by, place):
    proof = proven_by(FIXTURES / place, release_of(place))

    assert [] == failed(proof)
    if not place.startswith("pyflink"):  # whose classes are in a jar of PyFlink
        assert proof.ok
        assert proof.certificate["entries"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", native_snapshots.NAMES)
@pytest.mark.parametrize("format_", [SavepointFormatType.CANONICAL, SavepointFormatType.NATIVE])
def test_what_we_wrote_is_proven(proven_by, tmp_path, name, format_):
    report = migrate(native_snapshots.snapshot(name), tmp_path / "target", None, MigrationOptions(format=format_))

    proof = proven_by(report.target, native_snapshots.RELEASES[name])

    assert [] == failed(proof)
    assert proof.ok


@pytest.mark.slow
@pytest.mark.parametrize("release", ["2.3", "1.20"])
def test_more_of_a_state_than_flink_keeps_in_memory_is_proven(proven_by, tmp_path, release):
    """Without a folder for checkpoints Flink refuses to write more than 5 MB of a subtask's state."""
    job = Job([Operator("op", key=int, states=[ValueStateDescriptor("text", str)])])
    with SavepointWriter(tmp_path / "large", job, restore_target=Target(f"flink-{release}")) as writer:
        for key in range(6):
            writer.put("op", "text", key, "x" * 1_000_000)

    assert [] == failed(proven_by(tmp_path / "large", release))


@pytest.mark.slow
def test_names_are_told_in_any_locale(proven_by, tmp_path, monkeypatch):
    """Java takes the names of files, and what it prints, for those of the locale."""
    names = ("größe", "two\tparts +1%")
    job = Job([Operator("op", key=int, states=[ValueStateDescriptor(name, int) for name in names])])
    with SavepointWriter(tmp_path / "größe", job) as writer:
        for key, name in product(range(6), names):
            writer.put("op", name, key, key)
    monkeypatch.setenv("LC_ALL", "C")

    proof = proven_by(tmp_path / "größe")

    assert [] == failed(proof)
    assert 12 == proof.certificate["keys_found"]


@pytest.mark.slow
def test_a_flink_without_memory_says_nothing_about_a_savepoint(proven_by, monkeypatch):
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Xmx64m")

    with pytest.raises(FlinkFailed, match="not enough memory or disk, which says nothing"):
        proven_by(FIXTURES / SAMPLE)


@pytest.mark.slow
@pytest.mark.parametrize("place", [SAMPLE, "flink-2.3-native/rocksdb-native-long-p2-m200/savepoint"])
def test_a_sample_is_proven(proven_by, place):
    whole, part = proven_by(FIXTURES / place), proven_by(FIXTURES / place, sample=0.3)

    assert [] == failed(part)
    assert part.certificate["entries"] < whole.certificate["entries"]
    (sampled,) = part.certificate["sample"].values()
    assert sampled["key_groups"] < sampled["of"]


@pytest.mark.slow
def test_a_key_in_a_wrong_group_is_found(proven_by, tmp_path):
    """The entries of a key group stand under the number of its neighbour: all restore, and nobody finds them."""
    target = _copied(tmp_path)

    def exchanged(_, handle):
        offsets = list(handle.offsets)
        filled = [index for index, offset in enumerate(offsets) if offset]
        empty = next(index for index, offset in enumerate(offsets) if not offset)
        offsets[empty], offsets[filled[0]] = offsets[filled[0]], 0
        return attrs.evolve(handle, offsets=tuple(offsets))

    native_snapshots.with_keyed_handles(target, exchanged)

    assert any("does not find" in detail or "added" in detail for detail in failed(proven_by(target)))


@pytest.mark.slow
@pytest.mark.parametrize(("at", "told"), [(3, "failed"), (b"LongSerializer", "not_proven")])
def test_a_broken_header_is_found(proven_by, tmp_path, at, told):
    """A class that is not known may be one of a jar that is not at hand: it is never proven."""
    target = _copied(tmp_path)
    handle = native_snapshots.keyed_handles(target)[0]
    file = target / handle.stream.path
    data = bytearray(file.read_bytes())
    at = at if isinstance(at, int) else data.index(at) + 1
    data[at] ^= 1
    file.write_bytes(data)

    proof = proven_by(target)

    assert any(line.startswith(f"{KEYED}: Flink 2.3.0 cannot read its") for line in proof.certificate[told])


@pytest.mark.slow
def test_a_value_that_flink_reads_as_another_is_found(proven_by, tmp_path):
    """Bytes that no serializer writes: a boolean of 2, which Flink writes again as 1, and we do not read at all."""
    target = _copied(tmp_path, "flink-2.3/hashmap-zoo-p1-m128/savepoint")
    (handle,) = native_snapshots.keyed_handles(target).values()
    savepoint = Savepoint.open(target)
    state = savepoint.operator(KEYED).state("boolean")
    assert any(entry.value is True for entry in state.read_entries())
    _with_changed_value(target, handle, "boolean", lambda value: b"\x02" if value == b"\x01" else value)

    assert ["it cannot be compared: byte 0x02 where a boolean was expected"] == failed(proven_by(target))


@pytest.mark.slow
@pytest.mark.parametrize(("keys", "timers", "told"), [(9, 10, "number"), (10, 9, "event_timers")])
def test_what_was_lost_before_anybody_looked_was_counted(proven_by, tmp_path, keys, timers, told):
    """A key or a timer is missing to our reader as to Flink: the migration had counted it."""

    def written(name, keys, timers):
        job = Job([Operator("op", key=str, states=[ValueStateDescriptor("number", int)], timers=[TIMERS])])
        with SavepointWriter(tmp_path / name, job) as writer:
            for index in range(keys):
                writer.put("op", "number", f"key {index}", index)
            for index in range(timers):
                writer.register_event_time_timer("op", 1000 + index, f"key {index}")
        return Savepoint.open(tmp_path / name)

    savepoint, before = written("savepoint", keys, timers), written("before", 10, 10)
    file = tmp_path / "savepoint" / "_stateshift.json"
    file.write_bytes(attrs.evolve(savepoint.lineage, states=before.lineage.states).to_json())

    proof = proven_by(savepoint.place)

    assert ["9 entries, but _stateshift.json has 10, in what Flink wrote"] == failed(proof)
    assert told in proof.certificate["failed"][0]


def _copied(tmp_path, place=SAMPLE):
    return Path(shutil.copytree(FIXTURES / place, tmp_path / "copy"))


def _with_changed_value(target, handle, state, change):
    """Change the values of a state in place; they keep their sizes."""
    savepoint = Savepoint.open(target)
    operator = savepoint.operator(KEYED)
    with open_keyed(handle, savepoint.folder, operator.max_parallelism) as reader:
        number = reader.header.state_id(state)
        blocks = list(reader.blocks(state_ids=[number]))
        items = [item for block in blocks for item in block.items()]
    whole = (
        handle.stream.data if isinstance(handle.stream, InlineHandle) else (target / handle.stream.path).read_bytes()
    )
    data = bytearray(whole)
    for key, value in items:
        framed = key[1:] + len(value).to_bytes(4, "big") + value
        at = data.index(framed)
        data[at : at + len(framed)] = key[1:] + len(value).to_bytes(4, "big") + change(value)
    if isinstance(handle.stream, InlineHandle):
        native_snapshots.with_keyed_handles(
            target, lambda _, one: attrs.evolve(one, stream=attrs.evolve(one.stream, data=bytes(data)))
        )
    else:
        (target / handle.stream.path).write_bytes(data)
