"""Byte rewrites: how the bytes of new values come from those of old ones, as data; and layouts: where values end.

For a reader, a conversion and a writer, a family describes what a conversion through objects would do to the bytes:
bytes that stay, an int that is widened, a constant for a new field. The block transcoder compiles byte rewrites. If a
value is not what a byte rewrite expects (an unexpected null, a truncated varint, a registered subclass), its entry is
*odd*: that entry alone goes through objects, and their result or error counts. So a byte rewrite never has to report an
error.

A serializer describes its bytes by a byte rewrite that only says where a value ends, its `layout`: `copy_bytes` walks
it to skip a value without making objects. It knows no types: four bytes are `Fixed(4)`, whether they are an int or a
float. Source: format notes, section 7.

There is no byte rewrite, and the result is None, for user code, pickles, and types that contain themselves.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

import attrs

from .errors import CorruptSavepoint, StateShiftError
from .families import Ability, families
from .views import DataOutputView

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .defaults import Default
    from .serializer import TypeDeserializer, TypeSerializer
    from .views import DataInputView

    Conversion = Callable[[Any], Any] | None
    Rewrite = Callable[[Any, TypeDeserializer[Any], Conversion], "ByteRewrite | None"]
    """Returns the byte rewrite for a writer, a reader and a conversion."""
    RewriteTable = Mapping[type, Rewrite]
    """The table of `Ability.REWRITES`."""

_BIG_INTEGER_OFFSET = 4
MOST_NANOS = 999_999
_CONSTANT_FACTORIES = (list, dict, set, frozenset, tuple, str, bytes, int, float, bool)


@attrs.frozen
class ByteRewrite:
    """Base of the byte rewrites: how one new value comes from one old value.

    As the layout of a type it says where a value ends, whatever becomes of it: it skips values that a rewriting finds
    odd, too. By itself it is the layout of bytes whose end only their serializer finds.
    """

    def skip(self, source: DataInputView) -> None:
        """Move `source` past one value; raises `CorruptSavepoint` where the bytes do not have this layout."""
        raise CorruptSavepoint("the end of this value cannot be found without its serializer", offset=source.position)

    @property
    def can_skip(self) -> bool:
        """Whether the end of a value can be found at all."""
        within = self._within()
        return type(self).skip is not ByteRewrite.skip and (not within or all(part.can_skip for part in within))

    def _within(self) -> tuple[ByteRewrite, ...]:
        """Return the layouts of the parts."""
        return ()


@attrs.frozen
class Fixed(ByteRewrite):
    """`size` bytes that stay, whatever they are."""

    size: int

    def skip(self, source: DataInputView) -> None:
        source.skip_bytes(self.size)


@attrs.frozen
class Literal(ByteRewrite):
    """One byte that stays, and must be `byte`."""

    byte: int


@attrs.frozen
class Boolean(ByteRewrite):
    """One byte that stays, 0 or 1."""


@attrs.frozen
class Float(ByteRewrite):
    """A float of `size` bytes that stays; a 4-byte NaN is odd, because objects would change the bits of some NaNs."""

    size: int


@attrs.frozen
class Ranged(ByteRewrite):
    """A signed integer of `size` bytes that stays, from `low` to `high`."""

    size: int
    low: int
    high: int


@attrs.frozen
class Date(ByteRewrite):
    """An i32 year, i8 month and i8 day that stay, and are a valid date."""


@attrs.frozen
class Text(ByteRewrite):
    """A Flink string that stays: not null, and every varint as short as possible."""

    def skip(self, source: DataInputView) -> None:
        for _ in range(max(source.read_varint() - 1, 0)):
            source.read_varint()


@attrs.frozen
class Blob(ByteRewrite):
    """An i32 count of items of `item_size` bytes, which stay."""

    item_size: int = 1

    def skip(self, source: DataInputView) -> None:
        count = source.read_size("items", least_bytes_each=self.item_size)
        source.skip_bytes(count * self.item_size)


@attrs.frozen
class BigInteger(ByteRewrite):
    """A big integer that stays: not null, and as short as possible."""

    def skip(self, source: DataInputView) -> None:
        source.skip_bytes(max(source.read_int() - _BIG_INTEGER_OFFSET, 0))


@attrs.frozen
class Widened(ByteRewrite):
    """A signed integer of `old` bytes that becomes one of `new` bytes."""

    old: int
    new: int


@attrs.frozen
class ToFloat(ByteRewrite):
    """A number that becomes a float of `size` bytes, rounded first to 64 bits and then to 32.

    Attributes:
        old: Bytes of a signed integer; 0: a 32-bit float, which becomes one of 64.
    """

    old: int
    size: int


@attrs.frozen
class ToBigInteger(ByteRewrite):
    """A signed integer of `old` bytes that becomes a big integer."""

    old: int


@attrs.frozen
class ToUtf8(ByteRewrite):
    """A Flink string that becomes its UTF-8 behind an i32 size; lone surrogates are odd."""


@attrs.frozen
class FromUtf8(ByteRewrite):
    """Valid UTF-8 behind an i32 size that becomes a Flink string."""


@attrs.frozen
class Ordinal(ByteRewrite):
    """An i32 that indexes `table`, and becomes the number found there; -1 where there is none."""

    table: tuple[int, ...]


@attrs.frozen
class Varint(ByteRewrite):
    """Avro's number of 32 or 64 bits: zigzag, seven bits per byte, from `low` to `high`, and as short as possible.

    Attributes:
        bits: 32 or 64.
        low: The lowest value.
        high: The highest value.
        factor: What the number is multiplied by.
    """

    bits: int
    low: int = -(1 << 63)
    high: int = (1 << 63) - 1
    factor: int = 1


@attrs.frozen
class VarText(ByteRewrite):
    """Avro's string that stays: its size as a varint, and valid UTF-8."""


