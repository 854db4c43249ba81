"""The state directory of a streaming query.

    _stateshift-stream.json     the id of the directory, the checkpoint that it belongs to, the number of key groups
    epochs/N.json               what holds for the batches after a start that changed something: slots, grouping, base
    bases/N/_metadata           the savepoint that epoch N began with
    runs/TOKEN.json             one start of the query: its number, its epoch, what was committed before
    manifests/NAME              the manifests of all attempts; `reading` chooses those that hold
    files/NAME, shared/UUID     the files that manifests name: of one batch alone, and of several
    holds/ID.json               a batch whose files are not deleted, because they are being copied

Names of files are unique for each attempt, so nothing is overwritten, and what a dead attempt wrote does no harm.
Source: notes on Spark, section 2.
"""

from __future__ import annotations

import json
import uuid
from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs

from ... import __version__
from ...serializers.errors import CorruptFile, DeclarationError, SavepointNotFound
from ..savepoint.handles import AbsoluteFileHandle, RelativeFileHandle
from ..savepoint.metadata import SavepointMetadata, operator_id_of_uid
from ..savepoint.reader import Savepoint
from ..storage.publish import now
from ..storage.roots import uri_of
from .holds import HOLDS, oldest_held
from .manifest import FILES, MANIFESTS, SHARED, Manifest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..savepoint.metadata import OperatorState
    from ..storage.files import Folder

STREAM_FILE = "_stateshift-stream.json"
EPOCHS, RUNS, BASES = "epochs", "runs", "bases"
_FORMAT = 1


@attrs.frozen
class Epoch:
    """What holds from one start of a query on, until another start changes it.

    Attributes:
        number: Its number, from 1.
        slots: The number of slots: the parallelism of all operators.
        partitions: The number of Spark's partitions of state.
        groups: The integer that Spark groups the rows of each slot by.
        carriers: How Spark calls each operator, by uid.
        after_batch: The last batch that was committed before; None: none was.
        base: The name of the folder in `bases` with the savepoint that it began with; "": it began with no state.
    """

    number: int
    slots: int
    partitions: int
    groups: tuple[int, ...]
    carriers: dict[str, str]
    after_batch: int | None = None
    base: str = ""


@attrs.frozen
class BegunRun:
    """One start of a query.

    Attributes:
        number: Its number, from 1; a later one is greater.
        epoch: The epoch in which it runs.
        retained: How many batches the engine keeps and may go back to.
        after_batch: The last batch that was committed before; None: none was.
        attempts: The attempts whose manifests the engine had committed by then.
    """

    number: int
    epoch: int
    retained: int
    after_batch: int | None = None
    attempts: tuple[str, ...] = ()


