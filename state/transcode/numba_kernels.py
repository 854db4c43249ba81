"""What Python calls of machine code: runs of entries found and surveyed, blocks and whole key groups rewritten.

It is compiled once per machine and kept on disk. Both kinds of rewriting have one way in, since whatever the
interpreter is part of takes seconds to compile.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import register_jitable

from . import framed
from .even import rewrite_even
from .framed import COMPLETE
from .held import keep_freed_memory
from .interpreter import DONE, FULL, ODD, interpret
from .machine import address, compiled
from .memory import copy, key_sum, load, store
from .placed import AHEAD, CRAMPED, find_placed_run

DROP, COPY, CONVERT = range(3)
"""What happens to the entries of a state."""
ACTION, NEW_ID, CODE, CONSTANTS, MOVES, MOVES_END, FIXED, SHAPE, CHECK, CHECK_CONSTANTS, STATE_NUMBERS = range(11)
"""The numbers of a state: that, its new id, where its parts begin in tables, what ops write without a look; and where
in tables that begins which its entries are held against, -1 where nothing does."""
GROUP, FIRST, ENTRIES, KEYS_READ, KEYS_WRITTEN, TOTAL_NUMBERS = range(6)
"""What is told of a state: the key group after the last one that it was met in, where its first new entry begins, how
many there are, checksums."""
RESULT_NUMBERS = 8
NO_TABLE = 5
"""Beside the reasons of the interpreter to come back: keys that do not ascend need a larger table."""
_AT_ONCE = 1 << 16
"""So many new bytes are looked at before more are written."""
_ID_BYTES, _LENGTH_BYTES = 2, 4
_END_MARK, _LAST_FLAG, _NOT_LAST = 0xFFFF, 0x80, 0x7F

keep_freed_memory()


@register_jitable
def _rewrite_block(
    data: Any, start: int, size: int, most: int, code: Any, moves: Any, constants: Any, target: Any, room: int,
    registers: Any, prefix: int, prefix_bytes: int, result: Any,
) -> int:  # fmt: skip
    """The interpreter, after entries of one size that are rewritten at once, where `moves` tell how.

    What was written is looked at as in `survey`, some of it at a time, while it is in the processor's cache: the result
    has those four numbers behind the interpreter's. Of what is not sound, it says that no entry was seen.

    Buffers are arrays of bytes; the op list, moves, registers and result are arrays of 64-bit integers.
    """
    at, written, entries, keys, most_room = start, 0, 0, 0, _AT_ONCE
    seen, seen_keys, misplaced, last = 0, 0, -1, -1
    while True:
        left, made = room - written, 0
        free = min(left, most_room)
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
        if more > 0 and framed._survey(address(target[written:]), more, prefix, prefix_bytes, address(result)):  # noqa: SLF001 - what is compiled is marked so
            seen, seen_keys, last = seen + result[0], seen_keys + result[1], written + result[3]
            if misplaced < 0 <= result[2]:
                misplaced = written + result[2]
        written += more
        if status != FULL or (made + more == 0 and free == left):
            break
        if made + more == 0:
            most_room *= 2
    result[0], result[1], result[2], result[3] = at, written, entries, keys
    result[4], result[5], result[6], result[7] = seen, seen_keys, misplaced, last
    return status


@register_jitable
def _checked(
    data: Any, at: int, end: int, group: int, prefix_bytes: int, what: Any, shapes: Any, code: Any, constants: Any,
    table: Any, target: Any, room: int, registers: Any, result: Any,
) -> int:  # fmt: skip
    """Find the entries of a state, of which the last one is flagged, and hold them against what they must be.

    The result is where they end, where the last one begins, and how many there are.
    """
    if what[SHAPE] < 0:
        return DONE if framed._find_run(address(data), at, end, address(result)) == COMPLETE else ODD  # noqa: SLF001 - what is compiled is marked so
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
            address(target), room, address(registers), address(result),
        )  # fmt: skip
        if status != DONE and (status != FULL or result[2] == 0):
            return status
        at = result[0]
    result[0], result[1], result[2] = stop, last, entries
    return DONE


@register_jitable
def _converted(
    data: Any, at: int, stop: int, last: int, found: int, prefix: int, prefix_bytes: int, code: Any, constants: Any,
    moves: Any, fixed: int, target: Any, room: int, registers: Any, result: Any,
) -> int:  # fmt: skip
    """Rewrite the entries of a state, of which the last one is flagged; flag the last new one.

    The result is where the state ends, bytes written, entries, and the checksums of the old keys and of the new.
    """
    written, entries, keys = 0, 0, 0
    if len(moves) > 0:  # up to the flag at most, since a flagged key does not begin as it must
        rewrite_even(
            address(data), at, stop, address(moves), address(constants), address(target), room,
            prefix, prefix_bytes, address(result),
        )  # fmt: skip
        at, written, entries, keys = result[0], result[1], result[2], result[3]
    flag, left = last + _LENGTH_BYTES, found - entries
    store(address(data), flag, 1, load(address(data), flag, 1) & _NOT_LAST)
    status = _rewrite_block(
        data, at, stop, stop, code, moves, constants, target[written:], room - written - fixed,
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


@register_jitable
def _passed(
    data: Any, at: int, stop: int, is_copied: bool, target: Any, room: int, result: Any  # noqa: FBT001 - for numba
) -> int:  # fmt: skip
    """Copy the entries of a state as they are, or pass over them; the result is as above, without checksums."""
    size = stop - at if is_copied else 0
    if size > room:
        return FULL
    copy(address(target), 0, address(data), at, size)
    result[1], result[3], result[4] = size, 0, 0
    return DONE


@register_jitable
def _rewrite_key_groups(  # noqa: PLR0912 - one function, for numba
    data: Any, begins: Any, key_groups: Any, prefix_bytes: int, states: Any, shapes: Any, code: Any, constants: Any,
    moves: Any, table: Any, target: Any, room: int, registers: Any, result: Any, offsets: Any, totals: Any,
) -> int:  # fmt: skip
    """Rewrite key groups; give why it came back: `DONE`, `FULL`, or that they are not plain.

    Args:
        data: Key groups, with room behind them.
        begins: Where each begins, and where the last one ends.
        key_groups: Which they are.
        prefix_bytes: How many bytes of a key tell that.
        states: For each stored state a row of numbers: what happens to it, and where in the next four its parts begin.
        shapes: What its keys are held against (`placed`).
        code: Op lists, one behind the other.
        constants: Theirs.
        moves: As `even.moves_of` gives them.
        table: Where keys are kept if they do not ascend.
        target: Takes the new ones.
        room: Bytes that it takes.
        registers: As many as any of the op lists needs.
        result: Takes how many bytes were written; of eight numbers.
        offsets: Takes where each new key group begins; -1 of one that is empty.
        totals: For each stored state a row, of zeros; takes what is told of it.
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
            what, new, free = states[state], written + _ID_BYTES, room - written - 2 * _ID_BYTES
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
    moves: Any, table: Any, target: Any, room: int, registers: Any, result: Any, offsets: Any, totals: Any,
) -> int:  # fmt: skip
    """Rewrite key groups; or, where no state is to be told of, one block.

    A block lies from the first place to the second, and an entry that ends behind the third stops it; its key group
    stands alone, and code, constants and moves are its own.
    """
    if len(totals) > 0:
        return _rewrite_key_groups(
            data, places, key_groups, prefix_bytes, states, shapes, code, constants, moves, table, target, room,
            registers, result, offsets, totals,
        )  # fmt: skip
    return _rewrite_block(
        data, places[0], places[1], places[2], code, moves, constants, target, room, registers,
        key_groups[0], prefix_bytes, result,
    )  # fmt: skip


