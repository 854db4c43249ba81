"""`stateshift diff`: what differs between two savepoints, jobs or recorded snapshots."""

from __future__ import annotations

import click

from .failures import Status
from .options import allow_root_option, common_options, import_option
from .output import print_json, print_styled
from .sides import describe_sides


@click.command(
    "diff",
    short_help="Tell what differs between two savepoints, jobs or records.",
    epilog="""\b
Examples:
  stateshift diff /data/savepoints/sp-1 accounts:job
  stateshift diff accounts_v1:job accounts_v2:job
  stateshift diff /data/savepoints/sp-1 /data/savepoints/sp-1-v2 --json
  stateshift diff state.json accounts:job

\b
A and B are each a savepoint (a folder or URI), a job (MODULE:ATTRIBUTE), or a file of `stateshift snapshot`.
Compared are operators, keys, states, kinds, TTL and types; not values, and not the parallelism.
Exit status:
  0  equal
  1  different""",
)
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@allow_root_option
@import_option
@common_options
def command(a: str, b: str, *, with_json: bool) -> int:
    """Tell what differs between the state of A and the state of B, and what a check says in both directions.

    Of classes that only a savepoint or a record knows, nothing has to be there. Nothing is written.
    """
    from ..compat.difference import compare
    from ..compat.difference_text import text_lines, to_data

    difference = compare(*describe_sides(a, b))
    status = Status.DONE if difference.is_equal else Status.REFUSED
    if with_json:
        print_json(to_data(difference) | {"exit_status": int(status)})
    else:
        print_styled(text_lines(difference))
    return status
