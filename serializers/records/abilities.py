"""What is registered for records beside byte rewrites: hints, JSON, and the source that `init` writes.

Flink's snapshots do not record which fields of a class may be null: objects are declared nullable, and numbers and
booleans, which are mostly Java primitives, only where a null was found.
"""

from __future__ import annotations

import re
import types
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin

from ..containers.abilities import COLLECTIONS
from ..containers.wrappers import NullableSerializerSnapshot, OptionalSerializer, without_ttl_awareness
from ..defaults import NO_VALUE, Default
from ..errors import DeclarationError
from ..hints import given_serializer, is_optional, serializer_for, strip_none
from ..json_forms import opaque, tagger_of
from ..primitives.abilities import JAVA_PRIMITIVES
from ..snapshot import snapshot_to_bytes, type_digest
from ..source import Expression, Group, NoSourceError, class_docstring, class_options, or_none, quoted, statement
from ..stored_names import qualified_name
from ..views import DataOutputView
from .classes import (
    NO_RECORD_OPTIONS,
    ClassField,
    Field,
    RecordField,
    check_default,
    class_fields,
    is_record_class,
    options_of,
    registered_subclasses,
)
from .pojo import PojoSerializer, PojoSerializerSnapshot
from .recursion import followed, snapshots
from .recursive import RecordReferenceSnapshot, RecursiveRecordSnapshot, check_in_time, record_name, record_or_reference
from .serializers import DescribedRecordSerializer, RecordSerializer, RecordSerializerSnapshot, RecordSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..json_forms import JsonFormTable, Tagger
    from ..serializer import TypeSerializer
    from ..source import NullTable, Snapshot, SourceTable, StoredNulls, TypeSource, Use
    from .classes import Record, StoredField

T = TypeVar("T")

_NO_OPTIONS = Field()
_CONTAINERS = (list, set, frozenset, dict)


def serializer_of_class(cls: type) -> TypeSerializer[Any] | None:
    """Return the serializer of a record class, or a reference to it within its own cycle; None for any other class."""
    return record_or_reference(cls, _record_serializer) if is_record_class(cls) else None


def record_serializer(cls: type[T]) -> DescribedRecordSerializer[T]:
    """Return the serializer of a record class: `PojoSerializer` where `record` named a Java class.

    Raises:
        DeclarationError: A field cannot be stored, or a class with a Java class contains itself.
    """
    serializer = record_or_reference(cls, _record_serializer)
    assert isinstance(serializer, DescribedRecordSerializer)  # noqa: S101 - references occur only within a class
    return serializer


def _record_serializer(cls: type[T]) -> DescribedRecordSerializer[T]:
    options = options_of(cls)
    is_pojo = bool(options.java_class)
    fields = sorted((record_field(cls, field, is_pojo=is_pojo) for field in class_fields(cls)), key=lambda f: f.name)
    names = [field.name for field in fields]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DeclarationError(f"two fields of {qualified_name(cls)} are stored as {twice!r}")
    # Subclasses are distinguished by tags within their base, and so are never references.
    subclasses: list[DescribedRecordSerializer[Any]] = [_record_serializer(sub) for sub in registered_subclasses(cls)]
    make: type[DescribedRecordSerializer[T]] = PojoSerializer if is_pojo else RecordSerializer
    return make(
        name=record_name(cls),
        fields=tuple(fields),
        python_class=cls,
        python_name=qualified_name(cls),
        aliases=options.aliases,
        retired=options.retired,
        retired_types=tuple((name, *retired_type(hint)) for name, hint in options.retired_types),
        registered=tuple((subclass.name, subclass) for subclass in subclasses),
    )


def retired_type(hint: Any) -> tuple[str, str]:
    """Return the description of a retired field's type, and the digest that identifies it."""
    snapshot = serializer_for(strip_none(hint)[0]).snapshot_configuration()
    return snapshot.describe(), type_digest(snapshot)


