"""`stateshift inspect`: the contents of a savepoint."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import click

from ...serializers.errors import StateNotFound
from ...state.progress import size_text
from ..failures import Status, print_error, status_of
from ..options import common_options, import_option, is_spark, open_savepoint, savepoint_argument
from ..output import print_json, print_styled
from ..progress import spinning

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..inspect_data import Inspected
    from ..spark_checkpoints import InspectedCheckpoint


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

A state that this release cannot read is listed with its class and `unsupported`; a migration copies its bytes.
Values are not decoded. Keys are shown only with --keys: they may be personal data. With --redact only their sizes
are shown. Needs neither the job nor its classes.""",
)
@savepoint_argument()
@click.option("--operator", "operator_name", metavar="UID|ID", help="Only this operator.")
@click.option("--state", "state_name", metavar="NAME", help="Only states of this name, with their full types.")
@click.option("--full", "is_full", is_flag=True, help="Show full types, over several lines.")
@click.option(
    "--keys",
    type=click.IntRange(0, 10_000),
    default=0,
    metavar="N",
    help="Show the N largest keys of each state.",
)
@click.option("--skew", "with_skew", is_flag=True, help="Show how keyed state is spread over key groups and subtasks.")
@import_option
@common_options
def command(savepoint: str, **options: Any) -> int:
    """Show what SAVEPOINT (a folder or URI with _metadata) holds: operators, states, readable types, entries, bytes.

    spark:PLACE is the checkpoint of a query of Spark's own operators: its batches, sources, operators and state stores.
    """
    asked = _Asked(**options)
    inspected: Inspected | InspectedCheckpoint
    if is_spark(savepoint):
        from ..render.spark_checkpoint import lines_of as lines_of_checkpoint
        from ..spark_checkpoints import look_at
        from ..spark_checkpoints import to_data as data_of_checkpoint

        if asked.keys:
            raise click.UsageError("--keys does not apply to a checkpoint of a Spark query: export shows its keys")
        inspected = look_at(savepoint, asked.operator_name, asked.state_name)
        if asked.with_json:
            print_json(data_of_checkpoint(inspected))
        else:
            print_styled(lines_of_checkpoint(inspected, is_full=asked.shows_full_types, with_skew=asked.with_skew))
    else:
        from ..inspect_data import to_data
        from ..render.inspection import lines_of

        inspected = _look_at(savepoint, asked.operator_name, asked.state_name, asked.keys)
        if asked.with_json:
            print_json(to_data(inspected, with_skew=asked.with_skew))
        else:
            print_styled(lines_of(inspected, is_full=asked.shows_full_types, with_skew=asked.with_skew))
    errors = inspected.errors()
    if not asked.with_json:
        for error in errors:
            print_error(error, with_json=False, only_reads=True)
    return max((status_of(error) for error in errors), default=Status.DONE)


@attrs.frozen
class _Asked:
    """What is to be shown, and how."""

    operator_name: str | None
    state_name: str | None
    is_full: bool
    keys: int
    with_skew: bool
    with_json: bool

    @property
    def shows_full_types(self) -> bool:
        """Whether types are shown in full: if that is asked for, or only one state is shown."""
        return self.is_full or self.state_name is not None


def _look_at(savepoint: str, operator_name: str | None, state_name: str | None, keys: int) -> Inspected:
    """Read and measure the requested states.

    Raises:
        StateNotFound: No operator or state has the name.
    """
    from ...compat.lazy_tables import state_in
    from ..inspect_data import Inspected, OperatorView

    opened = open_savepoint(savepoint)
    chosen = opened.operators if operator_name is None else (opened.operator(operator_name),)
    views = []
    with spinning("reading") as show:
        for operator in chosen:
            show(operator.title)
            views.append(OperatorView.of(operator, state_name, keys, partial(_show_bytes, show, operator.title)))
    if state_name is not None:
        views = [view for view in views if view.sizes or view.error]
    if not views:
        known = sorted({state_in(state.name) for operator in chosen for state in operator.states})
        raise StateNotFound(
            f"no operator has a state {state_name!r}; there are: {', '.join(known) or 'none'}", savepoint=opened.place
        )
    return Inspected(opened, tuple(views))


def _show_bytes(show: Callable[[str], None], title: str, seen: int) -> None:
    show(f"{title}: {size_text(seen)} so far")
