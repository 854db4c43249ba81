"""`stateshift verify`: is this savepoint whole, and is every key where Flink looks for it?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..serializers.wording import many
from .failures import Status
from .options import common_options, import_option, savepoint_argument
from .output import Column, is_terminal, print_json, print_lines, print_rich, table_lines
from .progress import spinning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from ..state.savepoint.verify import Check, VerifyReport

_COLUMNS = (Column("check"), Column("result"), Column("detail"))
_STYLES = {"ok": "green", "failed": "bold red", "unproven": "yellow"}


@click.command(
    "verify",
    short_help="Prove a savepoint whole, and every key in its place.",
    epilog="""\b
Examples:
  stateshift verify /data/savepoints/sp-1-v2
  stateshift verify /data/savepoints/sp-1-v2 --json

\b
Checks: structure (metadata, streams, every entry's framing), digests (of savepoints that stateshift wrote), the key
group of every key (rule RUN-3), and that every value can be read. A key whose type has no stable hash is `unproven`,
which is no failure.
Exit status 1: a check failed.""",
)
@savepoint_argument()
@import_option
@common_options
def command(savepoint: str, *, with_json: bool) -> int:
    """Check the structure of SAVEPOINT, its digests where it has any, and the key group of every key."""
    from ..state.savepoint.reader import Savepoint
    from ..state.savepoint.verify import verify

    opened = Savepoint.open(savepoint)
    with spinning("verifying") as show:
        report = verify(opened, progress=show)
    if with_json:
        print_json(to_data(opened.place, report))
    elif is_terminal():
        print_rich(_renderables(opened.place, report))
    else:
        print_lines(_text_lines(opened.place, report))
    return Status.DONE if report.ok else Status.REFUSED


def to_data(place: str, report: VerifyReport) -> dict[str, Any]:
    """Give the report as plain data."""
    return {
        "savepoint": place,
        "ok": report.ok,
        "checks": [
            {"name": check.name, "status": str(check.status), "detail": check.detail, "where": check.where}
            for check in report.checks
        ],
    }


def _headline(place: str, report: VerifyReport) -> str:
    statuses = [str(check.status) for check in report.checks]
    failed, unproven = statuses.count("failed"), statuses.count("unproven")
    checks = many(len(statuses), "check")
    if failed:
        return f"not verified: {place} ({failed} of {checks} failed)"
    return f"verified: {place} ({checks}, {unproven} unproven)" if unproven else f"verified: {place} ({checks})"


def _cells(check: Check) -> list[str]:
    where = f" ({check.where})" if check.where else ""
    return [check.name, str(check.status), f"{check.detail}{where}"]


def _text_lines(place: str, report: VerifyReport) -> Iterator[str]:
    yield _headline(place, report)
    yield from table_lines(_COLUMNS, [_cells(check) for check in report.checks], indent=2)


def _renderables(place: str, report: VerifyReport) -> Iterator[RenderableType]:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    yield Text(_headline(place, report), style="bold green" if report.ok else "bold red")
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for column in _COLUMNS:
        table.add_column(column.title, overflow="fold")
    for check in report.checks:
        name, status, detail = _cells(check)
        table.add_row(Text(name), Text(status, style=_STYLES.get(status, "")), Text(detail))
    yield Padding(table, (0, 0, 0, 2))
