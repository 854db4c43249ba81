"""`rewind`: a copy of a query that stands at an earlier batch, with the state and the offsets after that batch.

The copy has a state directory, a checkpoint and a query id of its own; the first query is only read. In the copied
directory begins an epoch with the state after the batch. The engine's own state still has the manifests of the first
directory; they are of an epoch that is over, so they are never put under other offsets.

Of the checkpoint everything is copied that belongs to the batch or one before. The logs of sources are copied whole:
what a source has listed since then, it reads in the next batch, even if it would not find it again.
Source: notes on Spark, sections 2.1 and 2.2.
"""

from __future__ import annotations

import json
import re
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING

import attrs

from ...serializers.errors import DeclarationError, SavepointNotFound, StateShiftError, TargetExists
from ...serializers.ways_out import WayOut
from ..formats.flink.handles import AbsoluteFileHandle
from ..formats.flink.metadata import METADATA, write_metadata
from ..formats.flink.missing_files import require_files
from ..formats.flink.roots import folder_at, uri_of
from ..formats.spark.commit_log import NOTE, CheckpointNote, last_planned, offsets, write_note
from ..publication.lineage import LINEAGE
from ..publication.target_lock import claimed
from ..storage.files import Folder
from ..storage.stores import parted
from .claims import query_claimed
from .committed_state import AttemptsUndecided, Written, committed_batch, committed_manifests, require_intact
from .directory import StateDirectory, moved
from .source_offsets import planned_offsets

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

    from ..formats.flink.metadata import SavepointMetadata
    from ..formats.flink.roots import AllowedRoot
    from .committed_state import Committed
    from .directory import Epoch

_OF_BATCH = re.compile(r"(?:offsets|commits|state/.+/_metadata/v\d+)/(\d+)")
_OF_VERSION = re.compile(r"state/\d+/\d+/(?:[^/]+/)?(\d+)(?:_[^./]+)?\.(?:delta|snapshot|zip|changelog)")
"""A file of Spark's state; version n + 1 is that after batch n."""
_FACTS_OF_STATE = re.compile(r"state/.+/_metadata/.+")


@attrs.frozen
class Rewound:
    """A copy of a query that stands at an earlier batch.

    Attributes:
        state_dir: Its state directory.
        checkpoint: Its checkpoint.
        batch: The last batch that it has.
        epoch: The epoch of that batch in the first query.
        again: The first and the last batch that the first query has planned since then; None: there is none.
        files: How many files of state it has.
        size_bytes: Their size.
        unproven: Why the state was not compared with what the engine has committed; "": it was.
    """

    state_dir: str
    checkpoint: str
    batch: int
    epoch: int
    again: tuple[int, int] | None
    files: int
    size_bytes: int
    unproven: str = ""


@attrs.frozen
class Stretch:
    """Batches that a query has committed in one epoch, one after the other.

    Attributes:
        epoch: The epoch.
        first: The first one.
        last: The last one.
    """

    epoch: int
    first: int
    last: int


def rewind(
    state_dir: str | os.PathLike[str],
    new_state_dir: str | os.PathLike[str],
    checkpoint: str | os.PathLike[str],
    *,
    to_epoch: int | None = None,
    to_batch: int | None = None,
    allow_roots: Iterable[AllowedRoot] = (),
) -> Rewound:
    """Copy a query as it was after an earlier batch: its state, and how far its sources were read.

    The copy is another query. What the first one has read since then, it reads again, and its results are written a
    second time. The first query must stand still meanwhile; it is only read, and can go on as before.

    Args:
        state_dir: The state directory of the query.
        new_state_dir: A folder that is empty or does not exist, for the state of the copy.
        checkpoint: A folder that is empty or does not exist, for the checkpoint of the copy.
        to_epoch: The epoch at whose last batch the copy stands; by default the one before the present one, as it was
            before the last migration or the last change of the number of slots.
        to_batch: Instead of an epoch: the batch.
        allow_roots: Further folders in which the query's checkpoint, or files of its state, may be.

    Raises:
        UntrustedPlace: The query's checkpoint is in another store than its state.
        CorruptFile: A file of the state directory or of the checkpoint is missing or damaged.
        SavepointNotFound: The state after that batch, or the offsets, are not there any more; the error says what is.
        DeclarationError: There is no such epoch or batch.
        TargetExists: A new folder is not empty; or the query is running.
        StorageFailed: Something cannot be read or written.
    """
    directory = StateDirectory.open(folder_at(state_dir, allow_roots))
    source, target = directory.checkpoint_folder, Folder.at(checkpoint)
    new = StateDirectory(
        Folder.at(new_state_dir),
        uuid.uuid4().hex,
        target.place,
        directory.max_parallelism,
        (directory.id, *directory.copied_from),
    )
    _require_empty(new.folder, target, (directory.folder, source))
    with query_claimed(directory.folder), claimed(new.folder):
        past = _Past(directory)
        past.require_no_sources()
        batch = past.chosen(to_epoch, to_batch)
        epoch, metadata, unproven = past.state_after(batch)
        count, size = _copy_state(directory, new, metadata, epoch, batch)
        _copy_checkpoint(source, target, batch)
        new.write_facts()
        write_note(target, CheckpointNote(new.id, new.folder.place, target.place))
        planned = max(past.last, last_planned(source) or 0)
    again = (batch + 1, planned) if planned > batch else None
    return Rewound(new.folder.place, target.place, batch, epoch.number, again, count, size, unproven)


