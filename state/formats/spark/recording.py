"""Recordings: the description of a query beside its checkpoint, for what the checkpoint itself does not show.

    _stateshift/queries/FIRST.json    the query that ran the batches FIRST to LAST, in a folder that Spark ignores

A recording is written when its first batch is committed, so that a start that failed leaves none. It counts for the
batches that it names: if an earlier batch is restored, the recording of that batch is the right one.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import attrs

from ....compat.queries.description import from_data, to_data
from ....serializers.errors import CorruptFile, StateShiftError, cause_text
from ....serializers.ways_out import Option, WayOut
from .commit_log import last_committed

if TYPE_CHECKING:
    from ....compat.description import JobDescription
    from ...storage.files import Folder
    from .reader import SparkCheckpoint

FORMAT, VERSION = "stateshift recording of a Spark query", 1
_FOLDER = "_stateshift/queries"
_NAME = re.compile(r"(\d+)\.json")


@attrs.frozen
class Recording:
    """A recorded query.

    Attributes:
        query: Its description.
        first: The first batch that it ran.
        last: The last batch of which that is known.
        is_whole: Whether that is the last committed batch of the checkpoint.
    """

    query: JobDescription
    first: int
    last: int
    is_whole: bool


def find_recording(checkpoint: SparkCheckpoint) -> Recording | None:
    """Return the recording of the query that wrote the state of a checkpoint; None: there is none.

    Raises:
        CorruptFile: The recording is damaged.
    """
    committed = checkpoint.log.committed
    folder = checkpoint.folder.folder(_FOLDER)
    if committed is None or not folder.exists():
        return None
    firsts = [int(found[1]) for found in map(_NAME.fullmatch, folder.names()) if found]
    for first in sorted((one for one in firsts if one <= committed), reverse=True):
        data = _read(folder, f"{first}.json")
        if data.get("query_id") == checkpoint.log.query_id:
            return _recording(data, first, committed, folder)
    return None


def _read(folder: Folder, name: str) -> dict[str, Any]:
    try:
        data = json.loads(folder.read(name))
        if data["format"] != FORMAT or data["version"] != VERSION:
            raise ValueError(f"{data['format']!r}, version {data['version']!r}")
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptFile(
            f"the recording of a query is damaged, or of a later release: {cause_text(error)}",
            file=f"{_FOLDER}/{name}",
            advice=(
                "delete the file: without it the checkpoint alone is compared",
                WayOut.telling("name the old code:", Option.WAS, "MODULE:FUNCTION"),
            ),
        ) from error
    return dict(data)


def _recording(data: dict[str, Any], first: int, committed: int, folder: Folder) -> Recording:
    try:
        last = int(data["last_batch"])
        origin = f"the recording of batches {first} to {last}"
        return Recording(from_data(data["query"], origin), first, last, is_whole=last >= committed)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptFile(
            f"the recording of a query is damaged: {cause_text(error)}", file=f"{folder.place}/{first}.json"
        ) from error


@attrs.define
class Recorder:
    """Writes the recording of a running query, after each of its batches.

    Attributes:
        checkpoint: The folder of the checkpoint.
        query: The description of the query.
        query_id: The id of the query.
        first: The first batch that the query runs.
        last: The last batch that is recorded; None: none is.
    """

    checkpoint: Folder
    query: JobDescription
    query_id: str
    first: int
    last: int | None = None

    def record(self) -> None:
        """Write the recording if a batch was committed since the last time."""
        committed = last_committed(self.checkpoint)
        if committed is None or committed < self.first or committed == self.last:
            return
        folder = self.checkpoint.folder(_FOLDER)
        if self.last is None:
            folder.create()
            for name in folder.names():  # an earlier batch was restored: these are of batches that no longer count
                found = _NAME.fullmatch(name)
                if found and int(found[1]) > self.first:
                    with suppress(StateShiftError):
                        folder.delete(name)
        data = {
            "format": FORMAT,
            "version": VERSION,
            "query_id": self.query_id,
            "first_batch": self.first,
            "last_batch": committed,
            "query": to_data(self.query),
        }
        folder.write_last(f"{self.first}.json", json.dumps(data, indent=1, ensure_ascii=False).encode())
        self.last = committed
