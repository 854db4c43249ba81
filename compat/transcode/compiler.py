"""Recipe -> op list: parse ops that note where pieces start, emit ops that write them, neighbouring copies as one.

Pieces are parsed first and then written, in any order. What repeats (items of a list) is parsed twice where it does not
stay, to find its end and to write it; once where nothing before it changes places.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import attrs

from ...serializers.recipe import (
    BigInteger,
    Blob,
    Boolean,
    Constant,
    Counted,
    Date,
    Either,
    Fixed,
    Float,
    Literal,
    LittleFloat,
    Masked,
    Nullable,
    Ordinal,
    Ranged,
    Recipe,
    Sequence,
    Sorted,
    Text,
    ToFloat,
    VarBlob,
    VarCounted,
    Varint,
    VarOrdinal,
    VarText,
    Widened,
)
from . import ops
from .framing import ValueFraming
from .program import Label, Program, assembled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .program import Op


_OP_OF = {
    Boolean: ops.BOOLEAN, Date: ops.DATE, Float: ops.NUMBER, Text: ops.TEXT, BigInteger: ops.BIG,
    VarBlob: ops.VAR_BLOB, VarText: ops.VAR_TEXT, LittleFloat: ops.LITTLE,
}  # fmt: skip


@attrs.frozen
class _Copy:
    first: int
    last: int


@attrs.frozen
class _Made:
    """An emit op with its operands."""

    op: Op


@attrs.frozen
class _Choice:
    """What is written where a test, an op that lacks its target, jumps, and where it does not."""

    test: Op
    there: tuple[_Item, ...]
    otherwise: tuple[_Item, ...]


@attrs.frozen
class _Again:
    """Items that do not stay: they are gone through a second time, from a register on."""

    register: int
    recipe: Counted | VarCounted | Sorted


@attrs.frozen
class _Column(Recipe):
    """A column behind a mask: it is there where a bit is not set of a byte behind a register."""

    value: Recipe
    register: int
    byte: int
    bit: int


_Item = _Copy | Constant | _Made | _Choice | _Again


def compile_value(recipe: Recipe, framing: ValueFraming, *, nullable: bool) -> Program:
    """Compile the recipe of a value, an element of list state, or a value of map state.

    Args:
        recipe: Of it.
        framing: What the value bytes of an entry hold.
        nullable: Whether a null of map state, which the entry's own flag tells, stays one; else it is odd.
    """
    compiler = _Compiler()
    if framing is ValueFraming.SEPARATED:
        again = Label()
        compiler.add(again)
        compiler.run(recipe)
        compiler.op(ops.AGAIN, again)
    elif framing is ValueFraming.NULLABLE and nullable:
        null = Label()
        compiler.op(ops.BRANCH, 1, 0, 0, null)
        compiler.flush([Constant(b"\0")])
        compiler.run(recipe)
        compiler.op(ops.END)
        compiler.add(null)
        compiler.flush([Constant(b"\1")])
        compiler.op(ops.REST)
    elif framing is ValueFraming.NULLABLE:
        compiler.run(Sequence((Literal(0), recipe)))
    else:
        compiler.run(recipe)
    compiler.op(ops.END)
    return compiler.program()


def stays(recipe: Recipe) -> bool:
    """Whether the new bytes are the old ones, of every value that is not odd."""
    match recipe:
        case Widened() | ToFloat() | Constant():
            return False
        case Ordinal(table) | VarOrdinal(table):
            return table == tuple(range(len(table)))
        case Sequence(parts, emitted):
            return emitted is None and all(map(stays, parts))
        case Nullable(value, padding, null_flag, present, null, value_flag):
            same = present == bytes([value_flag]) and null in {None, bytes([null_flag])}
            return same and not padding and stays(value)
        case Masked(parts, emitted=emitted):
            return recipe.keeps_mask and emitted == tuple(range(len(parts))) and all(map(stays, parts))
        case _Column(value):
            return stays(value)
        case Either(left, right):
            return stays(left) and stays(right)
        case Counted(item, key) | VarCounted(item, key):
            return stays(item) and (key is None or stays(key))
        case Sorted(item):
            return stays(item)
    return True


def _repeats(recipe: Recipe) -> bool:
    """Whether there are items in it that do not stay."""
    match recipe:
        case Counted() | VarCounted() | Sorted():
            return not stays(recipe)
        case Sequence(parts) | Masked(parts):
            return any(map(_repeats, parts))
        case Nullable(value) | _Column(value):
            return _repeats(value)
        case Either(left, right):
            return _repeats(left) or _repeats(right)
    return False


def _plain_size(recipe: Recipe) -> int:
    """Old bytes of a value that may be anything; 0 where it has no such length."""
    match recipe:
        case Fixed(size):
            return size
        case Float(8):
            return 8
        case Widened(old) | ToFloat(old):
            return old
        case Sequence(parts):
            sizes = [_plain_size(part) for part in parts]
            return sum(sizes) if all(sizes) else 0
    return 0


class _Compiler:
    """Puts ops one after the other, with labels and all notes that might be needed."""

    def __init__(self) -> None:
        self._ops: list[Op | Label] = []
        self._constants = bytearray()
        self._registers = 0
        self._is_again = False

    def op(self, *op: object) -> None:
        """Append an op with its operands."""
        self._ops.append(op)

    def add(self, label: Label) -> None:
        """Mark this place."""
        self._ops.append(label)

    def _register(self) -> int:
        self._registers += 1
        return self._registers - 1

    def _here(self) -> int:
        """Give a register that holds the place in the old bytes."""
        last = self._ops[-1] if self._ops else None
        if isinstance(last, tuple) and last[0] == ops.NOTE:
            return int(last[1])  # type: ignore[call-overload, no-any-return]  # the operand of a note is a number
        register = self._register()
        self.op(ops.NOTE, register)
        return register

    def run(self, recipe: Recipe) -> None:
        """Parse a value and write it at once."""
        if not _repeats(recipe):
            self.flush(self._parse(recipe))
            return
        match recipe:
            case Sequence(parts, emitted) if emitted is None or _ascends(emitted):
                self._run_in_order(parts, emitted)
            case Nullable(value, present=present, null=None, value_flag=flag):
                self.op(ops.EXPECT, flag)
                self.flush([Constant(present)])
                self.run(value)
            case Nullable(value, padding, null_flag, present, null, flag):
                there, done = Label(), Label()
                self.op(ops.BRANCH, null_flag, flag, padding, there)
                self.flush([Constant(present)])
                self.run(value)
                self.op(ops.JUMP, done)
                self.add(there)
                self.flush([Constant(null or b"")])
                self.add(done)
            case Masked():
                mask, columns = self._parse_mask(recipe)
                self.flush([mask])
                self.run(columns)
            case _Column(value):
                empty = Label()
                self.op(*_is_null(recipe), empty)
                self.run(value)
                self.add(empty)
            case Either(left, right):
                there, done = Label(), Label()
                self.op(ops.BRANCH, 1, 0, 0, there)
                for first, side, label in ((b"\0", right, there), (b"\1", left, done)):
                    self.flush([Constant(first)])
                    self.run(side)
                    if label is there:
                        self.op(ops.JUMP, done)
                    self.add(label)
            case Counted() | VarCounted() | Sorted():
                self._run_items(recipe)
            case _:
                self.flush(self._parse(recipe))

    def _run_in_order(self, parts: tuple[Recipe, ...], emitted: tuple[int | bytes, ...] | None) -> None:
        pending: list[_Item] = []
        pieces = list(emitted) if emitted is not None else list(range(len(parts)))
        for place, part in enumerate(parts):
            while pieces and isinstance(pieces[0], bytes):
                pending.append(Constant(pieces.pop(0)))  # type: ignore[arg-type]  # as the line above says
            if not pieces or pieces[0] != place:
                self._parse(part)
                continue
            pieces.pop(0)
            if _repeats(part):
                self.flush(pending)
                pending = []
                self.run(part)
            else:
                pending += self._parse(part)
        self.flush([*pending, *(Constant(piece) for piece in pieces if isinstance(piece, bytes))])

    def _run_items(self, recipe: Counted | VarCounted | Sorted) -> None:
        start = self._here()
        self.op(*((ops.VARINT, 64) if isinstance(recipe, VarCounted) else (ops.SKIP, 4)))
        self.flush([_Copy(start, self._here())])
        self.op(ops.SEEK, start)
        self._loop(recipe, self.run)

    def _loop(self, recipe: Counted | VarCounted | Sorted, each: Callable[[Recipe], object]) -> None:
        """Go through counted items: `each` compiles an item, or a part of one."""
        counter, again, done = self._register(), Label(), Label()
        self.op(ops.VAR_LOOP if isinstance(recipe, VarCounted) else ops.LOOP, counter, done)
        if isinstance(recipe, Sorted):
            before = self._register()
            self._register()  # the end of the item before
            self.op(ops.FIRST, before)
            self.add(again)
            start = self._here()
            each(recipe.item)
            self.op(ops.ASCEND, start, before)
        else:
            self._loop_items(recipe, counter, again, each)
        self.op(ops.NEXT, counter, again)
        if isinstance(recipe, VarCounted):
            each(Literal(0))
        self.add(done)

    def _loop_items(
        self, recipe: Counted | VarCounted, counter: int, again: Label, each: Callable[[Recipe], object]
    ) -> None:
        """Compile what is done for each item; keys that were once seen to stay apart are not looked at again."""
        is_told = recipe.key is None or self._is_again
        table = 0
        if not is_told:
            table = self._registers
            self._registers += ops.TABLE_REGISTERS
            self.op(ops.KEYS, table, counter)
        self.add(again)
        if recipe.key is not None:
            start = self._here()
            each(recipe.key)
            if not is_told:
                self.op(ops.APART, start, table)
        each(recipe.item)

    def _parse(self, recipe: Recipe) -> list[_Item]:
        """Go through an old value; give what is to be written for it."""
        match recipe:
            case Sequence(parts, emitted):
                pieces = [self._parse(part) for part in parts]
                order = range(len(parts)) if emitted is None else emitted
                return list(chain.from_iterable(self._piece(pieces, one) for one in order))
            case Nullable():
                return self._parse_nullable(recipe)
            case Masked():
                mask, columns = self._parse_mask(recipe)
                return [mask, *self._parse(columns)]
            case _Column():
                return self._parse_column(recipe)
            case Either(left, right):
                return self._parse_either(left, right)
            case Counted() | VarCounted() | Sorted():
                return self._parse_items(recipe)
            case Constant():
                return [recipe]
        start = self._here()
        made = self._parse_plain(recipe, start)
        return [made] if made is not None else [_Copy(start, self._here())]

    @staticmethod
    def _piece(pieces: list[list[_Item]], one: int | bytes) -> list[_Item]:
        return [Constant(one)] if isinstance(one, bytes) else pieces[one]

    def _parse_plain(self, recipe: Recipe, start: int) -> _Made | None:
        """Go through a value without parts; give the op that writes it, None where it stays."""
        match recipe:
            case Widened(old, new):
                self.op(ops.SKIP, old)
                return _Made((ops.WIDEN, start, old, new))
            case ToFloat(old, new):
                self.op(*((ops.SKIP, old) if old else (ops.NUMBER,)))
                return _Made((ops.FLOAT, start, old, new))
            case Ordinal(table) if not stays(recipe):
                self.op(ops.LOOKED_UP, table, len(table))
                return _Made((ops.LOOK_UP, start, table))
            case VarOrdinal(table):
                self.op(ops.VAR_LOOKED_UP, table, len(table))
                return None if stays(recipe) else _Made((ops.VAR_LOOK_UP, start, table))
        self.op(*_passing(recipe))
        return None

    def _parse_nullable(self, recipe: Nullable) -> list[_Item]:
        start = self._here()
        if recipe.null is None:
            self.op(ops.EXPECT, recipe.value_flag)
            head: list[_Item] = [Constant(recipe.present)]
            if recipe.present == bytes([recipe.value_flag]):
                head = [_Copy(start, self._here())]
            return head + self._parse(recipe.value)
        if stays(recipe):
            self._pass_nullable(recipe)
            return [_Copy(start, self._here())]
        null = Label()
        self.op(ops.BRANCH, recipe.null_flag, recipe.value_flag, recipe.padding, null)
        value = self._parse(recipe.value)
        self.add(null)
        otherwise = (Constant(recipe.present), *value)
        return [_Choice((ops.TEST, start, recipe.null_flag), (Constant(recipe.null),), otherwise)]

    def _pass_nullable(self, recipe: Nullable) -> None:
        match recipe:
            case Nullable(Fixed(size) | Float(8 as size), null_flag=1, value_flag=0):
                self.op(ops.MAYBE, size)
            case Nullable(Text(), null_flag=1, value_flag=0):
                self.op(ops.MAYBE_TEXT)
            case _:
                null = Label()
                self.op(ops.BRANCH, recipe.null_flag, recipe.value_flag, 0, null)
                self._parse(recipe.value)
                self.add(null)

    def _parse_mask(self, recipe: Masked) -> tuple[_Item, Sequence]:
        """Go over a mask; give what is to be written for it, and the columns behind it."""
        start, bits = self._here(), recipe.leading + len(recipe.parts)
        clear = bytearray(-(-bits // 8))
        for place in (*recipe.clear, *range(bits, 8 * len(clear))):
            clear[place // 8] |= _bit(place)
        self.op(ops.MASK, tuple(clear), len(clear))
        mask: _Item = _Copy(start, self._here())
        if not recipe.keeps_mask:
            mask = _Made((ops.BITS, start, recipe.mask, len(recipe.mask)))
        columns = (
            _Column(part, start, place // 8, _bit(place)) for place, part in enumerate(recipe.parts, recipe.leading)
        )
        return mask, Sequence(tuple(columns), recipe.emitted)

    def _parse_column(self, recipe: _Column) -> list[_Item]:
        start, null = self._here(), Label()
        self.op(*_is_null(recipe), null)
        value = self._parse(recipe.value)
        self.add(null)
        return [_Copy(start, self._here())] if stays(recipe) else [_Choice(_is_null(recipe), (), tuple(value))]

    def _parse_either(self, left: Recipe, right: Recipe) -> list[_Item]:
        start, there, done = self._here(), Label(), Label()
        self.op(ops.BRANCH, 1, 0, 0, there)
        otherwise = self._parse(right)
        self.op(ops.JUMP, done)
        self.add(there)
        chosen = self._parse(left)
        self.add(done)
        if stays(left) and stays(right):
            return [_Copy(start, self._here())]
        return [_Choice((ops.TEST, start, 1), (Constant(b"\1"), *chosen), (Constant(b"\0"), *otherwise))]

    def _parse_items(self, recipe: Counted | VarCounted | Sorted) -> list[_Item]:
        start = self._here()
        size = _plain_size(recipe.item) if isinstance(recipe, Counted) and recipe.key is None else 0
        if size:
            self.op(ops.BLOB, size)
        else:
            self._loop(recipe, self._parse)
        return [_Copy(start, self._here())] if stays(recipe) else [_Again(start, recipe)]

    def flush(self, items: list[_Item] | tuple[_Item, ...]) -> None:
        """Write pieces, neighbours as one."""
        for item in _joined(items):
            match item:
                case _Copy(first, last):
                    self.op(ops.COPY, first, last)
                case Constant(data) if data:
                    self.op(ops.CONSTANT, self._constant(data), len(data))
                case _Made(op):
                    self.op(*op)
                case _Choice(test, there, otherwise):
                    label, done = Label(), Label()
                    self.op(*test, label)
                    self.flush(otherwise)
                    self.op(ops.JUMP, done)
                    self.add(label)
                    self.flush(there)
                    self.add(done)
                case _Again(register, recipe):
                    self.op(ops.SEEK, register)
                    before, self._is_again = self._is_again, True
                    self._run_items(recipe)
                    self._is_again = before

    def _constant(self, data: bytes) -> int:
        place = self._constants.find(data)
        if place < 0:
            place = len(self._constants)
            self._constants += data
        return place

    def program(self) -> Program:
        """Give the op list."""
        return assembled(self._ops, bytes(self._constants), self._registers)


def _passing(recipe: Recipe) -> Op:
    """Give the op that goes over a value which stays, and sees that it is sound."""
    match recipe:
        case Fixed(size) | Float(8 as size):
            return (ops.SKIP, size)
        case Literal(byte):
            return (ops.EXPECT, byte)
        case Ranged(size, low, high):
            return (ops.RANGE, size, low, high)
        case Ordinal(table):
            return (ops.RANGE, 4, 0, len(table) - 1)
        case Blob(size):
            return (ops.BLOB, size)
        case Varint(bits):
            return (ops.VARINT, bits)
    return (_OP_OF[type(recipe)],)


def _bit(place: int) -> int:
    """The place of a bit in its byte: the first one is the highest."""
    return 1 << 7 - place % 8


def _is_null(column: _Column) -> Op:
    """Give the test whether a column is null, without its target."""
    return (ops.MASKED, column.register, column.byte, column.bit)


def _ascends(emitted: tuple[int | bytes, ...]) -> bool:
    """Whether the parts that are written lie in the order of the old bytes."""
    places = [one for one in emitted if isinstance(one, int)]
    return places == sorted(places)


def _joined(items: list[_Item] | tuple[_Item, ...]) -> Iterator[_Item]:
    """Join copies of neighbours, and constants."""
    before: _Item | None = None
    for item in items:
        if isinstance(before, _Copy) and isinstance(item, _Copy) and before.last == item.first:
            before = _Copy(before.first, item.last)
        elif isinstance(before, Constant) and isinstance(item, Constant):
            before = Constant(before.data + item.data)
        else:
            if before is not None:
                yield before
            before = item
    if before is not None:
        yield before
