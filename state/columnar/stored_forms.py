"""The entries of a stored savepoint beside new rows: those that are kept, and the stored form of those replaced.

A column has one scale for all its decimals, but each Java BigDecimal has its own; sets are written sorted. Therefore an
unchanged value gets its stored bytes again, and a changed decimal gets the scale of the one it replaces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.containers.arrays import PrimitiveArraySerializer
from ...serializers.containers.lists import ListSerializer, MapSerializer, SetSerializer
from ...serializers.containers.object_arrays import GenericArraySerializer, StringArraySerializer
from ...serializers.containers.ttl import TtlSerializer
from ...serializers.containers.tuples import EitherSerializer, Left, TupleSerializer
from ...serializers.containers.wrappers import OptionalSerializer
from ...serializers.errors import StateShiftError
from ...serializers.primitives.numeric import DecimalSerializer, join_decimal, split_decimal
from ...serializers.records.classes import Record
from ...serializers.records.serializers import DescribedRecordSerializer
from ...serializers.rows.serializers import RowSerializer
from ...serializers.rows.values import Row
from ...serializers.views import SEPARATOR
from ..entry_keys import encode
from ..formats.flink.blocks import Block
from ..formats.flink.entries import read_stored
from ..formats.flink.value_readers import value_reader
from ..transcode.entry_layout import map_value

if TYPE_CHECKING:
    import decimal
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ...compat.description import StateDescription, StateKind
    from ...serializers.serializer import TypeSerializer

_MOST_DIGITS = 1000
"""The most digits that are added to a decimal to keep its scale: a stored scale may be as large as two billion."""
_LOSING = {"decimal", "set"}
_SEQUENCES = (ListSerializer, PrimitiveArraySerializer, StringArraySerializer, GenericArraySerializer)


@attrs.define
class StoredForms:
    """Converts new values of one state to the stored form of those that they replace. Created with `of`.

    Attributes:
        kind: The kind of the state.
        value: The serializer of its values; for list and map state that of the whole list or map.
        rescaled: The number of decimals whose scale differs from the stored one.
    """

    kind: StateKind
    value: TypeSerializer[Any]
    rescaled: int = attrs.field(default=0, init=False)

    @classmethod
    def of(cls, stored: StateDescription, new: StateDescription) -> StoredForms | None:
        """Return an instance; None if columns hold the values without loss, or the type of the values has changed."""
        is_same = new.kind is stored.kind and _is_same_type(stored, new)
        if not is_same or not _loses(new):
            return None
        return cls(new.kind, value_reader(new.kind, new.value.snapshot))

    def restored(self, block: Block, stored: Mapping[bytes, bytes]) -> Block:
        """Return a block of new rows with their values in the form of the stored entries with the same keys."""
        return Block.of(
            block.key_group,
            block.state_id,
            [(key, self._restored(stored.get(key, value), value)) for key, value in block.items()],
        )

    def _restored(self, stored: bytes, new: bytes) -> bytes:
        if stored == new:
            return new
        try:
            before, value = self._read(stored), self._read(new)
            if self._written(value) != new:  # its reader drops some of its bytes
                return new
            item: Any = self.value if not self.kind.has_user_keys else self.value.value  # type: ignore[attr-defined]
            written = self._written(self._formed(item, before, value))
            return stored if written == self._written(before) else written
        except StateShiftError:  # the replaced entry may be damaged
            return new

    def _read(self, data: bytes) -> Any:
        return read_stored(self.kind, self.value, data)

    def _written(self, found: Any) -> bytes:
        value: Any = self.value
        if self.kind.has_elements:
            return SEPARATOR.join(encode(value.element, item) for item in found)
        if self.kind.has_user_keys:
            return map_value(value, found)
        return encode(value, found)

    def _formed(self, serializer: TypeSerializer[Any], stored: Any, new: Any) -> Any:
        """Return a value in the form of the stored one in its place, part by part."""
        if stored is None or new is None:
            return new
        form = next((form for family, form in _FORMS if isinstance(serializer, family)), None)
        return new if form is None else form(self, serializer, stored, new)

    def _decimal(self, _: DecimalSerializer, stored: decimal.Decimal, new: decimal.Decimal) -> decimal.Decimal:
        if new == stored:
            return stored
        wanted = split_decimal(stored)[1]
        unscaled, scale = split_decimal(new)
        if abs(wanted - scale) <= _MOST_DIGITS:
            if wanted >= scale:
                return join_decimal(unscaled * 10 ** (wanted - scale), wanted)
            while scale > wanted and not unscaled % 10:
                unscaled, scale = unscaled // 10, scale - 1
        self.rescaled += scale != wanted
        return join_decimal(unscaled, scale)

    def _optional(self, serializer: OptionalSerializer[Any], stored: Any, new: Any) -> Any:
        return self._formed(serializer.value, stored, new)

    def _record(self, serializer: DescribedRecordSerializer[Any], stored: Any, new: Any) -> Any:
        before, fields = stored._asdict(), new._asdict()
        types = {field.name: field.serializer for field in serializer.fields}
        formed = {name: self._formed(types[name], before.get(name), item) for name, item in fields.items()}
        return Record(new._type_name, formed)  # noqa: SLF001 - its public way

    def _row(self, serializer: RowSerializer, stored: Any, new: Any) -> Any:
        items = [
            self._formed(one.serializer, *pair) for one, *pair in zip(serializer.columns, stored, new, strict=True)
        ]
        return Row._of(items, serializer.names)._with_kind(stored._kind)  # noqa: SLF001 - its public way

    def _tuple(self, serializer: TupleSerializer, stored: Any, new: Any) -> Any:
        return tuple(self._formed(one, *pair) for one, *pair in zip(serializer.fields, stored, new, strict=True))

    def _items(self, serializer: Any, stored: Any, new: Any) -> Any:
        """Pair elements by index, counted from the end if elements at the beginning were removed."""
        shift = 0 if stored[:1] == new[:1] or len(stored) < len(new) else len(stored) - len(new)
        before = [*stored[shift:], *[None] * len(new)]
        return [self._formed(serializer.element, *pair) for pair in zip(before, new, strict=False)]

    def _set(self, serializer: SetSerializer[Any], stored: Any, new: Any) -> Any:
        before = {item: item for item in stored}
        return frozenset(self._formed(serializer.element, before.get(item), item) for item in new)

    def _map(self, serializer: MapSerializer[Any, Any], stored: Any, new: Any) -> Any:
        keys = {name: name for name in stored}
        return {
            keys.get(name, name): self._formed(serializer.value, stored.get(name), item) for name, item in new.items()
        }

    def _stamped(self, serializer: TtlSerializer[Any], stored: Any, new: Any) -> Any:
        return attrs.evolve(new, value=self._formed(serializer.value, stored.value, new.value))

    def _either(self, serializer: EitherSerializer, stored: Any, new: Any) -> Any:
        if type(stored) is not type(new):
            return new
        side = serializer.left if isinstance(new, Left) else serializer.right
        return type(new)(self._formed(side, stored.value, new.value))


_FORMS: tuple[tuple[Any, Callable[[StoredForms, Any, Any, Any], Any]], ...] = (
    (DecimalSerializer, StoredForms._decimal),  # noqa: SLF001 - its own, as all below
    (OptionalSerializer, StoredForms._optional),  # noqa: SLF001
    (DescribedRecordSerializer, StoredForms._record),  # noqa: SLF001
    (RowSerializer, StoredForms._row),  # noqa: SLF001
    (TupleSerializer, StoredForms._tuple),  # noqa: SLF001
    (_SEQUENCES, StoredForms._items),  # noqa: SLF001
    (SetSerializer, StoredForms._set),  # noqa: SLF001
    (MapSerializer, StoredForms._map),  # noqa: SLF001
    (TtlSerializer, StoredForms._stamped),  # noqa: SLF001
    (EitherSerializer, StoredForms._either),  # noqa: SLF001
)


def _is_same_type(stored: StateDescription, new: StateDescription) -> bool:
    return new.value.new_side().ensure_compatibility(stored.value.snapshot).is_compatible_as_is()


def _loses(state: StateDescription) -> bool:
    """Whether a column cannot hold everything that the bytes of the values contain."""
    pending = [state.value.snapshot]
    while pending:
        snapshot = pending.pop()
        if snapshot.kind in _LOSING:
            return True
        pending += snapshot.children()
    return False


class KeptBlocks:
    """Yields the kept blocks key group by key group, so that new rows can be merged between them.

    Args:
        blocks: The kept blocks, with the state ids of the new header; key groups ascend, and in each the blocks of
            `appended` come last, so that rows can follow them.
        appended: The state to which rows are added, or None. Its keys in the current key group are remembered.
        replaced: The state that rows replace, or None: its blocks are not yielded. Its entries in the current key group
            are remembered.
        forms: The converter of new rows to the form of the entries that they replace.
    """

    def __init__(
        self,
        blocks: Iterator[Block],
        appended: int | None = None,
        replaced: int | None = None,
        forms: StoredForms | None = None,
    ) -> None:
        self._blocks = blocks
        self._waiting: Block | None = None
        self._appended, self._replaced, self._forms = appended, replaced, forms
        self._key_group = -1
        self._keys: set[bytes] = set()
        self._stored: dict[bytes, bytes] = {}

    def up_to(self, key_group: int) -> Iterator[Block]:
        """Yield the blocks that come before the new rows of a key group."""
        if key_group != self._key_group:
            self._key_group = key_group
            self._keys.clear()
            self._stored.clear()
        while (block := self._waiting or next(self._blocks, None)) is not None:
            self._waiting = block if block.key_group > key_group else None
            if self._waiting is not None:
                return
            if block.state_id == self._replaced:
                if block.key_group == key_group:
                    self._stored.update(block.items())
                continue
            if block.state_id == self._appended and block.key_group == key_group:
                self._keys.update(key for key, _ in block.items())
            yield block

    def rest(self) -> Iterator[Block]:
        """Yield the blocks that come after the last rows."""
        if self._waiting is not None:
            yield from self._but_replaced([self._waiting])
        yield from self._but_replaced(self._blocks)

    def _but_replaced(self, blocks: Iterable[Block]) -> Iterator[Block]:
        return (block for block in blocks if block.state_id != self._replaced)

    def as_stored(self, block: Block) -> Block:
        """Return a block of new rows in the form of the entries that they replace; call `up_to` for it first."""
        if self._forms is None or not self._stored or block.state_id != self._replaced:
            return block
        return self._forms.restored(block, self._stored)

    def taken_by(self, block: Block) -> bytes | None:
        """Return a key of new rows that has an entry already, or None; call `up_to` for their key group first."""
        if not self._keys or block.state_id != self._appended:
            return None
        return next((key for key, _ in block.items() if key in self._keys), None)
