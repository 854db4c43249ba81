"""A report on very many states in a few lines: states without changes are counted, and equal changes are reported once.

A class that has changed may occur in many states, as a value, an element or a map value. The report on each of them
then differs only in the beginning of the paths.
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
"""The number of states up to which all are listed."""
OF_CHECK = "`stateshift check --all`"
"""What lists all, where the command that says so does not."""
_MOST_PLACES = 5
_ROOT = re.compile(r"\$(?:\[\]|\{\}|<key>|\?)*")


@attrs.frozen
class Subject(Generic[B]):
    """A key or state, and the report on it.

    Attributes:
        operator: The index of its operator.
        place: Its name in other reports: UID/STATE.
        title: The first line of its report.
        body: The content below the first line.
        words: The body as text; subjects with equal texts are reported once.
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
        """The words without the beginnings of paths: equal for subjects that can be reported once."""
        return likeness(self.words)


def likeness(words: Iterable[str]) -> tuple[str, ...]:
    """Return the words without the beginnings of paths: equal for places that can be reported once."""
    return tuple(_ROOT.sub("$", text) for text in words)


def root_of(words: Iterable[str]) -> str:
    """Return the beginning of the paths of a place, as `${}` for the values of a map; "" if it is only `$`."""
    found = next((match[0] for text in words for match in _ROOT.finditer(text)), "$")
    return "" if found == "$" else found


def alike(
    items: Iterable[T],
    words: Callable[[T], Sequence[str]],
    place: Callable[[T], str],
    *,
    whole: str = "--all",
) -> list[tuple[T, str]]:
    """Return the first item of each group with equal words, with a sentence that names the others, or "".

    Args:
        items: The items.
        words: Returns what is said of an item.
        place: Returns where an item is.
        whole: What lists all the others, if they are many.
    """
    groups: dict[tuple[str, ...], list[tuple[T, str]]] = {}
    for item in items:
        said = words(item)
        where, root = place(item), root_of(said)
        groups.setdefault(likeness(said), []).append((item, f"{where} ({root})" if root else where))
    return [(first, elsewhere([where for _, where in others], whole=whole)) for (first, _), *others in groups.values()]


def condensed(subjects: Sequence[Subject[B]]) -> tuple[dict[int, list[tuple[Subject[B], str]]], str]:
    """Leave out subjects without changes, and group subjects with equal reports.

    Returns:
        By operator, the first subject of each group with a sentence that names the others, or ""; and a sentence that
        counts the subjects without changes.
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
    """Return the line that refers to the report on another place."""
    root = root_of(words)
    return f"the same as at {place}" + (f", in {root}" if root else "")


def elsewhere(places: Sequence[str], *, whole: str = "--all") -> str:
    """Return a sentence that names the other places of a group, or ""."""
    return f"the same at {many(len(places), 'other place')}: {some(places, whole=whole)}" if places else ""


def some(places: Sequence[str], *, most: int = _MOST_PLACES, whole: str = "--all", between: str = ", ") -> str:
    """Return the first of many places, and the number of the remaining ones."""
    left = len(places) - most
    more = f" and {left:,} more ({whole} lists them)" if left > 0 else ""
    return f"{between.join(places[:most])}{more}"
