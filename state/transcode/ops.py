"""The ops of op lists, which byte rewrites are compiled to and executors run.

An op list is a list of integers, each op followed by its operands; jump targets are indices into the list. The state of
a run is an offset in the old bytes (`at`), the end of the new bytes, and numbered registers, each an offset in the old
bytes or a counter. Operands address old bytes by a register and a distance: `a + x` is registers[a] + x. Ops that skip
a number of bytes that depends on the data note their end in a register `r`. If an op finds unexpected bytes, the entry
is odd.

    parse   skip the old value, and note where pieces end
    emit    write the new value from pieces, constants, and widened numbers
"""

from __future__ import annotations

WORD = 32
"""The number of bytes that one op compares at once, and the most that one `PIECE` or `WIDEN` copies."""

VALUE = 0
"""The register that holds the offset of the value."""

# Parse.
NOTE = 0  # r: registers[r] = at
SKIP = 1  # n: n bytes
FIXED = 2  # n, i: n bytes; the first 32, masked by the 32 constant bytes from i on, must equal the 32 bytes after these
MAYBE = 3  # n, m, r: a null flag, and n bytes if it is 0, the first of which has none of the bits m
TEXT = 4  # r: a string, not null
MAYBE_TEXT = 5  # r: a null flag, and a string if it is 0
BLOB = 6  # w, r: an i32 count of items of w bytes
RANGE = 7  # w, low, high: a signed integer of w bytes
DATE = 8  # i32 year, i8 month, i8 day
NUMBER = 9  # a 32-bit float that is not NaN
LITTLE = 10  # the same, little-endian
BIG = 11  # r: a big integer, in as few bytes as possible
LOOKED_UP = 12  # i, n: an i32 from 0 to n - 1 whose entry in the table, n numbers from i on, is not -1
VARINT = 13  # b, r: Avro's number of b bits, in as few bytes as possible
VAR_TEXT = 14  # r: Avro's string
VAR_BLOB = 15  # r: Avro's bytes
MAYBE_VAR_TEXT = 54  # b, r: Avro's union of null, which is the byte b, and a string
VAR_LOOKED_UP = 16  # i, n, r: as LOOKED_UP, for Avro's number
LIKELY = 55  # n, i, target: if n bytes, 32 at most, match as in FIXED, skip them and jump; else go on
BRANCH = 17  # b, c, n, target: one byte b or c; if it is b, skip n more bytes and jump
JUMP = 18  # target
LOOP = 19  # c, target: an i32 count into registers[c]; if it is 0, jump
VAR_LOOP = 20  # c, target: as LOOP, for Avro's count, which is not negative
NEXT = 21  # c, target: subtract 1 from registers[c]; if it is still positive, jump
SEEK = 22  # a, x: at = a + x
FIRST = 23  # r: forget the last key, whose start and end are in registers[r] and registers[r + 1]
ASCEND = 24  # a, x, r: the bytes from a + x to at must be greater than the last key, and become the last key
KEYS = 28  # r, c: clear the hash table in the registers from r on (`memory`) for the registers[c] keys of a map
APART = 29  # a, x, r: the bytes from a + x to at must be no key of the table, and are added to it
AGAIN = 25  # target: for a list state's value; if bytes are left, skip one byte, write a comma, and jump
REST = 26  # skip all that is left
END = 27  # nothing may be left; the entry is done
VAR_RANGE = 41  # b, low, high, r: as VARINT, and from low to high
VAR_UUID = 42  # Avro's string of a UUID: 36 characters, lower case
DIGITS = 43  # n, most, r: an integer of n bytes, from -most to most; n = 0: Avro's bytes, as few as possible, up to 8
SIZE = 46  # a, x: the number of bytes from a + x to at, lowest byte first, in as few bytes as possible
KEY = 47  # only at the start: the entry's key is parsed and written before its value
KEY_END = 48  # nothing of the key may be left; the value follows
UNICODE = 49  # r: a string, not null, without unpaired surrogates
UTF8 = 50  # r: an i32 count of bytes, valid UTF-8
ROW = 56  # t, f, r: a binary row of the slots in table t; registers from f on are used for rows within

# Emit.
COPY = 32  # a, x, b, y: the bytes from a + x to b + y
PIECE = 33  # a, x, n: n bytes from a + x on, at most 32
CONSTANT = 34  # i, n: n bytes of the constants, from i on
WIDEN = 35  # a, x, m, n: up to 7 bytes m that repeat the sign of the byte at a + x, and n bytes from there, at most 32
FLOAT = 36  # a, x, s, t: the signed integer of s bytes at a + x (0: 32-bit float) as a float of t bytes
LOOK_UP = 37  # a, x, i: the number that the table, from i on, has for the i32 at a + x
VAR_LOOK_UP = 38  # a, x, i: as LOOK_UP, for Avro's number
VAR_TIMES = 44  # a, x, f: Avro's number at a + x, multiplied by f
VAR_FLOAT = 45  # a, x, b, t: Avro's number at a + x (b = 0: a 32-bit float) as a float of t bytes, all little-endian
TO_BIG = 51  # a, x, s: the signed integer of s bytes at a + x as a big integer
TO_UTF8 = 52  # a, x, b, y: the string from a + x to b + y, as an i32 count and UTF-8
FROM_UTF8 = 53  # a, x, b, y: the i32 count and UTF-8 from a + x to b + y, as a string
TO_ROW = 57  # a, x, t, n: the binary row at a + x, as one of the slots in table t, which is up to n bytes longer
TEST = 39  # a, x, m, b, target: if the byte at a + x, masked by m, is b, jump
BITS = 40  # a, x, i, n: n bits; for each the table, from i on, has a bit index from a + x on, or -1 for 0, -2 for 1

MOST_KEYS = 1 << 14
"""The most keys of a map within a value; an entry with a larger map is odd."""
TABLE_REGISTERS = 2 + 2 * MOST_KEYS

TABLES = 63  # the end of the ops; the numbers of tables follow

OPERANDS = {
    NOTE: 1, SKIP: 1, FIXED: 2, MAYBE: 3, TEXT: 1, MAYBE_TEXT: 1, BLOB: 2, RANGE: 3, DATE: 0, NUMBER: 0, LITTLE: 0,
    BIG: 1, LOOKED_UP: 2, VARINT: 2, VAR_TEXT: 1, VAR_BLOB: 1, VAR_LOOKED_UP: 3, BRANCH: 4, JUMP: 1, LOOP: 2,
    VAR_LOOP: 2, NEXT: 2, SEEK: 2, FIRST: 1, ASCEND: 3, KEYS: 2, APART: 3, AGAIN: 1, REST: 0, END: 0,
    COPY: 4, PIECE: 3, CONSTANT: 2, WIDEN: 4, FLOAT: 4, LOOK_UP: 3, VAR_LOOK_UP: 3, TEST: 5, BITS: 4,
    VAR_RANGE: 4, VAR_UUID: 0, DIGITS: 3, VAR_TIMES: 3, VAR_FLOAT: 4,
    SIZE: 2, UNICODE: 1, LIKELY: 3, UTF8: 1, MAYBE_VAR_TEXT: 2, TO_BIG: 3, TO_UTF8: 4, FROM_UTF8: 4, KEY: 0, KEY_END: 0,
    ROW: 3, TO_ROW: 4,
}  # fmt: skip
"""Op -> number of operands."""
