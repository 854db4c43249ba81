"""What a hostile savepoint has that an honest one has not: handles that lead elsewhere, odd names, files of ours."""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
import shutil
import socket
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import pieces
import seeds

from stateshift import Job, Operator, StateShiftError, ValueStateDescriptor
from stateshift.compat.gate.history import History, RecordedRevision
from stateshift.compat.gate.stamps import Stamps
from stateshift.state.formats.flink.handles import (
    AbsoluteFileHandle,
    DistributionMode,
    OperatorStateHandle,
    OperatorStateOffsets,
    RelativeFileHandle,
)
from stateshift.state.formats.flink.metadata import read_metadata, write_metadata
from stateshift.state.migration.journal import SUFFIX, Journal
from stateshift.state.migration.tasks import TaskResult
from stateshift.state.publication.lineage import FileDigest, StateCount
from stateshift.state.publication.publish import clean
from stateshift.state.publication.runs import names_of
from stateshift.state.publication.sink import StoredBytes
from stateshift.state.publication.stored_serializers import SERIALIZERS, read_stored_serializers, write_pickles
from stateshift.state.savepoint.quarantine import QuarantinedValue
from stateshift.state.storage.files import Folder
from stateshift.state.storage.identity import Identity
from stateshift.state.storage.stores import below, store_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stateshift.state.formats.flink.handles import KeyedHandle
    from stateshift.state.formats.flink.metadata import SavepointMetadata

HERE = "/here"
"""Stands in a handle for the folder of the savepoint, which is another in each process."""

SPECIAL = ("pipe", "folder", "device", "socket", "loop", "gone", "file", "missing", "\n::error::x")
ODD_URIS = (
    "file://[::1/x", "s3://[::1/x", "gs://[::1/x", "hdfs://[::1/x", "file:/%00", "file:/%ff\ud800", "file:", "file:/",
    "file://host/x", "FILE:/%zz?a=b", "s3://a\u2100b/x", "s3:/", "x:/y", "file:/../../x", "file:///" + "a" * 300,
)  # fmt: skip
ODD_NAMES = (
    "x\nverdict: start", "::error title=a::b", "##[error]x", "\r\x1b[2J\x9b31m", "\u202e\u2066\u2028\u2029", "\ud800",
    "", "[/x]", '"""', "a/b", "{}%s\\", "x" * 300, "\x00\x7f\x85", "]]>&<",
)  # fmt: skip
_DEEP = b"[" * 5000
_RUN = "run"


@cache
def hazards() -> Folder:
    """A folder with one of each kind of what is no regular file, and one that is."""
    folder = Path(tempfile.mkdtemp(prefix="stateshift-fuzz-"))
    os.mkfifo(folder / "pipe")
    (folder / "folder").mkdir()
    (folder / "device").symlink_to("/dev/zero")
    (folder / "loop").symlink_to("loop")
    (folder / "gone").symlink_to("missing")
    (folder / "file").write_bytes(bytes(8))
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(folder / "socket"))
    return Folder.at(folder)


def settled(found: SavepointMetadata) -> SavepointMetadata:
    """Put the folder of the savepoint where `HERE` stands for it."""

    def changed(handle: KeyedHandle | OperatorStateHandle) -> KeyedHandle | OperatorStateHandle:
        if not isinstance(handle.stream, AbsoluteFileHandle):
            return handle
        uri = handle.stream.uri.replace(HERE, hazards().place)
        return attrs.evolve(handle, stream=attrs.evolve(handle.stream, uri=uri))

    return pieces.with_handles(found, changed)


def leaves_the_machine_alone(found: SavepointMetadata) -> bool:
    """Whether no handle names a store elsewhere, which a fuzz run has no business to ask; of files, it only reads."""
    handles = [
        handle.stream
        for operator in found.operators
        for subtask in operator.subtasks
        for handle in (subtask.managed_keyed, subtask.managed_operator, subtask.raw_keyed, subtask.raw_operator)
        if handle is not None
    ]
    uris = [stream.uri for stream in handles if isinstance(stream, AbsoluteFileHandle)]
    return all(uri in ODD_URIS or store_of(uri) == "file" for uri in uris)