@attrs.frozen
class VarBlob(ByteRewrite):
    """Avro's bytes that stay: their size as a varint, and the bytes."""


@attrs.frozen
class VarUuid(ByteRewrite):
    """Avro's string that stays and is a UUID as Python writes it: lower case, with hyphens."""


@attrs.frozen
class Unscaled(ByteRewrite):
    """A big-endian integer that stays, with at most `digits` decimal digits.

    Attributes:
        digits: The highest number of decimal digits.
        size: Its fixed number of bytes; 0: Avro's bytes, as short as possible.
    """

    digits: int
    size: int = 0


@attrs.frozen
class VarToFloat(ByteRewrite):
    """A number that becomes a little-endian float of `size` bytes, rounded first to 64 bits and then to 32.

    Attributes:
        bits: The size of Avro's number; 0: a 32-bit float, little-endian and not NaN.
        size: 4 or 8.
    """

    bits: int
    size: int


@attrs.frozen
class VarChoice(ByteRewrite):
    """Avro's union: the number of a branch, and a value of that branch.

    Attributes:
        branches: For each branch the byte rewrite of its values, and the bytes before the new value.
    """

    branches: tuple[tuple[ByteRewrite, bytes], ...]


@attrs.frozen
class VarOrdinal(ByteRewrite):
    """Avro's number that indexes `table`, and becomes the number found there; -1 where there is none."""

    table: tuple[int, ...]


@attrs.frozen
class VarCounted(ByteRewrite):
    """Avro's array or map of one block that stays one: the count as a varint, the items, and 0; 0 alone if empty.

    Attributes:
        item: The byte rewrite of an element, or of a map's value.
        key: The byte rewrite of a map's key, as in `Counted`.
    """

    item: ByteRewrite
    key: ByteRewrite | None = None


@attrs.frozen
class LittleFloat(ByteRewrite):
    """A little-endian float of 4 bytes that stays, as in `Float`."""


@attrs.frozen
class Constant(ByteRewrite):
    """Bytes of a new value that do not depend on the old one."""

    data: bytes


@attrs.frozen
class Sequence(ByteRewrite):
    """Parts that lie one after the other.

    Attributes:
        parts: The parts of the old value, in the order of its bytes.
        emitted: The parts of the new value: the index of an old part, or constant bytes. Old parts that are not named
            are dropped. None: all old parts, in their order.
    """

    parts: tuple[ByteRewrite, ...]
    emitted: tuple[int | bytes, ...] | None = None

    def skip(self, source: DataInputView) -> None:
        for part in self.parts:
            part.skip(source)

    def _within(self) -> tuple[ByteRewrite, ...]:
        return self.parts


@attrs.frozen
class Nullable(ByteRewrite):
    """A flag byte and a value; where the flag says null, `padding` bytes instead.

    Attributes:
        value: The byte rewrite of the value behind the flag.
        padding: Bytes behind the flag of an old null.
        null_flag: The byte that means null.
        present: The bytes before a new value.
        null: What a null becomes; None: it is odd.
        value_flag: The byte that means that a value follows.
    """

    value: ByteRewrite
    padding: int = 0
    null_flag: int = 1
    present: bytes = b"\0"
    null: bytes | None = b"\1"
    value_flag: int = 0

    def skip(self, source: DataInputView) -> None:
        if source.read_boolean() == self.null_flag:
            source.skip_bytes(self.padding)
        else:
            self.value.skip(source)

    def _within(self) -> tuple[ByteRewrite, ...]:
        return (self.value,)


UNSET, SET = -1, -2
"""The value of a bit of a new mask that does not come from the old mask."""


