"""Entries before and after as a piece: the same keys, old values beside new, and what was done at each path."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ...serializers.wording import many
from ..entry_samples import Did, Fate
from ..sample_words import ToldChange, name_of, place_of, text_of, title_of, told_of
from .pieces import Line
from .rendering import piece

if TYPE_CHECKING:
    from markupsafe import Markup

    from ..entry_samples import EntrySamples, SampledEntry

_MOST_OF_VALUE = 600
_WORDS = {
    Fate.SAME: "same",
    Fate.CHANGED: "changed",
    Fate.DROPPED: "dropped",
    Fate.FAILED: "does not fit",
    Fate.QUARANTINED: "put aside",
}
_MARKS = {
    Did.CONVERTED: "changed",
    Did.WIDENED: "changed",
    Did.DEFAULTED: "new",
    Did.DROPPED: "gone",
    Did.RENAMED: "renamed",
    Did.STAMPED: "new",
    Did.UNSTAMPED: "gone",
}
"""How a change is coloured, as the same in a type is."""


@attrs.frozen
class _Change:
    did: str
    mark: str
    path: str
    told: ToldChange


@attrs.frozen
class _Entry:
    place: str
    word: str
    told: str
    sides: tuple[tuple[str, str], ...]
    changes: tuple[_Change, ...]


@attrs.frozen
class _State:
    name: str
    told: str
    entries: tuple[_Entry, ...]


def samples_piece(samples: EntrySamples) -> Markup:
    """Return the section with entries before and after."""
    of_keys = bool(samples.keys)
    states = [
        _State(name_of(one, "→"), told_of(one, of_keys=of_keys), tuple(map(_entry, one.entries)))
        for one in samples.states
    ]
    lines = [Line(one, "dim") for one in samples.skipped]
    if samples.unchanged:
        lines.insert(0, Line(f"{many(samples.unchanged, 'state')} as before", "dim"))
    title = title_of(samples)
    return piece("section", title[0].upper() + title[1:], piece("samples", states) + piece("notes", lines))


def _entry(entry: SampledEntry) -> _Entry:
    sides: list[tuple[str, str]] = []
    if entry.timestamp_ms is None and not entry.not_shown:
        sides.append(("before", text_of(entry.old, _MOST_OF_VALUE)))
        if entry.fate in {Fate.SAME, Fate.CHANGED}:
            sides.append(("after", text_of(entry.new, _MOST_OF_VALUE)))
    told = f"its values cannot be shown: {entry.not_shown}" if entry.not_shown else ""
    if entry.dropped is not None:
        told = f"why: {entry.dropped}"
    if entry.failure is not None:
        rule = f" [{entry.failure.rule}]" if entry.failure.rule else ""
        told = f"{entry.failure.path}: {entry.failure.reason}{rule}"
    changes = (_Change(str(one.did), _MARKS[one.did], one.path, ToldChange.of(one, entry)) for one in entry.changes)
    return _Entry(place_of(entry, "→"), _WORDS[entry.fate], told, tuple(sides), tuple(changes))
