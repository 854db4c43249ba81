"""`stateshift inspect`: the contents of a savepoint."""

from __future__ import annotations

import click

from ..failures import Status, print_error, status_of
from ..options import (
    columns_option,
    common_options,
    import_option,
    is_spark,
    old_job_option,
    open_state,
    operator_option,
    savepoint_argument,
)
from ..output import print_json, print_styled


@click.command(
    "inspect",
    short_help="Show operators, states, types and sizes of a savepoint.",
    epilog="""\b
Examples:
  stateshift inspect /data/savepoints/sp-1
  stateshift inspect /data/savepoints/sp-1 --operator accounts --full
  stateshift inspect /data/savepoints/sp-1 --state account --keys 10
  stateshift inspect s3://bucket/savepoints/sp-1 --skew --json
  stateshift inspect spark:/data/checkpoints/clicks
  stateshift inspect /data/savepoints/orders --plan plans/orders.json

A state that this release cannot read is listed with its class and `unsupported`; a migration copies its bytes.
Values are not decoded. Keys are shown only with --keys: they may be personal data. With --redact only their sizes
are shown. Needs neither the job nor its classes.""",
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
    with_json: bool,
) -> int:
    """Show what SAVEPOINT (a folder or URI with _metadata) holds: operators, states, readable types, entries, bytes.

    spark:PLACE is the checkpoint of a query of Spark's own operators: its batches, sources, operators and state stores.
    """
    from ..inspect_data import Inspected, to_data
    from ..render.inspection import lines_of

    if keys and is_spark(savepoint):
        raise click.UsageError("--keys does not apply to a checkpoint of a Spark query: export shows its keys")
    inspected = Inspected.of(open_state(savepoint, plan, old_job), operator_name, state_name, keys)
    errors = inspected.errors()
    if with_json:
        print_json(to_data(inspected, with_skew=with_skew))
    else:
        print_styled(lines_of(inspected, is_full=is_full or state_name is not None, with_skew=with_skew))
        for error in errors:
            print_error(error, with_json=False, only_reads=True)
    return max((status_of(error) for error in errors), default=Status.DONE)
