"""Enums: their bytes in Flink, two snapshots, the serializers of Python's enum classes, and `Symbol`.

    i32 ordinal: index into the symbols that the snapshot lists

A member is stored by its name, never by its value. `JavaEnumSerializer` has Flink's snapshot, which a Java job loads by
the name of its class; `EnumSerializer` has a snapshot of stateshift. Source: format notes 6.1 and 7; compatibility
rules 4.4.

The rules ENUM-1 to ENUM-7: pairing of stored symbols with new ones, and the findings.

Stored ordinals are pinned: a reconfigured copy lists the stored symbols in stored order, under their present names,
followed by the new symbols, whatever the order of the declaration. Source: compatibility rules 4.4.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import attrs

from ..byte_forms import UTF, many
from ..compatibility import CompatibilityResult, Finding, Flag, Flagged, Verdict, worst
from ..errors import CorruptSavepoint, DeclarationError, ValueNotConvertible, shown
from ..registry import register_snapshot
from ..scalars import flink_id
from ..serializer import CONVERTER, DECLARED, IDENTITY, KEEP_OLD_TYPE, TypeSerializer, unrelated
from ..snapshot import OWN_PREFIX, FormedSnapshot, TypeSerializerConfigSnapshot, shorten
from ..stored_names import lasting, qualified_name
from ..ways_out import WayOut, by_migration
from ..wording import PYTHON, Advice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ..byte_forms import Fields
    from ..snapshot import Speller
    from ..views import DataInputView, DataOutputView


@lasting
@attrs.frozen(repr=False)
class Symbol:
    """A symbol of an enum whose class need not exist here. Equal by name.

    Attributes:
        name: The name, as stored.
        type_name: The stored class name of the enum; for display only.
    """

    name: str
    type_name: str = attrs.field(default="", eq=False)

    def __repr__(self) -> str:
        short = self.type_name.rpartition(".")[2].rpartition("$")[2]
        return f"{short}.{self.name}" if short else self.name


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
        check_declaration(self)
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

    is_immutable_type = True

    length = 4

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
        return resolve(self, snapshot)


@attrs.frozen
class JavaEnumSerializer(EnumSerializer):
    """An enum with a Java class: Flink's EnumSerializer, so that a Java job restores it."""

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[Any]:
        return JavaEnumSerializerSnapshot(self.name, self.symbols)


@register_snapshot
@attrs.define
class EnumSerializerSnapshot(FormedSnapshot[Any]):
    """Snapshot of `EnumSerializer`; a symbol's index is its ordinal in the data."""

    snapshot_id: ClassVar[str] = OWN_PREFIX + "enum"
    kind: ClassVar[str] = "enum"
    body: ClassVar[Fields] = {"name": UTF, "symbols": many(UTF, "symbols of an enum")}

    name: str = ""
    symbols: tuple[str, ...] = ()

    def describe(self) -> str:
        return f"enum {shorten(self.name).rpartition('$')[2]}"

    def spell(self, speller: Speller) -> str:
        return speller.symbols("enum", self.name, self.symbols)

    def read(self, source: DataInputView) -> None:
        start = source.position
        super().read(source)
        if len(set(self.symbols)) < len(self.symbols):
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


@attrs.frozen
class SymbolConversion:
    """Converts a stored symbol to a present one."""

    type_name: str
    became: dict[str, str]

    def __call__(self, value: Any) -> Symbol:
        try:
            return Symbol(self.became[value.name], self.type_name)
        except (AttributeError, KeyError):
            raise ValueNotConvertible(
                f"{shown(value)} is not one of the stored symbols: {', '.join(self.became)}"
            ) from None


