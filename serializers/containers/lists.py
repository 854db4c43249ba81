"""Lists, sets and maps.

Maps in Flink's format, and the rules MAP-1 to MAP-4 and OPT-4.

    i32 n, n x (key, bool is null, the value if not)

Entries are written in the map's iteration order, as by Flink; a dict that was read has the order of the bytes.
Source: format notes 6.1 and 7; compatibility rules 4.5.

Lists and sets in Flink's format, and rules LIST-1 to LIST-3.

    list   i32 n, n elements
    set    i32 n, n x (bool is null, the element if not)

Elements of a set are written in the order of their bytes, so that equal sets have equal bytes in every process.
Source: format notes 6.1 and 7; compatibility rules 4.5.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import attrs

from .. import rewrite
from ..compatibility import Child, CompatibilityResult, Finding, Flag, Verdict, compose
from ..errors import StateShiftError, ValueNotConvertible, add_step, shown
from ..registry import register_snapshot
from ..scalars import BASE
from ..serializer import KEEP_OLD_TYPE, NULLS_DECLARED, TypeSerializer, unrelated
from ..snapshot import CompositeTypeSerializerSnapshot, TypeSerializerConfigSnapshot
from ..ways_out import by_migration
from .pieces import (
    SequenceSnapshot,
    convert_each,
    convert_elements,
    element_child,
    encode_each,
    from_other,
    keep_null_flag,
    nulls_untold,
    outer_result,
    unique,
    unique_as_stored,
)
from .wrappers import OptionalSerializer, without_ttl_awareness

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..serializer import TypeDeserializer
    from ..views import DataInputView, DataOutputView

K = TypeVar("K")
V = TypeVar("V")

_KEY, _VALUE = "<key>", "{}"


@attrs.frozen
class MapConversion:
    """Converts keys and values, and refuses two keys that become equal (rule MAP-3)."""

    key: Callable[[Any], Any] | None
    value: Callable[[Any], Any] | None

    def __call__(self, value: Any) -> dict[Any, Any]:
        keys, items = list(value.keys()), list(value.values())
        if self.key is not None:
            keys = convert_each(self.key, keys, _KEY)
            unique(keys, "keys of a map become", _KEY, "MAP-3")
        if self.value is not None:
            items = convert_each(self.value, items, _VALUE)
        return dict(zip(keys, items, strict=True))


@attrs.frozen
class MapSerializer(TypeSerializer[Mapping[K, V]]):
    """Flink's MapSerializer, for dicts.

    Attributes:
        key: The serializer of the keys; a key is never null.
        value: The serializer of the values.
        nullable_values: Whether a value may be None; the layout has a flag for it (rule OPT-4).
        stores_no_null: Whether it is known that no stored value is null, although no snapshot says so (rule OPT-5).
    """

    key: TypeSerializer[K]
    value: TypeSerializer[V]
    nullable_values: bool = attrs.field(default=False, kw_only=True, metadata=NULLS_DECLARED)
    stores_no_null: bool = attrs.field(default=False, eq=False, kw_only=True)

    @property
    def layout(self) -> rewrite.ByteRewrite:
        return rewrite.Counted(rewrite.Nullable(self.value.layout), self.key.layout)

    def serialize(self, value: Mapping[K, V], target: DataOutputView) -> None:
        if not isinstance(value, Mapping):
            raise ValueNotConvertible(f"{shown(value)} is not a map")
        pieces = encode_each(self.key, value.keys(), _KEY)
        unique(pieces, "keys of a map are written", _KEY)
        target.write_int(len(pieces))
        for piece, (key, item) in zip(pieces, value.items(), strict=True):
            target.write(piece)
            self.write_value(key, item, target)

    def write_value(self, key: K, item: V | None, target: DataOutputView) -> None:
        """Write what follows a key: the flag, and the value."""
        if item is None:
            self._check_null(key)
            target.write_byte(1)
            return
        target.write_byte(0)
        try:
            self.value.serialize(item, target)
        except StateShiftError as error:
            add_step(error, _VALUE)
            raise

    def deserialize(self, source: DataInputView) -> dict[K, V]:
        count = source.read_size("entries of a map", least_bytes_each=2)
        keys: list[K] = []
        values: list[Any] = []
        places = []
        step = _KEY
        try:
            for _ in range(count):
                step, start = _KEY, source.position
                keys.append(self.key.deserialize(source))
                places.append((start, source.position))
                step = _VALUE
                values.append(None if source.read_boolean() else self.value.deserialize(source))
        except StateShiftError as error:
            add_step(error, step)
            raise
        unique_as_stored(keys, source, places, "keys of a map", _KEY)
        if not self.takes_null:
            for key, value in zip(keys, values, strict=True):
                if value is None:
                    self._check_null(key)
        return dict(zip(keys, values, strict=True))

    @property
    def takes_null(self) -> bool:
        # As in Flink, the map's own flag marks a null, even where the value's serializer could write it.
        return self.nullable_values or isinstance(self.value, OptionalSerializer)

    def _check_null(self, key: K) -> None:
        if not self.takes_null:
            raise ValueNotConvertible(
                f"the value at key {shown(key)} of a map is null, but values are not declared optional",
                advice="declare the value optional: dict[…, … | None]",
                path="$" + _VALUE,
            )

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[Mapping[K, V]]:
        return MapSerializerSnapshot((self.key.snapshot_configuration(), self.value.snapshot_configuration()))

    def ensure_compatibility(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[Mapping[K, V]]:
        if not isinstance(snapshot, MapSerializerSnapshot):
            return unrelated(self, snapshot)
        old_key, old_value = snapshot.nested[0], without_ttl_awareness(snapshot.nested[1])
        value, findings = keep_null_flag(self.value, old_value, _VALUE, nullable=self.nullable_values)
        findings += nulls_untold(self.value, old_value, _VALUE, nullable=self.takes_null or self.stores_no_null)
        key_result = self.key.ensure_compatibility(old_key)
        if key_result.is_migration_required() and not self.key.is_counted:
            reason = "two stored keys that become one would abort the migration"
            ways = (by_migration("it is checked"), KEEP_OLD_TYPE)
            old, new, flags = old_key.describe(), self.key.describe(), (Flag.COLLISION_CHECK,)
            collision = Finding("$" + _KEY, "MAP-3", Verdict.REQUIRES_MIGRATION, old, new, reason, ways, flags)
            findings = (collision, *findings)
        return compose(
            outer_result(findings),
            [
                Child(_KEY, self.key, key_result, old_key.restore_serializer),
                Child(_VALUE, value, value.ensure_compatibility(old_value), old_value.restore_serializer),
            ],
            rebuild=lambda nested: attrs.evolve(self, key=nested[0], value=nested[1]),
            convert=lambda parts: None if parts == [None, None] else MapConversion(*parts),
            read_with=lambda readers: MapSerializer(*readers, nullable_values=True),
        )


@register_snapshot
@attrs.define
class MapSerializerSnapshot(CompositeTypeSerializerSnapshot[Any]):
    """Snapshot of `MapSerializer`. It does not say whether nulls are stored, so a restored serializer reads them."""

    snapshot_id: ClassVar[str] = BASE + "MapSerializerSnapshot"
    kind: ClassVar[str] = "map"
    java_class: ClassVar[str] = "java.util.Map"
    nested_count: ClassVar[int] = 2
    steps: ClassVar[tuple[str, ...]] = (_KEY, _VALUE)

    nested: tuple[TypeSerializerConfigSnapshot[Any], ...] = ()

    def restore_serializer(self) -> TypeSerializer[Any]:
        return MapSerializer(self.restore_nested(0), self.restore_nested(1), nullable_values=True)


E = TypeVar("E")

_STEP = "[]"


@attrs.frozen
class ListSerializer(TypeSerializer[list[E]]):
    """Flink's ListSerializer. Elements have no null flag: they are null only where their own type is optional.

    Attributes:
        element: The serializer of the elements.
    """

    flags_elements: ClassVar[bool] = False

    element: TypeSerializer[E]

    @property
    def layout(self) -> rewrite.ByteRewrite:
        return rewrite.Counted(self.element.layout)

    def serialize(self, value: list[E], target: DataOutputView) -> None:
        if not isinstance(value, list | tuple):
            raise ValueNotConvertible(f"{shown(value)} is not a list")
        target.write_int(len(value))
        try:
            for item in value:
                self.element.serialize(item, target)
        except StateShiftError as error:
            add_step(error, _STEP)
            raise

    def deserialize(self, source: DataInputView) -> list[E]:
        count = source.read_size("elements of a list")
        try:
            return [self.element.deserialize(source) for _ in range(count)]
        except StateShiftError as error:
            add_step(error, _STEP)
            raise

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[list[E]]:
        return ListSerializerSnapshot((self.element.snapshot_configuration(),))

    def ensure_compatibility(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[list[E]]:
        if not isinstance(snapshot, ListSerializerSnapshot):
            return from_other(self, self.element, snapshot, takes_null=False)
        return compose(
            CompatibilityResult.compatible(),
            [element_child(self.element, snapshot)],
            rebuild=lambda nested: attrs.evolve(self, element=nested[0]),
            convert=convert_elements,
            read_with=lambda readers: snapshot.restore_with(readers[0]),
        )


@attrs.frozen
class ArrayListSerializer(ListSerializer[E]):
    """Flink's ArrayListSerializer: the bytes of a list, under another snapshot."""

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[list[E]]:
        return ArrayListSerializerSnapshot((self.element.snapshot_configuration(),))


