"""The sides of a comparison: savepoints, jobs and recorded snapshots, which are distinguished by their spelling."""

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import click

from ..serializers.errors import located
from ..state.storage.stores import is_uri
from .options import allowed_roots, announce_plan, is_spark, load_job_here, open_savepoint, read_plan
from .output import print_notice

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..compat.description import JobDescription
    from ..compat.difference import Difference
    from ..state.savepoint.reader import Savepoint

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


@attrs.frozen
class ConvertedSide:
    """A savepoint that was converted for a comparison.

    Attributes:
        savepoint: What it was converted to, in a temporary folder.
        by: What determines the conversion, in words.
        differs: How its types differ from those of the other side.
        is_asked: Whether options ask for it: then nothing is said of what it was before.
    """

    savepoint: Savepoint
    by: str
    differs: Difference
    is_asked: bool


@contextmanager
def converted_side(a: str, b: str, job_place: str, plan: str) -> Iterator[ConvertedSide | None]:
    """Convert a savepoint as the options say, or as the lineage of the other one; None: neither says it.

    Args:
        a: The savepoint.
        b: The savepoint with which it is compared.
        job_place: The job whose types it gets, or "".
        plan: The plan file that it follows, or "".

    Raises:
        UsageError: Both are given.
    """
    from ..compat.difference import compare
    from ..state.migration.converted_copy import converted_copy, is_migration_of, types_suffice

    if job_place and plan:
        raise click.UsageError("give one of --job and --plan: a plan names its job")
    expected = read_plan(plan) if plan else None
    job, by = None, f"job {job_place}" if job_place else f"plan {plan}"
    if job_place:
        job = load_job_here(job_place).describe(by)
    old, new = open_savepoint(a), open_savepoint(b)
    if expected is not None:
        from ..state.migration.planning import new_side_of

        announce_plan(plan, expected, ())
        job = new_side_of(expected.new_types, load_job_here, allow_roots=allowed_roots())
    elif not job_place:
        if not is_migration_of(new, old) or compare(old.describe(), new.describe()).is_equal:
            yield None
            return
        if not types_suffice(old, new):
            said = new.lineage.job if new.lineage is not None else ""
            print_notice(f"B was migrated from A ({said}): with --job or --plan, A is converted before it is compared")
            yield None
            return
        job, by = new.describe(), f"the types of {b}"
    with converted_copy(old, new, job, expected) as savepoint:
        described = attrs.evolve(savepoint.describe(), origin=f"savepoint {a}, converted by {by}")
        yield ConvertedSide(savepoint, by, compare(described, new.describe()), bool(job_place or plan))


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
