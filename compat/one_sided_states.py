"""State that only one side has: stored state that the job does not take, and new state that starts empty (STATE-7).

Either is fine if it is intended. If the two may be one state under two names, the user has to decide: names that are
alike, as one that was changed and what it was before, are looked for among many at once (`SimilarNames`).
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import attrs

from ..serializers.compatibility import Finding, Verdict
from ..serializers.ways_out import Option, WayOut
from .description import StateKind
from .lazy_tables import state_in, whole
from .report import Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from .description import OperatorDescription, StateDescription
    from .policy import Policy
    from .report import OperatorReport, StateReport

_SIMILAR = 0.6
"""How alike two names are, at least: what difflib takes by default."""
_LONGEST = 100
"""Of longer names no bound is computed, so that it needs little memory whatever names a file has."""
_LETTERS = 128


class SimilarNames:
    """Names among which similar ones are looked for.

    `difflib.SequenceMatcher` decides, which takes long: so it decides only where the longest common subsequence, which
    is as long as what it finds or longer, allows that two names are similar. That of one name with each of the others
    takes a few operations on integers, in which each of the others has a span of bits, one for each letter.

    Source: Hyyrö, Bit-parallel LCS-length computation revisited (2004).
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._spans: _Spans | None = None

    def like(self, name: str) -> Iterator[int]:
        """Yield the indexes of the similar names."""
        from difflib import SequenceMatcher  # seldom needed, and slow to import

        if self._spans is None:
            self._spans = _Spans.of(self._names)
        most = self._spans.most_in_common(name) if len(name) <= _LONGEST else None
        matcher = SequenceMatcher(b=name)
        for index, one in enumerate(self._names):
            if most is not None and len(one) <= _LONGEST and 2 * most[index] < _SIMILAR * (len(name) + len(one)):
                continue
            matcher.set_seq1(one)
            if all(ratio() >= _SIMILAR for ratio in (matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio)):
                yield index


@attrs.frozen(eq=False)
class _Spans:
    """Names as spans of bits, each of so many bytes, with a free bit that keeps additions of spans apart.

    Attributes:
        size: The number of bytes of a span.
        letters: The bits at which a letter stands, by the letter; some letters that few names have share theirs.
        every: The bits of all letters.
        lengths: The lengths of the names; 0 for those that are too long.
    """

    size: int
    letters: dict[str, int]
    every: int
    lengths: Sequence[int]

    @classmethod
    def of(cls, names: Sequence[str]) -> _Spans:
        short = [name if len(name) <= _LONGEST else "" for name in names]
        lengths = [len(name) for name in short]
        size = max(lengths, default=0) // 8 + 1
        text = "".join(_folded(name).ljust(8 * size) for name in short)[::-1]  # the last letter is the lowest bit
        within = "".join("1" * length + "0" * (8 * size - length) for length in lengths)[::-1]
        places = {letter: text.translate(_Is(letter)) for letter in set(text)}
        return cls(size, {letter: int(bits, 2) for letter, bits in places.items()}, int(within or "0", 2), lengths)

    def most_in_common(self, name: str) -> list[int]:
        """Return the length of the longest common subsequence with each name, or more."""
        left = self.every  # a bit is cleared where the common subsequence gets longer
        for letter in _folded(name):
            met = left & self.letters.get(letter, 0)
            left = (left + met | left - met) & self.every
        spans, size = left.to_bytes(len(self.lengths) * self.size, "little"), self.size
        ends = range(0, len(spans), size)
        return [
            length - int.from_bytes(spans[at : at + size], "little").bit_count()
            for at, length in zip(ends, self.lengths, strict=True)
        ]


class _Is(dict[int, str]):
    """A table for `str.translate`: 1 for a letter, 0 for each other one."""

    def __init__(self, letter: str) -> None:
        super().__init__({ord(letter): "1"})

    def __missing__(self, _: int) -> str:
        return "0"


def _folded(name: str) -> str:
    """Return a name in which letters that are counted as one are one: what they have in common is no less."""
    return name if name.isascii() else "".join(chr(ord(letter) % _LETTERS) for letter in name)


Operator = TypeVar("Operator", "OperatorReport", "OperatorDescription")

_MOST = 1000
"""Among so many states, at most, a name is looked for: of more, many would be similar by chance, and it takes long."""
_LEFT = {Status.ORPHANED, Status.NOT_IN_PROBE}


def with_likely_names(reports: Sequence[OperatorReport], policy: Policy) -> list[OperatorReport]:
    """Refuse each state that would start empty while one stored state that is left over is like it.

    Args:
        reports: The reports on all operators of both sides.
        policy: The policy that names the states that may start empty anyway.
    """
    return [_with_likely_uid(report, reports, policy) for report in reports]


