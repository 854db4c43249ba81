"""The files of runs in a target: each run lists the files that it may write, and only listed files are removed.

    _run-<run>         JSON: {"names": ["<operator>-keyed-*", …]}; the first file of a run, after its claim
    _late-<run>        the same for a run that was taken over and may still write
    _replaced-<run>    JSON: {"metadata": digest, "names": […]}; the files to remove once `_metadata` has this digest

`*` stands for the number of a subtask, and of a file of a database for that of the file, too. A listed name may be
followed by `.done` (`journal`) or `.attempt-…` (`Folder.attempt_name`).
"""

from __future__ import annotations

import json
import re
import shlex
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.json_files import parse_json
from ...serializers.errors import StateShiftError, TargetExists
from ...serializers.wording import many
from ..formats.flink.handles import AbsoluteFileHandle, RelativeFileHandle
from ..formats.flink.metadata import METADATA, read_metadata
from ..formats.flink.roots import uri_of
from .lineage import LINEAGE, NEXT_LINEAGE, FileDigest, Lineage, read_lineage
from .stored_serializers import SERIALIZERS
from .target_lock import CLAIM_NAME

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from ..storage.files import Folder
    from .target_lock import Claim

_DATABASE = ("keyed-table", "keyed-manifest", "keyed-options")
_QUARANTINES = ("quarantine-keyed", "quarantine-operator")
_PARTS = ("keyed", *_DATABASE, "operator", "raw-keyed", "raw-operator", *_QUARANTINES, "rows")
_LIST = re.compile(r"_(run|late|replaced)-[0-9a-f]{12}")
_OWN = re.compile(r"_(run|late|replaced|claim)-[0-9a-f]{12}(\.attempt-[0-9a-f-]+)?")
_AFTER = re.compile(r"(\.done)?(\.attempt-[0-9a-f-]+)?\Z")
_SUBTASK = re.compile(r"\A([0-9a-f]{32}-[a-z-]+-)[0-9]+(?:-[0-9]{6,11})?(?=\Z|-[0-9a-f]{12}\Z)")
_PART = re.compile(
    r"\A([0-9a-f]{32}-keyed)-(?:table|manifest|options|current)(-[0-9]+)(?:-[0-9]{6,11})?(?=\Z|-[0-9a-f]{12}\Z)"
)
_LISTED = re.compile(r"[0-9a-f]{32}-[a-z-]+-\*(-[0-9a-f]{12})?|_[a-z]+(-[0-9a-f]{12})?\.json|_metadata")
_EARLIER = re.compile(
    r"([0-9a-f]{32}-[a-z-]+-[0-9]+|_stateshift\.json|_serializers\.json|_metadata)(\.done)?(\.attempt-[0-9a-f]+)?"
)
_MOST_BYTES = 16 << 20
GENERATION_DIGITS = 12


def names_of(operator_ids: Iterable[str], generation: str = "") -> tuple[str, ...]:
    """Return the names of the files that a run may write.

    Args:
        operator_ids: The ids of all operators of the new savepoint, 32 hexadecimal digits each.
        generation: The suffix of the final names of files; "" for names without a suffix.
    """
    streams = [f"{operator_id}-{part}-*" for operator_id in operator_ids for part in _PARTS]
    finals = [f"{name}-{generation}" for name in streams] if generation else []
    return (*streams, *finals, SERIALIZERS, serializers_name(generation), LINEAGE, METADATA)


def free_generation(generation: str, taken: Collection[str]) -> str:
    """Return a generation that none of the `taken` names contains: the given one, or one derived from it.

    The names may be taken by a savepoint that is replaced and came from the same source and plan.
    """
    while any(generation in name for name in taken):
        generation = sha256(generation.encode()).hexdigest()[:GENERATION_DIGITS]
    return generation


def final_name(name: str, generation: str) -> str:
    """Return the name of a stream's file in the savepoint: its name with the generation, if there is one."""
    return f"{name}-{generation}" if generation else name


def stream_of(name: str) -> str:
    """Return the name of the stream of a task, of whose database a file is; the name itself of any other file."""
    return _PART.sub(r"\1\2", name)


def serializers_name(generation: str) -> str:
    """Return the name of the file of stored serializers."""
    return SERIALIZERS.replace(".json", f"-{generation}.json") if generation else SERIALIZERS


