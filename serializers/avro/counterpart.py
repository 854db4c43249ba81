"""Counterparts of Avro types, and conversion of values to those of the counterpart, and back (FAM-4).

Avro                              counterpart
dict                              Record
symbol of an enum, as text        Symbol
UUID                              its text, or its bytes
number of nanoseconds             Instant, LocalDateTime
date, time, datetime              the same, or an exact value

Counterparts among stateshift's own types, which rule FAM-4 compares with records, lists and numbers.

    record, enum, array, map, boolean, int, long, float, double, bytes, string    the types of these names
    fixed      bytes                    a union of null and one type   that type, optional
    decimal    decimal, without bound   any other union                nothing
    uuid       string, or bytes         times                          LocalDate, LocalTime, LocalDateTime, Instant

If an Avro type holds less than its counterpart, a limit adds a finding when it is the new type. Source: Avro 1.12
specification; compatibility rules, sections 4, 6 and 7.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from ..compatibility import Finding, Flag, Verdict
from ..containers.arrays import BytesSerializer
from ..containers.lists import ListSerializer, MapSerializer
from ..containers.pieces import convert_each
from ..containers.wrappers import OptionalSerializer
from ..defaults import NO_VALUE, Default
from ..enums.serializers import EnumSerializer, Symbol
from ..errors import OldReaderUnavailable, ValueNotConvertible, at_step, shown
from ..flink.namespaces import VoidSerializer
from ..primitives.numeric import (
    BooleanSerializer,
    DecimalSerializer,
    DoubleSerializer,
    FloatSerializer,
    IntSerializer,
    LongSerializer,
)
from ..primitives.text import StringSerializer
from ..records.classes import Record, RecordField, field_of
from ..records.recursive import Circles, RecordReference, RecursiveRecordSerializer
from ..records.serializers import RecordSerializer
from ..serializer import CONVERTER, KEEP_OLD_TYPE, Counterpart, TypeSerializer
from ..snapshot import TypeSerializerConfigSnapshot
from ..temporal.serializers import (
    DateSerializer,
    InstantSerializer,
    LocalDateSerializer,
    LocalDateTimeSerializer,
    LocalTimeSerializer,
    TemporalSnapshot,
)
from ..temporal.values import Instant, LocalDateTime, TemporalValue, civil_date
from ..wording import Advice
from .resolution import default_value
from .schema import parse

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import NoReturn

    from ..compatibility import CompatibilityResult
    from ..records.recursive import Others
    from ..records.serializers import DescribedRecordSerializer
    from ..views import DataInputView, DataOutputView
    from ..ways_out import WayOut
    from .schema import AvroField, Node

_NANOS, _DAY_SECONDS = 1_000_000_000, 86_400
_FIRST_DAY = dt.date(1970, 1, 1).toordinal()


@attrs.frozen
class ToOwn:
    """Converts an Avro value to a value of the counterpart. Pickled as the schema's text."""

    schema: str

    def __call__(self, value: Any) -> Any:
        with _bounded():
            return own_value(parse(self.schema), value)


@attrs.frozen
class FromOwn:
    """Converts a value of the counterpart to an Avro value. Pickled as the schema's text."""

    schema: str

    def __call__(self, value: Any) -> Any:
        with _bounded():
            return avro_value(parse(self.schema), value)


@contextmanager
def _bounded() -> Iterator[None]:
    try:
        yield
    except RecursionError:
        raise ValueNotConvertible("a value is nested too deeply") from None


def own_value(node: Node, value: Any) -> Any:
    """Return an Avro value as the counterpart's generic readers would return it."""
    return _translated(node, value, own_value, _own_single, lambda fields: Record(node.name, fields))


def avro_value(node: Node, value: Any) -> Any:
    """Return a generic value, or an object of a class, as the Avro codec writes it.

    Raises:
        ValueNotConvertible: The Avro type cannot hold it.
    """
    return _translated(node, value, avro_value, _avro_single, dict)