def _with_likely_uid(report: OperatorReport, reports: Sequence[OperatorReport], policy: Policy) -> OperatorReport:
    if report.status is not Status.NEW:
        left = Candidates.of(whole(one.was for one in report.states if _is_left(one) and one.was is not None))
        return attrs.evolve(
            report, states=tuple(_with_likely_name(state, report, left, policy) for state in report.states)
        )
    stored = _stored_under_another_uid(report, reports)
    if stored is None or not report.uid:
        return report
    names = {state_in(state.name) for state in stored.states}
    title = stored.title
    way = WayOut.telling("if it is that operator:", Option.RENAME_UID, title, report.uid)
    reason = (
        f"the job's operator would start empty, although the stored operator {title!r}, which is not in the job, has "
        "this state"
    )
    states = (
        _refused(state, report, "", reason, way)
        if state.name in names and not policy.allows_empty(report, state.name)
        else state
        for state in report.states
    )
    return attrs.evolve(report, states=tuple(states), likely_uid=title)


def _stored_under_another_uid(report: OperatorReport, reports: Sequence[OperatorReport]) -> OperatorReport | None:
    """Return the stored operator missing in the job that has states of the same names, if there is exactly one."""
    left = (one for one in reports if one.status in _LEFT and (one.was is None or not one.was.stored_id))
    like = sharing_states({state.name for state in report.states}, left)
    return like[0] if len(like) == 1 else None


def _with_likely_name(state: StateReport, operator: OperatorReport, left: Candidates, policy: Policy) -> StateReport:
    is_free = state.status is Status.NEW and not state.result.is_incompatible()
    if not is_free or state.becomes is None or policy.allows_empty(operator, state.name):
        return state
    stored = left.only_one_like(state.becomes)
    if stored is None:
        return state
    name = stored.name
    reason = f"the job's state would start empty, although the stored state {name!r}, which is like it, is not taken"
    way = WayOut.telling("if it is that state:", Option.RENAME_STATE, name, state.name)
    return _refused(state, operator, stored.describe(), reason, way)


def _is_left(state: StateReport) -> bool:
    """Whether a stored state is not taken over and not renamed; renaming is intended."""
    return state.status in _LEFT and (state.was is None or not state.was.stored_name)


def sharing_states(names: set[str], operators: Iterable[Operator]) -> list[Operator]:
    """Return the operators that have states of these names: each may be the same operator with another uid."""
    return [one for one in operators if names & {state_in(state.name) for state in one.states}]


@attrs.frozen
class Candidates:
    """States of one side, among which the former or later name of a state of the other side is looked for.

    Attributes:
        by_type: The states of each kind and type.
        by_kind: The states of each kind, and their names.
    """

    by_type: dict[tuple[StateKind, str], list[StateDescription]]
    by_kind: dict[StateKind, tuple[list[StateDescription], SimilarNames]]

    @classmethod
    def of(cls, states: Iterable[StateDescription]) -> Candidates:
        """Return the candidates among some states; timers have no name of their own."""
        by_type: dict[tuple[StateKind, str], list[StateDescription]] = {}
        by_kind: dict[StateKind, list[StateDescription]] = {}
        for state in states:
            if state.kind is not StateKind.TIMERS:
                by_type.setdefault((state.kind, state.describe()), []).append(state)
                by_kind.setdefault(state.kind, []).append(state)
        named = {kind: (found, SimilarNames([one.name for one in found])) for kind, found in by_kind.items()}
        return cls(by_type, named)

    def only_one_like(self, state: StateDescription) -> StateDescription | None:
        """Return the only candidate that may be `state` under another name; None: there is none, or there are several.

        It may be that state if the kind is equal, and the type is equal or the names are similar. Names are compared
        among at most 1,000 candidates.
        """
        text = state.describe()
        like = list(self.by_type.get((state.kind, text), ()))
        if len(like) > 1:  # names say nothing more, and comparing them takes long
            return None
        of_kind, names = self.by_kind.get(state.kind, ((), SimilarNames(())))
        if len(of_kind) <= _MOST:
            similar = (of_kind[index] for index in names.like(state.name))
            like += islice((one for one in similar if not like or one is not like[0]), 2)
        return like[0] if len(like) == 1 else None


def _refused(state: StateReport, operator: OperatorReport, old: str, reason: str, way: WayOut) -> StateReport:
    name = f"{operator.uid}/{state.name}" if operator.uid else state.name
    ways = (way, WayOut.telling("if it is meant to start empty:", Option.ALLOW_EMPTY, name))
    finding = Finding("$<state>", "STATE-7", Verdict.INCOMPATIBLE, old, state.new, reason, ways)
    return state.refused(finding)
