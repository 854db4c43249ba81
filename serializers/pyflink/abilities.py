"""What is registered for bytes of PyFlink's coders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import ValueNotConvertible
from ..json_forms import tagger_of
from ..scalars import kept
from .byte_keys import ByteArrayWrapperSerializer, ByteArrayWrapperSerializerSnapshot
from .coders import CODERS, CoderDecimalSerializer, CoderSnapshot
from .contents import ContentSnapshot, PyFlinkElements

if TYPE_CHECKING:
    from ..json_forms import JsonFormTable, Tagger
    from ..rewrite import RewriteTable
    from ..source import SourceTable

REWRITES: RewriteTable = {
    ByteArrayWrapperSerializer: kept,
    **{coder: kept for coder in CODERS if coder is not CoderDecimalSerializer},  # its text is that of one Decimal only
}


def _as_counterpart(snapshot: CoderSnapshot[Any]) -> Tagger:
    serializer, to_own, _ = snapshot.serializer.same_as
    tag = tagger_of(serializer.snapshot_configuration())

    def convert(value: Any) -> Any:
        try:
            return tag(to_own(value))
        except ValueNotConvertible:  # NaN, an infinity or -0, which Java's BigDecimal lacks
            return {"$opaque": str(value)}

    return convert


def _content(snapshot: ContentSnapshot) -> Tagger:
    if snapshot.content is None:
        return lambda value: {"$bytes": value.hex()}
    tag = tagger_of(snapshot.content)
    return (lambda values: list(map(tag, values))) if snapshot.reader is PyFlinkElements else tag


JSON_FORMS: JsonFormTable = {
    ByteArrayWrapperSerializerSnapshot: lambda _: lambda value: {"$bytes": value.hex()},
    **{coder.snapshot: _as_counterpart for coder in CODERS},
    ContentSnapshot: _content,
}
SOURCES: SourceTable = {
    ByteArrayWrapperSerializerSnapshot: ByteArrayWrapperSerializer.row.hint,
    **{coder.snapshot: coder.row.hint for coder in CODERS},
}
