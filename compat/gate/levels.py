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
from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.compatibility import Decision, Verdict
from ..memo import Memo
from .asking import KEY, answers, with_shared_parts
from .losses import REMOVED, losses
from .recording import digest, unchanged

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ...serializers.compatibility import Finding
    from ..description import JobDescription
    from .losses import Change, Guard

_REGISTRY_BLIND = "AV-8"
"""The rule by which units and meanings are judged, which schema registries do not know (rule CI-3)."""

_OF_ROLES = {"ROLE-2", "ROLE-5"}
"""Rules that refuse a key or namespace as a whole, because of what the findings below say."""


class Direction(enum.StrEnum):
    """Who is to take over whose state."""

    BACKWARD = "backward"
    FORWARD = "forward"

    @classmethod
    def of(cls, *, is_back: bool) -> Direction:
        """Give the direction in which the old job reads, or the new one."""
        return cls.FORWARD if is_back else cls.BACKWARD

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
        description: What it declared, or what reads that when it is asked for.
        sha256: Its digest, where that is known.
    """

    name: str
    _given: JobDescription | Callable[[], JobDescription] = attrs.field(alias="description", repr=False)
    sha256: str = ""

    @property
    def description(self) -> JobDescription:
        """What it declared; where that is read from a file, each time anew."""
        return self._given() if callable(self._given) else self._given

    def seen(self, change: Callable[[JobDescription], JobDescription]) -> Revision:
        """Return the revision as one that declared what `change` makes of it."""
        return attrs.evolve(self, description=lambda: change(self.description))


@attrs.frozen
class Failure:
    """One revision with which a state does not get along.

    Attributes:
        revision: Its name.
        direction: Who cannot take over whose state.
        findings: All that was found.
        against: Those that stand against it: that refuse, lose what nobody has allowed to be lost, or ask for a
            migration where none is allowed.
        strict: Whether a migration would do, and was refused because the caller is strict.
        loses: Whether the state can be taken over, and something of it is lost.
    """

    revision: str
    direction: Direction
    findings: tuple[Finding, ...]
    against: tuple[Finding, ...]
    strict: bool = False
    loses: bool = False


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
        changes: What becomes of it since the last revision, there and back; nothing where no guard was asked.
    """

    operator: str
    state: str
    level: Level
    set_for: str
    failures: tuple[Failure, ...] = ()
    overridden: tuple[Override, ...] = ()
    expired: tuple[Override, ...] = ()
    changes: tuple[Change, ...] = ()

    @property
    def name(self) -> str:
        """`UID/STATE`."""
        return f"{self.operator}/{self.state}"

    @property
    def is_migrated(self) -> bool:
        """Whether it must be migrated before the job can start."""
        return any(change.decision is Decision.MIGRATE and not change.is_back for change in self.changes)

    @property
    def is_left(self) -> bool:
        """Whether the job does not take it, which is let pass."""
        return self.passes and any(one.rule == REMOVED for change in self.changes for one in change.findings)

    @property
    def allowed(self) -> tuple[str, ...]:
        """What is lost of it and was allowed, as it was given."""
        return tuple(dict.fromkeys(name for change in self.changes for name in change.allowed))

    @property
    def unguarded(self) -> tuple[str, ...]:
        """What the new job loses of it, and nobody has allowed, where its level is not about the way there."""
        if Direction.BACKWARD in self.level.directions:
            return ()
        lost = (finding for change in self.changes if not change.is_back for finding in change.lost)
        return tuple(dict.fromkeys(name for finding in lost for name in losses(finding)))

    @property
    def passes(self) -> bool:
        """Whether nothing stands against it, or nothing that counts."""
        return self.level is Level.NONE or all(self._is_let_pass(failure) for failure in self.failures)

    def _is_let_pass(self, failure: Failure) -> bool:
        found = [self.override_of(finding, failure) for finding in failure.against]
        return bool(found) and None not in found

    def override_of(self, finding: Finding, failure: Failure) -> Override | None:
        """Give the override that lets one finding of a failure pass, or None.

        It names the finding's rule, or that of a role which refuses the key, or the namespace, in which the finding is.
        """
        rules = {one.rule for one in failure.against if one.rule in _OF_ROLES and finding.path.startswith(one.path)}
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
    guard: Guard | None = None,
) -> GateReport:
    """Hold a job against its history (rules CI-1 to CI-6).

    Args:
        history: The oldest first; an empty one accepts everything (CI-1).
        candidate: The job as it is to be.
        levels: What must hold.
        today: Decides which overrides have expired.
        overrides: Failures that are let pass.
        strict: Whether a required migration is a failure too.
        guard: Refuses what would be lost since the last revision, too (STATE-9, and the flags of findings), and has
            the changes since then told. Without one only verdicts count, as with schema registries (CI-3).

    Raises:
        CompatibilityCheckError: A serializer failed while it was asked.
        NothingInCommon: A revision and the candidate share no operator, and no guard says what becomes of its state.
    """
    places: dict[tuple[str, str], _Found] = {place: _Found() for place in _places(candidate)}
    candidate, known = with_shared_parts(candidate), Memo[tuple[Any, ...], Any]()
    for revision in reversed(history):
        is_last = revision is history[-1]
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
    """Whether a revision is asked in a direction: a level counts it, or the guard, who is told of the last one."""
    is_counted = any(_counts(level, direction, is_last=is_last) for level in levels.used)
    return is_counted or (guard is not None and is_last)


def _is_told_of_both(findings: tuple[Finding, ...], level: Level) -> bool:
    """Whether it is a state that is gone, which is told of the way there."""
    return [one.rule for one in findings] == [REMOVED] and Direction.BACKWARD in level.directions


@attrs.define
class _Found:
    """What is found of a state while the revisions are asked, one after the other."""

    failures: list[Failure] = attrs.field(factory=list)
    changes: list[Change] = attrs.field(factory=list)


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


def _failure(
    revision: str,
    direction: Direction,
    findings: tuple[Finding, ...],
    decision: Decision,
    *,
    strict: bool,
    guard: Guard | None,
) -> Failure | None:
    """Give what the verdicts say against one state, or None (rule CI-3: of Avro, only what resolution knows)."""
    if decision is Decision.REFUSE:  # without a finding where the key is refused: that is told of the key
        refusing = tuple(one for one in findings if one.verdict is Verdict.INCOMPATIBLE or one.forbidden)
        judged = any(guard is not None or finding.rule != _REGISTRY_BLIND for finding in refusing)
        return Failure(revision, direction, findings, refusing) if judged else None
    if strict and decision is Decision.MIGRATE:
        asking = tuple(one for one in findings if one.verdict >= Verdict.REQUIRES_MIGRATION)
        return Failure(revision, direction, findings, asking or findings, strict=True)
    return None


def _losing(failure: Failure | None, revision: str, direction: Direction, change: Change) -> Failure | None:
    """Add to what verdicts say what is lost and not allowed."""
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
