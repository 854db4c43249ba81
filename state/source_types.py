"""Python source for stored types: type hints, and the classes that they name.

Each snapshot is mapped to the hint whose serializer is compatible with it. Flink's snapshots do not record which fields
of a class may be null: objects are declared nullable, and numbers and booleans, which are mostly Java primitives, only
where a null was found.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ..serializers.containers.arrays import BytePrimitiveArraySerializerSnapshot, PrimitiveArraySnapshot
from ..serializers.containers.either import JavaEitherSerializerSnapshot
from ..serializers.containers.lists import ListSerializerSnapshot, MapSerializerSnapshot, SetSerializerSnapshot
from ..serializers.containers.object_arrays import GenericArraySerializerSnapshot, StringArraySerializerSnapshot
from ..serializers.containers.optional import NullableSerializerSnapshot
from ..serializers.containers.ttl_aware import without_ttl_awareness
from ..serializers.containers.tuples import Tuple0SerializerSnapshot, TupleSerializerSnapshot
from ..serializers.enums.serializers import EnumSerializerSnapshot, JavaEnumSerializerSnapshot
from ..serializers.flink.void import VoidSerializerSnapshot
from ..serializers.flink.windows import (
    GlobalWindowSerializerSnapshot,
    TimeWindowSerializerSnapshot,
    VoidNamespaceSerializerSnapshot,
)
from ..serializers.primitives.big_numbers import BigDecSerializerSnapshot
from ..serializers.primitives.numeric import (
    BigIntSerializerSnapshot,
    BooleanSerializerSnapshot,
    ByteSerializerSnapshot,
    DoubleSerializerSnapshot,
    FloatSerializerSnapshot,
    IntSerializerSnapshot,
    LongSerializerSnapshot,
    ShortSerializerSnapshot,
)
from ..serializers.primitives.text import CharSerializerSnapshot, StringSerializerSnapshot
from ..serializers.records.pojo import PojoSerializerSnapshot
from ..serializers.records.recursive import RecordReferenceSnapshot
from ..serializers.records.serializers import RecordSnapshot
from ..serializers.rows.serializers import RowSerializerSnapshot
from ..serializers.snapshot import snapshot_to_bytes
from ..serializers.temporal.java_sql import (
    DateSerializerSnapshot,
    SqlDateSerializerSnapshot,
    SqlTimeSerializerSnapshot,
    SqlTimestampSerializerSnapshot,
)
from ..serializers.temporal.java_time import (
    InstantSerializerSnapshot,
    LocalDateSerializerSnapshot,
    LocalDateTimeSerializerSnapshot,
    LocalTimeSerializerSnapshot,
)
from .source_text import Expression, Group, Names, is_name, quoted, statement, subscript

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..serializers.containers.sequences import SequenceSnapshot
    from ..serializers.records.fields import StoredField
    from ..serializers.snapshot import TypeSerializerConfigSnapshot
    from .stored_nulls import StoredNulls

    Snapshot = TypeSerializerConfigSnapshot[Any]

_PLAIN: dict[type, str] = {
    BooleanSerializerSnapshot: "bool",
    ByteSerializerSnapshot: "Int8",
    ShortSerializerSnapshot: "Int16",
    IntSerializerSnapshot: "Int32",
    LongSerializerSnapshot: "int",
    BigIntSerializerSnapshot: "BigInt",
    FloatSerializerSnapshot: "Float32",
    DoubleSerializerSnapshot: "float",
    BigDecSerializerSnapshot: "Decimal",
    CharSerializerSnapshot: "Char",
    StringSerializerSnapshot: "str",
    InstantSerializerSnapshot: "Instant",
    LocalDateSerializerSnapshot: "LocalDate",
    LocalTimeSerializerSnapshot: "LocalTime",
    LocalDateTimeSerializerSnapshot: "LocalDateTime",
    DateSerializerSnapshot: "JavaDate",
    SqlDateSerializerSnapshot: "SqlDate",
    SqlTimeSerializerSnapshot: "SqlTime",
    SqlTimestampSerializerSnapshot: "SqlTimestamp",
    BytePrimitiveArraySerializerSnapshot: "bytes",
    StringArraySerializerSnapshot: "Array[str | None]",
    Tuple0SerializerSnapshot: "tuple[()]",
    TimeWindowSerializerSnapshot: "TimeWindow",
    VoidNamespaceSerializerSnapshot: "VoidNamespace",
    GlobalWindowSerializerSnapshot: "GlobalWindow",
    VoidSerializerSnapshot: "None",
}
_PRIMITIVES = (
    BooleanSerializerSnapshot, ByteSerializerSnapshot, ShortSerializerSnapshot, IntSerializerSnapshot,
    LongSerializerSnapshot, FloatSerializerSnapshot, DoubleSerializerSnapshot, CharSerializerSnapshot,
)  # fmt: skip
_CONTAINERS = (ListSerializerSnapshot, SetSerializerSnapshot, MapSerializerSnapshot)
_ARRAYS = (PrimitiveArraySnapshot, StringArraySerializerSnapshot, GenericArraySerializerSnapshot)
_MUTABLE = (ListSerializerSnapshot, MapSerializerSnapshot, *_ARRAYS)
_LONGEST_HINT = 44
_QUALIFIED = re.compile(r"[\w.$]+")
BUILTINS = ("bool", "bytes", "dict", "float", "frozenset", "int", "list", "set", "str", "tuple")


class NoSourceError(Exception):
    """A type cannot be declared in Python source; the text is the reason."""


class TypeSource:
    """Writes type hints, and collects the definitions of the classes and aliases that they need.

    Args:
        names: The names of the module.
        snapshots: All snapshots whose hints will be requested; only the snapshot of a base class lists its subclasses.
        nulls: The fields and containers in which nulls were found.

    Attributes:
        blocks: The definitions as lists of lines, each after the definitions that it needs.
        quoted_names: The names in quoted hints, which refer to a class that is defined later.
    """

    def __init__(self, names: Names, snapshots: Iterable[Snapshot], nulls: StoredNulls) -> None:
        self.blocks: list[list[str]] = []
        self._names = names
        self._nulls = nulls
        self._defined: dict[bytes, str] = {}
        self._aliases: dict[str, str] = {}
        self._attributes: dict[str, dict[str, str]] = {}
        self._open: list[str] = []
        self._reserved: dict[str, str] = {}
        self._undefined: set[str] = set()
        self.quoted_names: set[str] = set()
        self._bases: dict[bytes, RecordSnapshot] = {}
        for snapshot in snapshots:
            self._find_bases(snapshot)

    def _find_bases(self, snapshot: Snapshot) -> None:
        if isinstance(snapshot, RecordSnapshot):
            for _, subclass in _subclasses(snapshot):
                self._bases.setdefault(snapshot_to_bytes(subclass), snapshot)
        for child in snapshot.children():
            self._find_bases(child)

    def try_hint(self, *snapshots: Snapshot) -> tuple[str, ...]:
        """Return the hints of several snapshots; if one has none, discard the definitions of the others.

        Raises:
            NoSourceError: A snapshot has no hint; the text is the reason.
        """
        kept = len(self.blocks), dict(self._defined), dict(self._aliases)
        try:
            return tuple(map(self.hint, snapshots))
        except NoSourceError:
            del self.blocks[kept[0] :]
            self._defined, self._aliases = kept[1:]
            for pending in (self._open, self._reserved, self._undefined):
                pending.clear()
            raise

    def hint(self, snapshot: Snapshot, *, hashable: bool = False) -> str:
        """Return the hint of a snapshot; a long hint becomes an alias.

        Args:
            snapshot: The snapshot of the type.
            hashable: Whether the values are map keys or elements of sets.
        """
        written = self._hint(without_ttl_awareness(snapshot), hashable=hashable)
        if len(written) <= _LONGEST_HINT or self._is_ahead(written):
            return written
        if written not in self._aliases:
            name = self._names.take(f"Stored{snapshot.kind.capitalize()}")
            self.blocks.append(statement(subscript(written), before=f"{name} = "))
            self._aliases[written] = name
        return self._aliases[written]

    def _hint(self, snapshot: Snapshot, *, hashable: bool) -> str:
        if hashable and isinstance(snapshot, _MUTABLE):
            raise NoSourceError(f"{snapshot.describe()} cannot be looked up in Python, as a key or in a set")
        if type(snapshot) in _PLAIN:
            return _PLAIN[type(snapshot)]
        if isinstance(snapshot, RecordSnapshot):
            return self._record(snapshot)
        if isinstance(snapshot, RecordReferenceSnapshot):
            return self._referred(snapshot)
        if isinstance(snapshot, EnumSerializerSnapshot):
            return self._enum(snapshot)
        if isinstance(snapshot, _ARRAYS):
            return self._array(snapshot)
        if isinstance(snapshot, ListSerializerSnapshot):
            return f"list[{self.hint(snapshot.nested[0])}]"
        if isinstance(snapshot, SetSerializerSnapshot):
            element = self._item(self.hint(snapshot.nested[0], hashable=True), snapshot)
            return f"{'frozenset' if hashable else 'set'}[{element}]"
        if isinstance(snapshot, MapSerializerSnapshot):
            key, value = snapshot.nested
            return f"dict[{self.hint(key, hashable=True)}, {self._item(self.hint(value), snapshot)}]"
        return self._fixed(snapshot, hashable=hashable)

    def _fixed(self, snapshot: Snapshot, *, hashable: bool) -> str:
        """Return the hint of a type with a fixed number of parts."""
        if isinstance(snapshot, NullableSerializerSnapshot):
            inner = without_ttl_awareness(snapshot.nested[0])
            if not isinstance(inner, NullableSerializerSnapshot | VoidSerializerSnapshot):
                return f"{self.hint(inner, hashable=hashable)} | None"
        elif isinstance(snapshot, TupleSerializerSnapshot):
            return f"tuple[{', '.join(self.hint(item, hashable=hashable) for item in snapshot.nested)}]"
        elif isinstance(snapshot, RowSerializerSnapshot):
            if not snapshot.supports_row_kind:
                raise NoSourceError("no type hint says rows without a kind, as Flink wrote them before 1.11")
            columns = [_or_none(self.hint(column, hashable=hashable)) for column in snapshot.nested]
            return f"Row[{', '.join(columns) or '()'}]"
        elif isinstance(snapshot, JavaEitherSerializerSnapshot):
            left, right = (self.hint(side, hashable=hashable) for side in snapshot.nested)
            return f"Either[{left}, {right}]"
        raise NoSourceError(f"no type hint says {snapshot.describe()}")

    def _array(self, snapshot: SequenceSnapshot) -> str:
        element = without_ttl_awareness(snapshot.element_snapshot())
        if isinstance(snapshot, PrimitiveArraySnapshot):
            return f"Array[{self.hint(element)}]"
        item = element.nested[0] if isinstance(element, NullableSerializerSnapshot) else element
        if isinstance(without_ttl_awareness(item), StringSerializerSnapshot):
            raise NoSourceError("no type hint says an array of strings that is no String[] for Flink")
        return f"Array[{_or_none(self.hint(element))}]"

    def _item(self, hint: str, container: Snapshot) -> str:
        """Return the hint of an item, nullable where a null was found; the container has its own null flags."""
        return _or_none(hint) if self._nulls.has_item(container) else hint

    def _enum(self, snapshot: EnumSerializerSnapshot) -> str:
        place = snapshot_to_bytes(snapshot)
        if place not in self._defined:
            self._defined[place] = self._define_enum(snapshot)
        return self._defined[place]

    def _define_enum(self, snapshot: EnumSerializerSnapshot) -> str:
        if not snapshot.symbols:
            raise NoSourceError(f"the enum {snapshot.name} has no symbols")
        never = next((symbol for symbol in snapshot.symbols if _is_no_member(symbol)), None)
        if never is not None:
            raise NoSourceError(f"a Python enum cannot have the member {never!r} of {snapshot.name}")
        name = self._names.class_name(snapshot.name, fallback="Symbols")
        is_java = isinstance(snapshot, JavaEnumSerializerSnapshot)
        options = _options(is_java=is_java, name=snapshot.name)
        if all(is_name(symbol) and symbol[0] != "_" and symbol not in _NOT_IN_A_BODY for symbol in snapshot.symbols):
            self.blocks.append([
                *statement(Group("@enum_options(", (options,))),
                f"class {name}(enum.Enum):",
                f'    """{_origin(snapshot.name, "enum", is_java=is_java)}"""',
                "",
                *(f"    {symbol} = enum.auto()" for symbol in snapshot.symbols),
            ])  # fmt: skip
            return name
        members = Group("[", [f"({quoted(symbol)}, {place})" for place, symbol in enumerate(snapshot.symbols, 1)])
        self.blocks.append(statement(Group("enum.Enum(", (quoted(name), members)), before=f"{name} = "))
        self.blocks.append(statement(Group("enum_options(", (options,)), after=f"({name})"))
        return name

    def _record(self, snapshot: RecordSnapshot) -> str:
        place = snapshot_to_bytes(snapshot)
        if snapshot.record_name() in self._open:
            raise NoSourceError(f"{snapshot.record_name()} contains itself in another form")
        if snapshot.circle and place not in self._defined:
            return self._circle(snapshot)
        base = self._bases.get(place)
        if place not in self._defined and base is not None:
            self._record(base)
        if place not in self._defined:
            self._define_record(snapshot, base="", inherited=())
        return self._defined[place]

    def _circle(self, snapshot: RecordSnapshot) -> str:
        """Define mutually recursive classes; their forward references are quoted."""
        outer = self._reserved, self._undefined
        self._reserved = {name: self._names.class_name(name, fallback="Stored") for name in snapshot.circle}
        self._undefined = set(self._reserved.values())
        defined = self._reserved[snapshot.record_name()]
        subclasses = {name for record in snapshot.circle.values() for name, _ in _subclasses(record)}
        for name, record in snapshot.circle.items():
            if name not in subclasses:  # subclasses are defined with the class that they extend
                self._define_record(record, base="", inherited=())
        self._reserved, self._undefined = outer
        return defined

    def _referred(self, snapshot: RecordReferenceSnapshot) -> str:
        if snapshot.name not in self._reserved:
            raise NoSourceError(f"{snapshot.name} is not described here")
        return self._reserved[snapshot.name]

    def _is_ahead(self, hint: str) -> bool:
        """Whether a hint names a class that is defined later."""
        return not self._undefined.isdisjoint(re.findall(r"\w+", hint))

    def _define_record(self, snapshot: RecordSnapshot, *, base: str, inherited: tuple[StoredField, ...]) -> None:
        """Define a class, after the classes of its fields and before its subclasses."""
        stored_name, fields = snapshot.record_name(), snapshot.stored_fields()
        known = {field.name: field for field in fields}
        if any(_same(field, known.get(field.name)) is False for field in inherited):
            raise NoSourceError(f"{stored_name} has other fields than the class that it extends")
        name = self._reserved.get(stored_name) or self._names.class_name(stored_name, fallback="Stored")
        attributes = dict(self._attributes.get(base, {}))
        taken = self._names.copy()
        for attribute in attributes.values():
            taken.attribute(attribute)
        own = [field for field in fields if field.name not in {field.name for field in inherited}]
        attributes |= {field.name: taken.attribute(field.name) for field in own}
        self._open.append(stored_name)
        is_pojo = isinstance(snapshot, PojoSerializerSnapshot)
        required: list[list[str]] = []
        optional: list[list[str]] = []
        for field in own:
            lines, has_default = self._field(field, attributes[field.name], stored_name, is_pojo=is_pojo)
            (optional if has_default else required).append(lines)
        subclasses = _subclasses(snapshot)
        self._open.pop()
        decorator = "@attrs.frozen(kw_only=True)" if base or subclasses else "@attrs.frozen"
        self.blocks.append([
            *statement(Group("@record(", (_options(is_java=is_pojo, name=stored_name),))),
            decorator,
            f"class {name}({base}):" if base else f"class {name}:",
            f'    """{_origin(stored_name, "class", is_java=is_pojo)}"""',
            *([""] if own else []),
            *(line for lines in (*required, *optional) for line in lines),
        ])  # fmt: skip
        self._defined.setdefault(snapshot_to_bytes(snapshot), name)
        self._undefined.discard(name)
        self._attributes[name] = attributes
        self._open.append(stored_name)
        for subclass in _nearest(subclasses):
            self._define_record(subclass, base=name, inherited=fields)
        self._open.pop()

    def _field(self, field: StoredField, attribute: str, stored_class: str, *, is_pojo: bool) -> tuple[list[str], bool]:
        """Return the lines that declare a field, and whether it has a default."""
        snapshot = without_ttl_awareness(field.snapshot)
        given = ""
        if isinstance(snapshot, NullableSerializerSnapshot):
            inner = without_ttl_awareness(snapshot.nested[0])
            hint = self.hint(snapshot)
            if not (is_pojo and isinstance(inner, _CONTAINERS)) or not hint.endswith(" | None"):
                given = hint
            hint = hint.removesuffix(" | None")
            optional = True
        else:
            hint = self.hint(snapshot)
            may_be_null = type(snapshot) not in _PRIMITIVES or self._nulls.has_field(stored_class, field.name)
            optional = field.optional is True or (is_pojo and may_be_null)
            if optional and is_pojo and isinstance(snapshot, _CONTAINERS):
                given = hint
        if given and self._is_ahead(given):
            raise NoSourceError(f"the field {field.name!r} of {stored_class} has a null flag of its own")
        more: list[Expression] = [f"serializer_for({given})"] if given else []
        options = [f"name={quoted(field.name)}"] if attribute != field.name else []
        if field.declared_by not in {"", stored_class}:
            options.append(f"declared_by={quoted(field.declared_by)}")
        if options:
            more.append(Group("Field(", options))
        full = _or_none(hint) if optional else hint
        if self._is_ahead(full):
            self.quoted_names |= set(re.findall(r"\w+", full))
            full = f'"{full}"'
        written: Expression = Group("Annotated[", (full, *more)) if more else full
        after = " = None" if optional else ""
        return statement(written, before=f"{attribute}: ", after=after, indent=4), optional


def _or_none(hint: str) -> str:
    """Return a hint with `| None`, unless it allows None already."""
    return hint if hint == "None" or hint.endswith(" | None") else f"{hint} | None"


_NOT_IN_A_BODY = {"enum", "name", "value"}


def _is_no_member(symbol: str) -> bool:
    """Whether Python does not make a member of this name in an enum."""
    return not symbol or symbol == "mro" or (symbol.startswith("_") and symbol.endswith("_"))


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


def _options(*, is_java: bool, name: str) -> str:
    return f"java_class={quoted(name)}" if is_java else f"aliases=({quoted(name)},)"


def _origin(name: str, what: str, *, is_java: bool) -> str:
    """Return the docstring of a generated class."""
    whose = "Java" if is_java else "Python"
    return f"The {whose} {what} {name}." if _QUALIFIED.fullmatch(name) else f"A {whose} {what}."
