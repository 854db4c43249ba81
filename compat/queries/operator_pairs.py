"""Which operator of a new query takes the state of which old one: by kind, keys and what both compute."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import attrs

from ...serializers.spark_rows.rules import NEW
from ...serializers.ways_out import Option, Told, WayOut
from .columns import without_places
from .problems import problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ...serializers.compatibility import Finding
    from ..description import Computation


@attrs.frozen
class Match:
    """Two operators, of which the new one goes on from the state of the old one.

    Attributes:
        was: The old operator; None: the new one starts empty.
        becomes: The new operator; None: the new query has none that could take the state.
        is_certain: Whether it is no guess.
        may_be: The numbers of the new operators that it may be, if it is one.
    """

    was: Computation | None
    becomes: Computation | None
    is_certain: bool = True
    may_be: tuple[int, ...] = ()

    def problem(self) -> Finding | None:
        """Return why a migration cannot be done so."""
        was, becomes = self.was, self.becomes
        if was is None:
            return None
        drop = Told.of(Option.MAP, was.number, "")
        if becomes is None:
            told = "the new query has no operator of the kind that could take its state"
            return problem("", "SPK-14", told, WayOut("drop its state:", (drop,)), NEW, old=was.kind)
        if was.kind != becomes.kind:
            told = f"it cannot become {becomes.title}: that is of another kind"
            return problem("", "SPK-14", told, "say another operator, or none", old=was.kind, new=becomes.kind)
        if self.is_certain:
            return None
        found = " or ".join(map(str, self.may_be))
        ways = tuple(Told.of(Option.MAP, was.number, number) for number in self.may_be)
        told = f"it may be operator {found} of the new query"
        return problem("", "SPK-14", told, WayOut("say which one it is:", (*ways, drop), is_choice=True))


def match_operators(
    old: tuple[Computation, ...], new: tuple[Computation, ...], said: Mapping[int, int | None] | None = None
) -> tuple[Match, ...]:
    """Pair the operators of two queries.

    Args:
        old: The operators with state.
        new: The operators of the new query.
        said: The new number of old ones; None: the state is dropped. `unknown_numbers` finds nothing in it.

    Returns:
        The pairs, by new number; those without a new one last. What is dropped is in none.
    """
    said = said or {}
    by_number = {one.number: one for one in new}
    pairs = [Match(one, by_number[to]) for one in old if (to := said.get(one.number)) is not None]
    taken = set(said.values())
    rest_old = tuple(one for one in old if one.number not in said)
    rest_new = tuple(one for one in new if one.number not in taken)
    for was, becomes in _matched(rest_old, rest_new):
        is_certain = was is None or becomes is None or _is_certain(was, becomes, rest_old, rest_new)
        may_be = () if is_certain or was is None else tuple(one.number for one in rest_new if one.kind == was.kind)
        pairs.append(Match(was, becomes, is_certain, may_be))
    last = max(by_number, default=0) + 1
    return tuple(sorted(pairs, key=lambda one: last if one.becomes is None else one.becomes.number))


def unknown_numbers(
    old: tuple[Computation, ...], new: tuple[Computation, ...], said: Mapping[int, int | None]
) -> Iterator[Finding]:
    """Yield what is said of operators that do not exist, or twice."""
    were, become = ({one.number for one in side} for side in (old, new))
    targets = Counter(one for one in said.values() if one is not None)
    told = [
        *(f"the checkpoint has no operator {one}" for one in sorted(set(said) - were)),
        *(f"the new query has no operator {one}" for one in sorted(set(targets) - become)),
        *(f"operator {one} is to take the state of several" for one, times in targets.items() if times > 1),
    ]
    yield from (problem("", "SPK-14", one, "say another operator, or none") for one in told)


def _matched(
    old: tuple[Computation, ...], new: tuple[Computation, ...]
) -> Iterator[tuple[Computation | None, Computation | None]]:
    """Pair operators by what they are, not by number alone: one that is added ahead of another shifts the numbers.

    Operators of one kind are paired by all that is known of them, then by keys and number, then by keys alone where one
    only has these, then by number, and the last two of a kind with each other.
    """
    left, open_new = list(old), list(new)
    pairs: list[tuple[Computation, Computation]] = []

    def pair(of: Callable[[Computation], object], *, unique: bool = False) -> None:
        sides: list[dict[tuple[str, object], list[Computation]]] = [{}, {}]
        for side, operators in zip(sides, (left, open_new), strict=True):
            for one in operators:
                side.setdefault((one.kind, of(one)), []).append(one)
        for alike, others in sides[1].items():
            found = sides[0].get(alike, [])
            if len(found) == 1 and (len(others) == 1 or not unique):
                pairs.append((found[0], others[0]))
        paired = {id(one) for both in pairs for one in both}
        for operators in (left, open_new):
            operators[:] = [one for one in operators if id(one) not in paired]

    if all(one.is_known for one in old):
        known = {id(one): _identity(one) for one in (*old, *new)}
        pair(lambda one: (one.number, *known[id(one)]))
        pair(lambda one: known[id(one)], unique=True)
    pair(lambda one: (one.number, one.keys))
    pair(lambda one: one.keys, unique=True)
    pair(lambda one: one.number)
    pair(lambda one: one.kind, unique=True)
    yield from sorted(pairs, key=lambda both: both[1].number)
    yield from ((None, one) for one in open_new)
    yield from ((one, None) for one in left)


def _is_certain(
    was: Computation, becomes: Computation, old: tuple[Computation, ...], new: tuple[Computation, ...]
) -> bool:
    """Whether a pair is certain: only these two are alike, or all of their kind keep their numbers."""
    ours, theirs = (tuple(one for one in side if one.kind == was.kind) for side in (old, new))
    if len(ours) == len(theirs) and (len(ours) == 1 or {one.number for one in ours} == {one.number for one in theirs}):
        return True
    alike = [one for side in (ours, theirs) for one in side if one.keys == was.keys]
    return alike == [was, becomes] or _same_columns(was, becomes, ours, theirs)


def _same_columns(
    was: Computation, becomes: Computation, old: tuple[Computation, ...], new: tuple[Computation, ...]
) -> bool:
    """Whether it is known what both compute, and only these two compute it."""

    def of(one: Computation) -> tuple[object, object]:
        return one.columns, one.facts

    if not (was.is_known and of(was) == of(becomes)):
        return False
    return all(of(one) != of(was) for side in (old, new) for one in side if one is not was and one is not becomes)


def _identity(one: Computation) -> tuple[object, ...]:
    texts = sorted((store, sorted(columns.items())) for store, columns in one.columns.items())
    return one.keys, without_places(repr(texts)), without_places(repr(sorted(one.facts.items())))
