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
    from collections.abc import Callable, Iterable, Sequence

B = TypeVar("B")
T = TypeVar("T")

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
        return likeness(self.words)


def likeness(words: Iterable[str]) -> tuple[str, ...]:
    """Return what is the same of two places that have the same said of them: the words, without where paths begin."""
    return tuple(_ROOT.sub("$", text) for text in words)


def root_of(words: Iterable[str]) -> str:
    """Return where the paths of a place begin, as in `${}` of a map's values; "" where they have no other begin."""
    found = next((match[0] for text in words for match in _ROOT.finditer(text)), "$")
    return "" if found == "$" else found


def alike(items: Iterable[T], words: Callable[[T], Sequence[str]], place: Callable[[T], str]) -> list[tuple[T, str]]:
    """Return the first of all items of which the same is said, each with a sentence on where else it is so, or ""."""
    groups: dict[tuple[str, ...], list[tuple[T, str]]] = {}
    for item in items:
        said = words(item)
        where, root = place(item), root_of(said)
        groups.setdefault(likeness(said), []).append((item, f"{where} ({root})" if root else where))
    return [(first, elsewhere([where for _, where in others])) for (first, _), *others in groups.values()]


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
        shown.setdefault(first.operator, []).append((first, elsewhere([one.place for one in others])))
    told = f"{many(fine, 'state or key', 'states and keys')} can be used as they are (--all lists them)"
    return shown, told if fine else ""


def as_there(place: str, words: Iterable[str]) -> str:
    """Say of a place that the same is so at another one, of which it was told."""
    root = root_of(words)
    return f"the same as at {place}" + (f", in {root}" if root else "")


def elsewhere(places: Sequence[str]) -> str:
    """Say where else the same is so, or ""."""
    return f"the same at {many(len(places), 'other place')}: {some(places)}" if places else ""


def some(places: Sequence[str], *, most: int = _MOST_PLACES, whole: str = "--all", between: str = ", ") -> str:
    """Return the first of many places, and how many there are beside them."""
    left = len(places) - most
    more = f" and {left:,} more ({whole} lists them)" if left > 0 else ""
    return f"{between.join(places[:most])}{more}"
