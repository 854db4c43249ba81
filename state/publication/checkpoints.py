"""The checkpoints of a job, in Flink's layout, and what becomes of their files.

    ROOT/JOB/_stateshift-job.json     written first: the folder is one of ours
    ROOT/JOB/chk-N/_metadata          written last, by rename; the files of this checkpoint alone beside it
    ROOT/JOB/shared/UUID              files that several checkpoints use

The last checkpoints are retained. When one is dropped its `_metadata` goes first, then its own files, then the shared
ones that no other checkpoint needs. A process may die after any step: what it leaves is removed by the next one that
opens the folder, or by `stateshift clean`. Both touch nothing that a checkpoint needs, whichever job it is of, and
nothing that has a name which no run of ours gives. Source: runtime notes, section 4.
"""

from __future__ import annotations

import json
import re
import uuid
from collections import Counter
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from ... import __version__
from ...serializers.errors import DeclarationError, SavepointNotFound, StateShiftError
from ..formats.flink.handles import AbsoluteFileHandle, SegmentHandle
from ..formats.flink.metadata import METADATA, read_metadata
from ..storage.files import Folder
from .publish import now
from .runs import is_name_of_run, savepoint_files
from .target_lock import claimed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .target_lock import Claim

JOB_FILE = "_stateshift-job.json"
SHARED = "shared"
_CHECKPOINT = re.compile(r"chk-([0-9]+)")
_JOB = re.compile(r"[0-9a-f]{32}")
_SHARED_FILE = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class CheckpointStorage:
    """The checkpoints of a job that runs. Created with `open_checkpoints`.

    Args:
        claim: The claim of the job's folder.
        retained: How many complete checkpoints are kept.

    Attributes:
        folder: The job's folder.
        shared: The folder for files that several checkpoints use.
    """

    def __init__(self, claim: Claim, retained: int) -> None:
        self._claim, self._retained = claim, retained
        self.folder = claim.folder
        self.shared = claim.folder.folder(SHARED)
        self._uses = {number: _shared_names(_chk(self.folder, number), self.folder) for number in _numbers(self.folder)}
        self._elsewhere = _used_elsewhere(self.folder)
        self._counts = Counter(name for names in self._uses.values() for name in names)

    @property
    def latest(self) -> Folder | None:
        """The folder of the last complete checkpoint; None: there is none."""
        return _chk(self.folder, max(self._uses)) if self._uses else None

    @property
    def next_id(self) -> int:
        """The id of the next checkpoint: one more than the last complete one has."""
        return max(self._uses, default=0) + 1

    @contextmanager
    def checkpoint(self, checkpoint_id: int) -> Iterator[Folder]:
        """Yield the folder of a new checkpoint, in which the `with` block writes `_metadata` last.

        Afterwards checkpoints are dropped until as many are left as are retained. Where the block fails before
        `_metadata` is written, what it wrote is removed.

        Raises:
            DeclarationError: There is such a checkpoint already.
            MigrationFailed: Another run took the folder over.
        """
        if checkpoint_id in self._uses:
            raise DeclarationError(f"there is a checkpoint {checkpoint_id} in {self.folder.place} already")
        self._claim.require()
        folder = _chk(self.folder, checkpoint_id)
        folder.create()
        self.folder.sync()
        try:
            yield folder
        except BaseException:
            with suppress(StateShiftError):  # the original failure is the one to report
                if not folder.exists(METADATA):
                    self.sweep()
            raise
        finally:
            if folder.exists(METADATA):
                self._uses[checkpoint_id] = _shared_names(folder, self.folder)
                self._counts.update(self._uses[checkpoint_id])
                self._claim.require()
                self._drop()

    def sweep(self) -> tuple[str, ...]:
        """Remove what dead or failed runs left; return the names of the files."""
        return _sweep(self.folder, {*self._counts, *self._elsewhere})

    def _drop(self) -> None:
        for number in sorted(self._uses)[: -self._retained or None]:
            names = self._uses.pop(number)
            _remove(_chk(self.folder, number))
            self._counts.subtract(names)
            for name in sorted(names):
                if not self._counts[name]:
                    del self._counts[name]
                    if name not in self._elsewhere:
                        self.shared.delete(name)


