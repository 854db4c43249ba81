"""One run at a time in a target: a run lays a claim beside its files, and looks who else has one.

    _claim-<12 hexadecimal digits>      JSON: user, host and process of the owner, and since when

A run writes its claim first and lists the others afterwards, so of two that come at once at least one sees the other;
no store has to create a file under a condition for that. A claim is written again every few seconds. It is dead when
its process is gone from this host, or when it was silent for two minutes by the clock of the store. What a dead run has
claimed, the next one takes over; who lost a claim finds out before it publishes.
"""

from __future__ import annotations

import datetime as dt
import getpass
import json
import os
import platform
import random
import re
import threading
import time
import uuid
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.json_files import parse_json
from ...serializers.errors import CorruptFile, MigrationFailed, StateShiftError, TargetExists

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .files import Folder

SILENT_S = 120.0
"""A claim whose owner has not written it for so long is dead."""

CLAIM_NAME = re.compile(r"_claim-[0-9a-f]{12}")
"""What the file of a claim is called."""

_BEAT_S = 15.0
_SAME_TIME_S = 5.0
_TRIES = 5


@attrs.frozen
class Claim:
    """That one run, and no other, writes to a folder.

    Attributes:
        folder: The target.
        name: Of the claim's file.
    """

    folder: Folder
    name: str

    def is_held(self) -> bool:
        """Whether nobody has taken the target over, or cleaned it; a store that does not answer has not told so."""
        try:
            return self.folder.exists(self.name)
        except StateShiftError:
            return True

    def require(self) -> None:
        """Make sure of it before a savepoint is published.

        Raises:
            MigrationFailed: The target was taken over, or cleaned.
        """
        if not self.is_held():
            raise MigrationFailed(
                "another run has taken the target over, or it was cleaned, while this one was silent",
                advice="look who else writes there, and run the same command again",
                savepoint=self.folder.place,
            )


@contextmanager
def claimed(folder: Folder) -> Iterator[Claim]:
    """Claim a target until the `with` block ends; a folder that is not there is made, and goes again if it stays empty.

    Raises:
        TargetExists: Another run is at work there, as far as can be told.
    """
    was_there = folder.exists()
    folder.create()
    claim = _laid(folder)
    ended = threading.Event()
    beating = threading.Thread(target=_beat, args=(claim, ended), daemon=True)
    beating.start()
    try:
        yield claim
    finally:
        ended.set()
        beating.join()
        with suppress(StateShiftError):  # a store that does not answer: the claim will be a dead one
            if claim.is_held():
                folder.delete(claim.name)
            if not was_there:
                folder.delete_empty()


def _laid(folder: Folder) -> Claim:
    """Write a claim; where another run comes at the same time, one of both waits a moment and looks again."""
    for attempt in range(_TRIES):
        claim = Claim(folder, f"_claim-{uuid.uuid4().hex[:12]}")
        _write(claim)
        try:
            others = _others(folder, claim)
        except BaseException:
            with suppress(StateShiftError):  # the failure that led here is the one to tell
                folder.delete(claim.name)
            raise
        rival = next((other for other in others if not other.is_dead), None)
        if rival is None:
            for other in others:  # those that were looked at: a claim that has come since sees this one, and gives way
                folder.delete(other.name)
            return claim
        folder.delete(claim.name)
        if attempt == _TRIES - 1 or rival.age_s > _SAME_TIME_S:
            raise _taken(folder, rival.name)
        time.sleep(random.uniform(0, 1))  # noqa: S311 - no secret: the two are to come back at different times
    raise AssertionError


def _claims(folder: Folder) -> list[str]:
    return [name for name in folder.names() if CLAIM_NAME.fullmatch(name)] if folder.exists() else []


@attrs.frozen
class _Other:
    """The claim of another run: its file, how long ago it was written by the store's clock, and whether it is dead."""

    name: str
    age_s: float
    is_dead: bool


def _others(folder: Folder, own: Claim) -> list[_Other]:
    """Look at the claims of other runs."""
    written_s, found = folder.written_s(own.name), []
    for name in _claims(folder):
        if name != own.name:
            with suppress(FileNotFoundError):  # it has just ended
                age_s = written_s - folder.written_s(name)
                found.append(_Other(name, age_s, _is_dead(_facts(folder, name), age_s)))
    return found


def _is_dead(facts: dict[str, Any], age_s: float) -> bool:
    is_gone = facts.get("host") == platform.node() and not _runs(facts.get("process"))
    return is_gone or age_s > SILENT_S


def _runs(process: object) -> bool:
    try:
        os.kill(int(str(process)), 0)
    except ProcessLookupError:
        return False
    except (OSError, ValueError, OverflowError):
        return True  # it is somebody else's, or none can tell
    return True


def _facts(folder: Folder, name: str) -> dict[str, Any]:
    """What a claim says; nothing where it is just being written."""
    with suppress(CorruptFile):
        facts = parse_json(folder.read(name))
        return facts if isinstance(facts, dict) else {}
    return {}


def _write(claim: Claim, since: str = "") -> None:
    facts = {"user": _user(), "host": platform.node(), "process": os.getpid(), "since": since or _now()}
    with claim.folder.output(claim.name) as stream:
        stream.write(json.dumps(facts).encode())


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


def _user() -> str:
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):
        return ""  # a container may run under a number without a name


def _beat(claim: Claim, ended: threading.Event) -> None:
    """Write the claim again and again; one that was lost stays lost."""
    since = _now()
    while not ended.wait(_BEAT_S):
        with suppress(StateShiftError):  # the next time will tell
            if not claim.folder.exists(claim.name):
                return
            _write(claim, since)


def _taken(folder: Folder, name: str) -> TargetExists:
    facts = {}
    with suppress(StateShiftError):  # it has just ended
        facts = _facts(folder, name)
    owner = f"{facts.get('user') or 'somebody'} on {facts.get('host', 'an unknown host')}"
    return TargetExists(
        f"another run is at work in {folder.place}: of {owner}, process {facts.get('process', 'unknown')}, "
        f"since {facts.get('since', 'a moment')}",
        advice="wait until it has ended, or choose another folder; "
        f"if it is dead, its claim ends {SILENT_S / 60:.0f} minutes after its last sign of life",
        written="Nothing was written.",
    )


def forget_dead(folder: Folder) -> list[str]:
    """Remove the claims of dead runs; give their names.

    Raises:
        TargetExists: A run is at work there, as far as can be told; nothing is removed.
    """
    if not _claims(folder):
        return []
    own = Claim(folder, f"_claim-{uuid.uuid4().hex[:12]}")
    _write(own)
    try:
        others = _others(folder, own)
        for other in others:
            if not other.is_dead:
                raise _taken(folder, other.name)
        for dead in others:  # as when a claim is laid
            folder.delete(dead.name)
    finally:
        folder.delete(own.name)
    return [dead.name for dead in others]
