"""The state directory of a streaming query.

    _stateshift-stream.json     the id of the directory, the checkpoint that it belongs to, the number of key groups,
                                and the ids of the directories that it was copied from
    epochs/N.json               what holds for the batches after a start that changed something: slots, grouping, base,
                                and what the migrations before it did
    bases/N/_metadata           the savepoint that epoch N began with; N-was before its migration, N-left in the middle
    runs/TOKEN.json             one start of the query: its number, its epoch, what was committed before
    manifests/NAME              the manifests of all attempts; `committed` says which hold
    files/NAME, shared/UUID     the files that manifests name: of one batch alone, and of several
    holds/ID.json               a batch whose files are not deleted, because they are being copied

JSON has a seal (`stored_json`). Names of files are unique for each attempt, so nothing is overwritten, and what a dead
attempt wrote does no harm.
Source: notes on Spark, section 2.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from ... import __version__
from ...compat.description import operator_id_of
from ...serializers.errors import CorruptFile, DeclarationError, SavepointNotFound
from ..formats.flink.handles import AbsoluteFileHandle, RelativeFileHandle
from ..formats.flink.metadata import METADATA, SavepointMetadata
from ..formats.flink.roots import folder_at, stored_place, uri_of
from ..publication.lineage import Lineage
from ..publication.publish import now
from ..publication.stored_savepoint import StoredSavepoint, read_stored_savepoint
from .holds import HOLDS, oldest_held
from .manifest import BASES, EPOCHS, FILES, MANIFESTS, RUNS, SHARED, Manifest
from .stored_json import PUT_BACK, is_sealed, read_json, write_json

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from ..formats.flink.handles import StreamHandle
    from ..formats.flink.metadata import OperatorState
    from ..storage.files import Folder

T = TypeVar("T")

STREAM_FILE = "_stateshift-stream.json"
_FORMAT = 1
_EPOCH = re.compile(r"(\d{1,9})\.json")


@attrs.frozen(kw_only=True)
class _Facts:
    """The content of the file that identifies a state directory."""

    format: int
    id: str
    checkpoint: str
    max_parallelism: int
    stateshift: str = ""
    written: str = ""
    copied_from: tuple[str, ...] = ()
    places: tuple[str, ...] = ()


@attrs.frozen
class Begun:
    """The savepoint that a query began with. Its state was copied to the base of the first epoch.

    Attributes:
        savepoint: Its place.
        metadata_sha256: The SHA-256 of its `_metadata`, which identifies it.
        left: The ids of its operators that the query does not have; their state was left behind.
        position: Where its sources stood, if the query goes on from there; else None.
    """

    savepoint: str
    metadata_sha256: str
    left: tuple[str, ...] = ()
    position: dict[str, Any] | None = None


@attrs.frozen
class Epoch:
    """What holds from a start of a query until a later start changes it.

    Attributes:
        number: Its number, from 1.
        slots: The number of slots: the parallelism of all operators.
        partitions: The number of Spark's partitions of state.
        groups: The integer that Spark groups the rows of each slot by.
        carriers: How Spark calls each operator, by uid.
        after_batch: The last batch that was committed before; None: none was.
        base: The name of the folder in `bases` with the savepoint that it began with; "": it began with no state.
        history: What the migrations of the state did so far, as in the lineage of savepoints.
        lazy: The states that are migrated lazily in it, each with its present table, by the uid of their operator.
        types: The declared types of these operators, as `stateshift snapshot` records them, so that what is left of a
            lazy migration can be finished without their code; "": no state is migrated lazily.
        begun: What the query began with, in its first epoch; None: it began with no state.
        base_sha256: The SHA-256 of `_metadata` in the base; "": there is no base, or an earlier release wrote it.
    """

    number: int
    slots: int
    partitions: int
    groups: tuple[int, ...]
    carriers: dict[str, str]
    after_batch: int | None = None
    base: str = ""
    history: tuple[dict[str, Any], ...] = attrs.field(default=(), repr=False)
    lazy: dict[str, dict[str, str]] = attrs.field(factory=dict)
    types: str = attrs.field(default="", repr=False)
    begun: Begun | None = None
    base_sha256: str = ""

    @property
    def lineage(self) -> Lineage | None:
        """The lineage of the state in it; None: it was never migrated."""
        if not self.history:
            return None
        return Lineage(stateshift=__version__, created="", job="a query", history=self.history)


@attrs.frozen
class BegunRun:
    """One start of a query.

    Attributes:
        number: Its number, from 1; a later one is greater.
        epoch: The epoch in which it runs.
        retained: How many batches the engine keeps and may go back to.
        after_batch: The last batch that was committed before; None: none was.
        attempts: The attempts whose manifests the engine had committed by then.
        drains: The batch after whose rows event time ends; None: none.
        sources: The kinds of the query's sources, in the order of their offsets.
        token: Its name, which that of the file begins with; "" in directories of earlier releases.
    """

    number: int
    epoch: int
    retained: int
    after_batch: int | None = None
    attempts: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    drains: int | None = None
    token: str = ""


@attrs.frozen(slots=False)
class StateDirectory:
    """The state directory of a query.

    Attributes:
        folder: The folder.
        id: Its id.
        checkpoint: The place of the query's checkpoint.
        max_parallelism: The number of key groups of all operators.
        copied_from: The ids of the directory that it was copied from, of the one that this was copied from, and so on:
            the engine still has manifests of theirs, which are of an epoch that is over.
        former: The places that it was moved from: manifests may name files there.
    """

    folder: Folder
    id: str
    checkpoint: str
    max_parallelism: int
    copied_from: tuple[str, ...] = ()
    former: tuple[str, ...] = ()

    @classmethod
    def create(cls, folder: Folder, checkpoint: str, max_parallelism: int) -> StateDirectory:
        """Make a folder the state directory of a query with this checkpoint."""
        made = cls(folder, uuid.uuid4().hex, checkpoint, max_parallelism)
        made.create_folders()
        made.write_facts()
        return made

    def create_folders(self) -> None:
        """Create its folders."""
        for name in (EPOCHS, RUNS, MANIFESTS, FILES, SHARED, BASES, HOLDS):
            self.folder.folder(name).create()

    def write_facts(self) -> None:
        """Write the file that identifies the directory."""
        facts = {
            "format": _FORMAT,
            "stateshift": __version__,
            "written": now(),
            "id": self.id,
            "checkpoint": self.checkpoint,
            "max_parallelism": self.max_parallelism,
            "copied_from": self.copied_from,
            "places": [*self.former, self.folder.place],
        }
        write_json(self.folder, STREAM_FILE, facts)

    @classmethod
    def open(cls, folder: Folder) -> StateDirectory:
        """Open a state directory.

        Raises:
            SavepointNotFound: The folder is none.
            CorruptFile: Its file is damaged, or of a later version.
        """
        if not folder.exists(STREAM_FILE):
            raise SavepointNotFound(
                f"{folder} is not the state directory of a query: it has no {STREAM_FILE}",
                advice="name the folder that the query's job was created with, as its state_dir",
            )
        facts: _Facts = read_json(folder, STREAM_FILE, _Facts)
        if facts.format != _FORMAT:
            raise CorruptFile(
                f"the state directory has format {facts.format}, and this release reads format {_FORMAT}",
                advice="use the release that wrote it, or a later one",
                file=f"{folder.place}/{STREAM_FILE}",
            )
        former = tuple(place for place in facts.places if place != folder.place)
        roots = (*folder.roots, *((place, folder.place) for place in former))
        folder = attrs.evolve(folder, roots=roots)
        return cls(folder, facts.id, facts.checkpoint, facts.max_parallelism, facts.copied_from, former)

    @property
    def checkpoint_folder(self) -> Folder:
        """The checkpoint; on a store it is opened with the options of the place that this directory was opened by.

        Raises:
            UntrustedPlace: It is in another store, to which nobody has sent us.
        """
        return stored_place(self.checkpoint, self.folder)

    @cached_property
    def shared(self) -> Folder:
        """The folder of files that several batches need."""
        return self.folder.folder(SHARED)

    @cached_property
    def files(self) -> Folder:
        """The folder of files that one batch needs."""
        return self.folder.folder(FILES)

    # Epochs and runs

    @property
    def last_epoch(self) -> Epoch | None:
        """The last epoch; None: there is none."""
        number = max(self._epochs(), default=0)
        return self.epoch(number) if number else None

    @property
    def first_epoch(self) -> Epoch | None:
        """The first epoch, which says what the query began with; None: the query has not begun."""
        number = min(self._epochs(), default=0)
        return self.epoch(number) if number else None

    @property
    def unchanged_epoch(self) -> Epoch | None:
        """The epoch of the state before a batch has changed it here; a copy has it in its first epoch."""
        return self.epoch(1) if self.copied_from else self.last_epoch

    def _epochs(self) -> list[int]:
        names = map(_EPOCH.fullmatch, self.folder.folder(EPOCHS).names())
        return [int(name[1]) for name in names if name]

    def epoch(self, number: int) -> Epoch:
        """Read an epoch.

        Raises:
            CorruptFile: Its file is missing, damaged, or that of another epoch.
        """
        folder, name = self.folder.folder(EPOCHS), f"{number}.json"
        try:
            epoch: Epoch = read_json(folder, name, Epoch)
        except SavepointNotFound as error:
            raise _missing(folder, name, f"epoch {number} of the query is not recorded any more") from error
        if epoch.number != number or len(epoch.groups) != epoch.slots:
            raise CorruptFile(f"the file does not describe epoch {number}", advice=PUT_BACK, file=f"{folder}/{name}")
        return epoch

    @property
    def next_epoch(self) -> int:
        """The number of the next epoch: a start that died may have left files of a base, which are not touched."""
        number = 1 if self.last_epoch is None else self.last_epoch.number + 1
        bases = {name.partition("-")[0] for name in self.folder.folder(BASES).names()}
        while str(number) in bases:
            number += 1
        return number

    def begin_epoch(self, epoch: Epoch) -> None:
        """Record an epoch."""
        write_json(self.folder.folder(EPOCHS), f"{epoch.number}.json", attrs.asdict(epoch))

    def begin_run(
        self,
        token: str,
        *,
        epoch: int,
        retained: int,
        after_batch: int | None = None,
        attempts: Iterable[str] = (),
        drains: int | None = None,
        sources: Iterable[str] = (),
    ) -> None:
        """Record one start, for its tasks and for later searches of committed manifests; see `BegunRun`."""
        runs = self.runs()
        if (before := runs.get(token)) is not None:  # the job is started again, and the batches before stay those of it
            write_json(self.folder.folder(RUNS), f"{token}-{before.number}.json", attrs.asdict(before))
        number = 1 + max((run.number for run in runs.values()), default=0)
        begun = BegunRun(number, epoch, retained, after_batch, tuple(attempts), tuple(sources), drains, token)
        write_json(self.folder.folder(RUNS), f"{token}.json", attrs.asdict(begun))

    def run(self, token: str) -> BegunRun:
        """Read one start.

        Raises:
            SavepointNotFound: The query was not started by its job.
            CorruptFile: The file is damaged, or that of another start.
        """
        folder, name = self.folder.folder(RUNS), f"{token}.json"
        run: BegunRun = read_json(folder, name, BegunRun)
        if run.token and token not in {run.token, f"{run.token}-{run.number}"}:
            raise CorruptFile("the file is that of another start", advice=PUT_BACK, file=f"{folder}/{name}")
        return run

    def runs(self) -> dict[str, BegunRun]:
        """Return all starts, by token."""
        names = (name for name in self.folder.folder(RUNS).names() if name.endswith(".json"))
        return {(token := name.removesuffix(".json")): self.run(token) for name in names}

    def without_seals(self) -> list[str]:
        """Return the names of the files that an earlier release wrote without a seal, so that edits are not found."""
        folders = [self.folder.folder(name) for name in (EPOCHS, RUNS)]
        files = [(self.folder, STREAM_FILE)] + [(one, name) for one in folders for name in one.names()]
        return [
            f"{folder.place.rpartition('/')[2]}/{name}" if folder is not self.folder else name
            for folder, name in files
            if name.endswith(".json") and not is_sealed(folder, name)
        ]

    # What was written

    def record(self, manifest: Manifest, data: bytes) -> None:
        """Write a manifest beside the others, before the engine can commit it."""
        self.folder.folder(MANIFESTS).write(manifest.name, data)

    def delete_obsolete(self, manifest: Manifest, oldest: int) -> Manifest:
        """Delete the files that no batch from `oldest` on needs; return the manifest without them.

        Files that are held stay (`holds`).
        """
        gone = [one for one in manifest.obsolete if one.batch <= oldest]
        if gone and (first := oldest_held(self.folder)) is not None:
            gone = [one for one in gone if one.batch <= first]
        for one in gone:
            for name in one.names:
                folder, _, file = name.rpartition("/")
                (self.folder.folder(folder) if folder else self.folder).delete(file)
        return attrs.evolve(manifest, obsolete=tuple(one for one in manifest.obsolete if one not in gone))

    def savepoint(
        self,
        manifests: Iterable[Manifest],
        epoch: Epoch,
        batch: int,
        sources: Iterable[Manifest] = (),
        *,
        for_types: bool = False,
    ) -> StoredSavepoint:
        """Return the state after a batch, as a savepoint that can be read like any other; it names files by place.

        Args:
            manifests: The committed manifests of all slots that have one.
            epoch: The epoch of that batch.
            batch: The number of the batch.
            sources: The manifests of sources in the offsets of the batch.
            for_types: Whether only the types count. Otherwise it is an error if some slots have not run in the epoch.
        """
        found: dict[bytes, dict[int, OperatorState]] = {}
        for manifest in manifests:
            if manifest.epoch == epoch.number:
                operator = with_places(manifest.operator, self.files)
                found.setdefault(operator.operator_id, {})[manifest.slot] = operator
        base = self.base_of(epoch)
        if base is not None and not for_types and lacks_slots(found, epoch):
            raise DeclarationError(
                f"some slots have not run since epoch {epoch.number} began, so there is no state after a single batch",
                advice="run the query until a batch with rows is committed: it runs all slots",
            )
        for manifest in sources:
            if manifest.epoch >= epoch.number or not has_operator(base, manifest.operator.operator_id):
                operator = with_places(manifest.operator, self.files)
                found[operator.operator_id] = {0: operator}
        operators = [
            attrs.evolve(
                next(iter(slots.values())),
                subtasks=tuple(subtask for _, one in sorted(slots.items()) for subtask in one.subtasks),
            )
            for slots in found.values()
        ]
        if base is not None:
            others = (one for one in base.metadata.operators if one.operator_id not in found)
            operators += [with_places(one, base.folder) for one in others]
        return StoredSavepoint(self.folder, SavepointMetadata.new(tuple(operators), batch + 1), epoch.lineage)

    def base(self, name: str) -> Folder:
        """Return the folder of the savepoint of an epoch's beginning."""
        return self.folder.folder(BASES).folder(name)

    def digest_of_base(self, name: str) -> str:
        """Return the SHA-256 of `_metadata` in the savepoint of an epoch's beginning, in hexadecimal."""
        return hashlib.sha256(self.base(name).read(METADATA)).hexdigest()

    def base_of(self, epoch: Epoch) -> StoredSavepoint | None:
        """Return the savepoint that an epoch began with; None: it began with no state."""
        if not epoch.base:
            return None
        folder = self.base(epoch.base)
        if epoch.base_sha256 and self.digest_of_base(epoch.base) != epoch.base_sha256:
            raise CorruptFile(
                f"the savepoint that epoch {epoch.number} began with was altered",
                advice=PUT_BACK,
                file=f"{folder.place}/{METADATA}",
            )
        base = read_stored_savepoint(folder_at(folder.place, [self.folder.place, *self.folder.roots]))
        left = () if epoch.begun is None else epoch.begun.left
        operators = (one for one in base.metadata.operators if one.operator_id.hex() not in left)
        return attrs.evolve(base, metadata=attrs.evolve(base.metadata, operators=tuple(operators)))


