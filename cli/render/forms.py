"""The report of any check in the forms of tools: GitHub's annotations, JUnit XML, SARIF (`sarif`), and `markdown`.

A check of stored state, of queries, or against a history first becomes places, each a state or key, with what is said.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import attrs

from ...compat.explain import finding_line
from ...compat.gate.answers import KEY, KEY_GROUPS, READS, WHOLE
from ...compat.gate.levels import Direction
from ...compat.queries.wording import for_people
from ...compat.report import Status
from ...serializers.compatibility import Decision, Verdict
from ...serializers.wording import github_command, many, one_line
from ..output import print_json, write_text
from .gate import BECOMES, title_of, told, ways_out
from .markdown import markdown, write_step_summary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ...compat.gate.levels import GateReport, Override
    from ...compat.report import CheckReport, OperatorReport, StateReport
    from ...serializers.compatibility import Finding
    from .markdown import Head

ERROR, WARNING, NOTE = "error", "warning", "note"


@attrs.frozen
class Entry:
    """What is said of a place.

    Attributes:
        level: An error if the exit status says it; a warning if it is accepted for a while; else a note.
        sentence: It in words.
        name: Tells it from what else is said of the place, in every run; without findings, it is the rule.
        findings: Those behind it.
        overrides: What accepts each of them; empty if nothing does.
    """

    level: str
    sentence: str
    name: str
    findings: tuple[Finding, ...] = ()
    overrides: tuple[Override | None, ...] = ()


@attrs.frozen
class Place:
    """A state or key, and all that is said of it.

    Attributes:
        operator: The operator; for one of several queries, with the name of the query before it.
        state: The state, or `<key>`.
        title: Both in words.
        entries: What is said.
        file: The module that declares it, from the root of the repository; "" if it is not known.
        about: What fails, in one line.
    """

    operator: str
    state: str
    title: str
    entries: tuple[Entry, ...]
    file: str = ""
    about: str = ""

    @property
    def fails(self) -> bool:
        """Whether the exit status says it."""
        return any(entry.level == ERROR for entry in self.entries)

    def says(self, entry: Entry) -> str:
        """Return the sentence of an entry, after the place."""
        return ": ".join(filter(None, (self.title, entry.sentence)))


def of_gate(report: GateReport, file: str = "", query: str = "", *, migration_fails: bool = False) -> Iterator[Place]:
    """Yield the places of a gate's report.

    Args:
        report: The report.
        file: The module of the job, from the root of the repository; "" if it is not known.
        query: The name of the query, if it is one of several.
        migration_fails: Whether the exit status says that state must be migrated.
    """
    for state in report.states:
        entries = [
            Entry(
                WARNING if state.passes else ERROR,
                failure.told,
                f"{failure.direction} {failure.revision}",
                tuple(attrs.evolve(one, ways_out=ways_out(failure, one)) for one in failure.against),
                tuple(state.override_of(finding, failure) for finding in failure.against),
            )
            for failure in state.failures
        ]
        for sentence, findings, migrates in told(state):
            entries.append(Entry(ERROR if migrates and migration_fails else NOTE, sentence, sentence, findings))
        about = f"level {state.level}: {many(len(state.failures), 'revision')} against it"
        if state.passes:
            about = BECOMES[Decision.MIGRATE]
        yield _place(query, state.operator, state.state, entries, file, about)


def _place(query: str, operator: str, state: str, entries: Iterable[Entry], file: str, about: str = "") -> Place:
    before, title = (f"{query}/", f"{query}: ") if query else ("", "")
    return Place(f"{before}{operator}", state, f"{title}{title_of(operator, state)}", tuple(entries), file, about)


def drifted(what: str, drift: str, command: str, file: str = "", query: str = "") -> Place:
    """Return the place of a job, or a query, that differs from what is recorded of it; a command records it."""
    entry = Entry(ERROR, "not recorded", "drift")
    return Place(query, "<recorded>", query, (entry,), file, f"{what} {drift}: {command}")


def _worded(report: CheckReport) -> CheckReport:
    return for_people(report) if report.is_of_query else report


@attrs.frozen(kw_only=True)
class OfCheck:
    """The places of a check of stored state.

    Attributes:
        report: Its report; findings on a query are worded as its author writes it.
        file: The module of the new side, from the root of the repository; "" if it is not known.
        allow_migration: Whether a required migration is accepted.
        allow_non_restored_state: Whether stored state that is not taken is accepted.
        lacks: What is missing beside, and the exit status says, or "".
    """

    report: CheckReport = attrs.field(converter=_worded)
    file: str = ""
    allow_migration: bool
    allow_non_restored_state: bool
    lacks: str = ""

    def places(self) -> Iterator[Place]:
        """Yield the places: what the query reads, then each operator's."""
        report = self.report
        if report.reads is not None:
            yield _place("", *READS, self._judged(report.reads.decision, report.reads.result.findings), self.file)
        if self.lacks:
            yield _place("", *READS, [Entry(ERROR, self.lacks, "recording")], self.file)
        for operator in report.operators:
            name = operator.uid or operator.operator_id
            for at, role in ((KEY_GROUPS, operator.key_groups), (KEY, operator.key), (WHOLE, operator.whole)):
                if role is not None:
                    more = self._scanned(operator, None) if at == KEY else ()
                    yield _place("", name, at, (*self._judged(role.decision, role.result.findings), *more), self.file)
            if operator.is_renumbered and operator.decision is Decision.MIGRATE:
                yield _place("", name, WHOLE, self._judged(Decision.MIGRATE, ()), self.file)
            for state in operator.states:
                yield _place("", name, state.name, self._of_state(operator, state), self.file)

    def _judged(self, decision: Decision, findings: tuple[Finding, ...]) -> Iterator[Entry]:
        refusing = tuple(one for one in findings if one.verdict is Verdict.INCOMPATIBLE or one.forbidden)
        shown = tuple(one for one in findings if one.flags or one.verdict >= Verdict.REQUIRES_MIGRATION)
        if decision is Decision.REFUSE:
            sentence = Direction.BACKWARD.told(self.report.old.origin)
            yield Entry(ERROR, sentence, Direction.BACKWARD, refusing or findings)
        elif shown or decision is Decision.MIGRATE:
            is_error = decision is Decision.MIGRATE and not self.allow_migration
            yield Entry(ERROR if is_error else NOTE, BECOMES[decision], str(decision), shown)

    def _of_state(self, operator: OperatorReport, state: StateReport) -> Iterator[Entry]:
        yield from self._judged(state.decision, state.result.findings)
        one_sided = Entry(ERROR, state.status.words, str(state.status))
        if any(state is one for _, one in self.report.not_taken):
            yield attrs.evolve(one_sided, level=NOTE) if self.allow_non_restored_state else one_sided
        elif state.status is Status.NEW and not self.report.policy.allows_empty(operator, state.name):
            yield one_sided
        yield from self._scanned(operator, state)

    def _scanned(self, operator: OperatorReport, state: StateReport | None) -> Iterator[Entry]:
        found = self.report.scan_of(operator, state)
        if found is not None and not found.is_fine:
            yield Entry(ERROR if found.failing else NOTE, "; ".join(found.lines()), "scan")