@attrs.frozen(slots=False)
class StateDirectory:
    """The state directory of a query.

    Attributes:
        folder: The folder.
        id: Its id.
        checkpoint: The place of the query's checkpoint.
        max_parallelism: The number of key groups of all operators.
        former: The places that it was moved from: manifests may name files there.
    """

    folder: Folder
    id: str
    checkpoint: str
    max_parallelism: int
    former: tuple[str, ...] = ()

    @classmethod
    def create(cls, folder: Folder, checkpoint: str, max_parallelism: int) -> StateDirectory:
        """Make a folder the state directory of a query with this checkpoint."""
        made = cls(folder, uuid.uuid4().hex, checkpoint, max_parallelism)
        folder.create()
        for name in (EPOCHS, RUNS, MANIFESTS, FILES, SHARED, BASES, HOLDS):
            folder.folder(name).create()
        made.write_facts()
        return made

    def write_facts(self) -> None:
        """Write the file that identifies the directory."""
        facts = {
            "format": _FORMAT,
            "stateshift": __version__,
            "written": now(),
            "id": self.id,
            "checkpoint": self.checkpoint,
            "max_parallelism": self.max_parallelism,
            "places": [*self.former, self.folder.place],
        }
        _write_json(self.folder, STREAM_FILE, facts)

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
        facts = _read_json(folder, STREAM_FILE)
        if facts.get("format") != _FORMAT:
            raise CorruptFile(
                f"the state directory has format {facts.get('format')}, and this release reads format {_FORMAT}",
                advice="use the release that wrote it, or a later one",
                file=f"{folder.place}/{STREAM_FILE}",
            )
        former = tuple(place for place in facts["places"] if place != folder.place)
        roots = (*folder.roots, *((place, folder.place) for place in former))
        folder = attrs.evolve(folder, roots=roots)
        return cls(folder, facts["id"], facts["checkpoint"], facts["max_parallelism"], former)

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
        names = self.folder.folder(EPOCHS).names()
        number = max((int(name.removesuffix(".json")) for name in names if name.endswith(".json")), default=0)
        return self.epoch(number) if number else None

    def epoch(self, number: int) -> Epoch:
        """Read an epoch."""
        facts = _read_json(self.folder.folder(EPOCHS), f"{number}.json")
        return Epoch(**{**facts, "groups": tuple(facts["groups"])})

    @property
    def next_epoch(self) -> int:
        """The number of the next epoch: a start that died may have left files of a base, which are not touched."""
        number = 1 if self.last_epoch is None else self.last_epoch.number + 1
        bases = {name.removesuffix("-was") for name in self.folder.folder(BASES).names()}
        while str(number) in bases:
            number += 1
        return number

    def begin_epoch(self, epoch: Epoch) -> None:
        """Record an epoch."""
        _write_json(self.folder.folder(EPOCHS), f"{epoch.number}.json", attrs.asdict(epoch))

    def begin_run(
        self,
        token: str,
        *,
        epoch: int,
        retained: int,
        after_batch: int | None = None,
        attempts: Iterable[str] = (),
    ) -> None:
        """Record one start, for its tasks and for those who look for the committed manifests; see `BegunRun`."""
        runs = self.runs()
        if (before := runs.get(token)) is not None:  # the job is started again, and the batches before stay those of it
            _write_json(self.folder.folder(RUNS), f"{token}-{before.number}.json", attrs.asdict(before))
        number = 1 + max((run.number for run in runs.values()), default=0)
        facts = attrs.asdict(BegunRun(number, epoch, retained, after_batch, tuple(attempts)))
        _write_json(self.folder.folder(RUNS), f"{token}.json", facts)

    def run(self, token: str) -> BegunRun:
        """Read one start.

        Raises:
            SavepointNotFound: The query was not started by its job.
        """
        facts = _read_json(self.folder.folder(RUNS), f"{token}.json")
        return BegunRun(**{**facts, "attempts": tuple(facts["attempts"])})

    def runs(self) -> dict[str, BegunRun]:
        """Return all starts, by token."""
        names = (name for name in self.folder.folder(RUNS).names() if name.endswith(".json"))
        return {(token := name.removesuffix(".json")): self.run(token) for name in names}

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
        self, manifests: Iterable[Manifest], epoch: Epoch, batch: int, sources: Iterable[Manifest] = ()
    ) -> Savepoint:
        """Return the state after a batch, as a savepoint that can be read like any other.

        Args:
            manifests: The committed manifests of all slots that have one.
            epoch: The epoch of that batch.
            batch: The number of the batch.
            sources: The manifests of sources in the offsets of the batch.
        """
        return Savepoint(self.folder, self.metadata(manifests, epoch, batch, sources))

    def metadata(
        self, manifests: Iterable[Manifest], epoch: Epoch, batch: int, sources: Iterable[Manifest] = ()
    ) -> SavepointMetadata:
        """Return the `_metadata` of the state after a batch; all files in it are named by their places."""
        found: dict[bytes, dict[int, OperatorState]] = {}
        for manifest in manifests:
            if manifest.epoch == epoch.number:
                operator = with_places(manifest.operator, self.files)
                found.setdefault(operator.operator_id, {})[manifest.slot] = operator
        base = self.base_of(epoch)
        wanted = {operator_id_of_uid(uid) for uid in epoch.carriers} | found.keys()
        if base is not None and found and any(len(found.get(one, ())) < epoch.slots for one in wanted):
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
        return SavepointMetadata.new(tuple(operators), batch + 1)

    def base(self, name: str) -> Folder:
        """Return the folder of the savepoint of an epoch's beginning."""
        return self.folder.folder(BASES).folder(name)

    def base_of(self, epoch: Epoch) -> Savepoint | None:
        """Return the savepoint that an epoch began with; None: it began with no state."""
        if not epoch.base:
            return None
        return Savepoint.open(self.base(epoch.base).place, allow_roots=[self.folder.place, *self.folder.roots])


def has_operator(base: Savepoint | None, operator_id: bytes) -> bool:
    """Whether an epoch began with state of an operator."""
    return base is not None and any(one.operator_id == operator_id for one in base.metadata.operators)


def with_places(operator: OperatorState, folder: Folder) -> OperatorState:
    """Return an operator whose files are named by their places, and not relative to the folder of `_metadata`."""
    start = uri_of(folder)

    def placed(part: Any) -> Any:
        if isinstance(part, RelativeFileHandle):
            return AbsoluteFileHandle(f"{start}/{part.path}", part.size)
        if isinstance(part, tuple):
            return tuple(map(placed, part))
        if attrs.has(type(part)):
            fields = attrs.fields_dict(type(part))
            return attrs.evolve(
                part, **{name.lstrip("_"): placed(getattr(part, name)) for name in fields if fields[name].init}
            )
        return part

    result: OperatorState = placed(operator)
    return result


def _write_json(folder: Folder, name: str, facts: dict[str, Any]) -> None:
    folder.write(name, json.dumps(facts, indent=1).encode())


def _read_json(folder: Folder, name: str) -> dict[str, Any]:
    try:
        facts = json.loads(folder.read(name))
    except SavepointNotFound:
        raise
    except ValueError as error:
        raise CorruptFile(f"the file is damaged: {error}", file=f"{folder.place}/{name}") from error
    if not isinstance(facts, dict):
        raise CorruptFile("the file is damaged: it is no JSON object", file=f"{folder.place}/{name}")
    return facts
