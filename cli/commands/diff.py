"""`stateshift diff`: the differences between two savepoints, jobs or recorded snapshots."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from ...compat.likeness import FEW, some
from ...compat.plain_data import fields_of
from ...serializers.errors import located
from ...serializers.wording import many
from ..failures import Status
from ..options import all_option, allow_root_option, common_options, import_option, is_spark, open_savepoint
from ..output import Line, print_json, print_styled
from ..progress import spinning
from ..samples import MOST, SampleOptions, difference_options
from ..sides import converted_side, describe_sides, is_savepoint
from ..whole_files import html_option

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...compat.difference import Difference
    from ...state.savepoint.reader import Savepoint
    from ...state.savepoint.value_difference import StateValues
    from ..whole_files import OutputFile

_VALUES = "operator_id uid state kind entries changed added removed first not_compared"
_NOT_COMPARED = (
    "of checkpoints of Spark only types are compared: which column is aggregated, filters, lengths of windows and gaps,"
    " join keys and times to live do not show in them"
)


@click.command(
    "diff",
    epilog="""\b
Examples:
  stateshift diff /data/savepoints/sp-1 accounts:job
  stateshift diff accounts_v1:job accounts_v2:job
  stateshift diff /data/savepoints/sp-1 /data/savepoints/sp-1-v2 --json
  stateshift diff /data/savepoints/sp-1 /data/savepoints/sp-2 --types-only
  stateshift diff /data/savepoints/sp-1 /data/savepoints/sp-1-v2 --job accounts:job
  stateshift diff /data/savepoints/sp-1 accounts:job --html difference.html
  stateshift diff state.json accounts:job
  stateshift diff spark:/data/checkpoints/clicks spark:build/probe
  stateshift diff plans/orders-1.json plans/orders-2.json

