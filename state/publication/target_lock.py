"""The lock of a target, which allows one run at a time: a run writes a claim, and checks for claims of other runs.

    _claim-<run>      JSON: user, host and process of the owner, and since when; <run> is 12 hexadecimal digits

A run writes its claim first and lists the others afterwards, so of two simultaneous runs at least one sees the other;
this does not need a store with conditional writes. A claim is renewed every 15 seconds. It is dead if its process has
ended, where that can be determined from here (`lock_owner`); else if it has not been renewed for two minutes by the
clock of the store. The next run takes over the claim of a dead run; a run checks before each rename whether it has lost
its claim, and then removes the files that it has written since.
"""

from __future__ import annotations

import datetime as dt
import getpass
import json
import os
import random
import re
import threading
import time
import uuid
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.json_files import parse_json
from ...serializers.errors import CorruptFile, MigrationFailed, SavepointNotFound, StateShiftError, TargetExists
from ..storage.lock_owner import Owner
from .source_guard import refuse_by_claim, refuse_by_place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..storage.files import Folder
    from .source_guard import Read

SILENT_S = 120.0
"""A claim that was not renewed for so long is dead, if the state of its process is not known."""

CLAIM_NAME = re.compile(r"_claim-([0-9a-f]{12})")
"""The file name of a claim."""

_BEAT_S = 15.0
_SAME_TIME_S = 5.0
_TRIES = 5
_MOST_BYTES = 1 << 16


class RunInProgress(TargetExists):
    """Another run has claimed the target.

    Attributes:
        owner: Who owns the claim, and since when.
        until: When the claim ends if its owner is dead; "": its process is known to run.
    """

    def __init__(self, what: str, *, owner: str = "", until: str = "", **rest: Any) -> None:
        super().__init__(what, **rest)
        self.owner, self.until = owner, until


@attrs.frozen
class Claim:
    """The exclusive claim of a run on a folder. It can be pickled, so that each process of a run can check it.

    Attributes:
        folder: The target; `folder.run` is the id of the run.
        made: The folders that were created for it, the innermost first.
        taken: The ids of the dead runs whose claims this run took over, each with whether its process is known to have
            ended, so that it cannot write any more.
        has_list: Whether the run has written the list of the files that it may write.
    """

    folder: Folder
    made: tuple[Folder, ...] = ()
    taken: tuple[tuple[str, bool], ...] = ()
    has_list: bool = False

    @property
    def name(self) -> str:
        """The name of the claim's file."""
        return f"_claim-{self.folder.run}"

    @property
    def list_name(self) -> str:
        """The name of the file that lists the files that the run may write (`runs`)."""
        return f"_run-{self.folder.run}"

    def is_held(self) -> bool:
        """Whether the target was neither taken over nor cleaned; True if the store does not answer.

        The list is checked too, because it is written only once: a renewal on a store may recreate a removed claim.
        """
        try:
            return self.folder.exists(self.name) and (not self.has_list or self.folder.exists(self.list_name))
        except StateShiftError:
            return True

    def require(self) -> None:
        """Check that the claim is held, before a file is renamed or a savepoint published.

        Raises:
            MigrationFailed: The target was taken over, or cleaned.
        """
        if not self.is_held():
            raise MigrationFailed(
                "another run took the target over, or it was cleaned, while this run gave no sign of life",
                advice="find out what else writes there, and run the same command again",
                savepoint=self.folder.place,
            )

    def renew(self) -> bool:
        """Renew the claim; return False if it was lost."""
        if not self.folder.exists(self.name):
            return False
        if not self.folder.is_local:
            data = self.folder.read(self.name)
            with self.folder.output(self.name) as stream:
                stream.write(data)
            return True
        try:
            os.utime(f"{self.folder.place}/{self.name}")  # unlike a write, does not recreate the file
        except FileNotFoundError:
            return False
        except OSError:
            return True  # the next renewal decides
        return True

    def release(self) -> None:
        """Release the target, and delete the folders that were created for it and are empty."""
        with suppress(StateShiftError):  # if the store does not answer, the claim will expire
            self.folder.delete(self.name)
            for folder in self.made:
                folder.delete_empty()


