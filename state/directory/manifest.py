"""The manifest of a slot: what an engine keeps of its state after a batch, and commits with the batch.

    i32 length, JSON        the facts: state directory, epoch, run, batch, slot, attempt, the manifest before, times,
                            files that became obsolete; last a seal: the SHA-256 of what stands before it in the JSON,
                            and of what follows
    _metadata               of a savepoint with this operator and this subtask alone: its handles name the files

The files lie in the state directory, under names that no other attempt uses. So a manifest that was not committed does
no harm, and one that was committed can be read by all that reads savepoints. Source: notes on Spark, section 2.1.
"""

from __future__ import annotations

import hashlib
import json
import re
from itertools import starmap
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.json_files import SEAL, parse_checked
from ...compat.plain_data import structured
from ...serializers.errors import CorruptFile, shown
from ..formats.flink.handles import AbsoluteFileHandle, InlineHandle, RelativeFileHandle
from ..formats.flink.metadata import SavepointMetadata, read_metadata, write_metadata

if TYPE_CHECKING:
    from ..formats.flink.metadata import OperatorState

MANIFESTS = "manifests"
EPOCHS, RUNS, BASES = "epochs", "runs", "bases"
"""The folder of the files with manifests, in the state directory."""

FILES, SHARED = "files", "shared"
"""The folders of the files that manifests name: of one batch alone, and of several."""

_FORMAT = 1
_LENGTH_BYTES = 4
_NAME = re.compile(r"([0-9a-f]{32})-(\d+)-(\d+)-(\d+)-([0-9a-f]{32})")


@attrs.frozen(order=True)
class ManifestName:
    """The name of the file of a manifest; it says what is needed to choose among manifests without reading them.

    Attributes:
        operator_id: The operator's id in 32 hexadecimal digits.
        slot: The number of the slot.
        batch: The number of the batch.
        run: The number of the start of the query.
        attempt: The id of the attempt that wrote it; unique.
    """

    operator_id: str
    slot: int
    batch: int
    run: int
    attempt: str

    @classmethod
    def parse(cls, name: str) -> ManifestName | None:
        """Return the parts of a name; None: it is not the name of a manifest."""
        found = _NAME.fullmatch(name)
        return None if found is None else cls(found[1], int(found[2]), int(found[3]), int(found[4]), found[5])

    @property
    def place(self) -> tuple[str, int]:
        """The operator's id, and the slot."""
        return self.operator_id, self.slot

    def __str__(self) -> str:
        return f"{self.operator_id}-{self.slot}-{self.batch}-{self.run}-{self.attempt}"


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
class _Checkpoint:
    """What a manifest and its JSON have alike."""

    directory: str
    epoch: int
    run: int
    batch: int
    slot: int
    attempt: str
    parent: str
    watermark: int
    watermarks: tuple[int, ...]
    active_ms: tuple[int, ...]


@attrs.frozen
class Manifest(_Checkpoint):
    """The state of one slot of an operator after a batch.

    Attributes:
        directory: The id of the state directory.
        epoch: The epoch of the query in which it was written.
        run: The number of the start of the query.
        batch: The number of the batch.
        slot: The number of the slot.
        attempt: The id of the attempt that wrote it; unique.
        parent: The attempt of the committed manifest that it goes on from; "": it began the epoch.
        watermark: The event time of the operator in milliseconds.
        watermarks: That of each of its inputs.
        active_ms: The time of the batch in which each input last had rows, in milliseconds.
        operator: The operator as in `_metadata`, with this slot as its only subtask.
        obsolete: The files that earlier batches needed, and this one does not.
        wake_ms: When the slot next has something to do without rows, in milliseconds; None: nothing.
        digests: The XXH3 digests of 128 bits of its files in the folder of files, in hexadecimal, by name. Files of
            RocksDB's data have checksums of their own.
    """

    operator: OperatorState = attrs.field(repr=False)
    obsolete: tuple[Obsolete, ...] = ()
    wake_ms: int | None = None
    digests: dict[str, str] = attrs.field(factory=dict, repr=False)

    @property
    def name(self) -> str:
        """The name of the file with this manifest, in the folder of manifests."""
        return str(ManifestName(self.operator.operator_id.hex(), self.slot, self.batch, self.run, self.attempt))

    def files(self) -> dict[str, int]:
        """Return the sizes in bytes of the files that the state consists of, by their names below the directory."""
        found = {}
        for stream in self.operator.streams:
            if isinstance(stream, RelativeFileHandle):
                found[f"{FILES}/{stream.path}"] = stream.size
            elif isinstance(stream, AbsoluteFileHandle):
                found["/".join(stream.uri.rsplit("/", 2)[1:])] = stream.size
        return found

    @property
    def inline_bytes(self) -> int:
        """The size of the state that is in the manifest itself: little state needs no file."""
        return sum(stream.size for stream in self.operator.streams if isinstance(stream, InlineHandle))

    def to_bytes(self) -> bytes:
        """Return the manifest as bytes."""
        facts: dict[str, Any] = {"format": _FORMAT} | attrs.asdict(self, recurse=False)
        facts |= {"obsolete": [attrs.astuple(one) for one in facts.pop("obsolete")]}
        del facts["operator"]
        metadata = write_metadata(SavepointMetadata.new((self.operator,), self.batch + 1))
        text = _text(facts)
        text = _text({**facts, SEAL: _seal(text, metadata)})
        return len(text).to_bytes(_LENGTH_BYTES, "big") + text + metadata

    @classmethod
    def from_bytes(cls, data: bytes) -> Manifest:
        """Read a manifest.

        Raises:
            CorruptFile: The bytes are not a manifest, or are of a later version.
            CorruptSavepoint: Its `_metadata` is damaged.
        """
        end = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "big")
        said, metadata = parse_checked(data[_LENGTH_BYTES:end]), data[end:]
        if isinstance(said, dict) and said.get("format", _FORMAT) != _FORMAT:
            raise CorruptFile(
                f"the manifest of a slot has format {shown(said['format'])}, and this release reads format {_FORMAT}",
                advice="use the release that wrote it, or a later one",
            )
        facts: _Facts = structured(_Facts, said, "the manifest of a slot")
        if facts.seal and facts.seal != _seal(_text({name: said[name] for name in said if name != SEAL}), metadata):
            raise CorruptFile("the manifest of a slot does not match its seal: it was damaged or altered")
        operators = read_metadata(metadata).operators
        if len(operators) != 1:
            raise CorruptFile(f"the manifest of a slot has {len(operators)} operators, but should have one")
        found = attrs.asdict(facts, filter=lambda field, _: field.name not in {"format", SEAL}, recurse=False)
        found |= {"operator": operators[0], "obsolete": tuple(starmap(Obsolete, facts.obsolete))}
        return cls(**found)


@attrs.frozen(kw_only=True)
class _Facts(_Checkpoint):
    """The JSON of a manifest, as it is stored."""

    format: int
    obsolete: tuple[tuple[int, tuple[str, ...]], ...]
    wake_ms: int | None
    digests: dict[str, str] = attrs.field(factory=dict)
    seal: str = ""


def _text(facts: dict[str, Any]) -> bytes:
    return json.dumps(facts, separators=(",", ":")).encode()


def _seal(text: bytes, metadata: bytes) -> str:
    return hashlib.sha256(text + metadata).hexdigest()