def _require_empty(state: Folder, checkpoint: Folder, sources: tuple[Folder, Folder]) -> None:
    for folder in (state, checkpoint):
        if folder.is_file() or (folder.exists() and folder.names()):
            raise TargetExists.before_writing(
                f"{folder.spelled} is not empty",
                advice="name a folder that is empty or does not exist",
            )
        for other in sources:
            if f"{folder}/".startswith(f"{other}/"):
                raise TargetExists.before_writing(
                    f"{folder.spelled} is inside {other}, which is only read",
                    advice="name a folder beside it",
                )
    if f"{state}/".startswith(f"{checkpoint}/") or f"{checkpoint}/".startswith(f"{state}/"):
        raise DeclarationError(
            "state directory and checkpoint of the copy cannot be in each other", advice="name two folders"
        )


class _Past:
    """What a query has committed, and which of it is still there.

    Args:
        directory: Its state directory.

    Attributes:
        last: Its last committed batch.
    """

    def __init__(self, directory: StateDirectory) -> None:
        self._directory = directory
        self._checkpoint = directory.checkpoint_folder
        self.last = committed_batch(directory)
        self._stretches = stretches(Written.in_directory(directory), self.last)

    def require_no_sources(self) -> None:
        """Refuse a query with source functions: their offsets name this state directory, and files in it."""
        uids = [repr(one.uid) for one in planned_offsets(self._checkpoint, self.last)]
        if uids:
            raise DeclarationError.before_writing(
                f"the query reads from source functions ({', '.join(uids)}), which a copy cannot take over",
                advice=WayOut(
                    "take a savepoint of it, and start another query from that:", command="stateshift savepoint"
                ),
            )

    def chosen(self, to_epoch: int | None, to_batch: int | None) -> int:
        """Return the batch that is asked for."""
        if to_batch is not None:
            if not 0 <= to_batch <= self.last:
                raise DeclarationError.before_writing(
                    f"there is no batch {to_batch}: the last one that the query has committed is {self.last}",
                    advice=self._advice(),
                )
            return to_batch
        present = self._stretches[-1].epoch if self._stretches else 0
        epochs = [one.epoch for one in self._stretches]
        wanted = next((one for one in reversed(epochs) if one != present), None) if to_epoch is None else to_epoch
        if wanted is None:
            raise DeclarationError.before_writing(
                f"there is no epoch before {present}: the query has not been migrated, as far as its folder says",
                advice=f"name a batch; {self._advice()}",
            )
        if wanted not in epochs:
            raise DeclarationError.before_writing(f"no batch of epoch {wanted} is known", advice=self._advice())
        return max(one.last for one in self._stretches if one.epoch == wanted)

    def state_after(self, batch: int) -> tuple[Epoch, SavepointMetadata, str]:
        """Return the epoch of a batch, the state after it, and why that was not compared with what was committed.

        Raises:
            SavepointNotFound: It is not there any more, or only Spark knows which attempt was committed.
        """
        try:
            epoch, metadata, committed = self._state_after(batch)
            require_intact(self._directory, committed.manifests)
            return epoch, metadata, committed.unproven
        except AttemptsUndecided:
            raise
        except SavepointNotFound as error:
            raise SavepointNotFound.before_writing(
                f"the query as it was after batch {batch} is not there any more: {error.what}",
                advice=self._advice(),
            ) from error

    def _state_after(self, batch: int) -> tuple[Epoch, SavepointMetadata, Committed]:
        for number in (batch - 1, batch) if batch else (batch,):  # Spark reads both when it starts
            offsets(self._checkpoint, number)
        if not self._checkpoint.exists(f"commits/{batch}"):
            raise SavepointNotFound(f"the checkpoint has no commit of batch {batch}")
        stretch = next((one for one in self._stretches if one.first <= batch <= one.last), None)
        committed = committed_manifests(self._directory, batch)
        number, manifests = committed.epoch, committed.manifests
        if stretch is None or number != stretch.epoch:
            raise SavepointNotFound("its manifests were deleted")
        epoch = self._directory.epoch(number)
        slots: dict[bytes, set[int]] = {}
        for manifest in manifests:
            slots.setdefault(manifest.operator.operator_id, set()).add(manifest.slot)
        if any(len(found) < epoch.slots for found in slots.values()):
            raise SavepointNotFound("manifests of some slots were deleted")
        metadata = self._directory.savepoint(manifests, epoch, batch).metadata
        require_files(metadata.streams, self._directory.folder)
        return epoch, metadata, committed

    def _advice(self) -> str:
        """Say which batches there are to go back to."""
        found = [f"batch {one.last}, the last of epoch {one.epoch}" for one in self._stretches if self._has(one.last)]
        if not found:
            return "start a new query from a savepoint"
        present = self._stretches[-1]
        batches = range(present.first, present.last + 1)
        first = next((batch for batch in batches if self._has(batch)), present.last)
        more = f", and from batch {first} to {present.last}" if first < present.last and self._has(present.last) else ""
        return f"there is still: {'; '.join(found)}{more}"

    def _has(self, batch: int) -> bool:
        with suppress(StateShiftError):
            self._state_after(batch)
            return True
        return False


