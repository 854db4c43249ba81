"""Detection of changes to a savepoint while a run reads it.

Flink removes a retained checkpoint that a newer one subsumes, and others may write to the folder. If a run reads one
part before and another part after a change, the result is a state that never existed.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import attrs

from ....serializers.errors import CorruptSavepoint, SavepointNotFound, SourceChanged, StateShiftError
from .handles import AbsoluteFileHandle, RelativeFileHandle, SegmentHandle
from .metadata import METADATA
from .roots import holding, stored_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...storage.files import Folder
    from .metadata import SavepointMetadata

Version = tuple[int, int] | None
"""The size of a file in bytes and the time of its last write, in nanoseconds since 1970; None if it is missing."""


@attrs.frozen
class SourceFiles:
    """The versions of a savepoint's files when this object was created.

    Attributes:
        folder: The folder of its `_metadata`.
        versions: The version of each file by its folder and name: size in bytes and time of the last write in
            nanoseconds; None for a missing file.
    """

    folder: Folder
    versions: dict[tuple[Folder, str], Version] = attrs.field(repr=False)

    @classmethod
    def of(cls, folder: Folder, metadata: SavepointMetadata) -> SourceFiles:
        """Return the current versions of all files that a savepoint's metadata names."""
        places = {(folder, METADATA)}
        for stream in metadata.streams:
            if isinstance(stream, RelativeFileHandle):
                places.add((folder, stream.path))
            elif isinstance(stream, AbsoluteFileHandle | SegmentHandle):
                places.add(stored_file(stream.uri, folder))
        return cls(folder, {(place, name): version_of(place, name) for place, name in places})

    @property
    def folders(self) -> tuple[Folder, ...]:
        """Further folders that contain files of the savepoint."""
        return tuple(holding({place for place, _ in self.versions}, self.folder) - {self.folder})

    def version_of(self, place: Folder, name: str) -> Version:
        """Return the version of a file when this object was created, or the present one of a file that it lacks."""
        known = (place, name) in self.versions
        return self.versions[place, name] if known else version_of(place, name)

    def changed(self) -> str:
        """Return the name of a file that has changed since; "" where none has."""
        for (place, name), before in self.versions.items():
            if version_of(place, name) != before:
                return name if place == self.folder else f"{place.place}/{name}"
        return ""

    def require_unchanged(self) -> None:
        """Check that no file has changed, before anything is published.

        Raises:
            SourceChanged: A file has changed, or is missing.
        """
        if name := self.changed():
            raise self._error(name)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Convert errors on damaged or missing files in a `with` block, if a file has changed in the meantime.

        Raises:
            SourceChanged: A file has changed.
        """
        try:
            yield
        except (CorruptSavepoint, SavepointNotFound) as error:
            if name := self.changed():
                raise self._error(name) from error
            raise

    def _error(self, name: str) -> SourceChanged:
        return SourceChanged(
            "the source changed while it was being read",
            advice="use a savepoint that is not written to or removed: for a running job, take one (flink savepoint)",
            savepoint=self.folder.place,
            file=name,
        )


def version_of(folder: Folder, name: str) -> Version:
    """Return the version of a file: its size in bytes, and the time of its last write; None if it is missing.

    If the version cannot be read, both are -1.
    """
    try:
        return folder.version(name)
    except SavepointNotFound:
        return None
    except StateShiftError:
        return (-1, -1)  # the same value each time, as long as its version cannot be read
