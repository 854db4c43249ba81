"""The rules for enums, ENUM-1 to ENUM-7: pairing of stored symbols with new ones, and the findings.

Stored ordinals are pinned: a reconfigured copy lists the stored symbols in stored order, under their present names,
followed by the new symbols, whatever the order of the declaration. Source: compatibility rules 4.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ..compatibility import CompatibilityResult, Finding, Flag, Verdict, worst
from ..errors import DeclarationError, ValueNotConvertible, shown
from ..serializer import CONVERTER, KEEP_OLD_TYPE
from .symbols import Symbol

if TYPE_CHECKING:
    from .serializers import EnumSerializer, EnumSerializerSnapshot


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
        flags: tuple[str, ...] = ()
        ways: tuple[str, ...] = (f"keep the symbol {symbol!r}",)
        hint = ""
        if twin:
            flags = (f"{Flag.POSSIBLE_RENAME}:{symbol}->{twin}",)
            ways = (new.advice.symbol_alias(symbol, twin), *ways)
            hint = f"; was it renamed to {twin!r}?"
        if new.default:
            reason = f"the symbol {symbol!r} is gone; where it is stored, it becomes the default {new.default!r}{hint}"
            ways, flags = ("migrate the state", *ways), (Flag.LOSSY, *flags)
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
        ways = ("migrate the state", f"keep the symbols apart: remove them from the aliases of {present!r}")
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
