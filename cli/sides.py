"""The sides of a comparison: savepoints, jobs and recorded snapshots, which are distinguished by their spelling."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import click

from ..serializers.errors import located
from ..state.storage.stores import is_uri
from .options import is_spark, load_job_here, open_savepoint

if TYPE_CHECKING:
    from ..compat.description import JobDescription

_JOB = re.compile(r"([^\W\d][\w.]*|.+\.py):[^\W\d]\w*")
RECORDED = ".json"
_KINDS = (
    "a savepoint's folder or URI, a job as MODULE:ATTRIBUTE, or a file that `stateshift snapshot` wrote, with -o or -m;"
    " a compiled plan of Flink SQL; or spark:PLACE, a Spark query's checkpoint"
)


def describe_sides(a: str, b: str) -> tuple[JobDescription, JobDescription]:
    """Load the sides named by two arguments, jobs first, since their modules register the snapshots to read savepoints.

    Raises:
        UsageError: An argument names none of the three.
    """
    described = {text: describe_side(text) for text in sorted((a, b), key=lambda text: _JOB.fullmatch(text) is None)}
    return described[a], described[b]


def describe_side(text: str) -> JobDescription:
    """Load the side named by an argument; an existing file or folder takes precedence over a job of that name.

    Raises:
        UsageError: The argument names none of the three.
    """
    from ..state.plans.compiled_plan import is_compiled_plan
    from ..state.plans.operators import describe_plans

    if not text:
        raise click.BadParameter(f"a side is empty; give {_KINDS}")
    place = Path(text)
    if is_spark(text):
        return describe_checkpoint(text)
    if is_savepoint(text):
        return open_savepoint(text).describe()
    if is_uri(text) or is_there(place):
        return describe_plans(text) if is_compiled_plan(text) else read_recorded(text)
    if _JOB.fullmatch(text):
        return load_job_here(text).describe(f"job {text}")
    raise click.UsageError(f"{text!r} does not exist; give {_KINDS}")


def describe_checkpoint(place: str) -> JobDescription:
    """Return the description of a checkpoint of Spark; its origin is the place as it was typed."""
    from ..state.formats.spark.reader import SparkCheckpoint

    return attrs.evolve(SparkCheckpoint.open(place).describe(), origin=f"Spark checkpoint {place}")


def is_savepoint(text: str) -> bool:
    """Whether an argument names a savepoint: a folder, its `_metadata`, or a URI that is not a recorded snapshot."""
    if is_spark(text):
        return False
    place = Path(text)
    if is_there(place):
        return not place.is_file() or place.name == "_metadata"
    return is_uri(text) and not text.endswith(RECORDED)


def is_there(place: Path) -> bool:
    """Whether a file or folder exists; a name that is too long does not."""
    try:
        return place.exists()
    except OSError:
        return False


def read_recorded(place: str) -> JobDescription:
    """Read the output of `stateshift snapshot`, in a file of its own or a revision; the origin includes the file."""
    from ..compat.gate import history
    from ..compat.gate.recorded_text import VERSION
    from ..compat.gate.recording import from_json
    from ..compat.json_files import MOST_BYTES, is_document
    from ..serializers.spark_rows import serializers  # noqa: F401 - it registers the snapshot of Spark's rows
    from ..state.storage.files import read_file

    with located(file=place):
        text = read_file(place, most_bytes=MOST_BYTES)
        if is_document(text, history.FORMAT, VERSION):
            description = history.RecordedRevision.from_json(Path(place).stem, text).description
        else:
            description = from_json(text)
    return attrs.evolve(description, origin=f"{place}, recorded from {description.origin}")
