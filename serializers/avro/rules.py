"""The rules for Avro, AV-1 to AV-11: resolution of a stored schema to a present one, and the findings.

A stored schema that does not resolve is refused (AV-3), with every problem. One that resolves is compatible if the
present schema alone reads the stored bytes to the resolved value (AV-4), and otherwise requires a migration (AV-5).
`resolution` converts the values; both use the same pairing. Source: compatibility rules, section 7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ..compatibility import Finding, Flag, Flagged, Verdict
from ..defaults import NO_VALUE
from ..errors import DeclarationError
from ..field_pairs import gone
from ..field_pairs import pair_fields as record_pairs
from ..serializer import CONVERTER
from ..ways_out import WayOut, by_migration
from .logical_types import python_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from .schema import AvroField, Node

PROMOTIONS = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
_SAME_BYTES = {("int", "long"), ("string", "bytes")}
_LOSSY = {("int", "float"), ("long", "float"), ("long", "double")}
_UNITS = {"millis": 0, "micros": 1, "nanos": 2}
_DEFAULTS_FILL_FIELDS = "a default fills absent fields and never replaces a stored value (AV-7)"


def same_name(old: Node, new: Node) -> bool:
    """Whether named types match: by unqualified name, or by an alias of the new one (AV-2)."""
    return old.short_name == new.short_name or old.name in new.aliases


def pair_fields(old: Node, new: Node) -> list[tuple[AvroField, AvroField | None]]:
    """Return each new field with the stored one that it takes: the one of its name, else of its first stored alias.

    Avro's own checker in Java also raises where an alias and a name are both stored; its reader takes the alias for the
    name, and then misses the field.

    Raises:
        DeclarationError: Two fields claim one stored field, or aliases form a cycle.
    """
    pairing = record_pairs(new.fields, old.fields)
    taken = {field.name: stored for field, stored in pairing.paired}
    return [(field, taken.get(field.name)) for field in new.fields]


def choose_reader(old: Node, new: Node) -> int | None:
    """Return the branch of a new union that reads a stored type: the same type first, else the first promotion."""
    tests: tuple[Callable[[Node], bool], ...] = (
        lambda branch: branch.type == old.type and branch.name == old.name,
        lambda branch: branch.type == old.type and same_name(old, branch),
        lambda branch: branch.type in PROMOTIONS.get(old.type, ()),
    )
    for test in tests:
        for place, branch in enumerate(new.branches):
            if test(branch):
                return place
    return None


def resolve(old: Node, new: Node) -> tuple[Finding, ...]:
    """Return every difference between a stored schema and a present one."""
    resolution = _Resolution()
    resolution.check(old, new, "$")
    return tuple(resolution.findings)


@attrs.define
class _Resolution:
    findings: list[Finding] = attrs.field(factory=list)
    met: set[tuple[int, int]] = attrs.field(factory=set)

    def add(
        self, path: str, rule: str, verdict: Verdict, old: str, new: str, reason: str,
        ways: tuple[WayOut | str, ...] = (), flags: tuple[Flagged | Flag, ...] = (),
    ) -> None:  # fmt: skip
        if not ways and verdict is Verdict.INCOMPATIBLE:
            ways = ("keep the stored schema here", CONVERTER)
        elif not ways and verdict is Verdict.REQUIRES_MIGRATION:
            ways = (by_migration(), "keep the stored schema here")
        self.findings.append(Finding(path, rule, verdict, old, new, reason, ways, flags))

    def refuse(self, path: str, rule: str, old: Node, new: Node, reason: str, *ways: WayOut | str) -> None:
        self.add(path, rule, Verdict.INCOMPATIBLE, old.describe(), new.describe(), reason, ways)

    def rewrite(self, path: str, old: Node, new: Node, reason: str, *flags: Flagged | Flag) -> None:
        self.add(path, "AV-5", Verdict.REQUIRES_MIGRATION, old.describe(), new.describe(), reason, (), flags)

    def note(self, path: str, old: Node, new: Node, reason: str, rule: str = "AV-4") -> None:
        self.add(path, rule, Verdict.COMPATIBLE, old.describe(), new.describe(), reason)

    def check(self, old: Node, new: Node, path: str) -> None:
        # A pair that is being checked, or was, counts as compatible (COMP-3, AV-11).
        if (id(old), id(new)) in self.met:
            return
        self.met.add((id(old), id(new)))
        if old.type == "union" or new.type == "union":
            self.unions(old, new, path)
        elif old.type != new.type:
            self.promotion(old, new, path)
        elif old.name and not same_name(old, new):
            self.misnamed(old, new, path)
        elif old.type == "record":
            self.record(old, new, path)
        elif old.type == "enum":
            self.enum(old, new, path)
        elif old.type in {"array", "map"}:
            self.check(old.inner, new.inner, path + ("[]" if old.type == "array" else "{}"))
        elif old.type == "fixed" and old.size != new.size:
            self.refuse(path, "AV-3", old, new, f"fixed_size_mismatch: {old.size} bytes are stored, not {new.size}")
        else:
            self.logical(old, new, path)

    def misnamed(self, old: Node, new: Node, path: str) -> None:
        shape = [(f.name, f.node.describe()) for f in old.fields] == [(f.name, f.node.describe()) for f in new.fields]
        same = shape and old.symbols == new.symbols and old.size == new.size
        rule, alike = ("AV-10", "; looking alike does not make them one type") if same else ("AV-2", "")
        self.refuse(
            path, rule, old, new, f"name_mismatch: {old.name!r} is stored, not {new.name!r}{alike}",
            f'if it was renamed: "aliases": ["{old.name}"] in the new schema', CONVERTER,
        )  # fmt: skip

    def promotion(self, old: Node, new: Node, path: str) -> None:
        pair = (old.type, new.type)
        if new.type not in PROMOTIONS.get(old.type, ()):
            self.refuse(path, "AV-3", old, new, f"type_mismatch: Avro cannot read {old.type} as {new.type}")
            return
        if old.logical != new.logical and not _is_finer(old, new):
            if old.logical and new.logical:
                self.meaning(old, new, path)
            else:
                self.refuse(path, "AV-8", old, new, "the type and its meaning both change")
            return
        if pair in _SAME_BYTES:
            self.note(path, old, new, f"{old.type} and {new.type} have the same bytes")
        elif pair == ("bytes", "string"):
            self.rewrite(
                path, old, new, "bytes become a string; those that are not UTF-8 fail", Flag.MAY_FAIL_PER_VALUE
            )
        else:
            self.rewrite(path, old, new, "the bytes differ", *([Flag.LOSSY] if pair in _LOSSY else []))
        if _is_finer(old, new):
            self.meaning(old, new, path)

    def logical(self, old: Node, new: Node, path: str) -> None:
        if (old.logical, old.decimals) == (new.logical, new.decimals):
            return
        if not old.logical or not new.logical:
            reason = "the same bytes are read with another logical type"
            flags: tuple[Flagged | Flag, ...] = ()
            if not old.logical and not _holds_all(new):
                reason += "; a value that it cannot represent fails"
                flags = (Flag.MAY_FAIL_PER_VALUE,)
            self.add(path, "AV-8", Verdict.COMPATIBLE, old.describe(), new.describe(), reason, (), flags)
        else:
            self.meaning(old, new, path)

    def meaning(self, old: Node, new: Node, path: str) -> None:
        """Judge two logical types on one base (AV-8, with the rules of 4.2)."""
        if old.decimals is not None and new.decimals is not None:
            self.decimals(old, new, path)
            return
        kind, unit = _unit(old)
        new_kind, new_unit = _unit(new)
        if kind == new_kind and _UNITS[unit] < _UNITS[new_unit]:
            reason = f"{unit} become {new_unit} by multiplication (TIME-2)"
            self.add(path, "AV-8", Verdict.REQUIRES_MIGRATION, old.describe(), new.describe(), reason)
        elif kind == new_kind:
            self.refuse(path, "AV-8", old, new, f"{unit} would be cut to {new_unit} (TIME-3)")
        elif {kind, new_kind} == {"timestamp", "local-timestamp"}:
            self.refuse(path, "AV-8", old, new, "a time zone would have to be assumed (TIME-4)")
        else:
            self.refuse(path, "AV-8", old, new, "the same number has another meaning (TIME-5)")

    def decimals(self, old: Node, new: Node, path: str) -> None:
        stored, asked = old.decimals, new.decimals
        assert stored is not None  # noqa: S101 - checked by the caller
        assert asked is not None  # noqa: S101
        more = asked.scale - stored.scale
        if more == 0 and asked.precision >= stored.precision:
            self.note(path, old, new, "the precision is a bound, and no byte changes (DEC-2)", "AV-8")
        elif more == 0:
            self.refuse(path, "AV-8", old, new, "stored values may exceed the precision (DEC-3)")
        elif more > 0 and asked.precision - asked.scale >= stored.precision - stored.scale:
            reason = "the unscaled value is multiplied (DEC-4)"
            self.add(path, "AV-8", Verdict.REQUIRES_MIGRATION, old.describe(), new.describe(), reason)
        else:
            self.refuse(path, "AV-8", old, new, "digits would be lost (DEC-5)")

    def enum(self, old: Node, new: Node, path: str) -> None:
        missing = [symbol for symbol in old.symbols if symbol not in new.symbols]
        if missing and not new.default:
            self.refuse(
                path, "AV-3", old, new, f"missing_enum_symbols: {', '.join(missing)}",
                'keep them, or give the enum (not the field) a "default"', CONVERTER,
            )  # fmt: skip
        elif missing:
            reason = f"{', '.join(missing)} become the enum's default {new.default} (AV-7)"
            self.rewrite(path, old, new, reason, Flag.LOSSY)
        elif new.symbols[: len(old.symbols)] != old.symbols:
            self.rewrite(path, old, new, "the symbols are in other places")
        elif new.symbols != old.symbols:
            self.note(path, old, new, f"appended: {', '.join(new.symbols[len(old.symbols) :])}")

    def unions(self, old: Node, new: Node, path: str) -> None:
        if old.type != "union":
            place = choose_reader(old, new)
            if place is None:
                self.refuse(path, "AV-3", old, new, f"missing_union_branch: no branch takes {old.describe()}")
                return
            self.rewrite(path, old, new, "the number of the branch is written before the value")
            self.check(old, new.branches[place], path + "?" if new.is_optional else path)
            return
        if new.type != "union":
            self.rewrite(path, old, new, "the number of the branch is removed")
        moved: list[str] = []
        taken: dict[int, Node] = {}
        for place, branch in enumerate(old.branches):
            below = path + old.step(place)
            _refuse_two_claims(branch, new)
            found = choose_reader(branch, new) if new.type == "union" else 0 if _may_read(branch, new) else None
            if found is None:
                self.missing_branch(branch, new, below)
                continue
            moved += [branch.describe()] if found != place else []
            if branch.name and taken.setdefault(found, branch) is not branch:
                reason = f"values of {taken[found].name} and {branch.name} become the same"
                self.rewrite(below, branch, new.branches[found] if new.branches else new, reason, Flag.LOSSY)
            self.check(branch, new.branches[found] if new.type == "union" else new, below)
        if new.type == "union" and moved:
            self.rewrite(path, old, new, f"branches are in other places: {', '.join(moved)}")
        elif new.type == "union" and len(new.branches) > len(old.branches):
            added = ", ".join(branch.describe() for branch in new.branches[len(old.branches) :])
            self.note(path, old, new, f"appended: {added}")

    def missing_branch(self, branch: Node, new: Node, path: str) -> None:
        reason = f"missing_union_branch: nothing takes {branch.describe()}, even if no stored value has it"
        if new.type != "union":
            kind = "name_mismatch" if branch.type == new.type else "type_mismatch"
            reason = f"{kind}, {reason}"
        if branch.type == "null":
            reason += f"; {_DEFAULTS_FILL_FIELDS}"
        self.refuse(path, "AV-6", branch, new, reason, "keep the branch in the new schema", CONVERTER)

    def record(self, old: Node, new: Node, path: str) -> None:
        pairs = pair_fields(old, new)
        places = {field.name: place for place, field in enumerate(old.fields)}
        taken = [places[stored.name] for _, stored in pairs if stored is not None]
        if taken != sorted(taken):
            self.rewrite(path, old, new, "the fields have another order")
        added = [field for field, stored in pairs if stored is None]
        self.dropped([field for place, field in enumerate(old.fields) if place not in taken], added, path)
        for field, stored in pairs:
            if stored is None:
                self.added(field, f"{path}.{field.name}")
                continue
            if stored.name != field.name:
                self.note(f"{path}.{field.name}", stored.node, field.node, f"{stored.name!r} by alias (AV-2)")
            self.check(stored.node, field.node, f"{path}.{field.name}")

    def added(self, field: AvroField, path: str) -> None:
        kind = field.node.describe()
        if field.default is NO_VALUE:
            reason = "reader_field_missing_default: stored records have no value for it"
            self.add(path, "AV-3", Verdict.INCOMPATIBLE, "", kind, reason, ('give it a "default"', CONVERTER))
        else:
            self.add(path, "AV-5", Verdict.REQUIRES_MIGRATION, "", kind, "the new field takes its default (AV-7)")

    def dropped(self, left: list[AvroField], added: list[AvroField], path: str) -> None:
        for field in left:
            below, kind = f"{path}.{field.name}", field.node.describe()
            twin = next((new.name for new in added if new.node.describe() == kind), "")
            alias = f'"aliases": ["{field.name}"]'
            self.findings.append(gone("AV-5", below, field.name, kind, twin=twin, alias=alias))


def _may_read(old: Node, new: Node) -> bool:
    """Whether a branch can be compared with a type at all; their parts decide the rest."""
    if old.type != new.type:
        return new.type in PROMOTIONS.get(old.type, ())
    return not old.name or same_name(old, new)


def _refuse_two_claims(old: Node, new: Node) -> None:
    """Refuse a union in which two branches have the stored type's name as an alias.

    Raises:
        DeclarationError: Two branches have the alias, and no branch has the stored name itself.
    """
    claims = [branch.name for branch in new.branches if old.name in branch.aliases]
    if len(claims) > 1 and old.name not in {branch.name for branch in new.branches}:
        raise DeclarationError(
            f"the stored {old.name!r} is claimed by the aliases of {' and '.join(map(repr, claims))}",
            advice="remove the alias from one of them",
        )


def _holds_all(node: Node) -> bool:
    """Whether the Python class of a logical type holds every value of its base type."""
    return python_type(node) is None or (node.logical, node.type) == ("uuid", "fixed")


def _unit(node: Node) -> tuple[str, str]:
    kind, _, unit = node.logical.rpartition("-")
    return (kind, unit) if kind else (node.logical, "")


def _is_finer(old: Node, new: Node) -> bool:
    """Whether both are times of one kind and the new unit is finer, as when an int of milliseconds becomes a long."""
    kind, unit = _unit(old)
    new_kind, new_unit = _unit(new)
    return kind == new_kind and bool(unit) and bool(new_unit) and _UNITS[unit] < _UNITS[new_unit]