def lacks_slots(found: Mapping[bytes, Collection[int]], epoch: Epoch) -> bool:
    """Whether only some slots have run since an epoch began: the others still have their state in its base.

    Args:
        found: The slots that have run, by the id of their operator.
        epoch: The epoch.
    """
    wanted = {operator_id_of(uid) for uid in epoch.carriers} | found.keys()
    return bool(found) and any(len(found.get(one, ())) < epoch.slots for one in wanted)


def has_operator(base: StoredSavepoint | None, operator_id: bytes) -> bool:
    """Whether an epoch began with state of an operator."""
    return base is not None and any(one.operator_id == operator_id for one in base.metadata.operators)


def with_places(operator: OperatorState, folder: Folder) -> OperatorState:
    """Return an operator whose files are named by their full places."""
    start = uri_of(folder)
    return with_files(
        operator,
        lambda file: (
            AbsoluteFileHandle(f"{start}/{file.path}", file.size) if isinstance(file, RelativeFileHandle) else file
        ),
    )


def moved(metadata: SavepointMetadata, source: Folder, target: Folder) -> SavepointMetadata:
    """Return `_metadata` with the files of the source named in another folder, under the same names."""
    start, end = f"{uri_of(source)}/", f"{uri_of(target)}/"

    def placed(file: RelativeFileHandle | AbsoluteFileHandle) -> RelativeFileHandle | AbsoluteFileHandle:
        if isinstance(file, AbsoluteFileHandle) and file.uri.startswith(start):
            return attrs.evolve(file, uri=end + file.uri[len(start) :])
        return file

    return with_files(metadata, placed)


def with_files(whole: T, changed: Callable[[RelativeFileHandle | AbsoluteFileHandle], StreamHandle]) -> T:
    """Return a part of `_metadata` with other handles of files."""

    def visited(part: Any) -> Any:
        if isinstance(part, RelativeFileHandle | AbsoluteFileHandle):
            return changed(part)
        if isinstance(part, tuple):
            return tuple(map(visited, part))
        if attrs.has(type(part)):
            fields = attrs.fields_dict(type(part))
            return attrs.evolve(
                part, **{name.lstrip("_"): visited(getattr(part, name)) for name in fields if fields[name].init}
            )
        return part

    result: T = visited(whole)
    return result


def _missing(folder: Folder, name: str, what: str) -> CorruptFile:
    return CorruptFile(what, advice=PUT_BACK, file=f"{folder.place}/{name}")