def record_field(cls: type, field: ClassField, *, is_pojo: bool = False) -> RecordField:
    """Return a field of a class as it is stored.

    Raises:
        DeclarationError: Its type or its default cannot be stored.
    """
    hint, given, options = field.hint, None, _NO_OPTIONS
    optional = False
    while (origin := get_origin(hint)) is Annotated or is_optional(hint):
        if origin is Annotated:
            hint, *metadata = get_args(hint)
            given = given or given_serializer(hint, tuple(metadata))
            options = next((item for item in metadata if isinstance(item, Field)), options)
        else:
            hint, optional = strip_none(hint)
    optional = optional or hint is None or hint is types.NoneType
    serializer: TypeSerializer[Any] = given or serializer_for(hint)
    if is_pojo and optional and given is None and origin in _CONTAINERS:
        # Flink 2 extracts such a field as Nullable<List<…>> (format notes 6.2)
        serializer = OptionalSerializer(serializer)
    base = options_of(field.declared_by) if field.declared_by is not cls else NO_RECORD_OPTIONS
    on_none = None if options.on_none is NO_VALUE else Default(options.on_none)
    if field.default is not None or on_none is not None:
        _check_defaults(cls, field, on_none, serializer, optional=optional)
    return RecordField(
        name=options.name or field.attribute,
        serializer=serializer,
        optional=optional,
        attribute=field.attribute,
        init_name=field.init_name,
        aliases=options.aliases,
        default=field.default,
        on_none=on_none,
        declared_by=options.declared_by or base.java_class,
        declared_aliases=base.aliases,
    )


def _check_defaults(
    cls: type, field: ClassField, on_none: Default | None, serializer: TypeSerializer[Any], *, optional: bool
) -> None:
    where = f"{qualified_name(cls)}.{field.attribute}"

    def encode(value: Any) -> None:
        serializer.serialize(value, DataOutputView())

    check_in_time(lambda: check_default(where, field.default, encode))
    check_in_time(lambda: check_default(f"{where} (on_none)", on_none, encode))
    if field.default == Default(None) and not optional:
        raise DeclarationError(f"{where} has the default None but is not declared optional", advice="write … | None")


_around: list[Tagger] = []
"""The taggers of the recursive records within which a tagger is being built, the innermost last."""


def _record_form(snapshot: RecordSnapshot) -> Tagger:
    taggers: dict[str, dict[str, Tagger]] = {}

    def convert(value: Record) -> Any:
        name, fields = value._type_name, value._asdict()  # noqa: SLF001 - public despite the underscore
        forms = taggers.get(name, {})
        tagged = {field: forms.get(field, repr)(item) for field, item in fields.items()}
        return {"$pojo": {"class": name, "fields": dict(sorted(tagged.items()))}}

    pending = [snapshot, *snapshot.circle.values()]
    if snapshot.circle:
        _around.append(convert)
    while pending:  # a subclass may have subclasses; values do not distinguish two classes of the same name
        one = pending.pop(0)
        forms = {field.name: tagger_of(field.snapshot) for field in one.stored_fields()}
        taggers.setdefault(one.record_name(), forms)
        pending += [subclass for _, subclass in (*one.registered_subclasses(), *one.unregistered_subclasses())]
    if snapshot.circle:
        _around.pop()
    return convert


JSON_FORMS: JsonFormTable = {
    RecordSnapshot: _record_form,
    RecordReferenceSnapshot: lambda snapshot: _around[-1] if _around else opaque(snapshot),
}


