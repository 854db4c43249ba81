"""What changed between snapshots of one subtask: found by its files, not by reading all of its entries.

A key whose records are in none of the files that appeared or disappeared, and in no range that such a file deletes, has
the same records in both snapshots, and so the same value. New files alone are not enough: a compaction that reaches the
last level drops deletions, and with them every record of a key.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from contextlib import ExitStack
from itertools import chain
from operator import ne
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from ...serializers.errors import UnsupportedFormat
from ..formats.flink.sources import open_stream
from ..rocksdb.options_file import DEFAULT_FAMILY
from ..rocksdb.ranges import table_of
from ..rocksdb.table_reader import open_table
from ..storage.prefetch import ahead
from ..transcode.executor_choice import ExecutorName, load_machine_code

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..rocksdb.database import Database, Items
    from ..rocksdb.manifest import TableFile
    from ..rocksdb.table_reader import Records, Table
    from .checkpoints import LinkedSnapshot

T = TypeVar("T")
_PAIRS = 4096
"""How many changes are found at a time."""
_DENSE = 0.25
"""From which part of a state's files on its entries are compared one by one, instead of looked up by their keys."""


@attrs.frozen
class DifferentFile:
    """A file that not all of some snapshots have.

    Attributes:
        listed: Its entry in the MANIFEST.
        snapshot: A snapshot that has it.
    """

    listed: TableFile
    snapshot: LinkedSnapshot


def different_files(snapshots: Sequence[LinkedSnapshot]) -> dict[str, list[DifferentFile]]:
    """Return the files that not all snapshots have, by state; states without such files are left out.

    Files are the same if they were found at the same place: no two files of checkpoints have one URI. Savepoints have
    all files at new places. There, files of one backend are the same if the MANIFEST says the same of them, the unique
    id included. In doubt they are different, which costs time only.
    """
    named = [one.identities for one in snapshots]
    held = [frozenset(chain.from_iterable(names.values())) for names in named]
    found: dict[str, list[DifferentFile]] = defaultdict(list)
    for snapshot, names in zip(snapshots, named, strict=True):
        for family, files in snapshot.manifest.families.items():
            for file in files:
                is_common = not any(names[file.name].isdisjoint(theirs) for theirs in held)
                if not is_common and family != DEFAULT_FAMILY:
                    found[table_of(family)].append(DifferentFile(file, snapshot))
    return dict(found)


@attrs.frozen
class Changes:
    """Keys whose values are not the same in all of some snapshots, in order.

    Attributes:
        keys: The keys.
        before: Their values in each of the earlier snapshots; None: it has none.
        after: Their values in the new one.
    """

    keys: list[bytes]
    before: list[list[bytes | None]]
    after: list[bytes | None]

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def size_bytes(self) -> int:
        """The bytes of the keys and of their new values."""
        return sum(map(len, self.keys)) + sum(map(len, filter(None, self.after)))

    @classmethod
    def joined(cls, parts: Sequence[Changes]) -> Changes:
        """Return several, at least one, as one."""
        columns = zip(*(one.before for one in parts), strict=True)
        return cls(_chained(one.keys for one in parts), [*map(_chained, columns)], _chained(one.after for one in parts))


def _chained(lists: Iterable[list[T]]) -> list[T]:
    return [*chain.from_iterable(lists)]


def changes(
    state: str,
    databases: Sequence[Database],
    files: Sequence[DifferentFile],
    whole: int,
    start: bytes,
    stop: bytes,
    executor: ExecutorName = ExecutorName.OBJECTS,
) -> Iterator[tuple[bytes, Changes]]:
    """Yield the entries of a state that differ between databases, some at a time, with the key up to which these are.

    Args:
        state: The state.
        databases: Those of the earlier snapshots, then that of the new one.
        files: The files of the state that not all of them have.
        whole: The bytes of all its files in the new one.
        start: The first key, inclusive.
        stop: The last key, exclusive.
        executor: What compares entries.

    Raises:
        CorruptSavepoint: A file is damaged.
    """
    with ExitStack() as opened:
        tables: list[Table] = []
        deleted: list[tuple[bytes, bytes]] = []
        is_sparse = sum(file.listed.size for file in files) <= _DENSE * whole
        try:
            for file in files if is_sparse else ():
                stored = {one.name: one.stream for one in file.snapshot.handle.shared}
                stream = opened.enter_context(open_stream(stored[file.listed.name], file.snapshot.source))
                tables.append(open_table(stream, file.listed, executor))
            deleted = _joined([one for table in tables for one in table.range_deletions()], start, stop)
        except UnsupportedFormat:  # only RocksDB reads such a file
            is_sparse = False
        if is_sparse:
            sources = [_keys(table.blocks(start, stop)) for table in tables]
            sources += [_listed(one.items(state, *part)) for one in databases for part in deleted]
            yield from _looked_up(state, databases, merged_keys(sources))
        else:
            by_blocks = executor is ExecutorName.NUMBA and len(databases) == 2
            blocks = [one.by_blocks(state, start, stop) for one in databases] if by_blocks else []
            if blocks and None not in blocks:
                yield from _compared_by_blocks(*(ahead(one) for one in blocks if one is not None))
            else:
                yield from _compared([one.items(state, start, stop) for one in databases])


