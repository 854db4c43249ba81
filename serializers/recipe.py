"""Recipes: how the bytes of new values come from those of old ones, as data.

For a reader, a conversion and a writer, a family tells here what objects in between would come to: bytes that stay, an
int that gets wider, a constant in place of a field that is new. The block transcoder compiles recipes. Where a value is
not what a recipe expects (a null without a place, half a varint, a registered subclass), its entry is *odd*: it goes
through objects, alone, whose result or error holds. So a recipe never has to tell an error.

What has no recipe gives None: code of the user's, pickles, types that contain themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from .errors import StateShiftError
from .registry import is_built_in
from .views import DataOutputView

if TYPE_CHECKING:
    from collections.abc import Callable

    from .defaults import Default
    from .serializer import TypeDeserializer, TypeSerializer

_CONSTANT_FACTORIES = (list, dict, set, frozenset, tuple, str, bytes, int, float, bool)


@attrs.frozen
class Recipe:
    """How one new value comes from one old value."""


@attrs.frozen
class Fixed(Recipe):
    """`size` bytes that stay, whatever they are."""

    size: int


@attrs.frozen
class Literal(Recipe):
    """One byte that stays, and must be `byte`."""

    byte: int


@attrs.frozen
class Boolean(Recipe):
    """One byte that stays, 0 or 1."""


@attrs.frozen
class Float(Recipe):
    """A float of `size` bytes that stays; one of 4 is a number, for objects would change the bits of some NaNs."""

    size: int


@attrs.frozen
class Ranged(Recipe):
    """A signed integer of `size` bytes that stays, from `low` to `high`."""

    size: int
    low: int
    high: int


@attrs.frozen
class Date(Recipe):
    """An i32 year, i8 month and i8 day that stay, and are a day of the calendar."""


@attrs.frozen
class Text(Recipe):
    """A Flink string that stays: not null, and every varint as short as can be."""


@attrs.frozen
class Blob(Recipe):
    """An i32 count of items of `item_size` bytes, which stay."""

    item_size: int = 1


@attrs.frozen
class BigInteger(Recipe):
    """A big integer that stays: not null, and in as few bytes as can be."""


@attrs.frozen
class Widened(Recipe):
    """A signed integer of `old` bytes that becomes one of `new` bytes."""

    old: int
    new: int


@attrs.frozen
class ToFloat(Recipe):
    """A number that becomes a float of `size` bytes, rounded first to 64 bits and then to 32.

    Attributes:
        old: Bytes of a signed integer; 0: a 32-bit float, which becomes one of 64.
    """

    old: int
    size: int


@attrs.frozen
class ToBigInteger(Recipe):
    """A signed integer of `old` bytes that becomes a big integer."""

    old: int


@attrs.frozen
class ToUtf8(Recipe):
    """A Flink string that becomes its UTF-8 behind an i32 size; half a character has none."""


@attrs.frozen
class FromUtf8(Recipe):
    """Sound UTF-8 behind an i32 size that becomes a Flink string."""


@attrs.frozen
class Ordinal(Recipe):
    """An i32 that indexes `table`, and becomes what stands there; -1 where nothing does."""

    table: tuple[int, ...]


@attrs.frozen
class Varint(Recipe):
    """Avro's number of 32 or 64 bits, zigzag and seven bits a byte, from `low` to `high` and as short as can be.

    Attributes:
        bits: 32 or 64.
        low: The least.
        high: The greatest.
        factor: What it is multiplied by.
    """

    bits: int
    low: int = -(1 << 63)
    high: int = (1 << 63) - 1
    factor: int = 1


@attrs.frozen
class VarText(Recipe):
    """Avro's string that stays: its size as a number, and sound UTF-8."""


@attrs.frozen
class VarBlob(Recipe):
    """Avro's bytes that stay: their size as a number, and they."""


@attrs.frozen
class VarUuid(Recipe):
    """Avro's string that stays and is a UUID as Python writes it: lower case, with hyphens."""


@attrs.frozen
class Unscaled(Recipe):
    """A number that stays, with no more digits than `digits`, big-endian, in few bytes.

    Attributes:
        digits: The most.
        size: How many bytes it has; 0: Avro's bytes, as few as can be.
    """

    digits: int
    size: int = 0


@attrs.frozen
class VarToFloat(Recipe):
    """A number that becomes a little-endian float of `size` bytes, rounded first to 64 bits and then to 32.

    Attributes:
        bits: Of Avro's number; 0: a 32-bit float, little-endian, that is a number.
        size: 4 or 8.
    """

    bits: int
    size: int


@attrs.frozen
class VarChoice(Recipe):
    """Avro's number that tells of which branch a value is, and that value.

    Attributes:
        branches: The recipe of a value of each, and what stands before the new one.
    """

    branches: tuple[tuple[Recipe, bytes], ...]


@attrs.frozen
class VarOrdinal(Recipe):
    """Avro's number that indexes `table`, and becomes what stands there; -1 where nothing does."""

    table: tuple[int, ...]


@attrs.frozen
class VarCounted(Recipe):
    """Avro's array or map of one block that stays one: a count as a number, so many items, and 0; or 0 alone.

    Attributes:
        item: Of an element, or of a value.
        key: As of `Counted`.
    """

    item: Recipe
    key: Recipe | None = None


