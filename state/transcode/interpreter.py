"""The interpreter of op lists for a run of entries, which numba compiles (tests also run it as it is).

It is one function, so that an op has one definition. It uses only what numba compiles to integer code: no classes, no
exceptions, no slices. Every length is checked against the end of the entry: bytes may be damaged in any way, and
compiled code checks nothing by itself. Writes whose size depends on the data are checked against the space left. Ops
that write a fixed number of bytes are not checked: each runs at most once between checkpoints (the start of the value,
and each jump back), and at a checkpoint there must be space for all of them.
"""

from __future__ import annotations

from typing import Any

from . import ops
from .binary_rows import put_row, row_end
from .memory import (
    MOST_OFFSET,
    add_key,
    big_integer_end,
    clear_keys,
    copy,
    copy_few,
    is_date,
    is_less,
    is_number,
    is_utf8,
    key_sum,
    load,
    load_single,
    matches,
    maybe_text_end,
    put_bits,
    put_sign,
    reverse,
    size_end,
    store,
    store_float,
    text_end,
)
from .numba_encodings import (
    LEAST_TEXT_CAPACITY,
    UUID_BYTES,
    digits_end,
    has_whole_characters,
    is_little_number,
    is_uuid,
    maybe_var_text_end,
    put_big_integer,
    put_text,
    put_utf8,
    put_varint,
    var_blob_end,
    var_size,
    var_text_end,
    varint,
    varint_end,
)

DONE, ODD, FULL, DAMAGED, NEAR_END = 0, 1, 2, 3, 4
"""Why the interpreter stopped: all entries are rewritten, or the next entry is odd, does not fit into the target, is
damaged, or ends beyond the readable bytes."""
_SEPARATOR = 0x2C


