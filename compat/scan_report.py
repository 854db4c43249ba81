"""What a scan of the stored values found: the answers to the flags of a check that only the data can answer.

A check reads no value (rule V-3). A scan comes after it, reads the states with such flags once, and counts the entries
that would fail. This module has only the answers; `state.migration.scan` finds them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ..serializers.compatibility import Flag, Path
from ..serializers.wording import many, repr_of
from .description import StateKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..serializers.compatibility import Finding
    from .report import OperatorReport, StateReport

Place = tuple[str, str, str]
"""The id of an operator, `StateKind.scope` and the name of a state; scope and name are "" for the operator's key."""


def is_asked(finding: Finding) -> bool:
    """Whether only the stored values can show that nothing of this finding fails."""
    return finding.has(Flag.MAY_FAIL_PER_VALUE)


def place_of(operator: OperatorReport, state: StateReport | None) -> Place:
    """Return the place of a state; without one, that of the operator's key, with which timers are read."""
    if state is None or state.kind is StateKind.TIMERS:
        return operator.operator_id, "", ""
    return operator.operator_id, state.kind.scope, state.name


_UNSEEN = {
    "SPK-13": "static tables have the same rows",
    "SPK-15": "sources have the same rows",
    "SPK-17": "what the checkpoint does not show is unchanged",
    "SPK-18": "only names of fields changed",
    "SPK-21": "functions that changed compute the same",
    "SPK-22": "summaries of the old type count for the new one",
}
"""What has to hold where a finding of a rule has a flag, and nothing that is stored shows whether it does."""


def condition(findings: Iterable[Finding]) -> str:
    """Return the condition under which none of some flagged findings fails, or "" if there are none."""
    flagged = [finding for finding in findings if finding.flags]
    asked = [finding for finding in flagged if is_asked(finding)]
    told = list(dict.fromkeys(_UNSEEN[one.rule] for one in flagged if one.rule in _UNSEEN and not one.forbidden))
    if asked:
        of_nulls = all(one.nulls is not None for one in asked)
        holds = "no stored value is null" if of_nulls else "every stored value fits its type"
        told.append(f"{holds} ({many(len(asked), 'place')})")
    return f"if {' and '.join(told)}" if told else ""


@attrs.frozen
class FailingPlace:
    """The entries of a state that fail at the same path.

    Attributes:
        path: The path within the value, from `$`; `[]` stands for any element.
        count: The number of such entries.
        keys: The first of their keys, as messages show them; none for an operator's list.
        rule: The id of the rule, or "".
        reason: The failure of the first of them.
    """

    path: Path = attrs.field(converter=Path)
    count: int
    keys: tuple[str, ...]
    rule: str
    reason: str


@attrs.frozen(kw_only=True)
class ScannedState:
    """The answer for one state, or for the key of an operator.

    Attributes:
        operator_id: The id of the operator.
        operator: The uid of the operator, or "".
        state: The name of the state; "" for the key.
        kind: The kind of the state; `key` for the key.
        scope: `StateKind.scope`; "" for the key.
        entries: The number of entries that were read.
        failing: The number of entries that would fail.
        places: The failures by path, the most frequent first. An entry counts at the first path at which it fails.
        not_scanned: Why the entries were not all read, or "". Then nothing follows from `failing` being 0.
    """

    operator_id: str
    operator: str
    state: str
    kind: str
    scope: str = ""
    entries: int = 0
    failing: int = 0
    places: tuple[FailingPlace, ...] = ()
    not_scanned: str = ""

    def __repr__(self) -> str:
        return repr_of(self, f"{self.operator or self.operator_id} {self.state or 'key'}", *self.lines())

    @property
    def place(self) -> Place:
        """The place of the state or key."""
        return self.operator_id, self.scope, self.state

    @property
    def is_fine(self) -> bool:
        """Whether every entry was read, and none would fail."""
        return not self.failing and not self.not_scanned

    def lines(self) -> Iterator[str]:
        """Yield the answer in words."""
        if self.not_scanned:
            yield f"scan: not all values were read: {self.not_scanned}"
        if not self.failing:
            if not self.not_scanned:
                yield f"scan: none of {many(self.entries, 'entry', 'entries')} would fail"
            return
        yield f"scan: {self.failing:,} of {many(self.entries, 'entry', 'entries')} would fail"
        for one in self.places:
            keys = f", keys {', '.join(one.keys)}" if one.keys else ""
            more = ", …" if one.keys and one.count > len(one.keys) else ""
            yield f"  {one.path}: {one.count:,}{keys}{more}; {' '.join(one.reason.split())}"


@attrs.frozen
class ScanReport:
    """The answers of a scan.

    Attributes:
        states: One for each state or key with a flag that only the data can answer.
    """

    states: tuple[ScannedState, ...]

    def of(self, place: Place) -> ScannedState | None:
        """Return the answer for a state or key; None if it was not asked."""
        return next((one for one in self.states if one.place == place), None)

    @property
    def entries(self) -> int:
        """The number of entries that were read."""
        return sum(one.entries for one in self.states)

    @property
    def failing(self) -> int:
        """The number of entries that would fail."""
        return sum(one.failing for one in self.states)

    @property
    def not_scanned(self) -> int:
        """The number of states and keys of which not all entries were read."""
        return sum(bool(one.not_scanned) for one in self.states)