def _translated(
    node: Node,
    value: Any,
    inner: Callable[[Node, Any], Any],
    single: Callable[[Node, Any], Any],
    record: Callable[[dict[str, Any]], Any],
) -> Any:
    """Convert a value recursively along its type; a null stays null."""
    if value is None:
        return None
    if node.type == "union":
        (branch,) = (branch for branch in node.branches if branch.type != "null")
        return inner(branch, value)
    if node.type == "array":
        return convert_each(lambda item: inner(node.inner, item), value, "[]")
    if node.type == "map":
        return dict(zip(value, convert_each(lambda item: inner(node.inner, item), value.values(), "{}"), strict=True))
    if node.type != "record":
        return single(node, value)
    fields = {}
    for field in node.fields:
        with at_step(f".{field.name}"):
            fields[field.name] = inner(field.node, field_of(value, field.name, field.name))
    return record(fields)


def _own_single(node: Node, value: Any) -> Any:
    if node.type == "enum":
        return Symbol(getattr(value, "name", value), node.name)
    if node.logical == "uuid":
        return str(value) if node.type == "string" else value.bytes
    if node.logical == "timestamp-nanos":
        return Instant(*divmod(value, _NANOS))
    if node.logical == "local-timestamp-nanos":
        seconds, nanos = divmod(value, _NANOS)
        days, second = divmod(seconds, _DAY_SECONDS)
        minute, second = divmod(second, 60)
        hour, minute = divmod(minute, 60)
        year, month, day = civil_date(days)
        return LocalDateTime(year, month, day, hour, minute, second, nanos)
    return value


def _avro_single(node: Node, value: Any) -> Any:
    if node.type == "enum":
        return getattr(value, "name", value)
    if node.logical == "uuid":
        return _uuid(value)
    if node.logical == "timestamp-nanos":
        seconds, nanos = Instant.from_python(value).moment
        return seconds * _NANOS + nanos
    if node.logical == "local-timestamp-nanos":
        return _local_nanos(value if isinstance(value, LocalDateTime) else LocalDateTime.from_python(value))
    if not isinstance(value, TemporalValue):
        return value
    try:
        return value.to_python()
    except ValueNotConvertible as error:
        raise ValueNotConvertible(
            f"{shown(str(value))} does not fit {node.describe()}, which holds microseconds of the years 1 to 9999",
            advice="handle it in a converter, or use nanoseconds",
        ) from error


def _uuid(value: Any) -> uuid.UUID:
    try:
        return uuid.UUID(bytes=value) if isinstance(value, bytes) else uuid.UUID(value)
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueNotConvertible(f"{shown(value)} is not a UUID") from error


def _local_nanos(value: LocalDateTime) -> int:
    if not dt.MINYEAR <= value.year <= dt.MAXYEAR:
        raise ValueNotConvertible(f"{shown(str(value))} does not fit nanoseconds in a long (64 bits)")
    days = dt.date(value.year, value.month, value.day).toordinal() - _FIRST_DAY
    seconds = days * _DAY_SECONDS + value.hour * 3600 + value.minute * 60 + value.second
    return seconds * _NANOS + value.nanos


Limit = Callable[["Node", TypeSerializerConfigSnapshot[Any]], "Finding | None"]

_SINGLE: dict[str, TypeSerializer[Any]] = {
    "null": VoidSerializer(),
    "boolean": BooleanSerializer(),
    "int": IntSerializer(),
    "long": LongSerializer(),
    "float": FloatSerializer(),
    "double": DoubleSerializer(),
    "bytes": BytesSerializer(),
    "string": StringSerializer(),
    "fixed": BytesSerializer(),
}
_TIMES: dict[str, TypeSerializer[Any]] = {
    "date": LocalDateSerializer(exact=True),
    "time": LocalTimeSerializer(exact=True),
    "timestamp": InstantSerializer(exact=True),
    "local-timestamp": LocalDateTimeSerializer(exact=True),
}
_PER_SECOND = {"millis": 1_000, "micros": 1_000_000, "nanos": 1_000_000_000}


class _InSchema(Advice):
    """Says what to write in an Avro schema so that a finding goes away."""

    def same_record(self, name: str) -> str:
        return f'if it is the same record: "aliases": ["{name}"] in the new schema'

    def same_enum(self, name: str) -> str:
        return f'if it is the same enum: "aliases": ["{name}"] in the new schema'

    def field_alias(self, stored: str) -> str:
        return f'"aliases": ["{stored}"]'

    def default(self, name: str, *, optional: bool) -> str:
        return f'give {name} a "default"' + (": null" if optional else "")

    def optional(self, name: str) -> str:
        return f'let it be null: "type": ["null", …] of {name}'

    def on_none(self, name: str) -> tuple[WayOut | str, ...]:
        return (CONVERTER,)

    def subclass(self, name: str) -> tuple[WayOut | str, ...]:
        return (CONVERTER,)  # an Avro record has no subclasses

    def symbol_alias(self, stored: str, present: str) -> WayOut:
        return attrs.evolve(CONVERTER, words=f"if it is now called {present!r}: {CONVERTER.words}")

    def enum_default(self) -> str:
        return 'give the enum (not the field) a "default"'


