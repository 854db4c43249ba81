"""The compiler of byte rewrites to parse ops, which skip an old value and note its pieces, and to pieces to write."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import attrs

from ...serializers.rewrite import (
    BigInteger,
    BinaryRow,
    Blob,
    Boolean,
    ByteRewrite,
    Constant,
    Counted,
    Date,
    Either,
    Fixed,
    Float,
    FromUtf8,
    Literal,
    LittleFloat,
    Masked,
    Nullable,
    Ordinal,
    Ranged,
    Rest,
    Sequence,
    Sized,
    Sorted,
    Text,
    ToBigInteger,
    ToFloat,
    ToUtf8,
    Unscaled,
    Utf8,
    VarBlob,
    VarChoice,
    VarCounted,
    Varint,
    VarOrdinal,
    VarText,
    VarToFloat,
    VarUuid,
    Widened,
)
from . import binary_rows, ops
from .pieces import NOT_BOOLEAN, Again, Choice, Copied, Listing, Made, Place, Wider
from .program import Label

if TYPE_CHECKING:
    from collections.abc import Callable

    from .pieces import Item
    from .program import Op


@attrs.frozen
class Column(ByteRewrite):
    """A column after a mask: it is present if a bit of the byte at a place is not set."""

    value: ByteRewrite
    place: Place
    bit: int

    @property
    def is_null(self) -> Op:
        """The test op that jumps if the column is null, without its target."""
        return (ops.TEST, self.place.register, self.place.behind, self.bit, self.bit)


def stays(rewrite: ByteRewrite) -> bool:
    """Whether the new bytes equal the old ones for every value that is not odd."""
    match rewrite:
        case BinaryRow(emitted=emitted):
            return emitted is None
        case Widened() | ToFloat() | ToBigInteger() | ToUtf8() | FromUtf8() | VarToFloat() | Constant():
            return False
        case Varint(factor=factor):
            return factor == 1
        case Ordinal(table) | VarOrdinal(table):
            return table == tuple(range(len(table)))
        case Sequence(parts, emitted):
            return emitted is None and all(map(stays, parts))
        case Nullable(value, padding, null_flag, present, null, value_flag):
            same = present == bytes([value_flag]) and null in {None, bytes([null_flag])}
            return same and not padding and stays(value)
        case Masked(parts, emitted=emitted):
            return rewrite.keeps_mask and emitted == tuple(range(len(parts))) and all(map(stays, parts))
        case Column(value) | Sorted(value):
            return stays(value)
        case Either(left, right):
            return stays(left) and stays(right)
        case VarChoice(branches):
            return all(head == bytes([2 * place]) and stays(value) for place, (value, head) in enumerate(branches))
        case Counted(item, key) | VarCounted(item, key):
            return stays(item) and (key is None or stays(key))
    return True


def repeats(rewrite: ByteRewrite) -> bool:
    """Whether the byte rewrite contains repeated items whose bytes change."""
    match rewrite:
        case Counted() | VarCounted() | Sorted():
            return not stays(rewrite)
        case Sequence(parts) | Masked(parts):
            return any(map(repeats, parts))
        case Nullable(value) | Column(value):
            return repeats(value)
        case Either(left, right):
            return repeats(left) or repeats(right)
        case VarChoice(branches):
            return any(repeats(value) for value, _ in branches)
    return False


def plain_size(rewrite: ByteRewrite) -> int:
    """Return the size of an old value if it is fixed and any bytes are valid; else 0."""
    match rewrite:
        case Fixed(size):
            return size
        case Float(8):
            return 8
        case Widened(old) | ToFloat(old) | ToBigInteger(old):
            return old
        case Sequence(parts):
            sizes = [plain_size(part) for part in parts]
            return sum(sizes) if all(sizes) else 0
    return 0


_OP_OF = {Text: ops.TEXT, BigInteger: ops.BIG, Utf8: ops.UTF8, VarBlob: ops.VAR_BLOB, VarText: ops.VAR_TEXT}
"""ByteRewrite of a value whose bytes determine its size -> the op that skips it."""
_OP_AND_SIZE_OF: dict[type[ByteRewrite], tuple[int, int]] = {
    Float: (ops.NUMBER, 4),
    LittleFloat: (ops.LITTLE, 4),
    Date: (ops.DATE, 6),
    VarUuid: (ops.VAR_UUID, 37),
}
"""ByteRewrite of a value of fixed size -> the op that skips it, and the size."""


class Parsing(Listing):
    """Walks a byte rewrite, appends the ops that parse a value, and returns the pieces to write for it.

    `is_again` is set while items are parsed a second time, to write them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_again = False

    def parse(self, rewrite: ByteRewrite) -> list[Item]:
        """Append the ops that parse an old value; return the pieces to write for it."""
        match rewrite:
            case Sequence(parts, emitted):
                pieces = [self.parse(part) for part in parts]
                order = range(len(parts)) if emitted is None else emitted
                return list(chain.from_iterable(self._piece(pieces, one) for one in order))
            case Nullable():
                return self._parse_nullable(rewrite)
            case Masked():
                mask, columns = self.parse_mask(rewrite)
                return [mask, *self.parse(columns)]
            case Column():
                return self._parse_column(rewrite)
            case Either(left, right):
                return self._parse_either(left, right)
            case VarChoice():
                return self._parse_choice(rewrite)
            case Counted() | VarCounted() | Sorted():
                return self._parse_items(rewrite)
            case Constant():
                return [rewrite]
            case Sized(value):
                start = self.here()
                self.parse(value)
                self.op(ops.SIZE, start.register, start.behind)
                self._place = None
                return [Copied(start, self.here())]
            case Literal(byte):
                return [self.expect(byte)]
        start = self.here()
        made = self._parse_plain(rewrite, start)
        return [made or Copied(start, self.here())]

    @staticmethod
    def _piece(pieces: list[list[Item]], one: int | bytes) -> list[Item]:
        return [Constant(one)] if isinstance(one, bytes) else pieces[one]

    def _parse_plain(self, rewrite: ByteRewrite, start: Place) -> Item | None:
        """Append the ops that parse a value without parts; return what is written for it, None if it is copied."""
        where = start.register, start.behind
        match rewrite:
            case Widened(old, new):
                self.skip(old)
                return Wider(new - old, Copied(start, self.here()))
            case ToFloat(0, new):
                self.op_of_size(4, ops.NUMBER)
                return Made((ops.FLOAT, *where, 0, new))
            case ToFloat(old, new):
                self.skip(old)
                return Made((ops.FLOAT, *where, old, new))
            case ToBigInteger(old):
                self.skip(old)
                return Made((ops.TO_BIG, *where, old))
            case ToUtf8() | FromUtf8():
                parse, emit = (ops.UNICODE, ops.TO_UTF8) if isinstance(rewrite, ToUtf8) else (ops.UTF8, ops.FROM_UTF8)
                self.op_to_end(parse)
                end = self.here()
                return Made((emit, *where, end.register, end.behind))
            case BinaryRow(emitted=emitted):
                self._pass_row(rewrite)
                if emitted is None:
                    return None
                table, growth = binary_rows.new_slot_numbers(rewrite, emitted), binary_rows.growth(rewrite, emitted)
                return Made((ops.TO_ROW, *where, table, growth))
            case Varint(factor=factor) if factor != 1:
                self._pass(rewrite)
                return Made((ops.VAR_TIMES, *where, factor))
            case VarToFloat(0, new):
                self.op_of_size(4, ops.LITTLE)
                return Made((ops.VAR_FLOAT, *where, 0, new))
            case VarToFloat(bits, new):
                self.op_to_end(ops.VARINT, bits)
                return Made((ops.VAR_FLOAT, *where, bits, new))
            case Ordinal(table) if not stays(rewrite):
                self.op_of_size(4, ops.LOOKED_UP, table, len(table))
                return Made((ops.LOOK_UP, *where, table))
            case VarOrdinal(table):
                self.op_to_end(ops.VAR_LOOKED_UP, table, len(table))
                return None if stays(rewrite) else Made((ops.VAR_LOOK_UP, *where, table))
        self._pass(rewrite)
        return None

    def _pass(self, rewrite: ByteRewrite) -> None:
        """Append the op that skips a valid value."""
        match rewrite:
            case Fixed(size) | Float(8 as size):
                self.skip(size)
            case Boolean():
                self.boolean()
            case Float() | LittleFloat() | Date() | VarUuid():
                op, size = _OP_AND_SIZE_OF[type(rewrite)]
                self.op_of_size(size, op)
            case Ranged(size, low, high):
                self.op_of_size(size, ops.RANGE, size, low, high)
            case Ordinal(table):
                self.op_of_size(4, ops.RANGE, 4, 0, len(table) - 1)
            case Blob(size):
                self.op_to_end(ops.BLOB, size)
            case Varint(bits, low, high) if low <= -(1 << bits - 1) and high >= (1 << bits - 1) - 1:
                self.op_to_end(ops.VARINT, bits)
            case Varint(bits, low, high):
                self.op_to_end(ops.VAR_RANGE, bits, low, high)
            case Rest():
                self.op(ops.REST)
                self._place = None
            case Unscaled(digits, size):
                self.op_to_end(ops.DIGITS, size, min(10**digits, 1 << 63) - 1)
            case _:
                self.op_to_end(_OP_OF[type(rewrite)])

    def _pass_row(self, row: BinaryRow) -> None:
        size = binary_rows.fixed_size(row)
        if size and row.emitted is None:
            head, mask = size.to_bytes(4, "big"), b"\xff" * 4 + bytes([binary_rows.NO_KIND])
            self.go_over(mask + bytes(size - 1), head + bytes(size))
            return
        frames = self._registers
        self._registers += binary_rows.frame_registers(row.slots)
        self.op_to_end(ops.ROW, binary_rows.slot_numbers(row), frames)

    def _parse_nullable(self, rewrite: Nullable) -> list[Item]:
        if rewrite.null is None:
            flag = self.expect(rewrite.value_flag)
            head = flag if rewrite.present == flag.known else Constant(rewrite.present)
            return [head, *self.parse(rewrite.value)]
        start = self.here()
        if stays(rewrite):
            self._pass_nullable(rewrite)
            return [Copied(start, self.here())]
        null = Label()
        self.branch(rewrite.null_flag, rewrite.value_flag, rewrite.padding, null)
        value = self.parse(rewrite.value)
        self.add(null)
        otherwise = (Constant(rewrite.present), *value)
        return [Choice(_is_byte(start, rewrite.null_flag), (Constant(rewrite.null),), otherwise)]

    def _pass_nullable(self, rewrite: Nullable) -> None:
        match rewrite:
            case Nullable(Fixed(size) | Float(8 as size), null_flag=1, value_flag=0) if size:
                self.op_to_end(ops.MAYBE, size, 0)
            case Nullable(Boolean(), null_flag=1, value_flag=0):
                self.op_to_end(ops.MAYBE, 1, NOT_BOOLEAN)
            case Nullable(Text(), null_flag=1, value_flag=0):
                self.op_to_end(ops.MAYBE_TEXT)
            case Nullable(VarText(), null_flag=null_flag, value_flag=value_flag) if {null_flag, value_flag} == {0, 2}:
                self.op_to_end(ops.MAYBE_VAR_TEXT, null_flag)
            case _:
                null = Label()
                self.branch(rewrite.null_flag, rewrite.value_flag, 0, null)
                self.parse(rewrite.value)
                self.add(null)

    def parse_mask(self, rewrite: Masked) -> tuple[Item, Sequence]:
        """Append the ops that parse a mask; return what is written for it, and the columns after it."""
        start, bits = self.here(), rewrite.leading + len(rewrite.parts)
        clear = bytearray(-(-bits // 8))
        for place in (*rewrite.clear, *range(bits, 8 * len(clear))):
            clear[place // 8] |= _bit(place)
        self.go_over(bytes(clear), bytes(len(clear)))
        mask: Item = Copied(start, self.here())
        if not rewrite.keeps_mask:
            mask = Made((ops.BITS, start.register, start.behind, rewrite.mask, len(rewrite.mask)))
        columns = (
            Column(part, start.later(place // 8), _bit(place))
            for place, part in enumerate(rewrite.parts, rewrite.leading)
        )
        return mask, Sequence(tuple(columns), rewrite.emitted)

    def _parse_column(self, rewrite: Column) -> list[Item]:
        start, null = self.here(), Label()
        self.op(*rewrite.is_null, null)
        value = self.parse(rewrite.value)
        self.add(null)
        return [Copied(start, self.here()) if stays(rewrite) else Choice(rewrite.is_null, (), tuple(value))]

    def _parse_either(self, left: ByteRewrite, right: ByteRewrite) -> list[Item]:
        start, there, done = self.here(), Label(), Label()
        self.branch(1, 0, 0, there)
        otherwise = self.parse(right)
        self.op(ops.JUMP, done)
        self.add(there)
        chosen = self.parse(left)
        self.add(done)
        if stays(left) and stays(right):
            return [Copied(start, self.here())]
        return [Choice(_is_byte(start, 1), (Constant(b"\1"), *chosen), (Constant(b"\0"), *otherwise))]

    def _parse_choice(self, rewrite: VarChoice) -> list[Item]:
        start = self.here()
        made: list[tuple[Item, ...]] = []
        self.branches(rewrite.branches, lambda value, head: made.append((Constant(head), *self.parse(value))))
        if stays(rewrite):
            return [Copied(start, self.here())]
        chosen = made[0]
        for place, items in enumerate(made[1:], 1):
            chosen = (Choice(_is_byte(start, 2 * place), items, chosen),)
        return list(chosen)

    def branches(
        self, branches: tuple[tuple[ByteRewrite, bytes], ...], each: Callable[[ByteRewrite, bytes], object]
    ) -> None:
        """Append the ops for the branches of a value; `each` compiles one branch."""
        start, done, labels = self.here(), Label(), [Label() for _ in branches]
        table = tuple(range(len(branches)))
        self.op_to_end(ops.VAR_LOOKED_UP, table, len(table))
        for place in table[1:]:
            self.op(*_is_byte(start, 2 * place), labels[place])
        for label, branch in zip(labels, branches, strict=True):
            self.add(label)
            each(*branch)
            self.op(ops.JUMP, done)
        self.add(done)

    def _parse_items(self, rewrite: Counted | VarCounted | Sorted) -> list[Item]:
        start = self.here()
        size = plain_size(rewrite.item) if isinstance(rewrite, Counted) and rewrite.key is None else 0
        if size:
            self.op_to_end(ops.BLOB, size)
        else:
            self.loop(rewrite, self.parse)
        return [Copied(start, self.here()) if stays(rewrite) else Again(start, rewrite)]

    def loop(self, rewrite: Counted | VarCounted | Sorted, each: Callable[[ByteRewrite], object]) -> None:
        """Append a loop over counted items; `each` compiles an item, or a part of one."""
        counter, again, done = self.register(), Label(), Label()
        self.op(ops.VAR_LOOP if isinstance(rewrite, VarCounted) else ops.LOOP, counter, done)
        if isinstance(rewrite, Sorted):
            before = self.register()
            self.register()  # the end of the item before
            self.op(ops.FIRST, before)
            self.add(again)
            start = self.here()
            each(rewrite.item)
            self.op(ops.ASCEND, start.register, start.behind, before)
        else:
            self._loop_items(rewrite, counter, again, each)
        self.op(ops.NEXT, counter, again)
        if isinstance(rewrite, VarCounted):
            each(Literal(0))
        self.add(done)

    def _loop_items(
        self, rewrite: Counted | VarCounted, counter: int, again: Label, each: Callable[[ByteRewrite], object]
    ) -> None:
        """Append the ops for an item; a second pass does not check again that keys are distinct."""
        is_told = rewrite.key is None or self.is_again
        table = 0
        if not is_told:
            table = self._registers
            self._registers += ops.TABLE_REGISTERS
            self.op(ops.KEYS, table, counter)
        self.add(again)
        if rewrite.key is not None:
            start = self.here()
            each(rewrite.key)
            if not is_told:
                self.op(ops.APART, start.register, start.behind, table)
        each(rewrite.item)


def _bit(place: int) -> int:
    """Return the mask of a bit in its byte: the first bit is the highest."""
    return 1 << 7 - place % 8


def _is_byte(place: Place, byte: int) -> Op:
    """Return the op that tests whether the byte at a place is `byte`, without its target."""
    return (ops.TEST, place.register, place.behind, 0xFF, byte)
