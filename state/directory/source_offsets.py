"""The offset of a source of a streaming query: JSON, in the engine's log of batches.

It has the source's state after a batch, and names the file with the rows of the batch.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.json_files import parse_json
from ...compat.plain_data import structured
from ...serializers.errors import CorruptFile
from ..formats.spark.commit_log import offsets, source_offsets
from .manifest import FILES, Manifest

if TYPE_CHECKING:
    from ..storage.files import Folder


@attrs.frozen
class SourceOffset:
    """How far a source is read.

    Attributes:
        uid: The uid of the source.
        number: How many batches had rows of it so far.
        rows: How many rows these were.
        file: The name of the file with the rows of the last one, in the folder of files; "": there is none.
        manifest: The source's state; None: it has not begun.
    """

    uid: str
    number: int = 0
    rows: int = 0
    file: str = ""
    manifest: Manifest | None = None

    @property
    def attempt(self) -> str:
        """The id of the attempt that wrote it; "": none did."""
        return "" if self.manifest is None else self.manifest.attempt

    def files(self) -> list[str]:
        """Return the names of the files that it needs, below the state directory."""
        return [*([f"{FILES}/{self.file}"] if self.file else []), *(self.manifest.files() if self.manifest else ())]

    def to_json(self) -> dict[str, Any]:
        """Return the offset as the engine keeps it."""
        manifest = b"" if self.manifest is None else self.manifest.to_bytes()
        facts = attrs.asdict(self, recurse=False) | {"manifest": base64.b64encode(manifest).decode()}
        return {"source": facts.pop("uid"), **facts}

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> SourceOffset:
        """Read an offset.

        Raises:
            CorruptFile: It is damaged.
        """
        said: _Facts = structured(_Facts, facts, "the offset of a source")
        try:
            manifest = base64.b64decode(said.manifest, validate=True)
        except ValueError as error:
            raise CorruptFile(f"the offset of a source is damaged: {error}") from error
        return cls(said.source, said.number, said.rows, said.file, Manifest.from_bytes(manifest) if manifest else None)


@attrs.frozen
class _Facts:
    """An offset as the engine keeps it."""

    source: str
    number: int
    rows: int
    file: str
    manifest: str


def planned_offsets(checkpoint: Folder, batch: int) -> list[SourceOffset]:
    """Return the offsets that a planned batch has for source functions.

    Raises:
        SavepointNotFound: The batch is not planned, or too old.
        CorruptFile: An offset is damaged.
    """
    found = []
    for line in source_offsets(offsets(checkpoint, batch)):
        try:
            facts = parse_json(line)
        except CorruptFile:  # a source of Spark may write anything
            continue
        if isinstance(facts, dict) and facts.keys() >= {"source", "manifest"}:
            found.append(SourceOffset.from_json(facts))
    return found
