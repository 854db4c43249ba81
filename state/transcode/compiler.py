"""The compiler from byte rewrites to op lists: parse ops note where pieces start, emit ops write them.

Neighbouring copies become one op. Pieces are parsed first and then written, in any order. Repeated items (of a list)
whose bytes change are parsed twice, to find their end and to write them; once if the pieces keep their order.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from ...compat.description import ValueFraming
from ...serializers.rewrite import (
    ByteRewrite,
    Constant,
    Counted,
    Either,
    Literal,
    Masked,
    Nullable,
    Rest,
    Sequence,
    Sorted,
    VarChoice,
    VarCounted,
)
from . import ops
from .parsing import Column, Parsing, repeats
from .pieces import Again, Choice, Copied, Made, Place, Wider, joined
from .program import Label, Program, registers_read

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from .pieces import Item
    from .program import Op

_PROGRAMS_KEPT = 256


@lru_cache(maxsize=_PROGRAMS_KEPT)
def compile_value(
    rewrite: ByteRewrite, framing: ValueFraming, *, nullable: bool, key: ByteRewrite | None = None
) -> Program:
    """Compile the byte rewrite of a value, an element of list state, or a value of map state.

    Results are cached: every subtask of an operator, and every thread, asks for the same one.

    Args:
        rewrite: The byte rewrite of the value or element.
        framing: What the value bytes of an entry hold.
        nullable: Whether a null of map state (its entry's null flag is set) stays a null; else the entry is odd.
        key: The byte rewrite of the entry's key, if keys change.
    """
    compiler = _Compiler()
    if framing is ValueFraming.NULLABLE and not nullable:
        rewrite, framing = Sequence((Literal(0), rewrite)), ValueFraming.WHOLE
    compiler.entry(rewrite, framing, key, compiler.run)
    return compiler.program()


@lru_cache(maxsize=_PROGRAMS_KEPT)
def compile_check(value: ByteRewrite | None, framing: ValueFraming, *, key: ByteRewrite | None = None) -> Program:
    """Compile an op list that only checks entries; what it writes is meaningless.

    Args:
        value: The unchanging byte rewrite of a value, an element of list state, or a value of map state; None: any
            bytes.
        framing: What the value bytes of an entry hold.
        key: The unchanging byte rewrite of the entry's key; None: any bytes.
    """
    compiler = _Compiler()
    compiler.entry(value or Rest(), ValueFraming.WHOLE if value is None else framing, key, compiler.parse)
    compiler.hurry()
    return compiler.program()


class _Compiler(Parsing):
    """Walks a byte rewrite, and appends the ops that parse a value and those that write it."""

    def entry(
        self,
        value: ByteRewrite,
        framing: ValueFraming,
        key: ByteRewrite | None,
        each: Callable[[ByteRewrite], object],
    ) -> None:
        """Append the ops for an entry: those for its key, if any, and for its value; `each` compiles both."""
        if key is not None:
            self.op(ops.KEY)
            self._place = None
            each(key)
            self.op(ops.KEY_END)
            self._place = Place(ops.VALUE)
        label = Label()
        if framing is ValueFraming.SEPARATED:
            self.add(label)
            each(value)
            self.op(ops.AGAIN, label)
        elif framing is ValueFraming.NULLABLE:
            self.branch(1, 0, 0, label)
            each(Constant(b"\0"))
            each(value)
            self.op(ops.END)
            self.add(label)
            each(Constant(b"\1"))
            self.op(ops.REST)
        else:
            each(value)
        self.op(ops.END)

    def hurry(self) -> None:
        """Put a `LIKELY` op before each run of small skipping ops: it skips them all at once if no value is null.

        This is only for op lists that write nothing, which never read where such pieces end.
        """
        listed: list[Op | Label] = []
        run: list[Op] = []
        read = registers_read(self._ops)
        for op in [*self._ops, Label()]:
            more = _passed(op, read) if isinstance(op, tuple) else 0
            size = sum(_passed(one, read) for one in run)
            if isinstance(op, tuple) and more and size + more <= ops.WORD:
                run.append(op)
                continue
            if len(run) > 1:
                after, bytes_ = Label(), b"".join(self._masks(one) for one in run)
                mask, value = bytes_[::2].ljust(ops.WORD, b"\0"), bytes_[1::2].ljust(ops.WORD, b"\0")
                listed += [(ops.LIKELY, size, self.constant(mask + value), after), *run, after]
            else:
                listed += run
            run = [op] if isinstance(op, tuple) and more else []
            if not run:
                listed.append(op)
        self._ops = listed[:-1]

    def _masks(self, op: Op) -> bytes:
        """Return a mask byte and the masked value for each byte that an op skips if no value is null."""
        match op:
            case (ops.FIXED, int(size), int(place)):
                mask, value = self._constants[place : place + size], self._constants[place + ops.WORD :][:size]
                return bytes(byte for pair in zip(mask, value, strict=True) for byte in pair)
            case (ops.MAYBE, int(size), int(bits), _):
                return b"\xff\0" + (bytes([bits, 0]) + bytes(2 * size - 2) if size else b"")
            case (ops.SKIP, int(size)):
                return bytes(2 * size)
        raise AssertionError(op)

    def run(self, rewrite: ByteRewrite) -> None:
        """Append the ops that parse a value and write it immediately."""
        if not repeats(rewrite):
            self.flush(self.parse(rewrite))
            return
        match rewrite:
            case Sequence(parts, emitted) if emitted is None or _ascends(emitted):
                self._run_in_order(parts, emitted)
            case Nullable(value, present=present, null=None, value_flag=flag):
                self.expect(flag)
                self.flush([Constant(present)])
                self.run(value)
            case Nullable(value, padding, null_flag, present, null, flag):
                there, done = Label(), Label()
                self.branch(null_flag, flag, padding, there)
                self.flush([Constant(present)])
                self.run(value)
                self.op(ops.JUMP, done)
                self.add(there)
                self.flush([Constant(null or b"")])
                self.add(done)
            case Masked():
                mask, columns = self.parse_mask(rewrite)
                self.flush([mask])
                self.run(columns)
            case Column(value):
                empty = Label()
                self.op(*rewrite.is_null, empty)
                self.run(value)
                self.add(empty)
            case Either(left, right):
                there, done = Label(), Label()
                self.branch(1, 0, 0, there)
                for first, side, label in ((b"\0", right, there), (b"\1", left, done)):
                    self.flush([Constant(first)])
                    self.run(side)
                    if label is there:
                        self.op(ops.JUMP, done)
                    self.add(label)
            case VarChoice(branches):
                self.branches(branches, self._run_branch)
            case Counted() | VarCounted() | Sorted():
                self._run_items(rewrite)
            case _:
                self.flush(self.parse(rewrite))

    def _run_branch(self, value: ByteRewrite, head: bytes) -> None:
        self.flush([Constant(head)])
        self.run(value)

    def _run_in_order(self, parts: tuple[ByteRewrite, ...], emitted: tuple[int | bytes, ...] | None) -> None:
        pending: list[Item] = []
        pieces = list(emitted) if emitted is not None else list(range(len(parts)))
        for place, part in enumerate(parts):
            while pieces and isinstance(pieces[0], bytes):
                pending.append(Constant(pieces.pop(0)))  # type: ignore[arg-type]  # as the line above says
            if not pieces or pieces[0] != place:
                self.parse(part)
                continue
            pieces.pop(0)
            if repeats(part):
                self.flush(pending)
                pending = []
                self.run(part)
            else:
                pending += self.parse(part)
        self.flush([*pending, *(Constant(piece) for piece in pieces if isinstance(piece, bytes))])

    def _run_items(self, rewrite: Counted | VarCounted | Sorted) -> None:
        start = self.here()
        if isinstance(rewrite, VarCounted):
            self.op_to_end(ops.VARINT, 64)
        else:
            self.skip(4)
        self.flush([Copied(start, self.here())])
        self.op(ops.SEEK, start.register, start.behind)
        self._place = start
        self.loop(rewrite, self.run)

    def flush(self, items: Iterable[Item]) -> None:
        """Append the ops that write pieces, one op for neighbours that can be joined."""
        for item in joined(items):
            match item:
                case Copied(first, last, size=int(size)) if size <= ops.WORD:
                    self.op(ops.PIECE, first.register, first.behind, size)
                case Copied(first, last):
                    self.op(ops.COPY, first.register, first.behind, last.register, last.behind)
                case Wider(more, Copied(Place(register, behind), last)):
                    self.op(ops.WIDEN, register, behind, more, last.behind - behind)
                case Constant(data) if data:
                    self.op(ops.CONSTANT, self.constant(data), len(data))
                case Made(op):
                    self.op(*op)
                case Choice(test, there, otherwise):
                    label, done = Label(), Label()
                    self.op(*test, label)
                    self.flush(otherwise)
                    self.op(ops.JUMP, done)
                    self.add(label)
                    self.flush(there)
                    self.add(done)
                case Again(start, rewrite):
                    self.op(ops.SEEK, start.register, start.behind)
                    self._place = start
                    before, self.is_again = self.is_again, True
                    self._run_items(rewrite)
                    self.is_again = before


def _passed(op: Op, read: Container[object]) -> int:
    """Return the number of bytes that an op skips if no value is null; 0 if the op has other effects."""
    match op:
        case (ops.FIXED, int(size), _) | (ops.SKIP, int(size)) if size <= ops.WORD:
            return size
        case (ops.MAYBE, int(size), _, register) if size < ops.WORD and register not in read:
            return size + 1
    return 0


def _ascends(emitted: tuple[int | bytes, ...]) -> bool:
    """Whether the written parts keep the order of the old bytes."""
    places = [one for one in emitted if isinstance(one, int)]
    return places == sorted(places)
