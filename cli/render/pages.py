"""What the pages of a plan and of a migration say beside their data: the sentences of the terminal, and commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...serializers.wording import shell_word
from ...state.progress import size_text
from ..inspect_data import to_data
from ..next_steps import options_given
from ..options import PREFIX
from .inspection import head_lines
from .migration import done_lines, headline, quarantine_lines, start_command, tried_lines
from .plan import headline as plan_headline
from .plan import old_job_lines, options_of, way_back, work_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from markupsafe import Markup

    from ...compat.pages.pieces import Line
    from ...compat.profiles import Profile
    from ...state.migration.plan_file import PlanFile
    from ...state.migration.report import MigrationReport
    from ..inspect_data import Inspected
    from ..output import Block

_NOT_IN_A_PLAN = ("--allow-root", "--checkpoint-root", "--redact")


def plan_page(plan: PlanFile, new_types: str = "", file: str = "", notes: Iterable[str] = ()) -> list[Markup]:
    """Return what a page on a plan shows.

    Args:
        plan: The plan.
        new_types: From where the new types come, if the plan does not say it.
        file: The file of the plan, which the next command takes; "": there is none.
        notes: Further sentences.
    """
    from ...compat.pages.pieces import Commands
    from ...compat.pages.pieces import Line as Sentence
    from ...compat.pages.plan import plan_pieces

    facts = [("source", plan.source.place), ("new types", new_types or str(plan.new_types))]
    if options := ", ".join(options_of(plan)):
        facts.append(("with", options))
    facts.append(("rollback", way_back(plan)))
    command = migrate_with(plan, file) if file else ""
    sentences = [*lines_of(work_lines(plan)), *lines_of(old_job_lines(plan)), *map(Sentence, notes)]
    return plan_pieces(
        plan.to_data(), plan.made, plan_headline(plan), facts, Commands(migrate=command), sentences,
        samples=plan.samples,
    )  # fmt: skip


def migrate_with(plan: PlanFile, file: str) -> str:
    """Return the command that carries out the plan of a file."""
    target = f"{PREFIX}NEW" if plan.typed is not None else "NEW_SAVEPOINT"
    command = f"stateshift migrate {shell_word(plan.source.place)} {target} --plan {shell_word(file)}"
    return f"{command} {options_given('migrate', only=_NOT_IN_A_PLAN)}".rstrip()


def dry_run_page(report: MigrationReport) -> list[Markup]:
    """Return what a page on a dry run shows: the plan, and what was tried."""
    assert report.plan_file is not None  # noqa: S101 - of a dry run
    new_types = report.plan.job if report.query is None else ""
    return plan_page(report.plan_file, new_types, notes=tried_lines(report))


def migration_page(report: MigrationReport, more: Iterable[Block] = ()) -> list[Markup]:
    """Return what a page on a finished migration shows.

    Args:
        report: The report.
        more: Further lines that were printed, such as those of a proof.
    """
    from ...compat.pages.pieces import Line as Sentence
    from ...compat.pages.plan import migration_pieces

    _, *rest = done_lines(report)
    notes = [*(Sentence(line, "red") for line in quarantine_lines(report)), *lines_of([*rest, *more])]
    return migration_pieces(
        report.to_data(), report.plan, headline(report), _migrated_facts(report), _commands_after(report), notes
    )


def _migrated_facts(report: MigrationReport) -> Iterator[tuple[str, str]]:
    yield "source", f"{report.source} (untouched)"
    yield "new", report.target
    yield "new types", report.plan.job
    if report.bytes_read is not None and report.bytes_written is not None:
        yield "read, written", f"{size_text(report.bytes_read)}, {size_text(report.bytes_written)}"
    yield "took", f"{report.seconds:.1f} s"
    yield "rollback", f"possible; {report.rollback}"


def _commands_after(report: MigrationReport) -> Iterator[tuple[str, str]]:
    place = report.target if report.query is None else PREFIX + report.target
    yield "Prove it", f"stateshift verify {shell_word(place)}"
    if command := start_command(report):
        yield "Start the job", command
    if report.quarantined:
        yield "List what is in quarantine", f"stateshift quarantine {shell_word(report.target)}"


def contents_page(inspected: Inspected, profile: Profile | None = None) -> list[Markup]:
    """Return what a page on stored state shows; with a profile, what its values are."""
    from ...compat.pages.contents import contents_pieces

    states = [(view, state) for view in inspected.operators for state in view.states]
    types = {
        (view.facts.operator_id, state.name, state.lazy_version): state.description
        for view, state in states
        if state.description is not None
    }
    _, *head = head_lines(inspected)
    from ...compat.profiles import profile_data

    data, figures = to_data(inspected, with_skew=True), None if profile is None else profile_data(profile)
    return contents_pieces(data, types, list(lines_of(head)), profile=figures)


def lines_of(blocks: Iterable[Block]) -> Iterator[Line]:
    """Yield the lines of a text report, without its tables."""
    from ...compat.pages.pieces import Line as Sentence

    for block in blocks:
        if isinstance(block, list) and (text := "".join(text for text, _ in block).strip()):
            yield Sentence(text, block[-1][1])
