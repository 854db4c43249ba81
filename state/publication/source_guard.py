"""The guard against writing to a source, which every writer passes after its claim and before any other change.

Places are compared by their identities (`identity`). Two names of one endpoint, or two mounts, may still be the same
place with two identities. So the claim that was just written to the target is searched in all places that the run
reads: in the folder of each source, in every folder below it, and in every folder that a handle points into.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import attrs

from ...serializers.errors import StorageFailed, TargetExists
from ..formats.flink.handles import AbsoluteFileHandle, SegmentHandle
from ..formats.flink.metadata import METADATA
from ..formats.flink.roots import holding, stored_file
from ..storage.identity import Identity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..formats.flink.metadata import SavepointMetadata
    from ..storage.files import Folder


@attrs.frozen
class Read:
    """A savepoint that a run reads, and must not write to.

    Attributes:
        folder: The folder of the savepoint.
        others: Further folders that contain its files.
    """

    folder: Folder
    others: tuple[Folder, ...] = ()

    @classmethod
    def of(cls, folder: Folder, metadata: SavepointMetadata) -> Read:
        """Return the folders of a savepoint's files.

        Args:
            folder: The folder of its `_metadata`.
            metadata: The content of `_metadata`.
        """
        uris = (stream.uri for stream in metadata.streams if isinstance(stream, AbsoluteFileHandle | SegmentHandle))
        return cls(folder, tuple(holding({stored_file(uri, folder)[0] for uri in uris}, folder)))


def refuse_by_place(target: Folder, reads: tuple[Read, ...]) -> None:
    """Refuse a target that is a source or is inside one, by the identities of the places, without writing anything.

    Raises:
        TargetExists: The target is a source, or inside a source or another savepoint, or it is, or is inside, a folder
            that has files of a source, such as `shared` of a job.
    """
    place = Identity.of(target.place)
    for read in reads:
        source = Identity.of(read.folder.place)
        if place.is_same(source):
            raise _refused(_what(target, "is", read))
        if place.is_inside(source):
            raise _refused(_what(target, "lies inside", read))
        for other in read.others:
            holder = Identity.of(other.place)
            if place.is_same(holder):
                raise _refused(_what(target, "holds files of", read))
            if place.is_inside(holder):
                raise _refused(_what(target, f"lies inside {other.place}, which holds files of", read))
    for folder in _savepoints_above(target):
        raise _refused(f"the target {target.spelled} lies inside the savepoint {folder.place}, which is never changed")


def refuse_by_claim(target: Folder, reads: tuple[Read, ...], claim: str) -> None:
    """Refuse a target whose claim is visible in a source, under whatever name.

    Args:
        target: The folder to which the claim was written.
        reads: The savepoints that the run reads.
        claim: The name of the claim's file.

    Raises:
        TargetExists: The claim is visible in a source.
    """
    for read in reads:
        if read.folder.holds(claim):
            raise _refused(_what(target, "is the same as, or inside,", read))
        if any(other.exists(claim) for other in read.others):
            raise _refused(_what(target, "holds files of", read))


def _savepoints_above(target: Folder) -> Iterator[Folder]:
    for folder in target.above():
        with suppress(StorageFailed):  # the user may have no access to parent folders on a store
            if folder.exists(METADATA):
                yield folder


def _what(target: Folder, relation: str, read: Read) -> str:
    return f"the target {target.spelled} {relation} the source {read.folder.spelled}, which is never written to"


def _refused(what: str) -> TargetExists:
    return TargetExists.before_writing(what, advice="choose a folder elsewhere")