class _Classes:
    """Defines the classes of the records of one source."""

    def __init__(self, source: TypeSource) -> None:
        self._source = source
        self._attributes: dict[str, dict[str, str]] = {}
        self._open: list[str] = []
        self._reserved: dict[str, str] = {}
        self._bases: dict[bytes, RecordSnapshot] = {}
        for snapshot in source.snapshots:
            self._find_bases(snapshot)

    def _find_bases(self, snapshot: Snapshot) -> None:
        if isinstance(snapshot, RecordSnapshot):
            for _, subclass in _subclasses(snapshot):
                self._bases.setdefault(snapshot_to_bytes(subclass), snapshot)
        for child in snapshot.children():
            self._find_bases(child)

    def name_of(self, snapshot: RecordSnapshot) -> str:
        """Return the name of the class of a record, which is defined on the first call."""
        place = snapshot_to_bytes(snapshot)
        if snapshot.record_name() in self._open:
            raise NoSourceError(f"{snapshot.record_name()} contains itself in another form")
        if snapshot.circle and place not in self._source.defined:
            return self._circle(snapshot)
        base = self._bases.get(place)
        if place not in self._source.defined and base is not None:
            self.name_of(base)
        if place not in self._source.defined:
            self._define_record(snapshot, base="", inherited=())
        return self._source.defined[place]

    def _circle(self, snapshot: RecordSnapshot) -> str:
        """Define mutually recursive classes; their forward references are quoted."""
        outer = self._reserved, self._source.ahead
        self._reserved = {name: self._source.names.class_name(name, fallback="Stored") for name in snapshot.circle}
        self._source.ahead = set(self._reserved.values())
        defined = self._reserved[snapshot.record_name()]
        subclasses = {name for record in snapshot.circle.values() for name, _ in _subclasses(record)}
        try:
            for name, record in snapshot.circle.items():
                if name not in subclasses:  # subclasses are defined with the class that they extend
                    self._define_record(record, base="", inherited=())
        finally:
            self._reserved, self._source.ahead = outer
        return defined

    def referred(self, snapshot: RecordReferenceSnapshot) -> str:
        """Return the name of the class of a record within itself."""
        if snapshot.name not in self._reserved:
            raise NoSourceError(f"{snapshot.name} is not described here")
        return self._reserved[snapshot.name]

    @contextmanager
    def _inside(self, stored_name: str) -> Iterator[None]:
        """Refuse, meanwhile, the record itself in another form."""
        self._open.append(stored_name)
        try:
            yield
        finally:
            self._open.pop()

    def _define_record(self, snapshot: RecordSnapshot, *, base: str, inherited: tuple[StoredField, ...]) -> None:
        """Define a class, after the classes of its fields and before its subclasses."""
        stored_name, fields = snapshot.record_name(), snapshot.stored_fields()
        known = {field.name: field for field in fields}
        if any(_same(field, known.get(field.name)) is False for field in inherited):
            raise NoSourceError(f"{stored_name} has other fields than the class that it extends")
        name = self._reserved.get(stored_name) or self._source.names.class_name(stored_name, fallback="Stored")
        attributes = dict(self._attributes.get(base, {}))
        taken = self._source.names.copy()
        for attribute in attributes.values():
            taken.attribute(attribute)
        own = [field for field in fields if field.name not in {field.name for field in inherited}]
        attributes |= {field.name: taken.attribute(field.name) for field in own}
        is_pojo = isinstance(snapshot, PojoSerializerSnapshot)
        with self._inside(stored_name):
            lines = [self._field(field, attributes[field.name], stored_name, is_pojo=is_pojo) for field in own]
        subclasses = _subclasses(snapshot)
        self._source.blocks.append([
            *statement(Group("@record(", (class_options(is_java=is_pojo, name=stored_name),))),
            "@attrs.frozen(kw_only=True)",  # a field without a default may be added after one that has a default
            f"class {name}({base}):" if base else f"class {name}:",
            class_docstring(stored_name, "class", is_java=is_pojo),
            *([""] if own else []),
            *chain(*lines),
        ])  # fmt: skip
        self._source.defined.setdefault(snapshot_to_bytes(snapshot), name)
        self._source.ahead.discard(name)
        self._attributes[name] = attributes
        with self._inside(stored_name):
            for subclass in _nearest(subclasses):
                self._define_record(subclass, base=name, inherited=fields)

    def _field(self, field: StoredField, attribute: str, stored_class: str, *, is_pojo: bool) -> list[str]:
        """Return the lines that declare a field."""
        snapshot = without_ttl_awareness(field.snapshot)
        given = ""
        if isinstance(snapshot, NullableSerializerSnapshot):
            inner = without_ttl_awareness(snapshot.nested[0])
            hint = self._source.hint(snapshot)
            if not (is_pojo and isinstance(inner, COLLECTIONS)) or not hint.endswith(" | None"):
                given = hint
            hint = hint.removesuffix(" | None")
            optional = True
        else:
            hint = self._source.hint(snapshot)
            may_be_null = type(snapshot) not in JAVA_PRIMITIVES or self._source.nulls.has_field(
                stored_class, field.name
            )
            optional = field.optional is True or (is_pojo and may_be_null)
            if optional and is_pojo and isinstance(snapshot, COLLECTIONS):
                given = hint
        if given and self._source.is_ahead(given):
            raise NoSourceError(f"the field {field.name!r} of {stored_class} has a null flag of its own")
        more: list[Expression] = [f"serializer_for({given})"] if given else []
        options = [f"name={quoted(field.name)}"] if attribute != field.name else []
        if field.declared_by not in {"", stored_class}:
            options.append(f"declared_by={quoted(field.declared_by)}")
        if options:
            more.append(Group("Field(", options))
        full = or_none(hint) if optional else hint
        if self._source.is_ahead(full):
            self._source.quoted_names |= set(re.findall(r"\w+", full))
            full = f'"{full}"'
        written: Expression = Group("Annotated[", (full, *more)) if more else full
        after = " = None" if optional else ""
        return statement(written, before=f"{attribute}: ", after=after, indent=4)