def announce(claim: Claim, names: Collection[str]) -> Claim:
    """Write the list of a run, before any of its other files; return the claim with the list."""
    own_lineage = f"_stateshift-{claim.folder.run}.json"
    claim.folder.write(claim.list_name, json.dumps({"names": sorted({*names, own_lineage})}).encode())
    claim.folder.sync()
    return attrs.evolve(claim, has_list=True)


@attrs.frozen
class Contents:
    """The contents of a target.

    Attributes:
        names: The names of all files and folders.
        savepoint: The names of the files of the savepoint; none without `_metadata`.
        listed: The names in the lists of runs, except files of the savepoint.
        lists: The names of these lists, and of claims.
    """

    names: tuple[str, ...]
    savepoint: frozenset[str]
    listed: tuple[str, ...]
    lists: tuple[str, ...]

    @classmethod
    def of(cls, folder: Folder) -> Contents:
        """Return the contents of a folder, by the lists in it.

        Raises:
            CorruptSavepoint: There is a `_metadata`, but it cannot be read.
        """
        names = folder.names() if folder.exists() else ()
        savepoint = files_there(folder) if METADATA in names else frozenset()
        covered = frozenset(_listed_names(folder, names))
        lists = tuple(filter(_OWN.fullmatch, names))
        listed = tuple(name for name in names if name not in savepoint and _is_covered(name, covered))
        return cls(names, savepoint, listed, lists)

    def refuse_earlier(self, folder: Folder) -> None:
        """Refuse a target in which an earlier release has left files beside a savepoint.

        Raises:
            TargetExists: There are such files; the message has the command that removes them.
        """
        earlier = [name for name in self.foreign if (found := _EARLIER.fullmatch(name)) and (found[2] or found[3])]
        if earlier:
            raise self._left_earlier(folder, earlier)

    @staticmethod
    def _left_earlier(folder: Folder, names: list[str]) -> TargetExists:
        return TargetExists.before_writing(
            f"{folder.place} holds {many(len(names), 'file')} that an earlier release of stateshift left, such as "
            f"{names[0]!r}; they are not in the list of a run, so they are not removed",
            advice=f"if no run is in progress there, remove them: {_removal(folder, names)}",
        )

    @property
    def foreign(self) -> tuple[str, ...]:
        """The names of files that belong neither to a run nor to the savepoint."""
        known = {*self.savepoint, *self.listed, *self.lists}
        return tuple(name for name in self.names if name not in known)

    def refuse_foreign(self, folder: Folder, *, advice: str = "choose a new folder") -> None:
        """Refuse a target with foreign files; `advice` is what to do about them.

        Raises:
            TargetExists: There are foreign files; if all are an earlier release's, the message has the command that
                removes them.
        """
        if not self.foreign:
            return
        earlier = [name for name in self.foreign if _EARLIER.fullmatch(name)]
        if len(earlier) == len(self.foreign):
            raise self._left_earlier(folder, earlier)
        other = next(name for name in self.foreign if name not in earlier)
        raise TargetExists.before_writing(f"{folder.place} is not empty: it contains {other!r}", advice=advice)


def savepoint_files(folder: Folder) -> Iterator[str]:
    """Yield the names of the files of the existing savepoint in a folder, including `_metadata` and the lineage."""
    data = folder.read(METADATA)
    yield from (METADATA, LINEAGE)
    start = f"{uri_of(folder)}/"
    for stream in read_metadata(data).streams:
        if isinstance(stream, RelativeFileHandle):
            yield stream.path
        elif isinstance(stream, AbsoluteFileHandle) and stream.uri.startswith(start):
            yield stream.uri.removeprefix(start)
    lineage = read_lineage(folder, data)
    if lineage is not None:
        yield from lineage.files


def is_name_of_run(name: str) -> bool:
    """Whether a run may have given this name to a file beside `_metadata`, or to an attempt of it."""
    return _EARLIER.fullmatch(name) is not None


def files_there(folder: Folder) -> frozenset[str]:
    """Return the names of the files of the savepoint in a folder; none where there is no savepoint."""
    return frozenset(savepoint_files(folder) if folder.exists(METADATA) else ())


def _listed_names(folder: Folder, names: Collection[str]) -> Iterator[str]:
    """Yield the names in the lists. The lists are untrusted, so only names that a run can write are accepted."""
    digest = FileDigest.of(folder.read(METADATA)).xxh128 if METADATA in names else ""
    for name in names:
        if found := _LIST.fullmatch(name):
            facts = _read(folder, name)
            listed = facts.get("names")
            is_replaced = found[1] == "replaced"
            if not isinstance(listed, list) or (is_replaced and facts.get("metadata") != digest):
                continue
            yield from (text for text in listed if isinstance(text, str) and (is_replaced or _LISTED.fullmatch(text)))


