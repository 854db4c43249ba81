"""`stateshift inspect`: the contents of a savepoint."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from ..failures import Status, libraries_needed, print_error, status_of
from ..options import (
    columns_option,
    common_options,
    import_option,
    is_spark,
    old_job_option,
    open_state,
    operator_option,
    reference_time_of,
    savepoint_argument,
    spark_options,
)
from ..output import print_json, print_styled
from ..progress import show_progress
from ..run_failures import spark_failures_told
from ..whole_files import html_option

if TYPE_CHECKING:
    from datetime import datetime

    from ...compat.profiles import Profile
    from ...state.formats.spark.reader import SparkCheckpoint
    from ...state.savepoint.reader import Savepoint
    from ..inspect_data import Inspected
    from ..whole_files import OutputFile


def _times_to_live(
    _: click.Context, __: click.Parameter, given: tuple[str, ...]
) -> dict[str, timedelta] | timedelta | None:
    """Return how long values live: of all states, or by name."""
    if not given:
        return None
    from ...state.plans.time_to_live import Duration

    named: dict[str, timedelta] = {}
    for text in given:
        name, _sign, length = text.rpartition("=")
        found = Duration.parsed(length)
        if found is None or not found.nanos:
            raise click.BadParameter(f"{length!r} is no time to live: write a number and a unit, such as 30d or 12 h")
        named[name] = timedelta(milliseconds=found.millis)
    if "" in named and len(named) > 1:
        raise click.BadParameter("give one time for all states, or one for each")
    return named.get("") or named or None


@click.command(
    "inspect",
    epilog="""\b
Examples:
  stateshift inspect /data/savepoints/sp-1
  stateshift inspect /data/savepoints/sp-1 --operator accounts --full
  stateshift inspect /data/savepoints/sp-1 --state account --keys 10
  stateshift inspect s3://bucket/savepoints/sp-1 --skew --json
  stateshift inspect /data/savepoints/sp-1 --profile
  stateshift inspect /data/savepoints/sp-1 --profile --state account --ttl 30d
  stateshift inspect /data/savepoints/sp-1 --html state.html
  stateshift inspect spark:/data/checkpoints/clicks
  stateshift inspect /data/savepoints/orders --plan plans/orders.json

A state that this release cannot read is listed with its class and `unsupported`; a migration copies its bytes.
Values are decoded only with --profile. Keys are shown only with --keys and --profile, which shows values, too: they may
be personal data. With --redact only their sizes are shown. Needs neither the job nor its classes.""",
)
@savepoint_argument()
@operator_option
@click.option("--state", "state_name", metavar="NAME", help="Only states of this name, with their full types.")
@click.option("--full", "is_full", is_flag=True, help="Show full types, over several lines.")
@click.option(
    "--keys",
    type=click.IntRange(0, 10_000),
    default=0,
    metavar="N",
    help="Show the N largest keys of each state.",
)
@click.option(
    "--skew",
    "with_skew",
    is_flag=True,
    help="Show how keyed state is spread over key groups and subtasks; of a Spark query, over its partitions.",
)
@click.option(
    "--profile",
    "with_profile",
    is_flag=True,
    help="Read all entries once, and show what they are, the largest states first: sizes, lengths of lists and maps, "
    "heaviest keys, skew, ages, and of each field nulls, smallest and largest, most frequent constants.",
)
@click.option(
    "--ttl",
    "lives",
    multiple=True,
    metavar="[STATE=]TIME",
    callback=_times_to_live,
    help="With --profile: how long values with TTL live, which a savepoint does not say, such as 30d or 12 h; of one "
    "state, or of all. Repeatable.",
)
@click.option(
    "--reference-time",
    metavar="TIME",
    callback=reference_time_of,
    help="With --profile: the time to which ages are counted. ISO 8601 with a zone. [default: now]",
)
@html_option
@spark_options
@columns_option
@old_job_option
@import_option
@common_options
def command(
    savepoint: str,
    *,
    plan: str,
    old_job: str,
    operator_name: str | None,
    state_name: str | None,
    is_full: bool,
    keys: int,
    with_skew: bool,
    with_profile: bool,
    lives: dict[str, timedelta] | timedelta | None,
    reference_time: datetime | None,
    html: OutputFile | None,
    master: str | None,
    py_files: list[str],
    with_json: bool,
) -> int:
    """Show what SAVEPOINT (a folder or URI with _metadata) holds: operators, states, readable types, entries, bytes.

    spark:PLACE is the checkpoint of a query of Spark's own operators: its batches, sources, operators and state stores.
    """
    from ..inspect_data import Inspected, to_data
    from ..render.inspection import lines_of

    if with_profile:
        if keys or with_skew:
            raise click.UsageError("--profile shows the heaviest keys and the skew: leave out --keys and --skew")
        opened, on_spark = open_state(savepoint, plan, old_job), {"master": master, "py_files": py_files}
        profile = _profile(opened, operator_name, state_name, reference_time, lives, on_spark)
        if html is not None:
            _write_page(html, Inspected.of_profile(opened, operator_name, state_name, profile), profile)
        _print_profile(profile, is_full=is_full or state_name is not None, with_json=with_json)
        return Status.DONE
    given = {"--ttl": lives, "--reference-time": reference_time, "--master": master, "--py-files": py_files}
    for option in (option for option, value in given.items() if value):
        raise click.UsageError(f"{option} goes with --profile")
    if keys and is_spark(savepoint):
        raise click.UsageError("--keys does not apply to a checkpoint of a Spark query: --profile shows the heaviest")
    inspected = Inspected.of(open_state(savepoint, plan, old_job), operator_name, state_name, keys)
    errors = inspected.errors()
    if html is not None:
        _write_page(html, inspected)
    if with_json:
        print_json(to_data(inspected, with_skew=with_skew))
    else:
        print_styled(lines_of(inspected, is_full=is_full or state_name is not None, with_skew=with_skew))
        for error in errors:
            print_error(error, with_json=False, only_reads=True)
    return max((status_of(error) for error in errors), default=Status.DONE)


def _profile(
    opened: Savepoint | SparkCheckpoint,
    operator: str | None,
    state: str | None,
    reference_time: datetime | None,
    lives: dict[str, timedelta] | timedelta | None,
    on_spark: dict[str, Any],
) -> Profile:
    with libraries_needed("fast"):
        from ...spark.profiling import profile
    how: dict[str, Any] = {"operator": operator, "state": state}
    how |= {"reference_time": reference_time, "time_to_live": lives}
    with show_progress() as show, spark_failures_told("Nothing was written."):
        return profile(opened, progress=show, **on_spark, **how)


def _write_page(html: OutputFile, inspected: Inspected, profile: Profile | None = None) -> None:
    from ..page_files import write_page
    from ..render.pages import contents_page

    write_page(html, f"state: {inspected.opened.place}", contents_page(inspected, profile))


def _print_profile(profile: Profile, *, is_full: bool, with_json: bool) -> None:
    from ...compat.profiles import profile_data
    from ..render.profiles import lines_of_profile

    data = profile_data(profile)
    if with_json:
        print_json(data)
    else:
        print_styled(lines_of_profile(data, is_full=is_full))