def _record_source(source: TypeSource, snapshot: RecordSnapshot, _: Use) -> str:
    return source.kept(_Classes).name_of(snapshot)


def _same(field: StoredField, other: StoredField | None) -> bool:
    return (
        other is not None
        and (field.optional, field.declared_by) == (other.optional, other.declared_by)
        and snapshot_to_bytes(field.snapshot) == snapshot_to_bytes(other.snapshot)
    )


def _subclasses(snapshot: RecordSnapshot) -> list[tuple[str, RecordSnapshot]]:
    return [*snapshot.registered_subclasses(), *snapshot.unregistered_subclasses()]


def _nearest(subclasses: list[tuple[str, RecordSnapshot]]) -> Iterator[RecordSnapshot]:
    """Return the direct subclasses: those that are not a subclass of another one in the list."""
    further = {name for _, snapshot in subclasses for name, _ in _subclasses(snapshot)}
    return (snapshot for name, snapshot in subclasses if name not in further)


SOURCES: SourceTable = {
    RecordSerializerSnapshot: _record_source,
    RecursiveRecordSnapshot: _record_source,
    PojoSerializerSnapshot: _record_source,
    RecordReferenceSnapshot: lambda source, snapshot, _: source.kept(_Classes).referred(snapshot),
}


def _look_into_record(nulls: StoredNulls, value: Any, snapshot: RecordSnapshot) -> None:
    with snapshots.entered(snapshot.circle):
        found = _class_of(value._type_name, snapshot) or snapshot  # noqa: SLF001 - public despite the underscore
        for field in found.stored_fields():
            if value[field.name] is None:
                nulls.fields.add((found.record_name(), field.name))
            nulls.look(value[field.name], field.snapshot)


def _class_of(name: str, snapshot: RecordSnapshot) -> RecordSnapshot | None:
    """Find the snapshot of the class `name`: the declared class or one of its subclasses."""
    if snapshot.record_name() == name:
        return snapshot
    return next((found for _, subclass in _subclasses(snapshot) if (found := _class_of(name, subclass))), None)


def _follow(nulls: StoredNulls, value: Any, snapshot: RecordReferenceSnapshot) -> None:
    with followed(snapshot) as found:
        nulls.look(value, found)


NULLS: NullTable = {
    RecordSerializerSnapshot: _look_into_record,
    RecursiveRecordSnapshot: _look_into_record,
    PojoSerializerSnapshot: _look_into_record,
    RecordReferenceSnapshot: _follow,
}
