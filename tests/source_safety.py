"""Each command that a user runs on a savepoint, its output, and all files in a place before and after."""

from __future__ import annotations

import io
import os
import signal
import socket
import sys
import threading
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

import attrs
import pyarrow as pa
from pyarrow import fs
from pyspark.sql.types import StructType

import stateshift
from stateshift import Job, Operator, SavepointWriter, StateShiftError, ValueStateDescriptor
from stateshift.cli import main
from stateshift.cli.failures import error_lines, status_of
from stateshift.spark.source.savepoint_source import SavepointDataSource
from stateshift.state.formats.flink.handles import AbsoluteFileHandle
from stateshift.state.formats.flink.metadata import read_metadata, write_metadata

KEYS = 2_000
"""So many that each of two subtasks has a file of its own."""

OLD = Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", int)])])
ROWS = StructType().add("key", "long").add("value", "long")


def write_source(place, *, factor=1):
    """Write a savepoint of two files of state: key n has the value `n * factor`."""
    with SavepointWriter(place, OLD, parallelism=2) as writer:
        for key in range(KEYS):
            writer.put("counter", "count", key, key * factor)


@attrs.frozen
class Outcome:
    """How a command ended: its exit status, and its output."""

    status: int
    text: str


def command(*arguments):
    """Run a command of the command line in this process."""
    told = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    paths = list(sys.path)
    try:
        with redirect_stdout(told), redirect_stderr(told):
            main([str(argument) for argument in arguments])
    except SystemExit as ended:
        return Outcome(int(ended.code or 0), told.buffer.getvalue().decode())
    finally:
        sys.path[:] = paths
    raise AssertionError


def called(function, *arguments, **options):
    """Call a function of the Python API: its error has the status that the command line would give it."""
    try:
        function(*arguments, **options)
    except StateShiftError as error:
        return Outcome(int(status_of(error)), "\n".join(error_lines(error)))
    return Outcome(0, "")


@contextmanager
def planned_write(target, base=None, *, operator="counter", state="count"):
    """Plan a `df.write` as Spark does it, give what writes, and abort where the block fails, as Spark does then."""
    options = {"path": str(target), "operator": operator, "state": state} | ({"base": str(base)} if base else {})
    writer = SavepointDataSource(options).writer(ROWS, True)
    try:
        yield writer
    except BaseException:
        writer.abort([])
        raise


def batch(first, last):
    """Rows of which key n has the value 7 n."""
    keys = range(first, last)
    return pa.record_batch({"key": pa.array(keys, pa.int64()), "value": pa.array([7 * n for n in keys], pa.int64())})


def write_state(target, base=None):
    """Write a state from rows next to a base, step by step as Spark does, in this process."""
    with planned_write(target, base) as writer:
        writer.commit([writer.write(iter([batch(0, 50)]))])


def write_new(target):
    """Write a savepoint of a few values."""
    with SavepointWriter(target, OLD) as writer:
        writer.put("counter", "count", 1, 1)


MODES = ("fail", "replace", "resume")
ANEW = {"migrate": ("--parallelism", 3), "repartition": ("--repartition", "--max-parallelism", 64)}


def _migration(options, mode):
    return lambda source, target: command("migrate", source, target, *options, "--target-exists", mode)


WITH_SOURCE = {
    f"{verb}, {mode}": _migration(options, mode) for verb, options in ANEW.items() for mode in MODES
} | {"write": lambda source, target: called(write_state, target, source)}  # fmt: skip
"""Verbs that read one savepoint and write another: `verb(source, target)` gives an `Outcome`."""

WITHOUT_SOURCE = {
    "SavepointWriter": lambda _, target: called(write_new, target),
    "write, no base": lambda _, target: called(write_state, target),
    "clean": lambda _, target: command("clean", target),
}
"""Verbs that are given a place to write to, and no other."""

VERBS = WITH_SOURCE | WITHOUT_SOURCE


def tree(folder):
    """Tell all that lies below a local folder: of files the number, time and content, of links where they lead to."""
    found = {}
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(place, name)
            if path.is_symlink():
                facts = path.readlink()
            elif path.is_dir():
                facts = "folder"
            else:
                about = path.stat()
                facts = about.st_ino, about.st_mtime_ns, path.read_bytes()
            found[path.relative_to(folder).as_posix()] = facts
    return found


