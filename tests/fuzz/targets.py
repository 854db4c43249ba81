"""What is fuzzed: functions of bytes that let out nothing but `StateShiftError`, and laws of what they accept."""

from __future__ import annotations

import ast
import io
import json
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import cache
from typing import TYPE_CHECKING, Any

import attrs
import hostile
import pieces
import seeds

from stateshift import DataInputView, DataOutputView, Savepoint, StateShiftError, Verdict
from stateshift.cli import main
from stateshift.compat.difference import compare
from stateshift.compat.gate.recording import from_json, to_json
from stateshift.serializers.json_forms import tagger_of
from stateshift.serializers.pickled.unpickler import Names, open_pickle
from stateshift.serializers.snapshot import read_versioned_snapshot, snapshot_from_bytes, snapshot_to_bytes
from stateshift.state.formats.flink.metadata import METADATA, SavepointMetadata, read_metadata, write_metadata
from stateshift.state.migration.plan_file import PlanFile
from stateshift.state.publication.lineage import Lineage
from stateshift.state.savepoint.job_source import job_source
from stateshift.state.savepoint.json_encoding import tagged_operator
from stateshift.state.savepoint.verify import verify
from stateshift.state.storage.files import Folder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stateshift import TypeSerializer, TypeSerializerConfigSnapshot


@attrs.frozen
class Target:
    """One thing to fuzz.

    Attributes:
        name: What it is called.
        run: Takes an input; whatever it raises but `StateShiftError` is a finding.
        seeds: Gives inputs to begin with.
        apart: Takes an input apart for a mutation of one piece; `StateShiftError` where it cannot be.
        share: Of the time of a run: what takes longer for an input gets more.
    """

    name: str
    run: Callable[[bytes], None]
    seeds: Callable[[], list[bytes] | tuple[bytes, ...]]
    apart: Callable[[bytes], pieces.Pieces] = pieces.whole
    share: int = 1


@cache
def _nowhere() -> Folder:
    """An empty folder: all that is fuzzed lies inside `_metadata`."""
    return Folder.at(tempfile.mkdtemp(prefix="stateshift-fuzz-"))


def metadata(data: bytes) -> None:
    """What is accepted is written again byte for byte."""
    written = write_metadata(read_metadata(data))

    assert written == data


def savepoint(data: bytes) -> None:
    """All that the commands do with a savepoint that they only read: describe, count, export, verify."""
    found = hostile.settled(read_metadata(data))
    if not hostile.leaves_the_machine_alone(found):
        return
    opened = Savepoint(hostile.hazards(), found)
    with suppress(StateShiftError):
        opened.describe()
    verify(opened)
    for operator in opened.operators:
        with suppress(StateShiftError):
            for state in operator.states:
                _read(operator, state)


def command(data: bytes) -> None:
    """Commands end with a status of theirs, and print lines of theirs: no name and no file forges one."""
    found = hostile.settled(read_metadata(data))
    if not hostile.leaves_the_machine_alone(found):
        return
    folder = hostile.hazards()
    folder.write(METADATA, write_metadata(found))
    try:
        for arguments in (["inspect"], ["inspect", "--json"], ["verify"], ["export"]):
            status, printed = _run(arguments[0], folder.place, *arguments[1:])
            lines = printed.split("\n")
            assert status in {0, 1, 2, 3, 7}, printed
            assert all(line.isprintable() and not line.lstrip().startswith("::") for line in lines), printed
        status, printed = _run("init", folder.place, "-o", "-")
        if not status:
            ast.parse(printed)
    finally:
        folder.delete(METADATA)


def _run(*arguments: str) -> tuple[int, str]:
    """Run a command in this process; give its status and all that it prints."""
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        try:
            main(list(arguments))
        except SystemExit as ended:
            return int(ended.code or 0), printed.getvalue()
    raise AssertionError("a command ends with a status")


def _read(operator: Any, state: Any) -> None:
    with suppress(StateShiftError):
        state.measure()
    with suppress(StateShiftError):
        json.dumps(tagged_operator(operator, [state]))


def source(data: bytes) -> None:
    """The job file that a savepoint implies is Python, whatever the names in the savepoint are."""
    found = read_metadata(data)
    if not hostile.leaves_the_machine_alone(found):
        return
    text = job_source(Savepoint(_nowhere(), found))
    ast.parse(text)
    assert all(line.isprintable() for line in text.split("\n"))


def lineage(data: bytes) -> None:
    """A lineage that is accepted takes part in `verify`, and is written again to the same content."""
    found = Lineage.from_json(data)
    verify(Savepoint(_nowhere(), SavepointMetadata.new(()), found))

    assert Lineage.from_json(found.to_json()) == found


def plan(data: bytes) -> None:
    """A plan that is accepted is written again to the same content."""
    found = PlanFile.from_json(data)

    assert PlanFile.from_json(found.to_json().encode()) == found


def record(data: bytes) -> None:
    """A recorded snapshot that is accepted is equal to itself, and written again to the same content."""
    found = from_json(data)
    written = to_json(found)

    assert to_json(from_json(written.encode())) == written
    assert compare(found, found).is_equal or any(operator.unreadable for operator in found.operators)


