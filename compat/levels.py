"""Levels: which earlier revisions of a job a new one must get along with, and in which direction.

    NONE                                    nothing must hold
    BACKWARD                                the new job can take over the last revision's savepoint
    FORWARD                                 the last revision's job can take over the new job's savepoint (rollback)
    FULL                                    both
    BACKWARD_TRANSITIVE, FORWARD_TRANSITIVE, FULL_TRANSITIVE
                                            the same for every revision

Source: compatibility rules, section 12.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import attrs

from ..serializers.compatibility import Decision, Verdict
from .check import check
from .description import StateKind
from .recording import digest
from .report import Status

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterable, Iterator, Sequence

    from ..serializers.compatibility import Finding
    from .description import JobDescription, OperatorDescription
    from .report import CheckReport, OperatorReport, StateReport

KEY = "<key>"
"""What stands for an operator's key where a state is named."""

_REGISTRY_BLIND = "AV-8"
"""The rule by which units and meanings are judged, which schema registries do not know (rule CI-3)."""

_OF_ROLES = {"ROLE-2", "ROLE-5"}
"""Rules that refuse a key or namespace as a whole, because of what the findings below say."""


class Direction(enum.StrEnum):
    """Who is to take over whose state."""

    BACKWARD = "backward"
    FORWARD = "forward"

    def told(self, revision: str) -> str:
        """Say what failed, of a revision."""
        if self is Direction.BACKWARD:
            return f"the job cannot take over the state of {revision}"
        return f"{revision} could not take the state back"


