"""Serializers of records (attrs classes, dataclasses and named tuples), in the layout of Flink's POJOs.

    u8 flags   1: null, nothing follows
               2: the class itself: each field in stored order as bool is-null, and the value if not
               4: a subclass that is not registered: UTF class name, then its whole value, flags included
               8: a registered subclass: u8 tag, then its whole value, flags included

The snapshot of `RecordSerializer` is stateshift's own and also stores which fields may be null; `pojo` has the
serializer of a record with a Java class. The rules REC-1 to REC-17 are in `rules`. Source: format notes 6.1, 7.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import attrs

from .. import rewrite
from ..byte_forms import BOOLEAN, UTF, checked, made, many, mapped, several
from ..errors import (
    CorruptSavepoint,
    OldReaderUnavailable,
    StateShiftError,
    ValueNotConvertible,
    add_step,
    at_step,
    cause_text,
)
from ..registry import register_snapshot
from ..serializer import DECLARED, IDENTITY, TypeSerializer, unrelated
from ..snapshot import (
    OWN_PREFIX,
    SNAPSHOT,
    FormedSnapshot,
    TypeSerializerConfigSnapshot,
)
from ..wording import PYTHON, Advice
from . import recursion as record_scopes
from . import rules as record_rules
from .classes import Record, RecordField, StoredField, field_of, is_frozen_class

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..byte_forms import Fields
    from ..compatibility import CompatibilityResult
    from ..defaults import Default
    from ..serializer import TypeDeserializer
    from ..snapshot import Speller
    from ..views import DataInputView, DataOutputView

    Readers = Mapping[str, TypeDeserializer[Any]]

T = TypeVar("T")

Subclass = tuple[str, "DescribedRecordSerializer[Any]"]
StoredSubclass = tuple[str, "RecordSnapshot"]

NULL_RECORD, PLAIN_RECORD, UNREGISTERED_SUBCLASS, REGISTERED_SUBCLASS = 1, 2, 4, 8


@attrs.frozen
class RecordLayout(rewrite.ByteRewrite):
    """A flags byte, and the fields in snapshot order, each behind a null flag; or a subclass's whole value.

    Attributes:
        fields: Layouts of the fields, without their null flags.
        registered: Layouts of registered subclasses, by tag.
        unregistered: Layouts of other subclasses, by class name.
    """

    fields: tuple[rewrite.ByteRewrite, ...]
    registered: tuple[rewrite.ByteRewrite, ...] = ()
    unregistered: tuple[tuple[str, rewrite.ByteRewrite], ...] = ()

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

    def _within(self) -> tuple[rewrite.ByteRewrite, ...]:
        return self.fields


@attrs.frozen
class DescribedRecordSerializer(TypeSerializer[T]):
    """Base of both record serializers: the bytes and the rules.

    Attributes:
        name: The identity of the record: qualified Python name, or Java class.
        fields: The fields, in the order of the bytes.
        python_class: The class of the values that are read; None: generic `Record`s.
        python_name: Qualified name of the Python class, "" without one.
        aliases: Former names of the record.
        retired: Field names that must not come back.
        retired_types: The types with which they may come back: name, type in words, digest of the type's snapshot.
        registered: Subclasses by tag: (name, serializer).
        unregistered: Subclasses written with their class name.
        allow_null: Whether a null is allowed instead of a record; a restored serializer reads such nulls.
    """

    sorted_fields: ClassVar[bool] = False
    advice: ClassVar[Advice] = PYTHON

    name: str
    fields: tuple[RecordField, ...]
    python_class: type[T] | None = None
    python_name: str = attrs.field(default="", metadata=IDENTITY)
    aliases: tuple[str, ...] = attrs.field(default=(), metadata=DECLARED)
    retired: tuple[str, ...] = attrs.field(default=(), metadata=DECLARED)
    retired_types: tuple[tuple[str, str, str], ...] = attrs.field(default=(), metadata=DECLARED)
    registered: tuple[Subclass, ...] = ()
    unregistered: tuple[Subclass, ...] = ()
    allow_null: bool = attrs.field(default=False, eq=False)

    @property
    def circle(self) -> Mapping[str, DescribedRecordSerializer[Any]]:
        """The records of the cycle that this one is in, itself first, by name; empty if it does not contain itself."""
        return {}

    @property
    def knows_nulls(self) -> bool:
        """Whether it is known which fields may be null, from code or from a snapshot that says so."""
        return True

    @property
    def is_immutable_type(self) -> bool:
        if self.python_class is None or self.registered or self.unregistered or self.circle:
            return False
        is_frozen = is_frozen_class(self.python_class, len(self.fields))
        return is_frozen and all(field.serializer.is_immutable_type for field in self.fields)

    @property
    def layout(self) -> rewrite.ByteRewrite:
        return RecordLayout(
            tuple(field.serializer.layout for field in self.fields),
            tuple(serializer.layout for _, serializer in self.registered),
            tuple((name, serializer.layout) for name, serializer in self.unregistered),
        )

    def ensure_compatibility(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[T]:
        with record_scopes.followed(snapshot) as stored:
            if not isinstance(stored, RecordSnapshot):
                return unrelated(self, snapshot)
            return record_scopes.judged_once(self, stored, record_rules.resolve)

    def is_named(self, stored_name: str) -> bool:
        """Whether a stored record of that name is the same as this one, without an alias."""
        return stored_name == self.name

    def serialize(self, value: T, target: DataOutputView) -> None:
        if value is None:
            if not self.allow_null:
                raise ValueNotConvertible(f"found null where a {self.describe()} is declared")
            target.write_byte(NULL_RECORD)
            return
        if self._writes_as_subclass(value, target):
            return
        target.write_byte(PLAIN_RECORD)
        for field in self.fields:
            item = field_of(value, field.name, field.attribute or field.name)
            try:
                if item is not None:
                    target.write_byte(0)
                    field.serializer.serialize(item, target)
                elif field.optional:
                    target.write_byte(1)
                else:
                    raise _null_in(field)
            except StateShiftError as error:
                add_step(error, field.step)
                raise

    def _writes_as_subclass(self, value: object, target: DataOutputView) -> bool:
        """Write the value if it is one of a subclass, and return whether it is."""
        if isinstance(value, Record):
            name = value._type_name  # noqa: SLF001 - public API of Record
            if name == self.name or not (self.registered or self.unregistered):
                return False

            def matches(stored_name: str, serializer: DescribedRecordSerializer[Any]) -> bool:
                return name in {stored_name, serializer.name}
        else:
            if self.python_class is None or type(value) is self.python_class:
                return False
            if not isinstance(value, self.python_class):
                return False

            def matches(stored_name: str, serializer: DescribedRecordSerializer[Any]) -> bool:  # noqa: ARG001
                return serializer.python_class is type(value)

        for tag, (stored_name, serializer) in enumerate(self.registered):
            if matches(stored_name, serializer):
                target.write_byte(REGISTERED_SUBCLASS)
                target.write_byte(tag)
                serializer.serialize(value, target)
                return True
        for stored_name, serializer in self.unregistered:
            if matches(stored_name, serializer):
                target.write_byte(UNREGISTERED_SUBCLASS)
                target.write_utf(stored_name)
                serializer.serialize(value, target)
                return True
        raise ValueNotConvertible(
            f"{type(value).__qualname__} is a subclass of {self.name} that is not registered (REC-14)",
            advice="decorate the subclass with @record before the job is declared",
        )

    def deserialize(self, source: DataInputView) -> T:
        start = source.position
        flags = source.read_unsigned_byte()
        if flags == PLAIN_RECORD:
            return self._read_fields(source)
        if flags == NULL_RECORD:
            if not self.allow_null:
                raise ValueNotConvertible(f"a null is stored where a {self.describe()} is declared")
            return None  # type: ignore[return-value]  # None only with allow_null
        if flags == REGISTERED_SUBCLASS:
            tag = source.read_unsigned_byte()
            if tag < len(self.registered):
                value: T = self.registered[tag][1].deserialize(source)
                return value
        if flags == UNREGISTERED_SUBCLASS:
            name = source.read_utf()
            for stored_name, serializer in self.unregistered:
                if stored_name == name:
                    found: T = serializer.deserialize(source)
                    return found
            raise OldReaderUnavailable(
                f"a {self.name} is stored as its subclass {name}, which the savepoint does not describe "
                "(Flink's heap backend writes its snapshots before it meets the value)",
                advice="take the savepoint with the RocksDB backend, or register the subclass in the Java job first",
                offset=start,
            )
        raise CorruptSavepoint(f"a record of {self.name} begins with flags {flags:#04x}", offset=start)

    def _read_fields(self, source: DataInputView) -> T:
        values: dict[str, Any] = {}
        generic = self.python_class is None
        for field in self.fields:
            try:
                if not source.read_boolean():
                    item = field.serializer.deserialize(source)
                elif field.optional:
                    item = None
                elif field.on_none is not None:
                    item = field.on_none.make()
                else:
                    raise _null_in(field)
            except StateShiftError as error:
                add_step(error, field.step)
                raise
            values[field.name if generic else field.init_name or field.attribute or field.name] = item
        if self.python_class is None:
            return Record(self.name, values)  # type: ignore[return-value]  # generic readers have T = Any
        try:
            return self.python_class(**values)
        except Exception as error:
            raise ValueNotConvertible(
                f"{self.python_name} cannot be built from its stored fields: {cause_text(error)}"
            ) from error


def _null_in(field: RecordField) -> ValueNotConvertible:
    return ValueNotConvertible(
        f"found null in the field {field.name!r}, which is not declared optional",
        advice=f"declare it {field.name}: … | None, or say what a null becomes with Field(on_none=…)",
    )


class RecordSnapshot(TypeSerializerConfigSnapshot[Any]):
    """Base of the snapshots of both record serializers."""

    kind: ClassVar[str] = "record"
    word: ClassVar[str] = "record"
    """The word for it in a type expression."""

    @abstractmethod
    def record_name(self) -> str:
        """Return the identity of the record."""

    @property
    def circle(self) -> Mapping[str, RecordSnapshot]:
        """The records of the cycle that this one is in, itself first, by name; empty if it does not contain itself."""
        return {}

    @abstractmethod
    def stored_fields(self) -> tuple[StoredField, ...]:
        """Return the fields, in the order of the bytes."""

    @abstractmethod
    def registered_subclasses(self) -> tuple[StoredSubclass, ...]:
        """Return the subclasses by tag."""

    def unregistered_subclasses(self) -> tuple[StoredSubclass, ...]:
        """Return the subclasses that are stored with their class name."""
        return ()

    @abstractmethod
    def restore_with(self, readers: Readers, subclasses: Readers | None = None) -> DescribedRecordSerializer[Any]:
        """Make a generic serializer that uses `readers` for fields and `subclasses` for subclasses of these names."""

    def restore_serializer(self) -> TypeSerializer[Any]:
        return self.restore_with({})

    def children(self) -> tuple[TypeSerializerConfigSnapshot[Any], ...]:
        subclasses = (*self.registered_subclasses(), *self.unregistered_subclasses())
        return (*self.field_snapshots(), *(snapshot for _, snapshot in subclasses))

    def field_snapshots(self) -> tuple[TypeSerializerConfigSnapshot[Any], ...]:
        """Return the snapshots of the fields, in the order of the bytes."""
        return tuple(field.snapshot for field in self.stored_fields())

    def describe(self) -> str:
        return self.record_name()

    def spell(self, speller: Speller) -> str:
        fields = [(field.name, field.snapshot, bool(field.optional)) for field in self.stored_fields()]
        text = speller.record(self.word, self.record_name(), fields)
        subclasses = (*self.registered_subclasses(), *self.unregistered_subclasses())
        return " | ".join([text, *(speller.part(snapshot) for _, snapshot in subclasses)])

    def _restored_fields(self, readers: Mapping[str, TypeDeserializer[Any]]) -> tuple[RecordField, ...]:
        name = self.record_name()
        return tuple(
            RecordField(
                field.name,
                _reader(field, readers),
                optional=field.optional is not False,
                default=self.default_of(field),
                declared_by="" if field.declared_by == name else field.declared_by,
            )
            for field in self.stored_fields()
        )

    def default_of(self, field: StoredField) -> Default | None:
        """Return the default of a field that stored records lack, if this snapshot is the new side of a check."""
        return None

    def _restored_subclasses(
        self, subclasses: tuple[StoredSubclass, ...], readers: Readers | None
    ) -> tuple[Subclass, ...]:
        found: Any = readers or {}
        return tuple(
            (name, found.get(snapshot.record_name()) or snapshot.restore_with({})) for name, snapshot in subclasses
        )


def holds_nulls(snapshot: TypeSerializerConfigSnapshot[Any]) -> bool:
    """Whether the code is known to allow null in a field, of any depth, whose snapshot does not say so."""
    if isinstance(snapshot, RecordSnapshot) and any(field.takes_null for field in snapshot.stored_fields()):
        return True
    return any(map(holds_nulls, snapshot.children()))


def _reader(field: StoredField, readers: Mapping[str, TypeDeserializer[Any]]) -> TypeSerializer[Any]:
    if field.name in readers:
        return readers[field.name]  # type: ignore[return-value]  # it only ever reads
    with at_step(f".{field.name}"):
        return field.snapshot.restore_serializer()


RECORD_SNAPSHOT = checked(
    SNAPSHOT, lambda it: isinstance(it, RecordSnapshot), "a record is described by a {0.__class__.__name__}"
)


@register_snapshot
@attrs.define
class RecordSerializerSnapshot(FormedSnapshot[Any], RecordSnapshot):
    """Snapshot of `RecordSerializer`, with this body at version 1.

    UTF name, i32 n, n x (UTF field name, bool optional, SNAP), i32 m, m x (UTF subclass name, SNAP)
    """

    snapshot_id: ClassVar[str] = OWN_PREFIX + "record"
    body: ClassVar[Fields] = {
        "name": UTF,
        "fields": many(
            made(
                StoredField,
                {"name": UTF, "optional": mapped(BOOLEAN, bool, lambda it: it is not False), "snapshot": SNAPSHOT},
                within=lambda name: at_step(f".{name}"),
            ),
            "fields",
        ),
        "registered": many(several(UTF, RECORD_SNAPSHOT), "subclasses"),
    }

    name: str = ""
    fields: tuple[StoredField, ...] = ()
    registered: tuple[StoredSubclass, ...] = ()

    def record_name(self) -> str:
        return self.name

    def stored_fields(self) -> tuple[StoredField, ...]:
        return self.fields

    def registered_subclasses(self) -> tuple[StoredSubclass, ...]:
        return self.registered

    def restore_with(self, readers: Readers, subclasses: Readers | None = None) -> DescribedRecordSerializer[Any]:
        return RecordSerializer(
            self.name,
            self._restored_fields(readers),
            registered=self._restored_subclasses(self.registered, subclasses),
            allow_null=True,
        )


@attrs.frozen
class RecordSerializer(DescribedRecordSerializer[T]):
    """A record of a Python class: Flink's bytes under stateshift's own snapshot."""

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[T]:
        return RecordSerializerSnapshot(
            self.name,
            tuple(
                StoredField(field.name, field.serializer.snapshot_configuration(), field.optional)
                for field in self.fields
            ),
            subclass_snapshots(self.registered),
        )


def subclass_snapshots(subclasses: tuple[Subclass, ...]) -> tuple[StoredSubclass, ...]:
    """Return the names and snapshots of subclasses."""
    return tuple((name, cast("RecordSnapshot", s.snapshot_configuration())) for name, s in subclasses)
