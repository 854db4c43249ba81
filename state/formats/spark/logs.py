"""The logs of a checkpoint: its batches, planned and committed, how far the sources are read, and the settings.

    metadata    {"id": the query's id}
    offsets/N   v1 or v2, a line of JSON (watermark, settings), a line for each source: its offset, or `-`
                v1: sources in the order of the query; v2: `name:offset`
    commits/N   v1 or v2, a line of JSON: the watermark of the next batch; v2: the ids of the stores' files, too, by
                operator: a list for each partition

A file without a number as its name is being written, or a checksum. Source: `OffsetSeqLog` of Spark 4.3.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import attrs

from ....serializers.errors import CorruptFile, UnsupportedFormat, located
from .checksums import read_checked
from .commit_log import last_committed, last_planned

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...storage.files import Folder

_STORE = "spark.sql.streaming.stateStore."
_READABLE = ("v1", "v2")
_OF_SOURCE = re.compile(r"sources/\d+/\d+(\.compact)?")
_DEFAULT_PROVIDER = "HDFSBackedStateStoreProvider"


@attrs.frozen
class SourceOffset:
    """How far a source is read.

    Attributes:
        name: The name of the source; its number where the query gives it none.
        text: The offset, as the source wrote it; "" where it has none yet.
    """

    name: str
    text: str


@attrs.frozen
class PlannedBatch:
    """A batch in the log of offsets.

    Attributes:
        watermark_ms: The event-time watermark of the batch, in milliseconds since 1970; 0: none.
        settings: The settings of Spark SQL that are pinned for the query.
        sources: How far each source is read after the batch.
        time_ms: The time of the batch, in milliseconds since 1970.
    """

    watermark_ms: int
    settings: Mapping[str, str] = attrs.field(repr=False)
    sources: tuple[SourceOffset, ...]
    time_ms: int = 0

    @property
    def provider(self) -> str:
        """The class of the state stores, without its package."""
        return self.settings.get(_STORE + "providerClass", _DEFAULT_PROVIDER).rpartition(".")[2]

    @property
    def encoding(self) -> str:
        """The encoding of keys and values in stores of transformWithState: `unsaferow` or `avro`."""
        return self.settings.get(_STORE + "encodingFormat", "unsaferow")

    @property
    def delimiter(self) -> bytes:
        """What RocksDB puts between a value and what is appended to it."""
        return b"" if self.settings.get(_STORE + "rocksdb.mergeOperatorVersion", "1") == "2" else b","

    @property
    def codec(self) -> str:
        """The codec of the files of state stores."""
        return self.settings.get(_STORE + "compression.codec", "lz4")

    @property
    def has_row_checksums(self) -> bool:
        """Whether each entry of a store has a checksum."""
        return self.settings.get(_STORE + "rowChecksum.enabled", "false") == "true"


@attrs.frozen
class BatchLog:
    """The batches of a query.

    Attributes:
        query_id: The id of the query.
        committed: The last committed batch; None: there is none.
        planned: The last planned batch; None: there is none.
        watermark_ms: The event-time watermark after the last committed batch, in milliseconds since 1970; 0: none.
        format: The format of the checkpoint: 2 if the files of stores have ids in their names, else 1.
        last: What is planned in the last committed batch, or in the first one if none is committed.
        ids: With format 2 the ids of the stores' files after the last committed batch, by operator and partition.
    """

    query_id: str
    committed: int | None
    planned: int | None
    watermark_ms: int
    format: int
    last: PlannedBatch | None
    ids: Mapping[int, tuple[tuple[str, ...], ...]] = attrs.field(factory=dict, repr=False)

    def ids_of(self, operator: int, partition: int) -> tuple[str, ...]:
        """Return the ids of the files of a partition's stores, () with format 1.

        Raises:
            CorruptFile: The log of commits has none for the partition.
        """
        if self.format == 1:
            return ()
        found = self.ids.get(operator, ())
        if partition >= len(found):
            what = f"no id of the files of the operator {operator}, partition {partition}"
            raise CorruptFile(f"the log has {what}", file=f"commits/{self.committed}")
        return found[partition]

    @property
    def unfinished(self) -> int | None:
        """The batch that is planned and not committed: the query died, was stopped in it, or is running."""
        return self.planned if self.planned is not None and self.planned != self.committed else None


def read_logs(folder: Folder, batch: int | None = None) -> BatchLog:
    """Read the logs of a checkpoint.

    Args:
        folder: The checkpoint.
        batch: The batch that counts as the last committed one; None: that which is.

    Raises:
        CorruptFile: A file is damaged, or the offsets of a committed batch are missing.
        UnsupportedFormat: A newer Spark wrote a file, or the query runs in a mode without these logs.
    """
    query_id = _object(_text(folder, "metadata"), "metadata").get("id")
    if not isinstance(query_id, str):
        raise CorruptFile("it does not have the id of the query", file="metadata")
    committed = last_committed(folder) if batch is None else batch
    planned = last_planned(folder)
    of = planned if committed is None else committed
    watermark, ids = _commit(folder, committed) if committed is not None else (0, {})
    last = None if of is None else _planned(folder, of)
    return BatchLog(query_id, committed, planned, watermark, 2 if ids else 1, last, ids)


def require_log(folder: Folder, name: str, last: PlannedBatch) -> None:
    """Read a file of offsets, of commits, or of what a source keeps, which is copied.

    What a source keeps is its own: only what Spark's sources have in common is compared, a version and lines of JSON.

    Args:
        folder: The checkpoint.
        name: The file.
        last: The last batch, which has as many sources as each.

    Raises:
        CorruptFile: It is damaged.
    """
    top, _, number = name.rpartition("/")
    if top == "commits":
        _commit(folder, int(number))
    elif top == "offsets":
        if len(_planned(folder, int(number)).sources) != len(last.sources):
            what = f"it does not have the offsets of {len(last.sources)} sources, as the last batch has"
            raise CorruptFile(what, file=name)
    elif _OF_SOURCE.fullmatch(name):
        text = _text(folder, name).removeprefix("\0")  # Kafka's begin with a byte for old releases
        if not text:
            raise CorruptFile("the file is empty", file=name)
        version, *lines = text.split("\n")
        if version in _READABLE:
            _require_json(lines, name)


def _require_json(lines: list[str], file: str) -> None:
    """Raise `CorruptFile` unless the lines that begin like JSON are valid JSON."""
    for line in lines:
        if line.startswith(("{", "[")):
            try:
                json.loads(line)
            except ValueError as error:
                raise CorruptFile(f"a line is no JSON: {error}", file=file) from error


def with_ids(commit: bytes, ids: Mapping[int, tuple[tuple[str, ...], ...]]) -> bytes:
    """Return the log of a committed batch with other ids of the files of its stores."""
    version, _, text = commit.decode().partition("\n")
    said = json.loads(text) | {"stateUniqueIds": {str(number): of for number, of in ids.items()}}
    return f"{version}\n{json.dumps(said, separators=(',', ':'))}".encode()


def _commit(folder: Folder, batch: int) -> tuple[int, dict[int, tuple[tuple[str, ...], ...]]]:
    """Return the watermark after a batch, and the ids of the files of its stores."""
    file = f"commits/{batch}"
    lines = _versioned(_text(folder.folder("commits"), str(batch)), file)
    facts = _object(lines[0] if lines else "", file)
    try:
        said = (facts.get("stateUniqueIds") or {}).items()
        ids = {int(operator): tuple(tuple(map(str, one)) for one in of) for operator, of in said}
    except (ValueError, TypeError, AttributeError) as error:
        raise CorruptFile(f"the ids of state stores are damaged: {error}", file=file) from error
    return _integer(facts, "nextBatchWatermarkMs", file), ids


def _planned(folder: Folder, batch: int) -> PlannedBatch:
    file = f"offsets/{batch}"
    text = _text(folder.folder("offsets"), str(batch))
    facts_line, *lines = _versioned(text, file) or ["{"]  # Spark writes the second line, if only an empty one
    _require_json(lines, file)
    facts = _object(facts_line, file) if facts_line.strip() else {}
    settings = facts.get("conf") or {}
    if not isinstance(settings, dict):
        raise CorruptFile("the settings are no JSON object", file=file)
    if text.startswith("v2"):
        pairs = [line.partition(":")[::2] for line in lines]
    else:
        pairs = [(str(number), line) for number, line in enumerate(lines)]
    sources = tuple(SourceOffset(name, "" if offset == "-" else offset) for name, offset in pairs)
    pinned = {str(name): str(value) for name, value in settings.items()}
    time_ms = _integer(facts, "batchTimestampMs", file)
    return PlannedBatch(_integer(facts, "batchWatermarkMs", file), pinned, sources, time_ms)


def _text(folder: Folder, name: str) -> str:
    with located(file=name):
        try:
            return read_checked(folder, name).decode()
        except UnicodeDecodeError as error:
            raise CorruptFile(f"the file is no text: {error}") from error


def _versioned(text: str, file: str) -> list[str]:
    """Return the lines after the one with the version."""
    version, *lines = text.split("\n")
    if version not in _READABLE:
        is_version = version.startswith("v") and version[1:].isdigit()
        if is_version:
            raise UnsupportedFormat(
                f"the file has version {version}; this release reads {' and '.join(_READABLE)}",
                advice="upgrade stateshift: a newer Spark wrote the checkpoint",
                file=file,
            )
        raise CorruptFile("the file does not begin with its version", file=file)
    return lines


def _object(text: str, file: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise CorruptFile(f"the file is no JSON: {error}", file=file) from error
    if not isinstance(found, dict):
        raise CorruptFile("the file contains no JSON object", file=file)
    return found


def _integer(facts: Mapping[str, Any], name: str, file: str) -> int:
    value = facts.get(name, 0)
    if not isinstance(value, int):
        raise CorruptFile(f"{name} is {value!r}, and not an integer", file=file)
    return value