_ADVICE = _InSchema()


def _short(name: str) -> str:
    return name.rpartition(".")[2]


class _InAvro:
    """A type that is identified by its name without the namespace (AV-2)."""

    advice: ClassVar[Advice] = _ADVICE
    name: str

    def is_named(self, stored_name: str) -> bool:
        return _short(stored_name) == _short(self.name)


@attrs.frozen
class _RecordInAvro(_InAvro, RecordSerializer[Any]):
    """A record."""


@attrs.frozen
class _RecursiveInAvro(_InAvro, RecursiveRecordSerializer[Any]):
    """A record that contains itself."""


@attrs.frozen
class _EnumInAvro(_InAvro, EnumSerializer):
    """An enum."""


_ONLY_ASKED = "a counterpart is asked about stored types; the Avro type itself is what reads and writes"


@attrs.define
class _NothingSnapshot(TypeSerializerConfigSnapshot[Any]):
    """Stands for an Avro type that has no counterpart; never stored."""

    kind: ClassVar[str] = "union"

    words: str = ""

    def describe(self) -> str:
        return self.words

    def write(self, target: DataOutputView) -> NoReturn:
        raise TypeError(_ONLY_ASKED)

    def read(self, source: DataInputView) -> NoReturn:
        raise TypeError(_ONLY_ASKED)

    def restore_serializer(self) -> NoReturn:
        raise OldReaderUnavailable(f"{self.words} is only read as a part of its schema")


@attrs.frozen
class _Asked(TypeSerializer[Any]):
    """A counterpart that only judges; values are read and written by the Avro type itself."""

    node: Node = attrs.field(eq=False)

    def serialize(self, value: Any, target: DataOutputView) -> NoReturn:
        raise TypeError(_ONLY_ASKED)

    def deserialize(self, source: DataInputView) -> NoReturn:
        raise TypeError(_ONLY_ASKED)

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[Any]:
        return _NothingSnapshot(self.node.describe())


