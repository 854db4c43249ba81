"""The check that all files which a savepoint names are there, with the right size, before any of them is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....serializers.errors import CorruptSavepoint, SavepointNotFound
from ....serializers.ways_out import Option, WayOut
from ....serializers.wording import many
from ...storage.identity import each_place_once
from ...storage.stores import bare
from .handles import AbsoluteFileHandle, RelativeFileHandle, SegmentHandle
from .sources import file_of
from .unchanged import version_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...storage.files import Folder
    from .handles import StreamHandle
    from .unchanged import Version

_FIRST = 5


def require_files(
    streams: Iterable[StreamHandle], folder: Folder, version: Callable[[Folder, str], Version] = version_of
) -> None:
    """Refuse a savepoint of which files are missing or have another size: one error names them all.

    Args:
        streams: The handles of the streams to look for; those that are not in files are left out.
        folder: The folder of `_metadata`.
        version: Returns the version of a file; see `version_of`.

    Raises:
        SavepointNotFound: Files are missing.
        CorruptSavepoint: No file is missing, but some have another size.
        UntrustedPlace: A file is outside the savepoint's allowed folders.
        StorageFailed: It is not a regular file, or the store does not answer.
    """
    missing: dict[str, str] = {}
    resized: dict[str, str] = {}
    in_files = [one for one in streams if isinstance(one, RelativeFileHandle | AbsoluteFileHandle | SegmentHandle)]
    with each_place_once():
        places = [file_of(stream, folder) for stream in in_files]
    for stream, (place, name) in zip(in_files, places, strict=True):
        found, file = version(place, name), name if place == folder else f"{place.place}/{name}"
        if found is not None and found[0] < 0:
            place.size(name)  # raises why its version is not known: it is a folder, or the store does not answer
        if found is None:
            named = "" if isinstance(stream, RelativeFileHandle) else f"; _metadata names it as {bare(stream.uri)}"
            missing[file] = f"the file {name} is missing in {place.place}{named}"
        elif wanted := _wrong_size(stream, found[0]):
            resized[file] = f"the file {file} has {found[0]:,} bytes and should have {wanted}"
    if missing or resized:
        raise _error(missing, resized)


def _wrong_size(stream: RelativeFileHandle | AbsoluteFileHandle | SegmentHandle, size: int) -> str:
    """Return the size that a file should have, in words, or "" if it has that: segments may be followed by others."""
    if isinstance(stream, SegmentHandle):
        return f"at least {stream.start + stream.size:,}" if size < stream.start + stream.size else ""
    return f"{stream.size:,}" if size != stream.size else ""


def _error(missing: dict[str, str], resized: dict[str, str]) -> SavepointNotFound | CorruptSavepoint:
    """Return the error for files, given with a sentence on each: a single one is the error, of many the first are."""
    problems = missing | resized
    kind = SavepointNotFound if missing else CorruptSavepoint
    advice: tuple[WayOut | str, ...] = ("bring the files there whole (a copy or a download may be incomplete)",)
    if any("_metadata names it as" in problem for problem in missing.values()):
        advice += (WayOut.telling("if they lie elsewhere, say where:", Option.CHECKPOINT_ROOT, "OLD", "NEW"),)
    if len(problems) == 1:
        ((file, problem),) = problems.items()
        return kind(problem, advice=advice, file=file)
    counts = [many(len(missing), "file is missing", "files are missing")] if missing else []
    counts += [many(len(resized), "file has another size", "files have another size")] if resized else []
    details = [f"  {problem}" for problem in problems.values()]
    left = [f"  … and {len(details) - _FIRST:,} more"] if len(details) > _FIRST else []
    return kind(" and ".join(counts), details=[*details[:_FIRST], *left], advice=advice)
