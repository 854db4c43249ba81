"""Records that contain themselves, directly or through others: one serializer and one snapshot for a whole cycle.

The bytes are those of records; references are followed by `recursion`. Source: compatibility rules, COMP-3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import attrs

from .. import layout
from ..errors import CorruptSavepoint, ValueNotConvertible
from ..registry import register_snapshot
from ..serializer import TypeSerializer
from ..snapshot import OWN_PREFIX, TypeSerializerConfigSnapshot, write_versioned_snapshot
from . import recursion as record_scopes
from .recursion import Reference, most_levels
from .serializers import (
    DescribedRecordSerializer,
    RecordSerializer,
    RecordSerializerSnapshot,
    RecordSnapshot,
    read_record_snapshot,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..compatibility import CompatibilityResult
    from ..snapshot import Speller
    from ..views import DataInputView, DataOutputView
    from .serializers import Readers

T = TypeVar("T")

_ADVICE = "keep long chains in a map state or list state, one link an entry"


@attrs.frozen
class RecordReference(TypeSerializer[Any]):
    """Stands for a record within itself; usable only within its cycle.

    Attributes:
        name: The identity of the record.
    """

    name: str

    @property
    def layout(self) -> layout.Layout:
        return layout.Opaque()

    def serialize(self, value: Any, target: DataOutputView) -> None:
        with record_scopes.serializers.following(self.name, deeper=True) as (record, is_open):
            if is_open:
                DescribedRecordSerializer.serialize(record, value, target)
            else:
                record.serialize(value, target)

    def deserialize(self, source: DataInputView) -> Any:
        with record_scopes.serializers.following(self.name, deeper=True) as (record, is_open):
            return DescribedRecordSerializer.deserialize(record, source) if is_open else record.deserialize(source)

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[Any]:
        return RecordReferenceSnapshot(self.name)

    def ensure_compatibility(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[Any]:
        with record_scopes.serializers.following(self.name) as (record, _):
            result = record.ensure_compatibility(snapshot)
        if result.is_compatible_after_reconfiguration():
            return attrs.evolve(result, reconfigured=self)  # the cycle contains the copy, under this name
        return result


@register_snapshot
@attrs.define
class RecordReferenceSnapshot(Reference, TypeSerializerConfigSnapshot[Any]):
    """Snapshot of `RecordReference`; the body is UTF name."""

    snapshot_id: ClassVar[str] = OWN_PREFIX + "record-reference"
    kind: ClassVar[str] = "record"

    def describe(self) -> str:
        return self.name

    def spell(self, speller: Speller) -> str:
        try:
            with record_scopes.snapshots.following(self.name) as (record, _):
                return speller.part(record)
        except CorruptSavepoint:
            return self.name

    def write(self, target: DataOutputView) -> None:
        target.write_utf(self.name)

    def read(self, source: DataInputView) -> None:
        self.name = source.read_utf()

    def restore_serializer(self) -> TypeSerializer[Any]:
        return RecordReference(self.name)


@attrs.frozen
class RecursiveRecordSerializer(RecordSerializer[T]):
    """A record that contains itself, with all records of its cycle.

    Attributes:
        others: The other records of the cycle, each once.
    """

    others: tuple[DescribedRecordSerializer[Any], ...] = ()

    @property
    def circle(self) -> Mapping[str, DescribedRecordSerializer[Any]]:
        return {record.name: record for record in (self, *self.others)}

    @property
    def layout(self) -> layout.Layout:
        return layout.Opaque()

    def serialize(self, value: T, target: DataOutputView) -> None:
        with record_scopes.serializers.entered(self.circle, self._too_deep_to_write):
            super().serialize(value, target)

    def deserialize(self, source: DataInputView) -> T:
        start = source.position

        def too_deep() -> CorruptSavepoint:
            return CorruptSavepoint(self._too_deep(), advice=_ADVICE, offset=start)

        with record_scopes.serializers.entered(self.circle, too_deep):
            return super().deserialize(source)

    def _too_deep(self) -> str:
        return f"a value of {self.name} is nested within itself more than {most_levels()} levels deep"

    def _too_deep_to_write(self) -> ValueNotConvertible:
        return ValueNotConvertible(f"{self._too_deep()}, or contains itself", advice=_ADVICE)

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[T]:
        plain = cast("RecordSerializerSnapshot", super().snapshot_configuration())
        others = tuple(cast("RecordSnapshot", record.snapshot_configuration()) for record in self.others)
        return RecursiveRecordSnapshot(plain.name, plain.fields, plain.registered, others)


@register_snapshot
@attrs.define
class RecursiveRecordSnapshot(RecordSerializerSnapshot):
    """Snapshot of `RecursiveRecordSerializer`: the body of a record, and i32 n, n x SNAP of the others."""

    snapshot_id: ClassVar[str] = OWN_PREFIX + "recursive-record"

    others: tuple[RecordSnapshot, ...] = ()

    @property
    def circle(self) -> Mapping[str, RecordSnapshot]:
        return {record.record_name(): record for record in (self, *self.others)}

    def children(self) -> tuple[TypeSerializerConfigSnapshot[Any], ...]:
        return (*super().children(), *self.others)

    def spell(self, speller: Speller) -> str:
        with record_scopes.snapshots.entered(self.circle):
            return super().spell(speller)

    def restore_with(self, readers: Readers, subclasses: Readers | None = None) -> DescribedRecordSerializer[Any]:
        return RecursiveRecordSerializer(
            self.name,
            self._restored_fields(readers),
            registered=self._restored_subclasses(self.registered, subclasses),
            allow_null=True,
            others=tuple(record.restore_with({}) for record in self.others),
        )

    def write(self, target: DataOutputView) -> None:
        super().write(target)
        target.write_int(len(self.others))
        for record in self.others:
            write_versioned_snapshot(target, record)

    def read(self, source: DataInputView) -> None:
        super().read(source)
        start = source.position
        count = source.read_size("records of a cycle", least_bytes_each=8)
        self.others = tuple(read_record_snapshot(source) for _ in range(count))
        if len(self.circle) <= count:
            raise CorruptSavepoint(f"two records around {self.name} have the same name", offset=start)
