"""Lists and sorted maps of Flink's table runtime.

    LinkedList   i32 size, with nulls a bit an element, 1 for null, zeros to full bytes; the elements that are not null
                 snapshot: composite, outer version 3: bool, whether it has the bits; nested: that of the elements
    SortedMap    as a map of Flink's
                 snapshot: a comparator in Java serialization; nested: those of keys and values

The comparator is generated code. Only its structure is read: it is written again as the bytes that were read, of what
is stored or of a template (rule SQL-22).
Source: native snapshot notes, 6; `LinkedListSerializer`, `SortedMapSerializerSnapshot` of Flink 2.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from ..compatibility import Child, CompatibilityResult, Finding, Verdict, compose
from ..containers.lists import MapConversion, MapSerializer
from ..errors import (
    CorruptSavepoint,
    DeclarationError,
    OldReaderUnavailable,
    StateShiftError,
    ValueNotConvertible,
    add_step,
    shown,
)
from ..registry import register_snapshot
from ..serializer import KEEP_OLD_TYPE, TypeSerializer, incompatible, unrelated
from ..snapshot import (
    NESTED,
    NESTED_MAGIC,
    NESTED_VERSION,
    CompositeTypeSerializerSnapshot,
    TypeSerializerConfigSnapshot,
    read_versioned_snapshot,
)
from ..views import DataInputView
from ..ways_out import by_migration
from .java_objects import JavaArray, JavaObject, read_java_object
from .logical_types import LogicalType, logical_type_of

if TYPE_CHECKING:
    from ..views import DataOutputView

_RUNTIME = "org.apache.flink.table.runtime.typeutils."
_STEP, _KEY, _VALUE = "[]", "<key>", "{}"
_PARTS_OF_A_MAP = 2
_ORDER = ("compareKeyPositions", "compareKeyTypes", "compareOrders", "nullsIsLast")
"""What Flink's `ComparableRecordComparator` says of the order that its generated code keeps."""


