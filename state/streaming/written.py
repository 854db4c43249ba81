"""The manifests that a query has written, and which of them are committed, as far as their names tell.

Names of manifests say of which operator, slot, batch and start of the query they are. A batch that is committed was
committed by the last start that could run it: every later start began after it. If two attempts of one task wrote a
manifest, the next manifest of the slot names the one that it went on from; so does the next start of the query, which
asks its engine. Source: notes on Spark, 2.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ...serializers.errors import CorruptFile, SavepointNotFound, located
from .manifest import MANIFESTS, RUNS, Manifest, ManifestName
from .stored_json import PUT_BACK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .directory import BegunRun, StateDirectory


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