def interpret(  # noqa: C901, PLR0912, PLR0915 - one function, for numba; a case for each op
    data: Any,
    start: int,
    size: int,
    most: int,
    code: Any,
    constants: Any,
    target: Any,
    capacity: int,
    registers: Any,
    result: Any,
) -> int:
    """Rewrite entries one after the other, until one cannot be rewritten.

    Args:
        data: Entries: i32 n, n key bytes, i32 m, m value bytes.
        start: The offset of the first entry.
        size: The end of the last entry.
        most: Rewriting stops at an entry that ends beyond this offset.
        code: The op list, for a value, or for a key and a value.
        constants: The constants of the op list.
        target: The buffer for the new entries.
        capacity: The size of the target, less the bytes that ops write without a check (`Program.fixed`).
        registers: As many registers as the op list needs.
        result: Receives the offset in `data` where it stopped, the bytes written, the entries rewritten, and the
            checksum of their keys (`frames`) as a signed number.

    Returns:
        The status, one of the constants above.
    """
    entry, written, entries, keys = start, 0, 0, 0
    status = DONE
    while entry < size:
        if size - entry < 8:
            status = DAMAGED
            break
        key_size = load(data, entry, 4)
        if key_size < 0 or key_size > size - entry - 8:
            status = DAMAGED
            break
        head = 4 + key_size
        value_size = load(data, entry + head, 4)
        at = entry + head + 4
        if value_size < 0 or value_size > size - at:
            status = DAMAGED
            break
        if capacity - written < head + 4:
            status = FULL
            break
        stop = at + value_size
        if stop > most:
            status = NEAR_END
            break
        copy(target, written, data, entry, head)
        begin = written + head + 4
        end = begin
        registers[ops.VALUE] = at
        pc, state = 0, ODD
        while at >= 0:  # below 0: what an op looks for does not end
            op = code[pc]
            if op == ops.FIXED:
                if code[pc + 1] > stop - at or not matches(data, at, constants, code[pc + 2]):
                    break
                at += code[pc + 1]
                pc += 3
            elif op == ops.LIKELY:
                if code[pc + 1] <= stop - at and matches(data, at, constants, code[pc + 2]):
                    at += code[pc + 1]
                    pc = code[pc + 3]
                else:
                    pc += 4
            elif op == ops.PIECE:
                copy_few(target, end, data, registers[code[pc + 1]] + code[pc + 2], code[pc + 3])
                end += code[pc + 3]
                pc += 4
            elif op == ops.COPY:
                first = registers[code[pc + 1]] + code[pc + 2]
                count = registers[code[pc + 3]] + code[pc + 4] - first
                if count > capacity - end:
                    state = FULL
                    break
                copy(target, end, data, first, count)
                end += count
                pc += 5
            elif op == ops.CONSTANT:
                copy(target, end, constants, code[pc + 1], code[pc + 2])
                end += code[pc + 2]
                pc += 3
            elif op == ops.WIDEN:
                first = registers[code[pc + 1]] + code[pc + 2]
                put_sign(target, end, code[pc + 3], data[first])
                end += code[pc + 3]
                copy_few(target, end, data, first, code[pc + 4])
                end += code[pc + 4]
                pc += 5
            elif op == ops.TEXT:
                at = text_end(data, at, stop)
                registers[code[pc + 1]] = at
                pc += 2
            elif op == ops.MAYBE_TEXT:
                at = maybe_text_end(data, at, stop)
                registers[code[pc + 1]] = at
                pc += 2
            elif op == ops.ROW:
                at = row_end(data, at, stop, code, code[pc + 1], registers, code[pc + 2])
                registers[code[pc + 3]] = at
                pc += 4
            elif op == ops.TO_ROW:
                first = registers[code[pc + 1]] + code[pc + 2]
                if 4 + load(data, first, 4) + code[pc + 4] > capacity - end:
                    state = FULL
                    break
                end = put_row(target, end, data, first + 4, code, code[pc + 3])
                pc += 5
            elif op == ops.MAYBE:
                if at >= stop or data[at] > 1:
                    break
                count = code[pc + 1] if data[at] == 0 else 0
                if count >= stop - at or (count and data[at + 1] & code[pc + 2]):
                    break
                at += 1 + count
                registers[code[pc + 3]] = at
                pc += 4
            elif op == ops.SKIP:
                if code[pc + 1] > stop - at:
                    break
                at += code[pc + 1]
                pc += 2
            elif op == ops.NOTE:
                registers[code[pc + 1]] = at
                pc += 2
            elif op == ops.BLOB:
                count = load(data, at, 4) if stop - at >= 4 else -1
                if count < 0 or count > (stop - at - 4) // code[pc + 1]:
                    break
                at += 4 + count * code[pc + 1]
                registers[code[pc + 2]] = at
                pc += 3
            elif op == ops.BRANCH:
                if at >= stop or (data[at] != code[pc + 1] and data[at] != code[pc + 2]):
                    break
                if data[at] != code[pc + 1]:
                    at += 1
                    pc += 5
                elif code[pc + 3] >= stop - at:
                    break
                else:
                    at += 1 + code[pc + 3]
                    pc = code[pc + 4]
            elif op == ops.TEST:
                if data[registers[code[pc + 1]] + code[pc + 2]] & code[pc + 3] == code[pc + 4]:
                    pc = code[pc + 5]
                else:
                    pc += 6
            elif op == ops.JUMP:
                pc = code[pc + 1]
            elif op == ops.LOOP:
                count = load(data, at, 4) if stop - at >= 4 else -1
                if count < 0 or count > stop - at - 4:
                    break
                registers[code[pc + 1]] = count
                at += 4
                pc = pc + 3 if count else code[pc + 2]
            elif op == ops.NEXT:
                registers[code[pc + 1]] -= 1
                if registers[code[pc + 1]] <= 0:
                    pc += 3
                elif end > capacity:
                    state = FULL
                    break
                else:
                    pc = code[pc + 2]
            elif op == ops.END:
                if at == stop:
                    state = DONE
                break
            elif op == ops.AGAIN:
                if at == stop:
                    pc += 2
                elif end > capacity:
                    state = FULL
                    break
                else:
                    target[end] = _SEPARATOR
                    end += 1
                    at += 1
                    pc = code[pc + 1]
            elif op == ops.SEEK:
                at = registers[code[pc + 1]] + code[pc + 2]
                pc += 3
            elif op == ops.RANGE:
                if code[pc + 1] > stop - at:
                    break
                number = load(data, at, code[pc + 1])
                if number < code[pc + 2] or number > code[pc + 3]:
                    break
                at += code[pc + 1]
                pc += 4
            elif op == ops.FLOAT:
                place = registers[code[pc + 1]] + code[pc + 2]
                if code[pc + 3] == 0:
                    store_float(target, end, code[pc + 4], load_single(data, place))
                else:
                    store_float(target, end, code[pc + 4], float(load(data, place, code[pc + 3])))
                end += code[pc + 4]
                pc += 5
            elif op == ops.LOOKED_UP:
                number = load(data, at, 4) if stop - at >= 4 else -1
                if number < 0 or number >= code[pc + 2] or code[code[pc + 1] + number] < 0:
                    break
                at += 4
                pc += 3
            elif op == ops.LOOK_UP:
                place = registers[code[pc + 1]] + code[pc + 2]
                store(target, end, 4, code[code[pc + 3] + load(data, place, 4)])
                end += 4
                pc += 4
            elif op == ops.NUMBER:
                if stop - at < 4 or not is_number(data, at):
                    break
                at += 4
                pc += 1
            elif op == ops.DATE:
                if stop - at < 6 or not is_date(load(data, at, 4), load(data, at + 4, 1), load(data, at + 5, 1)):
                    break
                at += 6
                pc += 1
            elif op == ops.BIG:
                at = big_integer_end(data, at, stop)
                registers[code[pc + 1]] = at
                pc += 2
            elif op == ops.VARINT:
                at = varint_end(data, at, stop, code[pc + 1])
                registers[code[pc + 2]] = at
                pc += 3
            elif op == ops.VAR_TEXT:
                at = var_text_end(data, at, stop)
                registers[code[pc + 1]] = at
                pc += 2
            elif op == ops.MAYBE_VAR_TEXT:
                at = maybe_var_text_end(data, at, stop, code[pc + 1])
                registers[code[pc + 2]] = at
                pc += 3
            elif op == ops.VAR_BLOB:
                at = var_blob_end(data, at, stop)
                registers[code[pc + 1]] = at
                pc += 2
            elif op == ops.VAR_LOOP:
                place = varint_end(data, at, stop, 64)
                count = var_size(data, at, place) if place >= 0 else -1
                if count < 0 or count > stop - place:
                    break
                registers[code[pc + 1]] = count
                at = place
                pc = pc + 3 if count else code[pc + 2]
            elif op == ops.VAR_LOOKED_UP:
                place = varint_end(data, at, stop, 32)
                number = varint(data, at, place) if place >= 0 else -1
                if number < 0 or number >= code[pc + 2] or code[code[pc + 1] + number] < 0:
                    break
                at = place
                registers[code[pc + 3]] = at
                pc += 4
            elif op == ops.VAR_LOOK_UP:
                place = registers[code[pc + 1]] + code[pc + 2]
                number = varint(data, place, varint_end(data, place, stop, 32))
                end = put_varint(target, end, code[code[pc + 3] + number])
                pc += 4
            elif op == ops.LITTLE:
                if stop - at < 4 or not is_little_number(data, at):
                    break
                at += 4
                pc += 1
            elif op == ops.VAR_RANGE:
                place = varint_end(data, at, stop, code[pc + 1])
                number = varint(data, at, place) if place >= 0 else code[pc + 2] - 1
                if number < code[pc + 2] or number > code[pc + 3]:
                    break
                at = place
                registers[code[pc + 4]] = at
                pc += 5
            elif op == ops.VAR_TIMES:
                place = registers[code[pc + 1]] + code[pc + 2]
                number = varint(data, place, varint_end(data, place, stop, 64))
                end = put_varint(target, end, number * code[pc + 3])
                pc += 4
            elif op == ops.VAR_FLOAT:
                place, count = registers[code[pc + 1]] + code[pc + 2], code[pc + 4]
                if code[pc + 3] == 0:
                    copy(target, end, data, place, 4)
                    reverse(target, end, 4)
                    store_float(target, end, count, load_single(target, end))
                else:
                    number = varint(data, place, varint_end(data, place, stop, 64))
                    store_float(target, end, count, float(number))
                reverse(target, end, count)
                end += count
                pc += 5
            elif op == ops.VAR_UUID:
                if stop - at <= UUID_BYTES or not is_uuid(data, at):
                    break
                at += 1 + UUID_BYTES
                pc += 1
            elif op == ops.DIGITS:
                at = digits_end(data, at, stop, code[pc + 1], code[pc + 2])
                registers[code[pc + 3]] = at
                pc += 4
            elif op == ops.SIZE:
                at = size_end(data, at, stop, at - registers[code[pc + 1]] - code[pc + 2])
                pc += 3
            elif op == ops.KEY:
                at, end = entry + 4, written + 4
                stop = at + key_size
                pc += 1
            elif op == ops.KEY_END:
                if at != stop:
                    break
                store(target, written, 4, end - written - 4)
                end += 4
                begin = end
                at = entry + head + 4
                stop = at + value_size
                pc += 1
            elif op == ops.TO_BIG:
                place = registers[code[pc + 1]] + code[pc + 2]
                end = put_big_integer(target, end, load(data, place, code[pc + 3]))
                pc += 4
            elif op == ops.UNICODE:
                place = text_end(data, at, stop)
                if place < 0 or not has_whole_characters(data, at, place):
                    break
                at = place
                registers[code[pc + 1]] = at
                pc += 2
            elif op == ops.UTF8:
                count = load(data, at, 4) if stop - at >= 4 else -1
                if count < 0 or count > stop - at - 4 or not is_utf8(data, at + 4, count):
                    break
                at += 4 + count
                registers[code[pc + 1]] = at
                pc += 2
            elif op in (ops.TO_UTF8, ops.FROM_UTF8):
                first = registers[code[pc + 1]] + code[pc + 2]
                last = registers[code[pc + 3]] + code[pc + 4]
                if 2 * (last - first) + LEAST_TEXT_CAPACITY > capacity - end:
                    state = FULL
                    break
                if op == ops.TO_UTF8:
                    end = put_utf8(target, end, data, first, last)
                else:
                    end = put_text(target, end, data, first + 4, last)
                pc += 5
            elif op == ops.KEYS:
                count = registers[code[pc + 2]]
                if count > ops.MOST_KEYS or stop - entry > MOST_OFFSET:
                    break
                clear_keys(registers, code[pc + 1], count)
                pc += 3
            elif op == ops.APART:
                place = registers[code[pc + 1]] + code[pc + 2]
                if not add_key(registers, code[pc + 3], data, entry, place - entry, at - place):
                    break
                pc += 4
            elif op == ops.BITS:
                place = registers[code[pc + 1]] + code[pc + 2]
                end = put_bits(target, end, data, place, code, code[pc + 3], code[pc + 4])
                pc += 5
            elif op == ops.FIRST:
                registers[code[pc + 1]] = -1
                pc += 2
            elif op == ops.ASCEND:
                place, before = registers[code[pc + 1]] + code[pc + 2], code[pc + 3]
                first = registers[before]
                if first >= 0 and not is_less(data, first, registers[before + 1], place, at):
                    break
                registers[before] = place
                registers[before + 1] = at
                pc += 4
            else:  # REST
                at = stop
                pc += 1
        if state != DONE:
            status = state
            break
        store(target, begin - 4, 4, end - begin)
        written = end
        keys += key_sum(data, entry + 4, key_size)
        entry = stop
        entries += 1
    result[0], result[1], result[2], result[3] = entry, written, entries, keys
    return status
