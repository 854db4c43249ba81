"""What the files of a savepoint say of it: `_metadata` and the lineage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ..formats.flink.metadata import METADATA, SavepointMetadata, read_metadata
from ..formats.flink.roots import require_reachable, with_moved
from .lineage import FileDigest, Lineage, read_lineage

if TYPE_CHECKING:
    from ..storage.files import Folder


@attrs.frozen(slots=False)
class StoredSavepoint:
    """A savepoint as its files describe it. `state.savepoint.reader.Savepoint` also reads the state itself.

    Attributes:
        folder: The folder of the savepoint.
        metadata: The content of `_metadata`.
        lineage: The content of `_stateshift.json`; None where that file does not exist.
        metadata_digest: The digest of the bytes that `metadata` was read from; None where it was not read from a file.
    """

    folder: Folder
    metadata: SavepointMetadata = attrs.field(repr=False)
    lineage: Lineage | None = attrs.field(default=None, repr=False)
    metadata_digest: FileDigest | None = attrs.field(default=None, repr=False)


def read_stored_savepoint(folder: Folder) -> StoredSavepoint:
    """Read `_metadata` and the lineage.

    Args:
        folder: The folder of the savepoint, with the roots that the caller allows.

    Raises:
        SavepointNotFound: There is no `_metadata`.
        CorruptSavepoint: `_metadata` is damaged.
        UntrustedPlace: Files of the savepoint are elsewhere; the message has all roots that are needed.
        UnsupportedFormat: It is of a kind that this release does not read.
    """
    data = folder.read(METADATA)
    metadata = read_metadata(data)
    folder = with_moved(metadata, folder)
    require_reachable(metadata, folder)
    return StoredSavepoint(folder, metadata, read_lineage(folder, data), FileDigest.of(data))
