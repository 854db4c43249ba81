"""The op list: what a recipe is compiled to, and what every executor carries out.

One list of integers, each op followed by its operands; jumps are places in the list. State of a run: a place in the old
bytes (`at`), the end of the new ones, and numbered registers, each a place in the old bytes or a counter. Places of the
old bytes are told as those of a register and a number of bytes behind: `a + x` is registers[a] + x. Ops whose number of
bytes depends on them note their end in a register `r`. An op that meets what it does not expect makes the entry odd.

    parse   go through the old value, and note where pieces end
    emit    write the new value from pieces, constants, and numbers made wider
"""

from __future__ import annotations

WORD = 32
"""Bytes that are looked at together, and that an op of one move writes at most."""

VALUE = 0
"""The register that holds where the value begins."""

# Parse.
NOTE = 0  # r: registers[r] = at
SKIP = 1  # n: n bytes
FIXED = 2  # n, i: n bytes; the first 32, under a mask of the constants' 32 bytes from i on, are the 32 behind that
MAYBE = 3  # n, m, r: a null flag, and n bytes where it is 0, the first of which has none of the bits m
TEXT = 4  # r: a string, not null
MAYBE_TEXT = 5  # r: a null flag, and a string where it is 0
BLOB = 6  # w, r: an i32 count of items of w bytes
RANGE = 7  # w, low, high: a signed integer of w bytes
DATE = 8  # i32 year, i8 month, i8 day
NUMBER = 9  # a 32-bit float that is a number
LITTLE = 10  # the same, little-endian
BIG = 11  # r: a big integer, in as few bytes as can be
LOOKED_UP = 12  # i, n: an i32 from 0 to n - 1 whose place in the table, n numbers from i on, is no -1
VARINT = 13  # b, r: Avro's number of b bits, in as few bytes as can be
VAR_TEXT = 14  # r: Avro's string
VAR_BLOB = 15  # r: Avro's bytes
MAYBE_VAR_TEXT = 54  # b, r: Avro's union of null, which is the byte b, and a string
VAR_LOOKED_UP = 16  # i, n, r: as LOOKED_UP, of Avro's number
LIKELY = 55  # n, i, target: where n bytes, 32 at most, are as of FIXED, pass them and jump; else go on
BRANCH = 17  # b, c, n, target: one byte b or c; where it is b, pass n more bytes and jump
JUMP = 18  # target
LOOP = 19  # c, target: an i32 count into registers[c]; where it is 0, jump
VAR_LOOP = 20  # c, target: the same of Avro's count, none below 0
NEXT = 21  # c, target: take 1 from registers[c]; where more is left, jump
SEEK = 22  # a, x: at = a + x
FIRST = 23  # r: no key was met so far, of which registers[r] and r + 1 are start and end
ASCEND = 24  # a, x, r: the bytes from a + x to at are greater than those of the key before
KEYS = 28  # r, c: no key was met so far of the registers[c] many of a map; registers from r on hold them (`memory`)
APART = 29  # a, x, r: the bytes from a + x to at are none of those keys, and are one from here on
AGAIN = 25  # target: of a list state's value; where more is left, pass one byte, write a comma, and jump
REST = 26  # pass all that is left
END = 27  # nothing may be left; the entry is done
VAR_RANGE = 41  # b, low, high, r: as VARINT, from low to high
VAR_UUID = 42  # Avro's string of a UUID: 36 characters, lower case
DIGITS = 43  # n, most, r: an integer of n bytes, from -most to most; n = 0: Avro's bytes, as few as can be, up to 8
SIZE = 46  # a, x: the number of bytes from a + x to at, lowest byte first, in as few bytes as can be
KEY = 47  # first of all: the entry's key is gone over, and written, before its value
KEY_END = 48  # nothing of the key may be left; the value follows
UNICODE = 49  # r: a string, not null, without half a character
UTF8 = 50  # r: an i32 count of bytes, sound UTF-8

# Emit.
COPY = 32  # a, x, b, y: what lies from a + x to b + y
PIECE = 33  # a, x, n: n bytes from a + x on, at most 32
CONSTANT = 34  # i, n: n bytes of the constants, from i on
WIDEN = 35  # a, x, m, n: up to 7 bytes m that repeat the sign of the byte at a + x, and n bytes from there, at most 32
FLOAT = 36  # a, x, s, t: the signed integer of s bytes at a + x (0: 32-bit float) as a float of t bytes
LOOK_UP = 37  # a, x, i: the i32 at a + x as the number that stands in its place of the table, from i on
VAR_LOOK_UP = 38  # a, x, i: the same of Avro's number
VAR_TIMES = 44  # a, x, f: Avro's number at a + x, multiplied by f
VAR_FLOAT = 45  # a, x, b, t: Avro's number at a + x (b = 0: a 32-bit float) as a float of t bytes, all little-endian
TO_BIG = 51  # a, x, s: the signed integer of s bytes at a + x as a big integer
TO_UTF8 = 52  # a, x, b, y: the string that lies from a + x to b + y, as an i32 count and UTF-8
FROM_UTF8 = 53  # a, x, b, y: the opposite
TEST = 39  # a, x, m, b, target: where the byte at a + x is b, under a mask m, jump
BITS = 40  # a, x, i, n: n bits of the table, from i on: each the place of one from a + x on, -1 for 0, -2 for 1

MOST_KEYS = 1 << 14
"""Of a map within a value; a larger one is odd."""
TABLE_REGISTERS = 2 + 2 * MOST_KEYS

TABLES = 63  # what follows are numbers of tables, and no ops

OPERANDS = {
    NOTE: 1, SKIP: 1, FIXED: 2, MAYBE: 3, TEXT: 1, MAYBE_TEXT: 1, BLOB: 2, RANGE: 3, DATE: 0, NUMBER: 0, LITTLE: 0,
    BIG: 1, LOOKED_UP: 2, VARINT: 2, VAR_TEXT: 1, VAR_BLOB: 1, VAR_LOOKED_UP: 3, BRANCH: 4, JUMP: 1, LOOP: 2,
    VAR_LOOP: 2, NEXT: 2, SEEK: 2, FIRST: 1, ASCEND: 3, KEYS: 2, APART: 3, AGAIN: 1, REST: 0, END: 0,
    COPY: 4, PIECE: 3, CONSTANT: 2, WIDEN: 4, FLOAT: 4, LOOK_UP: 3, VAR_LOOK_UP: 3, TEST: 5, BITS: 4,
    VAR_RANGE: 4, VAR_UUID: 0, DIGITS: 3, VAR_TIMES: 3, VAR_FLOAT: 4,
    SIZE: 2, UNICODE: 1, LIKELY: 3, UTF8: 1, MAYBE_VAR_TEXT: 2, TO_BIG: 3, TO_UTF8: 4, FROM_UTF8: 4, KEY: 0, KEY_END: 0,
}  # fmt: skip
"""By op: how many operands it has."""