@attrs.frozen
class LittleFloat(Recipe):
    """As `Float(4)`, little-endian."""


@attrs.frozen
class Constant(Recipe):
    """Bytes of a new value that come from no old one."""

    data: bytes


@attrs.frozen
class Sequence(Recipe):
    """Parts that lie one after the other.

    Attributes:
        parts: Of the old value, in the order of its bytes.
        emitted: Of the new value: the place of a part, or constant bytes; what is not named is dropped. None: all
            parts, as they lie.
    """

    parts: tuple[Recipe, ...]
    emitted: tuple[int | bytes, ...] | None = None


@attrs.frozen
class Nullable(Recipe):
    """A flag byte and a value; where the flag says null, `padding` bytes instead.

    Attributes:
        value: Of the value behind the flag.
        padding: Bytes behind the flag of an old null.
        null_flag: The byte that means null.
        present: What stands before a new value.
        null: What a null becomes; None: it is odd.
        value_flag: The byte that means that a value follows.
    """

    value: Recipe
    padding: int = 0
    null_flag: int = 1
    present: bytes = b"\0"
    null: bytes | None = b"\1"
    value_flag: int = 0


UNSET, SET = -1, -2
"""Of a bit of a new mask that comes from no old one."""


@attrs.frozen
class Masked(Recipe):
    """A mask, and columns; a bit of the mask says of each column that it is null, and then it has no bytes.

    Attributes:
        parts: Of the old columns, in the order of their bytes.
        leading: Bits of the old mask before those of the columns. Behind them are zeros, to full bytes.
        clear: Places of bits of the old mask that must not be set: nulls without a place are odd.
        mask: Of each bit of the new mask: the place of an old one, or `UNSET` or `SET`.
        emitted: As of `Sequence`, of the columns; a new one that is null is not among them.
    """

    parts: tuple[Recipe, ...]
    leading: int
    clear: tuple[int, ...]
    mask: tuple[int, ...]
    emitted: tuple[int | bytes, ...]

    @property
    def keeps_mask(self) -> bool:
        """Whether the new mask is the old one."""
        return self.mask == tuple(range(self.leading + len(self.parts)))


@attrs.frozen
class Either(Recipe):
    """A flag byte that stays: 1 before the left one of two, 0 before the right one."""

    left: Recipe
    right: Recipe


@attrs.frozen
class Sized(Recipe):
    """A value that stays, and behind it the number of its bytes, lowest byte first, in as few bytes as can be."""

    value: Recipe


@attrs.frozen
class Rest(Recipe):
    """All bytes that are left, which stay."""


@attrs.frozen
class Counted(Recipe):
    """An i32 count that stays, and that many items, in their order.

    Attributes:
        item: Of an element, or of the value behind a key.
        key: Of what stands before each value, no two alike, and `tells_apart`; None where nothing does.
    """

    item: Recipe
    key: Recipe | None = None


@attrs.frozen
class Sorted(Recipe):
    """An i32 count that stays, and that many items whose bytes ascend: then they do so afterwards.

    Attributes:
        item: One that `is_sortable`.
    """

    item: Recipe


def recipe_of(
    reader: TypeDeserializer[Any], conversion: Callable[[Any], Any] | None, writer: TypeSerializer[Any]
) -> Recipe | None:
    """Give the recipe for what `reader` reads, `conversion` converts and `writer` writes; None where there is none.

    Only serializers of this package are asked: what a user derives from one may write other bytes.
    """
    if not all(is_built_in(type(one)) for one in (reader, writer)):
        return None
    return writer.recipe(reader, conversion)


def present(recipe: Recipe) -> Recipe:
    """Give the recipe of a value that stands behind a null flag already: a null of its own would be told by that."""
    return attrs.evolve(recipe, null=None) if isinstance(recipe, Nullable) else recipe


def is_sortable(recipe: Recipe) -> bool:
    """Whether values in the order of their old bytes are also in that of the new ones, and differ where bytes do."""
    if isinstance(recipe, Sequence):
        return recipe.emitted is None and all(isinstance(part, Fixed | Ranged | Date) for part in recipe.parts)
    return isinstance(recipe, Fixed | Boolean | Text | Blob | Widened | Ranged | Date)


def tells_apart(recipe: Recipe) -> bool:
    """Whether values differ where their old bytes do, and so do the new ones."""
    if isinstance(recipe, Ordinal):
        return -1 not in recipe.table and len(set(recipe.table)) == len(recipe.table)
    if isinstance(recipe, Sequence):
        return recipe.emitted is None and all(map(tells_apart, recipe.parts))
    return is_sortable(recipe) or isinstance(recipe, VarText)


def fits_always(recipe: Recipe) -> bool:
    """Whether bytes stay, of every value that the stored type has."""
    match recipe:
        case Sequence(parts, emitted):
            return emitted is None and all(map(fits_always, parts))
        case Nullable(value, null=null):
            return null is not None and fits_always(value)
        case Fixed() | Boolean() | Float() | Text() | Blob() | BigInteger() | VarText() | VarBlob() | LittleFloat():
            return True
    return False


def constant(serializer: TypeSerializer[Any], default: Default | None) -> bytes | None:
    """Give the bytes of a default; b"" for None, and None where it may differ from value to value, or fails."""
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
    except Exception:  # noqa: BLE001 - a default of the user's that does not fit is told where it is met
        return None
    return target.getvalue()
