"""What is read in the checkpoint of a streaming query: its id, and the batches that it has committed.

metadata        JSON: {"id": the id of the query}
offsets/N       batch N is planned
commits/N       batch N is committed
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from ...serializers.errors import CorruptFile, SavepointNotFound

if TYPE_CHECKING:
    from ..storage.files import Folder

_NUMBER = re.compile(r"\d+")


def query_id(checkpoint: Folder) -> str | None:
    """Return the id of the query; None: the checkpoint is new.

    Raises:
        CorruptFile: The file with the id is damaged.
    """
    if not checkpoint.exists("metadata"):
        return None
    try:
        return str(json.loads(checkpoint.read("metadata"))["id"])
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptFile(f"the id of the query in {checkpoint.place}/metadata is damaged: {error}") from error


def last_planned(checkpoint: Folder) -> int | None:
    """Return the number of the last batch that has offsets; None: there is none."""
    return _last(checkpoint, "offsets")


def last_committed(checkpoint: Folder) -> int | None:
    """Return the number of the last committed batch; None: there is none."""
    return _last(checkpoint, "commits")


def pinned_settings(checkpoint: Folder, batch: int) -> dict[str, str]:
    """Return the settings of Spark SQL that a planned batch has recorded."""
    lines = checkpoint.folder("offsets").read(str(batch)).decode().splitlines()
    try:
        found: dict[str, str] = json.loads(lines[1])["conf"]
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise CorruptFile(f"the offsets of batch {batch} in {checkpoint.place} are damaged: {error}") from error
    return found


def _last(checkpoint: Folder, log: str) -> int | None:
    try:
        names = checkpoint.folder(log).names()
    except SavepointNotFound:
        return None
    return max((int(name) for name in names if _NUMBER.fullmatch(name)), default=None)
