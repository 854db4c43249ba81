"""The commit of a savepoint: finished streams get their final names, then its lineage and `_metadata` are written.

commit = Commit(target)
handles = [commit.stream(stored) for stored in streams]      # what tasks have written, in memory or in files
commit.publish(metadata, job=…, states=counts)               # from then on there is a savepoint
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ... import __version__
from ..formats.flink.handles import InlineHandle, RelativeFileHandle
from .lineage import FileDigest, Lineage
from .publish import give_name, now, publish
from .runs import final_name
from .sink import StreamSink

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..formats.flink.handles import StreamHandle
    from ..formats.flink.metadata import SavepointMetadata
    from ..storage.files import Folder
    from .lineage import StateCount
    from .sink import StoredBytes


@attrs.frozen
class Commit:
    """Names the files of a new savepoint, collects their digests, and publishes it.

    Attributes:
        folder: The target.
        generation: The suffix of the names of files (`runs.final_name`).
        files: The digests of the named files, by name; for the lineage.
    """

    folder: Folder
    generation: str = ""
    files: dict[str, FileDigest] = attrs.field(factory=dict, init=False)

    @property
    def digests(self) -> dict[str, str]:
        """The XXH3 digests of the named files, in hexadecimal."""
        return {name: digest.xxh128 for name, digest in self.files.items()}

    def name(self, stored: StoredBytes) -> str:
        """Rename a finished file to its final name, and return that; raises as `give_name`."""
        name = final_name(stored.name, self.generation)
        if stored.attempt:
            give_name(self.folder, stored.attempt, name)
        if stored.digest is not None:
            self.files[name] = stored.digest
        return name

    def stream(self, stored: StoredBytes) -> StreamHandle:
        """Return the handle of a finished stream, after giving its file the final name; raises as `give_name`."""
        if stored.data is not None:
            return InlineHandle(stored.name, stored.data)
        return RelativeFileHandle(self.name(stored), stored.size)

    def put(self, name: str, data: bytes) -> StreamHandle:
        """Write a stream that is in memory, and return its handle; a small one is stored inside `_metadata`."""
        with StreamSink(self.folder, name) as sink:
            sink.write(data)
            return self.stream(sink.finish())

    def publish(self, metadata: SavepointMetadata, *, job: str, states: Sequence[StateCount], **facts: Any) -> Lineage:
        """Write the lineage, then `_metadata`, which makes the folder a savepoint; return the lineage.

        Args:
            metadata: The content of `_metadata`.
            job: The origin of the types, in words.
            states: The counts of all states.
            facts: Further attributes of the lineage.
        """
        lineage = Lineage(
            stateshift=__version__, created=now(), job=job, states=tuple(states), files=self.files, **facts
        )
        return publish(self.folder, metadata, lineage)
