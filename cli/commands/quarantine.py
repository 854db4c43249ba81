"""`stateshift quarantine`: values that a migration set aside, because they did not fit their new types."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from ...compat.plain_data import plain
from ...serializers.errors import values_are_redacted
from ...serializers.wording import json_text, many, shell_word
from ..failures import Status
from ..options import class_trust_option, common_options, import_option, open_savepoint, savepoint_argument
from ..output import Block, Column, Table, print_json, print_lines, print_styled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...state.savepoint.quarantine import QuarantinedValue

_COUNTS = (
    Column("operator", is_name=True),
    Column("state", is_name=True),
    Column("kind"),
    Column("quarantined", is_number=True),
)
_VALUES = (Column("state", is_name=True), Column("key"), Column("path"), Column("rule"),
           Column("reason", is_text=True))  # fmt: skip

_VALUE = (
    "operator_id operator state kind key_group key=shown_key user_key=shown_user_key path rule "
    "reason=shown_reason cause "
)
_VALUE_BYTES = "key_bytes value_bytes"


@click.command(
    "quarantine",
    epilog="""\b
Examples:
  stateshift quarantine /data/savepoints/sp-1-v2
  stateshift quarantine /data/savepoints/sp-1-v2 --values
  stateshift quarantine /data/savepoints/sp-1-v2 --state account --bytes --json
  stateshift quarantine /data/savepoints/sp-1-v2 --to /data/savepoints/set-aside
  stateshift quarantine /data/savepoints/sp-1-v2 --redact

\b
`stateshift migrate --bad-values quarantine` sets aside values that do not fit their new type, as they were stored. For
a savepoint without such values, the list is empty. The exit status is 0 in either case.
--to writes them as a savepoint of their own, with the types that they had: export it, or migrate it with a corrected
converter.""",
)
@savepoint_argument()
@click.option("--state", "state_name", metavar="NAME", help="Only values of states of this name.")
@click.option("--bytes", "with_bytes", is_flag=True, help="Also show key and value as they are stored, in hexadecimal.")
@click.option("--values", "with_values", is_flag=True, help="Also show the values, read by the types that they had.")
@click.option("--to", "target", metavar="NEW_SAVEPOINT", help="Write the values as a savepoint, with these types.")
@class_trust_option()
@import_option
@common_options
def command(
    savepoint: str,
    *,
    state_name: str | None,
    with_bytes: bool,
    with_values: bool,
    target: str | None,
    trust: tuple[str, ...],
    with_json: bool,
) -> int:
    """List the values that lie in quarantine beside SAVEPOINT: whose they are, where they lay, and what failed."""
    from ...serializers.pickled.trust import trusting
    from ...state.savepoint.json_encoding import tagged_quarantined
    from ...state.savepoint.quarantine_savepoint import write_quarantine

    if (with_bytes or with_values) and values_are_redacted():
        option = "--bytes" if with_bytes else "--values"
        raise click.UsageError(f"{option} shows keys and values, which --redact hides")
    if target is not None and state_name is not None:
        raise click.UsageError("--to writes all values in quarantine; leave out --state")
    opened = open_savepoint(savepoint)
    values = [value for value in opened.quarantine() if state_name in {None, value.state}]
    written = write_quarantine(opened, target).place if target is not None else ""
    with trusting(trust):
        read = list(map(tagged_quarantined, values)) if with_values else []
    if with_json:
        print_json(to_data(opened.place, values, with_bytes=with_bytes, read=read) | {"written": written or None})
        return Status.DONE
    print_styled(_blocks(opened.place, values, with_bytes=with_bytes, read=read))
    if written:
        place = shell_word(written)
        print_lines(
            [
                "",
                f"written: {written}, with the types that the values had",
                f"next: stateshift export {place}; or migrate it with the corrected job",
            ]
        )
    return Status.DONE


def to_data(
    place: str, values: Sequence[QuarantinedValue], *, with_bytes: bool, read: Sequence[Any] = ()
) -> dict[str, Any]:
    """Return the list as plain data; `read` has the values in the tagged format, if they are to be shown."""
    listed = plain(values, _VALUE + _VALUE_BYTES * with_bytes)
    for facts, value in zip(listed, read, strict=False):
        facts["value"] = value
    names = ("operator_id", "operator", "state", "kind", "quarantined")
    return {
        "savepoint": place,
        "quarantined": len(values),
        "states": [dict(zip(names, (*state, count), strict=True)) for state, count in _counts(values).items()],
        "values": listed,
    }


def _counts(values: Sequence[QuarantinedValue]) -> Counter[tuple[str, str, str, str]]:
    return Counter((value.operator_id, value.operator, value.state, value.kind) for value in values)


def _blocks(
    place: str, values: Sequence[QuarantinedValue], *, with_bytes: bool, read: Sequence[Any]
) -> Iterator[Block]:
    if not values:
        yield [(f"nothing in quarantine: {place}", "")]
        return
    yield [(f"{many(len(values), 'value')} in quarantine: {place}", "bold")]
    counts = [
        [operator or operator_id, state, kind, f"{count:,}"]
        for (operator_id, operator, state, kind), count in _counts(values).items()
    ]
    yield Table.of(_COUNTS, counts)
    yield []
    columns = (*_VALUES, Column("key bytes"), Column("value bytes")) if with_bytes else _VALUES
    rows = [_cells(value, with_bytes=with_bytes) for value in values]
    if read:
        columns = (*columns, Column("value"))
        rows = [[*row, json_text(value)] for row, value in zip(rows, read, strict=True)]
    yield Table.of(columns, rows)


def _cells(value: QuarantinedValue, *, with_bytes: bool) -> list[str]:
    reason = " ".join(value.shown_reason.split())
    key = value.shown_key or ""
    where = key if value.user_key is None else f"{key}, user key {value.shown_user_key}"
    cells = [value.state, where, value.path, value.rule or "", reason]
    return cells + ([value.key_bytes.hex(), value.value_bytes.hex()] if with_bytes else [])
