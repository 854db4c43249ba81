"""Sources and sinks of local files.

A sink writes a part file under a hidden name, and gives it its name when the checkpoint with all its lines is complete,
or at the end of the input. So after a restore each line is there once.
"""

from __future__ import annotations

import os
import re
import time
import uuid
from abc import ABC, abstractmethod
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from ...serializers.errors import DeclarationError, SavepointNotFound, shown
from ..runtime.checkpointed import CheckpointedFunction, CheckpointListener
from ..runtime.descriptors import ListStateDescriptor
from ..runtime.functions import SinkFunction
from ..runtime.sources import SourceFunction
from .functions import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..runtime.checkpointed import FunctionInitializationContext, FunctionSnapshotContext
    from ..runtime.files import FileSink, FileSource
    from ..runtime.runtime_context import RuntimeContext
    from ..runtime.sources import SourceContext

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+):(//)?", re.IGNORECASE)
_PATTERN = re.compile(r"yyyy|MM|dd|HH|mm|ss|'[^']*'|[^A-Za-z']+")
_FIELDS = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}


def _local(place: str) -> Path:
    """Return the path of a local file or folder, also for a run that is started in another folder.

    Raises:
        DeclarationError: It is on a store.
    """
    found = _SCHEME.match(place)
    if found is None:
        return Path(place).absolute()
    if found[1].lower() != "file":
        raise DeclarationError(f"{place} is not on this machine", advice="name a local path")
    return Path(place[found.end() :])


class FileLines(SourceFunction, CheckpointedFunction):
    """Emits the lines of files, one file after the other, in the order of their paths; its state is what it has read.

    Args:
        source: The files.

    Raises:
        DeclarationError: They are not on this machine, or new ones are to be looked for without an end.
    """

    def __init__(self, source: FileSource) -> None:
        if source.discovery_interval is not None:
            raise DeclarationError(
                "a local run ends with its input, so it cannot look for new files without an end",
                advice="leave out monitor_continuously",
            )
        self._paths, self._charset = [_local(path) for path in source.paths], source.stream_format.charset_name
        self._read: dict[str, int] = {}

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        self._state = store.get_list_state(ListStateDescriptor("lines read of files", tuple[str, int]))
        self._read = dict(self._state.get())

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self._state.update(list(self._read.items()))

    def run(self, ctx: SourceContext) -> None:
        lock, read = ctx.get_checkpoint_lock(), self._read
        for path in self._files():
            name, done = str(path), read.get(str(path), 0)
            with path.open(encoding=self._charset, newline="\n") as lines:
                for number, line in enumerate(lines, 1):
                    if number > done:
                        with lock:
                            ctx.collect(line.removesuffix("\n").removesuffix("\r"))
                            read[name] = number

    def _files(self) -> Iterator[Path]:
        for path in self._paths:
            if not path.exists():
                raise SavepointNotFound(f"there is no file or folder {path} to read", file=str(path))
            if path.is_file():
                yield path
                continue
            for folder, folders, names in os.walk(path):
                folders[:] = sorted(name for name in folders if name[0] not in "._")
                yield from (Path(folder, name) for name in sorted(names) if name[0] not in "._")

    def cancel(self) -> None:
        """Do nothing: a local run ends a source at its next element."""


class Finishing(ABC):
    """A function that has something to do at the end of a run that went well."""

    @abstractmethod
    def finish(self) -> None:
        """Do it."""


class FileWriter(SinkFunction, CheckpointedFunction, CheckpointListener, Finishing):
    """Writes elements into part files.

    Args:
        sink: The files.
        is_typed: As for `text_of`.

    Raises:
        DeclarationError: They are not on this machine, or the pattern of folders has a field that is not known here.
    """

    def __init__(self, sink: FileSink, *, is_typed: bool) -> None:
        self._folder, self._sink, self._is_typed = _local(sink.base_path), sink, is_typed
        self._bucket_format = _strftime(sink.bucket_assigner.format_str)
        zone = sink.bucket_assigner.timezone_id
        self._zone = None if zone is None else ZoneInfo(zone)
        self._open: dict[str, _Part] = {}
        self._pending: list[tuple[str, str]] = []

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        self._state = store.get_list_state(ListStateDescriptor("files to be named", tuple[str, str]))
        for hidden, name in self._state.get():
            if Path(hidden).exists():  # else it was named before the process ended
                Path(hidden).rename(name)

    def open(self, runtime_context: RuntimeContext) -> None:
        self._attempt = f"{uuid.uuid4()}-{runtime_context.get_index_of_this_subtask()}"
        self._count = 0

    def invoke(self, value: Any) -> None:
        encoder, policy = self._sink.encoder, self._sink.rolling_policy
        data = f"{text_of(value, is_typed=self._is_typed)}\n".encode(encoder.charset_name)
        bucket = datetime.now(self._zone).strftime(self._bucket_format)
        part = self._open.get(bucket)
        if part is not None and part.is_over(policy, time.monotonic()):
            self._end(bucket)
            part = None
        if part is None:
            part = self._open[bucket] = self._begun(bucket)
        part.write(data)

    def _begun(self, bucket: str) -> _Part:
        config, folder = self._sink.output_file_config, self._folder / bucket
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{config.part_prefix}-{self._attempt}-{self._count}{config.part_suffix}"
        self._count += 1
        return _Part(folder / f".{name}.inprogress", folder / name)

    def _end(self, bucket: str) -> None:
        part = self._open.pop(bucket)
        part.file.close()
        self._pending.append((str(part.hidden), str(part.name)))

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        for bucket in list(self._open):
            self._end(bucket)
        self._state.update(list(self._pending))

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        pending, self._pending = self._pending, []
        for hidden, name in pending:
            Path(hidden).rename(name)

    def finish(self) -> None:
        for bucket in list(self._open):
            self._end(bucket)
        self.notify_checkpoint_complete(0)

    def close(self) -> None:
        for part in self._open.values():
            part.file.close()


class _Part:
    """A part file that is being written."""

    def __init__(self, hidden: Path, name: Path) -> None:
        self.hidden, self.name = hidden, name
        self.file: IO[bytes] = hidden.open("xb")
        self._size, self._start, self._last = 0, time.monotonic(), time.monotonic()

    def write(self, data: bytes) -> None:
        self.file.write(data)
        self._size += len(data)
        self._last = time.monotonic()

    def is_over(self, policy: Any, now: float) -> bool:
        """Whether the next element belongs into another part."""
        limits = (
            (policy.part_size, self._size),
            (policy.rollover_interval, (now - self._start) * 1000),
            (policy.inactivity_interval, (now - self._last) * 1000),
        )
        return any(most is not None and found >= most for most, found in limits)


def _strftime(pattern: str) -> str:
    """Return a pattern of Java's `DateTimeFormatter` as one of `strftime`."""
    parts = _PATTERN.findall(pattern)
    if "".join(parts) != pattern:
        raise DeclarationError(
            f"the folders of a sink are named {shown(pattern)}, of which not all is known here",
            advice=f"use {', '.join(_FIELDS)}, and other text between quotes",
        )
    return "".join(_FIELDS.get(part, part.strip("'").replace("%", "%%")) for part in parts)
