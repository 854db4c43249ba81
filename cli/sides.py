"""What two things are compared: savepoints, jobs and recorded snapshots, each told by how it is written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..serializers.errors import located
from ..state.storage.stores import is_uri
from .options import load_job_here, open_savepoint

if TYPE_CHECKING:
    from ..compat.description import JobDescription

_JOB = re.compile(r"[^\W\d][\w.]*:[^\W\d]\w*")
RECORDED = ".json"
_KINDS = (
    "a savepoint's folder or URI, a job as MODULE:ATTRIBUTE, or a file that `stateshift snapshot` wrote, with -o or -m"
)


def describe_sides(a: str, b: str) -> tuple[JobDescription, JobDescription]:
    """Load what two arguments name; jobs first, whose modules register the snapshots by which savepoints are read.

    Raises:
        UsageError: One is none of the three.
    """
    described = {text: describe_side(text) for text in sorted((a, b), key=lambda text: _JOB.fullmatch(text) is None)}
    return described[a], described[b]


def describe_side(text: str) -> JobDescription:
    """Load what an argument names; a file or folder that is there goes before a job of that name.

    Raises:
        UsageError: It is none of the three.
    """
    if not text:
        raise click.BadParameter(f"a side is empty; give {_KINDS}")
    place = Path(text)
    if is_savepoint(text):
        return open_savepoint(text).describe()
    if is_uri(text) or is_there(place):
        return read_recorded(text)
    if _JOB.fullmatch(text):
        return load_job_here(text).describe(f"job {text}")
    raise click.UsageError(f"{text!r} is not there; give {_KINDS}")


def is_savepoint(text: str) -> bool:
    """Whether an argument names a savepoint: a folder, its `_metadata`, or a URI of no recorded snapshot."""
    place = Path(text)
    if is_there(place):
        return not place.is_file() or place.name == "_metadata"
    return is_uri(text) and not text.endswith(RECORDED)


def is_there(place: Path) -> bool:
    """Whether a file or folder is there; what is too long for the name of one is none."""
    try:
        return place.exists()
    except OSError:
        return False


def read_recorded(place: str) -> JobDescription:
    """Read what `stateshift snapshot` wrote, a file of its own or a revision; its origin tells the file, too."""
    import attrs

    from ..compat.gate import history
    from ..compat.gate.recorded_text import VERSION
    from ..compat.gate.recording import from_json
    from ..compat.json_files import MOST_BYTES, is_document
    from ..state.storage.files import read_file

    with located(file=place):
        text = read_file(place, most_bytes=MOST_BYTES)
        if is_document(text, history.FORMAT, VERSION):
            description = history.RecordedRevision.from_json(Path(place).stem, text).description
        else:
            description = from_json(text)
    return attrs.evolve(description, origin=f"{place}, recorded from {description.origin}")