@attrs.frozen
class Masked(ByteRewrite):
    """A mask, and columns; a column whose bit says null has no bytes.

    Attributes:
        parts: The byte rewrites of the old columns, in the order of their bytes.
        leading: Bits of the old mask before those of the columns. Zeros follow the columns' bits, up to a full byte.
        clear: Positions of bits of the old mask that must not be set: nulls that the new type does not allow are odd.
        mask: For each bit of the new mask the position of an old bit, or `UNSET` or `SET`.
        emitted: The new columns, as in `Sequence`; new columns that are null are left out.
    """

    parts: tuple[ByteRewrite, ...]
    leading: int
    clear: tuple[int, ...]
    mask: tuple[int, ...]
    emitted: tuple[int | bytes, ...]

    @property
    def keeps_mask(self) -> bool:
        """Whether the new mask is the old one."""
        return self.mask == tuple(range(self.leading + len(self.parts)))

    @classmethod
    def kept(cls, columns: tuple[Any, ...], leading: int) -> Masked:
        """Return the layout of columns with a mask, which stay as they are."""
        return cls(columns, leading, (), tuple(range(leading + len(columns))), tuple(range(len(columns))))

    def skip(self, source: DataInputView) -> None:
        bits = self.leading + len(self.parts)
        size = (bits + 7) // 8
        mask = int.from_bytes(source.read_fully(size), "big") >> size * 8 - bits
        for place, column in enumerate(self.parts, 1):
            if not mask >> len(self.parts) - place & 1:
                column.skip(source)

    def _within(self) -> tuple[ByteRewrite, ...]:
        return self.parts


@attrs.frozen
class Either(ByteRewrite):
    """A flag byte that stays: 1 before the left type, 0 before the right one."""

    left: ByteRewrite
    right: ByteRewrite

    def skip(self, source: DataInputView) -> None:
        (self.left if source.read_boolean() else self.right).skip(source)

    def _within(self) -> tuple[ByteRewrite, ...]:
        return self.left, self.right


@attrs.frozen
class Sized(ByteRewrite):
    """A value that stays, followed by the number of its bytes, lowest byte first, as short as possible."""

    value: ByteRewrite


@attrs.frozen
class Rest(ByteRewrite):
    """All remaining bytes, which stay."""


@attrs.frozen
class Counted(ByteRewrite):
    """An i32 count that stays, and that many items, in their order.

    Attributes:
        item: The byte rewrite of an element, or of the value behind a key.
        key: The byte rewrite of the key before each value, one that `tells_apart`; equal keys are odd. None: there
            are no keys.
    """

    item: ByteRewrite
    key: ByteRewrite | None = None

    def skip(self, source: DataInputView) -> None:
        for _ in range(source.read_size("items")):
            self.skip_item(source)

    def skip_item(self, source: DataInputView) -> None:
        """Move past one item, and the key before it."""
        if self.key is not None:
            self.key.skip(source)
        self.item.skip(source)

    def _within(self) -> tuple[ByteRewrite, ...]:
        return (self.item,) if self.key is None else (self.key, self.item)


@attrs.frozen
class Sorted(ByteRewrite):
    """An i32 count that stays, and that many items in ascending order of their bytes, which stays the order.

    Attributes:
        item: The byte rewrite of an item, one that `is_sortable`.
    """

    item: ByteRewrite


@attrs.frozen
class Utf8(ByteRewrite):
    """Valid UTF-8 behind an i32 size, which stays."""

    def skip(self, source: DataInputView) -> None:
        source.skip_bytes(source.read_size("bytes of a text"))


class SlotForm(enum.IntEnum):
    """What a slot of a binary row or array holds; all numbers are little-endian.

    Attributes:
        NUMBER: A signed integer, or any bytes as one.
        SINGLE: A 32-bit float that is not NaN.
        TEXT: UTF-8: up to seven bytes in the slot itself, else behind the slots.
        BYTES: Bytes in these two places.
        BEHIND: Bytes behind the slots.
        WIDE: Behind the slots, in room of 16 bytes, a big-endian integer in as few bytes as possible.
        FINE: The nanoseconds of a time stamp, and behind the slots its milliseconds.
        ROW: Behind the slots, a row.
        ARRAY: Behind the slots, an array.
    """

    NUMBER = 0
    SINGLE = 1
    TEXT = 2
    BYTES = 3
    BEHIND = 4
    WIDE = 5
    FINE = 6
    ROW = 7
    ARRAY = 8


@attrs.frozen
class Slot:
    """A slot of a binary row, or of each item of a binary array.

    Attributes:
        form: What it holds.
        size: The bytes of a number.
        low: The lowest number; of `WIDE` what the first 8 bytes of a number of the most bytes and one are below.
        high: The highest number; of `WIDE` the most bytes of which all numbers fit.
        is_required: Whether a null is odd.
        inner: The slots of a row; the slot of an array's items.
    """

    form: SlotForm
    size: int = 8
    low: int = 0
    high: int = 0
    is_required: bool = False
    inner: tuple[Slot, ...] = ()


