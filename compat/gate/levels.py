"""Levels: the earlier revisions of a job that a new one must be compatible with, and the direction.

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
from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.compatibility import Decision, Verdict
from ...serializers.displayed import Displayed
from ...serializers.wording import many, repr_of
from ..memo import Memo
from .answers import KEY, answers, with_shared_parts
from .losses import REMOVED, losses
from .recording import digest, unchanged

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ...serializers.compatibility import Finding
    from ..description import JobDescription
    from .losses import Change, Guard

_REGISTRY_BLIND = "AV-8"
"""The rule on units and meanings, which schema registries do not check (rule CI-3)."""

_OF_ROLES = {"ROLE-2", "ROLE-5"}
"""Rules that refuse a key or namespace as a whole, because of the findings inside it."""


class Direction(enum.StrEnum):
    """The direction of a check: which side is to take over the other's state."""

    BACKWARD = "backward"
    FORWARD = "forward"

    @classmethod
    def of(cls, *, is_back: bool) -> Direction:
        """Return the direction; with `is_back`, the old job reads the new job's state."""
        return cls.FORWARD if is_back else cls.BACKWARD

    def told(self, revision: str) -> str:
        """Return the sentence on a failure of this direction with a revision."""
        if self is Direction.BACKWARD:
            return f"the job cannot take over the state of {revision}"
        return f"{revision} could not take the state back"


