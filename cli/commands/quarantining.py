"""`stateshift quarantine`: values that a migration set aside, because they did not fit their new types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ...compat.structuring import plain
from ...serializers.errors import values_are_redacted
from ...serializers.wording import many
from ..failures import Status
from ..options import common_options, open_savepoint, savepoint_argument
from ..output import Column, print_json, print_lines, table_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...state.savepoint.quarantine import QuarantinedValue

_COUNTS = (
    Column("operator", is_name=True),
    Column("state", is_name=True),
    Column("kind"),
    Column("quarantined", is_number=True),
)
_VALUES = (Column("state", is_name=True), Column("key"), Column("path"), Column("rule"), Column("reason"))

_VALUE = (
    "operator_id operator state kind key_group key=shown_key user_key=shown_user_key path rule "
    "reason=shown_reason cause "
)
_VALUE_BYTES = "key_bytes value_bytes"


@click.command(
    "quarantine",
    short_help="List the values that a migration set aside.",
    epilog="""\b
Examples:
  stateshift quarantine /data/savepoints/sp-1-v2
  stateshift quarantine /data/savepoints/sp-1-v2 --state account --bytes --json
  stateshift quarantine /data/savepoints/sp-1-v2 --redact

\b
`stateshift migrate --bad-values quarantine` sets aside values that do not fit their new type, as they were stored. For
a savepoint without such values, the list is empty. The exit status is 0 in either case.""",
)
@savepoint_argument()
@click.option("--state", "state_name", metavar="NAME", help="Only values of states of this name.")
@click.option("--bytes", "with_bytes", is_flag=True, help="Also show key and value as they are stored, in hexadecimal.")
@common_options
def command(savepoint: str, *, state_name: str | None, with_bytes: bool, with_json: bool) -> int:
    """List the values that lie in quarantine beside SAVEPOINT: whose they are, where they lay, and what failed."""
    if with_bytes and values_are_redacted():
        raise click.UsageError("--bytes shows keys and values, which --redact hides")
    opened = open_savepoint(savepoint)
    values = [value for value in opened.quarantine() if state_name in {None, value.state}]
    if with_json:
        print_json(to_data(opened.place, values, with_bytes=with_bytes))
    else:
        print_lines(_text_lines(opened.place, values, with_bytes=with_bytes))
    return Status.DONE


def to_data(place: str, values: Sequence[QuarantinedValue], *, with_bytes: bool) -> dict[str, Any]:
    """Return the list as plain data."""
    names = ("operator_id", "operator", "state", "kind", "quarantined")
    return {
        "savepoint": place,
        "quarantined": len(values),
        "states": [dict(zip(names, (*state, count), strict=True)) for state, count in _counts(values).items()],
        "values": plain(values, _VALUE + _VALUE_BYTES * with_bytes),
    }


def _counts(values: Sequence[QuarantinedValue]) -> dict[tuple[str, str, str, str], int]:
    counts: dict[tuple[str, str, str, str], int] = {}
    for value in values:
        state = (value.operator_id, value.operator, value.state, value.kind)
        counts[state] = counts.get(state, 0) + 1
    return counts


def _text_lines(place: str, values: Sequence[QuarantinedValue], *, with_bytes: bool) -> Iterator[str]:
    if not values:
        yield f"nothing in quarantine: {place}"
        return
    yield f"{many(len(values), 'value')} in quarantine: {place}"
    counts = [
        [operator or operator_id, state, kind, f"{count:,}"]
        for (operator_id, operator, state, kind), count in _counts(values).items()
    ]
    yield from table_lines(_COUNTS, counts, indent=2)
    yield ""
    columns = (*_VALUES, Column("key bytes"), Column("value bytes")) if with_bytes else _VALUES
    yield from table_lines(columns, [_cells(value, with_bytes=with_bytes) for value in values], indent=2)


def _cells(value: QuarantinedValue, *, with_bytes: bool) -> list[str]:
    reason = " ".join(value.shown_reason.split())
    key = value.shown_key or ""
    where = key if value.user_key is None else f"{key}, user key {value.shown_user_key}"
    cells = [value.state, where, value.path, value.rule or "", reason]
    return cells + ([value.key_bytes.hex(), value.value_bytes.hex()] if with_bytes else [])
