"""The committed manifests of a query, and its state after its last committed batch.

The engine commits the manifests of a batch with the batch, so its checkpoint is the record of what holds. What lies
beside the state is compared with that record. Only where it cannot be read, manifests are chosen by their names
(`Written`), which is said (`Committed.unproven`).

Names of manifests say of which operator, slot, batch and start of the query they are. A batch that is committed was
committed by the last start that could run it: every later start began after it. If two attempts of one task wrote a
manifest, the next manifest of the slot names the one that it went on from; so does the next start of the query, which
asks its engine. Source: notes on Spark, 2.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.errors import (
    CorruptFile,
    CorruptSavepoint,
    LibraryNotFound,
    SavepointNotFound,
    UnsupportedFormat,
    located,
)
from ..formats.spark.commit_log import last_committed, offsets, read_note
from ..publication.lineage import FileDigest
from .directory import StateDirectory
from .manifest import MANIFESTS, RUNS, Manifest, ManifestName
from .source_offsets import planned_offsets
from .stored_json import PUT_BACK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..publication.stored_savepoint import StoredSavepoint
    from ..storage.files import Folder
    from .directory import BegunRun


class AttemptsUndecided(SavepointNotFound):
    """Two attempts of a task wrote a manifest, and only the engine knows which of them was committed."""


@attrs.frozen
class Written:
    """The manifests that were written, by their names.

    Attributes:
        names: The names of all manifests.
        runs: The starts of the query.
        read: Reads a manifest.
    """

    names: tuple[ManifestName, ...]
    runs: tuple[BegunRun, ...]
    read: Callable[[ManifestName], Manifest]

    @classmethod
    def in_directory(cls, directory: StateDirectory) -> Written:
        """Return the manifests of a state directory.

        Raises:
            CorruptFile: The file of a start of the query is missing.
        """
        folder = directory.folder.folder(MANIFESTS)
        parsed = (ManifestName.parse(name) for name in folder.names())
        names = tuple(sorted(name for name in parsed if name is not None))
        runs = tuple(sorted(directory.runs().values(), key=lambda run: run.number))
        known = {run.number for run in runs}
        if lost := next((name for name in names if name.run not in known), None):
            raise CorruptFile(
                f"start {lost.run} of the query is not recorded, so it is not known whether its state is committed",
                advice=PUT_BACK,
                file=f"{directory.folder.place}/{RUNS}",
            )

        def read(name: ManifestName) -> Manifest:
            file = f"{folder.place}/{name}"
            with located(file=file):
                manifest = Manifest.from_bytes(folder.read(str(name)))
            if manifest.name != str(name) or manifest.directory not in {directory.id, *directory.copied_from}:
                raise CorruptFile("the file has the manifest of another place", advice=PUT_BACK, file=file)
            return manifest

        return cls(names, runs, read)

    def by_last_run(self, upto: int) -> list[ManifestName]:
        """Return the manifests of batches up to a committed one, without batches that a later start repeated."""
        last: dict[int, int] = {}  # the last batch that each start can have committed
        least = upto
        for run in reversed(self.runs):
            last[run.number] = least
            least = min(least, -1 if run.after_batch is None else run.after_batch)
        return [name for name in self.names if name.batch <= last[name.run]]

    @property
    def epochs(self) -> dict[int, int]:
        """The epoch of each start of the query."""
        return {run.number: run.epoch for run in self.runs}

    def newest(self, upto: int) -> tuple[int, dict[tuple[str, int], list[ManifestName]]]:
        """Return the epoch of the state after a committed batch, and the manifests of its last batch for each slot.

        There are several manifests for a slot where several attempts of one task wrote some. The epoch is 0 if there
        are no manifests.
        """
        candidates = self.by_last_run(upto)
        if not candidates:
            return 0, {}
        epochs = self.epochs
        epoch = epochs[max(candidates, key=lambda name: (name.batch, name.run)).run]
        found: dict[tuple[str, int], list[ManifestName]] = {}
        for name in candidates:
            if epochs[name.run] == epoch:
                known = found.setdefault(name.place, [])
                if known and known[0].batch < name.batch:
                    known.clear()
                if not known or known[0].batch == name.batch:
                    known.append(name)
        return epoch, found

    def decided(self, same: list[ManifestName]) -> list[ManifestName]:
        """Return the manifests of one slot and batch that may be the committed one; a single one if it is known."""
        if len(same) == 1:
            return same
        attempts = {name.attempt for name in same}
        if told := attempts.intersection(one for run in self.runs for one in run.attempts):
            return [name for name in same if name.attempt in told]
        later = [name for name in self.names if name.place == same[0].place and name.batch > same[0].batch]
        for batch in sorted({name.batch for name in later}):
            parents = {self.read(name).parent for name in later if name.batch == batch}
            if found := [name for name in same if name.attempt in parents & attempts]:
                return found
        return same

    def chosen(self, batch: int) -> tuple[int, list[Manifest]]:
        """Return the epoch of the state after a committed batch (0: none), and the manifests of its slots.

        Raises:
            AttemptsUndecided: Two attempts wrote a manifest for a slot, and nothing says which of them was committed.
            CorruptFile: A manifest is damaged, or that of another place.
        """
        epoch, newest = self.newest(batch)
        return epoch, [self.read(_only(self.decided(same))) for same in newest.values()]


def _only(names: Iterable[ManifestName]) -> ManifestName:
    first, *others = names
    if others:
        raise AttemptsUndecided(
            f"{1 + len(others)} attempts of a task wrote the state of slot {first.slot} after batch {first.batch}, and"
            " only Spark knows which of them it has committed",
            advice="start the query once: it asks Spark, and notes it",
            operator=first.operator_id,
        )
    return first


@attrs.frozen
class Committed:
    """The state after a batch.

    Attributes:
        epoch: Its epoch; 0: no slot has run in this directory.
        manifests: The manifests of its slots.
        unproven: Why it is not known which manifests the engine has committed, so that names decided; "": it is known.
    """

    epoch: int
    manifests: tuple[Manifest, ...]
    unproven: str = ""


def committed_manifests(directory: StateDirectory, batch: int) -> Committed:
    """Return the committed manifests of the slots after a batch.

    Raises:
        CorruptFile: What was committed is not there as it was: a manifest is missing or altered, or a start or an epoch
            is not recorded any more.
        SavepointNotFound: The batch is an earlier one, whose manifests were deleted.
        AttemptsUndecided: The engine was not asked, and two attempts wrote a manifest for a slot.
    """
    written = Written.in_directory(directory)
    _require_epochs(directory, written)
    told = engine_manifests(directory, batch)
    if isinstance(told, str):
        epoch, found = written.chosen(batch)
        return Committed(epoch, tuple(found), told)
    own = [(one, data) for one, data in told if one.directory == directory.id]
    if strange := next((one for one, _ in told if one.directory not in {directory.id, *directory.copied_from}), None):
        raise CorruptFile(
            f"the checkpoint {directory.checkpoint} has the manifest of another state directory",
            advice="put back the file that identifies the directory, or its checkpoint",
            file=f"{directory.folder.place}/{MANIFESTS}/{strange.name}",
        )
    epoch = max((one.epoch for one, _ in own), default=0)
    present = [(one, data) for one, data in own if one.epoch == epoch]
    _require_as_committed(directory, present, batch)
    epochs = written.epochs
    for one, _ in present:
        if epochs.get(one.run) != epoch:
            raise CorruptFile(
                f"start {one.run} of the query is not recorded as it was: its state is of epoch {epoch}",
                advice=PUT_BACK,
                file=f"{directory.folder.place}/{RUNS}",
            )
    return Committed(epoch, tuple(one for one, _ in present))


def engine_manifests(directory: StateDirectory, batch: int) -> list[tuple[Manifest, bytes]] | str:
    """Return all manifests that the engine has after a committed batch, and their bytes; or why it is not known.

    Some may be of earlier epochs, or of the directory that this one was copied from.

    Raises:
        UntrustedPlace: The checkpoint is in another store.
        StorageFailed: Its store does not answer.
    """
    checkpoint = directory.checkpoint_folder
    if not checkpoint.exists("state"):
        return f"the checkpoint {checkpoint} has no state of Spark"
    try:
        from ..formats.spark.manifests import manifests_after  # it loads pyarrow, which savepoints do without

        found = manifests_after(checkpoint, batch)
        return [(Manifest.from_bytes(data), data) for data in found]
    except ModuleNotFoundError as error:  # also a library of an optional extra
        why = error.what if isinstance(error, LibraryNotFound) else f"{error.name} is not installed"
    except (CorruptFile, CorruptSavepoint, SavepointNotFound, UnsupportedFormat) as error:
        # Spark could not go on either, but the state may be sound: it is not withheld.
        file = f" ({error.where['file']})" if "file" in error.where else ""
        why = f"{error.what}{file}"
    return f"the state of Spark in {checkpoint} cannot be read: {why}"


def require_intact(directory: StateDirectory, manifests: Iterable[Manifest]) -> None:
    """Refuse a state whose files are not as their slot or source wrote them; the data of RocksDB is not read.

    Raises:
        SavepointNotFound: A file is missing.
        CorruptFile: A file was damaged or altered.
    """
    for manifest in manifests:
        for name, digest in manifest.digests.items():
            if FileDigest.of_file(directory.files, name).xxh128 != digest:
                raise CorruptFile(
                    "the file is not as it was written: its digest differs",
                    advice=PUT_BACK,
                    file=f"{directory.files.place}/{name}",
                )


def _require_as_committed(directory: StateDirectory, manifests: list[tuple[Manifest, bytes]], batch: int) -> None:
    """Refuse a directory in which a committed manifest is missing or differs."""
    folder = directory.folder.folder(MANIFESTS)
    there = set(folder.names())
    for one, data in manifests:
        file = f"{folder.place}/{one.name}"
        if one.name not in there:
            what = f"the manifest of slot {one.slot}, which Spark has committed with batch {one.batch}, is missing"
            if batch != last_committed(directory.checkpoint_folder):
                raise SavepointNotFound(what, file=file)
            raise CorruptFile(what, advice=PUT_BACK, file=file)
        if folder.read(one.name) != data:
            raise CorruptFile(
                f"the manifest of slot {one.slot} is not the one that Spark has committed with batch {one.batch}",
                advice=PUT_BACK,
                file=file,
            )


def _require_epochs(directory: StateDirectory, written: Written) -> None:
    """Refuse a directory in which an epoch of its query is missing or was altered."""
    for number in sorted({run.epoch for run in written.runs}):
        directory.epoch(number)


@attrs.frozen
class QueryFacts:
    """The query whose state is read.

    Attributes:
        directory: The id of its state directory.
        checkpoint: The place of its checkpoint.
        batch: The last committed batch: the state is that after it.
        epoch: The epoch of the state.
        offsets: How far the sources were read by then: the text of the file in the checkpoint.
        sources: The kinds of the sources, in the order of their offsets.
        unproven: Why it was not compared with what the engine has committed; "": it was.
        types: The types to which state is being migrated lazily, as recorded; "": none is.
    """

    directory: str
    checkpoint: str
    batch: int
    epoch: int
    offsets: str = attrs.field(repr=False)
    sources: tuple[str, ...] = ()
    unproven: str = ""
    types: str = attrs.field(default="", repr=False)

    @property
    def position(self) -> dict[str, Any]:
        """The position of the state in its sources, for the lineage of a savepoint."""
        facts = {"checkpoint": self.checkpoint, "batch": self.batch, "offsets": self.offsets}
        return facts | ({"sources": list(self.sources)} if self.sources else {})


def committed_batch(directory: StateDirectory) -> int:
    """Return the last committed batch of a query.

    Raises:
        SavepointNotFound: Its checkpoint is not there, or has no committed batch.
    """
    checkpoint = directory.checkpoint_folder
    note = read_note(checkpoint)
    if note is not None and note.id != directory.id:
        raise SavepointNotFound(
            f"the checkpoint {checkpoint} is of another query now, whose state is in {note.state_dir}",
            advice="put back the checkpoint that the state belongs to: only it says which batches are committed",
        )
    batch = last_committed(checkpoint)
    if batch is None:
        is_there = checkpoint.exists()
        why = "has no committed batch yet" if is_there else "is not there"
        raise SavepointNotFound(
            f"the state in {directory.folder} belongs to the query with the checkpoint {checkpoint}, which {why}",
            advice="wait until the query has committed a batch"
            if is_there
            else "put the checkpoint back: only it says which batches are committed; or, if it has moved, start the"
            " query once from there",
        )
    return batch


def read_state(folder: Folder) -> tuple[StoredSavepoint, QueryFacts]:
    """Return the state of a query after its last committed batch, and what is known of the query.

    Args:
        folder: The state directory.

    Raises:
        SavepointNotFound: The checkpoint is not there, or has no committed batch; or `AttemptsUndecided`.
        UntrustedPlace: The checkpoint is in another store.
        DeclarationError: Some slots have not run since the last epoch began.
        CorruptFile: A file of the state directory is damaged.
    """
    directory = StateDirectory.open(folder)
    batch = committed_batch(directory)
    checkpoint = directory.checkpoint_folder
    committed = committed_manifests(directory, batch)
    sources = [one.manifest for one in planned_offsets(checkpoint, batch) if one.manifest is not None]
    number = committed.epoch or max((manifest.epoch for manifest in sources), default=0)
    epoch = directory.epoch(number) if number else directory.unchanged_epoch
    if epoch is None:
        raise SavepointNotFound(
            f"no start of a query is recorded in the state directory {folder}", advice="start the query"
        )
    read = offsets(checkpoint, batch)
    kinds, why = _source_kinds(directory, batch), committed.unproven
    types = epoch.types if epoch.lazy else ""
    facts = QueryFacts(directory.id, directory.checkpoint, batch, epoch.number, read, kinds, why, types)
    savepoint = directory.savepoint(committed.manifests, epoch, batch, sources)
    require_intact(directory, (*committed.manifests, *sources))
    return savepoint, facts


def _source_kinds(directory: StateDirectory, batch: int) -> tuple[str, ...]:
    """Return the kinds of the sources in the start of the query that committed a batch; (): they are not known."""
    runs = (run for run in directory.runs().values() if run.after_batch is None or run.after_batch < batch)
    last = max(runs, key=lambda run: run.number, default=None)
    return () if last is None else last.sources
