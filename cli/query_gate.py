"""`--queries` of `check` and `snapshot`: the queries of Spark that a project lists, and their descriptions in it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import click

from ..serializers.compatibility import Decision
from ..serializers.wording import many
from .failures import Status
from .options import refuse_options
from .output import Line, print_json, print_lines, print_notice, print_styled
from .spark_queries import planning_session
from .whole_files import OutputFile, says_format

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ..compat.description import JobDescription
    from ..compat.policy import Policy
    from ..spark.queries.gate import QueryChecks, QueryGate
    from .commands.history_check import GateOptions
    from .render.forms import Place

F = TypeVar("F", bound="Callable[..., Any]")
_OF_CHECK = {
    *("queries", "accept", "allow_migration", "forbid", "with_json", "redact"),
    *("against", "level", "strict", "allow", "allow_drift", "form"),
}
_OF_SNAPSHOT = {"queries", "folder", "with_json", "redact"}
_REFUSED = "{} does not apply with --queries; leave it out"
_HEADLINES = {
    Decision.START: "every query can go on from the state in production",
    Decision.MIGRATE: "the state of {} in production must be rewritten first",
    Decision.REFUSE: "{} cannot go on from the state in production",
}
_NEXT = "stateshift snapshot --queries; then commit the file"


def queries_option(help_text: str) -> Callable[[F], F]:
    """Add `--queries`: all queries of `[tool.stateshift]`."""
    return click.option("--queries", is_flag=True, help=help_text)


def check_queries(
    gate: GateOptions, accept: tuple[str, ...], policy: Policy, *, allow_migration: bool, form: str, with_json: bool
) -> int:
    """Check all listed queries, print the reports and return the exit status."""
    refuse_options(_REFUSED, others_than=_OF_CHECK)
    from ..compat.gate.levels import Level
    from ..compat.gate.losses import Guard
    from ..compat.report_data import to_data
    from ..spark.queries.gate import QueryGate
    from .render.forms import print_form
    from .render.gate import to_data as gate_data
    from .render.markdown import Head

    queries = QueryGate.find(Path.cwd())
    queries.stored()  # what is missing is said before Spark, which takes seconds to start
    earlier = _earlier(gate.against, queries) if gate.against else None
    with planning_session() as spark:
        level = Level(gate.level.upper()) if gate.level else None
        guard = Guard(gate.allow, policy, accept)
        found = queries.check(spark, earlier=earlier, level=level, strict=gate.strict, guard=guard)
    status = _status(found, allow_migration=allow_migration, allow_drift=gate.allow_drift)
    if with_json:
        data = [
            {"name": one.name, "drift": one.drift or None, **to_data(one.report), "gate": gate_data(one.gate)}
            for one in found.checks
        ]
        print_json({"decision": str(found.decision), "queries": data, "exit_status": int(status)})
        return status
    if form == "text":
        print_styled(_lines(found))
    else:
        head = Head("".join(text for text, _ in _headline(found)), steps=(f"next: {_NEXT}",) * (status is Status.DRIFT))
        print_form(form, head, _places(found, queries.places, status, migration_fails=not allow_migration))
    if status is Status.DRIFT:
        print_notice(*(f"drift: query {one.name} {one.drift}" for one in found.checks if one.drift), f"  next: {_NEXT}")
    return status


def _earlier(place: str, queries: QueryGate) -> dict[str, JobDescription]:
    """Return the descriptions in a folder of what is recorded, or at a git reference.

    Raises:
        UsageError: It is neither, or the folder has none.
    """
    from ..state.project import Project
    from .revisions import history_at, read_history

    is_folder = Path(place).is_dir()
    folder, at = (Path(place).absolute(), "") if is_folder else (queries.history, f" at {place}")
    history = read_history(folder) if is_folder else history_at(place, Project.find(Path.cwd()))
    if history is None:
        raise click.UsageError(f"--against {place!r} is neither a folder nor a git reference")
    others = attrs.evolve(queries, history=folder)
    found = {
        name: read(others.shown(others.file(name)) + at)
        for name, read in history.queries.items()
        if name in queries.places
    }
    if is_folder and not found:
        raise click.UsageError(f"--against {place!r} has no descriptions of the listed queries")
    return found


def _status(found: QueryChecks, *, allow_migration: bool, allow_drift: bool) -> Status:
    if found.decision is Decision.REFUSE:
        return Status.REFUSED
    if found.decision is Decision.MIGRATE and not allow_migration:
        return Status.MIGRATE_FIRST
    return Status.DRIFT if any(one.drift for one in found.checks) and not allow_drift else Status.DONE


def _places(
    found: QueryChecks, modules: Mapping[str, str], status: Status, *, migration_fails: bool
) -> Iterator[Place]:
    """Yield what is said of each query, for the forms of tools."""
    from .render.forms import drifted, file_of, of_gate

    for one in found.checks:
        file = file_of(modules[one.name])
        yield from of_gate(one.gate, file, one.name, migration_fails=migration_fails)
        if one.drift and status is Status.DRIFT:
            yield drifted(one.gate.candidate, one.drift, _NEXT, file, one.name)


def _headline(found: QueryChecks) -> Line:
    from ..compat.explain import STYLES

    concerned = sum(one.decision is found.decision for one in found.checks)
    queries = f"{concerned} of {many(len(found.checks), 'query', 'queries')}"
    return [(str(found.decision), STYLES[found.decision]), (f": {_HEADLINES[found.decision].format(queries)}", "bold")]


def _lines(found: QueryChecks) -> Iterator[Line]:
    """Yield the reports as lines."""
    from ..compat.explain import STYLES, sides_of
    from .render.check import report_lines
    from .render.gate import state_lines

    yield _headline(found)
    for one in found.checks:
        yield []
        yield [(f"{one.name}: ", "bold"), (str(one.decision), STYLES[one.decision])]
        has_more = any(True for _ in one.report.all_findings())
        lines = report_lines(one.report) if has_more else iter([[(f"  {sides_of(one.report)}", "dim")]])
        if has_more:
            next(lines)
        yield from lines
        for state in one.gate.states:
            if state.overridden or state.expired or any(failure.is_of_gate for failure in state.failures):
                yield from ([], *state_lines(state))


def record_queries(folder: Path, *, with_json: bool) -> int:
    """Describe all listed queries, and write the descriptions that are new or differ."""
    refuse_options(_REFUSED, others_than=_OF_SNAPSHOT)
    from ..compat.explain import obstacles
    from ..compat.gate.recorded_queries import FORMAT, VERSION, query_text, same
    from ..compat.queries.verdict import judge
    from ..spark.queries.gate import QueryGate

    queries = attrs.evolve(QueryGate.find(Path.cwd()), history=folder.absolute())
    kept = {name: queries.read(name) for name in queries.places if queries.file(name).exists()}
    files = {
        name: OutputFile(queries.file(name), is_earlier=lambda file: says_format(file, FORMAT, VERSION))
        for name in queries.places
    }
    with planning_session() as spark:
        found = {name: queries.describe(name, spark, kept[name].settings if name in kept else None) for name in files}
    written = {}
    for name, described in found.items():
        written[name] = name not in kept or not same(described, kept[name])
        if not written[name]:
            continue
        if name in kept:
            report = judge(kept[name], described, known=kept[name])
            for line in obstacles(report):
                print_notice(f"{name}: {report.decision}: {line}")
        queries.file(name).parent.mkdir(parents=True, exist_ok=True)
        with files[name].opened() as stream:
            stream.write(query_text(described))
    shown = {name: queries.shown(queries.file(name)) for name in found}
    if with_json:
        print_json({"queries": [{"name": name, "file": shown[name], "written": written[name]} for name in found]})
    else:
        print_lines([f"{'written' if written[name] else 'unchanged'}: {shown[name]}" for name in found])
    return Status.DONE
