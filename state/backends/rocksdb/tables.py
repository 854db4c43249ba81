"""Tables over column families: a small one is one of them, a large one has one for each range of key groups."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

from ....serializers.errors import StateShiftError
from ...rocksdb.database import reported_writing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ...rocksdb.database import Items

_LEAST_ITEMS, _MOST_ITEMS = 16, 512
_FILES_BYTES = "rocksdb.live-sst-files-size"


class ColumnFamily:
    """A column family.

    Args:
        name: Its name.
        family: The column family.
        write: Sets the values of some keys of the column family of a name as one batch; None removes a key.
        new_read_options: Returns options for an iterator.
    """

    def __init__(
        self,
        name: str,
        family: Any,
        write: Callable[[str, Mapping[bytes, bytes | None]], None],
        new_read_options: Callable[[], Any],
    ) -> None:
        self.name, self._family, self.write = name, family, partial(write, name)
        self._new_read_options = new_read_options
        self._iterators: dict[object, Any] = {}
        self._is_open = True
        self.get: Callable[[bytes], bytes | None] = family.get
        self.ingest: Callable[[list[str], Any], None] = family.ingest_external_file

    def items(self, start: bytes, stop: bytes, *, fill_cache: bool = True) -> Iterator[Items]:
        """Yield the entries from `start` to before `stop` in the order of their keys, some at a time.

        Raises:
            StateShiftError: The column family was closed meanwhile.
        """
        options = self._new_read_options()
        options.fill_cache(v=fill_cache)
        options.set_total_order_seek(True)
        options.set_iterate_upper_bound(stop)
        reader, most = object(), _LEAST_ITEMS
        try:
            with reported_writing("read its files"):
                self._iterators[reader] = self._family.iter(options)
                self._iterators[reader].seek(start)
            while True:
                if reader not in self._iterators:
                    raise StateShiftError("the state was closed before it was read to the end")
                with reported_writing("read its files"):
                    found = _taken(self._iterators[reader], most)
                if not found[0]:
                    return
                yield found
                most = min(2 * most, _MOST_ITEMS)
        finally:
            self._iterators.pop(reader, None)

    def stored_bytes(self) -> int:
        """Write what is in memory to files, and return the size of all files."""
        with reported_writing("write its files"):
            self._family.flush()
            return int(self._family.property_int_value(_FILES_BYTES) or 0)

    def close(self) -> None:
        """Close the column family and its iterators, which keep the database open; closing it twice is harmless."""
        self._iterators.clear()
        if self._is_open:
            self._is_open = False
            self._family.close()

    @property
    def is_read(self) -> bool:
        """Whether an iteration has not come to its end."""
        return bool(self._iterators)


class RocksDBTable:
    """The table of a state; it stays the same when its entries move to other column families.

    Args:
        families: The column families, in the order of their keys.
        starts: What the keys of each begin with, at least; the first one has all that are less, too.

    Attributes:
        families: The column families.
        starts: What the keys of each begin with, at least.
        get: Returns the value of a key; None where it has none.
    """

    def __init__(self, families: Sequence[ColumnFamily], starts: Sequence[bytes]) -> None:
        self.become(families, starts)

    def become(self, families: Sequence[ColumnFamily], starts: Sequence[bytes]) -> None:
        """Be a table over other column families; arguments as of the class."""
        self.families, self.starts = tuple(families), [b"", *starts[1:]]
        self.get: Callable[[bytes], bytes | None] = self.families[0].get if len(families) == 1 else self._get

    def family_at(self, key: bytes) -> ColumnFamily:
        """Return the column family that has the entry of a key."""
        return self.families[bisect_right(self.starts, key) - 1]

    def _get(self, key: bytes) -> bytes | None:
        return self.families[bisect_right(self.starts, key) - 1].get(key)

    def write(self, changes: Mapping[bytes, bytes | None]) -> None:
        """Set the values of some keys, as one batch for each column family; None removes a key."""
        if len(self.families) == 1:
            self.families[0].write(changes)
            return
        starts, parts = self.starts, [dict[bytes, bytes | None]() for _ in self.families]
        for key, value in changes.items():
            parts[bisect_right(starts, key) - 1][key] = value
        for family, part in zip(self.families, parts, strict=True):
            if part:
                family.write(part)

    def items(self, start: bytes, stop: bytes) -> Iterator[Items]:
        """Yield the entries from `start` to before `stop` in the order of their keys, some at a time."""
        first, after = bisect_right(self.starts, start) - 1, bisect_left(self.starts, stop)
        for family in self.families[first:after]:
            yield from family.items(start, stop)

    @property
    def is_read(self) -> bool:
        """Whether an iteration has not come to its end."""
        return any(family.is_read for family in self.families)


class RocksDBView:
    """The tables at one moment: an iterator of RocksDB goes on seeing what there was when it was made.

    A snapshot of rocksdict 0.3.29 is of no use for this: its iterators see later changes.

    Args:
        iterators: Iterators of the column families of each table, in the order of their keys.
    """

    def __init__(self, iterators: dict[str, list[Any]]) -> None:
        self._iterators, self._lock = iterators, Lock()
        self.families = frozenset(iterators)

    def items(self, family: str, start: bytes | None = None, stop: bytes | None = None) -> Iterator[Items]:
        """Yield the entries of a table in a range of keys, in order; None: without a limit.

        Raises:
            StateShiftError: The view was released.
        """
        at, number = start or b"", 0
        while True:
            with self._lock, reported_writing("read its files"):
                if not self._iterators:
                    raise StateShiftError("the snapshot was released before it was written")
                iterators = self._iterators[family]
                iterators[number].seek(at)
                found = _taken(iterators[number], _MOST_ITEMS, stop)
            if found[0]:
                yield found
                at = found[0][-1] + b"\0"
            elif number + 1 < len(iterators):
                number += 1
            else:
                return

    @property
    def is_released(self) -> bool:
        """Whether nothing can be read any more."""
        return not self._iterators

    def release(self) -> None:
        """Release what RocksDB kept for this view."""
        with self._lock:
            self._iterators.clear()


def _taken(iterator: Any, most: int, stop: bytes | None = None) -> Items:
    """Return the next entries, at most so many and before `stop`; damage is an error, and not an end."""
    keys: list[bytes] = []
    values: list[bytes] = []
    valid, key_of, value_of, move = iterator.valid, iterator.key, iterator.value, iterator.next
    while valid() and len(keys) < most:
        key = key_of()
        if stop is not None and key >= stop:
            break
        keys.append(key)
        values.append(value_of())
        move()
    if not keys:
        iterator.status()
    return tuple(keys), tuple(values)
