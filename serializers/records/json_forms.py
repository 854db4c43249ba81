"""The JSON form of records and POJOs: their class, and their fields by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..json_forms import opaque, tagger_of
from .recursive import RecordReferenceSnapshot
from .serializers import RecordSnapshot

if TYPE_CHECKING:
    from ..json_forms import JsonFormTable, Tagger
    from .values import Record

_around: list[Tagger] = []
"""The taggers of the recursive records within which a tagger is being built, the innermost last."""


def _reference(snapshot: RecordReferenceSnapshot) -> Tagger:
    return _around[-1] if _around else opaque(snapshot)


def _record(snapshot: RecordSnapshot) -> Tagger:
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


JSON_FORMS: JsonFormTable = {RecordSnapshot: _record, RecordReferenceSnapshot: _reference}
