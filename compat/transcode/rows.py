"""Many entries on their way through an op list: where each of them is in the old bytes, and which are sound so far.

A place is told for all entries at once, as a column and a number of bytes behind it: a new column is made only where
entries go on by numbers of bytes of their own. What lies behind a column is gathered once, as a window, and looked at
from there. Entries that a jump has sent ahead sleep until the place in the op list.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from .columns import Column, gathered, integers, view, widest

WINDOW_BYTES = 224
"""A window has no more bytes than that, and the room of an op."""


@attrs.frozen
class Spot:
    """A place of each entry.

    Attributes:
        column: The number of a column of places.
        behind: Bytes behind these.
    """

    column: int
    behind: int

    def moved(self, size: int) -> Spot:
        """Give the place so many bytes behind."""
        return Spot(self.column, self.behind + size)


@attrs.define
class _Window:
    """What lies behind a column: a row for each entry; and of which bits it is told what they must be."""

    behind: int
    rows: Any
    mask: Any
    value: Any

    @classmethod
    def of(cls, buffer: Any, at: Column, behind: int, size: int) -> _Window:
        """Gather it."""
        rows = gathered(buffer, at, behind, size)
        width = rows.shape[1]
        return cls(behind, rows, np.zeros(width, np.uint8), np.zeros(width, np.uint8))

    def holds(self, behind: int, size: int) -> bool:
        """Whether it has some bytes."""
        return self.behind <= behind and behind + size <= self.behind + self.rows.shape[1]

    def differing(self) -> Column | None:
        """Which entries have other bits than they must have; None: none."""
        differing = None
        masks, values, words = self.mask.view(np.uint64), self.value.view(np.uint64), self.rows.view(np.uint64)
        for word in np.flatnonzero(masks):
            column, mask, value = words[:, word], masks[word], values[word]
            is_alike = np.bitwise_or.reduce(column) & mask == value  # of a 0 that tells all
            if not is_alike or (value and np.bitwise_and.reduce(column) & mask != value):
                other = column & mask != value
                differing = other if differing is None else differing | other
        return differing


class Rows:
    """Some entries, each at a place in its value.

    Args:
        buffer: The bytes; behind them there is room for what ops look at.
        values: Where each value begins.
        stops: Where each ends.
        reached: By column, how far behind it bytes of many sizes went in the run before; this run tells its own there.

    Attributes:
        now: Where the entries are.
        ahead: Bytes behind that place that are worth gathering.
        sound: Of each entry whether it is as the op list wants it, as far as was seen.
        awake: Those that do not sleep; None: all.
    """

    def __init__(self, buffer: Any, values: Column, stops: Column, reached: dict[int, int]) -> None:
        self.buffer, self.stops = buffer, stops
        self.now, self.ahead = Spot(0, 0), 0
        self.sound = np.ones(len(values), bool)
        self.awake: Column | None = None
        self._columns = [values]
        self._windows: dict[int, list[_Window]] = {}
        self._likely, self._reached = reached.copy(), reached
        reached.clear()

    def __len__(self) -> int:
        return len(self.stops)

    def at(self, spot: Spot) -> Column:
        """Give a place as a column."""
        column = self._columns[spot.column]
        return column + spot.behind if spot.behind else column

    def seen(self, spot: Spot, size: int) -> Any:
        """Give some bytes at a place, a row for each entry."""
        return self._window(spot, size)[:, :size]

    def _window(self, spot: Spot, size: int) -> Any:
        window = self._found(spot, size)
        return window.rows[:, spot.behind - window.behind :]

    def _found(self, spot: Spot, size: int) -> _Window:
        windows = self._windows.setdefault(spot.column, [])
        for window in windows:
            if window.holds(spot.behind, size):
                return window
        likely = min(self._likely.get(spot.column, 0), WINDOW_BYTES)
        begin = 0 if 0 <= spot.behind < likely else spot.behind
        end = max(spot.behind + max(size, self.ahead if spot == self.now else 0), likely)
        windows.append(_Window.of(self.buffer, self._columns[spot.column], begin, end - begin))
        return windows[-1]

    def byte(self, spot: Spot) -> Column:
        """Give the byte at a place."""
        for window in self._windows.get(spot.column, ()):
            if window.holds(spot.behind, 1):
                return window.rows[:, spot.behind - window.behind]
        if spot.behind < self._likely.get(spot.column, 0):
            return self._window(spot, 1)[:, 0]
        if spot.behind >= 0:
            return self.buffer[spot.behind :][self._columns[spot.column]]
        return self.buffer[self.at(spot)]

    def widely(self, spot: Spot, sizes: Column) -> Any:
        """Give ragged bytes at a place, as `columns.widely`."""
        width = widest(sizes)
        if width:
            self._reached[spot.column] = max(self._reached.get(spot.column, 0), spot.behind + width)
        return self.seen(spot, width) if width else None

    def numbers(self, spot: Spot, dtype: str) -> Column:
        """Give the number of a type at a place; integers have 64 bits."""
        found = self.seen(spot, np.dtype(dtype).itemsize).view(dtype)[:, 0]
        return found.astype(np.int64 if found.dtype.kind in "iu" else np.float64)

    def decline(self, bad: Column) -> None:
        """Take entries for odd, unless they sleep."""
        if bad.any():
            self.sound &= ~bad if self.awake is None else ~(bad & self.awake)

    def expect(self, size: int, mask: Any, value: Any) -> None:
        """Want bytes that are, under a mask, what they are to be."""
        window = self._found(self.now, size)
        first = self.now.behind - window.behind
        if self.awake is None:
            window.mask[first : first + size] |= mask[:size]
            window.value[first : first + size] |= value[:size]
            return
        for place in np.flatnonzero(mask[:size]).tolist():
            self.decline(window.rows[:, first + place] & mask[place] != value[place])

    def is_plain(self, spot: Spot) -> bool:
        """Whether the byte at a place is known to have no top bit, once all is proven."""
        return any(
            window.holds(spot.behind, 1)
            and bool(window.mask[spot.behind - window.behind] & ~window.value[spot.behind - window.behind] & 0x80)
            for window in self._windows.get(spot.column, ())
        )

    def prove(self) -> None:
        """See whether all bytes are as they must be."""
        for windows in self._windows.values():
            for window in windows:
                differing = window.differing()
                if differing is not None:
                    self.sound &= ~differing

    def step(self, size: int) -> None:
        """Go on by as many bytes for each."""
        if self.awake is None:
            self.now = self.now.moved(size)
        else:
            self.go(self.at(self.now) + size)

    def go(self, places: Column) -> None:
        """Go to a place of each; who is past its end then is odd, and at its end."""
        past = places > self.stops
        if self.awake is not None:
            past &= self.awake
            places = np.where(self.awake, places, self.at(self.now))
        if past.any():
            self.sound &= ~past
            places = np.minimum(places, self.stops)
        self._columns.append(places)
        self.now = Spot(len(self._columns) - 1, 0)

    def words(self, spot: Spot) -> Column:
        """Give 8 bytes at a place as an unsigned little-endian number."""
        return view(self.buffer, "<u8")[self.at(spot)]

    def long(self, places: Column) -> Column:
        """Give the big-endian integers of 4 bytes at places."""
        return integers(self.buffer, places, 4)