def snapshot(data: bytes) -> None:
    """A snapshot that is accepted can be shown, written to bytes that stay the same, and is compatible with itself."""
    found = snapshot_from_bytes(data)
    written = snapshot_to_bytes(found)

    assert snapshot_to_bytes(snapshot_from_bytes(written)) == written
    assert isinstance(found.describe(), str)
    assert found.is_flink in {True, False}
    tagger_of(found)
    serializer = found.restore_serializer()
    assert serializer.length >= -1
    assert serializer.layout is not None
    if _mentions(found, "ttl_aware"):  # unwrapped by the caller
        return
    verdict = serializer.ensure_compatibility(found).verdict
    assert verdict in {Verdict.COMPATIBLE, Verdict.COMPATIBLE_AFTER_RECONFIGURATION}, verdict


def _mentions(found: TypeSerializerConfigSnapshot[Any], kind: str) -> bool:
    return found.kind == kind or any(_mentions(child, kind) for child in found.children())


def value(data: bytes) -> None:
    """A value that is read ends where its layout says, and is written to bytes that read the same."""
    source = DataInputView(data)
    found = read_versioned_snapshot(source)
    serializer, start = found.restore_serializer(), source.position
    read = serializer.deserialize(source)
    json.dumps(tagger_of(found)(read))
    copied, again = DataOutputView(), DataInputView(data, start)
    serializer.copy_bytes(again, copied)

    assert (again.position, copied.getvalue()) == (source.position, source.span(start))
    written = _written(serializer, read)
    assert _written(serializer, serializer.deserialize(DataInputView(written))) == written


def conversion(data: bytes) -> None:
    """The verdict on any pair of snapshots; where there is a conversion, values that it accepts can be written."""
    source = DataInputView(data)
    old, new = read_versioned_snapshot(source), read_versioned_snapshot(source)
    writer = new.restore_serializer()
    result = writer.ensure_compatibility(old)
    if result.verdict is Verdict.INCOMPATIBLE:
        return
    read = old.restore_serializer().deserialize(source)
    _written(result._reconfigured or writer, read if result.conversion is None else result.conversion(read))


def pickled(data: bytes) -> None:
    """A pickle is opened without a module being loaded for it, but Python's own codec for its texts."""
    loaded = set(sys.modules)
    with suppress(StateShiftError):
        open_pickle(data, Names("shop.Account"))

    assert set() == {name for name in set(sys.modules) - loaded if not name.startswith("encodings.")}


def _written(serializer: TypeSerializer[Any], value: object) -> bytes:
    target = DataOutputView()
    serializer.serialize(value, target)
    return target.getvalue()


def _stream(kind: str) -> Target:
    return Target(kind, savepoint, lambda: seeds.streams(kind), pieces.streams_apart, share=3)


TARGETS = {
    target.name: target
    for target in (
        Target("metadata", metadata, seeds.metadata),
        Target("savepoint", savepoint, seeds.savepoints, pieces.streams_apart, share=3),
        _stream("canonical"),
        _stream("snappy"),
        _stream("native"),
        _stream("operator"),
        Target(
            "source", source, lambda: seeds.streams("canonical") + seeds.streams("operator"), pieces.streams_apart, 2
        ),
        Target("snapshot", snapshot, seeds.snapshots),
        Target("value", value, seeds.values, pieces.snapshots_apart(1), share=2),
        Target("conversion", conversion, seeds.conversions, pieces.snapshots_apart(2), share=2),
        Target("pickle", pickled, seeds.pickles),
        Target("lineage", lineage, seeds.lineages),
        Target("plan", plan, seeds.plans),
        Target("record", record, seeds.records),
        Target("place", hostile.place, hostile.places),
        Target("handle", savepoint, hostile.handles),
        Target("command", command, lambda: hostile.names() + hostile.handles()),
        Target("claim", hostile.claim, hostile.claims),
        Target("list", hostile.run_list, hostile.run_lists),
        Target("journal", hostile.journal, hostile.journals),
        Target("quarantine", hostile.quarantine, hostile.quarantines),
        Target("stored", hostile.stored, hostile.pickles),
        Target("revision", hostile.revision, hostile.revisions),
    )
}


def few(inputs: Sequence[bytes], count: int) -> list[bytes]:
    """Give `count` inputs, evenly spread; all of them where it is 0."""
    return list(inputs[:: -(-len(inputs) // count)] if count and inputs else inputs)


def mixed(count: int) -> Target:
    """Give one target of all: the first byte of an input says which. `count` seeds of each, or all of them."""
    members = list(TARGETS.values())

    def run(data: bytes) -> None:
        if data:
            members[data[0] % len(members)].run(data[1:])

    def apart(data: bytes) -> pieces.Pieces:
        found = members[data[0] % len(members)].apart(data[1:])
        return attrs.evolve(found, join=lambda parts: data[:1] + found.join(parts))

    def begin() -> list[bytes]:
        return [bytes([at]) + seed for at, member in enumerate(members) for seed in few(member.seeds(), count)]

    return Target("all", run, begin, apart)