@attrs.frozen
class _Limited(_Asked):
    """A counterpart that can hold more than its Avro type.

    Attributes:
        own: The serializer that judges for the Avro type.
        limit: Returns a finding about the limits of the Avro type, or None.
        stored: The serializer for the Avro type when it is the stored one, if different from `own`.
    """

    own: TypeSerializer[Any]
    limit: Limit = attrs.field(eq=False)
    stored: TypeSerializer[Any] | None = None

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[Any]:
        return (self.stored or self.own).snapshot_configuration()

    def describe(self) -> str:
        return self.node.describe()

    def ensure_compatibility(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[Any]:
        result = self._asked(snapshot)
        finding = None if result.is_incompatible() else self.limit(self.node, snapshot)
        if finding is None:
            return result
        verdict = max(result.verdict, finding.verdict)
        return attrs.evolve(result, verdict=verdict, findings=(finding, *result.findings))

    def _asked(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[Any]:
        """Return the counterpart's result, with the name of the Avro type in place of its own."""
        result = self.own.ensure_compatibility(snapshot)
        was, name = self.own.describe(), self.node.describe()
        findings = (attrs.evolve(one, new=name) if one.new == was else one for one in result.findings)
        return attrs.evolve(result, findings=tuple(findings))


def _refused(rule: str, reason: str, *ways_out: WayOut | str) -> Limit:
    def limit(node: Node, snapshot: TypeSerializerConfigSnapshot[Any]) -> Finding:
        ways = (*ways_out, CONVERTER, KEEP_OLD_TYPE)
        return Finding("$", rule, Verdict.INCOMPATIBLE, snapshot.describe(), node.describe(), reason, ways)

    return limit


def _may_fail(rule: str, reason: str) -> Limit:
    def limit(node: Node, snapshot: TypeSerializerConfigSnapshot[Any]) -> Finding:
        flags = (Flag.MAY_FAIL_PER_VALUE,)
        return Finding("$", rule, Verdict.COMPATIBLE, snapshot.describe(), node.describe(), reason, (CONVERTER,), flags)

    return limit


_NO_DECIMAL_BOUND = _refused(
    "DEC-3",
    "the stored decimals have no bound on their digits, but the new type has",
    "store text or bytes of your own",
)
_NO_SIZE = _refused("AV-3", "fixed_size_mismatch: stored bytes are of any length", 'take "bytes"')
_NO_UUID = _may_fail("AV-8", "a stored value that is no UUID fails")
_TOO_FINE = _may_fail("TIME-1", "the new type holds microseconds of the years 1 to 9999; a value beyond fails")
_COARSER = _refused("TIME-3", "stored values have finer fractions of a second than milliseconds", "take microseconds")


def _unless_as_coarse(node: Node, snapshot: TypeSerializerConfigSnapshot[Any]) -> Finding | None:
    """Return the finding TIME-3 for milliseconds, or a remark for microseconds, the limit of Python's types, too."""
    per_second = _PER_SECOND.get(node.logical.rpartition("-")[2], 0)
    if not isinstance(snapshot, TemporalSnapshot) or snapshot.serializer.row.meaning.per_second <= per_second:
        return None
    return (_TOO_FINE if node.logical.endswith("micros") else _COARSER)(node, snapshot)


@lru_cache(maxsize=256)
def avro_counterpart(schema: str) -> Counterpart:
    """Return the counterpart of a schema's type."""
    return Counterpart(_Maker().own(parse(schema)), ToOwn(schema), FromOwn(schema))


class _Maker:
    """Makes the counterparts of a schema's nodes."""

    def __init__(self) -> None:
        self._circles = Circles(self._record, _closed, lambda node: RecordReference(node.name))

    def own(self, node: Node) -> TypeSerializer[Any]:
        inner, optional = _without_null(node)
        if optional:
            return OptionalSerializer(self.own(inner))
        if node.type == "record":
            return self._circles.serializer(node)
        if node.type == "enum":
            return _EnumInAvro(node.symbols, node.name, aliases=node.aliases, default=node.default)
        if node.type == "array":
            return ListSerializer(self.own(node.inner))
        if node.type == "map":
            value, nullable = _without_null(node.inner)
            return MapSerializer(StringSerializer(), self.own(value), nullable_values=nullable)
        return _single(node)

    def _record(self, node: Node) -> RecordSerializer[Any]:
        fields = sorted(map(self.field, node.fields), key=lambda field: field.name)
        return _RecordInAvro(node.name, tuple(fields), aliases=node.aliases)

    def field(self, field: AvroField) -> RecordField:
        node, optional = _without_null(field.node)
        default = None
        if field.default is not NO_VALUE:
            default = Default(own_value(field.node, default_value(field)))
        return RecordField(field.name, self.own(node), optional=optional, aliases=field.aliases, default=default)


def _closed(_: Node, record: DescribedRecordSerializer[Any], others: Others | None) -> TypeSerializer[Any]:
    if others is None:
        return record
    return _RecursiveInAvro(record.name, record.fields, aliases=record.aliases, others=others)


def _single(node: Node) -> TypeSerializer[Any]:
    if node.decimals is not None:
        return _Limited(node, DecimalSerializer(), _NO_DECIMAL_BOUND)
    if node.logical == "uuid":
        return _Limited(node, _SINGLE[node.type], _NO_UUID if node.type == "string" else _NO_SIZE)
    if node.logical:
        kind = node.logical if node.logical == "date" else node.logical.rpartition("-")[0]
        stored = DateSerializer(exact=True) if node.logical == "timestamp-millis" else None
        return _Limited(node, _TIMES[kind], _unless_as_coarse, stored)
    if node.type == "fixed":
        return _Limited(node, _SINGLE["fixed"], _NO_SIZE)
    return _SINGLE.get(node.type) or _Asked(node)


def _without_null(node: Node) -> tuple[Node, bool]:
    """Take the null off a union of null and one type."""
    others = [branch for branch in node.branches if branch.type != "null"]
    if len(others) == 1 and len(node.branches) == 2:
        return others[0], True
    return node, False
