"""What is read in the checkpoint of a streaming query: its id, and the batches that it has committed.

metadata        JSON: {"id": the id of the query}
offsets/N       batch N is planned
commits/N       batch N is committed
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import attrs

from ....compat.json_files import parse_checked, parse_json
from ....compat.plain_data import structured
from ....serializers.errors import CorruptFile, SavepointNotFound, located

if TYPE_CHECKING:
    from ...storage.files import Folder

NOTE = "_stateshift-state.json"
_NUMBER = re.compile(r"(\d+)(?:\.compact)?")


@attrs.frozen
class CheckpointNote:
    """What a checkpoint says of its state.

    Attributes:
        id: The id of the state directory.
        state_dir: Its place.
        checkpoint: The place of the checkpoint when this was written: a copy says where its original is.
    """

    id: str
    state_dir: str
    checkpoint: str


def read_note(checkpoint: Folder) -> CheckpointNote | None:
    """Return what a checkpoint says of its state; None: nothing.

    Raises:
        CorruptFile: The note is damaged.
    """
    if not checkpoint.exists(NOTE):
        return None
    with located(file=f"{checkpoint.place}/{NOTE}"):
        note: CheckpointNote = structured(CheckpointNote, parse_checked(checkpoint.read(NOTE)), "the note")
        return note


def write_note(checkpoint: Folder, note: CheckpointNote) -> None:
    """Write what a checkpoint says of its state."""
    checkpoint.create()
    checkpoint.write(NOTE, json.dumps(attrs.asdict(note)).encode())


def last_planned(checkpoint: Folder) -> int | None:
    """Return the number of the last batch that has offsets; None: there is none."""
    return last_in_log(checkpoint.folder("offsets"))


def last_committed(checkpoint: Folder) -> int | None:
    """Return the number of the last committed batch; None: there is none."""
    return last_in_log(checkpoint.folder("commits"))


def offsets(checkpoint: Folder, batch: int) -> str:
    """Return how far the sources are read in a planned batch, as the engine wrote it.

    Raises:
        SavepointNotFound: The batch is not planned, or too old.
        CorruptFile: The file is no text.
    """
    try:
        return checkpoint.folder("offsets").read(str(batch)).decode()
    except UnicodeDecodeError as error:
        raise CorruptFile(f"the offsets of batch {batch} in {checkpoint.place} are damaged: {error}") from error


def plan_without_rows(checkpoint: Folder, now_ms: int) -> int:
    """Plan the batch after the last one, which is committed; return its number.

    The sources stay where they are, and the engine carries it out when the query starts: it is what the engine itself
    plans when only timers are due.

    Args:
        checkpoint: The checkpoint.
        now_ms: The time of the batch, in milliseconds.
    """
    last = last_committed(checkpoint)
    assert last is not None  # noqa: S101 - the caller has looked
    text = offsets(checkpoint, last)
    try:
        version, _, *sources = text.splitlines()
        facts = _second_line(text)
        facts["batchTimestampMs"] = now_ms
        facts["batchWatermarkMs"] = _second_line(checkpoint.folder("commits").read(str(last)).decode())[
            "nextBatchWatermarkMs"
        ]
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise CorruptFile(f"batch {last} in {checkpoint.place} is damaged: {error}") from error
    lines = (version, json.dumps(facts, separators=(",", ":")), *sources)
    checkpoint.folder("offsets").write(str(last + 1), "\n".join(lines).encode())
    return last + 1


def _second_line(text: str) -> dict[str, Any]:
    found: dict[str, Any] = parse_json(text.splitlines()[1])
    return found


def source_offsets(text: str) -> list[str]:
    """Return the offset of each source in the text of a batch's offsets, as the source wrote it."""
    return text.splitlines()[2:]  # the first two lines are the version and the settings


def pinned_settings(checkpoint: Folder, batch: int) -> dict[str, str]:
    """Return the settings of Spark SQL that a planned batch has recorded."""
    text = offsets(checkpoint, batch)
    try:
        found: dict[str, str] = structured(dict[str, str], _second_line(text)["conf"], "the settings")
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise CorruptFile(f"the offsets of batch {batch} in {checkpoint.place} are damaged: {error}") from error
    return found


def last_in_log(log: Folder) -> int | None:
    """Return the number of the last batch in a log of the engine; None: it has none."""
    try:
        names = log.names()
    except SavepointNotFound:
        return None
    found = (_NUMBER.fullmatch(name) for name in names)
    return max((int(one[1]) for one in found if one), default=None)
