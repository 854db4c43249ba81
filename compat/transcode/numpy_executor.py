"""The executor of op lists by numpy: all entries of a block go through an op together, as columns.

Jumps forward are taken by masks: an entry that jumped sleeps until the place. Op lists with loops are declined, for
plain Python. What a column cannot tell of an entry (a text with other characters than ASCII, a long number), plain
Python tells of that entry alone; where that finds it odd, it is odd.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from . import columns, ops
from .executors import PlainExecutor, Rewritten
from .interpreter import DONE, ODD
from .lockstep import Entries
from .numpy_framing import entries_of, key_sums, known

if TYPE_CHECKING:
    from collections.abc import Callable

    from .columns import Column
    from .program import Program

_ENDED = 1 << 40
_EXPONENT, _MANTISSA = 0x7F800000, 0x7FFFFF
_ALL = np.True_


def can_run(program: Program) -> bool:
    """Whether all ops of a list can be carried out by columns."""
    return all(op in _STEPS for _, op, _ in program.ops())


@attrs.define
class _Block:
    """A block whose entries are rewritten, but for those that were declined."""

    block: bytes
    starts: Column
    declined: Column
    data: Any
    ends: Column
    values: Column
    keys: Column


class NumpyExecutor:
    """Carries out an op list by columns."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._plain = PlainExecutor(program)
        self._last: _Block | None = None

    def rewrite(self, block: bytes, start: int) -> Rewritten:
        """Rewrite the entries of a block from `start` on, until one stops it."""
        done = self._done(block)
        if done is None:
            return self._plain.rewrite(block, start)
        first = int(np.searchsorted(done.starts, start))
        after = int(np.searchsorted(done.declined, first))
        pieces, entry, keys = [], first, 0
        for declined in [*done.declined[after:].tolist(), len(done.starts)]:
            pieces.append(done.data[done.ends[entry] : done.ends[declined]].tobytes())
            keys += int(done.keys[entry:declined].sum(dtype=np.uint64))
            entry = declined
            if declined == len(done.starts):
                break
            here = int(done.starts[declined])
            stop = int(done.starts[declined + 1]) if declined + 1 < len(done.starts) else len(block)
            alone = self._plain.rewrite(block[here:stop], 0)
            if alone.status != DONE:
                return Rewritten(ODD, b"".join(pieces), here, declined - first, keys)
            pieces.append(alone.data)
            keys += alone.keys
            entry = declined + 1
        data = b"".join(pieces) if len(pieces) > 1 else pieces[0]
        if first == 0 and not len(done.declined):
            known.put(data, Entries(done.ends[:-1], done.values))
        self._last = None
        return Rewritten(DONE, data, len(block), len(done.starts) - first, keys)

    def _done(self, block: bytes) -> _Block | None:
        if self._last is None or self._last.block is not block:
            found = entries_of(block)
            self._last = None if found is None else _Columns(self._program, block, found).done()
        return self._last


@attrs.frozen
class _Piece:
    """What is written for each entry, at the place that all before it leave.

    Attributes:
        put: Writes it: called with the target, the places in it, and for the same entries `columns`.
        columns: Numbers for each entry.
        size: Bytes of each.
        awake: For which entries it is written; None: for all.
    """

    put: Callable[..., None]
    columns: tuple[Column, ...]
    size: Column | int
    awake: Column | None