\b
A and B are each a savepoint (a folder or URI), a job (MODULE:ATTRIBUTE), a file of `stateshift snapshot`, a compiled
plan of Flink SQL (a .json file), or the checkpoint of a Spark query (spark:PLACE), of which only types are compared.
Operators, keys, states, kinds, TTL and types are compared, but not the parallelism. For two savepoints, so are the
values, key by key, before and after where their types differ, and the bytes of state that only its operator can read.
With --job or --plan, A is converted first, as its migration would be, in a folder of temporary files: what then differs
is no work of that migration. Values are also converted if B was migrated from A, and its types alone say how.
Exit status:
  0  equal
  1  different""",
)
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option("--types-only", is_flag=True, help="For two savepoints, compare only the types and read no entries.")
@click.option(
    "--job",
    "job_place",
    default="",
    metavar="MODULE:ATTRIBUTE",
    help="Convert A to the types of this job first, as its migration would.",
)
@click.option("--plan", default="", metavar="FILE", help="Convert A first, as the file of `stateshift plan` says.")
@difference_options
@all_option
@html_option
@allow_root_option
@import_option
@common_options
def command(
    a: str,
    b: str,
    *,
    types_only: bool,
    job_place: str,
    plan: str,
    sample: SampleOptions | None,
    everything: bool,
    html: OutputFile | None,
    with_json: bool,
) -> int:
    """Show what differs between the state of A and the state of B, and what a check says in both directions.

    Of classes that only a savepoint or a record knows, nothing has to be there. Nothing is written.
    """
    from ...compat.difference import compare
    from ..render.difference import text_lines, to_data

    with_values = not types_only and is_savepoint(a) and is_savepoint(b)
    if (job_place or plan) and not with_values:
        raise click.UsageError("--job and --plan convert the values of A, a savepoint, to compare them with those of B")
    if sample is not None and not with_values:
        raise click.UsageError("--sample and --key apply to the values of two savepoints")
    if with_values:
        for side, place in zip("AB", (a, b), strict=True):
            _require_files(side, place)
    values: tuple[StateValues, ...] | None = None
    with ExitStack() as stack:
        converted = stack.enter_context(converted_side(a, b, job_place, plan)) if with_values else None
        difference = (
            compare(*describe_sides(a, b)) if converted is None or not converted.is_asked else converted.differs
        )
        if with_values:
            left = open_savepoint(a) if converted is None else converted.savepoint
            types = difference if converted is None else converted.differs
            values = _compared(left, open_savepoint(b), types, sample or SampleOptions())
    differing = [state for state in values or () if not state.is_equal]
    status = Status.DONE if difference.is_equal and not differing else Status.REFUSED
    lines = text_lines(difference, everything=everything)
    if difference.is_equal and differing:
        words = f": the types are equal, values of {many(len(differing), 'state')} are not"
        lines[0] = [("different", "yellow"), (words, "bold")]
    by = "" if converted is None else converted.by
    more = [*([[], [(_NOT_COMPARED, "yellow")]] if is_spark(a) or is_spark(b) else []), *_value_lines(values, by)]
    if html is not None:
        from ...compat.pages.difference import difference_pieces
        from ..page_files import write_page
        from ..render.pages import lines_of

        headline = lines[0][1][0].removeprefix(": ")
        shown = difference_pieces(difference, headline, lines_of(more), is_equal=status is Status.DONE)
        write_page(html, f"diff: {a} and {b}", shown)
    if with_json:
        told = None if values is None else [fields_of(state, _VALUES) | {"equal": state.is_equal} for state in values]
        data = to_data(difference) | {"values": told, "converted_by": by or None}
        print_json(data | {"equal": status is Status.DONE, "exit_status": int(status)})
        return status
    print_styled([*lines, *more])
    return status


def _compared(a: Savepoint, b: Savepoint, difference: Difference, sample: SampleOptions) -> tuple[StateValues, ...]:
    """Compare the values of two savepoints, or those of some keys."""
    from ...state.savepoint.value_difference import FIRST, compare_values

    most, keys = sample.first or (FIRST if sample.wanted is None else MOST), sample.keys_of(a)
    with spinning("comparing") as show:
        return compare_values(a, b, difference, show, most=most, chosen=keys)


def _require_files(side: str, place: str) -> None:
    """Refuse a savepoint that cannot be opened or lacks files; the error has the side of the comparison."""
    from ...state.formats.flink.missing_files import require_files

    with located(side=side):
        savepoint = open_savepoint(place)
        with located(savepoint=savepoint.place):
            require_files(savepoint.metadata.streams, savepoint.folder)


def _value_lines(values: Sequence[StateValues] | None, by: str) -> Iterator[Line]:
    """Yield lines on different values, each state with its first entries; equal values are counted.

    Args:
        values: What differs; None: values were not compared.
        by: What has converted A before, or "".
    """
    if values is None:
        return
    yield []
    if by:
        yield [(f"values of A are converted by {by}", "")]
    read = [state for state in values if state.is_equal and not state.is_bytes]
    as_bytes = Counter[str]()
    for state in values:
        if state.is_equal and state.is_bytes:
            as_bytes[state.state] += state.entries
    if read or as_bytes:
        entries = many(sum(state.entries for state in read), "entry", "entries")
        told = [f"equal in {many(len(read), 'state')}, with {entries}"] if read else []
        told += [f"equal as bytes: {what} in {many(count, 'stream')}" for what, count in sorted(as_bytes.items())]
        yield [(f"values: {'; '.join(told)}", "green")]
    left_out: dict[str, list[str]] = {}
    for state in values:
        place = f"{state.uid or state.operator_id}/{state.state}"
        if state.not_compared:
            left_out.setdefault(state.not_compared, []).append(place)
        elif not state.is_equal:
            title = f"values of {place}"
            counts = f": {state.changed:,} changed, {state.added:,} added, {state.removed:,} removed"
            yield [(title, "bold"), (counts, "yellow")]
            for one in state.first:
                both = f"{one.a} -> {one.b}" if one.a and one.b else one.a or one.b
                sign = {"changed": "~", "added": "+", "removed": "-"}[one.what]
                yield [(f"  {sign} {one.key}", ""), (f"  {both}" if both else "", "")]
            left = state.changed + state.added + state.removed - len(state.first)
            if left:
                yield [(f"  … and {left:,} more", "dim")]
    for why, places in left_out.items():
        title = f"values of {some(places, most=FEW, whole='--json')}"
        yield [(title, "bold"), (f": not compared, since {why}", "yellow")]