# ── where inputs begin ───────────────────────────────────────────────────────────────────────────────────────────────


def handles() -> list[bytes]:
    """Savepoints of one stream, which lies elsewhere: absolute, relative, nowhere, in what is not a file."""
    begin = [read_metadata(data) for kind in ("operator", "canonical") for data in seeds.streams(kind)[:1]]
    streams = [RelativeFileHandle(name, 8) for name in (*SPECIAL, "../x", "/etc/passwd", "a\x00b", "\ud800", "")]
    streams += [AbsoluteFileHandle(f"file:{HERE}/{name}", 8) for name in SPECIAL]
    streams += [AbsoluteFileHandle(uri, 8) for uri in ODD_URIS]
    return [
        write_metadata(pieces.with_handles(one, lambda handle, to=stream: attrs.evolve(handle, stream=to)))
        for one in begin
        for stream in streams
    ]


def places() -> list[bytes]:
    """Paths and URIs, sound ones too."""
    sound = ("/a/b", "a/../b", "file:/a%20b", "s3a://b/a?region=x", "s3://u:p@b/x", "gs://b/x?token=t", "hdfs://h:1/x")
    return [uri.encode("utf-8", "surrogatepass") for uri in (*ODD_URIS, *ODD_NAMES, *sound)]


def names() -> list[bytes]:
    """Savepoints in which all that can have a name has an odd one."""
    begin = read_metadata(seeds.streams("operator")[0])
    return [write_metadata(_named(begin, name)) for name in ODD_NAMES]


def _named(found: SavepointMetadata, name: str) -> SavepointMetadata:
    def changed(handle: KeyedHandle | OperatorStateHandle) -> KeyedHandle | OperatorStateHandle:
        if not isinstance(handle, OperatorStateHandle):
            return handle
        return attrs.evolve(handle, states=tuple(attrs.evolve(one, name=name) for one in handle.states[:1]))

    operators = tuple(attrs.evolve(operator, uid=name, name=name) for operator in found.operators)
    return pieces.with_handles(attrs.evolve(found, operators=operators), changed)


def claims() -> list[bytes]:
    """Claims of this host and of another, of processes that there cannot be, and of runs that say nothing."""
    facts = {"user": "x", "host": platform.node(), "process": 1, "since": "2024-01-01T00:00:00+00:00"}
    made = [facts | {"process": process} for process in (10**30, -1, 0, "9" * 5000, 1.5, [], None, "²")]
    made += [facts, facts | {"host": "elsewhere"}, {"user": "\n::error::x", "since": {"a": []}}, {}]
    return [*(json.dumps(one).encode() for one in made), _DEEP, b""]


def journals() -> list[bytes]:
    """Entries of a journal, of this run and of another."""
    folder = Folder.at(tempfile.mkdtemp(prefix="stateshift-fuzz-"))
    count = StateCount("00" * 16, "accounts", "account", "value", "convert", 4, 4, 0, "ff")
    states = (OperatorStateOffsets("list", DistributionMode.UNION, (0, 3)),)
    inline, file = StoredBytes("x", 3, b"abc"), StoredBytes("x", 3, None, "x.attempt-1", FileDigest(3, "ab"))
    found = [_DEEP, b"[1]", b'{"run": "run", "reference_time": null, "result": []}']
    for run, written in ((_RUN, inline), (_RUN, file), ("other", inline)):
        Journal(folder, run).record(TaskResult(written, (0, 7), states, (count,), file, (count,)))
        found.append(folder.read("x" + SUFFIX))
    return found


def quarantines() -> list[bytes]:
    """Lines of a file with values that did not fit."""
    value = QuarantinedValue(
        operator_id="0" * 32, operator="a", state="b\n", kind="value", key_group=1, key="k", path="$", reason="r",
        cause="c", key_bytes=b"k", value_bytes=b"v",
    )  # fmt: skip
    return [value.to_line(), _DEEP]


def pickles() -> list[bytes]:
    """Files of serializers that are kept next to a savepoint."""
    data = write_pickles(hazards(), {"a/b/c": b"x"})
    hazards().delete(SERIALIZERS)
    return [data, _DEEP]


