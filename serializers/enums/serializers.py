"""Enums: their bytes in Flink, two snapshots, and the serializers of Python's enum classes.

    i32 ordinal: index into the symbols that the snapshot lists

A member is stored by its name, never by its value. `JavaEnumSerializer` has Flink's snapshot, which a Java job loads by
the name of its class; `EnumSerializer` has a snapshot of stateshift. The rules are in `rules`. Source: format notes 6.1
and 7; compatibility rules 4.4.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import attrs

from ..advice import PYTHON, Advice
from ..errors import CorruptSavepoint, DeclarationError, ValueNotConvertible, shown
from ..registry import register_snapshot
from ..scalars import flink_id
from ..serializer import DECLARED, IDENTITY, TypeSerializer, unrelated
from ..snapshot import OWN_PREFIX, TypeSerializerConfigSnapshot, shorten
from ..stored_names import qualified_name
from . import rules as enum_rules
from .symbols import Symbol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ..compatibility import CompatibilityResult
    from ..snapshot import Speller
    from ..views import DataInputView, DataOutputView

C = TypeVar("C", bound=type)

_OPTIONS = "__stateshift_enum__"

SymbolAliases = tuple[tuple[str, tuple[str, ...]], ...]


@attrs.frozen
class EnumOptions:
    """The arguments of `enum_options`."""

    java_class: str = ""
    aliases: tuple[str, ...] = ()
    symbol_aliases: SymbolAliases = ()
    default: str = ""


def enum_options(
    *,
    java_class: str = "",
    aliases: Iterable[str] = (),
    symbol_aliases: Mapping[str, Iterable[str]] | None = None,
    default: str = "",
) -> Callable[[C], C]:
    """Declare more about an enum class whose members are state, such as former names. Optional.

        @enum_options(symbol_aliases={"CLOSED": ("DONE",)}, default="UNKNOWN")
        class Status(enum.Enum): ...

    Args:
        java_class: The Java enum of the same state in a Flink job; Flink then restores what is written.
        aliases: Former qualified names of the class, Python's or Java's (rule ENUM-7).
        symbol_aliases: Former names of members, by present name (rule ENUM-6).
        default: The member that replaces stored symbols which the class no longer has (rule ENUM-5).

    Raises:
        DeclarationError: A name is not a member, or a former name is claimed twice.
    """
    claims = dict(symbol_aliases or {})
    if isinstance(aliases, str) or any(isinstance(names, str) for names in claims.values()):
        raise DeclarationError("aliases must be tuples of names, not a string", advice='write ("name",)')
    former = tuple((name, tuple(names)) for name, names in claims.items())
    options = EnumOptions(java_class, tuple(aliases), former, default)

    def decorate(cls: C) -> C:
        setattr(cls, _OPTIONS, options)
        EnumSerializer.of(cls)
        return cls

    return decorate


@attrs.frozen
class EnumSerializer(TypeSerializer[Any]):
    """An enum under a snapshot of stateshift.

    Attributes:
        symbols: Names, by ordinal.
        name: The identity of the enum: qualified Python name, or Java class.
        enum_class: The class whose members are read; None: generic `Symbol`s.
        aliases: Former names of the enum.
        symbol_aliases: Former names of symbols: (symbol, former names).
        default: The symbol that replaces stored symbols which are gone, or "".
        python_name: Qualified name of the Python class, "" without one.
    """

    advice: ClassVar[Advice] = PYTHON

    symbols: tuple[str, ...]
    name: str = ""
    enum_class: type[enum.Enum] | None = None
    aliases: tuple[str, ...] = attrs.field(default=(), metadata=DECLARED)
    symbol_aliases: SymbolAliases = attrs.field(default=(), metadata=DECLARED)
    default: str = attrs.field(default="", metadata=DECLARED)
    python_name: str = attrs.field(metadata=IDENTITY)
    _members: tuple[Any, ...] = attrs.field(init=False, eq=False, repr=False)
    _ordinals: dict[str, int] = attrs.field(init=False, eq=False, repr=False)

    @python_name.default
    def _class_name(self) -> str:
        return "" if self.enum_class is None else qualified_name(self.enum_class)

    def __attrs_post_init__(self) -> None:
        enum_rules.check_declaration(self)
        object.__setattr__(self, "_members", tuple(self._member(symbol) for symbol in self.symbols))
        ordinals = {symbol: ordinal for ordinal, symbol in enumerate(self.symbols)}
        object.__setattr__(self, "_ordinals", ordinals)

    def _member(self, symbol: str) -> Any:
        if self.enum_class is None:
            return Symbol(symbol, self.name)
        try:
            return self.enum_class[symbol]
        except KeyError:
            raise DeclarationError(
                f"{self.python_name} has no member {symbol!r}, which may be stored",
                advice=f"keep the member, or name what it became: symbol_aliases={{…: ({symbol!r},)}}",
            ) from None

    @classmethod
    def of(cls, enum_class: type[enum.Enum]) -> EnumSerializer:
        """Return the serializer of an enum class: `JavaEnumSerializer` if `enum_options` named a Java class.

        Raises:
            DeclarationError: It is not an enum of distinct members, or its options do not fit it.
        """
        if not (isinstance(enum_class, type) and issubclass(enum_class, enum.Enum)) or not len(enum_class):
            raise DeclarationError(f"{shown(enum_class)} is not an enum class with members")
        if issubclass(enum_class, enum.Flag):
            raise DeclarationError(
                f"{enum_class.__qualname__} is a Flag; combinations of its members have no ordinal",
                advice="store its integer value, or a set of the members of an Enum",
            )
        options: EnumOptions = enum_class.__dict__.get(_OPTIONS, EnumOptions())
        make = JavaEnumSerializer if options.java_class else EnumSerializer
        return make(
            symbols=tuple(member.name for member in enum_class),
            name=options.java_class or qualified_name(enum_class),
            enum_class=enum_class,
            aliases=options.aliases,
            symbol_aliases=options.symbol_aliases,
            default=options.default,
        )

    def is_named(self, stored_name: str) -> bool:
        """Whether a stored enum of that name is the same as this one, without an alias."""
        return stored_name == self.name

    @property
    def is_immutable_type(self) -> bool:
        return True

    @property
    def length(self) -> int:
        return 4

    def serialize(self, value: Any, target: DataOutputView) -> None:
        is_member = isinstance(value, self.enum_class or enum.Enum)
        ordinal = self._ordinals.get(value.name) if is_member or isinstance(value, Symbol) else None
        if ordinal is None:
            raise ValueNotConvertible(f"{shown(value)} is not one of {self.describe()}: {', '.join(self.symbols)}")
        target.write_int(ordinal)

    def deserialize(self, source: DataInputView) -> Any:
        ordinal = source.read_int()
        if not 0 <= ordinal < len(self._members):
            raise CorruptSavepoint(
                f"{ordinal} is not an ordinal of {self.describe()}, which has {len(self._members)} symbols",
                offset=source.position - 4,
            )
        return self._members[ordinal]

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[Any]:
        return EnumSerializerSnapshot(self.name, self.symbols)

    def ensure_compatibility(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[Any]:
        if not isinstance(snapshot, EnumSerializerSnapshot):
            return unrelated(self, snapshot)
        return enum_rules.resolve(self, snapshot)


@attrs.frozen
class JavaEnumSerializer(EnumSerializer):
    """An enum with a Java class: Flink's EnumSerializer, so that a Java job restores it."""

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[Any]:
        return JavaEnumSerializerSnapshot(self.name, self.symbols)


