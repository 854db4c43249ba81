"""What is registered for records beside byte rewrites and hints: JSON, and the source that `init` writes.

Flink's snapshots do not record which fields of a class may be null: objects are declared nullable, and numbers and
booleans, which are mostly Java primitives, only where a null was found.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any

from ..containers.abilities import COLLECTIONS
from ..containers.wrappers import NullableSerializerSnapshot, without_ttl_awareness
from ..json_forms import opaque, tagger_of
from ..primitives.abilities import JAVA_PRIMITIVES
from ..snapshot import snapshot_to_bytes
from ..source import Expression, Group, NoSourceError, class_docstring, class_options, or_none, quoted, statement
from .pojo import PojoSerializerSnapshot
from .recursion import followed, snapshots
from .recursive import RecordReferenceSnapshot, RecursiveRecordSnapshot
from .serializers import RecordSerializerSnapshot, RecordSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..json_forms import JsonFormTable, Tagger
    from ..source import NullTable, Snapshot, SourceTable, StoredNulls, TypeSource, Use
    from .classes import Record, StoredField

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