class Level(enum.StrEnum):
    """What must hold; by the names that schema registries use."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    FORWARD = "FORWARD"
    FULL = "FULL"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def directions(self) -> tuple[Direction, ...]:
        """The directions that count."""
        if self is Level.NONE:
            return ()
        name = self.removesuffix("_TRANSITIVE")
        return tuple(Direction) if name == "FULL" else (Direction(name.lower()),)

    @property
    def is_transitive(self) -> bool:
        """Whether every revision counts, and not the last alone."""
        return self.endswith("_TRANSITIVE")


@attrs.frozen
class Levels:
    """Levels of a project; the most specific one holds (rule CI-5).

    Attributes:
        project: Of every state for which nothing else is said.
        operators: By uid.
        states: By `UID/STATE`; the key of an operator is `UID/<key>`.
    """

    project: Level = Level.BACKWARD
    operators: dict[str, Level] = attrs.field(factory=dict)
    states: dict[str, Level] = attrs.field(factory=dict)

    @property
    def used(self) -> frozenset[Level]:
        """All levels that may hold for some state."""
        return frozenset([self.project, *self.operators.values(), *self.states.values()])

    def of(self, operator: str, state: str) -> tuple[Level, str]:
        """Give the level of a state, and what it was set for: `project`, an operator or a state."""
        name = f"{operator}/{state}"
        if name in self.states:
            return self.states[name], name
        if operator in self.operators:
            return self.operators[operator], operator
        return self.project, "project"


@attrs.frozen
class Override:
    """A failure that is let pass for a while (rule CI-6).

    Attributes:
        state: `UID/STATE`, or `UID/<key>`.
        rule: Identifier of the rule whose findings are let pass.
        reason: Why.
        expires: The last day on which it holds.
    """

    state: str
    rule: str
    reason: str
    expires: dt.date


@attrs.frozen
class Revision:
    """A state of the job's code that was recorded, or is stored somewhere.

    Attributes:
        name: As a person names it: `0003`, a savepoint's place, a git reference.
        description: What it declared.
        sha256: Its digest, where that is known.
    """

    name: str
    description: JobDescription
    sha256: str = ""


@attrs.frozen
class Failure:
    """One revision with which a state does not get along.

    Attributes:
        revision: Its name.
        direction: Who cannot take over whose state.
        findings: All that stand against it.
        strict: Whether a migration would do, and was refused because the caller is strict.
    """

    revision: str
    direction: Direction
    findings: tuple[Finding, ...]
    strict: bool = False

    @property
    def refusing(self) -> tuple[Finding, ...]:
        """The findings that refuse."""
        worst = max((finding.verdict for finding in self.findings), default=Verdict.INCOMPATIBLE)
        return tuple(finding for finding in self.findings if finding.verdict is worst)


@attrs.frozen
class StateGate:
    """What was found for one state.

    Attributes:
        operator: Its operator's uid or id.
        state: Its name, or `<key>`.
        level: What had to hold.
        set_for: What that level was set for: `project`, an operator or a state.
        failures: Every revision with which it does not get along, the newest first (rule CI-2); at level NONE those
            with the last one, for information.
        overridden: Overrides that let failures pass.
        expired: Overrides that no longer do.
    """

    operator: str
    state: str
    level: Level
    set_for: str
    failures: tuple[Failure, ...] = ()
    overridden: tuple[Override, ...] = ()
    expired: tuple[Override, ...] = ()

    @property
    def name(self) -> str:
        """`UID/STATE`."""
        return f"{self.operator}/{self.state}"

    @property
    def passes(self) -> bool:
        """Whether nothing stands against it, or nothing that counts."""
        return self.level is Level.NONE or all(self._is_let_pass(failure) for failure in self.failures)

    def _is_let_pass(self, failure: Failure) -> bool:
        found = [self.override_of(finding, failure) for finding in failure.refusing]
        return bool(found) and None not in found

    def override_of(self, finding: Finding, failure: Failure) -> Override | None:
        """Give the override that lets one finding of a failure pass, or None.

        It names the finding's rule, or that of a role which refuses the key, or the namespace, in which the finding is.
        """
        rules = {one.rule for one in failure.refusing if one.rule in _OF_ROLES and finding.path.startswith(one.path)}
        return next((override for override in self.overridden if override.rule in {finding.rule, *rules}), None)


@attrs.frozen
class GateReport:
    """The answer of the gate.

    Attributes:
        candidate: Where the new side comes from, in words.
        revisions: Names of the history, the oldest first.
        states: All states and keys of the candidate and of the revisions that count, by name.
        is_recorded: Whether the candidate equals the last of these revisions (rule CI-4).
        sha256: Digest of what the candidate declares.
    """

    candidate: str
    revisions: tuple[str, ...]
    states: tuple[StateGate, ...]
    is_recorded: bool
    sha256: str = ""

    @property
    def passes(self) -> bool:
        """Whether every state passes."""
        return all(state.passes for state in self.states)


def judge(
    history: Sequence[Revision],
    candidate: JobDescription,
    levels: Levels,
    *,
    today: dt.date,
    overrides: Iterable[Override] = (),
    strict: bool = False,
) -> GateReport:
    """Hold a job against its history (rules CI-1 to CI-6).

    Args:
        history: The oldest first; an empty one accepts everything (CI-1).
        candidate: The job as it is to be.
        levels: What must hold.
        today: Decides which overrides have expired.
        overrides: Failures that are let pass.
        strict: Whether a required migration is a failure too.

    Raises:
        CompatibilityCheckError: A serializer failed while it was asked.
        NothingInCommon: A revision and the candidate share no operator.
    """
    failures: dict[tuple[str, str], list[Failure]] = {place: [] for place in _places(candidate)}
    for revision in reversed(history):
        is_last = revision is history[-1]
        for direction in Direction:
            if not any(_counts(level, direction, is_last=is_last) for level in levels.used):
                continue
            for operator, state, failure in _asked(revision, candidate, direction, strict=strict):
                of_state = failures.setdefault((operator, state), [])
                level, _ = levels.of(operator, state)
                if failure is not None and _counts(level, direction, is_last=is_last):
                    of_state.append(failure)
    given = tuple(overrides)
    states = tuple(_gated(*place, tuple(of), levels, given, today) for place, of in sorted(failures.items()))
    sha256 = digest(candidate)
    is_recorded = bool(history) and (history[-1].sha256 or digest(history[-1].description)) == sha256
    return GateReport(candidate.origin, tuple(revision.name for revision in history), states, is_recorded, sha256)


def _places(job: JobDescription) -> Iterator[tuple[str, str]]:
    """Give the keys and states of a job by operator and name."""
    for operator in job.operators:
        title = operator.uid or operator.operator_id
        if operator.key is not None:
            yield title, KEY
        yield from ((title, state.name) for state in operator.states)


def _counts(level: Level, direction: Direction, *, is_last: bool) -> bool:
    """Whether a failure concerns a level; at NONE those with the last revision are told, and refuse nothing."""
    if level is Level.NONE:
        return is_last
    return direction in level.directions and (is_last or level.is_transitive)


def _asked(
    revision: Revision, candidate: JobDescription, direction: Direction, *, strict: bool
) -> Iterator[tuple[str, str, Failure | None]]:
    """Ask one side about the other; gives what stands against each key and state that both have."""
    if direction is Direction.BACKWARD:
        report = check(revision.description, candidate)
    else:
        report = check(candidate, revision.description.as_probe())
    for operator in report.operators:
        states = operator.states
        if operator.key is not None:
            result, decision = operator.key.result, operator.key.decision
            yield operator.title, KEY, _failure(revision.name, direction, result.findings, decision, strict=strict)
            if decision is Decision.REFUSE:
                states = _without_key(operator, report)
        for state in states:
            if state.status in {Status.MATCHED, Status.UNREADABLE}:
                findings = state.result.findings
                yield (
                    operator.title,
                    state.name,
                    _failure(revision.name, direction, findings, state.decision, strict=strict),
                )


def _without_key(operator: OperatorReport, report: CheckReport) -> tuple[StateReport, ...]:
    """Ask again of the states of an operator whose key is refused: an override may let that pass, and not them.

    Timers are their keys.
    """

    def keyless(side: JobDescription, of_side: OperatorDescription | None) -> JobDescription:
        assert of_side is not None  # noqa: S101 - the key was judged, so both sides have the operator
        states = tuple(state for state in of_side.states if state.kind is not StateKind.TIMERS)
        return attrs.evolve(side, operators=(attrs.evolve(of_side, key=None, states=states),))

    (again,) = check(keyless(report.old, operator.was), keyless(report.new, operator.becomes)).operators
    return again.states


def _failure(
    revision: str, direction: Direction, findings: tuple[Finding, ...], decision: Decision, *, strict: bool
) -> Failure | None:
    """Give what stands against one state, or None (rule CI-3: of Avro, only what resolution knows)."""
    refusing = [finding for finding in findings if finding.verdict is Verdict.INCOMPATIBLE]
    if decision is Decision.REFUSE:  # without a finding where the key is refused: that is told of the key
        judged = any(finding.rule != _REGISTRY_BLIND for finding in refusing)
        return Failure(revision, direction, findings) if judged else None
    return Failure(revision, direction, findings, strict=True) if strict and decision is Decision.MIGRATE else None


def _gated(
    operator: str,
    state: str,
    failures: tuple[Failure, ...],
    levels: Levels,
    given: tuple[Override, ...],
    today: dt.date,
) -> StateGate:
    level, set_for = levels.of(operator, state)
    mine = [override for override in given if override.state == f"{operator}/{state}"]
    overridden = tuple(override for override in mine if override.expires >= today)
    expired = tuple(override for override in mine if override.expires < today)
    return StateGate(operator, state, level, set_for, failures, overridden, expired)
