"""`stateshift history`, `heads`, `show` and `stamp`: the recorded revisions of a job's state, and their deployments."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...compat.plain_data import fields_of, plain
from ...serializers.wording import many
from ..failures import Status
from ..options import common_options
from ..output import Column, Table, print_json, print_lines, print_styled
from ..whole_files import html_option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...compat.description import JobDescription
    from ...compat.gate.history import History, RecordedRevision
    from ..whole_files import OutputFile

_COLUMNS = (Column("revision"), Column("id"), Column("follows"), Column("created"), Column("message", is_text=True))


def _chosen(_: click.Context, __: click.Parameter, folder: Path | None) -> Path:
    from ...state.project import Project

    return folder or Project.find(Path.cwd()).history


history_option = click.option(
    "--history",
    "folder",
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    callback=_chosen,
    help="Folder of the recorded revisions. [default: state_history, or what pyproject.toml says]",
)
"""`--history FOLDER`; the command receives the folder, by default that of the project."""


@click.command(
    "history",
    epilog="""\b
Examples:
  stateshift history
  stateshift history --html history.html
  stateshift history --json""",
)
@history_option
@html_option
@common_options
def history_command(*, folder: Path, html: OutputFile | None, with_json: bool) -> int:
    """List what `stateshift snapshot --job … -m …` has recorded, the oldest first; a head is marked with *.

    Then the queries of Spark that `stateshift snapshot --queries` has described.
    """
    from ..revisions import read_history

    history = read_history(folder)
    queries = {name: str(_file_of(folder, name)) for name in history.queries}
    heads = {head.id for head in history.heads}
    if html is not None:
        from ...compat.pages.history import history_pieces
        from ..page_files import write_page

        write_page(html, f"history: {folder}", history_pieces(history, str(folder), queries.items()))
    if with_json:
        revisions = [_data(one) | {"is_head": one.id in heads} for one in history.revisions]
        print_json({"revisions": revisions, "queries": plain(queries)})
        return Status.DONE
    if not history.revisions and not queries:
        print_lines([f"no revision in {folder}", "next: stateshift snapshot --job MODULE:ATTRIBUTE -m MESSAGE"])
    if history.revisions:
        numbers = Counter(one.number for one in history.revisions)
        names = {one.id: f"{one.number:04}" if numbers[one.number] == 1 else one.name for one in history.revisions}
        rows = [
            [
                one.name + " *" * (one.id in heads),
                one.id,
                ", ".join(names[parent] for parent in one.parents),
                one.created.isoformat(),
                one.message,
            ]
            for one in history.revisions
        ]
        print_styled([Table.of(_COLUMNS, rows, indent=0)])
    print_lines(f"query {name}: {file}" for name, file in queries.items())
    return Status.DONE


def _file_of(folder: Path, query: str) -> Path:
    from ...compat.gate.recorded_queries import FOLDER, SUFFIX

    return folder / FOLDER / f"{query}{SUFFIX}"


def _data(revision: RecordedRevision) -> dict[str, Any]:
    return fields_of(revision, "revision=name id parents created message notes sha256")


@click.command(
    "heads",
    epilog="""\b
Examples:
  stateshift heads
  stateshift heads --json

\b
Exit status 2: there are several heads; the message says how to merge them.""",
)
@history_option
@common_options
def heads_command(*, folder: Path, with_json: bool) -> int:
    """Print the revisions that no other follows."""
    from ..revisions import read_history

    history = read_history(folder)
    if with_json:
        print_json({"heads": [_data(head) for head in history.heads]})
    else:
        print_lines(f"{head.name}  {head.message}" for head in history.heads)
        history.require_one_head()
    return Status.DONE if len(history.heads) < 2 else Status.USAGE


@click.command(
    "show",
    epilog="""\b
Examples:
  stateshift show head
  stateshift show 0003
  stateshift show 0003 --json

\b
REVISION is the name of a revision, its number, its id or the start of the id; or head; or the name of a query of Spark
that `stateshift snapshot --queries` has described.""",
)
@click.argument("revision", metavar="REVISION")
@history_option
@common_options
def show_command(revision: str, *, folder: Path, with_json: bool) -> int:
    """Show what a revision declared."""
    from ...compat.gate.recording import to_data
    from ..revisions import read_history

    history = read_history(folder)
    if read := history.queries.get(revision):
        file = str(_file_of(folder, revision))
        described = read(file)
        facts, lines = {"query": revision, "file": file}, [f"query {revision}, described in {file}"]
    else:
        found = history.find(revision)
        described, facts, lines = found.description, _data(found), [*_heading(found, history)]
    if with_json:
        print_json(facts | to_data(described))
    else:
        print_lines([*lines, *_operator_lines(described)])
    return Status.DONE


def _heading(revision: RecordedRevision, history: History) -> Iterator[str]:
    names = {one.id: one.name for one in history.revisions}
    yield f"revision {revision.name} ({revision.id}), {revision.created}"
    if revision.message:
        yield f"  {revision.message}"
    if revision.parents:
        yield f"  follows {', '.join(names[parent] for parent in revision.parents)}"
    yield from (f"  note: {note}" for note in revision.notes)


def _operator_lines(described: JobDescription) -> Iterator[str]:
    from ...compat.type_difference import state_type_text, type_text

    for operator in described.operators:
        yield ""
        yield f"operator {operator.uid or operator.operator_id}: {many(len(operator.states), 'state')}"
        if operator.key is not None:
            yield f"  key  {type_text(operator.key.snapshot)}"
        for state in operator.states:
            yield f"  {state.name}  {state.kind}  {state_type_text(state)}"
        if operator.computation is not None:
            fields = operator.computation.columns.items()
            yield from (f"    {name} {path} = {text}" for name, of in fields for path, text in of.items())
            yield from (f"    {what}: {text}" for what, text in operator.computation.facts.items())


@click.command(
    "stamp",
    epilog="""\b
Examples:
  stateshift stamp production 0003
  stateshift stamp production head
  stateshift check --job accounts:job --against production

\b
The stamp is kept in the history's folder, in stamps.json; commit it with the deployment.""",
)
@click.argument("name", metavar="NAME")
@click.argument("revision", metavar="REVISION")
@history_option
@common_options
def stamp_command(name: str, revision: str, *, folder: Path, with_json: bool) -> int:
    """Set or move the stamp NAME to a revision; `check --against NAME` then holds a job against what runs there."""
    from ...compat.gate.stamps import FILE, FORMAT, VERSION
    from ..revisions import read_history, read_stamps
    from ..whole_files import OutputFile, says_format

    found = read_history(folder).find(revision)
    stamps = read_stamps(folder)
    before = stamps.find(name)
    stamps = stamps.stamped(name, found.id, dt.datetime.now(tz=dt.UTC).date())
    file = OutputFile(folder / FILE, is_earlier=lambda file: says_format(file, FORMAT, VERSION))
    with file.opened() as stream:
        stream.write(stamps.to_json())
    if with_json:
        print_json({"stamp": name, "revision": found.name, "id": found.id, "before": before and before.revision})
    else:
        print_lines([f"{name} is at {found.name}"])
    return Status.DONE