class SlotChange(enum.IntEnum):
    """What becomes of the value of a slot.

    Attributes:
        KEPT: It stays.
        SCALED: A number is multiplied, and gets another size.
        TO_WIDE: A number is multiplied, and becomes one of `SlotForm.WIDE`.
        TO_DOUBLE: A 32-bit float becomes one of 64.
        TO_FINE: Milliseconds become a time stamp of `SlotForm.FINE`.
        BEGUN: There is none: a constant is new.
    """

    KEPT = 0
    SCALED = 1
    TO_WIDE = 2
    TO_DOUBLE = 3
    TO_FINE = 4
    BEGUN = 5


@attrs.frozen
class NewSlot:
    """A slot of a new binary row.

    Attributes:
        change: What becomes of the value.
        source: The place of the old slot.
        factor: What the number is multiplied by.
        size: The bytes of the new number.
        constant: The slot of a new value and the bytes behind the slots at which it points, as from offset 0 on; b"" is
            null.
    """

    change: SlotChange = SlotChange.KEPT
    source: int = -1
    factor: int = 1
    size: int = 8
    constant: bytes = b""


@attrs.frozen
class BinaryRow(ByteRewrite):
    """A binary row of Flink SQL behind its i32 size, as Flink's serializer of rows writes it.

    The nulls of `WIDE` and `FINE` may have empty room behind the slots, as generated code writes them, and keep it.

    Attributes:
        slots: The slots.
        emitted: The slots of the new row; None: the row stays.
    """

    slots: tuple[Slot, ...]
    emitted: tuple[NewSlot, ...] | None = None

    def skip(self, source: DataInputView) -> None:
        source.skip_bytes(source.read_size("bytes of a row"))


def rewrite_of(
    reader: TypeDeserializer[Any], conversion: Conversion, writer: TypeSerializer[Any]
) -> ByteRewrite | None:
    """Return the byte rewrite of what `reader` reads, `conversion` converts and `writer` writes, or None.

    A class has byte rewrites only where its family registers them for exactly this class, as a subclass may read or
    write other bytes.

    Args:
        reader: Reads the old values.
        conversion: Makes the new values from them; None: they are the same.
        writer: Writes the new values.
    """
    rewrite: Rewrite | None = families.find(Ability.REWRITES, type(writer))
    if rewrite is None or families.find(Ability.REWRITES, type(reader)) is None:
        return None
    return rewrite(writer, reader, conversion)


def present(rewrite: ByteRewrite) -> ByteRewrite:
    """Return the byte rewrite of a value behind a null flag of its container: a null by its own flag is odd."""
    return attrs.evolve(rewrite, null=None) if isinstance(rewrite, Nullable) else rewrite


def is_sortable(rewrite: ByteRewrite) -> bool:
    """Whether new bytes sort in the order of the old bytes, and different old bytes mean different values."""
    if isinstance(rewrite, Sequence):
        return rewrite.emitted is None and all(isinstance(part, Fixed | Ranged | Date) for part in rewrite.parts)
    return isinstance(rewrite, Fixed | Boolean | Text | Blob | Widened | Ranged | Date)


def tells_apart(rewrite: ByteRewrite) -> bool:
    """Whether different old bytes always mean different values and different new bytes."""
    if isinstance(rewrite, Ordinal):
        return -1 not in rewrite.table and len(set(rewrite.table)) == len(rewrite.table)
    if isinstance(rewrite, Sequence):
        return rewrite.emitted is None and all(map(tells_apart, rewrite.parts))
    if isinstance(rewrite, BinaryRow):
        return rewrite.emitted is None or set(range(len(rewrite.slots))) <= {one.source for one in rewrite.emitted}
    return is_sortable(rewrite) or isinstance(rewrite, VarText)


def fits_always(rewrite: ByteRewrite) -> bool:
    """Whether the bytes stay as they are, for every value of the stored type."""
    match rewrite:
        case Sequence(parts, emitted):
            return emitted is None and all(map(fits_always, parts))
        case Nullable(value, null=null):
            return null is not None and fits_always(value)
        case Fixed() | Boolean() | Float() | Text() | Blob() | BigInteger() | VarText() | VarBlob() | LittleFloat():
            return True
    return False


def constant(serializer: TypeSerializer[Any], default: Default | None) -> bytes | None:
    """Return the bytes of a default; b"" for None; None if it may differ from value to value, or fails."""
    if default is None or (default.factory is not None and default.factory not in _CONSTANT_FACTORIES):
        return None
    value = default.make()
    if value is None:
        return b""
    target = DataOutputView()
    try:
        serializer.serialize(value, target)
    except StateShiftError:
        return None
    except Exception:  # noqa: BLE001 - a user's default that does not fit is reported where it is used
        return None
    return target.getvalue()