def lay(folder: Folder, reads: tuple[Read, ...] = (), process: int | None = None) -> Claim:
    """Claim a target; a missing folder is created. If the claim fails, it leaves nothing behind.

    Args:
        folder: The target.
        reads: The savepoints that the run reads; they are never written to.
        process: The PID of the process that owns the claim, if it is not this one.

    Raises:
        TargetExists: Another run is writing there, as far as is known; or the target is a source, contains files of one
            or is inside one, or inside a savepoint.
    """
    refuse_by_place(folder, reads)
    made = folder.create()
    for attempt in range(_TRIES):
        claim = Claim(attrs.evolve(folder, run=uuid.uuid4().hex[:12]), made)
        try:
            _write(claim, Owner.here(process))
            refuse_by_claim(folder, reads, claim.name)
            others = _others(claim)
            rival = next((other for other in others if not other.is_dead), None)
            if rival is None:
                return attrs.evolve(claim, taken=tuple((other.run, other.is_gone) for other in others))
            if attempt == _TRIES - 1 or rival.age_s > _SAME_TIME_S:
                raise _taken(folder, rival)
        except BaseException:
            claim.release()
            raise
        folder.delete(claim.name)
        time.sleep(random.uniform(0, 1))  # noqa: S311 - not a secret: both runs should retry at different times
    raise AssertionError


@contextmanager
def claimed(folder: Folder, reads: tuple[Read, ...] = ()) -> Iterator[Claim]:
    """Claim a target until the `with` block ends, and remove claims of dead runs. Arguments and errors as in `lay`."""
    claim = lay(folder, reads)
    try:
        with renewed(claim):
            take_over(claim)
            yield claim
    finally:
        claim.release()


def take_over(claim: Claim) -> None:
    """Remove the claims of dead runs; rename the list of a run that may still write, which so has lost its claim."""
    for run, is_gone in claim.taken:
        if not is_gone:
            with suppress(SavepointNotFound):
                claim.folder.rename(f"_run-{run}", f"_late-{run}")
        claim.folder.delete(f"_claim-{run}")


@contextmanager
def renewed(claim: Claim) -> Iterator[None]:
    """Renew a claim until the `with` block ends."""
    ended = threading.Event()
    beating = threading.Thread(target=_beat, args=(claim, ended), daemon=True)
    beating.start()
    try:
        yield
    finally:
        ended.set()
        beating.join()


def _beat(claim: Claim, ended: threading.Event) -> None:
    """Renew the claim periodically, until it is lost."""
    while not ended.wait(_BEAT_S):
        with suppress(StateShiftError):  # the next renewal decides
            if not claim.renew():
                return


@attrs.frozen
class _Other:
    """The claim of another run.

    Attributes:
        run: The id of the run.
        facts: The content of the claim; empty if it is just being written.
        age_s: The time since its renewal, by the store's clock.
        runs: Whether its process runs; None where that is not known.
    """

    run: str
    facts: dict[str, Any]
    age_s: float
    runs: bool | None

    @property
    def is_gone(self) -> bool:
        """Whether its process is known to have ended."""
        return self.runs is False

    @property
    def is_dead(self) -> bool:
        """Whether its process has ended, or, where that is not known, the claim was not renewed for too long."""
        return self.is_gone or (self.runs is None and self.age_s > SILENT_S)


def _others(own: Claim) -> list[_Other]:
    """Return the claims of other runs."""
    folder, found = own.folder, []
    written_s = folder.written_s(own.name)
    for name in _claims(folder):
        if name != own.name:
            with suppress(SavepointNotFound):  # the run has just ended
                age_s, facts = written_s - folder.written_s(name), _facts(folder, name)
                found.append(_Other(name.partition("-")[2], facts, age_s, Owner.of(facts).runs()))
    return found


def _claims(folder: Folder) -> list[str]:
    return [name for name in folder.names() if CLAIM_NAME.fullmatch(name)]


def _facts(folder: Folder, name: str) -> dict[str, Any]:
    """Return the content of a claim; an empty dict if it is just being written."""
    with suppress(CorruptFile):
        with folder.open_range(name) as file:
            facts = parse_json(file.read_at(0, min(file.size, _MOST_BYTES)))
        return facts if isinstance(facts, dict) else {}
    return {}


def _write(claim: Claim, owner: Owner) -> None:
    since = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    facts = {"user": _user(), **attrs.asdict(owner), "since": since}
    with claim.folder.output(claim.name) as stream:
        stream.write(json.dumps(facts).encode())


def _user() -> str:
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):
        return ""  # a container may run under a user id without a name


def _taken(folder: Folder, rival: _Other) -> RunInProgress:
    facts = rival.facts
    owner = (
        f"by {facts.get('user') or 'an unknown user'} on {facts.get('host', 'an unknown host')}, process "
        f"{facts.get('process', 'unknown')}, since {facts.get('since', 'a moment')}"
    )
    until = "when its process ends" if rival.runs else f"{SILENT_S / 60:.0f} minutes after its last sign of life"
    return RunInProgress.before_writing(
        f"another run is in progress in {folder.place}: {owner}",
        owner=owner,
        until="" if rival.runs else until,
        advice=f"wait until it has ended, or choose another folder; if it is dead, its claim ends {until}",
    )
