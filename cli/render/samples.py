"""Formatting of entries before and after for people: key, old value, new value, and what was done at each path."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from ...compat.entry_samples import Dropped, Fate
from ...compat.sample_words import ToldChange, name_of, place_of, text_of, title_of, told_of
from ...serializers.wording import many
from ..output import Column, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...compat.entry_samples import EntryChange, EntrySamples, SampledEntry, SampledState
    from ..output import Block, Line

_MOST_OF_VALUE = 400
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
    yield [(title_of(samples), "bold")]
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
    told = told_of(state, of_keys=of_keys)
    yield [(f"  {name_of(state, '->')}", "bold"), (f": {told}", "yellow" if state.not_shown else "")]
    for entry in () if state.not_shown else state.entries:
        yield from _entry_lines(entry)


def _entry_lines(entry: SampledEntry) -> Iterator[Block]:
    yield [(f"    {place_of(entry, '->')}", "")]
    if entry.not_shown:
        yield [(f"      its values cannot be shown: {entry.not_shown}", "yellow")]
    elif entry.timestamp_ms is None:
        rows = [["old", text_of(entry.old, _MOST_OF_VALUE)]]
        if entry.fate in {Fate.SAME, Fate.CHANGED}:
            rows.append(["new", text_of(entry.new, _MOST_OF_VALUE)])
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


def _change(change: EntryChange, entry: SampledEntry) -> list[str]:
    told = ToldChange.of(change, entry)
    values = " -> ".join(value for value in (told.old, told.new) if value is not None)
    words = ", ".join(filter(None, (values, *told.more)))
    return [str(change.did), str(change.path), f"{words}  {told.rule}" if told.rule else words]
