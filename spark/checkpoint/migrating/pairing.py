"""Which operator of the new query takes the state of which old one: by kind, keys and recording, never by a guess."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ..judging import is_certain, matched

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..query import QueryOperator

    Pair = tuple[QueryOperator | None, QueryOperator | None]


def paired(
    old: Sequence[QueryOperator], new: Sequence[QueryOperator], said: Mapping[int, int | None]
) -> tuple[list[Pair], list[str]]:
    """Pair the operators of two queries.

    Args:
        old: The operators with state.
        new: The operators of the new query.
        said: The new number of old ones; None: the state is dropped.

    Returns:
        The pairs by new number, an operator that starts empty without an old one; and why others cannot be paired.
    """
    problems = list(_unknown(old, new, said))
    if problems:
        return [], problems
    by_number = {one.number: one for one in new}
    pairs: list[Pair] = []
    for one in old:
        to = said.get(one.number)
        if to is None:
            continue
        if by_number[to].kind != one.kind:
            problems.append(f"operator {one.title} cannot become {by_number[to].title}: it is of another kind")
        pairs.append((one, by_number[to]))
    taken = set(said.values())
    rest_old = tuple(one for one in old if one.number not in said)
    rest_new = tuple(one for one in new if one.number not in taken)
    for was, becomes in matched(rest_old, rest_new):
        if was is None:
            pairs.append((None, becomes))
        elif becomes is None:
            problems.append(
                f"operator {was.title}: the new query has no operator of the kind that could take its state: say that"
                " it is dropped"
            )
        elif is_certain(was, becomes, rest_old, rest_new):
            pairs.append((was, becomes))
        else:
            found = " or ".join(str(one.number) for one in rest_new if one.kind == was.kind)
            problems.append(f"operator {was.title}: it may be operator {found} of the new query: say which one")
    return sorted(pairs, key=lambda pair: -1 if pair[1] is None else pair[1].number), problems


def _unknown(
    old: Iterable[QueryOperator], new: Iterable[QueryOperator], said: Mapping[int, int | None]
) -> Iterable[str]:
    """Yield what is said of operators that do not exist, or twice."""
    were, become = ({one.number for one in side} for side in (old, new))
    yield from (f"the checkpoint has no operator {one}" for one in sorted(set(said) - were))
    targets = Counter(one for one in said.values() if one is not None)
    yield from (f"the new query has no operator {one}" for one in sorted(set(targets) - become))
    yield from (f"operator {one} is to take the state of several" for one, times in targets.items() if times > 1)