@attrs.frozen
class _Pairing:
    """The present symbol of each stored one.

    Attributes:
        became: Stored symbol -> present one, for those that have one.
        removed: Stored symbols that have none.
        added: Present symbols that are not stored under any name, in declared order.
    """

    became: dict[str, str]
    removed: tuple[str, ...]
    added: tuple[str, ...]

    @property
    def pinned(self) -> tuple[str, ...]:
        """Present names by stored ordinal, with new ones at the end."""
        return (*self.became.values(), *self.added)

    @property
    def merged(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Present symbols that replace several stored ones, each with those."""
        sources: dict[str, list[str]] = {}
        for stored, present in self.became.items():
            sources.setdefault(present, []).append(stored)
        return tuple((present, tuple(stored)) for present, stored in sources.items() if len(stored) > 1)


def check_declaration(serializer: EnumSerializer) -> None:
    """Refuse options that do not fit the symbols.

    Raises:
        DeclarationError: A symbol occurs twice, a name is not a symbol, or a former name is claimed twice.
    """
    symbols, claimed = serializer.symbols, dict[str, str]()
    what = f"the enum {serializer.name}"
    if len(set(symbols)) < len(symbols):
        raise DeclarationError(f"{what} lists a symbol twice: {', '.join(symbols)}")
    if serializer.default and serializer.default not in symbols:
        raise DeclarationError(f"the default {serializer.default!r} is not a symbol of {what}: {', '.join(symbols)}")
    for symbol, former in serializer.symbol_aliases:
        if symbol not in symbols:
            raise DeclarationError(f"{symbol!r} has aliases but is not a symbol of {what}: {', '.join(symbols)}")
        for alias in former:
            if alias in symbols:
                raise DeclarationError(
                    f"{alias!r} is declared a former name of {symbol!r}, but is still a symbol of {what}",
                    advice=f"remove the alias, or the member {alias!r}",
                )
            if claimed.setdefault(alias, symbol) != symbol:
                raise DeclarationError(
                    f"{alias!r} is declared a former name of both {claimed[alias]!r} and {symbol!r} of {what}",
                    advice="remove it from one of them",
                )


def resolve(new: EnumSerializer, old: EnumSerializerSnapshot) -> CompatibilityResult[Any]:
    """Judge a stored enum for an enum serializer."""
    pairing = _pair(new, old.symbols)
    old_text, new_text = old.describe(), new.describe()
    if old_text == new_text:
        old_text, new_text = (
            f"{text}({', '.join(symbols)})" for text, symbols in ((old_text, old.symbols), (new_text, new.symbols))
        )
    findings = [
        attrs.evolve(finding, old=finding.old or old_text, new=finding.new or new_text)
        for finding in (*_identity(new, old), *_removed(new, old, pairing), *_renamed(pairing), *_moved(new, pairing))
    ]
    verdict = worst([finding.verdict for finding in findings])
    if verdict is Verdict.INCOMPATIBLE:
        return CompatibilityResult.incompatible(*findings)
    became = {**dict.fromkeys(pairing.removed, new.default), **pairing.became}
    renames = any(stored != present for stored, present in became.items())
    conversion = SymbolConversion(new.name, became) if renames else None
    if verdict is Verdict.COMPATIBLE_AFTER_RECONFIGURATION:
        copy = attrs.evolve(new, symbols=pairing.pinned)
        return CompatibilityResult.compatible_after_reconfiguration(copy, *findings, conversion=conversion)
    return CompatibilityResult(verdict, tuple(findings), conversion=conversion)


def _pair(new: EnumSerializer, stored: tuple[str, ...]) -> _Pairing:
    aliases = {alias: symbol for symbol, former in new.symbol_aliases for alias in former}
    present = set(new.symbols)
    became = {name: name if name in present else aliases[name] for name in stored if name in present or name in aliases}
    taken = set(became.values())
    return _Pairing(
        became,
        removed=tuple(name for name in stored if name not in became),
        added=tuple(symbol for symbol in new.symbols if symbol not in taken),
    )


def _identity(new: EnumSerializer, old: EnumSerializerSnapshot) -> list[Finding]:
    """Check ENUM-7 and SNAP-7: the class is the same, or is declared to have had the stored name."""
    if new.is_named(old.name):
        return []
    if old.name in (*new.aliases, new.python_name):
        verdict, reason = Verdict.COMPATIBLE_AFTER_RECONFIGURATION, "the enum has this former name"
        return [Finding("$", "ENUM-7", verdict, old.name, new.name, reason)]
    reason = "another enum, and no alias says that it is the same"
    ways = (new.advice.same_enum(old.name), KEEP_OLD_TYPE)
    return [Finding("$", "ENUM-7", Verdict.INCOMPATIBLE, old.name, new.name, reason, ways)]


def _removed(new: EnumSerializer, old: EnumSerializerSnapshot, pairing: _Pairing) -> list[Finding]:
    """Check ENUM-4 and ENUM-5; a removed and an added symbol may be a renamed one."""
    findings = []
    for symbol in pairing.removed:
        twin = _twin(symbol, new, old, pairing)
        flags: tuple[Flagged | Flag, ...] = ()
        ways: tuple[WayOut | str, ...] = (f"keep the symbol {symbol!r}",)
        hint = ""
        if twin:
            flags = (Flag.POSSIBLE_RENAME.of(symbol, twin),)
            ways = (new.advice.symbol_alias(symbol, twin), *ways)
            hint = f"; was it renamed to {twin!r}?"
        if new.default:
            reason = f"the symbol {symbol!r} is gone; where it is stored, it becomes the default {new.default!r}{hint}"
            ways, flags = (by_migration(), *ways), (Flag.LOSSY, *flags)
            findings.append(Finding("$", "ENUM-5", Verdict.REQUIRES_MIGRATION, "", "", reason, ways, flags))
        else:
            reason = f"the symbol {symbol!r} is gone, and stored values may use it{hint}"
            ways = (*ways, new.advice.enum_default(), CONVERTER)
            findings.append(Finding("$", "ENUM-4", Verdict.INCOMPATIBLE, "", "", reason, ways, flags))
    return findings


def _twin(symbol: str, new: EnumSerializer, old: EnumSerializerSnapshot, pairing: _Pairing) -> str:
    """Return the added symbol that a removed one was probably renamed to: the one at its ordinal, or the only one."""
    ordinal = old.symbols.index(symbol)
    if ordinal < len(new.symbols) and new.symbols[ordinal] in pairing.added:
        return new.symbols[ordinal]
    return pairing.added[0] if len(pairing.added) == len(pairing.removed) == 1 else ""


def _renamed(pairing: _Pairing) -> list[Finding]:
    """Check ENUM-6; if several stored symbols became one, their ordinals cannot be kept."""
    findings = []
    merged = pairing.merged
    for present, stored in merged:
        reason = f"the stored symbols {', '.join(stored)} all become {present!r}, by its aliases"
        ways = (by_migration(), f"keep the symbols apart: remove them from the aliases of {present!r}")
        verdict = Verdict.REQUIRES_MIGRATION
        findings.append(Finding("$", "ENUM-6", verdict, ", ".join(stored), present, reason, ways, (Flag.LOSSY,)))
    in_merge = {name for _, stored in merged for name in stored}
    for stored_name, present in pairing.became.items():
        if stored_name != present and stored_name not in in_merge:
            verdict, reason = Verdict.COMPATIBLE_AFTER_RECONFIGURATION, "the symbol was renamed; its ordinal is kept"
            findings.append(Finding("$", "ENUM-6", verdict, stored_name, present, reason))
    return findings


def _moved(new: EnumSerializer, pairing: _Pairing) -> list[Finding]:
    """Check ENUM-2 and ENUM-3."""
    findings = []
    verdict = Verdict.COMPATIBLE_AFTER_RECONFIGURATION
    if pairing.added:
        reason = f"added: {', '.join(pairing.added)}; stored ordinals are kept, and new ones follow them"
        findings.append(Finding("$", "ENUM-2", verdict, "", "", reason))
    kept = dict.fromkeys(pairing.became.values())
    if tuple(kept) != tuple(symbol for symbol in new.symbols if symbol in kept):
        reason = "the symbols are declared in another order; stored ordinals are kept"
        findings.append(Finding("$", "ENUM-3", verdict, "", "", reason))
    return findings
