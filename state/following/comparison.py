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
from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.errors import UnsupportedFormat
from ..formats.flink.sources import open_stream
from ..rocksdb.options_file import DEFAULT_FAMILY
from ..rocksdb.ranges import table_of
from ..rocksdb.table_reader import open_table
from ..transcode.executor_choice import ExecutorName, load_machine_code

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..rocksdb.database import Database, Items
    from ..rocksdb.manifest import TableFile
    from ..rocksdb.table_reader import Records, Table
    from .checkpoints import LinkedSnapshot

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
class Change:
    """A key whose value is not the same in all of some snapshots.

    Attributes:
        key: The key.
        before: Its value in each of the earlier ones; None: it has none.
        after: Its value in the new one.
    """

    key: bytes
    before: tuple[bytes | None, ...]
    after: bytes | None


def changes(
    state: str,
    databases: Sequence[Database],
    files: Sequence[DifferentFile],
    whole: int,
    start: bytes,
    stop: bytes,
    executor: ExecutorName = ExecutorName.OBJECTS,
) -> Iterator[tuple[bytes, list[Change]]]:
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
                tables.append(open_table(stream, file.listed))
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
                yield from _compared_by_blocks(*(one for one in blocks if one is not None))
            else:
                yield from _compared([one.items(state, start, stop) for one in databases])


def _keys(blocks: Iterator[Records]) -> Iterator[list[bytes]]:
    return (list(dict.fromkeys(map(records.key, range(len(records))))) for records in blocks)


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
) -> Iterator[tuple[bytes, list[Change]]]:
    for keys in candidates:
        *before, after = (one.values(state, keys) for one in databases)
        rows = zip(keys, zip(*before, strict=True), after, strict=True)
        yield keys[-1], [Change(*row) for row in rows if any(value != row[2] for value in row[1])]


def _compared(sources: Sequence[Iterator[Items]]) -> Iterator[tuple[bytes, list[Change]]]:
    """Compare all entries, which come from each database in the order of their keys."""
    empty: Items = ((), ())
    held = [next(source, empty) for source in sources]
    while any(keys for keys, _ in held):
        bound = min(keys[-1] for keys, _ in held if keys)
        ends = [bisect_right(keys, bound) for keys, _ in held]
        parts = [(keys[:end], values[:end]) for (keys, values), end in zip(held, ends, strict=True)]
        found: list[Change] = []
        if any(part != parts[0] for part in parts):
            *before, after = (dict(zip(*part, strict=True)) for part in parts)
            differing = {key for one in before for key, _ in one.items() ^ after.items()}
            found = [Change(key, tuple(one.get(key) for one in before), after.get(key)) for key in sorted(differing)]
        yield bound, found
        held = [
            (keys[end:], values[end:]) if end < len(keys) else next(source, empty)
            for (keys, values), end, source in zip(held, ends, sources, strict=True)
        ]


def _compared_by_blocks(before: Iterator[Records], after: Iterator[Records]) -> Iterator[tuple[bytes, list[Change]]]:
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
        rows = pairs[: 2 * count].reshape(count, 2).tolist()
        bound = max(one.key(row - 1) for one, row in ((old, at), (new, to)) if row)
        yield bound, [_change(old, new, *row) for row in rows]
        if at == len(old):
            old, result[0] = next(before, None), 0
        if to == len(new):
            new, result[1] = next(after, None), 0
    while old is not None:
        rest = range(int(result[0]), len(old))
        yield old.key(len(old) - 1), [Change(old.key(row), (old.value(row),), None) for row in rest]
        old, result[0] = next(before, None), 0
    while new is not None:
        rest = range(int(result[1]), len(new))
        yield new.key(len(new) - 1), [Change(new.key(row), (None,), new.value(row)) for row in rest]
        new, result[1] = next(after, None), 0


def _change(old: Records, new: Records, before: int, after: int) -> Change:
    """Return the change of a key by the indexes of its entries; -1: there it has none."""
    key = old.key(before) if before >= 0 else new.key(after)
    return Change(key, (old.value(before) if before >= 0 else None,), new.value(after) if after >= 0 else None)
