"""The machine code that Python calls: it finds and surveys runs of entries, and rewrites blocks and key groups.

It is compiled once per machine and cached on disk. Blocks and whole key groups are rewritten by one compiled function,
since every function that contains the interpreter takes seconds to compile.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import frames, table_entries, table_packing
from .frames import COMPLETE
from .interpreter import DONE, FULL, ODD, interpret
from .kept_code import compiled
from .key_shapes import AHEAD, CRAMPED, find_placed_run
from .memory import address, bytes_at, copy, key_sum, load, numbers_at, store
from .moves import rewrite_even
from .table_entries import CRAMPED as NO_ROOM
from .table_entries import ROOM_BYTES, compared, room_for
from .table_packing import TABLE_BYTES

_BYTES = 24 << 20
"""glibc keeps twice as much: the memory in use at a time exceeds 32 MB."""


def keep_freed_memory() -> None:
    """Make the C library keep some megabytes of freed blocks: fresh pages cost as much as some ops.

    glibc maps an allocation larger than any freed before from the system, and unmaps it when it is freed; of smaller
    ones it keeps up to twice the size of the largest freed one.
    """
    np.empty(_BYTES, np.uint8)


DROP, COPY, CONVERT = range(3)
"""What happens to the entries of a state."""
ACTION, NEW_ID, CODE, CONSTANTS, MOVES, MOVES_END, FIXED, SHAPE, CHECK, CHECK_CONSTANTS, STATE_NUMBERS = range(11)
"""The numbers of a state: the action, the new id, the offsets of its parts in tables, the bytes that ops write without
a check (`Program.fixed`); and the offsets of the checks of its entries in tables, -1 if there are none."""
GROUP, FIRST, ENTRIES, KEYS_READ, KEYS_WRITTEN, TOTAL_NUMBERS = range(6)
"""The totals of a state: one more than the index of the last key group that has it, the offset of its first new entry,
the number of its entries, checksums."""
RESULT_NUMBERS = 8
NO_TABLE = 5
"""A status besides those of the interpreter: keys that do not ascend need a larger table."""
_AT_ONCE = 1 << 16
"""The number of new bytes that are written and then surveyed at a time."""
_ID_BYTES, _LENGTH_BYTES = 2, 4
_END_MARK, _LAST_FLAG, _NOT_LAST = 0xFFFF, 0x80, 0x7F

keep_freed_memory()


def _rewrite_block(
    data: Any, start: int, size: int, most: int, code: Any, moves: Any, constants: Any, target: Any, capacity: int,
    registers: Any, prefix: int, prefix_bytes: int, result: Any,
) -> int:  # fmt: skip
    """Rewrite a block: entries of one size by `moves`, if there are any, the others by the interpreter.

    The new entries are surveyed in pieces, while they are in the processor's cache: the result has the four numbers of
    `survey` after the interpreter's. Entries of a piece that is damaged are not counted as seen.

    Buffers are arrays of bytes; the op list, moves, registers and result are arrays of 64-bit integers.
    """
    at, written, entries, keys, most_capacity = start, 0, 0, 0, _AT_ONCE
    seen, seen_keys, misplaced, last = 0, 0, -1, -1
    while True:
        left, made = capacity - written, 0
        free = min(left, most_capacity)
        if len(moves) > 0:
            rewrite_even(
                address(data), at, most, address(moves), address(constants), address(target[written:]), free,
                prefix, prefix_bytes, address(result),
            )  # fmt: skip
            at, made, entries, keys = result[0], result[1], entries + result[2], keys + result[3]
            seen, seen_keys = seen + result[2], seen_keys + result[3]
            last = written + result[4] if made > 0 else last
        written += made
        status = interpret(
            address(data), at, size, most, address(code), address(constants), address(target[written:]), free - made,
            address(registers), address(result),
        )  # fmt: skip
        more = result[1]
        at, entries, keys = result[0], entries + result[2], keys + result[3]
        if more > 0 and frames._survey(address(target[written:]), more, prefix, prefix_bytes, address(result)):  # noqa: SLF001 - compiled, though private
            seen, seen_keys, last = seen + result[0], seen_keys + result[1], written + result[3]
            if misplaced < 0 <= result[2]:
                misplaced = written + result[2]
        written += more
        if status != FULL or (made + more == 0 and free == left):
            break
        if made + more == 0:
            most_capacity *= 2
    result[0], result[1], result[2], result[3] = at, written, entries, keys
    result[4], result[5], result[6], result[7] = seen, seen_keys, misplaced, last
    return status


def _checked(
    data: Any, at: int, end: int, group: int, prefix_bytes: int, what: Any, shapes: Any, code: Any, constants: Any,
    table: Any, target: Any, capacity: int, registers: Any, result: Any,
) -> int:  # fmt: skip
    """Find and check the entries of a state, of which the last one is flagged.

    The result is their end, the offset of the last one, and their number.
    """
    if what[SHAPE] < 0:
        return DONE if frames._find_run(address(data), at, end, address(result)) == COMPLETE else ODD  # noqa: SLF001 - compiled, though private
    found = find_placed_run(
        address(data), at, end, group, prefix_bytes, address(shapes[what[SHAPE] :]), address(table), len(table),
        address(result),
    )  # fmt: skip
    if found != AHEAD:
        return NO_TABLE if found == CRAMPED else ODD
    stop, last, entries = result[0], result[1], result[2]
    if load(address(data), last + _LENGTH_BYTES, 1) >= 0:
        return ODD
    while what[CHECK] >= 0 and at < stop:
        status = interpret(
            address(data), at, stop, stop, address(code[what[CHECK] :]), address(constants[what[CHECK_CONSTANTS] :]),
            address(target), capacity, address(registers), address(result),
        )  # fmt: skip
        if status != DONE and (status != FULL or result[2] == 0):
            return status
        at = result[0]
    result[0], result[1], result[2] = stop, last, entries
    return DONE


def _converted(
    data: Any, at: int, stop: int, last: int, found: int, prefix: int, prefix_bytes: int, code: Any, constants: Any,
    moves: Any, fixed: int, target: Any, capacity: int, registers: Any, result: Any,
) -> int:  # fmt: skip
    """Rewrite the entries of a state, of which the last one is flagged; flag the last new one.

    The result is the end of the state, the bytes written, the entries, and the checksums of the old and the new keys.
    """
    written, entries, keys = 0, 0, 0
    if len(moves) > 0:  # up to the flag at most, since a flagged key has another prefix
        rewrite_even(
            address(data), at, stop, address(moves), address(constants), address(target), capacity,
            prefix, prefix_bytes, address(result),
        )  # fmt: skip
        at, written, entries, keys = result[0], result[1], result[2], result[3]
    flag, left = last + _LENGTH_BYTES, found - entries
    store(address(data), flag, 1, load(address(data), flag, 1) & _NOT_LAST)
    status = _rewrite_block(
        data, at, stop, stop, code, moves, constants, target[written:], capacity - written - fixed,
        registers, prefix, prefix_bytes, result,
    )  # fmt: skip
    store(address(data), flag, 1, load(address(data), flag, 1) | _LAST_FLAG)
    if status != DONE:
        return status
    rewritten, seen, seen_keys, misplaced, new_last = result[2], result[4], result[5], result[6], result[7]
    if rewritten != left or seen != left or misplaced >= 0:
        return ODD
    new_flag = written + new_last + _LENGTH_BYTES
    store(address(target), new_flag, 1, load(address(target), new_flag, 1) | _LAST_FLAG)
    result[0], result[1], result[2] = stop, written + result[1], found
    result[3], result[4] = keys + result[3], keys + seen_keys
    return DONE


def _passed(
    data: Any, at: int, stop: int, is_copied: bool, target: Any, capacity: int, result: Any  # noqa: FBT001 - for numba
) -> int:  # fmt: skip
    """Copy or skip the entries of a state; the result is that of `_converted`, with 0 for the checksums."""
    size = stop - at if is_copied else 0
    if size > capacity:
        return FULL
    copy(address(target), 0, address(data), at, size)
    result[1], result[3], result[4] = size, 0, 0
    return DONE


def _rewrite_key_groups(  # noqa: PLR0912 - one function, for numba
    data: Any, begins: Any, key_groups: Any, prefix_bytes: int, states: Any, shapes: Any, code: Any, constants: Any,
    moves: Any, table: Any, target: Any, capacity: int, registers: Any, result: Any, offsets: Any, totals: Any,
) -> int:  # fmt: skip
    """Rewrite key groups; return `DONE`, `FULL`, `NO_TABLE`, or another status if an entry needs other treatment.

    Args:
        data: Key groups, with padding after them.
        begins: The offset of each key group, and the end of the last one.
        key_groups: The numbers of the key groups.
        prefix_bytes: The number of key bytes that hold the key group.
        states: A row of numbers for each stored state: its action, and the offsets of its parts in the next four.
        shapes: The shapes of keys (`key_shapes`).
        code: Op lists, one after the other.
        constants: The constants of the op lists, one after the other.
        moves: The moves of the op lists (`moves.moves_of`), one after the other.
        table: A hash table for keys that do not ascend.
        target: The buffer for the new key groups.
        capacity: The number of bytes available in it.
        registers: As many registers as any of the op lists needs.
        result: Receives the number of bytes written; has eight numbers.
        offsets: Receives the offset of each new key group; -1 if it is empty.
        totals: A row of zeros for each stored state; receives its totals.
    """
    written = 0
    for group in range(len(key_groups)):
        at, end, start = begins[group], begins[group + 1], written
        is_empty = True
        while end - at >= _ID_BYTES:
            state = load(address(data), at, 2) & _END_MARK
            at += _ID_BYTES
            if state == _END_MARK:
                break
            if state >= len(states) or totals[state, GROUP] > group:
                return ODD
            is_empty = False
            what, new, free = states[state], written + _ID_BYTES, capacity - written - 2 * _ID_BYTES
            if free < 0:
                return FULL
            status = _checked(
                data, at, end, key_groups[group], prefix_bytes, what, shapes, code, constants, table, target[new:],
                free, registers, result,
            )  # fmt: skip
            if status != DONE:
                return status
            if what[ACTION] == CONVERT:
                status = _converted(
                    data, at, result[0], result[1], result[2], key_groups[group], prefix_bytes, code[what[CODE] :],
                    constants[what[CONSTANTS] :], moves[what[MOVES] : what[MOVES_END]], what[FIXED], target[new:], free,
                    registers, result,
                )  # fmt: skip
            else:
                status = _passed(data, at, result[0], what[ACTION] == COPY, target[new:], free, result)
            if status != DONE:
                return status
            if what[ACTION] != DROP:
                store(address(target), written, 2, what[NEW_ID])
                written = new + result[1]
            at = result[0]
            totals[state, FIRST] = totals[state, FIRST] or new
            totals[state, GROUP] = group + 1
            totals[state, ENTRIES] += result[2]
            totals[state, KEYS_READ] += result[3]
            totals[state, KEYS_WRITTEN] += result[4]
        else:
            return ODD
        if is_empty or at != end:
            return ODD
        offsets[group] = start if written > start else -1
        if written > start:
            store(address(target), written, 2, _END_MARK)
            written += _ID_BYTES
    result[0] = written
    return DONE


@compiled
def rewrite(
    data: Any, places: Any, key_groups: Any, prefix_bytes: int, states: Any, shapes: Any, code: Any, constants: Any,
    moves: Any, table: Any, target: Any, capacity: int, registers: Any, result: Any, offsets: Any, totals: Any,
) -> int:  # fmt: skip
    """Rewrite key groups; or one block, if `totals` is empty.

    For a block, `places` are its start, its end, and the offset beyond which no entry may end; `key_groups` has one
    item, and code, constants and moves are those of one op list.
    """
    if len(totals) > 0:
        return _rewrite_key_groups(
            data, places, key_groups, prefix_bytes, states, shapes, code, constants, moves, table, target, capacity,
            registers, result, offsets, totals,
        )  # fmt: skip
    return _rewrite_block(
        data, places[0], places[1], places[2], code, moves, constants, target, capacity, registers,
        key_groups[0], prefix_bytes, result,
    )  # fmt: skip


@compiled
def find_run(data: Any, start: int, size: int, result: Any) -> int:
    """Run `frames._find_run` on an array of bytes; the result is an array of 64-bit integers."""
    return frames._find_run(address(data), start, size, address(result))  # noqa: SLF001 - compiled, though private


@compiled
def find_placed(
    data: Any, size: int, group: int, prefix_bytes: int, shape: Any, table: Any, result: Any
) -> int:  # fmt: skip
    """Run `key_shapes.find_placed_run` on a block; shape, table and result are arrays of 64-bit integers."""
    return find_placed_run(
        address(data), 0, size, group, prefix_bytes, address(shape), address(table), len(table), address(result)
    )


@compiled
def note_key_sums(data: Any, size: int, sums: Any) -> None:
    """Write the hash that the key of each entry of a valid block adds to the checksum (`frames`) into `sums`."""
    at = entry = 0
    while at < size:
        key_size = load(address(data), at, 4)
        sums[entry] = key_sum(address(data), at + _LENGTH_BYTES, key_size)
        value_at = at + 2 * _LENGTH_BYTES + key_size
        at = value_at + load(address(data), value_at - _LENGTH_BYTES, 4)
        entry += 1


@compiled
def survey(data: Any, size: int, prefix: int, prefix_bytes: int, result: Any) -> bool:
    """Run `frames._survey` on an array of bytes; the result is an array of 64-bit integers."""
    return frames._survey(address(data), size, prefix, prefix_bytes, address(result))  # noqa: SLF001 - as above


@compiled
def find_entries(data: Any, start: int, end: int, keys: Any, key_ends: Any, values: Any, value_ends: Any) -> bool:
    """Run `frames._find_entries` on an array of bytes; the places are arrays of 64-bit integers."""
    return frames._find_entries(address(data), start, end, keys, key_ends, values, value_ends)  # noqa: SLF001 - as above


def key_hashes(block: Any, size: int, entries: int) -> Any:
    """Return a 64-bit hash of each key of a valid block."""
    sums = np.empty(entries, np.int64)
    note_key_sums(block, size, sums)
    return sums.view(np.uint64)


def read_only(array: Any) -> Any:
    """Return a read-only view of an array: for writable arrays numba would compile another version."""
    view = array.view()
    view.setflags(write=False)
    return view


def call(function: Any, data: bytes | memoryview, *numbers: int) -> tuple[int, list[int]]:
    """Call a compiled function of `frames`; return its return value and its result numbers."""
    result = np.zeros(4, np.int64)
    returned = function(read_only(np.frombuffer(data, np.uint8)), *numbers, result)
    return int(returned), result.tolist()


@compiled
def read_table_entries(
    data: Any, bounds: Any, values: int, stored: int, target: Any, capacity: int, places: Any, firsts: Any,
    seconds: Any, result: Any,
) -> int:  # fmt: skip
    """Run `table_entries.read_table_entries` on arrays of bytes and of 64-bit integers."""
    return table_entries.read_table_entries(
        address(data), address(bounds), len(bounds) // 2, values, stored, address(target), capacity, len(firsts),
        address(places), address(firsts), address(seconds), address(result),
    )  # fmt: skip


def parse_table_entries(
    data: bytes | bytearray | memoryview, bounds: list[int], values: int, stored: int, capacity: int, rows: int
) -> tuple[int, list[int], tuple[memoryview, Any, Any, Any]]:
    """Run `table_entries.parse_table_entries`, which has the same arguments."""
    target: Any = np.empty(capacity, np.uint8)
    places = np.empty(rows + 1, np.int64)
    firsts, seconds, result = np.empty(rows, np.int64), np.empty(rows, np.int64), np.zeros(4, np.int64)
    status = read_table_entries(
        read_only(np.frombuffer(data, np.uint8)), np.array(bounds, np.int64), values, stored, target, capacity, places,
        firsts, seconds, result,
    )  # fmt: skip
    count = int(result[0])
    return int(status), result.tolist(), (memoryview(target), places[: count + 1], firsts[:count], seconds[:count])


@compiled
def write_table_blocks(
    data: Any, size: int, block_bytes: int, interval: int, is_last: bool, target: Any, capacity: int, ends: Any,  # noqa: FBT001 - for numba
    lasts: Any, wholes: Any, result: Any,
) -> int:  # fmt: skip
    """Run `table_entries.write_table_blocks` on arrays of bytes and of 64-bit integers."""
    return table_entries.write_table_blocks(
        address(data), size, block_bytes, interval, is_last, address(target), capacity, len(ends), address(ends),
        address(lasts), address(wholes), address(result),
    )  # fmt: skip


@compiled
def ascends(data: Any, size: int) -> bool:
    """Run `frames._ascends` on an array of bytes."""
    return frames._ascends(address(data), size)  # noqa: SLF001 - compiled, though private


def make_table_blocks(
    data: bytes | bytearray, entries: int, block_bytes: int, interval: int, *, is_last: bool
) -> tuple[int, list[int], memoryview, list[int], list[int]]:
    """Run `table_entries.make_table_blocks`, which has the same arguments."""
    size = len(data) - ROOM_BYTES
    capacity, most, wholes = room_for(size, entries, block_bytes, interval)
    target: Any = np.empty(capacity, np.uint8)
    ends, lasts, result = np.empty(most, np.int64), np.empty(most, np.int64), np.zeros(5, np.int64)
    status = write_table_blocks(
        read_only(np.frombuffer(data, np.uint8)), size, block_bytes, interval, is_last, target, capacity, ends, lasts,
        np.empty(wholes, np.int64), result,
    )  # fmt: skip
    return int(status), result.tolist(), memoryview(target), ends.tolist(), lasts.tolist()


@compiled
def unpack_blocks(data: Any, bounds: Any, target: Any, ends: Any, result: Any) -> int:
    """Run `table_packing.unpack_blocks` on arrays of bytes and of 64-bit integers."""
    return table_packing.unpack_blocks(
        address(data), address(bounds), len(bounds) // 2, address(target), len(target), address(ends), address(result)
    )


@compiled
def pack_blocks(
    data: Any, ends: Any, kind: int, start: int, keys: Any, lasts: Any, target: Any, table: Any, index: Any,
    sizes: Any, result: Any,
) -> None:  # fmt: skip
    """Run `table_packing.pack_blocks` on arrays of bytes and of 64-bit integers."""
    table_packing.pack_blocks(
        address(data), address(ends), len(ends), kind, start, address(keys), address(lasts), address(target),
        address(table), address(index), address(sizes), address(result),
    )  # fmt: skip


def unpack_table_blocks(data: bytes, bounds: list[int]) -> tuple[int, int, memoryview, list[int]]:
    """Return status, index of the block where it ended, content and bounds of `table_packing.unpack_blocks`.

    Args:
        data: The blocks, with a margin behind.
        bounds: The start and the end of each.
    """
    stored, ends, result = np.array(bounds, np.int64), np.empty(len(bounds), np.int64), np.zeros(2, np.int64)
    target: Any = np.empty(0, np.uint8)
    status = NO_ROOM
    while status == NO_ROOM:
        target = np.empty(int(result[0]) + ROOM_BYTES, np.uint8)
        status = unpack_blocks(read_only(np.frombuffer(data, np.uint8)), stored, target, ends, result)
    return int(status), int(result[1]), memoryview(target), ends.tolist()


def pack_table_blocks(
    made: memoryview, ends: list[int], kind: int, start: int, data: bytearray, lasts: list[int], key_bytes: int
) -> tuple[memoryview, bytes, list[int]]:
    """Return the stored blocks, the entries of the index, and their sizes, of `table_packing.pack_blocks`.

    Args:
        made: The blocks.
        ends: As there.
        kind: As there.
        start: As there.
        data: The entries, with a margin behind.
        lasts: As there.
        key_bytes: The bytes of their keys, or more.
    """
    stops = np.array(ends, np.int64)
    largest = int(np.diff(stops, prepend=0).max())
    target: Any = np.empty(ends[-1] + largest // 6 + 2 * ROOM_BYTES, np.uint8)
    index: Any = np.empty(key_bytes + 32 * len(ends) + ROOM_BYTES, np.uint8)
    sizes, result = np.empty(len(ends), np.int64), np.zeros(2, np.int64)
    pack_blocks(
        read_only(np.frombuffer(made, np.uint8)), stops, kind, start, read_only(np.frombuffer(data, np.uint8)),
        np.array(lasts, np.int64), target, np.empty(TABLE_BYTES, np.uint8), index, sizes, result,
    )  # fmt: skip
    return memoryview(target)[: int(result[0])], index[: int(result[1])].tobytes(), sizes.tolist()


DATA, PLACES, SEQUENCES, TYPES, ROW, ROWS, KEY, KEY_BYTES, RUN_NUMBERS = range(9)
"""The numbers of a run of entries: the addresses of its bytes, and of the offsets, sequence numbers and types of its
entries, the next entry, their number, and the address and the size of the key of the next entry."""
_VALUE = 1


@compiled
def merge_entries(runs: Any, last: Any, last_size: int, target: Any, places: Any, result: Any) -> None:
    """Write the newest value of each key of several runs of entries, until one of them has no more.

    Args:
        runs: The numbers of each run; the next entries are noted there.
        last: The last key of which entries were seen.
        last_size: Its size; -1: there is none.
        target: Receives the entries; there is room for all.
        places: Receives the offset of each entry, and the end of the last one.
        result: Receives the number of entries, and the address and the size of the last key that was seen; and 1 if
            two entries of a key have one sequence number.
    """
    count = to = seen_at = 0
    seen: Any = address(last)
    seen_size = last_size
    for run in range(len(runs)):
        _next_key(runs, run, 0)
    while len(runs) > 0:
        best = 0
        for run in range(1, len(runs)):
            key, key_size = bytes_at(runs[run, KEY]), runs[run, KEY_BYTES]
            order = compared(key, 0, key_size, bytes_at(runs[best, KEY]), 0, runs[best, KEY_BYTES], 0)
            newer = (
                numbers_at(runs[run, SEQUENCES])[runs[run, ROW]] - numbers_at(runs[best, SEQUENCES])[runs[best, ROW]]
            )
            if order == 0 and newer == 0:
                result[3] = 1
            if order < 0 or (order == 0 and newer > 0):
                best = run
        row, key, key_size = runs[best, ROW], bytes_at(runs[best, KEY]), runs[best, KEY_BYTES]
        if seen_size < 0 or compared(seen, 0, seen_size, key, 0, key_size, 0) != 0:
            seen, seen_size, seen_at = key, key_size, runs[best, KEY]
            if numbers_at(runs[best, TYPES])[row] == _VALUE:
                begin, end = numbers_at(runs[best, PLACES])[row], numbers_at(runs[best, PLACES])[row + 1]
                copy(address(target), to, bytes_at(runs[best, DATA] + begin), 0, end - begin)
                places[count] = to
                to += end - begin
                count += 1
        if row + 1 >= runs[best, ROWS]:
            runs[best, ROW] += 1
            break
        _next_key(runs, best, 1)
    places[count] = to
    result[0], result[1], result[2] = count, seen_at, seen_size


def _next_key(runs: Any, run: int, step: int) -> None:
    runs[run, ROW] += step
    place = runs[run, DATA] + numbers_at(runs[run, PLACES])[runs[run, ROW]]
    runs[run, KEY], runs[run, KEY_BYTES] = place + _LENGTH_BYTES, load(bytes_at(place), 0, 4)


@compiled
def differing_entries(before: Any, olds: Any, after: Any, news: Any, pairs: Any, result: Any) -> None:
    """Find the entries that two runs of entries do not share, until one of them has no more or there is no more room.

    Args:
        before: The bytes of the first run, each key once and in order.
        olds: The offset of each of its entries, and the end of the last one.
        after: The bytes of the second run.
        news: The offsets of its entries.
        pairs: Receives two indexes for each such key, of its entry in either run; -1: there it has none.
        result: The next entry of either run, which are noted there, too; receives the number of pairs.
    """
    old, new, count = result[0], result[1], 0
    first: Any = address(before)
    second: Any = address(after)
    while old + 1 < len(olds) and new + 1 < len(news) and 2 * count < len(pairs):
        at, to = olds[old] + _LENGTH_BYTES, news[new] + _LENGTH_BYTES
        size, new_size = load(first, olds[old], 4), load(second, news[new], 4)
        order = compared(first, at, size, second, to, new_size, 0)
        is_same = False
        if order == 0:
            at, to = at + size, to + size
            is_same = compared(first, at, olds[old + 1] - at, second, to, news[new + 1] - to, 0) == 0
        if not is_same:
            pairs[2 * count], pairs[2 * count + 1] = old if order <= 0 else -1, new if order >= 0 else -1
            count += 1
        old += order <= 0
        new += order >= 0
    result[0], result[1], result[2] = old, new, count
