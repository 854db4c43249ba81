"""Flink's POJOs: records with a Java class, under Flink's own snapshot, so that a Java job restores them.

The bytes and the rules are those of `serializers`. Fields are always in alphabetical order, because Flink pairs stored
fields by their alphabetical position. Source: format notes 6.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar

import attrs

from ..defaults import Default
from ..errors import CorruptSavepoint, DeclarationError, OldReaderUnavailable, at_step
from ..flink.opaque import OPTIONAL_MAP, OptionalEntry, OptionalMap
from ..primitives.numeric import BooleanSerializer
from ..primitives.table import NUMBERS
from ..registry import register_snapshot, registry
from ..serializer import DECLARED
from ..snapshot import TypeSerializerConfigSnapshot, read_versioned_snapshot, snapshot_to_bytes
from ..views import DataInputView, DataOutputView
from .classes import StoredField
from .serializers import DescribedRecordSerializer, RecordSnapshot, StoredSubclass, subclass_snapshots

if TYPE_CHECKING:
    from ..scalars import ScalarSerializer
    from ..serializer import TypeSerializer
    from ..snapshot import Speller
    from .serializers import Readers

T = TypeVar("T")

FLINK_POJO = "org.apache.flink.api.java.typeutils.runtime.PojoSerializerSnapshot"


@attrs.frozen
class PojoField:
    """A field in Flink's snapshot; parts that Flink could not read on an earlier restore are None.

    Attributes:
        takes_null: Whether it may be null, which no snapshot says; None where the code is not known.
    """

    name: str
    declared_by: str | None
    snapshot: TypeSerializerConfigSnapshot[Any] | None
    takes_null: bool | None = attrs.field(default=None, eq=False, repr=False)


@attrs.frozen
class PojoSubclass:
    """A subclass in Flink's snapshot; parts are missing if Flink could not find its class on an earlier restore."""

    name: str
    snapshot: RecordSnapshot | None
    has_key: bool = True


@attrs.define
class LostSnapshot(TypeSerializerConfigSnapshot[Any]):
    """Replaces a snapshot that Flink lost on an earlier restore, and so left out of this savepoint.

    Attributes:
        what: The field or subclass that it described.
    """

    kind: ClassVar[str] = "unknown"

    what: str = ""

    def describe(self) -> str:
        return f"{self.what} (lost by Flink)"

    def write(self, target: DataOutputView) -> None:
        """Write nothing: the enclosing snapshot leaves the part out again."""

    def read(self, source: DataInputView) -> None:
        """Read nothing: nothing is stored."""

    def restore_serializer(self) -> NoReturn:
        raise OldReaderUnavailable(
            f"Flink could not read {self.what} when it restored an earlier savepoint, and left its serializer out of"
            " this one",
            advice="use a savepoint from before that restore, pass a fallback deserializer, or leave the state out of"
            " the job: it is then kept as it is",
        )


@register_snapshot
@attrs.define
class PojoSerializerSnapshot(RecordSnapshot):
    """Flink's snapshot of a POJO, version 2: UTF class, and three optional maps (format notes 6.1).

    Fields are in alphabetical order; Flink pairs them by position, so a snapshot is never written in another order.
    """

    snapshot_id: ClassVar[str] = FLINK_POJO
    version: ClassVar[int] = 2
    word: ClassVar[str] = "pojo"

    java_class: str = ""
    fields: tuple[PojoField, ...] = ()
    registered: tuple[PojoSubclass, ...] = ()
    unregistered: tuple[PojoSubclass, ...] = ()
    _stored: tuple[StoredField, ...] | None = attrs.field(default=None, init=False, eq=False, repr=False)
    _restored: TypeSerializer[Any] | None = attrs.field(default=None, init=False, eq=False, repr=False)

    def record_name(self) -> str:
        return self.java_class

    def stored_fields(self) -> tuple[StoredField, ...]:
        if self._stored is None:
            self._stored = tuple(
                StoredField(
                    field.name,
                    self._snapshot_of(field),
                    declared_by=field.declared_by or "",
                    takes_null=field.takes_null,
                )
                for field in self.fields
            )
        return self._stored

    def field_snapshots(self) -> tuple[TypeSerializerConfigSnapshot[Any], ...]:
        return tuple(map(self._snapshot_of, self.fields))

    def _snapshot_of(self, field: PojoField) -> TypeSerializerConfigSnapshot[Any]:
        return field.snapshot or LostSnapshot(f"the field {field.name!r} of {self.java_class}")

    def registered_subclasses(self) -> tuple[StoredSubclass, ...]:
        return tuple(
            (subclass.name, subclass.snapshot or _LostRecordSnapshot(subclass.name)) for subclass in self.registered
        )

    def unregistered_subclasses(self) -> tuple[StoredSubclass, ...]:
        return tuple((one.name, one.snapshot or _LostRecordSnapshot(one.name)) for one in self.unregistered)

    def restore_with(self, readers: Readers, subclasses: Readers | None = None) -> DescribedRecordSerializer[Any]:
        return PojoSerializer(
            self.java_class,
            self._restored_fields(readers),
            registered=self._restored_subclasses(self.registered_subclasses(), subclasses),
            unregistered=self._restored_subclasses(self.unregistered_subclasses(), subclasses),
            allow_null=True,
            knows_nulls=False,
        )

    def restore_serializer(self) -> TypeSerializer[Any]:
        if self._restored is None:
            self._restored = self.restore_with({})
        return self._restored

    def default_of(self, field: StoredField) -> Default:
        return java_default(field.snapshot)

    def write(self, target: DataOutputView) -> None:
        target.write_utf(self.java_class)
        fields = [OptionalEntry(f.name, _field_key(f), _snapshot_bytes(f.snapshot, target)) for f in self.fields]
        OPTIONAL_MAP.write(target, OptionalMap(tuple(fields)))
        for subclasses in (self.registered, self.unregistered):
            entries = [
                OptionalEntry(one.name, b"" if one.has_key else None, _snapshot_bytes(one.snapshot, target))
                for one in subclasses
            ]
            OPTIONAL_MAP.write(target, OptionalMap(tuple(entries)))

    def read(self, source: DataInputView) -> None:
        self.java_class = source.read_utf()
        self._stored = self._restored = None
        self.fields = tuple(
            PojoField(
                entry.name,
                None if entry.key is None else DataInputView(entry.key).read_utf(),
                _nested(entry, source, step=f".{entry.name}"),
            )
            for entry in OPTIONAL_MAP.read(source).entries
        )
        self.registered, self.unregistered = (
            tuple(
                PojoSubclass(entry.name, _nested_record(entry, source), entry.key is not None)
                for entry in OPTIONAL_MAP.read(source).entries
            )
            for _ in range(2)
        )