@attrs.frozen
class SetConversion:
    """Converts element by element, and refuses two elements that become equal (rule LIST-2)."""

    convert: Callable[[Any], Any]

    def __call__(self, value: Any) -> frozenset[Any]:
        return unique(convert_each(self.convert, value, _STEP), "elements of a set become", _STEP, "LIST-2")


@attrs.frozen
class SetSerializer(TypeSerializer[AbstractSet[E]]):
    """Flink's SetSerializer.

    Attributes:
        element: The serializer of the elements.
        nullable_elements: Whether None may be an element; the layout has a flag for it (rule OPT-4).
        frozen: Whether a frozenset is read, which can itself be an element or a key; else a set.
    """

    element: TypeSerializer[E]
    nullable_elements: bool = attrs.field(default=False, kw_only=True, metadata=NULLS_DECLARED)
    frozen: bool = attrs.field(default=False, eq=False, kw_only=True)

    @property
    def layout(self) -> rewrite.ByteRewrite:
        return rewrite.Counted(rewrite.Nullable(self.element.layout))

    def serialize(self, value: AbstractSet[E], target: DataOutputView) -> None:
        if not isinstance(value, AbstractSet):
            raise ValueNotConvertible(f"{shown(value)} is not a set")
        present = [item for item in value if item is not None]
        has_null = len(present) < len(value)
        if has_null:
            self._check_null()
        pieces = encode_each(self.element, present, _STEP)
        pieces.sort()
        unique(pieces, "elements of a set are written", _STEP)
        target.write_int(len(value))
        for piece in pieces:
            target.write(b"\0")
            target.write(piece)
        if has_null:
            target.write(b"\1")

    def deserialize(self, source: DataInputView) -> AbstractSet[E]:
        count = source.read_size("elements of a set")
        items: list[Any] = []
        places = []
        for _ in range(count):
            start = source.position
            if source.read_boolean():
                self._check_null()
                items.append(None)
                places.append((start, source.position))
                continue
            try:
                items.append(self.element.deserialize(source))
            except StateShiftError as error:
                add_step(error, _STEP)
                raise
            places.append((start, source.position))
        distinct = unique_as_stored(items, source, places, "elements of a set", _STEP)
        return distinct if self.frozen else set(distinct)

    @property
    def _takes_null(self) -> bool:
        # As in Flink, the set's own flag marks a null, even where the element's serializer could write it.
        return self.nullable_elements or isinstance(self.element, OptionalSerializer)

    def _check_null(self) -> None:
        if not self._takes_null:
            raise ValueNotConvertible(
                "found null in a set whose elements are not declared optional",
                advice="declare the element optional: set[… | None]",
                path="$" + _STEP,
            )

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[AbstractSet[E]]:
        return SetSerializerSnapshot((self.element.snapshot_configuration(),))

    def ensure_compatibility(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[AbstractSet[E]]:
        if not isinstance(snapshot, SetSerializerSnapshot):
            return unrelated(self, snapshot)
        stored = snapshot.nested[0]
        element, findings = keep_null_flag(self.element, stored, _STEP, nullable=self.nullable_elements)
        findings += nulls_untold(self.element, stored, _STEP, nullable=self._takes_null)
        result = element.ensure_compatibility(stored)
        # Only a conversion that loses information can make two values equal.
        may_merge = any(finding.has(Flag.LOSSY) or finding.has(Flag.DROPS) for finding in result.findings)
        if result.is_migration_required() and may_merge:
            reason = "two stored elements that become one would abort the migration"
            flags, ways = (Flag.COLLISION_CHECK,), (by_migration("it is checked"), KEEP_OLD_TYPE)
            old, new = stored.describe(), self.element.describe()
            findings += (
                Finding("$" + _STEP, "LIST-2", Verdict.REQUIRES_MIGRATION, old, new, reason, ways, flags),
            )  # fmt: skip
        return compose(
            outer_result(findings),
            [Child(_STEP, element, result, stored.restore_serializer)],
            rebuild=lambda nested: attrs.evolve(self, element=nested[0]),
            convert=lambda conversions: None if conversions[0] is None else SetConversion(conversions[0]),
            read_with=lambda readers: SetSerializer(readers[0], nullable_elements=True, frozen=True),
        )


@register_snapshot
@attrs.define
class ListSerializerSnapshot(SequenceSnapshot, CompositeTypeSerializerSnapshot[Any]):
    """Snapshot of `ListSerializer`."""

    snapshot_id: ClassVar[str] = BASE + "ListSerializerSnapshot"
    kind: ClassVar[str] = "list"
    java_class: ClassVar[str] = "java.util.List"
    nested_count: ClassVar[int] = 1
    steps: ClassVar[tuple[str, ...]] = (_STEP,)

    nested: tuple[TypeSerializerConfigSnapshot[Any], ...] = ()

    def element_snapshot(self) -> TypeSerializerConfigSnapshot[Any]:
        return self.nested[0]

    def restore_serializer(self) -> TypeSerializer[Any]:
        return self.restore_with(self.restore_nested(0))

    def restore_with(self, element: TypeDeserializer[Any]) -> TypeSerializer[Any]:
        return ListSerializer(cast("TypeSerializer[Any]", element))


@register_snapshot
@attrs.define
class ArrayListSerializerSnapshot(ListSerializerSnapshot):
    """Snapshot of `ArrayListSerializer`. Its bytes are those of a list, so either serializer can replace the other."""

    snapshot_id: ClassVar[str] = "org.apache.flink.runtime.state.ArrayListSerializerSnapshot"

    def restore_with(self, element: TypeDeserializer[Any]) -> TypeSerializer[Any]:
        return ArrayListSerializer(cast("TypeSerializer[Any]", element))


@register_snapshot
@attrs.define
class SetSerializerSnapshot(CompositeTypeSerializerSnapshot[Any]):
    """Snapshot of `SetSerializer`. It does not say whether nulls are stored, so a restored serializer reads them."""

    snapshot_id: ClassVar[str] = BASE + "SetSerializerSnapshot"
    kind: ClassVar[str] = "set"
    java_class: ClassVar[str] = "java.util.Set"
    nested_count: ClassVar[int] = 1
    steps: ClassVar[tuple[str, ...]] = (_STEP,)

    nested: tuple[TypeSerializerConfigSnapshot[Any], ...] = ()

    def restore_serializer(self) -> TypeSerializer[Any]:
        return SetSerializer(self.restore_nested(0), nullable_elements=True, frozen=True)
