"""Where entries begin, found by numpy: many cursors at once, each of which must land exactly where the next one began.

Each length depends on the one before, so there is no other way than from entry to entry. But a place that looks like
the beginning of an entry can be guessed, by its small lengths and its key group, and the next one after it. Since the
first beginning is certain, and each cursor comes to the beginning of the next, all guesses were right. Cursors that are
left alone on a long way are led on by plain Python.

In stored bytes the top bit of a key's first byte ends a state, and two bytes follow that entry: the id of the next
state, or a mark.
"""

from __future__ import annotations

import struct
from typing import Any

import attrs
import numpy as np

from .columns import Column, view

_ENTRIES_A_CURSOR = 32
_SAMPLED = 16
_LOOK_BYTES = 8
_LONGEST_WINDOW = 1 << 12
_FEWEST_GUESSED = 1 << 15
_FEWEST_IN_STEP = 32
_TRIES = 4
_PATIENCE = 4
_TELLING = 2
_LENGTH = struct.Struct(">i")
_LAST_FLAG = 0x80
_KEY_AT = 4
_MARK_BYTES = 2
_SIZE_BITS, _FLAG_BITS, _MARK = np.uint64(32), np.uint64(30), np.uint64(_MARK_BYTES)


@attrs.frozen(eq=False)
class Entries:
    """Where the entries of some bytes lie.

    Attributes:
        starts: Where each begins, ascending.
        values: Where the bytes of its value begin, behind their length.
    """

    starts: Column
    values: Column

    def __len__(self) -> int:
        return len(self.starts)

    def part(self, first: int, end: int, offset: int) -> Entries:
        """Give some of them, as they lie in the bytes from `offset` on."""
        return Entries(self.starts[first:end] - offset, self.values[first:end] - offset)

    @classmethod
    def joined(cls, parts: list[Entries]) -> Entries:
        """Put entries of the same bytes together."""
        return cls(np.concatenate([one.starts for one in parts]), np.concatenate([one.values for one in parts]))


_NOTHING = Entries(np.array([], np.int64), np.array([], np.int64))


def find_entries(buffer: Any, begins: Column, ends: Column, *, stored: bool) -> Entries | None:
    """Find the entries that fill some stretches of a buffer; None where they do not.

    Args:
        buffer: Bytes as an array; less than 2 GiB.
        begins: Where each stretch begins, ascending; none is empty.
        ends: Where each ends, which is not behind the next one's beginning.
        stored: Whether the bytes are stored ones, with flags and marks.
    """
    if ends[-1] - begins[-1] <= _LOOK_BYTES:
        return None
    look = _Look.of(buffer, begins, ends, stored=stored)
    guesses = begins if look is None else look.guessed(begins, ends)
    for _ in range(_TRIES):
        stretch = np.searchsorted(begins, guesses[:-1], "right") - 1
        goals = np.minimum(guesses[1:], ends[stretch])
        found, astray = _in_step(buffer, guesses[:-1], goals, stored=stored)
        rest, stops = _one_by_one(buffer, guesses[-1:], ends[-1:], stored=stored)
        if not len(astray) and stops[0] == ends[-1]:
            return Entries.joined([found, rest])
        if stops[0] != ends[-1]:
            astray = np.append(astray, len(guesses) - 1)
        guesses = _without(guesses, begins, astray)
    return None


def follow(buffer: Any, start: int, end: int) -> tuple[Entries, int]:
    """Find the stored entries from one place on as far as they go; give where the first begins that is not whole.

    Args:
        buffer: Bytes as an array; less than 2 GiB.
        start: Where the first one begins.
        end: Where the bytes end.
    """
    first, last = np.array([start]), np.array([end])
    look = _Look.of(buffer, first, last, stored=True)
    guesses = first if look is None else look.guessed(first, last)
    for _ in range(_TRIES):
        found, astray = _in_step(buffer, guesses[:-1], guesses[1:], stored=True)
        if not len(astray):
            break
        guesses = _without(guesses, first, astray)
    else:
        found, guesses = _NOTHING, first
    rest, stops = _one_by_one(buffer, guesses[-1:], last, stored=True)
    return Entries.joined([found, rest]), stops[0]


