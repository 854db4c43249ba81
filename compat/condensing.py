"""A report on very many states in few lines: what is fine is counted, and what is said of many is said once.

One class that has changed lies in many states, as a value, an element or a map value. What a report says of each is
then the same but for the beginning of the paths.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Generic, TypeVar

import attrs

from ..serializers.wording import many

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

B = TypeVar("B")

FEW = 20
"""So many states are listed whole."""
_MOST_PLACES = 5
_ROOT = re.compile(r"\$(?:\[\]|\{\}|<key>|\?)*")


@attrs.frozen
class Subject(Generic[B]):
    """A key or state, and what there is to say of it.

    Attributes:
        operator: The place of its operator among all of them.
        place: What to call it elsewhere: UID/STATE.
        title: Its first line.
        body: What stands below it.
        words: The same as text: what is alike is said once.
        is_fine: Whether nothing has to be done about it.
    """

    operator: int
    place: str
    title: B
    body: tuple[B, ...]
    words: tuple[str, ...]
    is_fine: bool

    @property
    def likeness(self) -> tuple[str, ...]:
        """What is the same of two that have the same said of them."""
        return tuple(_ROOT.sub("$", text) for text in self.words)


def condensed(subjects: Sequence[Subject[B]]) -> tuple[dict[int, list[tuple[Subject[B], str]]], str]:
    """Leave out what is fine, and what was said of another already.

    Returns:
        By operator what is left, each with a sentence on where else it is so, or ""; and a sentence on what is fine.
    """
    alike: dict[tuple[str, ...], list[Subject[B]]] = {}
    fine = 0
    for subject in subjects:
        if subject.is_fine and not any(subject.words):
            fine += 1
        else:
            alike.setdefault(subject.likeness, []).append(subject)
    shown: dict[int, list[tuple[Subject[B], str]]] = {}
    for first, *others in alike.values():
        shown.setdefault(first.operator, []).append((first, _elsewhere(others)))
    told = f"{many(fine, 'state or key', 'states and keys')} can be used as they are (--all lists them)"
    return shown, told if fine else ""


def _elsewhere(others: Iterable[Subject[B]]) -> str:
    places = [subject.place for subject in others]
    if not places:
        return ""
    named = ", ".join(places[:_MOST_PLACES])
    more = f" and {len(places) - _MOST_PLACES:,} more (--all lists them)" if len(places) > _MOST_PLACES else ""
    return f"the same at {many(len(places), 'other place')}: {named}{more}"
