"""Entries before and after as a piece: the same keys, old values beside new, and what was done at each path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never

import attrs

from ...serializers.errors import values_are_redacted
from ...serializers.plain_forms import plain, value_text
from ...serializers.wording import many
from ..entry_samples import Did, Fate
from ..reference_time import millis_text
from .pieces import Line
from .rendering import piece

if TYPE_CHECKING:
    from collections.abc import Iterator

    from markupsafe import Markup

    from ..entry_samples import EntryChange, EntrySamples, SampledEntry, SampledState

_MOST_OF_VALUE, _MOST_OF_PART = 600, 120
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
    old: str | None
    new: str | None
    more: str


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
    of = f" of key {', '.join(samples.keys)}" if samples.keys else ""
    body = piece("samples", [_state(one, of_keys=bool(samples.keys)) for one in samples.states])
    lines = [Line(one, "dim") for one in samples.skipped]
    if samples.unchanged:
        lines.insert(0, Line(f"{many(samples.unchanged, 'state')} as before", "dim"))
    return piece("section", f"Entries{of} before and after", body + piece("notes", lines))


def _state(state: SampledState, *, of_keys: bool) -> _State:
    becomes = [state.new_state] if state.new_state not in {state.state, ""} else []
    becomes += [state.new_kind] if state.new_kind not in {state.kind, ""} else []
    name = f"{state.title}, {state.kind}" + (f" → {', '.join(becomes)}" if becomes else "")
    if state.not_shown:
        return _State(name, f"entries cannot be shown: {state.not_shown}", ())
    if not state.entries:
        nothing = "nothing is stored under it" if of_keys else "no entry is stored"
        return _State(name, nothing if state.is_all else "no entry was found", ())
    others = "" if state.is_all else ", and there are others"
    return _State(name, many(len(state.entries), "entry", "entries") + others, tuple(map(_entry, state.entries)))


def _entry(entry: SampledEntry) -> _Entry:
    sides: list[tuple[str, str]] = []
    if entry.timestamp_ms is None and not entry.not_shown:
        sides.append(("before", _text(entry.old, _MOST_OF_VALUE)))
        if entry.fate in {Fate.SAME, Fate.CHANGED}:
            sides.append(("after", _text(entry.new, _MOST_OF_VALUE)))
    told = f"its values cannot be shown: {entry.not_shown}" if entry.not_shown else ""
    if entry.dropped is not None:
        told = f"why: {entry.dropped}"
    if entry.failure is not None:
        rule = f" [{entry.failure.rule}]" if entry.failure.rule else ""
        told = f"{entry.failure.path}: {entry.failure.reason}{rule}"
    changes = tuple(_change(one, entry) for one in entry.changes)
    return _Entry(", ".join(_place(entry)), _WORDS[entry.fate], told, tuple(sides), changes)


def _place(entry: SampledEntry) -> Iterator[str]:
    if entry.subtask is not None:
        yield f"subtask {entry.subtask}"
    if entry.key is not None:
        yield f"key {_pair(entry.key, entry.new_key)}"
    if entry.namespace is not None:
        yield f"namespace {_text(entry.namespace)}"
    if entry.user_key is not None:
        yield f"key in the map {_pair(entry.user_key, entry.new_user_key)}"
    if entry.timestamp_ms is not None:
        yield f"fires at {millis_text(entry.timestamp_ms)}"


def _pair(old: Any, new: Any) -> str:
    return _text(old) if new is None or plain(new) == plain(old) else f"{_text(old)} → {_text(new)}"


def _change(change: EntryChange, entry: SampledEntry) -> _Change:
    old, new, more = None, None, []
    match change.did:
        case Did.CONVERTED | Did.WIDENED:
            old, new = _text(change.old), _text(change.new)
        case Did.DEFAULTED:
            new = _text(change.new)
        case Did.DROPPED:
            old = _text(change.old)
        case Did.RENAMED:
            more.append(f"was {change.old_path}")
        case Did.STAMPED | Did.UNSTAMPED:
            stamp = entry.new_stamp_ms if change.did is Did.STAMPED else entry.old_stamp_ms
            more += [] if stamp is None else [millis_text(stamp)]
        case _:
            assert_never(change.did)
    more += [f"by {change.by}"] if change.by else []
    more += [f"at {change.count:,} places"] if change.count > 1 else []
    more += [f"[{change.rule}]"] if change.rule else []
    return _Change(str(change.did), _MARKS[change.did], change.path, old, new, " ".join(more))


def _text(form: Any, most: int = _MOST_OF_PART) -> str:
    """Return a value as a text of limited length."""
    text = form if isinstance(form, str) and values_are_redacted() else value_text(form)
    return text if len(text) <= most else f"{text[: most - 1]}…"
