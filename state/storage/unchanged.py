"""Whether a savepoint is what it was when a run began to read it.

Flink removes a retained checkpoint that a newer one subsumes, and anybody may write to a folder. What a run has read
half before and half after is no state that ever was.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import attrs

from ...serializers.errors import CorruptSavepoint, SavepointNotFound, SourceChanged, StateShiftError
from ..savepoint.handles import AbsoluteFileHandle, RelativeFileHandle
from ..savepoint.metadata import METADATA
from .roots import stored_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..savepoint.metadata import SavepointMetadata
    from .files import Folder

_Version = tuple[int, int] | None


@attrs.frozen
class SourceFiles:
    """The files of a savepoint as they were when this was made.

    Attributes:
        folder: Of its `_metadata`.
        versions: Of each file, by its folder and name: size in bytes and time of the last write in nanoseconds; None
            for one that is not there.
    """

    folder: Folder
    versions: dict[tuple[Folder, str], _Version] = attrs.field(repr=False)

    @classmethod
    def of(cls, folder: Folder, metadata: SavepointMetadata) -> SourceFiles:
        """Look at all files that a savepoint's metadata names."""
        places = {(folder, METADATA)}
        for stream in metadata.streams:
            if isinstance(stream, RelativeFileHandle):
                places.add((folder, stream.path))
            elif isinstance(stream, AbsoluteFileHandle):
                places.add(stored_file(stream.uri, folder))
        return cls(folder, {(place, name): _version(place, name) for place, name in places})

    @property
    def folders(self) -> tuple[Folder, ...]:
        """Further folders that hold files."""
        return tuple({place for place, _ in self.versions} - {self.folder})

    def changed(self) -> str:
        """Name a file that is another one by now; "" where none is."""
        for (place, name), before in self.versions.items():
            if _version(place, name) != before:
                return name if place == self.folder else f"{place.place}/{name}"
        return ""

    def require_unchanged(self) -> None:
        """Make sure of it before anything is published.

        Raises:
            SourceChanged: A file is another one, or gone.
        """
        if name := self.changed():
            raise self._error(name)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Tell what is found damaged in a `with` block, or missing, from what has changed meanwhile.

        Raises:
            SourceChanged: It has changed.
        """
        try:
            yield
        except (CorruptSavepoint, SavepointNotFound) as error:
            if name := self.changed():
                raise self._error(name) from error
            raise

    def _error(self, name: str) -> SourceChanged:
        return SourceChanged(
            "the source changed while it was read",
            advice="use a savepoint that nobody writes to or removes: of a running job take one (flink savepoint)",
            savepoint=self.folder.place,
            file=name,
        )


def _version(folder: Folder, name: str) -> _Version:
    try:
        return folder.version(name)
    except SavepointNotFound:
        return None
    except StateShiftError:
        return (-1, -1)  # it cannot be looked at, now as before