def file_of(job: str) -> str:
    """Return the file for annotations: the module of the job, as a path from the current folder, or ""."""
    name = job.rpartition(":")[0]
    loaded = getattr(sys.modules.get(Path(name).stem if name.endswith(".py") else name), "__file__", None)
    if loaded and Path(loaded).is_relative_to(Path.cwd()):
        return Path(loaded).relative_to(Path.cwd()).as_posix()
    module = name.replace(".", "/")
    found = (f"{module}.py", f"{module}/__init__.py", f"src/{module}.py")
    return next((name for name in found if module and Path(name).is_file()), "")


def print_form(form: str, head: Head, places: Iterable[Place], *, everything: bool = False) -> None:
    """Print a report in the form of a tool: github (which has a summary, too), junit, markdown or sarif."""
    places = list(places)
    if form == "sarif":
        from ... import __version__
        from ...state.project_settings import FILE
        from .sarif import sarif

        print_json(sarif(places, __version__, elsewhere=FILE))
    elif form == "markdown":
        write_text(markdown(head, places, everything=everything))
    elif form == "junit":
        write_text(junit(places))
    else:
        write_text(github_lines(places))
        write_step_summary(markdown(head, places, everything=everything))


def github_lines(places: Iterable[Place]) -> str:
    """Return the annotations that GitHub shows beside the code, one line for each entry."""
    lines = []
    for place in places:
        at = {"file": place.file} if place.file else {}
        for entry in place.entries:
            word = "notice" if entry.level == NOTE else entry.level
            found = map(finding_line, entry.findings) if entry.findings else [place.about or entry.sentence]
            lines.append(github_command(word, at | {"title": place.says(entry)}, found))
    return "".join(f"{line}\n" for line in lines)


def junit(places: Iterable[Place]) -> str:
    """Return the report as JUnit XML, with one test case for each state and key.

    Source: the format as pytest writes it and Jenkins and GitLab read it; there is no standard.
    """
    listed = list(places)
    failing = sum(place.fails for place in listed)
    counts = {"tests": str(len(listed)), "failures": str(failing), "errors": "0", "skipped": "0", "time": "0"}
    suites = ET.Element("testsuites", {"name": "stateshift"} | counts)
    suite = ET.SubElement(suites, "testsuite", {"name": "stateshift"} | counts)
    for place in listed:
        case = ET.SubElement(
            suite, "testcase", classname=one_line(place.operator), name=one_line(place.state), time="0"
        )
        if place.fails:
            errors = [entry for entry in place.entries if entry.level == ERROR]
            message = place.about or "; ".join(entry.sentence for entry in errors)
            # Unprintable characters are escaped, and so are those that XML does not allow.
            failure = ET.SubElement(case, "failure", message=one_line(message), type="incompatible")
            lines = [f"{one.name}: {line}" for one in errors for line in map(finding_line, one.findings)]
            failure.text = "\n".join(map(one_line, lines or [entry.sentence for entry in errors]))
        elif notes := [entry for entry in place.entries if entry.level == NOTE]:
            said = ["\n".join(map(one_line, (one.sentence, *map(finding_line, one.findings)))) for one in notes]
            ET.SubElement(case, "system-out").text = "\n".join(said)
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"
