"""Wire layouts: where the parts of a value lie in its bytes, as data.

A serializer describes its bytes with these classes, and a state kind its entries. `copy_bytes` walks a layout to skip a
value without making objects; the block transcoder compiles a pair of layouts. A layout knows no types: four bytes are
`Fixed(4)`, whether they are an int or a float. Source: format notes, section 7.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import attrs

from .errors import CorruptSavepoint, OldReaderUnavailable

if TYPE_CHECKING:
    from .views import DataInputView

NULL_RECORD, PLAIN_RECORD, UNREGISTERED_SUBCLASS, REGISTERED_SUBCLASS = 1, 2, 4, 8
SEPARATOR_BYTES = 1
_MAX_VARINT_BYTES = 5
_BIG_INTEGER_OFFSET = 4


class Layout(ABC):
    """Base of the layouts, which find the end of a value."""

    @abstractmethod
    def skip(self, source: DataInputView) -> None:
        """Move `source` past one value; raises `CorruptSavepoint` where the bytes do not have this layout."""

    @property
    def can_skip(self) -> bool:
        """Whether the end of a value can be found at all."""
        return True


@attrs.frozen
class Fixed(Layout):
    """`size` bytes, whatever the value."""

    size: int

    def skip(self, source: DataInputView) -> None:
        source.skip_bytes(self.size)


@attrs.frozen
class String(Layout):
    """Flink's string: a variable-length number of UTF-16 units plus one, then each unit in the same coding."""

    def skip(self, source: DataInputView) -> None:
        for _ in range(max(read_varint(source) - 1, 0)):
            read_varint(source)


@attrs.frozen
class Prefixed(Layout):
    """An i32 count of items of `item_size` bytes, and the items."""

    item_size: int = 1

    def skip(self, source: DataInputView) -> None:
        count = source.read_size("items", least_bytes_each=self.item_size)
        source.skip_bytes(count * self.item_size)


@attrs.frozen
class BigInteger(Layout):
    """An i32 c: 0 is null, 1 to 3 each mean a constant, otherwise c - 4 bytes follow."""

    def skip(self, source: DataInputView) -> None:
        source.skip_bytes(max(source.read_int() - _BIG_INTEGER_OFFSET, 0))


@attrs.frozen
class BigDecimal(Layout):
    """The unscaled value as `BigInteger`, and an i32 scale unless it is null."""

    def skip(self, source: DataInputView) -> None:
        is_null = source.peek(4) == b"\0\0\0\0"
        BigInteger().skip(source)
        if not is_null:
            source.skip_bytes(4)


@attrs.frozen
class Sequence(Layout):
    """Parts one after the other: a tuple, or a value behind a stamp."""

    parts: tuple[Layout, ...]

    def skip(self, source: DataInputView) -> None:
        for part in self.parts:
            part.skip(source)

    @property
    def can_skip(self) -> bool:
        return all(part.can_skip for part in self.parts)


@attrs.frozen
class Nullable(Layout):
    """A flag byte and the value; where the flag says null, `padding` bytes instead.

    Attributes:
        null_flag: The byte that means null: 1 nearly everywhere, 0 in object arrays ("is present").
    """

    value: Layout
    padding: int = 0
    null_flag: bool = True

    def skip(self, source: DataInputView) -> None:
        if source.read_boolean() == self.null_flag:
            source.skip_bytes(self.padding)
        else:
            self.value.skip(source)

    @property
    def can_skip(self) -> bool:
        return self.value.can_skip


@attrs.frozen
class Counted(Layout):
    """An i32 count, and that many items."""

    item: Layout

    def skip(self, source: DataInputView) -> None:
        for _ in range(source.read_size("items")):
            self.item.skip(source)

    @property
    def can_skip(self) -> bool:
        return self.item.can_skip


@attrs.frozen
class Row(Layout):
    """A mask, and the columns that it does not mark as null.

    The mask has one bit per column, 1 for null, starting at the top bit of its first byte, and zeros up to a full byte.

    Attributes:
        columns: Layouts of the columns.
        leading_bits: Bits of the mask before those of the columns: 2 for the kind of a row, or 0.
    """

    columns: tuple[Layout, ...]
    leading_bits: int = 2

    def skip(self, source: DataInputView) -> None:
        bits = self.leading_bits + len(self.columns)
        size = (bits + 7) // 8
        mask = int.from_bytes(source.read_fully(size), "big") >> size * 8 - bits
        for place, column in enumerate(self.columns, 1):
            if not mask >> len(self.columns) - place & 1:
                column.skip(source)

    @property
    def can_skip(self) -> bool:
        return all(column.can_skip for column in self.columns)


@attrs.frozen
class Either(Layout):
    """A flag byte that says which of two layouts follows: 1 the left one, 0 the right one."""

    left: Layout
    right: Layout

    def skip(self, source: DataInputView) -> None:
        (self.left if source.read_boolean() else self.right).skip(source)

    @property
    def can_skip(self) -> bool:
        return self.left.can_skip and self.right.can_skip


@attrs.frozen
class Record(Layout):
    """A flags byte, and the fields in snapshot order, each behind a null flag; or a subclass's whole value.

    Attributes:
        fields: Layouts of the fields, without their null flags.
        registered: Layouts of registered subclasses, by tag.
        unregistered: Layouts of other subclasses, by class name.
    """

    fields: tuple[Layout, ...]
    registered: tuple[Layout, ...] = ()
    unregistered: tuple[tuple[str, Layout], ...] = ()

    def skip(self, source: DataInputView) -> None:
        start = source.position
        flags = source.read_unsigned_byte()
        if flags == PLAIN_RECORD:
            for field in self.fields:
                if not source.read_boolean():
                    field.skip(source)
        elif flags == REGISTERED_SUBCLASS and (tag := source.read_unsigned_byte()) < len(self.registered):
            self.registered[tag].skip(source)
        elif flags == UNREGISTERED_SUBCLASS:
            self._skip_unregistered(source, start)
        elif flags != NULL_RECORD:
            raise CorruptSavepoint(f"a record begins with flags {flags:#04x}, or has an unknown subclass", offset=start)

    def _skip_unregistered(self, source: DataInputView, start: int) -> None:
        name = source.read_utf()
        layout = dict(self.unregistered).get(name)
        if layout is None:
            # Flink's heap backend writes its snapshots before it meets such a value: the savepoint is not damaged.
            raise OldReaderUnavailable(
                f"a record is stored as its subclass {name}, which the savepoint does not describe", offset=start
            )
        layout.skip(source)

    @property
    def can_skip(self) -> bool:
        return all(field.can_skip for field in self.fields)


@attrs.frozen
class Opaque(Layout):
    """Bytes whose end only their serializer finds."""

    def skip(self, source: DataInputView) -> None:
        raise CorruptSavepoint("the end of this value cannot be found without its serializer", offset=source.position)

    @property
    def can_skip(self) -> bool:
        return False


def read_varint(source: DataInputView) -> int:
    """Read a number of seven bits per byte, low bits first, with the top bit set on all bytes but the last."""
    value = source.read_unsigned_byte()
    if value < 0x80:
        return value
    value &= 0x7F
    start = source.position - 1
    for index in range(1, _MAX_VARINT_BYTES):
        byte = source.read_unsigned_byte()
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value
    raise CorruptSavepoint("a variable-length number does not end", offset=start)
