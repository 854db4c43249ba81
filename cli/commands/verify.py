"""`stateshift verify`: is this savepoint complete, and is every key where Flink looks for it?"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs
import click

from ...compat.likeness import FEW
from ...compat.plain_data import fields_of, plain
from ...serializers.wording import many
from ..failures import Status, libraries_needed
from ..options import (
    all_option,
    allowed_roots,
    common_options,
    import_option,
    is_spark,
    open_savepoint,
    refuse_options,
    savepoint_argument,
    spark_options,
)
from ..output import Block, Column, Line, Table, print_json, print_styled
from ..progress import show_progress
from ..proving import proving_options
from ..run_failures import spark_failures_told
from ..whole_files import html_option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...state.savepoint.verify import Check, VerifyReport
    from ..proving import Proving
    from ..whole_files import OutputFile

_OF_SPARK = {"master", "py_files"}
_COLUMNS = (Column("check"), Column("result"), Column("detail", is_text=True))
_STYLES = {"ok": "green", "failed": "bold red", "unproven": "yellow"}


@click.command(
    "verify",
    epilog="""\b
Examples:
  stateshift verify /data/savepoints/sp-1-v2
  stateshift verify /data/savepoints/sp-1-v2 --values
  stateshift verify /data/savepoints/sp-1-v2 --prove flink --flink-home /opt/flink --job-jar job.jar
  stateshift verify /data/savepoints/sp-1-v2 --html verified.html
  stateshift verify /data/savepoints/sp-1-v2 --json
  stateshift verify s3://bucket/sp-1-v2 --master spark://host:7077
  stateshift verify spark:/data/checkpoints/clicks-v2

\b
Checks: structure (metadata, streams, every entry's framing), digests (of savepoints that stateshift wrote), the key
group of every key (rule RUN-3), and that every value can be read. A key whose type has no stable hash is `unproven`,
which is not a failure. If the digests are right, they cover the last two checks: keys and values are then read again
only with --values.
The streams are read on all cores of this machine. Spark reads them with --master, or if plain Python would have to read
so many values that Spark is faster.

\b
--prove flink starts real Flink in a process of its own. It restores the savepoint, takes a canonical savepoint of what
it has restored, and looks every key up; all is compared, and the certificate is written into _stateshift.json, if the
savepoint has one. It needs a JDK. Flink reads serializers in the savepoint as Java does: prove only what you trust.

\b
Of a copy that `stateshift migrate spark:OLD spark:NEW` made, every entry is compared with its source: converted once
more, in its partition. What functions or DataFrames filled in is `unproven`.
Exit status 1: a check failed, or with --prove nothing was proven.""",
)
@savepoint_argument()
@click.option("--values", is_flag=True, help="Read every key and value, even if digests show that nothing changed.")
@proving_options
@all_option
@html_option
@import_option
@spark_options
@common_options
def command(
    savepoint: str,
    *,
    values: bool,
    proving: Proving,
    everything: bool,
    html: OutputFile | None,
    master: str | None,
    py_files: list[str],
    with_json: bool,
) -> int:
    """Check the structure of SAVEPOINT, its digests where it has any, and, without them, every key and value."""
    certificate = None
    flink = proving.installation()
    if is_spark(savepoint):
        if flink is not None:
            raise click.UsageError("--prove flink is of savepoints: Flink does not read checkpoints of Spark")
        refuse_options("the copy of a Spark checkpoint is verified in this process: leave out {}", names=_OF_SPARK)
        with libraries_needed("spark"):
            from ...spark.queries.verification import verify_checkpoint
        with show_progress() as show:
            report = verify_checkpoint(savepoint, progress=show, allow_roots=allowed_roots())
    else:
        from ...spark.verify import verify

        opened = open_savepoint(savepoint)
        with show_progress() as show, spark_failures_told("Nothing was written."):
            report = verify(opened, trust_digests=not values, progress=show, master=master, py_files=py_files)
        if flink is not None and opened.query is None:
            report, certificate = proving.proven(report, flink)
    if html is not None:
        _write_page(html, savepoint, report, certificate)
    if with_json:
        print_json(to_data(report.place, report) | ({} if certificate is None else {"proof": certificate}))
    else:
        print_styled(blocks(report.place, report, everything=everything))
    proven = certificate is None or certificate["proven"]
    return Status.DONE if report.ok and proven else Status.REFUSED


def _write_page(html: OutputFile, place: str, report: VerifyReport, certificate: dict[str, Any] | None) -> None:
    from ...compat.pages.verification import verification_pieces
    from ..page_files import write_page

    facts = [] if certificate is None else [("proven by real Flink", "yes" if certificate["proven"] else "no")]
    notes = [_BY_DIGESTS] if report.by_digests else []
    write_page(html, f"verify: {place}", verification_pieces(report.place, report.checks, facts, notes))


_BY_DIGESTS = "keys and values were not read, as the digests cover them: --values reads them"


def to_data(place: str, report: VerifyReport) -> dict[str, Any]:
    """Return the report as plain data."""
    return {
        "savepoint": place,
        **fields_of(report, "ok by_digests"),
        "checks": plain(report.checks, "name status detail where"),
    }


def blocks(place: str, report: VerifyReport, *, everything: bool) -> Iterator[Block]:
    """Yield the report as text."""
    yield [(attrs.evolve(report, place=place).headline, "bold green" if report.ok else "bold red")]
    checks = report.checks
    if len(checks) > FEW and not everything:
        fine = Counter(check.name for check in checks if check.status == "ok")
        rows = [_counted(name, count) for name, count in fine.items()]
        rows += [_row(check) for check in checks if check.status != "ok"]
    else:
        rows = [_row(check) for check in checks]
    yield Table(_COLUMNS, rows, indent=2)
    if report.by_digests:
        yield [(_BY_DIGESTS, "")]


def _counted(name: str, count: int) -> list[Line]:
    return [[(name, "")], [("ok", _STYLES.get("ok", ""))], [(f"{many(count, 'check')} (--all lists them)", "")]]


def _row(check: Check) -> list[Line]:
    where = f" ({check.where})" if check.where else ""
    cells = [(check.name, ""), (str(check.status), _STYLES.get(check.status, "")), (f"{check.detail}{where}", "")]
    return [[cell] for cell in cells]
