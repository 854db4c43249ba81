"""The op list: what a recipe is compiled to, and what every executor carries out.

One list of integers, each op followed by its operands; jumps are places in the list. State of a run: a place in the old
bytes (`at`), the end of the new ones, and numbered registers, each a place in the old bytes or a counter. An op that
meets what it does not expect makes the entry odd.

    parse   go through the old value, and note where pieces start
    emit    write the new value from pieces, constants, and numbers made wider
"""

from __future__ import annotations

# Parse.
NOTE = 0  # r: registers[r] = at
SKIP = 1  # n: n bytes
EXPECT = 2  # b: one byte, which is b
BOOLEAN = 3  # one byte, 0 or 1
PRESENT = 4  # n: one byte 0, and n bytes
MAYBE = 5  # n: a null flag, and n bytes where it is 0
TEXT = 6  # a string, not null
MAYBE_TEXT = 7  # a null flag, and a string where it is 0
BLOB = 8  # w: an i32 count of items of w bytes
RANGE = 9  # w, low, high: a signed integer of w bytes
DATE = 10  # i32 year, i8 month, i8 day
NUMBER = 11  # a 32-bit float that is a number
BIG = 12  # a big integer, in as few bytes as can be
BRANCH = 13  # b, c, n, target: one byte b or c; where it is b, pass n more bytes and jump
JUMP = 14  # target
LOOP = 15  # r, target: an i32 count into registers[r]; where it is 0, jump
NEXT = 16  # r, target: take 1 from registers[r]; where more is left, jump
SEEK = 17  # r: at = registers[r]
FIRST = 18  # r: no key was met so far, of which registers[r] and r + 1 are start and end
ASCEND = 19  # a, r: the bytes from registers[a] to at are greater than those of the key before
AGAIN = 22  # target: of a list state's value; where more is left, pass one byte, write a comma, and jump
REST = 23  # pass all that is left
END = 24  # nothing may be left; the entry is done
LOOKED_UP = 25  # i, n: an i32 from 0 to n - 1 whose place in the table, n numbers from i on, is no -1
VARINT = 26  # b: Avro's number of b bits, in as few bytes as can be
VAR_TEXT = 27  # Avro's string
VAR_BLOB = 28  # Avro's bytes
VAR_LOOP = 29  # r, target: Avro's count, none below 0, into registers[r]; where it is 0, jump
VAR_LOOKED_UP = 30  # i, n: as LOOKED_UP, of Avro's number
LITTLE = 31  # a 32-bit float that is a number, little-endian
MASK = 43  # i, n: n bytes, with none of the bits set that are set in n numbers of the table, from i on
MASKED = 44  # a, i, b, target: where bit b is set in the byte i behind registers[a], jump
KEYS = 46  # r, a: no key was met so far of the registers[a] many of a map; registers from r on hold them (`memory`)
APART = 47  # a, r: the bytes from registers[a] to at are none of those keys, and are one from here on

# Emit.
COPY = 32  # a, b: from registers[a] to registers[b]
CONSTANT = 33  # i, n: n bytes of the constants, from i on
WIDEN = 34  # a, s, t: the signed integer of s bytes at registers[a], as one of t bytes
FLOAT = 35  # a, s, t: the signed integer of s bytes at registers[a] (0: 32-bit float) as a float of t bytes
LOOK_UP = 36  # a, i: the i32 at registers[a] as the number that stands in its place of the table, from i on
TEST = 37  # a, b, target: where the byte at registers[a] is b, jump
VAR_LOOK_UP = 41  # a, i: as LOOK_UP, of Avro's number
BITS = 45  # a, i, n: n bits of the table, from i on: each the place of one behind registers[a], -1 for 0, -2 for 1

MOST_KEYS = 1 << 14
"""Of a map within a value; a larger one is odd."""
TABLE_REGISTERS = 2 + 2 * MOST_KEYS

TABLES = 63  # what follows are numbers of tables, and no ops

OPERANDS = {
    NOTE: 1, SKIP: 1, EXPECT: 1, BOOLEAN: 0, PRESENT: 1, MAYBE: 1, TEXT: 0, MAYBE_TEXT: 0, BLOB: 1, RANGE: 3, DATE: 0,
    NUMBER: 0, BIG: 0, BRANCH: 4, JUMP: 1, LOOP: 2, NEXT: 2, SEEK: 1, FIRST: 1, ASCEND: 2, AGAIN: 1,
    REST: 0, END: 0, LOOKED_UP: 2, COPY: 2, CONSTANT: 2, WIDEN: 3, FLOAT: 3, LOOK_UP: 2, TEST: 3,
    KEYS: 2, APART: 2, MASK: 2, MASKED: 4, BITS: 3,
    VARINT: 1, VAR_TEXT: 0, VAR_BLOB: 0, VAR_LOOP: 2, VAR_LOOKED_UP: 2, LITTLE: 0, VAR_LOOK_UP: 2,
}  # fmt: skip
"""By op: how many operands it has."""