@compiled
def find_run(data: Any, start: int, size: int, result: Any) -> int:
    """`framed`'s function of this name, of an array of bytes; the result is one of 64-bit integers."""
    return framed._find_run(address(data), start, size, address(result))  # noqa: SLF001 - what is compiled is marked so


@compiled
def find_placed(
    data: Any, size: int, group: int, prefix_bytes: int, shape: Any, table: Any, result: Any
) -> int:  # fmt: skip
    """As `find_run`, of `placed`'s function for whole blocks; the shape and the table are arrays of 64-bit integers."""
    return find_placed_run(
        address(data), 0, size, group, prefix_bytes, address(shape), address(table), len(table), address(result)
    )


@compiled
def note_key_sums(data: Any, size: int, sums: Any) -> None:
    """Note what the key of each entry of a sound block adds to the checksum (`framed`)."""
    at = entry = 0
    while at < size:
        key_size = load(address(data), at, 4)
        sums[entry] = key_sum(address(data), at + _LENGTH_BYTES, key_size)
        value_at = at + 2 * _LENGTH_BYTES + key_size
        at = value_at + load(address(data), value_at - _LENGTH_BYTES, 4)
        entry += 1


@compiled
def survey(data: Any, size: int, prefix: int, prefix_bytes: int, result: Any) -> bool:
    """As `find_run`."""
    return framed._survey(address(data), size, prefix, prefix_bytes, address(result))  # noqa: SLF001 - as above


@compiled
def find_entries(data: Any, start: int, end: int, keys: Any, key_ends: Any, values: Any, value_ends: Any) -> bool:
    """As `find_run`; the places are arrays of 64-bit integers."""
    return framed._find_entries(address(data), start, end, keys, key_ends, values, value_ends)  # noqa: SLF001 - as above


def key_hashes(block: Any, size: int, entries: int) -> Any:
    """Give 64 bits of each key of a sound block."""
    sums = np.empty(entries, np.int64)
    note_key_sums(block, size, sums)
    return sums.view(np.uint64)


def read_only(array: Any) -> Any:
    """Return an array as numba takes bytes: those that may be written would need machine code of their own."""
    view = array.view()
    view.setflags(write=False)
    return view


def call(function: Any, data: bytes | memoryview, *numbers: int) -> tuple[int, list[int]]:
    """Call one of `framed`'s functions; give what it returns, and its result."""
    result = np.zeros(4, np.int64)
    returned = function(read_only(np.frombuffer(data, np.uint8)), *numbers, result)
    return int(returned), result.tolist()
