"""Holds: while the state after a batch is copied, the files that it needs are not deleted.

    holds/ID.json       JSON: the batch, and the process that copies

A hold is renewed every minute. It ends with its process, where it can be seen from here whether that runs; else when it
has not been renewed for ten minutes.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.errors import SavepointNotFound, StateShiftError
from ..storage.lock_owner import Owner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..storage.files import Folder

HOLDS = "holds"
"""The folder of holds, in the state directory."""

_BEAT_S, _SILENT_S = 60.0, 600.0


@contextmanager
def held(directory: Folder, batch: int) -> Iterator[None]:
    """Hold the files that the state after a batch, or a later one, needs, until the `with` block ends.

    Args:
        directory: The state directory.
        batch: The number of the batch.
    """
    folder, name = directory.folder(HOLDS), f"{uuid.uuid4().hex}.json"
    facts = json.dumps({"batch": batch, **attrs.asdict(Owner.here())}).encode()
    folder.create()
    folder.write(name, facts)
    ended = threading.Event()
    renewing = threading.Thread(target=_renew, args=(folder, name, facts, ended), daemon=True)
    renewing.start()
    try:
        yield
    finally:
        ended.set()
        renewing.join()
        with suppress(StateShiftError):  # it ends by itself
            folder.delete(name)


def _renew(folder: Folder, name: str, facts: bytes, ended: threading.Event) -> None:
    while not ended.wait(_BEAT_S):
        with suppress(StateShiftError):  # the next one may succeed
            folder.write(name, facts)


def oldest_held(directory: Folder) -> int | None:
    """Return the first batch that is held; None: there is none."""
    return min((batch for batch in _holds(directory).values() if batch is not None), default=None)


def dead_holds(directory: Folder) -> tuple[str, ...]:
    """Return the names of the holds that have expired."""
    return tuple(name for name, batch in _holds(directory).items() if batch is None)


def _holds(directory: Folder) -> dict[str, int | None]:
    """Return the batch of each hold by the name of its file; None for a hold that has ended."""
    folder = directory.folder(HOLDS)
    try:
        names = [name for name in folder.names() if name.endswith(".json")]
    except SavepointNotFound:
        return {}
    found: dict[str, int | None] = {}
    for name in names:
        with suppress(SavepointNotFound):  # it has just ended
            facts = _facts(folder.read(name))
            found[name] = facts["batch"] if _is_held(facts, folder.written_s(name)) else None
    return found


def _facts(data: bytes) -> dict[str, Any]:
    """Return the content of a hold; one that cannot be read holds everything until it expires."""
    try:
        facts = json.loads(data)
        return {**facts, "batch": int(facts["batch"])}
    except (ValueError, KeyError, TypeError):
        return {"batch": -1}


def _is_held(facts: dict[str, Any], written_s: float) -> bool:
    runs = Owner.of(facts).runs()
    return time.time() - written_s < _SILENT_S if runs is None else runs