def revisions() -> list[bytes]:
    """Files of a history: a revision, and stamps."""
    job = Job([Operator("shop", key=int, states=[ValueStateDescriptor("open\n", str)])]).describe("job")
    first = History().next(job, "message", dt.date(2024, 1, 1))
    stamps = Stamps().stamped("production", first.id, dt.date(2024, 1, 1))
    return [first.to_json().encode(), stamps.to_json().encode(), _DEEP]


# ── what is done with them ───────────────────────────────────────────────────────────────────────────────────────────


def place(data: bytes) -> None:
    """A place is a folder or is refused, without a store being asked; a local one is looked into."""
    found = Folder.at(data.decode("utf-8", "surrogateescape"))

    what, within = Identity.of(found.place), Identity.of(below(found.place, "x"))
    assert what.is_same(what)
    assert not what.is_inside(what)
    assert not within.is_same(what)
    if found.is_local:
        with suppress(StateShiftError):
            found.read("x")


def claim(data: bytes) -> None:
    """A claim is dead or alive, whatever it says; those of others are not changed, and none of ours is left."""
    folder = Folder.at(tempfile.mkdtemp(prefix="stateshift-fuzz-"))
    name = "_claim-0123456789ab"
    try:
        folder.write(name, data)
        os.utime(f"{folder.place}/{name}", (time.time() - 60,) * 2)  # younger ones are waited for
        try:
            clean(folder)
        except StateShiftError:
            assert folder.read(name) == data
        assert set(folder.names()) <= {name}
    finally:
        shutil.rmtree(folder.place)


def run_list(data: bytes) -> None:
    """A list of a run lets its own names be removed, whatever it says, but no file of others."""
    folder = Folder.at(tempfile.mkdtemp(prefix="stateshift-fuzz-"))
    try:
        folder.write("_run-0123456789ab", data)
        folder.write("notes.txt", b"mine")
        with suppress(StateShiftError):
            clean(folder)
        assert folder.read("notes.txt") == b"mine"
    finally:
        shutil.rmtree(folder.place)


def run_lists() -> list[bytes]:
    """Lists of runs: one as it is written, and some that are never written."""
    listed = [names_of(["0" * 32]), ["notes.txt"], ["*"], ["../x", 7, None, {}], "notes.txt"]
    return [*(json.dumps({"names": names}).encode() for names in listed), _DEEP, b""]


def journal(data: bytes) -> None:
    """An entry of a journal counts, with what a run needs of it, or does not."""
    folder = Folder.at(tempfile.mkdtemp(prefix="stateshift-fuzz-"))
    try:
        folder.write("x" + SUFFIX, data)
        folder.write("x.attempt-1", b"abc")
        entries = Journal(folder, _RUN)
        for name, result in (entries.finished() | entries.finished(["x"])).items():
            assert (name, result.stored.name) == ("x", "x")
            assert all(isinstance(number, int) for number in (result.stored.size, *result.offsets))
            assert sum(int(count.keys or "0", 16) for count in result.counts) >= 0
        entries.reference_time_before()
    finally:
        shutil.rmtree(folder.place)


def quarantine(data: bytes) -> None:
    """A line that is accepted is written again to the same content."""
    found = QuarantinedValue.from_line(data)

    assert QuarantinedValue.from_line(found.to_line()) == found


def stored(data: bytes) -> None:
    """Stored serializers are read and not opened."""
    folder = hazards()
    folder.write(SERIALIZERS, data)
    try:
        assert all(isinstance(one, bytes) for one in read_stored_serializers(folder).values())
    finally:
        folder.delete(SERIALIZERS)


def revision(data: bytes) -> None:
    """A revision, or a list of stamps, that is accepted is written again to the same content."""
    for read in _readers():
        try:
            found = read(data)
        except StateShiftError:
            continue
        assert read(found.to_json().encode()).to_json() == found.to_json()


def _readers() -> Iterator:
    yield Stamps.from_json
    yield lambda data: RecordedRevision.from_json("0001_a", data)
