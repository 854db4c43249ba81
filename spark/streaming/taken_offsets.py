"""The source offsets of a savepoint become those of a new query, in Spark's own checkpoint.

Spark cannot begin a query at given offsets: before its first batch there are none. So the first batch is planned here,
with no offset for any source, as Spark writes it. Spark runs that batch once, without rows, and so makes all that its
later batches need. Then the offsets of the savepoint are written as those of that batch, and Spark reads on from there.

    offsets/0       v1, the settings, and a line for each source: `-` is none

The offsets of some sources refer to a log of theirs in the checkpoint, which is copied before: the file source has the
files that it has read there, the rate source the time of its start. Source: Spark's classes `OffsetSeqLog`,
`MicroBatchExecution.populateStartOffsets`, `FileStreamSourceLog`; tried with Spark 4.3.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.errors import CorruptFile, DeclarationError, SavepointNotFound, UntrustedPlace
from ...state.formats.flink.roots import stored_place
from ...state.formats.spark.commit_log import last_committed, offsets, source_offsets
from ...state.formats.spark.reader import PREFIX
from ...state.storage.files import Folder

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from ...state.directory.directory import Begun

_FILES, _IN_PYTHON = "FileSource[", " in Python"
_OTHERS = ("kafka", "rate", "rate-micro-batch")
_LOG_FILE = re.compile(r"(\d+)(\.compact)?")
_INTERVAL = "spark.sql.streaming.fileSource.log.compactInterval"
_NONE = "-"


def source_kinds(df: DataFrame) -> tuple[str, ...]:
    """Return the kinds of the sources of a streaming DataFrame, in the order in which Spark keeps their offsets."""
    leaves: Any = df._jdf.queryExecution().analyzed().collectLeaves()  # noqa: SLF001 - only Java knows its plan
    found = (leaves.apply(number) for number in range(leaves.size()))
    return tuple(_kind(leaf) for leaf in found if leaf.isStreaming())


def _kind(leaf: Any) -> str:
    if not leaf.nodeName().startswith("StreamingRelation"):
        return str(leaf.nodeName())
    provider = leaf.source() if leaf.nodeName() == "StreamingRelationV2" else None
    is_python = provider is not None and provider.isDefined() and "Python" in provider.get().getClass().getName()
    return f"{leaf.sourceName()}{_IN_PYTHON if is_python else ''}"


def position_of(checkpoint: str | os.PathLike[str], *streams: DataFrame) -> dict[str, Any]:
    """Return how far a Spark query has read its sources, as the position for a savepoint of its state.

    A query that begins with the savepoint and `take_offsets` reads on from there. If there are files among the sources,
    it needs the checkpoint, too, which has the list of those that were read.

    Args:
        checkpoint: The checkpoint of the query, which is stopped.
        streams: What the new query reads: the same sources in the same order, of one DataFrame or several.

    Returns:
        What `bootstrap` takes as `position`.

    Raises:
        DeclarationError: No batch is committed, the number of sources is another, or a source cannot go on from
            offsets.
        SavepointNotFound, CorruptFile: The offsets of the last committed batch are missing or damaged.
    """
    folder = Folder.at(str(checkpoint).removeprefix(PREFIX))
    batch = last_committed(folder)
    if batch is None:
        raise DeclarationError.before_writing(
            f"no batch is committed in {folder.place}, so no source has been read",
            advice="name the folder that the old query has as its checkpointLocation",
        )
    text = offsets(folder, batch)
    kinds = tuple(kind for stream in streams for kind in source_kinds(stream))
    if len(kinds) != (known := len(source_offsets(text))):
        raise DeclarationError.before_writing(
            f"the query in {folder.place} has {known} sources, and the new one {len(kinds)}: {', '.join(kinds)}",
            advice="pass streams of the same sources, in the order in which the old query had them",
        )
    position = {"checkpoint": folder.place, "batch": batch, "offsets": text, "sources": list(kinds)}
    require_same_sources(f"the checkpoint {folder.place}", position, kinds)
    return position


def require_same_sources(place: str, position: Any, kinds: tuple[str, ...]) -> None:
    """Refuse offsets that the sources of a query cannot take over.

    Args:
        place: What has the offsets, in words: a savepoint or a checkpoint.
        position: Its position.
        kinds: The kinds of the query's sources.

    Raises:
        DeclarationError: It has no offsets, or those of other sources; or it is not known how a source
            keeps its offsets.
    """
    if not isinstance(position, dict) or not isinstance(position.get("sources"), list):
        raise DeclarationError.before_writing(
            f"{place} does not say how far the sources of a query were read",
            advice="leave out take_offsets; a savepoint has offsets if `stateshift savepoint` took it of a query, or if"
            " it was made with position=position_of(…)",
        )
    if tuple(position["sources"]) != kinds:
        raise DeclarationError.before_writing(
            f"the offsets of {place} are those of other sources: it has {', '.join(position['sources'])},"
            f" and the query {', '.join(kinds)}",
            advice="read the same sources in the same order, or leave out take_offsets",
        )
    texts = [position.get(name) for name in ("checkpoint", "offsets")]
    if not all(isinstance(text, str) for text in texts) or len(source_offsets(str(texts[1]))) != len(kinds):
        raise CorruptFile.before_writing(f"the position in {place} is damaged", advice="leave out take_offsets")
    strange = [kind for kind in kinds if not (kind.startswith(_FILES) or kind.endswith(_IN_PYTHON) or kind in _OTHERS)]
    if strange:
        raise DeclarationError.before_writing(
            f"it is not known whether the source {strange[0]!r} can go on from offsets in another checkpoint",
            advice="leave out take_offsets, and say where the source begins by its own options",
        )
    if not position["offsets"].startswith("v1\n"):
        raise DeclarationError.before_writing(
            f"Spark wrote the offsets of {place} in another format than v1",
            advice="leave out take_offsets, and say where the sources begin by their own options",
        )


@attrs.frozen
class TakenOffsets:
    """Offsets for a new checkpoint to take over.

    Attributes:
        checkpoint: The new checkpoint.
        position: The position of the savepoint.
        typed: Further places that were typed: the log of a source is read only in a store of one of them.
    """

    checkpoint: Folder
    position: dict[str, Any]
    typed: tuple[Folder, ...] = ()

    @classmethod
    def left(cls, checkpoint: Folder, begun: Begun | None, *typed: Folder) -> TakenOffsets | None:
        """Return what a query still has to take over, also after a start that died meanwhile; None: nothing."""
        if begun is None or begun.position is None or set(source_offsets(begun.position["offsets"])) == {_NONE}:
            return None
        last = last_committed(checkpoint)
        if last is not None and (last > 0 or set(source_offsets(offsets(checkpoint, 0))) != {_NONE}):
            return None
        return cls(checkpoint, begun.position, typed)

    @property
    def is_committed(self) -> bool:
        """Whether Spark has committed the first batch."""
        return last_committed(self.checkpoint) is not None

    def plan(self, spark: SparkSession) -> None:
        """Plan the first batch, with the logs of the sources before it.

        Raises:
            SavepointNotFound, CorruptFile: A source's log is not in the checkpoint that the savepoint is of.
        """
        for place, content in self.logs(int(spark.conf.get(_INTERVAL) or 10)):
            folder, _, name = place.rpartition("/")
            self.checkpoint.folder("sources").folder(folder).create()
            self.checkpoint.folder("sources").folder(folder).write(name, content)
        if not self.checkpoint.exists("metadata"):
            self.checkpoint.write_last("metadata", json.dumps({"id": str(uuid.uuid4())}).encode())
        version, settings, *taken = self.position["offsets"].splitlines()
        conf = {name: spark.conf.get(name, was) for name, was in json.loads(settings)["conf"].items()}
        begins = {"batchWatermarkMs": 0, "batchTimestampMs": int(time.time() * 1000), "conf": conf}
        self._write([version, json.dumps(begins, separators=(",", ":")), *[_NONE] * len(taken)])

    def finish(self) -> None:
        """Write the offsets as those of the first batch, which Spark has committed."""
        before = offsets(self.checkpoint, 0).splitlines()
        self._write([*before[:2], *source_offsets(self.position["offsets"])])

    def _write(self, lines: list[str]) -> None:
        planned = self.checkpoint.folder("offsets")
        planned.create()
        planned.write_last("0", "\n".join(lines).encode())

    def _before(self) -> Folder:
        """Return the checkpoint that the offsets are of."""
        try:
            return stored_place(self.position["checkpoint"], self.checkpoint, *self.typed)
        except UntrustedPlace as error:
            raise DeclarationError.before_writing(
                error.what,
                advice="if you trust this place, pass it as allow_roots beside from_savepoint, with the options of its"
                " store; or leave out take_offsets",
            ) from error

    def logs(self, interval: int) -> Iterator[tuple[str, bytes]]:
        """Yield name and content of the files that the sources need, in the checkpoint's folder `sources`.

        Args:
            interval: The number of batches after which the file source merges its log into one file.
        """
        before = self._before().folder("sources")
        taken = zip(self.position["sources"], source_offsets(self.position["offsets"]), strict=True)
        for number, (kind, offset) in enumerate(taken):
            folder = before.folder(str(number))
            if kind.startswith(_FILES):
                if offset != _NONE:
                    for name, content in _file_log(folder, _log_offset(offset), interval):
                        yield f"{number}/{name}", content
            else:
                for name in _names(folder):
                    if _LOG_FILE.fullmatch(name):
                        yield f"{number}/{name}", folder.read(name)


def _log_offset(offset: str) -> int:
    """Return the number in the offset of a file source."""
    try:
        return int(json.loads(offset)["logOffset"])
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptFile.before_writing(f"the offset of a file source is damaged: {error}") from error


def _names(folder: Folder) -> list[str]:
    try:
        return sorted(folder.names())
    except SavepointNotFound:
        return []


def _file_log(folder: Folder, last: int, interval: int) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a file source's log up to an offset; what has been read later stays behind.

    Args:
        folder: The log. A `.compact` file has the entries of all batches before, too.
        last: The offset: the number of the last batch of the log.
        interval: After how many batches there is a `.compact` file.
    """
    names = [match for name in _names(folder) if (match := _LOG_FILE.fullmatch(name))]
    whole = max((int(name[1]) for name in names if name[2]), default=-1)
    used = [name for name in names if int(name[1]) > whole or (name[2] and int(name[1]) == whole)]
    version, found = "", dict[int, list[str]]()
    for name in used:
        try:
            version, *entries = folder.read(name[0]).decode().splitlines()
            for entry in entries:
                found.setdefault(json.loads(entry)["batchId"], []).append(entry)
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptFile(f"the log of a file source is damaged: {error}", file=f"{folder}/{name[0]}") from error
    missing = [number for number in range(last + 1) if number not in found]
    if missing:
        raise SavepointNotFound.before_writing(
            f"the log of the file source in {folder} lacks batch {missing[0]}: it is not known which files were read",
            advice="put back the checkpoint that the savepoint was taken of; or leave out take_offsets",
        )
    compact = (last + 1) // interval * interval - 1
    for number in range(max(compact, 0), last + 1):
        batches = range(compact + 1) if number == compact else (number,)
        lines = [version, *(entry for batch in batches for entry in found[batch])]
        yield f"{number}{'.compact' if number == compact else ''}", "\n".join(lines).encode()
