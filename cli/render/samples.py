"""Formatting of entries before and after for people: key, old value, new value, and what was done at each path."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from ...compat.entry_samples import Did, Dropped, Fate
from ...compat.reference_time import millis_text
from ...serializers.errors import values_are_redacted
from ...serializers.plain_forms import plain, value_text
from ...serializers.wording import many
from ..output import Column, Table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ...compat.entry_samples import EntryChange, EntrySamples, SampledEntry, SampledState
    from ..output import Block, Line

_MOST_OF_VALUE, _MOST_OF_PART = 400, 80
_CHANGES = (Column(""), Column(""), Column("", is_text=True))
_VALUES = (Column(""), Column("", is_text=True))
_DROPPED = {
    Dropped.STATE: "its state is left out",
    Dropped.EXPIRED: "it has expired, and loses its time stamp",
    Dropped.EMPTY: "the function that makes another kind of state of it returned nothing",
    Dropped.SUPERSEDED: "another table of the state has a later value",
}


def sample_lines(samples: EntrySamples) -> Iterator[Block]:
    """Yield entries before and after, state by state."""
    yield []
    of = f" of key {', '.join(samples.keys)}" if samples.keys else ""
    yield [(f"entries{of} before and after", "bold")]
    for state in samples.states:
        yield []
        yield from _state_lines(state, of_keys=bool(samples.keys))
    if samples.unchanged:
        yield []
        stays = "stays" if samples.unchanged == 1 else "stay"
        yield [(f"  {many(samples.unchanged, 'state')} {stays} as before", "dim")]
    for line in samples.skipped:
        yield [(f"  {line}", "dim")]


def _state_lines(state: SampledState, *, of_keys: bool) -> Iterator[Block]:
    becomes = [state.new_state] if state.new_state not in {state.state, ""} else []
    becomes += [state.new_kind] if state.new_kind not in {state.kind, ""} else []
    name = f"{state.title}, {state.kind}" + (f" -> {', '.join(becomes)}" if becomes else "")
    if state.not_shown:
        yield [(f"  {name}", "bold"), (f": entries cannot be shown: {state.not_shown}", "yellow")]
        return
    if not state.entries:
        nothing = "nothing is stored under it" if of_keys else "no entry is stored"
        yield [(f"  {name}", "bold"), (f": {nothing if state.is_all else 'no entry was found'}", "")]
        return
    others = "" if state.is_all else ", and there are others"
    yield [(f"  {name}", "bold"), (f": {many(len(state.entries), 'entry', 'entries')}{others}", "")]
    for entry in state.entries:
        yield from _entry_lines(entry)


def _entry_lines(entry: SampledEntry) -> Iterator[Block]:
    yield [(f"    {_place(entry)}", "")]
    if entry.not_shown:
        yield [(f"      its values cannot be shown: {entry.not_shown}", "yellow")]
    elif entry.timestamp_ms is None:
        rows = [["old", _text(entry.old, _MOST_OF_VALUE)]]
        if entry.fate in {Fate.SAME, Fate.CHANGED}:
            rows.append(["new", _text(entry.new, _MOST_OF_VALUE)])
        yield Table.of(_VALUES, rows, indent=6)
    match entry.fate:
        case Fate.SAME | Fate.CHANGED:
            if rows := [_change(change, entry) for change in entry.changes]:
                yield Table.of(_CHANGES, rows, indent=6)
            elif entry.fate is Fate.SAME:
                yield [("      the same value", "dim")]
        case Fate.DROPPED:
            why = f": {_DROPPED[entry.dropped]}" if entry.dropped is not None else ""
            yield [(f"      left out{why}", "red")]
        case Fate.FAILED | Fate.QUARANTINED:
            yield _failure(entry)
        case _:
            assert_never(entry.fate)


def _failure(entry: SampledEntry) -> Line:
    told = "does not fit, and is put aside" if entry.fate is Fate.QUARANTINED else "does not fit"
    failure = entry.failure
    if failure is None:
        return [(f"      {told}", "red")]
    rule = f"  [{failure.rule}]" if failure.rule else ""
    return [(f"      {told}: {failure.path}: {' '.join(failure.reason.split())}{rule}", "red")]


def _place(entry: SampledEntry) -> str:
    parts = []
    if entry.subtask is not None:
        parts.append(f"subtask {entry.subtask}")
    if entry.key is not None:
        parts.append(f"key {_pair(entry.key, entry.new_key)}")
    if entry.namespace is not None:
        parts.append(f"namespace {_text(entry.namespace)}")
    if entry.user_key is not None:
        parts.append(f"key in the map {_pair(entry.user_key, entry.new_user_key)}")
    if entry.timestamp_ms is not None:
        parts.append(f"fires at {millis_text(entry.timestamp_ms)}")
    return ", ".join(parts)


def _pair(old: Any, new: Any) -> str:
    return _text(old) if new is None or plain(new) == plain(old) else f"{_text(old)} -> {_text(new)}"


def _change(change: EntryChange, entry: SampledEntry) -> list[str]:
    return [str(change.did), str(change.path), _told(change, entry)]


def _told(change: EntryChange, entry: SampledEntry) -> str:
    match change.did:
        case Did.CONVERTED:
            told = f"{_text(change.old)} -> {_text(change.new)}" + (f", by {change.by}" if change.by else "")
        case Did.WIDENED | Did.DEFAULTED:
            told = _text(change.new)
        case Did.DROPPED:
            told = _text(change.old)
        case Did.RENAMED:
            told = f"was {change.old_path}"
        case Did.STAMPED | Did.UNSTAMPED:
            stamp = entry.new_stamp_ms if change.did is Did.STAMPED else entry.old_stamp_ms
            told = "" if stamp is None else millis_text(stamp)
        case _:
            assert_never(change.did)
    told += f", at {change.count:,} places" if change.count > 1 else ""
    return told + (f"  [{change.rule}]" if change.rule else "")


def _text(form: Any, most: int = _MOST_OF_PART) -> str:
    """Return a value as a text of limited length."""
    text = form if isinstance(form, str) and values_are_redacted() else value_text(form)
    return text if len(text) <= most else f"{text[: most - 1]}…"