_PLAIN_KEPT = 1024
_plain_snapshots: dict[tuple[bytes, int, int], TypeSerializerConfigSnapshot[Any]] = {}
"""Cache of field snapshots by bytes, nesting depth and registry edition: thousands of fields share a few types."""

_HAVE_ZERO: tuple[type[ScalarSerializer[Any]], ...] = (BooleanSerializer, *NUMBERS)
_ZEROS = {scalar.snapshot: scalar().deserialize(DataInputView(bytes(scalar.row.size))) for scalar in _HAVE_ZERO}
_DEFAULTS: dict[type, Default] = {
    kind: Default(zero, title="Java's default", null="null") for kind, zero in _ZEROS.items()
}
_NULL = Default(title="Java's default", null="null")


def java_default(snapshot: TypeSerializerConfigSnapshot[Any]) -> Default:
    """Return the initial value of a field in Java, which Flink uses for a field that stored records lack.

    A snapshot does not distinguish `int` from `Integer`: the number is taken to be primitive. Nor does it contain what
    the class itself assigns.
    """
    return _DEFAULTS.get(type(snapshot), _NULL)


def _field_key(field: PojoField) -> bytes | None:
    if field.declared_by is None:
        return None
    key = DataOutputView()
    key.write_utf(field.declared_by)
    key.write_utf(field.name)
    return key.getvalue()


def _snapshot_bytes(snapshot: TypeSerializerConfigSnapshot[Any] | None, within: DataOutputView) -> bytes | None:
    return None if snapshot is None else snapshot_to_bytes(snapshot, nesting=within.nesting)


def _nested(entry: OptionalEntry, source: DataInputView, *, step: str = "") -> TypeSerializerConfigSnapshot[Any] | None:
    if entry.value is None:
        return None
    place = (entry.value, source.nesting, registry.edition)
    known = _plain_snapshots.get(place)
    if known is not None:
        return known
    view = source.part(entry.value_at, len(entry.value))
    with at_step(step):
        snapshot = read_versioned_snapshot(view)
    if view.remaining():
        raise CorruptSavepoint(f"{view.remaining()} bytes follow a nested snapshot", offset=view.position)
    if _is_plain(snapshot):
        if len(_plain_snapshots) >= _PLAIN_KEPT:
            _plain_snapshots.clear()
        _plain_snapshots[place] = snapshot
    return snapshot


def _is_plain(snapshot: TypeSerializerConfigSnapshot[Any]) -> bool:
    """Whether there is no record within: each occurrence of a record is judged separately (COMP-3)."""
    return snapshot.kind != "record" and all(map(_is_plain, snapshot.children()))


def _nested_record(entry: OptionalEntry, source: DataInputView) -> RecordSnapshot | None:
    snapshot = _nested(entry, source)
    if snapshot is not None and not isinstance(snapshot, RecordSnapshot):
        raise CorruptSavepoint(f"a subclass is described by a {type(snapshot).__name__}", offset=entry.value_at)
    return snapshot


@attrs.define
class _LostRecordSnapshot(PojoSerializerSnapshot):
    """Replaces the snapshot of a subclass that Flink lost."""

    def children(self) -> tuple[TypeSerializerConfigSnapshot[Any], ...]:
        return (self._lost,)

    def spell(self, speller: Speller) -> str:
        return self._lost.describe()

    def restore_with(self, readers: Readers, subclasses: Readers | None = None) -> DescribedRecordSerializer[Any]:
        self._lost.restore_serializer()

    @property
    def _lost(self) -> LostSnapshot:
        return LostSnapshot(f"the subclass {self.java_class}")


@attrs.frozen
class PojoSerializer(DescribedRecordSerializer[T]):
    """A record with a Java class: Flink's PojoSerializer, so that a Java job restores it.

    Attributes:
        knows_nulls: Whether `optional` of the fields is known; if only a snapshot is, any field may be null.
    """

    sorted_fields: ClassVar[bool] = True

    knows_nulls: bool = attrs.field(default=True, eq=False, metadata=DECLARED)

    def __attrs_post_init__(self) -> None:
        names = [field.name for field in self.fields]
        if names != sorted(names):
            raise DeclarationError(f"the fields of {self.name} must be in alphabetical order, as Flink's are: {names}")

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[T]:
        return PojoSerializerSnapshot(
            self.name,
            tuple(
                PojoField(
                    field.name,
                    field.declared_by or self.name,
                    field.serializer.snapshot_configuration(),
                    field.optional if self.knows_nulls else None,
                )
                for field in self.fields
            ),
            tuple(PojoSubclass(*subclass) for subclass in subclass_snapshots(self.registered)),
            tuple(PojoSubclass(*subclass) for subclass in subclass_snapshots(self.unregistered)),
        )
