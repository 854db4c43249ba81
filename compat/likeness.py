"""A report on very many states in a few lines: states without changes are counted, and equal changes are reported once.

A class that has changed may occur in many states, as a value, an element or a map value. The report on each of them
then differs only in the beginning of the paths.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import attrs

from ..serializers.compatibility import Path
from ..serializers.ways_out import Option, Told
from ..serializers.wording import many

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

B = TypeVar("B")
T = TypeVar("T")

FEW = 20
"""The number of states up to which all are listed."""
OF_CHECK = "`stateshift check --all`"
"""What lists all, where the command that says so does not."""
_MOST_PLACES = 5


@attrs.frozen
class Subject(Generic[B]):
    """A key or state, and the report on it.

    Attributes:
        operator: The index of its operator.
        place: Its name in other reports: UID/STATE.
        title: The first line of its report.
        body: The content below the first line.
        told: What the body shows, as data; subjects of which the same is told are reported once.
        is_fine: Whether nothing has to be done about it.
    """

    operator: int
    place: str
    title: B
    body: tuple[B, ...]
    told: tuple[object, ...]
    is_fine: bool


@cache
def _names(kind: type) -> tuple[str, ...] | None:
    """Return the names of the attributes of a class; None: its objects are no data of ours."""
    return tuple(field.name for field in attrs.fields(kind)) if attrs.has(kind) else None


def _parts(told: Any) -> Iterator[Any]:
    """Yield what data is made of, down to paths, texts and numbers."""
    left = [told]  # the next one is the last
    while left:
        told = left.pop()
        kind: Any = type(told)
        if isinstance(told, tuple | list):
            yield len(told)
            left += reversed(told)
        elif isinstance(told, Told) and told.option is Option.ALLOW:
            yield told.option  # its value is the name of a loss, which is a flag of the finding
        elif (names := _names(kind)) is not None:
            left += [getattr(told, name) for name in reversed(names)]
        else:
            yield told


def likeness(told: object) -> tuple[Hashable, ...]:
    """Return what is told of a place, without the containers around it: equal for places that can be reported once."""
    return tuple(part.below_root if isinstance(part, Path) else part for part in _parts(told))


def root_of(told: object) -> str:
    """Return the containers in the first path that is told of a place, as `${}` for the values of a map."""
    return next((part.root for part in _parts(told) if isinstance(part, Path)), "")


def alike(
    items: Iterable[T],
    told: Callable[[T], object],
    place: Callable[[T], str],
    *,
    whole: str = "--all",
) -> list[tuple[T, str]]:
    """Return the first item of each group of which the same is told, with a sentence that names the others, or "".

    Args:
        items: The items.
        told: Returns what is told of an item, as data.
        place: Returns where an item is.
        whole: What lists all the others, if they are many.
    """
    groups: dict[tuple[Hashable, ...], list[tuple[T, str]]] = {}
    for item in items:
        what = told(item)
        where, root = place(item), root_of(what)
        groups.setdefault(likeness(what), []).append((item, f"{where} ({root})" if root else where))
    return [(first, elsewhere([where for _, where in others], whole=whole)) for (first, _), *others in groups.values()]


def condensed(subjects: Sequence[Subject[B]]) -> tuple[dict[int, list[tuple[Subject[B], str]]], str]:
    """Leave out subjects without changes, and group subjects with equal reports.

    Returns:
        By operator, the first subject of each group with a sentence that names the others, or ""; and a sentence that
        counts the subjects without changes.
    """
    alike: dict[tuple[Hashable, ...], list[Subject[B]]] = {}
    fine = 0
    for subject in subjects:
        if subject.is_fine and not any(subject.told):
            fine += 1
        else:
            alike.setdefault(likeness(subject.told), []).append(subject)
    shown: dict[int, list[tuple[Subject[B], str]]] = {}
    for first, *others in alike.values():
        shown.setdefault(first.operator, []).append((first, elsewhere([one.place for one in others])))
    told = f"{many(fine, 'state or key', 'states and keys')} can be used as they are (--all lists them)"
    return shown, told if fine else ""


def as_there(place: str, told: object) -> str:
    """Return the line that refers to the report on another place, of which the same is told."""
    root = root_of(told)
    return f"the same as at {place}" + (f", in {root}" if root else "")


def elsewhere(places: Sequence[str], *, whole: str = "--all") -> str:
    """Return a sentence that names the other places of a group, or ""."""
    return f"the same at {many(len(places), 'other place')}: {some(places, whole=whole)}" if places else ""


def some(places: Sequence[str], *, most: int = _MOST_PLACES, whole: str = "--all", between: str = ", ") -> str:
    """Return the first of many places, and the number of the remaining ones."""
    left = len(places) - most
    more = f" and {left:,} more ({whole} lists them)" if left > 0 else ""
    return f"{between.join(places[:most])}{more}"