def stretches(written: Written, last: int) -> list[Stretch]:
    """Return the batches of each epoch, as far as starts of the query are recorded.

    Args:
        written: What the query has written.
        last: Its last committed batch.
    """
    found: list[Stretch] = []
    upto = last
    for run in reversed(written.runs):  # a batch was committed by the last start that could run it
        first = 0 if run.after_batch is None else run.after_batch + 1
        if first <= upto:
            if found and found[-1].epoch == run.epoch:
                found[-1] = attrs.evolve(found[-1], first=first)
            else:
                found.append(Stretch(run.epoch, first, upto))
            upto = first - 1
    return found[::-1]


def _copy_state(
    directory: StateDirectory, new: StateDirectory, metadata: SavepointMetadata, epoch: Epoch, batch: int
) -> tuple[int, int]:
    """Copy the files of the state, and begin an epoch with it; return their number and size."""
    new.create_folders()
    size = 0
    names = sorted(set(_names_of(metadata, directory.folder)))
    for name in names:
        place, _, file = name.rpartition("/")
        target = new.folder.folder(place)
        target.create()
        size += directory.folder.folder(place).link(file, target)
    first = attrs.evolve(epoch, number=1, after_batch=batch, base="1", begun=None)
    base = new.base(first.base)
    base.create()
    if first.lineage is not None:
        base.write(LINEAGE, first.lineage.to_json())
    base.write_last(METADATA, write_metadata(moved(metadata, directory.folder, new.folder)))
    new.begin_epoch(attrs.evolve(first, base_sha256=new.digest_of_base(first.base)))
    return len(names), size


def _names_of(metadata: SavepointMetadata, folder: Folder) -> Iterator[str]:
    """Yield the names of the files of a state that are in its directory; others are where they were before."""
    start = f"{uri_of(folder)}/"
    for stream in metadata.streams:
        if isinstance(stream, AbsoluteFileHandle) and stream.uri.startswith(start):
            yield stream.uri[len(start) :]


def _copy_checkpoint(source: Folder, target: Folder, batch: int) -> None:
    """Copy what a checkpoint has up to a batch; the copy is of another query."""
    target.create()
    old, new = (f"{parted(folder.place)[0].rpartition('://')[2]}/".encode() for folder in (source, target))
    for name in source.names_below():
        place, _, file = name.rpartition("/")
        if file.startswith(".") or name == NOTE or _is_later(name, batch):
            continue
        folder = target.folder(place) if place else target
        folder.create()
        if name == "metadata":  # a sink that remembers what a query has written takes the copy for another one
            folder.write_last(file, json.dumps({"id": str(uuid.uuid4())}).encode())
        elif _FACTS_OF_STATE.fullmatch(name):
            folder.write(file, source.read(name).replace(old, new))
        else:
            (source.folder(place) if place else source).copy(file, folder)


def _is_later(name: str, batch: int) -> bool:
    if found := _OF_BATCH.fullmatch(name):
        return int(found[1]) > batch
    found = _OF_VERSION.fullmatch(name)
    return found is not None and int(found[1]) > batch + 1