class Level(enum.StrEnum):
    """The compatibility that is required, under the names that schema registries use."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    FORWARD = "FORWARD"
    FULL = "FULL"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def directions(self) -> tuple[Direction, ...]:
        """The directions that are checked."""
        if self is Level.NONE:
            return ()
        name = self.removesuffix("_TRANSITIVE")
        return tuple(Direction) if name == "FULL" else (Direction(name.lower()),)

    @property
    def is_transitive(self) -> bool:
        """Whether every revision counts, and not only the last one."""
        return self.endswith("_TRANSITIVE")


@attrs.frozen
class Levels:
    """The levels of a project; the most specific one applies (rule CI-5).

    Attributes:
        project: The level of every state without a level of its own.
        operators: The levels of operators, by uid.
        states: The levels of states, by `UID/STATE`; the key of an operator is `UID/<key>`.
    """

    project: Level = Level.BACKWARD
    operators: dict[str, Level] = attrs.field(factory=dict)
    states: dict[str, Level] = attrs.field(factory=dict)

    @property
    def used(self) -> frozenset[Level]:
        """All levels that may apply to a state."""
        return frozenset([self.project, *self.operators.values(), *self.states.values()])

    def of(self, operator: str, state: str) -> tuple[Level, str]:
        """Return the level of a state, and where it was set: for the `project`, an operator or a state."""
        name = f"{operator}/{state}"
        if name in self.states:
            return self.states[name], name
        if operator in self.operators:
            return self.operators[operator], operator
        return self.project, "project"


@attrs.frozen
class Override:
    """A failure that is accepted for a while (rule CI-6).

    Attributes:
        state: The state, as `UID/STATE`, or `UID/<key>`.
        rule: The identifier of the rule whose findings are accepted.
        reason: The reason for accepting them.
        expires: The last day on which the override applies.
    """

    state: str
    rule: str
    reason: str
    expires: dt.date


@attrs.frozen
class Revision:
    """A version of a job's state that was recorded, or is stored somewhere.

    Attributes:
        name: The name for people: `0003`, a savepoint's path, a git reference.
        description: The declared types, or a function that reads them on demand.
        sha256: The digest of the description, if it is known.
        is_last: Whether the next version follows it: the last one always is, and others are if branches were merged.
    """

    name: str
    _given: JobDescription | Callable[[], JobDescription] = attrs.field(alias="description", repr=False)
    sha256: str = ""
    is_last: bool = False

    @property
    def description(self) -> JobDescription:
        """The declared types; a description that is read from a file is read again on each access."""
        return self._given() if callable(self._given) else self._given

    def seen(self, change: Callable[[JobDescription], JobDescription]) -> Revision:
        """Return the revision with the description that `change` returns for it."""
        return attrs.evolve(self, description=lambda: change(self.description))


@attrs.frozen
class Failure:
    """A revision that a state is not compatible with.

    Attributes:
        revision: The name of the revision.
        direction: The direction of the failed check.
        findings: All findings of the check.
        against: The findings that make it a failure: they refuse, report a loss that is not allowed, or require a
            migration where none is allowed.
        strict: Whether a migration would help, but the caller accepts none (`strict`).
        loses: Whether the state can be taken over, but part of it is lost.
    """

    revision: str
    direction: Direction
    findings: tuple[Finding, ...]
    against: tuple[Finding, ...]
    strict: bool = False
    loses: bool = False

    @property
    def is_of_gate(self) -> bool:
        """Whether a check of the state alone would not refuse it."""
        return self.strict or self.loses or self.direction is Direction.FORWARD

    @property
    def told(self) -> str:
        """It in a sentence."""
        if self.strict:
            return f"{self.revision} needs a migration, which a strict check does not accept"
        if self.loses and self.direction is Direction.FORWARD:
            return f"{self.revision} would not get all of the state back, or could fail on it"
        if self.loses:
            return f"part of the state of {self.revision} would be lost"
        return self.direction.told(self.revision)


@attrs.frozen
class StateGate:
    """The result of the gate for one state.

    Attributes:
        operator: The uid or id of its operator.
        state: The name of the state, or `<key>`.
        level: The level that applies to it.
        set_for: Where that level was set: for the `project`, an operator or a state.
        failures: The failures with all revisions, the newest first (rule CI-2); at level NONE, the failures with the
            last one, for information.
        overridden: The overrides that apply.
        expired: The overrides that have expired.
        changes: The changes since the last revision, in both directions; empty without a guard.
    """

    operator: str
    state: str
    level: Level
    set_for: str
    failures: tuple[Failure, ...] = ()
    overridden: tuple[Override, ...] = ()
    expired: tuple[Override, ...] = ()
    changes: tuple[Change, ...] = ()

    def __repr__(self) -> str:
        failures = f", {many(len(self.failures), 'failure')}" if self.failures else ""
        return repr_of(self, f"{self.name}: {'passes' if self.passes else 'fails'} at level {self.level}{failures}")

    @property
    def name(self) -> str:
        """The name as `UID/STATE`."""
        return f"{self.operator}/{self.state}"

    @property
    def is_migrated(self) -> bool:
        """Whether the state must be migrated before the job can start."""
        return any(change.decision is Decision.MIGRATE and not change.is_back for change in self.changes)

    @property
    def is_left(self) -> bool:
        """Whether the job does not take the state, and this is accepted."""
        return self.passes and any(one.rule == REMOVED for change in self.changes for one in change.findings)

    @property
    def allowed(self) -> tuple[str, ...]:
        """The allowed losses, as the caller named them."""
        return tuple(dict.fromkeys(name for change in self.changes for name in change.allowed))

    @property
    def unguarded(self) -> tuple[str, ...]:
        """The losses of the new job that were not allowed, if the level does not check the direction BACKWARD."""
        if Direction.BACKWARD in self.level.directions:
            return ()
        lost = (finding for change in self.changes if not change.is_back for finding in change.lost)
        return tuple(dict.fromkeys(str(loss) for finding in lost for loss in losses(finding)))

    @property
    def passes(self) -> bool:
        """Whether there is no failure, or only failures that are overridden or do not count."""
        return self.level is Level.NONE or all(self._is_let_pass(failure) for failure in self.failures)

    def _is_let_pass(self, failure: Failure) -> bool:
        found = [self.override_of(finding, failure) for finding in failure.against]
        return bool(found) and None not in found

    def override_of(self, finding: Finding, failure: Failure) -> Override | None:
        """Return the override that accepts one finding of a failure, or None.

        The override names the finding's rule, or the rule that refuses the whole key or namespace with the finding in
        it.
        """
        rules = {one.rule for one in failure.against if one.rule in _OF_ROLES and finding.path.is_within(one.path)}
        return next((override for override in self.overridden if override.rule in {finding.rule, *rules}), None)


@attrs.frozen
class GateReport(Displayed):
    """The result of the gate.

    Attributes:
        candidate: The origin of the new side, in words.
        revisions: The names of the revisions in the history, the oldest first.
        states: The results for all states and keys of the candidate and of the revisions that count, by name.
        is_recorded: Whether the candidate equals the last revision (rule CI-4).
        sha256: The digest of the candidate's declared types.
    """

    candidate: str
    revisions: tuple[str, ...]
    states: tuple[StateGate, ...]
    is_recorded: bool
    sha256: str = ""

    def __repr__(self) -> str:
        failing = [state for state in self.states if not state.passes]
        states = many(len(self.states), "state or key", "states and keys")
        told = f"refuse: {len(failing):,} of {states}" if failing else f"accept: {states}"
        last = f"{many(len(self.revisions), 'revision')}{''.join(f', the last {one}' for one in self.revisions[-1:])}"
        return repr_of(self, told, f"{self.candidate} against {last}", *(repr(one)[1:-1] for one in failing))

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
    guard: Guard | None = None,
) -> GateReport:
    """Check a job against its history (rules CI-1 to CI-6).

    Args:
        history: The revisions, the oldest first; an empty history accepts everything (CI-1).
        candidate: The new version of the job.
        levels: The levels that apply.
        today: The date that decides which overrides have expired.
        overrides: The failures that are accepted.
        strict: Whether a required migration is a failure, too.
        guard: Also refuses losses since each last revision (STATE-9, and the flags of findings), and adds the changes
            since then to the result. Without it, only verdicts count, as with schema registries (CI-3).

    Raises:
        CompatibilityCheckError: A serializer failed during the check.
        NothingInCommon: A revision and the candidate share no operator, and there is no guard to report the removed
            states.
    """
    places: dict[tuple[str, str], _Found] = {place: _Found() for place in _places(candidate)}
    candidate, known = with_shared_parts(candidate), Memo[tuple[Any, ...], Any]()
    for revision in reversed(history):
        is_last = revision.is_last or revision is history[-1]
        directions = [one for one in Direction if _is_asked(levels, one, guard, is_last=is_last)]
        if not directions:
            continue
        description = revision.description
        same = unchanged(description, candidate) if guard is not None and is_last else set()
        for direction in directions:
            is_back = direction is Direction.FORWARD
            asked = answers(description, candidate, is_back=is_back, guard=guard, known=known)
            for operator, state, decision, findings in asked:
                place = operator, state
                found, (level, _) = places.setdefault(place, _Found()), levels.of(*place)
                if is_back and _is_told_of_both(findings, level):
                    continue
                failure = _failure(revision.name, direction, findings, decision, strict=strict, guard=guard)
                if guard is not None and is_last and (decision is not Decision.START or place not in same):
                    change = guard.change("/".join(place), decision, findings, is_back=is_back)
                    found.changes.append(change)
                    failure = _losing(failure, revision.name, direction, change)
                if failure is not None and _counts(level, direction, is_last=is_last):
                    found.failures.append(failure)
        known.turn()
    given = tuple(overrides)
    states = tuple(_gated(*place, found, levels, given, today) for place, found in sorted(places.items()))
    sha256 = digest(candidate)
    is_recorded = bool(history) and (history[-1].sha256 or digest(history[-1].description)) == sha256
    return GateReport(candidate.origin, tuple(revision.name for revision in history), states, is_recorded, sha256)


def _is_asked(levels: Levels, direction: Direction, guard: Guard | None, *, is_last: bool) -> bool:
    """Whether a revision is checked in a direction, for a level or for the guard, which gets the last one."""
    is_counted = any(_counts(level, direction, is_last=is_last) for level in levels.used)
    return is_counted or (guard is not None and is_last)


def _is_told_of_both(findings: tuple[Finding, ...], level: Level) -> bool:
    """Whether the only finding is that the state is gone, and the direction BACKWARD already reports it."""
    return [one.rule for one in findings] == [REMOVED] and Direction.BACKWARD in level.directions


@attrs.define
class _Found:
    """The results for a state, collected while the revisions are checked one after the other."""

    failures: list[Failure] = attrs.field(factory=list)
    changes: list[Change] = attrs.field(factory=list)


def _places(job: JobDescription) -> Iterator[tuple[str, str]]:
    """Yield the keys and states of a job by operator and name."""
    for operator in job.operators:
        title = operator.uid or operator.operator_id
        if operator.key is not None:
            yield title, KEY
        yield from ((title, state.name) for state in operator.states)


def _counts(level: Level, direction: Direction, *, is_last: bool) -> bool:
    """Whether a failure counts at a level; at NONE, failures with the last one are reported, and refuse nothing."""
    if level is Level.NONE:
        return is_last
    return direction in level.directions and (is_last or level.is_transitive)


def _failure(
    revision: str,
    direction: Direction,
    findings: tuple[Finding, ...],
    decision: Decision,
    *,
    strict: bool,
    guard: Guard | None,
) -> Failure | None:
    """Return the failure of one state by its verdict, or None (CI-3: of Avro, only schema resolution counts)."""
    if decision is Decision.REFUSE:  # no finding if the key is refused, which is reported for the key
        refusing = tuple(one for one in findings if one.verdict is Verdict.INCOMPATIBLE or one.forbidden)
        judged = any(guard is not None or finding.rule != _REGISTRY_BLIND for finding in refusing)
        return Failure(revision, direction, findings, refusing) if judged else None
    if strict and decision is Decision.MIGRATE:
        asking = tuple(one for one in findings if one.verdict >= Verdict.REQUIRES_MIGRATION)
        return Failure(revision, direction, findings, asking or findings, strict=True)
    return None


def _losing(failure: Failure | None, revision: str, direction: Direction, change: Change) -> Failure | None:
    """Add the losses that are not allowed to the failure by the verdicts."""
    if not change.lost:
        return failure
    if failure is None:
        return Failure(revision, direction, change.findings, change.lost, loses=True)
    places = {(one.path, one.rule) for one in failure.against}
    more = tuple(one for one in change.lost if (one.path, one.rule) not in places)
    return attrs.evolve(failure, against=failure.against + more)


def _gated(
    operator: str,
    state: str,
    found: _Found,
    levels: Levels,
    given: tuple[Override, ...],
    today: dt.date,
) -> StateGate:
    level, set_for = levels.of(operator, state)
    mine = [override for override in given if override.state == f"{operator}/{state}"]
    overridden = tuple(override for override in mine if override.expires >= today)
    expired = tuple(override for override in mine if override.expires < today)
    return StateGate(operator, state, level, set_for, tuple(found.failures), overridden, expired, tuple(found.changes))
