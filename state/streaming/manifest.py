"""The manifest of a slot: what an engine keeps of its state after a batch, and commits with the batch.

    i32 length, JSON        the facts: state directory, epoch, batch, slot, attempt, times, files that became obsolete
    _metadata               of a savepoint with this operator and this subtask alone: its handles name the files

The files lie in the state directory, under names that no other attempt uses. So a manifest that was not committed does
no harm, and one that was committed can be read by all that reads savepoints. Source: notes on Spark, section 2.1.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.errors import CorruptFile
from ..savepoint.handles import AbsoluteFileHandle, RelativeFileHandle
from ..savepoint.metadata import SavepointMetadata, read_metadata, write_metadata

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..savepoint.metadata import OperatorState

MANIFESTS = "manifests"
"""The folder of the files with manifests, in the state directory."""

FILES, SHARED = "files", "shared"
"""The folders of the files that manifests name: of one batch alone, and of several."""

_FORMAT = 1
_LENGTH_BYTES = 4


@attrs.frozen
class Obsolete:
    """Files that a slot does not need any more.

    Attributes:
        batch: The first batch that did without them.
        names: Their names: those below the state directory, with its folder if there is one.
    """

    batch: int
    names: tuple[str, ...]


@attrs.frozen
class Manifest:
    """The state of one slot of an operator after a batch.

    Attributes:
        directory: The id of the state directory.
        epoch: The epoch of the query in which it was written.
        batch: The number of the batch.
        slot: The number of the slot.
        attempt: The id of the attempt that wrote it; unique.
        operator: The operator as in `_metadata`, with this slot as its only subtask.
        watermark: The event time of the operator in milliseconds.
        watermarks: That of each of its inputs.
        active_ms: The time of the batch in which each input last had rows, in milliseconds.
        obsolete: The files that earlier batches needed, and this one does not.
    """

    directory: str
    epoch: int
    batch: int
    slot: int
    attempt: str
    operator: OperatorState = attrs.field(repr=False)
    watermark: int
    watermarks: tuple[int, ...]
    active_ms: tuple[int, ...]
    obsolete: tuple[Obsolete, ...] = ()

    @property
    def name(self) -> str:
        """The name of the file with this manifest, in the folder of manifests."""
        return f"{self.operator.operator_id.hex()}-{self.slot}-{self.batch}-{self.attempt}"

    def files(self) -> Iterator[str]:
        """Yield the names of the files that the state consists of, below the state directory."""
        for stream in self.operator.streams:
            if isinstance(stream, RelativeFileHandle):
                yield f"{FILES}/{stream.path}"
            elif isinstance(stream, AbsoluteFileHandle):
                yield "/".join(stream.uri.rsplit("/", 2)[1:])

    def to_bytes(self) -> bytes:
        """Return the manifest as bytes."""
        facts: dict[str, Any] = {
            "format": _FORMAT,
            "directory": self.directory,
            "epoch": self.epoch,
            "batch": self.batch,
            "slot": self.slot,
            "attempt": self.attempt,
            "watermark": self.watermark,
            "watermarks": self.watermarks,
            "active_ms": self.active_ms,
            "obsolete": [[one.batch, one.names] for one in self.obsolete],
        }
        text = json.dumps(facts, separators=(",", ":")).encode()
        metadata = write_metadata(SavepointMetadata.new((self.operator,), self.batch + 1))
        return len(text).to_bytes(_LENGTH_BYTES, "big") + text + metadata

    @classmethod
    def from_bytes(cls, data: bytes) -> Manifest:
        """Read a manifest.

        Raises:
            CorruptFile: The bytes are not a manifest, or are of a later version.
            CorruptSavepoint: Its `_metadata` is damaged.
        """
        end = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "big")
        try:
            facts = json.loads(data[_LENGTH_BYTES:end])
            version = facts["format"]
            if version != _FORMAT:
                raise CorruptFile(
                    f"the manifest of a slot has format {version}, and this release reads format {_FORMAT}",
                    advice="use the release that wrote it, or a later one",
                )
            (operator,) = read_metadata(data[end:]).operators
            return cls(
                facts["directory"],
                facts["epoch"],
                facts["batch"],
                facts["slot"],
                facts["attempt"],
                operator,
                facts["watermark"],
                tuple(facts["watermarks"]),
                tuple(facts["active_ms"]),
                tuple(Obsolete(batch, tuple(names)) for batch, names in facts["obsolete"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptFile(f"the manifest of a slot is damaged: {error}") from error