@contextmanager
def open_checkpoints(root: Folder | str, job: str = "", *, retained: int = 1) -> Iterator[CheckpointStorage]:
    """Claim the folder of a job below `root`, and remove what a dead run left there; until the `with` block ends.

    Args:
        root: The folder of all jobs, or its path or URI (`execution.checkpointing.dir`).
        job: The id of the job, 32 hexadecimal digits; "": a new one.
        retained: How many complete checkpoints are kept (`execution.checkpointing.num-retained`).

    Raises:
        DeclarationError: The id is malformed, or the folder is not one of ours.
        TargetExists: Another run is writing there.
        CorruptSavepoint: A checkpoint there cannot be read.
    """
    if job and not _JOB.fullmatch(job):
        raise DeclarationError(f"{job!r} is not the id of a job: 32 hexadecimal digits")
    if retained < 1:
        raise DeclarationError(f"{retained} checkpoints cannot be retained: at least one is")
    folder = (Folder.at(root) if isinstance(root, str) else root).folder(job or uuid.uuid4().hex)
    folder.create()
    if not folder.exists(JOB_FILE):
        if _numbers(folder) or folder.exists(SHARED):
            raise DeclarationError(
                f"another program wrote the checkpoints in {folder.place}",
                advice="restore from one of them, and write into the folder of a new job",
            )
        folder.write(JOB_FILE, json.dumps({"stateshift": __version__, "created": now()}).encode())
    with claimed(folder) as claim:
        claim.folder.folder(SHARED).create()
        storage = CheckpointStorage(claim, retained)
        storage.sweep()
        yield storage


def is_job_folder(folder: Folder) -> bool:
    """Whether a folder has the checkpoints of a job of ours."""
    return folder.exists(JOB_FILE)


def clean_job(folder: Folder) -> tuple[str, ...]:
    """Remove what dead runs left in the folder of a job; return the names of the files.

    Raises:
        TargetExists: A run is writing there.
        CorruptSavepoint: A checkpoint there, or in the folder of another job beside it, cannot be read, so it is not
            known which files it needs; nothing is removed.
    """
    with claimed(folder) as claim:
        used = _used_elsewhere(folder).union(
            *(_shared_names(_chk(folder, number), folder) for number in _numbers(folder))
        )
        return tuple(f"_claim-{run}" for run, _ in claim.taken) + _sweep(folder, used)


def _chk(job: Folder, number: int) -> Folder:
    return job.folder(f"chk-{number}")


def _numbers(job: Folder) -> list[int]:
    """Return the ids of the complete checkpoints in the folder of a job."""
    found = [int(match[1]) for name in job.names() if (match := _CHECKPOINT.fullmatch(name))]
    return [number for number in sorted(found) if _chk(job, number).exists(METADATA)]


def _shared_names(checkpoint: Folder, job: Folder) -> frozenset[str]:
    """Return the names of the shared files of a job that a checkpoint needs, which may have been moved with the job."""
    start = f"/{job.place.partition('?')[0].rstrip('/').rpartition('/')[2]}/{SHARED}/"
    uris = (
        stream.uri
        for stream in read_metadata(checkpoint.read(METADATA)).streams
        if isinstance(stream, AbsoluteFileHandle | SegmentHandle)
    )
    return frozenset(uri.rpartition("/")[2] for uri in uris if f"{uri.rpartition('/')[0]}/".endswith(start))


def _used_elsewhere(job: Folder) -> frozenset[str]:
    """Return the names of the shared files that checkpoints of other jobs need, which may have claimed one of this."""
    root, names = next(job.above()), set[str]()
    for place in (root.folder(name) for name in root.names() if _JOB.fullmatch(name)):
        if place != job:
            names.update(*(_shared_names(_chk(place, number), job) for number in _numbers(place)))
    return frozenset(names)


def _sweep(job: Folder, used: set[str] | frozenset[str]) -> tuple[str, ...]:
    """Remove incomplete checkpoints, attempts beside complete ones, and shared files that are in no use."""
    removed = []
    for name in job.names():
        if _CHECKPOINT.fullmatch(name):
            place = job.folder(name)
            kept = set(savepoint_files(place)) if place.exists(METADATA) else set()
            for file in place.names():
                if file not in kept and is_name_of_run(file):
                    place.delete(file)
                    removed.append(f"{name}/{file}")
            if not kept:
                place.delete_empty()
    shared = job.folder(SHARED)
    with suppress(SavepointNotFound):
        for name in shared.names():
            if _SHARED_FILE.fullmatch(name) and name not in used:
                shared.delete(name)
                removed.append(f"{SHARED}/{name}")
    return tuple(removed)


def _remove(checkpoint: Folder) -> None:
    """Remove a complete checkpoint: `_metadata` first, so that there is no checkpoint without its files."""
    names = set(savepoint_files(checkpoint)) - {METADATA}
    checkpoint.delete(METADATA)
    checkpoint.sync()
    for name in sorted(names):
        checkpoint.delete(name)
    checkpoint.delete_empty()
