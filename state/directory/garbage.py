"""`gc`: deletes the files of a state directory that nothing needs.

Needed is what the state after each batch is made of that the engine may go back to, or that is held: the newest
manifests up to the first of these batches and all later ones, the files that they name, and the savepoint that an epoch
in use began with. A manifest that a repeated batch or another attempt has replaced is not needed. Only files whose
names are given by this package, and that are old enough, are deleted: a batch may be writing now.
Source: notes on Spark, 2.1, rule 5.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import attrs

from ...compat.description import operator_id_of
from ...serializers.errors import SavepointNotFound
from ..formats.flink.handles import AbsoluteFileHandle
from ..formats.flink.metadata import METADATA, read_metadata
from ..formats.spark.commit_log import last_planned
from ..publication.target_lock import CLAIM_NAME
from .committed_state import AttemptsUndecided, Written, committed_batch, committed_manifests, engine_manifests
from .directory import STREAM_FILE
from .holds import HOLDS, dead_holds, oldest_held
from .manifest import BASES, EPOCHS, FILES, MANIFESTS, RUNS, SHARED, ManifestName
from .source_offsets import planned_offsets

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..storage.files import Folder
    from .directory import Epoch, StateDirectory
    from .manifest import Manifest
    from .source_offsets import SourceOffset

_KNOWN = {
    FILES: r"[0-9a-f]{32}-[a-z-]+-\d+(-[0-9a-f]{32}|(?=\.attempt-))",  # the digest comes with the last byte
    SHARED: r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    MANIFESTS: r"[0-9a-f]{32}-\d+-\d+-\d+-[0-9a-f]{32}",
    RUNS: r"[\w-]+\.json",
    HOLDS: r"[0-9a-f]{32}\.json",
}
"""The names that this package has for files, by folder; those in `_BASE` are all alike."""
_IN_BASE = r"([0-9a-f]{32}-[a-z-]+-\d+(-[0-9a-f]{12})?|_serializers(-[0-9a-f]{12})?\.json|_stateshift\.json|_metadata)"
_UNFINISHED = r"(\.done)?(\.attempt-[0-9a-f-]+)?"
_BASE = re.compile(BASES + r"/(\d+)(-was|-left)?")
_HOUR_S = 3600


@attrs.frozen
class Garbage:
    """A file that nothing needs.

    Attributes:
        name: Its name, with its folder in the state directory.
        size: Its size in bytes.
    """

    name: str
    size: int


@attrs.frozen
class Collected:
    """What `gc` has deleted, or would.

    Attributes:
        deleted: The files.
        oldest: The first batch whose state is kept.
        young: How many files nothing needs are too new to be deleted.
        unknown: The names of files that are not of this package; they are left alone.
        unproven: Why what is needed was not compared with what the engine has committed; "": it was.
    """

    deleted: tuple[Garbage, ...]
    oldest: int
    young: int
    unknown: tuple[str, ...]
    unproven: str = ""

    @property
    def size_bytes(self) -> int:
        """The bytes of the files that were deleted."""
        return sum(one.size for one in self.deleted)


def collect(directory: StateDirectory, *, older_than_h: float, dry_run: bool = False) -> Collected:
    """Delete the files of a state directory that nothing needs; the query may run meanwhile.

    Args:
        directory: The state directory.
        older_than_h: Files that were written within so many hours stay.
        dry_run: Whether nothing is deleted.

    Raises:
        SavepointNotFound: The query's checkpoint is not there, or has no committed batch.
        UntrustedPlace: The query's checkpoint is in another store.
        CorruptFile, CorruptSavepoint: A file that says what is needed is missing or damaged; nothing was deleted.
    """
    needs = Needs(directory)
    unneeded, unknown = _divided(directory.folder, needs)
    before_s = time.time() - older_than_h * _HOUR_S
    deleted, young = [], 0
    for name in unneeded:
        folder, file = _placed(directory.folder, name)
        with suppress(SavepointNotFound):  # the query has deleted it in the meantime
            size, written_ns = folder.version(file)
            if written_ns / 1e9 > before_s:
                young += 1
            else:
                deleted.append(Garbage(name, size))
    if not dry_run:
        if needs.without_base is not None and deleted:
            # It is never looked for again.
            directory.begin_epoch(attrs.evolve(needs.without_base, base="", base_sha256=""))
        for one in deleted:
            folder, file = _placed(directory.folder, one.name)
            folder.delete(file)
        for name in sorted({one.name.rpartition("/")[0] for one in deleted}):
            if _BASE.fullmatch(name):
                directory.folder.folder(name).delete_empty()
    return Collected(tuple(deleted), needs.oldest, young, tuple(unknown), needs.unproven)


class Needs:
    """What is needed by the batches to which the engine may go back.

    Args:
        directory: The state directory.

    Attributes:
        oldest: The first of these batches.
        manifests: The names of the files of manifests.
        files: The names of the files that these name, and of those in the savepoints of epochs.
        tokens: The names of the starts of the query.
        bases: The numbers of the epochs whose savepoints are needed.
        without_base: The epoch in use that does not need its savepoint any more; None: there is none.
        unproven: Why this was not compared with what the engine has committed; "": it was.
    """

    def __init__(self, directory: StateDirectory) -> None:
        self._directory = directory
        self._dead = set(dead_holds(directory.folder))
        last = committed_batch(directory)
        try:  # where something is missing, what it names is not taken for garbage
            self.unproven = committed_manifests(directory, last).unproven
        except AttemptsUndecided as error:  # all attempts are kept then
            self.unproven = error.what
        self._written = Written.in_directory(directory)
        runs = self._written.runs
        retained = runs[-1].retained if runs else 0
        held = oldest_held(directory.folder)
        self.oldest = max(min(last - retained, last if held is None else held), 0)
        kept = self._kept(last)
        told = list(self._told_of_oldest())
        self.manifests = {str(name) for name in kept} | {one.name for one in told}
        first_run = min((name.run for name in kept), default=runs[-1].number if runs else 0)
        self.tokens = {token for token, run in directory.runs().items() if run.number >= first_run}
        self._sources = list(self._offsets())
        epochs = {self._written.epochs[name.run] for name in kept} | {run.epoch for run in runs[-1:]}
        if directory.last_epoch is not None:
            epochs.add(directory.last_epoch.number)
        unchanged = directory.unchanged_epoch
        if unchanged is not None and not self._written.newest(self.oldest)[0]:
            epochs.add(unchanged.number)
        self.without_base = self._without_base()
        self.bases = epochs - ({self.without_base.number} if self.without_base is not None else set())
        self._last_epoch = max(epochs, default=0)
        self.files = {name for one in (*map(self._written.read, kept), *told) for name in one.files()}
        self.files |= {name for offset in self._sources for name in offset.files()}
        for number in sorted(self.bases):
            for name in (f"{number}-was", f"{number}-left", str(number)):
                self.files |= set(_named_by(directory.base(name)))

    def _told_of_oldest(self) -> Iterator[Manifest]:
        """Yield what the engine has as the state after the oldest batch, if it still has it."""
        told = engine_manifests(self._directory, self.oldest)
        yield from () if isinstance(told, str) else (one for one, _ in told if one.directory == self._directory.id)

    def _offsets(self) -> Iterator[SourceOffset]:
        """Yield the offsets of sources in all batches that are needed, planned ones among them; the oldest first."""
        checkpoint = self._directory.checkpoint_folder
        for batch in range(self.oldest, 1 + (last_planned(checkpoint) or 0)):
            with suppress(SavepointNotFound):
                yield from planned_offsets(checkpoint, batch)

    def has(self, place: str, name: str) -> bool:
        """Whether a file with a known name is needed, in a folder of the state directory."""
        if base := _BASE.fullmatch(place):
            number = int(base[1])
            return number in self.bases or number > self._last_epoch or f"{place}/{name}" in self.files
        if place == MANIFESTS:
            return name in self.manifests
        if place == RUNS:
            return name.removesuffix(".json") in self.tokens
        if place == HOLDS:
            return name not in self._dead
        return f"{place}/{name}" in self.files

    def _kept(self, last: int) -> list[ManifestName]:
        """Return the manifests that are needed."""
        written = self._written
        _, first = written.newest(self.oldest)
        kept = [name for same in first.values() for name in written.decided(same)]
        together: dict[tuple[str, int, int], list[ManifestName]] = {}
        for name in written.by_last_run(last):
            if name.batch > self.oldest:
                together.setdefault((*name.place, name.batch), []).append(name)
        kept += [name for same in together.values() for name in written.decided(same)]
        newest_run = written.runs[-1].number if written.runs else 0
        return kept + [name for name in written.names if name.batch > last and name.run == newest_run]

    def _without_base(self) -> Epoch | None:
        """Return the epoch of the first needed batch if all its slots had run by then: its base is not needed any more.

        Operators that the job does not have any more have their state in the base alone.
        """
        number, found = self._written.newest(self.oldest)
        epoch = self._directory.epoch(number) if number else None
        if epoch is None or not epoch.base:
            return None
        operators = {operator_id_of(uid).hex() for uid in epoch.carriers}
        base = self._directory.base_of(epoch)
        stored = {one.operator_id.hex() for one in base.metadata.operators} if base is not None else set()
        oldest = {one.uid: one.manifest for one in reversed(self._sources) if one.manifest is not None}
        own = {one.operator.operator_id.hex() for one in oldest.values() if one.epoch >= epoch.number}
        places = {(operator, slot) for operator in (operators | stored) - own for slot in range(epoch.slots)}
        return epoch if places <= found.keys() else None


def _named_by(folder: Folder) -> Iterator[str]:
    """Yield the names of the files that the savepoint of an epoch may name, in the state directory."""
    if not folder.exists(METADATA):
        return
    for stream in read_metadata(folder.read(METADATA)).streams:
        if isinstance(stream, AbsoluteFileHandle):
            *_, bases, place, name = stream.uri.split("/")
            yield f"{place}/{name}"
            yield f"{bases}/{place}/{name}"  # a file of an earlier base


def _divided(folder: Folder, needs: Needs) -> tuple[list[str], list[str]]:
    """Return the names of the files that nothing needs, and of those that are not known."""
    unneeded, unknown = [], []
    for place, name in _listed(folder):
        full = f"{place}/{name}" if place else name
        known = _IN_BASE if _BASE.fullmatch(place) else _KNOWN.get(place)
        if known is None or not re.fullmatch(known + _UNFINISHED, name):
            unknown.append(full)
        elif not needs.has(place, name):
            unneeded.append(full)
    # If this process dies in the middle, there are files that no manifest names, and no manifest without its files.
    return sorted(unneeded, key=lambda name: (not name.startswith(f"{MANIFESTS}/"), name.endswith(METADATA))), unknown


def _listed(folder: Folder) -> Iterator[tuple[str, str]]:
    """Yield folder and name of all files, but for those that say what the directory is."""
    for name in folder.names():
        if name in _KNOWN:
            yield from ((name, inner) for inner in _names(folder.folder(name)))
        elif name == BASES:
            for base in (f"{BASES}/{inner}" for inner in folder.folder(BASES).names()):
                yield from ((base, inner) for inner in _names(folder.folder(base)))
        elif name not in {STREAM_FILE, EPOCHS} and not CLAIM_NAME.fullmatch(name):
            yield "", name


def _names(folder: Folder) -> Iterable[str]:
    try:
        return folder.names()
    except SavepointNotFound:
        return ()


def _placed(folder: Folder, name: str) -> tuple[Folder, str]:
    place, _, file = name.rpartition("/")
    return (folder.folder(place) if place else folder), file
