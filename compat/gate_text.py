"""The gate's answer for its readers: lines for a person, data, GitHub's annotations and JUnit for tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from ..serializers.compatibility import Verdict
from ..serializers.escaping import github_command, one_line
from ..serializers.wording import many
from .explain import finding_line
from .levels import KEY, Direction
from .report_data import finding_data

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..serializers.compatibility import Finding
    from .levels import Failure, GateReport, Override, StateGate

Span = tuple[str, str]
"""Text, and how a terminal shows it: "bold", "dim", "red"; "" for plain."""


_NO_WAY_BACK = ("keep the type as it is there", "give up the way back: a level of BACKWARD")
"""What can be done where an old job, which nobody will change any more, is asked."""


def to_data(report: GateReport) -> dict[str, Any]:
    """Give a report as plain data; the keys are stable.

    Returns:
        `passes`, `candidate`, `revisions` (names, the oldest first), `is_recorded`, and `states`. Of each: `operator`,
        `state` (`<key>` for the operator's key), `level`, `set_for` (project, an operator or a state), `passes`,
        `failures` (each `revision`, `direction`, `strict`, `findings`), `overridden` and `expired` (each `rule`,
        `reason`, `expires`).
    """
    return {
        "passes": report.passes,
        "candidate": report.candidate,
        "revisions": list(report.revisions),
        "is_recorded": report.is_recorded,
        "states": [
            {
                "operator": state.operator,
                "state": state.state,
                "level": str(state.level),
                "set_for": state.set_for,
                "passes": state.passes,
                "failures": [_failure_data(failure) for failure in state.failures],
                "overridden": [_override_data(override) for override in state.overridden],
                "expired": [_override_data(override) for override in state.expired],
            }
            for state in report.states
        ],
    }


def _failure_data(failure: Failure) -> dict[str, Any]:
    return {
        "revision": failure.revision,
        "direction": str(failure.direction),
        "strict": failure.strict,
        "findings": [finding_data(finding) for finding in failure.findings],
    }


def _override_data(override: Override) -> dict[str, Any]:
    return {"rule": override.rule, "reason": override.reason, "expires": override.expires.isoformat()}


def text_lines(report: GateReport) -> list[list[Span]]:
    """Give a report as lines: what stands against the job first, then overrides and levels."""
    lines: list[list[Span]] = [_headline(report), [(f"  {report.candidate} against {_history(report)}", "dim")]]
    for state in report.states:
        if state.failures:
            lines += [[], *_state_lines(state)]
    lines += [[], *_level_lines(report)]
    return lines


def _headline(report: GateReport) -> list[Span]:
    failing = [state for state in report.states if not state.passes]
    if failing:
        return [("refuse", "bold red"), (f": {len(failing):,} of {_counted(len(report.states))}", "bold")]
    return [("accept", "green"), (": every state gets along with its history", "bold")]


def _counted(number: int) -> str:
    return many(number, "state or key", "states and keys")


def _history(report: GateReport) -> str:
    if not report.revisions:
        return "an empty history"
    return f"{many(len(report.revisions), 'revision')}, the last {report.revisions[-1]}"


def state_title(state: StateGate) -> str:
    """Name a state, or a key, as messages do."""
    return f"the key of operator {state.operator}" if state.state == KEY else f"{state.operator}/{state.state}"


def _state_lines(state: StateGate) -> Iterator[list[Span]]:
    word, style = ("passes", "yellow") if state.passes else ("refuse", "bold red")
    yield [(f"{state_title(state)}: ", "bold"), (word, style), (f" (level {state.level})", "dim")]
    for failure in state.failures:
        yield [(f"  {failure.direction}: {failure_text(failure)}", "")]
        for finding in against(failure):
            yield [(f"    {finding_line(finding)}", "")]
            ways = "; or ".join(_NO_WAY_BACK if failure.direction is Direction.FORWARD else finding.ways_out)
            if ways:
                yield [(f"      ways out: {ways}", "dim")]
    for override in state.overridden:
        yield [(f"  let pass until {override.expires}: {override.rule}, {override.reason}", "yellow")]
    for override in state.expired:
        yield [(f"  no longer let pass since {override.expires}: {override.rule}, {override.reason}", "red")]


def failure_text(failure: Failure) -> str:
    """Say in a sentence which revision stands against a state."""
    if failure.strict:
        return f"{failure.revision} needs a migration, and --strict allows none"
    return failure.direction.told(failure.revision)


def against(failure: Failure) -> tuple[Finding, ...]:
    """Give the findings that stand against a state: what refuses, or asks for a migration where none is allowed."""
    least = Verdict.REQUIRES_MIGRATION if failure.strict else Verdict.INCOMPATIBLE
    found = tuple(finding for finding in failure.findings if finding.verdict >= least)
    return found or failure.findings  # where the header alone is to be rewritten


def _level_lines(report: GateReport) -> Iterator[list[Span]]:
    """Say which level held where (rule CI-5)."""
    held: dict[tuple[str, str], int] = {}
    for state in report.states:
        place = (str(state.level), state.set_for)
        held[place] = held.get(place, 0) + 1
    for (level, set_for), count in sorted(held.items(), key=lambda item: (item[0][1] != "project", item[0])):
        where = "the project" if set_for == "project" else set_for
        yield [(f"level {level}, set for {where}: {_counted(count)}", "dim")]


def github_lines(report: GateReport, file: str, drift: str = "") -> str:
    """Give a line for each failure that GitHub shows beside the code.

    Args:
        report: What was found.
        file: Where the job is, from the root of the repository; "" where that is not known.
        drift: Of a job that passes: what it differs from, in words; "" where it is recorded.
    """
    place = {"file": file} if file else {}
    lines = []
    for state in report.states:
        for failure in state.failures:
            word = "warning" if state.passes else "error"
            title = f"{state_title(state)}: {failure_text(failure)}"
            lines.append(github_command(word, place | {"title": title}, map(finding_line, against(failure))))
    if drift and report.passes:
        told = f"{report.candidate} {drift}: stateshift snapshot -m …"
        lines.append(github_command("error", place | {"title": "not recorded"}, [told]))
    return "".join(f"{line}\n" for line in lines)


def junit(report: GateReport) -> str:
    """Give the report as JUnit XML: a case for each state and key.

    Source: the form that pytest writes and Jenkins and GitLab read, which no standard tells.
    """
    failing = sum(not state.passes for state in report.states)
    counts = {"tests": str(len(report.states)), "failures": str(failing), "errors": "0", "skipped": "0", "time": "0"}
    suites = ET.Element("testsuites", {"name": "stateshift"} | counts)
    suite = ET.SubElement(suites, "testsuite", {"name": "stateshift"} | counts)
    for state in report.states:
        case = ET.SubElement(
            suite, "testcase", classname=one_line(state.operator), name=one_line(state.state), time="0"
        )
        if state.passes:
            continue
        lines = [
            f"{failure.direction} {failure.revision}: {finding_line(finding)}"
            for failure in state.failures
            for finding in against(failure)
        ]
        message = f"level {state.level}: {many(len(state.failures), 'revision')} against it"
        # What cannot be printed is escaped, and so is all that XML cannot hold.
        failure = ET.SubElement(case, "failure", message=one_line(message), type="incompatible")
        failure.text = "\n".join(map(one_line, lines))
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"
