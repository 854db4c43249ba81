"""Migration of a job's state while the job runs, until the stop, after which only the last changes are left.

    follower = Follower("/data/checkpoints/JOB", "/data/sp-2", job)
    while not stopped:
        follower.step()                 # converts up to the newest completed checkpoint
        print(follower.status.stop_s)   # what a stop would cost now
    follower.finish("/data/sp-1")       # the final savepoint: converts the rest, and publishes

The files of the job are only read. What is converted is in a folder of its own, beside the target if no other one is
given; a process that dies loses what it did since its last note, at most half a minute ago.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.reference_time import parse_time, time_text
from ...serializers.errors import (
    CorruptSavepoint,
    DeclarationError,
    SavepointNotFound,
    StorageFailed,
    TargetExists,
    UnsupportedFormat,
)
from ..formats.flink.metadata import METADATA
from ..migration.migration import DEFAULTS, migrate_savepoint
from ..migration.preparation import prepare
from ..migration.tasks import KeyedTask, RekeyTask
from ..publication.publish import IfTargetExists, check_target
from ..savepoint.reader import Savepoint
from ..storage.files import Folder
from .checkpoints import newest_checkpoint
from .stopping import StoppingSavepoints
from .subtask import Followable, FollowedSubtask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ...compat.description import JobDescription
    from ..formats.flink.roots import AllowedRoot
    from ..job import Job
    from ..migration.options import MigrationOptions
    from ..migration.preparation import Preparation
    from ..migration.report import MigrationReport
    from ..migration.tasks import Task
    from ..progress import Progress

_SUFFIX, _NOTES, _LOCK = ".following", "following.json", "lock"
_HOME = re.compile(r"[0-9a-f]{32}-[0-9]+")
"""The folder of a subtask."""
_OURS = re.compile(rf"{_LOCK}|{_NOTES}(\.attempt-.*)?|{_HOME.pattern}")
_TRIES = 3
_AGAIN_S = 1.0
_LOOK_S = 0.05
"""How often a local folder is looked at for the savepoint of the stop: the job stands still meanwhile."""


@attrs.frozen
class FollowStatus:
    """How far the following of a job is.

    Attributes:
        checkpoint: The place of the newest checkpoint that is converted as a whole; "": none is yet.
        newest: The place of the newest completed checkpoint that is known.
        lag_s: The seconds since the converted checkpoint was completed; None: none is yet.
        bytes_left: About how many bytes of files must be looked at until the newest checkpoint is converted.
        linked_bytes: The bytes of files that the job has deleted, and that are kept until they are looked at.
        stop_s: About how many seconds the migration would take if the job were stopped now; None: not known yet.
        states: The states that are followed, each as operator and name.
        at_the_end: The states that are converted at the end only, each with the reason.
        begun_again: The subtasks that began again since the process started, each with the reason.
        passed_over: Savepoints that appeared where the stop writes its own, and are not that, each with the reason.
        finished: Whether another process has called `finish`, so that there is nothing left to follow.
    """

    checkpoint: str = ""
    newest: str = ""
    lag_s: float | None = None
    bytes_left: int = 0
    linked_bytes: int = 0
    stop_s: float | None = None
    states: tuple[str, ...] = ()
    at_the_end: tuple[str, ...] = ()
    begun_again: tuple[str, ...] = ()
    passed_over: tuple[str, ...] = ()
    finished: bool = False

    @property
    def is_up_to_date(self) -> bool:
        """Whether the newest checkpoint is converted."""
        return self.checkpoint == self.newest != ""

    def to_data(self) -> dict[str, Any]:
        """Return the status as plain data."""
        return attrs.asdict(self) | {"up_to_date": self.is_up_to_date}


@attrs.define
class _Rates:
    """What was measured: how fast files are looked at, how fast a job changes them, and what each stop costs."""

    done_bytes: int = 0
    done_s: float = 0.0
    changed_bytes: int = 0
    changed_s: float = 0.0
    fixed_s: float = 0.0

    def stop_s(self, left: int, since_s: float) -> float | None:
        """Return the seconds of a stop."""
        if not self.done_s or not self.done_bytes:
            return None
        growing = self.changed_bytes / self.changed_s if self.changed_s else 0.0
        return self.fixed_s + (left + growing * since_s) * self.done_s / self.done_bytes


class Follower:
    """Follows the checkpoints of a running job.

    Args:
        checkpoints: The folder of the job's checkpoints, `ROOT/JOB`; or `ROOT`, where restarts of the job begin
            folders of their own. A local path, or a URI of any store.
        target: The place of the new savepoint, which `finish` writes.
        job: The new types; None if they stay.
        options: The options of the migration; the same at each step.
        work: A local folder for what is converted, which must be new or empty at first; by default that of the target,
            with `.following` at the end.
        most_bytes_per_s: How many bytes of the job's files are looked at in a second, at most; None: as fast as it can.
        allow_roots: Further folders that may contain files of the job's checkpoints, as in `Savepoint.open`.
        until: The folder to which the stop will write its savepoint, for `wait`; a local path, or a URI of any store.
        tell: Called with the status after each part of the work.

    Raises:
        DeclarationError: The target is on a store, and no folder for the work is given.
    """

    def __init__(
        self,
        checkpoints: str | os.PathLike[str],
        target: str | os.PathLike[str],
        job: Job | JobDescription | None = None,
        options: MigrationOptions = DEFAULTS,
        *,
        work: str | os.PathLike[str] = "",
        most_bytes_per_s: float | None = None,
        allow_roots: Iterable[AllowedRoot] = (),
        until: str | os.PathLike[str] = "",
        tell: Callable[[FollowStatus], None] = lambda _: None,
    ) -> None:
        self._place, self._target, self._job, self._options = Folder.at(checkpoints), Folder.at(target), job, options
        if not work and not self._target.is_local:
            raise DeclarationError(
                "what is converted needs a local folder, and the target is on a store",
                advice="name a local folder for it as the place of the work",
            )
        self.work = Path(work or f"{self._target.place}{_SUFFIX}").absolute()
        self._most, self._allow_roots, self._tell = most_bytes_per_s, tuple(allow_roots), tell
        self._stop = StoppingSavepoints(Folder.at(until), self._allow_roots) if until else None
        self._rates, self._completed_s, self._told_s = _Rates(), 0.0, 0.0
        self._subtasks: list[FollowedSubtask] = []
        self.status = FollowStatus()

    @property
    def target(self) -> str:
        """The place of the new savepoint."""
        return self._target.place

    def check_target(self, target_exists: IfTargetExists = IfTargetExists.FAIL) -> None:
        """Refuse before the stop what `finish` would refuse after it: a target that is not empty.

        Args:
            target_exists: What `finish` will do about it.

        Raises:
            TargetExists: It is taken.
        """
        check_target(self._target, target_exists)

    # Following

    def step(self) -> FollowStatus:
        """Convert up to the newest completed checkpoint, if it is not converted yet; return the status.

        A checkpoint that the job deletes in the meantime is no error: the next one is taken.

        Raises:
            UnsupportedFormat: No state can be followed; the error says why.
            TargetExists: Another process follows or finishes in the same folder, or it has something else in it.
            StateShiftError: As in `stateshift.migrate`; what is converted stays, and the next call goes on.
        """
        with self._locked():
            if self.status.newest and not (self.work / _NOTES).exists():
                self._delete_work()
                if not self._target.exists(METADATA):
                    self.status = FollowStatus()
                    raise StorageFailed(
                        f"what was converted in {self.work} was deleted, and there is no savepoint in {self.target}",
                        advice="follow again: it begins from the start",
                    )
                self.status = attrs.evolve(self.status, finished=True)
                return self.status
            self._begin()
            for left in reversed(range(_TRIES)):
                newest = newest_checkpoint(self._place)
                if newest is None or newest.place == self.status.checkpoint:
                    break
                self.status = attrs.evolve(self.status, newest=newest.place)
                try:
                    self._link(newest)
                except (SavepointNotFound, CorruptSavepoint):
                    if not left:
                        raise
                    time.sleep(_AGAIN_S)  # the job deletes it, and completes the next one
                    continue
                self._apply()
                break
            return self._updated()  # no other process deletes files meanwhile

    def _begin(self) -> None:
        """Note which savepoints were there before the job was followed."""
        if self._stop is not None and self._stop.earlier is None:
            notes = self._notes()
            self._stop.begin(notes.get("earlier"))
            if notes and "earlier" not in notes:
                self._note({})

    def wait(self, seconds: float) -> str:
        """Wait until it is time for the next step, or the savepoint of the stop is there.

        Args:
            seconds: How long, at most.

        Returns:
            The place of the savepoint of the stop, for `finish`; "": there is none yet.

        Raises:
            CorruptSavepoint, UntrustedPlace: It cannot be read.
        """
        end, stop = time.monotonic() + seconds, self._stop
        while True:
            left = end - time.monotonic()
            if stop is None or not self._subtasks:
                time.sleep(max(left, 0))
                return ""
            found = stop.find({one.backend_id for one in self._subtasks})
            passed_over = tuple(f"{name}: {why}" for name, why in stop.passed_over.items())
            self.status = attrs.evolve(self.status, passed_over=passed_over)
            if found or left <= 0:
                return found
            time.sleep(min(left, _LOOK_S) if stop.place.is_local else left)

    def _link(self, checkpoint: Folder) -> None:
        began = time.monotonic()
        completed_s = checkpoint.written_s("_metadata")
        prepared = self._prepared(Savepoint.open(checkpoint.place, allow_roots=self._allow_roots))
        subtasks = self._followed(prepared)
        if not subtasks:
            raise UnsupportedFormat(
                "no state can be converted while the job runs" + "".join(f"; {why}" for why in self.status.at_the_end),
                advice="stop the job with a savepoint, and migrate that",
                savepoint=checkpoint.place,
            )
        for subtask in subtasks:
            subtask.link()
        if self._completed_s:
            self._rates.changed_bytes += sum(one.outstanding_bytes for one in subtasks)
            self._rates.changed_s += max(completed_s - self._completed_s, 0.0)
        self._subtasks, self._newest_s = subtasks, completed_s
        self._rates.fixed_s = time.monotonic() - began
        self._updated()

    def _apply(self) -> None:
        began, left = time.monotonic(), sum(one.outstanding_bytes for one in self._subtasks)
        is_first = not self._completed_s
        for subtask in self._subtasks:
            subtask.apply()
            self._updated()
        self._completed_s = self._newest_s
        if (left and not is_first) or not self._rates.done_bytes:
            self._rates.done_bytes += left
            self._rates.done_s += time.monotonic() - began
        self.status = attrs.evolve(self.status, checkpoint=self.status.newest)

    def _prepared(self, savepoint: Savepoint) -> Preparation:
        notes = self._notes()
        options = self._options
        if options.reference_time is None and notes.get("reference_time"):
            options = attrs.evolve(options, reference_time=parse_time(notes["reference_time"]))
        prepared = prepare(savepoint, self._job, options)
        time_of = prepared.plan.reference_time
        if not notes:
            self._note({"reference_time": None if time_of is None else time_text(time_of)})
        return prepared

    def _note(self, added: dict[str, Any]) -> None:
        self.work.mkdir(parents=True, exist_ok=True)
        earlier = {} if self._stop is None else {"earlier": sorted(self._stop.earlier or ())}
        Folder.at(self.work).write(_NOTES, json.dumps(self._notes() | added | earlier).encode())

    def _notes(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self.work / _NOTES).read_bytes())
        except FileNotFoundError:
            return {}
        return found

    def _followed(self, prepared: Preparation) -> list[FollowedSubtask]:
        """Return the subtasks that are followed, and note what is not."""
        source, subtasks = prepared.savepoint.folder, list[FollowedSubtask]()
        states, at_the_end = dict[str, None](), dict[str, None]()
        for task in prepared.tasks:
            found = self._followable(task, source)
            if isinstance(found, str):
                at_the_end |= {f"{task.title}: {found}": None} if found else {}
            elif isinstance(task, KeyedTask):
                states |= {f"{task.title}: {name}": None for name in sorted(found.states)}
                at_the_end |= {f"{task.title}: {name}: {why}": None for name, why in found.left.items()}
                if found.states:
                    home = self.work / f"{task.plan.operator_id}-{task.subtask}"
                    subtasks.append(FollowedSubtask(home, task, source, found, self._took))
        homes = {one.home.name for one in subtasks}
        for home in self._homes():
            if home.name not in homes:
                shutil.rmtree(home, ignore_errors=True)  # of a subtask that there is no more
        again = tuple(f"{one.home.name}: {one.begun_again}" for one in subtasks if one.begun_again)
        self.status = attrs.evolve(
            self.status,
            states=tuple(states),
            at_the_end=tuple(at_the_end),
            begun_again=(*self.status.begun_again, *again),
        )
        return subtasks

    def _followable(self, task: Task, source: Folder) -> Followable | str:
        """Return what of a task can be followed, or why nothing can be; "": there is nothing to be converted."""
        if isinstance(task, RekeyTask):
            return "its keys are rewritten"
        if not isinstance(task, KeyedTask) or (task.plan.is_native and not task.read):
            return ""
        if not task.plan.is_native:
            return "it becomes canonical"
        return (
            Followable.of(task, source) or "its state is not in files of RocksDB with the key groups that it will have"
        )

    def _took(self, size: int) -> None:
        """Wait as long as the limit says, and tell the status now and then."""
        if self._most is not None:
            time.sleep(size / self._most)
        if time.monotonic() - self._told_s > 1:
            self._updated()

    def _updated(self) -> FollowStatus:
        """Return the status of this moment."""
        now, self._told_s = time.time(), time.monotonic()
        left = sum(one.outstanding_bytes for one in self._subtasks)
        since = now - self._completed_s if self._completed_s else None
        self.status = attrs.evolve(
            self.status,
            lag_s=since,
            bytes_left=left,
            linked_bytes=sum(one.held_bytes for one in self._subtasks),
            stop_s=None if since is None else self._rates.stop_s(left, since),
        )
        self._tell(self.status)
        return self.status

    # The end

    def finish(
        self,
        snapshot: str | os.PathLike[str],
        *,
        target_exists: IfTargetExists = IfTargetExists.FAIL,
        announce: Callable[[MigrationReport], None] | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> MigrationReport:
        """Convert what is left of a snapshot, and publish the new savepoint; the folder of the work is deleted.

        Args:
            snapshot: The final savepoint or checkpoint of the job.
            target_exists: What to do if the target is not empty; see `IfTargetExists`.
            announce: As in `stateshift.migrate`.
            progress: As in `stateshift.migrate`.

        Raises:
            DeclarationError: Nothing was followed with this target.
            TargetExists: It is finished already, or the folder of the work has something else in it.
            StateShiftError: As in `stateshift.migrate`; what is converted stays, and another call goes on.
        """
        savepoint = Savepoint.open(snapshot, allow_roots=self._allow_roots)
        with self._locked(waits=True):
            notes, options = self._notes(), self._options
            if not notes:
                self._delete_work()  # which the lock has made
            if not notes and self._target.exists(METADATA):
                raise TargetExists(
                    f"there is a savepoint in {self._target.place} already, and nothing is left to finish",
                    advice="use it; or name another target",
                )
            if not notes:
                raise DeclarationError(
                    f"nothing was converted in {self.work} while the job ran",
                    advice=("check the names of the target and of the folder of the work", "migrate without finishing"),
                )
            if options.reference_time is None and notes.get("reference_time"):
                options = attrs.evolve(options, reference_time=parse_time(notes["reference_time"]))
            report = migrate_savepoint(
                savepoint,
                self._target.place,
                self._job,
                options,
                target_exists=target_exists,
                announce=announce,
                progress=progress,
                brought_up=self._brought_up,
            )
            self._delete_work()
        return report

    def _brought_up(self, prepared: Preparation) -> Preparation:
        """Convert what is left, and return the preparation with tasks that link it."""
        subtasks = {one.home.name: one for one in self._followed(prepared)}
        self._subtasks = list(subtasks.values())
        tasks = []
        for task in prepared.tasks:
            subtask = subtasks.get(f"{task.plan.operator_id}-{task.subtask}") if isinstance(task, KeyedTask) else None
            if subtask is None or not isinstance(task, KeyedTask):
                tasks.append(task)
                continue
            subtask.link()
            subtask.apply()
            tasks.append(subtask.followed())
        return attrs.evolve(prepared, tasks=tuple(tasks))

    def _homes(self) -> list[Path]:
        return [path for path in self.work.iterdir() if _HOME.fullmatch(path.name)]

    def _delete_work(self) -> None:
        """Delete what is ours; the notes first, because nothing is to go on with the rest."""
        (self.work / _NOTES).unlink(missing_ok=True)
        for home in self._homes():
            shutil.rmtree(home, ignore_errors=True)
        (self.work / _LOCK).unlink(missing_ok=True)
        with suppress(OSError):  # something else is there
            self.work.rmdir()

    def _require_own(self) -> None:
        """Refuse a folder that was there before, with something else in it; raises `TargetExists`."""
        try:
            names = sorted(path.name for path in self.work.iterdir())
        except FileNotFoundError:
            return
        other = next((name for name in names if not _OURS.fullmatch(name)), None)
        if other is not None and _NOTES not in names:
            raise TargetExists(
                f"the folder of the work, {self.work}, has something else in it, such as {other}",
                advice="name a folder for the work that is empty, or that does not exist",
            )

    @contextmanager
    def _locked(self, *, waits: bool = False) -> Iterator[None]:
        """Let no other process work in the folder, until the `with` block ends.

        Raises:
            TargetExists: Another process does, or the folder has something else in it.
        """
        import fcntl

        self._require_own()
        try:
            self.work.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.work / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StorageFailed(f"{self.work} cannot be written: {error.strerror}") from error
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
            except BlockingIOError as error:
                raise TargetExists(
                    f"another process converts in {self.work} at this moment", advice="wait for it, or stop it"
                ) from error
            yield
        finally:
            os.close(descriptor)
