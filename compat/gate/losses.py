"""Losses of a change that the rules allow: fields, states, digits. The gate refuses them unless they are allowed.

A loss is allowed by its name: a flag, and what is lost.

    drops:$.coupon                  a field; drops:shop/open is a state, drops:shop all states of an operator
    possible_rename:note->remark    a removed field that may be the new field
    lossy:$.price                   a value that the new type stores less exactly
    may_fail_per_value:$.visits     a null that is not looked for, since no bytes are rewritten

`shop/open=drops:$.coupon` applies to one state only.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import attrs

from ...serializers.compatibility import Decision, Finding, Flag, Flagged, Nulls, Path, Verdict
from ...serializers.errors import DeclarationError
from ...serializers.ways_out import Does, Option, WayOut
from ..check import paired
from ..description import StateKind
from ..one_sided_states import Candidates, sharing_states
from ..policy import ACCEPT_ALL, LOOK, Policy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..description import JobDescription, OperatorDescription, StateDescription

_LOSING = (Flag.DROPS, Flag.POSSIBLE_RENAME, Flag.LOSSY)
_LOSING_BACK = (Flag.POSSIBLE_RENAME, Flag.LOSSY)
"""On the way back, fields that the old job never knew are dropped: this is reported, but the old job loses nothing."""

REMOVED = "STATE-9"
"""The rule of the finding on a state that the job does not take."""

_STATE = Path.naming("state")
_NAMES = 2  # of a field that may be renamed

_NAME = re.compile(rf"(?:(?P<state>.+?)=)?(?:{'|'.join((*_LOSING, Flag.MAY_FAIL_PER_VALUE))}):.+")


def _names(given: Iterable[str]) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(given))
    for name in names:
        if not _NAME.fullmatch(name):
            raise DeclarationError(
                f"{name!r} is not the name of a loss",
                advice="write it as the gate prints it: drops:$.FIELD, drops:UID/STATE, possible_rename:OLD->NEW or"
                " lossy:$.FIELD; with UID/STATE= before it for one state alone",
            )
    return names


@attrs.frozen
class Guard:
    """The losses that the gate refuses beyond the rules, and those that the caller has allowed.

    Attributes:
        allow: Names of losses; `DeclarationError` is raised for other names.
        policy: Flags that refuse a finding even if its loss is allowed.
        accept: Of a query of Spark: the rules whose findings are accepted.
    """

    allow: tuple[str, ...] = attrs.field(default=(), converter=_names)
    policy: Policy = ACCEPT_ALL
    accept: tuple[str, ...] = ()

    def allowing(self, place: str, finding: Finding, *, is_back: bool = False) -> tuple[str, ...]:
        """Return the names that allow the losses of a finding; empty if one of the losses is not allowed.

        Allowing a field to be dropped also says that it was not renamed, for the way back as well.

        Args:
            place: The state, as UID/STATE.
            finding: A finding on the state.
            is_back: Whether the old job is the reader: `note->remark` is then a rename of `remark` to `note`.
        """
        found = {
            loss: self._allowing(place, loss, finding, is_back=is_back) for loss in losses(finding, is_back=is_back)
        }
        drops = tuple(given for loss, given in found.items() if given and loss.flag is Flag.DROPS)
        return drops or (tuple(found.values()) if all(found.values()) else ())

    def _allowing(self, place: str, loss: Flagged, finding: Finding, *, is_back: bool) -> str:
        names = [loss]
        if loss.flag is Flag.DROPS and finding.path == _STATE:
            names.append(Flag.DROPS.of(place.rpartition("/")[0]))  # for all states of the operator
        if is_back and loss.flag is Flag.POSSIBLE_RENAME and len(loss.details) == _NAMES:
            before, after = loss.details
            names.append(Flag.POSSIBLE_RENAME.of(after, before))
            names.append(Flag.DROPS.of(finding.path.beside(before, after)))
        wanted = [*(f"{place}={one}" for one in names), *map(str, names)]
        return next((one for one in wanted if one in self.allow), "")

    def change(self, place: str, decision: Decision, findings: tuple[Finding, ...], *, is_back: bool) -> Change:
        """Return the change of a state, with its allowed losses and the others.

        Args:
            place: The state, as UID/STATE.
            decision: Whether the state must be migrated first.
            findings: All findings on the state.
            is_back: Whether the old job is to read what the new one writes.
        """
        allowed: list[str] = []
        lost = []
        for finding in findings:
            if not losses(finding, is_back=is_back) or (_is_unlooked_for(finding) and decision is not Decision.START):
                continue
            names = self.allowing(place, finding, is_back=is_back)
            allowed += names
            if not names:
                lost.append(_with_way_out(finding, is_back=is_back))
        return Change(is_back, decision, findings, tuple(dict.fromkeys(allowed)), tuple(lost))


@attrs.frozen
class Change:
    """The change of a state, or a key, between the last revision and the job.

    Attributes:
        is_back: Whether the old job is to read what the new one writes.
        decision: Whether the state must be migrated first.
        findings: All findings on the state.
        allowed: The allowed losses, as the caller named them.
        lost: The findings with losses that are not allowed; allowing the loss is added as a way out.
    """

    is_back: bool
    decision: Decision
    findings: tuple[Finding, ...]
    allowed: tuple[str, ...] = ()
    lost: tuple[Finding, ...] = ()

    @property
    def told(self) -> tuple[Finding, ...]:
        """The findings to show: those that require a migration, and those with a flag."""
        return tuple(one for one in self.findings if one.flags or one.verdict >= Verdict.REQUIRES_MIGRATION)


def losses(finding: Finding, *, is_back: bool = False) -> tuple[Flagged, ...]:
    """Return the losses in a finding; the text of each is its name."""
    losing = _LOSING_BACK if is_back and finding.path != _STATE else _LOSING
    found = [one for one in finding.flags if one.flag in losing]
    if _is_unlooked_for(finding):
        found.append(Flagged(Flag.MAY_FAIL_PER_VALUE))
    return tuple(one if one.details else one.flag.of(finding.path) for one in found)


def _is_unlooked_for(finding: Finding) -> bool:
    """Whether stored bytes may contain nulls that the reader does not accept, and stay as they are."""
    return finding.nulls is Nulls.DECLARED


def is_doubt(finding: Finding) -> bool:
    """Whether a finding only says that the stored type does not mention nulls, which is no doubt if the code does."""
    return finding.nulls is Nulls.UNTOLD and not finding.forbidden


def _with_way_out(finding: Finding, *, is_back: bool) -> Finding:
    """Add the way to allow the loss, and remove the way out to migrate, which does not prevent the loss."""
    if finding.verdict is Verdict.INCOMPATIBLE:
        return finding
    allow = WayOut.telling("if it may be lost:", Option.ALLOW, losses(finding, is_back=is_back)[0])
    kept = () if is_back else tuple(way for way in finding.ways_out if way.does is not Does.MIGRATE)
    looks = (LOOK,) if _is_unlooked_for(finding) and not is_back else ()
    return attrs.evolve(finding, ways_out=(*looks, *kept, allow))


def removed(old: JobDescription, new: JobDescription, *, is_back: bool = False) -> Iterator[tuple[str, str, Finding]]:
    """Yield operator, state and a finding for every stored state that the job does not take, with a likely new name.

    Args:
        old: The stored side.
        new: The job.
        is_back: Whether the finding describes the consequence for the old job, if it has to continue.
    """
    theirs = {operator.operator_id: operator for operator in new.operators}
    ours = {operator.operator_id for operator in old.operators}
    started = [operator for operator in new.operators if operator.operator_id not in ours]
    is_only = len(ours - theirs.keys()) == 1
    for was in old.operators:
        title, becomes = was.uid or was.operator_id, theirs.get(was.operator_id)
        pairs = list(paired(was.states, becomes.states if becomes else ()))
        fresh = Candidates.of(after for before, after in pairs if before is None and after is not None)
        for state, taken in pairs:
            if state is None or taken is not None or state.is_dropped or state.kind is StateKind.TIMERS:
                continue
            if becomes is None:
                why, renamed = f"no operator has the uid {title!r}", _likely_operator(was, started, is_only=is_only)
            else:
                why, renamed = "no state of the job takes it", _likely_state(title, state, fresh)
            yield title, state.name, _gone(f"{title}/{state.name}", state, renamed, why, is_back=is_back)


def _gone(place: str, state: StateDescription, renamed: WayOut | None, why: str, *, is_back: bool) -> Finding:
    lost = (
        "the old job would start it empty" if is_back else "Flink starts only with --allowNonRestoredState, without it"
    )
    ways: tuple[WayOut | str, ...] = (*([renamed] if renamed else []), f"keep the state {place}")
    flags = (Flag.DROPS.of(place),)
    return Finding(_STATE, REMOVED, Verdict.COMPATIBLE, state.describe(), "", f"{why}; {lost}", ways, flags)


def _likely_operator(was: OperatorDescription, started: list[OperatorDescription], *, is_only: bool) -> WayOut | None:
    """Return a hint at the operator's new uid, if only one new operator is likely to be it."""
    like = sharing_states({state.name for state in was.states}, started) or (started if is_only else [])
    if len(like) != 1 or not like[0].uid:
        return None
    words = f"if the operator is called {like[0].uid!r} now:"
    return WayOut.telling(words, Option.RENAME_UID, was.uid or was.operator_id, like[0].uid)


def _likely_state(title: str, was: StateDescription, started: Candidates) -> WayOut | None:
    """Return a hint at the state's new name, if exactly one new state is like it."""
    like = started.only_one_like(was)
    if like is None:
        return None
    return WayOut.telling(f"if it is called {like.name!r} now:", Option.RENAME_STATE, f"{title}/{was.name}", like.name)