def _keys(blocks: Iterator[Records]) -> Iterator[list[bytes]]:
    return (list(dict.fromkeys(records.keys())) for records in blocks)


def _listed(items: Iterator[Items]) -> Iterator[list[bytes]]:
    return (list(keys) for keys, _ in items)


def merged_keys(sources: Sequence[Iterator[list[bytes]]]) -> Iterator[list[bytes]]:
    """Yield the keys of several sources in order and without duplicates, some at a time.

    Args:
        sources: Each yields lists of keys, in order.
    """
    held = [(keys, source) for source in sources if (keys := next(source, []))]
    while held:
        bound = min(keys[-1] for keys, _ in held)
        found: set[bytes] = set()
        left = []
        for keys, source in held:
            after = bisect_right(keys, bound)
            found.update(keys[:after])
            rest = keys[after:] or next(source, [])
            if rest:
                left.append((rest, source))
        held = left
        yield sorted(found)


def _joined(ranges: Sequence[tuple[bytes, bytes, int]], start: bytes, stop: bytes) -> list[tuple[bytes, bytes]]:
    """Return ranges of keys that were deleted, joined, within the keys of a subtask."""
    within = ((max(first, start), min(after, stop)) for first, after, _ in ranges)
    joined: list[tuple[bytes, bytes]] = []
    for first, after in sorted(one for one in within if one[0] < one[1]):
        if joined and first <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(after, joined[-1][1]))
        else:
            joined.append((first, after))
    return joined


def _looked_up(
    state: str, databases: Sequence[Database], candidates: Iterator[list[bytes]]
) -> Iterator[tuple[bytes, Changes]]:
    for keys in candidates:
        *before, after = (one.values(state, keys) for one in databases)
        differing = (enumerate(map(ne, values, after)) for values in before)
        rows = sorted({row for one in differing for row, differs in one if differs})
        yield keys[-1], Changes(_taken(keys, rows), [_taken(values, rows) for values in before], _taken(after, rows))


def _taken(values: Sequence[T], rows: Iterable[int]) -> list[T]:
    return [values[row] for row in rows]


def _compared(sources: Sequence[Iterator[Items]]) -> Iterator[tuple[bytes, Changes]]:
    """Compare all entries, which come from each database in the order of their keys."""
    empty: Items = ((), ())
    held = [next(source, empty) for source in sources]
    while any(keys for keys, _ in held):
        bound = min(keys[-1] for keys, _ in held if keys)
        ends = [bisect_right(keys, bound) for keys, _ in held]
        parts = [(keys[:end], values[:end]) for (keys, values), end in zip(held, ends, strict=True)]
        found = Changes([], [[] for _ in sources[1:]], [])
        if any(part != parts[0] for part in parts):
            *before, after = (dict(zip(*part, strict=True)) for part in parts)
            differing = sorted({key for one in before for key, _ in one.items() ^ after.items()})
            found = Changes(differing, [[*map(one.get, differing)] for one in before], [*map(after.get, differing)])
        yield bound, found
        held = [
            (keys[end:], values[end:]) if end < len(keys) else next(source, empty)
            for (keys, values), end, source in zip(held, ends, sources, strict=True)
        ]


def _compared_by_blocks(before: Iterator[Records], after: Iterator[Records]) -> Iterator[tuple[bytes, Changes]]:
    """Compare all entries of two databases, by machine code."""
    import numpy as np

    code: Any = load_machine_code()
    old, new = next(before, None), next(after, None)
    pairs, result = np.empty(2 * _PAIRS, np.int64), np.zeros(3, np.int64)
    while old is not None and new is not None:
        both: Any = [
            (code.read_only(np.frombuffer(one.data, np.uint8)), one.places[: len(one) + 1]) for one in (old, new)
        ]
        code.differing_entries(*both[0], *both[1], pairs, result)
        at, to, count = result.tolist()
        olds, news = (pairs[place : 2 * count : 2].tolist() for place in (0, 1))
        bound = max(one.key(row - 1) for one, row in ((old, at), (new, to)) if row)
        yield bound, _changed(old, olds, new, news)
        if at == len(old):
            old, result[0] = next(before, None), 0
        if to == len(new):
            new, result[1] = next(after, None), 0
    while old is not None:
        rest = range(int(result[0]), len(old))
        yield old.key(len(old) - 1), _changed(old, rest, old, [-1] * len(rest))
        old, result[0] = next(before, None), 0
    while new is not None:
        rest = range(int(result[1]), len(new))
        yield new.key(len(new) - 1), _changed(new, [-1] * len(rest), new, rest)
        new, result[1] = next(after, None), 0


def _changed(old: Records, olds: Sequence[int], new: Records, news: Sequence[int]) -> Changes:
    """Return the changes of some keys by the indexes of their entries; -1: there a key has none."""
    pairs = zip(olds, news, strict=True)
    keys = [old.key(before) if before >= 0 else new.key(after) for before, after in pairs]
    values = [[one.value(row) if row >= 0 else None for row in rows] for one, rows in ((old, olds), (new, news))]
    return Changes(keys, values[:1], values[1])