def _is_covered(name: str, listed: frozenset[str]) -> bool:
    base = _AFTER.sub("", name)
    return base in listed or _SUBTASK.sub(r"\1*", base) in listed


def _read(folder: Folder, name: str) -> dict[str, Any]:
    """Read a list; return an empty dict where it is damaged."""
    with suppress(StateShiftError):
        with folder.open_range(name) as file:
            facts = parse_json(file.read_at(0, min(file.size, _MOST_BYTES)))
        return facts if isinstance(facts, dict) else {}
    return {}


def _removal(folder: Folder, names: Iterable[str]) -> str:
    if folder.is_local:
        return f"cd {shlex.quote(folder.place)} && rm -- {shlex.join(names)}"
    base = folder.place.partition("?")[0]
    return " && ".join(f"aws s3 rm {shlex.quote(f'{base}/{name}')}" for name in names)


def clear(claim: Claim) -> tuple[str, ...]:
    """Remove the files of dead runs and their lists; return the names. Files of the savepoint stay.

    If a run died after its `_metadata` replaced another one, the files of the replaced savepoint are removed.
    """
    folder = claim.folder
    complete_replacement(folder)
    found = Contents.of(folder)
    lists = [name for name in found.lists if _is_settled(name, claim)]
    for name in (*found.listed, *lists):
        folder.delete(name)
    return (*found.listed, *lists)


def _is_settled(name: str, claim: Claim) -> bool:
    """Whether a list is not needed any more: it is not this run's, nor that of a run that may still write."""
    may_write = {run for run, is_gone in claim.taken if not is_gone}
    return claim.folder.run not in name and not any(run in name for run in may_write) and not CLAIM_NAME.fullmatch(name)


def has_finished(folder: Folder) -> bool:
    """Whether an unfinished run has left a complete file, from which it can be resumed."""
    with suppress(StateShiftError):
        return any(_OWN.match(name) is None and ".attempt-" not in name for name in folder.names())
    return False


def has_claim_or_list(names: Iterable[str]) -> bool:
    """Whether a claim or a list of a run is among these names: a run removes them last."""
    return any(map(_OWN.fullmatch, names))


def clear_unfinished(claim: Claim, keep: Collection[str]) -> None:
    """Remove the files of dead runs, except the files that a run continues with."""
    for name in Contents.of(claim.folder).listed:
        if name not in keep:
            claim.folder.delete(name)


def clear_late(claim: Claim) -> None:
    """Remove the files that a run has written after it was taken over: its attempts that no other run uses."""
    folder = claim.folder
    names = folder.names()
    taken = b"".join(folder.read(name) for name in names if name.endswith(".done")).decode(errors="replace")
    for name in names:
        if f".attempt-{folder.run}-" in name and name not in taken:
            folder.delete(name)
    for name in (claim.name, f"_late-{folder.run}"):
        folder.delete(name)


def write_replaced(folder: Folder, metadata: bytes, names: Iterable[str]) -> None:
    """Write the list of the files to remove once `_metadata` has the content `metadata`."""
    facts = {"metadata": FileDigest.of(metadata).xxh128, "names": sorted(names)}
    folder.write(f"_replaced-{folder.run}", json.dumps(facts).encode())


def complete_replacement(folder: Folder) -> None:
    """Finish the replacement of a savepoint: rename the new lineage, and remove the old files.

    If the run died before its `_metadata` was written, only its list is removed, and the old savepoint stays.
    """
    names = folder.names()
    notes = [name for name in names if (found := _LIST.fullmatch(name)) and found[1] == "replaced"]
    nexts = [name for name in names if NEXT_LINEAGE.fullmatch(name)]
    if METADATA not in names or not (notes or nexts):
        return
    data = folder.read(METADATA)
    digest = FileDigest.of(data)
    for name in nexts:
        if Lineage.from_json(folder.read(name)).is_of(data):
            folder.rename(name, LINEAGE)
            folder.sync()
    kept = set(savepoint_files(folder))
    for note in notes:
        facts = _read(folder, note)
        if facts.get("metadata") == digest.xxh128:
            for old in facts.get("names", ()):
                if isinstance(old, str) and old not in kept and old in names:
                    folder.delete(old)
        folder.delete(note)