@attrs.frozen
class LinkedListSerializer(TypeSerializer[list[Any]]):
    """Lists.

    Attributes:
        element: The serializer of the elements.
        has_null_mask: Whether an element may be None.
    """

    element: TypeSerializer[Any]
    has_null_mask: bool = True

    def serialize(self, value: list[Any], target: DataOutputView) -> None:
        if not isinstance(value, list | tuple):
            raise ValueNotConvertible(f"{shown(value)} is not a list")
        target.write_int(len(value))
        mask = 0
        for item in value:
            mask = mask << 1 | (item is None)
        if self.has_null_mask:
            target.write((mask << -len(value) % 8).to_bytes((len(value) + 7) // 8, "big"))
        elif mask:
            raise ValueNotConvertible(f"{shown(value)} has a null, and the list has no place for it")
        try:
            for item in value:
                if item is not None:
                    self.element.serialize(item, target)
        except StateShiftError as error:
            add_step(error, _STEP)
            raise

    def deserialize(self, source: DataInputView) -> list[Any]:
        start = source.position
        count = source.read_size("elements of a list", least_bytes_each=0 if self.has_null_mask else 1)
        mask = 0
        if self.has_null_mask:
            padded = int.from_bytes(source.read_fully((count + 7) // 8), "big")
            mask = padded >> -count % 8
            if mask << -count % 8 != padded:
                raise CorruptSavepoint("the nulls of a list have bits beyond its last element", offset=start)
        try:
            return [
                None if mask >> place & 1 else self.element.deserialize(source) for place in range(count - 1, -1, -1)
            ]
        except StateShiftError as error:
            add_step(error, _STEP)
            raise

    def snapshot_configuration(self) -> LinkedListSerializerSnapshot:
        return LinkedListSerializerSnapshot((self.element.snapshot_configuration(),), self.has_null_mask)


@register_snapshot
@attrs.define
class LinkedListSerializerSnapshot(CompositeTypeSerializerSnapshot[Any]):
    """Snapshot of `LinkedListSerializer`.

    Attributes:
        nested: The snapshot of the serializer of the elements.
        has_null_mask: Whether an element may be null.
    """

    snapshot_id: ClassVar[str] = f"{_RUNTIME}LinkedListSerializer$LinkedListSerializerSnapshot"
    kind: ClassVar[str] = "LinkedList"
    java_class: ClassVar[str] = "java.util.LinkedList"
    outer_version: ClassVar[int] = 3
    nested_count: ClassVar[int] = 1
    steps: ClassVar[tuple[str, ...]] = (_STEP,)

    nested: tuple[TypeSerializerConfigSnapshot[Any], ...] = ()
    has_null_mask: bool = True

    def read_outer_snapshot(self, read_outer_version: int, source: DataInputView) -> None:
        self.has_null_mask = source.read_boolean()

    def write_outer_snapshot(self, target: DataOutputView) -> None:
        target.write_boolean(self.has_null_mask)

    def restore_serializer(self) -> LinkedListSerializer:
        return LinkedListSerializer(self.restore_nested(0), self.has_null_mask)


@attrs.frozen
class SortedMapSerializer(MapSerializer[Any, Any]):
    """Maps that a comparator sorts; their bytes are those of a map, in its order.

    Attributes:
        comparator: The comparator in Java serialization.
        is_of_template: Whether it was taken from a template: two plans say that the keys keep their order in it.
    """

    comparator: bytes = attrs.field(default=b"", kw_only=True, repr=False)
    is_of_template: bool = attrs.field(default=False, kw_only=True)

    def snapshot_configuration(self) -> SortedMapSerializerSnapshot:
        nested = (self.key.snapshot_configuration(), self.value.snapshot_configuration())
        return SortedMapSerializerSnapshot(nested, self.comparator)

    def ensure_compatibility(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[Any]:
        if not isinstance(snapshot, SortedMapSerializerSnapshot):
            return unrelated(self, snapshot)
        given: tuple[Finding, ...] = ()
        if self.is_of_template:
            old, new = snapshot.nested[0].describe(), self.key.describe()
            reason = "the order of the keys is stored as objects of Java, which are written as in the template"
            ways = by_migration("the order is that of the template"), KEEP_OLD_TYPE
            given = (Finding("$", "SQL-22", Verdict.REQUIRES_MIGRATION, old, new, reason, ways),)
        elif snapshot.comparator != self.comparator:
            reason = "the order of the keys is generated code, which differs"
            return incompatible(self, snapshot, "SQL-2", reason, KEEP_OLD_TYPE)
        parts = zip((_KEY, _VALUE), (self.key, self.value), snapshot.nested, strict=True)
        return compose(
            CompatibilityResult.requires_migration(*given) if given else CompatibilityResult.compatible(),
            [Child(step, new, new.ensure_compatibility(old), old.restore_serializer) for step, new, old in parts],
            rebuild=lambda nested: attrs.evolve(self, key=nested[0], value=nested[1]),
            convert=lambda found: None if found == [None, None] else MapConversion(*found),
            read_with=lambda readers: attrs.evolve(self, key=readers[0], value=readers[1]),
        )


@register_snapshot
@attrs.define
class SortedMapSerializerSnapshot(TypeSerializerConfigSnapshot[Any]):
    """Snapshot of `SortedMapSerializer`.

    Attributes:
        nested: The snapshots of the serializers of keys and values.
        comparator: The comparator in Java serialization; written as it was read.
    """

    snapshot_id: ClassVar[str] = f"{_RUNTIME}SortedMapSerializerSnapshot"
    version: ClassVar[int] = 3
    kind: ClassVar[str] = "SortedMap"
    java_class: ClassVar[str] = "java.util.SortedMap"

    nested: tuple[TypeSerializerConfigSnapshot[Any], ...] = ()
    comparator: bytes = attrs.field(default=b"", repr=False)

    def children(self) -> tuple[TypeSerializerConfigSnapshot[Any], ...]:
        return self.nested

    def step(self, index: int) -> str:
        """Return the path step that leads to the keys, or to the values."""
        return (_KEY, _VALUE)[index]

    def describe(self) -> str:
        return f"{self.kind}<{', '.join(one.describe() for one in self.nested)}> in the order of kept Java code"

    @property
    def order(self) -> tuple[tuple[LogicalType, bool, bool], ...]:
        """What the comparator says of each field of the keys: type, whether it ascends, whether nulls are last.

        Empty if it is another one than Flink's; raises `CorruptSavepoint` if it orders by what is no type.
        """
        found = read_java_object(DataInputView(self.comparator)) if self.comparator else None
        parts = [found.get(name) if isinstance(found, JavaObject) else None for name in _ORDER]
        places, types, ascends, nulls = (one.items if isinstance(one, JavaArray) else [] for one in parts)
        if places != list(range(len(types))) or {len(types)} != {len(ascends), len(nulls)}:
            return ()
        return tuple(zip((logical_type_of(of, 0) for of in types), ascends, nulls, strict=True))

    def read(self, source: DataInputView) -> None:
        start = source.position
        read_java_object(source)
        self.comparator = source.span(start)
        source.expect(NESTED_MAGIC, "the magic number before nested snapshots")
        source.expect(NESTED_VERSION, "the version of nested snapshots")
        source.expect(_PARTS_OF_A_MAP, "the number of nested snapshots")
        self.nested = tuple(read_versioned_snapshot(source) for _ in range(_PARTS_OF_A_MAP))

    def write(self, target: DataOutputView) -> None:
        if not self.comparator:
            raise DeclarationError(
                f"the comparator of {self.describe()} is code of Java, which is only written as it was read",
                advice="take the type from a savepoint of a job that has it",
            )
        target.write(self.comparator)
        NESTED.write(target, self.nested)

    def restore_serializer(self) -> SortedMapSerializer:
        if len(self.nested) != _PARTS_OF_A_MAP:
            raise OldReaderUnavailable(f"a snapshot of {self.kind} that was not read has no types")
        key, value = (one.restore_serializer() for one in self.nested)
        return SortedMapSerializer(key, value, nullable_values=True, comparator=self.comparator)