def store_tree(files, place):
    """Tell all files below a place of a store: size, time and content. A store has no folders of its own."""
    found = {}
    for info in files.get_file_info(fs.FileSelector(place, recursive=True, allow_not_found=True)):
        if info.type == fs.FileType.File:
            with suppress(FileNotFoundError), files.open_input_stream(info.path) as stream:
                found[info.path.removeprefix(f"{place}/")] = info.mtime_ns, stream.read()
    return found


def differences(before, after):
    """Say what is new, changed or gone."""
    return {
        name: "new" if name not in before else "gone" if name not in after else "changed"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    }


def names(text, spelling):
    """Whether a message names a place as the user did.

    Options of a URI and a slash at the end may be left out, and a local place may be printed as a path, from
    the root on. What a link leads to is another name.
    """
    bare = str(spelling).partition("?")[0].rstrip("/")
    if "://" in bare and not bare.lower().startswith("file:"):
        return bare in text
    path = unquote(urlsplit(bare).path) if bare.lower().startswith("file:") else bare
    return any(form in text for form in (bare, path, os.path.abspath(path)))  # noqa: PTH100 - resolve follows links


def point_elsewhere(savepoint, shared, uri):
    """Let a local savepoint refer to its files by absolute handles: they are moved to `shared`, whose URI is returned.

    So Flink's checkpoints do, whose folder has `shared` next to it.
    """
    metadata = read_metadata((savepoint / "_metadata").read_bytes())

    def moved(subtask):
        stream = subtask.managed_keyed.stream
        (savepoint / stream.path).rename(shared / stream.path)
        handle = AbsoluteFileHandle(f"{uri}/{stream.path}", stream.size)
        return attrs.evolve(subtask, managed_keyed=attrs.evolve(subtask.managed_keyed, stream=handle))

    operators = tuple(
        attrs.evolve(operator, subtasks=tuple(map(moved, operator.subtasks))) for operator in metadata.operators
    )
    (savepoint / "_metadata").write_bytes(write_metadata(attrs.evolve(metadata, operators=operators)))
    (savepoint / "_stateshift.json").unlink()


STEPS_IN_C = frozenset({"open", "write", "pwrite", "fsync", "rename", "replace", "link", "unlink", "remove", "rmdir"})
STEPS = frozenset({"create", "output", "write", "close", "rename", "delete", "delete_empty", "delete_folder", "copy"})


def die_at(step):
    """Kill this process where it begins so many steps of writing; at none where it is 0. Gives what counts them.

    A step is a call of the package that writes, closes, renames or deletes, or what such a call asks the system for.
    """
    package = str(Path(stateshift.__file__).parent)
    done = 0

    def count(frame, event, argument):
        nonlocal done
        code = frame.f_code
        if "/state/savepoint/" not in code.co_filename or not code.co_filename.startswith(package):
            return
        if (event == "call" and code.co_name in STEPS) or (event == "c_call" and argument.__name__ in STEPS_IN_C):
            done += 1
            if done == step:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(count)
    return lambda: done


class Proxy:
    """Another port that leads to a server, for as long as the `with` block lasts.

    Args:
        port: Of the server, on this machine.

    Attributes:
        meets: Is called with the first line of each request that passes, before it goes on.
    """

    def __init__(self, port):
        self._to, self.meets = port, None
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._open = set()

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        for one in (self._listening, *self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self):
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(("127.0.0.1", self._to))
                self._open |= {client, server}
                for one, other in ((client, server), (server, client)):
                    threading.Thread(target=self._pass, args=(one, other), daemon=True).start()

    def _pass(self, one, other):
        with suppress(OSError):
            while data := one.recv(1 << 16):
                line, meets = data.split(b"\r\n", 1)[0], self.meets
                if meets is not None and line.endswith(b" HTTP/1.1"):
                    meets(line.decode(errors="replace"))
                other.sendall(data)
        for end in (one, other):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