class _Columns:
    """The state of a run: a place in the old bytes for each entry, and what is to be written for it."""

    def __init__(self, program: Program, block: bytes, found: Entries) -> None:
        starts = found.starts
        self._program, self._block, self._starts = program, block, starts
        self._buffer = columns.padded(block)
        self._constants = program.constants
        self._head = found.values - starts - 4
        self._at = found.values
        self._stop = np.append(starts[1:], len(block))
        self._sound = np.ones(len(starts), bool)
        self._wakes = np.zeros(len(starts), np.int64)
        self._jumped = False
        self._awake: Column | None = None
        self._registers: dict[int, Column] = {ops.VALUE: self._at}
        self._pieces: list[_Piece] = []
        self._sizes = np.zeros(len(starts), np.int64)

    def done(self) -> _Block:
        """Carry out the op list, and write what it says."""
        for place, op, operands in self._program.ops():
            self._awake = self._wakes <= place if self._jumped else None
            _STEPS[op](self, *operands)
        sizes = np.where(self._sound, self._head + 4 + self._sizes, 0)
        ends = np.concatenate([[0], np.cumsum(sizes)])
        target = np.empty(int(ends[-1]) + columns.PADDING, np.uint8)
        self._write(target, ends[:-1].copy())
        keys = key_sums(self._buffer, self._starts + 4, self._head - 4)
        return _Block(
            self._block, self._starts, np.flatnonzero(~self._sound), target, ends, ends[:-1] + self._head + 4, keys
        )

    def _write(self, target: Any, to: Column) -> None:
        everything = bool(self._sound.all())
        head = _Piece(self._copier(), (self._starts, self._head), self._head, None)
        length = _Piece(_putter(">i4"), (self._sizes,), 4, None)
        for piece in (head, length, *self._pieces):
            if everything and piece.awake is None:
                piece.put(target, to, *piece.columns)
            else:
                rows = np.flatnonzero(self._sound if piece.awake is None else self._sound & piece.awake)
                piece.put(target, to[rows], *(column[rows] for column in piece.columns))
            to += piece.size if piece.awake is None else np.where(piece.awake, piece.size, 0)

    def _copier(self) -> Callable[..., None]:
        def copy(target: Any, to: Column, at: Column, sizes: Column) -> None:
            columns.copy_ragged(target, to, self._buffer, at, sizes)

        return copy

    def _emit(self, put: Callable[..., None], size: Column | int, *numbers: Column) -> None:
        self._pieces.append(_Piece(put, numbers, size, self._awake))
        self._sizes += size if self._awake is None else np.where(self._awake, size, 0)

    def _go(self, at: Column, good: Column) -> None:
        """Move on; entries that are not `good`, or go past their end, are declined."""
        if self._awake is not None:
            good = good | ~self._awake
            at = np.where(self._awake, at, self._at)
        self._sound &= good & (at <= self._stop)
        self._at = np.where(self._sound, at, self._stop)

    def _jump(self, chosen: Column, target: int) -> None:
        """Let entries sleep until a place in the op list."""
        self._wakes = np.where(chosen if self._awake is None else chosen & self._awake, target, self._wakes)
        self._jumped = True

    def byte(self) -> Column:
        """Give the byte at each place."""
        return self._buffer[self._at]

    def _byte_at(self, places: Column) -> Column:
        """Give the byte at each of other places, which may lie behind the end."""
        return self._buffer[np.minimum(places, len(self._buffer) - 1)]

    def note(self, register: int) -> None:
        self._registers[register] = self._at

    def _place(self, register: int, behind: int) -> Column:
        """Give the places so many bytes behind those of a register."""
        return self._registers[register] + behind

    def skip(self, size: int) -> None:
        self._go(self._at + size, _ALL)

    def fixed(self, size: int, place: int) -> None:
        masks, values = (
            np.frombuffer(self._constants, "<u8", ops.WORD // 8, place + behind) for behind in (0, ops.WORD)
        )
        good = self._at + size <= self._stop
        for word in np.flatnonzero(masks):
            found = columns.words(self._buffer, np.where(good, self._at + 8 * word, 0))
            good = good & (found & masks[word] == values[word])
        self._go(self._at + size, good)

    def maybe(self, size: int, bits: int, register: int) -> None:
        flag = self.byte()
        good = (flag <= 1) if not bits else (flag == 1) | ((flag == 0) & (self._buffer[self._at + 1] & bits == 0))
        self._go(np.where(flag == 0, self._at + 1 + size, self._at + 1), good)
        self.note(register)

    def text(self, register: int) -> None:
        self._go(*self._text_end(self._at))
        self.note(register)

    def maybe_text(self, register: int) -> None:
        flag = self.byte()
        end, good = self._text_end(np.minimum(self._at + 1, self._stop))
        is_null = flag == 1
        self._go(np.where(is_null, self._at + 1, end), is_null | ((flag == 0) & good))
        self.note(register)

    def _text_end(self, at: Column) -> tuple[Column, Column]:
        """Of strings of ASCII with up to 2^14 characters: where they end; others are not good."""
        first, second = self._buffer[at].astype(np.int64), self._buffer[at + 1].astype(np.int64)
        is_long = first >= 0x80
        size = np.where(is_long, first & 0x7F | second << 7, first) - 1
        at = at + 1 + is_long
        good = (size >= 0) & ~(is_long & ((second >= 0x80) | (second == 0))) & (size <= self._stop - at)
        size = np.where(good, size, 0)
        return at + size, good & columns.are_ascii(self._buffer, at, size)

    def blob(self, width: int, register: int) -> None:
        count = columns.integers(self._buffer, self._at, 4)
        left = self._stop - self._at - 4
        good = (count >= 0) & (left >= 0) & (count <= left // width)
        self._go(self._at + 4 + np.where(good, count, 0) * width, good)
        self.note(register)

    def range(self, size: int, low: int, high: int) -> None:
        number = columns.integers(self._buffer, self._at, size)
        self._go(self._at + size, (number >= low) & (number <= high))

    def number(self) -> None:
        bits = columns.integers(self._buffer, self._at, 4)
        self._go(self._at + 4, (bits & _EXPONENT != _EXPONENT) | (bits & _MANTISSA == 0))

    def little(self) -> None:
        bits = columns.words(self._buffer, self._at).astype(np.int64)
        self._go(self._at + 4, (bits & _EXPONENT != _EXPONENT) | (bits & _MANTISSA == 0))

    def branch(self, byte: int, other: int, size: int, target: int) -> None:
        flag = self.byte()
        chosen = flag == byte
        self._go(np.where(chosen, self._at + 1 + size, self._at + 1), chosen | (flag == other))
        self._jump(chosen, target)

    def jump(self, target: int) -> None:
        self._jump(_ALL, target)

    def test(self, register: int, behind: int, mask: int, byte: int, target: int) -> None:
        self._jump(self._byte_at(self._place(register, behind)) & mask == byte, target)

    def rest(self) -> None:
        self._go(self._stop, _ALL)

    def end(self) -> None:
        self._go(self._at, self._at == self._stop)
        self._jump(_ALL, _ENDED)

    def looked_up(self, place: int, size: int) -> None:
        number = columns.integers(self._buffer, self._at, 4)
        self._go(self._at + 4, self._is_told(number, place, size))

    def _is_told(self, number: Column, place: int, size: int) -> Column:
        good = (number >= 0) & (number < size)
        return good & (self._table(np.where(good, number, 0), place) >= 0)

    def _table(self, number: Column, place: int) -> Column:
        table = np.array(self._program.code[place:], np.int64)
        return table[np.clip(number, 0, len(table) - 1)]  # of an entry that sleeps it may be any number

    def look_up(self, register: int, behind: int, place: int) -> None:
        number = columns.integers(self._buffer, self._place(register, behind), 4)
        self._emit(_putter(">i4"), 4, self._table(np.where(self._sound, number, 0), place))

    def varint(self, bits: int, register: int) -> None:
        self._go(*self._varint_end(bits))
        self.note(register)

    def _varint_end(self, bits: int) -> tuple[Column, Column]:
        """Of Avro's numbers of up to 8 bytes: where they end; others are not good."""
        size, going = np.ones(len(self._at), np.int64), np.ones(len(self._at), bool)
        last = self._buffer[self._at]
        for place in range(1, 9 if bits == 64 else 5):
            going &= last >= 0x80
            size += going
            last = np.where(going, self._buffer[self._at + place], last)
        most = 0x7F if bits == 64 else 15
        good = (last < 0x80) & ((size == 1) | (last > 0)) & ((size < 5) | (last <= most))
        return self._at + size, good if bits == 64 else good & (size <= 5)

    def _numbers(self, at: Column) -> Column:
        """Give Avro's numbers of up to 8 bytes at some places."""
        word, number, going = columns.words(self._buffer, at), np.zeros(len(at), np.uint64), np.ones(len(at), bool)
        for place in range(8):
            byte = word >> np.uint64(8 * place)
            number |= np.where(going, byte & np.uint64(0x7F), np.uint64(0)) << np.uint64(7 * place)
            going &= byte & np.uint64(0x80) != 0
        return (number >> np.uint64(1)).astype(np.int64) ^ -(number & np.uint64(1)).astype(np.int64)

    def var_range(self, bits: int, low: int, high: int, register: int) -> None:
        at, good = self._varint_end(bits)
        number = self._numbers(self._at)
        self._go(at, good & (number >= low) & (number <= high))
        self.note(register)

    def var_float(self, register: int, behind: int, bits: int, size: int) -> None:
        at = self._place(register, behind)
        numbers = self._numbers(at) if bits else columns.view(self._buffer, "<f4")[at]
        self._emit(_putter(f"<f{size}"), size, numbers.astype(np.float64))

    def _var_size(self) -> tuple[Column, Column, Column]:
        """Of sizes up to 2^13: where they end, they, and whether they are such."""
        first, second = self.byte().astype(np.int64), self._buffer[self._at + 1].astype(np.int64)
        is_long = first >= 0x80
        number = np.where(is_long, first & 0x7F | second << 7, first)
        at = self._at + 1 + is_long
        good = (number & 1 == 0) & ~(is_long & ((second >= 0x80) | (second == 0)))
        size = number >> 1
        good &= size <= self._stop - at
        return at, np.where(good, size, 0), good

    def var_text(self, register: int) -> None:
        at, size, good = self._var_size()
        at = np.where(good, at, self._at)
        self._go(at + size, good & columns.are_ascii(self._buffer, at, size))
        self.note(register)

    def var_blob(self, register: int) -> None:
        at, size, good = self._var_size()
        self._go(at + size, good)
        self.note(register)

    def var_looked_up(self, place: int, size: int, register: int) -> None:
        number = self.byte().astype(np.int64)
        good = (number < 0x80) & (number & 1 == 0)
        self._go(self._at + 1, good & self._is_told(number >> 1, place, size))
        self.note(register)

    def var_look_up(self, register: int, behind: int, place: int) -> None:
        number = np.where(self._sound, self._buffer[self._place(register, behind)] >> 1, 0)
        found = self._table(number.astype(np.int64), place)
        self._sound &= (found < 0x40) if self._awake is None else (found < 0x40) | ~self._awake
        self._emit(_putter("u1"), 1, found << 1)

    def bits(self, register: int, behind: int, place: int, count: int) -> None:
        at = self._place(register, behind)
        for first in range(0, count, 8):
            byte = np.zeros(len(at), np.uint8)
            for index, bit in enumerate(self._program.code[place + first : place + min(first + 8, count)]):
                is_set = (self._byte_at(at + (bit >> 3)) >> (7 - (bit & 7))) & 1 if bit >= 0 else -1 - bit
                byte |= np.uint8(is_set) << (7 - index)
            self._emit(_putter("u1"), 1, byte)

    def copy(self, first: int, behind: int, last: int, more: int) -> None:
        at = self._place(first, behind)
        sizes = np.where(self._sound, self._place(last, more) - at, 0)
        self._emit(self._copier(), sizes, at, sizes)

    def piece(self, register: int, behind: int, size: int) -> None:
        self._emit(self._fixed_copier(size), size, self._place(register, behind))

    def _fixed_copier(self, size: int) -> Callable[..., None]:
        def copy(target: Any, to: Column, at: Column) -> None:
            columns.copy_fixed(target, to, self._buffer, at, size)

        return copy

    def constant(self, place: int, size: int) -> None:
        data = self._constants[place : place + size]
        self._emit(lambda target, to: columns.put_constant(target, to, data), size)

    def widen(self, register: int, behind: int, more: int, size: int) -> None:
        at = self._place(register, behind)
        signs = -(self._buffer[at] >> 7)
        self._emit(lambda target, to, bytes_: columns.put_repeated(target, to, bytes_, more), more, signs)
        self._emit(self._fixed_copier(size), size, at)

    def float(self, register: int, behind: int, old: int, new: int) -> None:
        at = self._place(register, behind)
        numbers = columns.integers(self._buffer, at, old) if old else columns.view(self._buffer, ">f4")[at]
        self._emit(_putter(f">f{new}"), new, numbers.astype(np.float64))


def _putter(dtype: str) -> Callable[..., None]:
    def put(target: Any, to: Column, values: Column) -> None:
        columns.put(target, to, values, dtype)

    return put


_STEPS: dict[int, Callable[..., None]] = {
    ops.NOTE: _Columns.note, ops.SKIP: _Columns.skip, ops.FIXED: _Columns.fixed, ops.MAYBE: _Columns.maybe,
    ops.TEXT: _Columns.text, ops.MAYBE_TEXT: _Columns.maybe_text, ops.BLOB: _Columns.blob, ops.RANGE: _Columns.range,
    ops.NUMBER: _Columns.number, ops.LITTLE: _Columns.little, ops.BRANCH: _Columns.branch, ops.JUMP: _Columns.jump,
    ops.TEST: _Columns.test, ops.REST: _Columns.rest, ops.END: _Columns.end, ops.LOOKED_UP: _Columns.looked_up,
    ops.LOOK_UP: _Columns.look_up, ops.VARINT: _Columns.varint, ops.VAR_TEXT: _Columns.var_text,
    ops.VAR_BLOB: _Columns.var_blob, ops.VAR_LOOKED_UP: _Columns.var_looked_up, ops.VAR_LOOK_UP: _Columns.var_look_up,
    ops.COPY: _Columns.copy, ops.PIECE: _Columns.piece, ops.CONSTANT: _Columns.constant, ops.WIDEN: _Columns.widen,
    ops.FLOAT: _Columns.float, ops.BITS: _Columns.bits,
    ops.VAR_RANGE: _Columns.var_range, ops.VAR_FLOAT: _Columns.var_float,
}  # fmt: skip
