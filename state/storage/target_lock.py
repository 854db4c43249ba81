"""One run at a time in a target: a run lays a claim beside its files, and looks who else has one.

    _claim-<run>      JSON: user, host and process of the owner, and since when; <run> is 12 hexadecimal digits

A run writes its claim first and lists the others afterwards, so of two that come at once at least one sees the other;
no store has to create a file under a condition for that. A claim is renewed every few seconds. It is dead when its
process is gone, where that can be told from here (`lock_owner`); else when it was not renewed for two minutes by the
clock of the store. What a dead run has claimed, the next one takes over; who lost a claim finds out before each name
that it gives, and removes what it has written since.
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
from .lock_owner import Owner
from .source_guard import refuse_by_claim, refuse_by_place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .files import Folder
    from .source_guard import Read

SILENT_S = 120.0
"""A claim that was not renewed for so long is dead, where nothing else tells."""

CLAIM_NAME = re.compile(r"_claim-([0-9a-f]{12})")
"""What the file of a claim is called."""

_BEAT_S = 15.0
_SAME_TIME_S = 5.0
_TRIES = 5
_MOST_BYTES = 1 << 16


@attrs.frozen
class Claim:
    """That one run, and no other, writes to a folder. It pickles: each process of a run may ask whether it is held.

    Attributes:
        folder: The target, as the run writes to it: `folder.run` names the run.
        made: The folders that were made for it, the innermost first.
        taken: What the runs that were dead are called, whose claims this one took over; of each whether its process is
            known to be gone, so that nothing of it can come any more.
        has_list: Whether the run has told what it may write.
    """

    folder: Folder
    made: tuple[Folder, ...] = ()
    taken: tuple[tuple[str, bool], ...] = ()
    has_list: bool = False

    @property
    def name(self) -> str:
        """Name of the claim's file."""
        return f"_claim-{self.folder.run}"

    @property
    def list_name(self) -> str:
        """Name of the file that lists what the run may write (`runs`)."""
        return f"_run-{self.folder.run}"

    def is_held(self) -> bool:
        """Whether nobody has taken the target over, or cleaned it; a store that does not answer has not told so.

        The list is written once. A claim could come again, by a sign of life on a store that makes the file anew.
        """
        try:
            return self.folder.exists(self.name) and (not self.has_list or self.folder.exists(self.list_name))
        except StateShiftError:
            return True

    def require(self) -> None:
        """Make sure of it before a name is given, or a savepoint published.

        Raises:
            MigrationFailed: The target was taken over, or cleaned.
        """
        if not self.is_held():
            raise MigrationFailed(
                "another run has taken the target over, or it was cleaned, while this one was silent",
                advice="look who else writes there, and run the same command again",
                savepoint=self.folder.place,
            )

    def renew(self) -> bool:
        """Give a sign of life; False where the claim was lost: it stays so."""
        if not self.folder.exists(self.name):
            return False
        if not self.folder.is_local:
            data = self.folder.read(self.name)
            with self.folder.output(self.name) as stream:
                stream.write(data)
            return True
        try:
            os.utime(f"{self.folder.place}/{self.name}")  # makes no file anew, as a write would
        except FileNotFoundError:
            return False
        except OSError:
            return True  # the next time will tell
        return True

    def release(self) -> None:
        """Give the target up, with the folders that were made for it and stayed empty."""
        with suppress(StateShiftError):  # a store that does not answer: the claim will be a dead one
            self.folder.delete(self.name)
            for folder in self.made:
                folder.delete_empty()


def lay(folder: Folder, reads: tuple[Read, ...] = (), process: int | None = None) -> Claim:
    """Claim a target; a folder that is not there is made. Where this fails, nothing of it is left.

    Args:
        folder: The target.
        reads: What the run reads; it is never written to.
        process: Number of the process that owns the claim, where it is not this one.

    Raises:
        TargetExists: Another run is at work there, as far as can be told; or the target is, holds or lies in what is
            read, or lies in a savepoint.
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
        time.sleep(random.uniform(0, 1))  # noqa: S311 - no secret: the two are to come back at different times
    raise AssertionError


@contextmanager
def claimed(folder: Folder, reads: tuple[Read, ...] = ()) -> Iterator[Claim]:
    """Claim a target until the `with` block ends; the claims of dead runs go. Arguments and errors as of `lay`."""
    claim = lay(folder, reads)
    try:
        with renewed(claim):
            take_over(claim)
            yield claim
    finally:
        claim.release()


def take_over(claim: Claim) -> None:
    """Remove the claims of dead runs. Of one that may still write, the list stays under a name that ends its run."""
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
    """Renew the claim again and again; one that was lost stays lost."""
    while not ended.wait(_BEAT_S):
        with suppress(StateShiftError):  # the next time will tell
            if not claim.renew():
                return


@attrs.frozen
class _Other:
    """The claim of another run.

    Attributes:
        run: What it is called.
        facts: What it says; nothing where it is just being written.
        age_s: How long ago it was renewed, by the store's clock.
        runs: Whether its process runs; None where nobody can tell.
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
        """Whether it is gone, or was silent for too long where nothing else tells."""
        return self.is_gone or (self.runs is None and self.age_s > SILENT_S)


def _others(own: Claim) -> list[_Other]:
    """Look at the claims of other runs."""
    folder, found = own.folder, []
    written_s = folder.written_s(own.name)
    for name in _claims(folder):
        if name != own.name:
            with suppress(SavepointNotFound):  # it has just ended
                age_s, facts = written_s - folder.written_s(name), _facts(folder, name)
                found.append(_Other(name.partition("-")[2], facts, age_s, Owner.of(facts).runs()))
    return found


def _claims(folder: Folder) -> list[str]:
    return [name for name in folder.names() if CLAIM_NAME.fullmatch(name)]


def _facts(folder: Folder, name: str) -> dict[str, Any]:
    """What a claim says; nothing where it is just being written."""
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
        return ""  # a container may run under a number without a name


def _taken(folder: Folder, rival: _Other) -> TargetExists:
    facts = rival.facts
    owner = f"{facts.get('user') or 'somebody'} on {facts.get('host', 'an unknown host')}"
    until = "when its process ends" if rival.runs else f"{SILENT_S / 60:.0f} minutes after its last sign of life"
    return TargetExists(
        f"another run is at work in {folder.place}: of {owner}, process {facts.get('process', 'unknown')}, "
        f"since {facts.get('since', 'a moment')}",
        advice=f"wait until it has ended, or choose another folder; if it is dead, its claim ends {until}",
        written="Nothing was written.",
    )
