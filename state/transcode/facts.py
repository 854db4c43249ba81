"""Properties of a byte rewrite that are known before it is compiled: whether bytes change, and how many there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ...serializers.rewrite import (
    ByteRewrite,
    Constant,
    Counted,
    Either,
    Fixed,
    Float,
    FromUtf8,
    Masked,
    Nullable,
    Ordinal,
    Sequence,
    Sorted,
    ToBigInteger,
    ToFloat,
    ToUtf8,
    VarChoice,
    VarCounted,
    Varint,
    VarOrdinal,
    VarToFloat,
    Widened,
)
from . import ops

if TYPE_CHECKING:
    from .pieces import Place
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
