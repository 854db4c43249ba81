"""Formatting of the gate's report: lines for people, and data; for tools, see `forms`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ...compat.explain import finding_line
from ...compat.gate.answers import KEY, KEY_GROUPS, READS, WHOLE
from ...compat.gate.levels import Direction
from ...compat.likeness import FEW, alike, some
from ...compat.plain_data import fields_of, plain
from ...serializers.compatibility import Decision
from ...serializers.ways_out import Option, WayOut, on_command_line
from ...serializers.wording import many, shell_word
from .markdown import Head

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...compat.gate.levels import Failure, GateReport, StateGate
    from ...serializers.compatibility import Finding
    from ..output import Line


_NO_WAY_BACK = (
    WayOut("keep the type as it is there"),
    WayOut("give up the way back: a level of BACKWARD"),
)
"""The ways out if the failure is that of an old job, which will not be changed any more."""

BECOMES = {
    Decision.START: "the job can use it as it is",
    Decision.MIGRATE: "it must be migrated before the job can start",
}
_WAYS_BACK = {
    Decision.START: "way back: the old job can use it as it is",
    Decision.MIGRATE: "way back: after migrate --downgrade",
}

_OVERRIDE = "rule reason expires"


def to_data(report: GateReport) -> dict[str, Any]:
    """Return a report as plain data; its field names are stable.

    Returns:
        `passes`, `candidate`, `revisions` (names, the oldest first), `is_recorded`, and `states`. Each state has
        `operator`, `state` (`<key>` for the operator's key), `level`, `set_for` (project, an operator or a state),
        `passes`, `failures` (each `revision`, `direction`, `strict`, `loses`, `findings`, and `against`: the findings
        that make it a failure), `overridden` and `expired` (each `rule`, `reason`, `expires`), and `changes` since the
        last revision (each `direction`, `decision`, `findings`, `allowed`). `accepted` and `migrates` list the accepted
        losses, and the states that it must be migrated before the job can start.
    """
    return {
        "passes": report.passes,
        "accepted": accepted(report),
        "migrates": [state.name for state in report.states if state.is_migrated],
        **fields_of(report, "candidate revisions is_recorded"),
        "states": [
            {
                **fields_of(state, "operator state level set_for passes"),
                "failures": plain(state.failures, "revision direction strict loses findings against"),
                "overridden": plain(state.overridden, _OVERRIDE),
                "expired": plain(state.expired, _OVERRIDE),
                "changes": [
                    {"direction": str(Direction.of(is_back=change.is_back))}
                    | fields_of(change, "decision findings allowed")
                    for change in state.changes
                ],
            }
            for state in report.states
        ],
    }


def text_lines(report: GateReport, *, everything: bool = False) -> list[Line]:
    """Return a report as lines: failures first, then overrides and levels.

    Args:
        report: The report to print.
        everything: Whether equal reports are printed for each place, instead of once for all.
    """
    lines: list[Line] = [_headline(report), [(f"  {_sides(report)}", "dim")]]
    blocks = [(state, list(state_lines(state))) for state in report.states if state.failures or told(state)]
    shown = [(block, "") for block in blocks] if everything else alike(blocks, _shown, lambda one: state_title(one[0]))
    for (_, block), places in shown:
        lines += [[], *block, *([[(f"  {places}", "dim")]] if places else [])]
    lines += [[], *_level_lines(report)]
    return lines


def _shown(block: tuple[StateGate, list[Line]]) -> tuple[object, ...]:
    """Return what is shown of a state or key beside its name, as data."""
    state, _ = block
    failures = [(one.direction, one.told, one.against) for one in state.failures]
    return state.passes, state.level, failures, told(state), state.overridden, state.expired


def _headline(report: GateReport) -> Line:
    failing = [state for state in report.states if not state.passes]
    if failing:
        return [("refuse", "bold red"), (f": {len(failing):,} of {_counted(len(report.states))}", "bold")]
    return [("accept", "green"), (": every state is compatible with its history", "bold")]


def head_of(report: GateReport, end: Closing) -> Head:
    """Return what a report says as a whole, for Markdown."""
    lines = [[_headline(report)], [[(_sides(report), "")]], _level_lines(report)]
    title, *about = ("".join(text for text, _ in line) for some in lines for line in some)
    steps = (end.command, f"for {end.of}") if end.command else ()
    return Head(title, tuple(about), end.told, steps)


def _counted(number: int) -> str:
    return many(number, "state or key", "states and keys")


def _sides(report: GateReport) -> str:
    return f"{report.candidate} against {_history(report)}"


def _history(report: GateReport) -> str:
    if not report.revisions:
        return "no earlier revision"
    return f"{many(len(report.revisions), 'revision')}, the last {report.revisions[-1]}"


def state_title(state: StateGate) -> str:
    """Return the name of a state, or a key, for messages."""
    return title_of(state.operator, state.state)


def title_of(operator: str, state: str) -> str:
    """Return the name of a state, or of what is of an operator, for messages."""
    if (operator, state) == READS:
        return "what the query reads"
    of_operator = {KEY: "the key of ", KEY_GROUPS: "the max parallelism of ", WHOLE: ""}.get(state)
    return f"{operator}/{state}" if of_operator is None else f"{of_operator}operator {operator}"


def state_lines(state: StateGate) -> Iterator[Line]:
    """Yield what the gate says of a state."""
    word, style = ("passes", "yellow") if state.passes else ("refuse", "bold red")
    yield [(f"{state_title(state)}: ", "bold"), (word, style), (f" (level {state.level})", "dim")]
    for failure in state.failures:
        yield [(f"  {failure.direction}: {failure.told}", "")]
        for finding in failure.against:
            yield [(f"    {finding_line(finding)}", "")]
            ways = "; or ".join(map(on_command_line, ways_out(failure, finding)))
            if ways:
                yield [(f"      ways out: {ways}", "dim")]
    for sentence, findings, _ in told(state):
        yield [(f"  {sentence}", "")]
        yield from ([(f"    {finding_line(finding)}", "dim")] for finding in findings)
    for override in state.overridden:
        yield [(f"  accepted until {override.expires}: {override.rule}, {override.reason}", "yellow")]
    for override in state.expired:
        yield [(f"  no longer accepted since {override.expires}: {override.rule}, {override.reason}", "red")]


def ways_out(failure: Failure, finding: Finding) -> tuple[WayOut, ...]:
    """Return the ways out of a failure; for an old job, which stays as it is, there are few."""
    if failure.direction is Direction.BACKWARD:
        return finding.ways_out
    return (*_NO_WAY_BACK, *(way for way in finding.ways_out if way.mentions(Option.ALLOW)))


def told(state: StateGate) -> list[tuple[str, tuple[Finding, ...], bool]]:
    """Return the changes of a state other than failures: a sentence, its findings, and whether it must be migrated."""
    failed = {(one.direction, finding.path, finding.rule) for one in state.failures for finding in one.against}
    lines: dict[tuple[str, tuple[Finding, ...], bool], None] = {}  # changes since several revisions may be equal
    for change in state.changes:
        direction = Direction.of(is_back=change.is_back)
        findings = tuple(one for one in change.told if (direction, one.path, one.rule) not in failed)
        allowed = f"; allowed: {', '.join(change.allowed)}" if change.allowed else ""
        if change.decision is Decision.REFUSE or (not findings and change.told):
            continue  # all of it is reported as failures
        if not change.is_back and (findings or change.decision is Decision.MIGRATE):
            migrates = change.decision is Decision.MIGRATE
            lines[f"{BECOMES[change.decision]}{allowed}", findings, migrates] = None
        elif change.is_back and findings:
            lines[f"{_WAYS_BACK[change.decision]}{allowed}", findings, False] = None
    return list(lines)


def accepted(report: GateReport) -> list[str]:
    """Return the accepted losses: allowed by an option or the project, overridden, or not checked at the level."""
    lines = []
    for state in report.states:
        lines += [f"{name} of {state.name}" for name in state.allowed]
        found = {state.override_of(finding, failure) for failure in state.failures for finding in failure.against}
        lines += [f"{one.rule} of {state.name}" for one in state.overridden if one in found]
        if state.passes:
            lines += [f"{name} of {state.name}, at level {state.level}" for name in state.unguarded]
    return list(dict.fromkeys(lines))


@attrs.frozen
class Closing:
    """The end of a report: what was accepted, and what must be run before the job is deployed.

    Attributes:
        told: It in words.
        command: The command; "" if there is nothing to run.
        of: What the command is for.
    """

    told: str
    command: str = ""
    of: str = ""

    @property
    def line(self) -> str:
        """All of it in one line."""
        return f"{self.told} {self.command}; for {self.of}" if self.command else self.told


def closing(report: GateReport, command: str) -> Closing:
    """Return the end of a report.

    Args:
        report: The report to print.
        command: The command that migrates the state.
    """
    if not report.passes:
        return Closing("not accepted, so do not deploy: keep what is refused, or allow it as shown in its ways out")
    what = some(accepted(report), most=FEW, whole="--json", between="; ") or "nothing is lost"
    migrated = [state_title(state) for state in report.states if state.is_migrated or state.is_left]
    if not migrated:
        return Closing(f"accepted: {what}; before deployment: nothing to run")
    drops = "".join(f" --drop {shell_word(state.name)}" for state in report.states if state.is_left)
    of = some(migrated, most=FEW, whole="--json")
    return Closing(f"accepted: {what}; before deployment:", command + drops, of)


def _level_lines(report: GateReport) -> Iterator[Line]:
    """Yield lines on the levels, and where they were set (rule CI-5)."""
    held: dict[tuple[str, str], int] = {}
    for state in report.states:
        place = (str(state.level), state.set_for)
        held[place] = held.get(place, 0) + 1
    for (level, set_for), count in sorted(held.items(), key=lambda item: (item[0][1] != "project", item[0])):
        where = "the project" if set_for == "project" else set_for
        yield [(f"level {level}, set for {where}: {_counted(count)}", "dim")]