def _without(guesses: Column, begins: Column, astray: Column) -> Column:
    """Leave out the guess that a cursor went past, and a cursor that had no other before it."""
    wrong = np.append(astray, np.minimum(astray + 1, len(guesses) - 1))
    return np.setdiff1d(guesses, np.setdiff1d(guesses[wrong], begins))


@attrs.frozen
class _Look:
    """What the beginning of an entry looks like.

    Attributes:
        buffer: Where entries are looked for.
        alike: The bytes of its head that are alike in all of a sample, those first that tell most.
        mean: Bytes of an entry.
        end: Where they end.
        stored: As of `find_entries`.
    """

    buffer: Any
    alike: list[int]
    mean: int
    end: int
    stored: bool

    @classmethod
    def of(cls, buffer: Any, begins: Column, ends: Column, *, stored: bool) -> _Look | None:
        """Learn it from the first entries of the longest stretch; None where there is too little."""
        longest = int(np.argmax(ends - begins))
        start, end = int(begins[longest]), int(ends[longest])
        if end - start < _FEWEST_GUESSED:
            return None
        starts: list[int] = []
        at = start
        while len(starts) <= _SAMPLED:
            starts.append(at)
            at, _ = _next_one(buffer, at, end, stored=stored)
            if at < 0:
                return None
        heads = _heads(buffer, np.array(starts))
        same = (heads == heads[0]).all(axis=0)
        alike = sorted(np.flatnonzero(same).tolist(), key=lambda place: place != _KEY_AT and not heads[0, place])
        return cls(buffer, alike, max((starts[-1] - start) // _SAMPLED, 9), int(ends[-1]), stored)

    def guessed(self, begins: Column, ends: Column) -> Column:
        """Give the beginnings of stretches, and places between that look like the beginning of an entry.

        In each of some windows it is the first that tells most; where the next two do not look so, none.
        """
        window = min(self.mean + self.mean // 4 + 32, _LONGEST_WINDOW)
        apart = max(_ENTRIES_A_CURSOR * self.mean, 2 * window)
        counts = np.maximum((ends - begins - 2 * window) // apart, 0)
        stretch = np.repeat(np.arange(len(begins)), counts)
        firsts = begins[stretch] + apart * (np.arange(len(stretch)) - np.repeat(np.cumsum(counts) - counts, counts) + 1)
        if not len(firsts):
            return begins
        looks = _heads(self.buffer, begins)
        width = window + _LOOK_BYTES
        rows = view(self.buffer, f"V{width}")[firsts].view(np.uint8).reshape(-1, width)
        found = np.ones((len(firsts), window), bool)
        for place in self.alike[:_TELLING]:
            found &= rows[:, place : place + window] == looks[stretch, place, None]
        offsets = found.argmax(axis=1)
        places = firsts + offsets
        good = self._lead_on(places, looks[stretch])
        return np.sort(np.concatenate([begins, places[good]]))

    def _lead_on(self, places: Column, looks: Column) -> Column:
        """Whether the two entries after each place look like entries, too."""
        good, there = self._is_alike(places, looks), places
        steps = _Steps(self.buffer, self.end - _LOOK_BYTES, stored=self.stored)
        for _ in range(2):
            _, there = steps.next(there)
            good &= self._is_alike(there, looks)
        return good

    def _is_alike(self, places: Column, looks: Column) -> Column:
        """Whether it looks like the beginning of an entry."""
        heads = _heads(self.buffer, places)
        good = np.ones(len(places), bool)
        for place in self.alike:
            good &= heads[:, place] == looks[:, place]
        return good


def _heads(buffer: Any, at: Column) -> Column:
    """Give the first bytes of entries, without the flag."""
    heads = view(buffer, f"V{_LOOK_BYTES}")[at].view(np.uint8).reshape(-1, _LOOK_BYTES)
    heads[:, _KEY_AT] &= 0xFF & ~_LAST_FLAG
    return heads


class _Steps:
    """Goes from entries to those that follow.

    Args:
        buffer: With the entries.
        limit: Whoever comes here goes on the spot; 8 bytes are behind it.
        stored: As of `find_entries`.
    """

    def __init__(self, buffer: Any, limit: int, *, stored: bool) -> None:
        self._heads, self._sizes = view(buffer, "<u8"), view(buffer[_LENGTH.size :], "<u4")
        self._limit, self._stored = limit, stored

    def next(self, at: Column) -> tuple[Column, Column]:
        """Give where the values of entries begin, and where the next entries do."""
        heads = self._heads[at].byteswap(inplace=True)
        values = (heads >> _SIZE_BITS).view(np.int64)
        values += at
        np.minimum(values, self._limit, out=values)
        sizes = self._sizes[values].byteswap(inplace=True)
        values += 2 * _LENGTH.size
        following = values + sizes
        if self._stored:
            heads >>= _FLAG_BITS
            heads &= _MARK
            following += heads.view(np.int64)
        return values, np.minimum(following, self._limit, out=following)


def _in_step(buffer: Any, cursors: Column, goals: Column, *, stored: bool) -> tuple[Entries, Column]:
    """Go from each cursor to its goal, an entry a step; give the entries, and the cursors that did not come to theirs.

    Each goal is the beginning of an entry, or lies before one. A cursor that is there goes on until the others are,
    too; what it finds behind its goal is left out.
    """
    rows, at, goal = np.arange(len(cursors)), cursors, goals
    astray = np.zeros(len(cursors), bool)
    tables: list[Entries] = []
    while len(rows) >= _FEWEST_IN_STEP:
        steps = _Steps(buffer, int(goals.max()) + 1, stored=stored)
        starts, values = [at], []
        for _ in range(_PATIENCE if tables else _ENTRIES_A_CURSOR):
            value, at = steps.next(at)
            values.append(value)
            starts.append(at)
        table = np.stack(starts)
        before = table < goal
        passed = np.count_nonzero(before, axis=0)
        going = before[-1]
        astray[rows] = ~going & (table[np.where(going, 0, passed), np.arange(len(goal))] != goal)
        found = before[:-1].T
        tables.append(Entries(table[:-1].T[found], np.stack(values).T[found]))
        rows, at, goal = rows[going], at[going], goal[going]
    left, stops = _one_by_one(buffer, at, goal, stored=stored)
    astray[rows] |= np.array(stops, np.int64) < goal
    return _sorted([*tables, left]), np.flatnonzero(astray)


def _sorted(parts: list[Entries]) -> Entries:
    entries = Entries.joined([part for part in parts if len(part)] or [_NOTHING])
    if (entries.starts[1:] > entries.starts[:-1]).all():
        return entries
    order = np.argsort(entries.starts, kind="stable")
    return Entries(entries.starts[order], entries.values[order])


def _one_by_one(buffer: Any, cursors: Column, goals: Column, *, stored: bool) -> tuple[Entries, list[int]]:
    """Lead cursors on in plain Python, as far as entries end before their goals; give the entries, and how far."""
    starts, values, stops = [], [], []
    data, size_at, mark = memoryview(buffer), _LENGTH.unpack_from, _MARK_BYTES if stored else 0
    for at, goal in zip(cursors.tolist(), goals.tolist(), strict=True):
        here = at
        while here <= goal - 8:  # as `_next_one`, which would be called once for each entry
            key_size = size_at(data, here)[0]
            value = here + 8 + key_size
            size = size_at(data, value - 4)[0] if key_size >= 0 and value <= goal else -1
            following = value + size
            if mark and size >= 0 and data[here + _KEY_AT] >= _LAST_FLAG:
                following += mark
            if size < 0 or following > goal:
                break
            starts.append(here)
            values.append(value)
            here = following
        stops.append(here)
    return Entries(np.array(starts, np.int64), np.array(values, np.int64)), stops


def _next_one(data: Any, at: int, end: int, *, stored: bool) -> tuple[int, int]:
    """Give where the next entry begins, -1 where this one does not end in time; and where its value begins."""
    if at > end - 8:
        return -1, 0
    key_size = _LENGTH.unpack_from(data, at)[0]
    value = at + 8 + key_size
    if key_size < 0 or value > end:
        return -1, 0
    size = _LENGTH.unpack_from(data, value - 4)[0]
    following = value + size + _MARK_BYTES * (stored and data[at + _KEY_AT] >= _LAST_FLAG)
    return (following if size >= 0 and following <= end else -1), value
