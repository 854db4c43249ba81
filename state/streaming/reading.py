"""The state of a query after its last committed batch, found in its state directory and checkpoint without its engine.

Names of manifests say of which operator, slot, batch and start of the query they are. A batch that is committed was
committed by the last start that could run it: every later start began after it. If two attempts of one task wrote a
manifest, the next manifest of the slot names the one that it went on from; so does the next start of the query, which
asks its engine. Source: notes on Spark, 2.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.errors import CorruptFile, SavepointNotFound
from ..storage.files import Folder
from .commit_log import last_committed, offsets, read_note
from .directory import RUNS, StateDirectory
from .manifest import MANIFESTS, Manifest, ManifestName
from .source_offsets import planned_offsets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..savepoint.metadata import SavepointMetadata
    from ..storage.lineage import Lineage
    from .directory import BegunRun


class AttemptsUndecided(SavepointNotFound):
    """Two attempts of a task wrote a manifest, and only the engine knows which of them was committed."""


@attrs.frozen
class QueryFacts:
    """What is known of the query whose state is read.

    Attributes:
        directory: The id of its state directory.
        checkpoint: The place of its checkpoint.
        batch: The last committed batch: the state is that after it.
        epoch: The epoch of the state.
        offsets: How far the sources were read by then: the text of the file in the checkpoint.
        sources: The kinds of the sources, in the order of their offsets.
    """

    directory: str
    checkpoint: str
    batch: int
    epoch: int
    offsets: str = attrs.field(repr=False)
    sources: tuple[str, ...] = ()

    @property
    def position(self) -> dict[str, Any]:
        """The position of the state in its sources, for the lineage of a savepoint."""
        facts = {"checkpoint": self.checkpoint, "batch": self.batch, "offsets": self.offsets}
        return facts | ({"sources": list(self.sources)} if self.sources else {})


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
                advice="put back what was deleted in the folder; or start a new query from a savepoint",
                file=f"{directory.folder.place}/{RUNS}",
            )
        return cls(names, runs, lambda name: Manifest.from_bytes(folder.read(str(name))))

    def by_last_run(self, upto: int) -> list[ManifestName]:
        """Return the manifests of batches up to one that is committed, but for batches that a later start repeated."""
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
        """Return those of several manifests of one slot and batch that may be the committed one: one if it is known."""
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


def committed_batch(directory: StateDirectory) -> int:
    """Return the last committed batch of a query.

    Raises:
        SavepointNotFound: Its checkpoint is not there, or has no committed batch.
    """
    checkpoint = Folder.at(directory.checkpoint)
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


def committed_manifests(directory: StateDirectory, batch: int) -> tuple[int, list[Manifest]]:
    """Return the epoch of the state after a committed batch (0: none), and the manifests of its slots.

    Raises:
        AttemptsUndecided: Two attempts wrote a manifest for a slot, and nothing says which of them was committed.
    """
    written = Written.in_directory(directory)
    epoch, newest = written.newest(batch)
    return epoch, [written.read(_only(written.decided(same))) for same in newest.values()]


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


def read_state(folder: Folder) -> tuple[Folder, SavepointMetadata, Lineage | None, QueryFacts]:
    """Return the state of a query after its last committed batch: folder and content of `_metadata`, and lineage.

    Args:
        folder: The state directory.

    Raises:
        SavepointNotFound: The checkpoint is not there, or has no committed batch; or `AttemptsUndecided`.
        DeclarationError: Some slots have not run since the last epoch began.
        CorruptFile: A file of the state directory is damaged.
    """
    directory = StateDirectory.open(folder)
    batch = committed_batch(directory)
    checkpoint = Folder.at(directory.checkpoint)
    number, manifests = committed_manifests(directory, batch)
    sources = [one.manifest for one in planned_offsets(checkpoint, batch) if one.manifest is not None]
    number = number or max((manifest.epoch for manifest in sources), default=0)
    epoch = directory.epoch(number) if number else directory.unchanged_epoch
    if epoch is None:
        raise SavepointNotFound(
            f"no start of a query is recorded in the state directory {folder}", advice="start the query"
        )
    read = offsets(checkpoint, batch)
    facts = QueryFacts(directory.id, directory.checkpoint, batch, epoch.number, read, _source_kinds(directory, batch))
    savepoint = directory.savepoint(manifests, epoch, batch, sources)
    return directory.folder, savepoint.metadata, epoch.lineage, facts


def _source_kinds(directory: StateDirectory, batch: int) -> tuple[str, ...]:
    """Return the kinds of the sources in the start of the query that committed a batch; (): they are not known."""
    runs = (run for run in directory.runs().values() if run.after_batch is None or run.after_batch < batch)
    last = max(runs, key=lambda run: run.number, default=None)
    return () if last is None else last.sources