@register_snapshot
@attrs.define
class EnumSerializerSnapshot(TypeSerializerConfigSnapshot[Any]):
    """Snapshot of `EnumSerializer`: UTF name, i32 n, n x UTF symbol; a symbol's index is its ordinal in the data."""

    snapshot_id: ClassVar[str] = OWN_PREFIX + "enum"
    kind: ClassVar[str] = "enum"

    name: str = ""
    symbols: tuple[str, ...] = ()

    def describe(self) -> str:
        return f"enum {shorten(self.name).rpartition('$')[2]}"

    def spell(self, speller: Speller) -> str:
        return speller.symbols("enum", self.name, self.symbols)

    def write(self, target: DataOutputView) -> None:
        target.write_utf(self.name)
        target.write_int(len(self.symbols))
        for symbol in self.symbols:
            target.write_utf(symbol)

    def read(self, source: DataInputView) -> None:
        self.name = source.read_utf()
        start = source.position
        count = source.read_size("symbols of an enum", least_bytes_each=2)
        self.symbols = tuple(source.read_utf() for _ in range(count))
        if len(set(self.symbols)) < count:
            raise CorruptSavepoint(f"a symbol of the enum {self.name} is listed twice", offset=start)

    def restore_serializer(self) -> TypeSerializer[Any]:
        return EnumSerializer(self.symbols, self.name)


@register_snapshot
@attrs.define
class JavaEnumSerializerSnapshot(EnumSerializerSnapshot):
    """Snapshot of `JavaEnumSerializer`: the same body at Flink's version 3."""

    snapshot_id: ClassVar[str] = flink_id("Enum")
    version: ClassVar[int] = 3

    @property
    def java_class(self) -> str:
        """The Java class of the values."""
        return self.name

    def restore_serializer(self) -> TypeSerializer[Any]:
        return JavaEnumSerializer(self.symbols, self.name)
