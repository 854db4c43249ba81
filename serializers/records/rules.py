"""The rules for records, REC-1 to REC-17: pairing of stored fields with new ones, and the findings.

Fields pair by name, then by the new field's aliases. Every difference is reported, not only the first one.
Stored subclasses pair with the present ones by tags, or by class names in the bytes (REC-14).
Source: compatibility rules, section 5.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

import attrs

from ..compatibility import Child, CompatibilityResult, Finding, Flag, Flagged, Nulls, Obstacle, Verdict, compose, worst
from ..containers.arrays import is_primitive
from ..containers.pieces import NULLS_UNTOLD, keep_null_flag
from ..errors import DeclarationError, StateShiftError, add_step
from ..families import families
from ..field_pairs import Pairing, gone, pair_fields
from ..serializer import CONVERTER, KEEP_OLD_TYPE
from ..snapshot import type_digest
from ..ways_out import Does, WayOut, by_migration
from ..wording import one
from .classes import Record, field_of, imported_subclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..serializer import TypeDeserializer, TypeSerializer
    from ..wording import Advice
    from .classes import RecordField, StoredField
    from .serializers import DescribedRecordSerializer, RecordSnapshot


@attrs.frozen
class _Subclasses:
    """Result of pairing subclasses: the pinned tags, and the results of the pairs (REC-14).

    Attributes:
        names: The names of the stored subclasses that a present one takes, which identify their values.
        children: The results of the present subclasses, in the same order.
        findings: Findings about the subclasses as such.
        registered: Names of stored subclasses by tag.
        unregistered: Class names in the bytes, each with the name of the class that is stored under it. They differ
            where an alias was used in an earlier savepoint.
        extra: Subclasses that are not stored.
        obstacles: An obstacle for each subclass that has lost its decorator: its values can be read but not written.
    """

    names: tuple[str, ...]
    children: list[Child]
    findings: list[Finding]
    registered: tuple[str, ...]
    unregistered: tuple[tuple[str, str], ...]
    extra: tuple[tuple[str, DescribedRecordSerializer[Any]], ...]
    obstacles: tuple[Obstacle, ...] = ()

    def rebuild(
        self, new: DescribedRecordSerializer[Any], nested: list[TypeSerializer[Any]]
    ) -> DescribedRecordSerializer[Any]:
        """Return `new` with the stored tags pinned; new subclasses follow them."""
        by_name: dict[str, Any] = dict(zip(self.names, nested, strict=True))
        return attrs.evolve(
            new,
            registered=(*((by_name[name].name, by_name[name]) for name in self.registered), *self.extra),
            unregistered=tuple((stored_as, by_name[name]) for stored_as, name in self.unregistered),
        )


def _no_longer_registered(new: DescribedRecordSerializer[Any], name: str) -> DescribedRecordSerializer[Any] | None:
    """Return the serializer of a stored subclass that has lost its @record, if the class still exists (REC-14).

    Only imported classes are considered: a name from a savepoint must not cause an import.
    """
    subclass = None if new.python_class is None else imported_subclass(new.python_class, name)
    serializer = None if subclass is None else families.serializer_of_class(subclass)
    return cast("DescribedRecordSerializer[Any] | None", serializer)


def _takers(new: DescribedRecordSerializer[Any], stored: Collection[str]) -> dict[str, DescribedRecordSerializer[Any]]:
    """Return the present subclass for each stored one: the one of its name, else the one with that name as an alias.

    Raises:
        DeclarationError: Two subclasses claim one stored subclass.
    """
    known = {subclass.name: subclass for _, subclass in (*new.registered, *new.unregistered)}
    claims = {name: subclass for name, subclass in known.items() if name in stored}
    for subclass in known.values():
        for alias in dict.fromkeys((*subclass.aliases, subclass.python_name)):
            if alias not in stored or alias == subclass.name:
                continue
            other = claims.setdefault(alias, subclass)
            if other is subclass or (other.name == alias and subclass.name in stored):
                continue  # the job's own savepoint, in which another subclass has the former name
            raise DeclarationError(
                f"the stored subclass {alias!r} of {new.name} is claimed by {other.name!r} and, as an alias, by"
                f" {subclass.name!r}",
                advice=f"remove the alias {alias!r} from one of them",
            )
    return claims


def pair_subclasses(new: DescribedRecordSerializer[Any], old: RecordSnapshot) -> _Subclasses:
    """Pair stored subclasses with those of the new serializer, by class name or alias (REC-14)."""
    stored = [*old.registered_subclasses(), *old.unregistered_subclasses()]
    takers = _takers(new, {snapshot.record_name() for _, snapshot in stored}) if stored else {}
    became: dict[str, dict[str, RecordSnapshot]] = {}
    names, children, findings, obstacles = [], [], [], []
    for _, snapshot in stored:
        name = snapshot.record_name()
        match = takers.get(name)
        if match is None and (match := _no_longer_registered(new, name)) is not None:
            reason = f"{name} is no longer a registered subclass of {new.name}, so its values cannot be rewritten"
            obstacles.append(Obstacle(reason, is_of_writer=True))
        if match is None:
            reason = "values of this subclass may be stored, and the new type knows no such subclass"
            ways = new.advice.subclass(name)
            findings.append(Finding("$", "REC-14", Verdict.INCOMPATIBLE, name, "", reason, ways))
            continue
        former = became.setdefault(match.name, {})
        if former:
            findings.append(_merged(name, match.name, former, snapshot))
        former[name] = snapshot
        names.append(name)
        result = match.ensure_compatibility(snapshot)
        children.append(Child(f"|{name.rpartition('.')[2]}", match, result, snapshot.restore_serializer))
    registered = tuple(one.record_name() for _, one in old.registered_subclasses() if one.record_name() in names)
    unregistered = tuple(
        (stored_as, one.record_name()) for stored_as, one in old.unregistered_subclasses() if one.record_name() in names
    )
    extra = tuple((name, serializer) for name, serializer in new.registered if serializer.name not in became)
    pinned = (*registered, *(name for name, _ in extra))
    if not findings and (pinned != tuple(name for name, _ in new.registered) or unregistered):
        reason = "stored tags of subclasses are kept; new ones come after them"
        now = [name for name, _ in new.registered]
        old_names, new_names = (", ".join(name.rpartition(".")[2] for name in side) for side in (names, now))
        verdict = Verdict.COMPATIBLE_AFTER_RECONFIGURATION
        findings.append(Finding("$", "REC-14", verdict, old_names, new_names, reason))
    return _Subclasses(tuple(names), children, findings, registered, unregistered, extra, tuple(obstacles))


def _merged(name: str, becomes: str, others: Mapping[str, RecordSnapshot], snapshot: RecordSnapshot) -> Finding:
    """Return the finding that several stored subclasses become one: a copy could not tell their tags apart (REC-14)."""
    if name in others and type_digest(others[name]) != type_digest(snapshot):
        reason = "the savepoint lists the subclass twice, with different fields, and a value does not show which it has"
        ways: tuple[WayOut | str, ...] = ("use a savepoint from before the two became one", CONVERTER)
        return Finding("$", "REC-14", Verdict.INCOMPATIBLE, name, becomes, reason, ways)
    stored = ", ".join(dict.fromkeys((*others, name)))
    reason = (
        f"the stored subclasses {stored} all become {becomes}"
        if name not in others
        else (f"the savepoint lists {name} twice; it is written once")
    )
    ways = (by_migration(), f"keep the subclasses apart: remove them from the aliases of {becomes}")
    flags = () if name in others else (Flag.LOSSY,)
    return Finding("$", "REC-14", Verdict.REQUIRES_MIGRATION, stored, becomes, reason, ways, flags)


Convert = Callable[[Any], Any]


_Pairing = Pairing["RecordField", "StoredField"]


def resolve(new: DescribedRecordSerializer[Any], old: RecordSnapshot) -> CompatibilityResult[Any]:
    """Judge a stored record for a record serializer."""
    pairing = pair_fields(new.fields, old.stored_fields())
    findings = [*_identity(new, old), *_removed_and_added(new, pairing), *_order_and_names(new, pairing)]
    findings += [*_declaring_classes(new, old, pairing), *_primitives(new, pairing)]
    children = []
    for field, stored in pairing.paired:
        child, kept = _field_child(field, stored, new)
        children.append(child)
        findings += kept
    subclasses = pair_subclasses(new, old)
    findings += subclasses.findings
    children += subclasses.children

    def rebuild(nested: list[TypeSerializer[Any]]) -> DescribedRecordSerializer[Any]:
        count = len(pairing.paired)
        fields = tuple(
            attrs.evolve(field, serializer=serializer)
            for (field, _), serializer in zip(pairing.paired, nested[:count], strict=True)
        )
        return subclasses.rebuild(attrs.evolve(new, fields=fields), nested[count:])

    def convert(conversions: list[Convert | None]) -> Convert:
        count = len(pairing.paired)
        return RecordConversion(
            new.name,
            tuple(
                (field.name, child.step, stored.name, conversion, field.on_none)
                for (field, stored), child, conversion in zip(pairing.paired, children, conversions, strict=False)
            ),
            tuple((field.name, field.default) for field in pairing.added),
            dict(zip(subclasses.names, conversions[count:], strict=True)),
        )

    def read_with(readers: list[TypeDeserializer[Any]]) -> TypeDeserializer[Any]:
        names = [stored.name for _, stored in pairing.paired]
        of_subclasses = dict(zip(subclasses.names, readers[len(names) :], strict=True))
        return old.restore_with(dict(zip(names, readers[: len(names)], strict=True)), of_subclasses)

    outer: CompatibilityResult[Any] = CompatibilityResult(
        worst([f.verdict for f in findings]), tuple(findings), obstacles=subclasses.obstacles
    )
    return compose(outer, children, rebuild=rebuild, convert=convert, read_with=read_with)


def _identity(new: DescribedRecordSerializer[Any], old: RecordSnapshot) -> list[Finding]:
    """Check REC-11 and SNAP-7: the class is the same, or is declared to have had the stored name."""
    if new.is_named(old.record_name()):
        return []
    if old.record_name() in (*new.aliases, new.python_name):
        verdict, reason = Verdict.COMPATIBLE_AFTER_RECONFIGURATION, "the class has this former name"
        ways: tuple[WayOut | str, ...] = ()
    else:
        verdict, reason = Verdict.INCOMPATIBLE, "another class, and no alias says that it is the same"
        ways = (new.advice.same_record(old.record_name()), KEEP_OLD_TYPE)
    return [Finding("$", "REC-11", verdict, old.record_name(), new.name, reason, ways)]


def come_back(
    fields: Iterable[RecordField], retired: Collection[str], retired_types: Iterable[tuple[str, str, str]]
) -> Iterator[Finding]:
    """Yield findings for retired names that come back with another type than they are declared to have had (REC-16)."""
    types = {name: (words, digest) for name, words, digest in retired_types}
    for field in fields:
        if field.name not in retired:
            continue
        words, digest = types.get(field.name, ("", ""))
        if not digest or digest != type_digest(field.serializer.snapshot_configuration()):
            yield came_back("$", field.name, words, field.serializer.describe(), field.describe())


def came_back(above: str, name: str, was: str, becomes: str, words: str) -> Finding:
    """Return the finding for a retired name, below a path, whose former type differs or is not declared (REC-16)."""
    reason = "the name is retired and must not come back"
    ways: tuple[WayOut | str, ...] = ("choose another name", "remove it from the retired names")
    if was:
        reason += f" as {one(becomes)}: it was {one(was)}"
    else:
        ways = (*ways, f"if it is the former field again: @record(retired={{{name!r}: …}}), with its type")
    return Finding(f"{above}.{name}", "REC-16", Verdict.INCOMPATIBLE, was, words, reason, ways)


def _removed_and_added(new: DescribedRecordSerializer[Any], pairing: _Pairing) -> list[Finding]:
    """Check REC-2, 3, 4, 7 and 16."""
    findings = list(come_back(new.fields, new.retired, new.retired_types))
    retired = {finding.path for finding in findings}
    for stored in pairing.removed:
        kind, path = stored.snapshot.describe(), f"$.{stored.name}"
        twin = next((field.name for field in pairing.added if field.serializer.describe() == kind), "")
        alias = new.advice.field_alias(stored.name)
        findings.append(gone("REC-4", path, stored.name, stored.describe(), twin=twin, alias=alias))
    for field in (field for field in pairing.added if f"$.{field.name}" not in retired):
        path, kind = f"$.{field.name}", field.describe()
        if field.default is None:
            reason = "the field is new and has no default; stored records have no value for it"
            if field.optional:
                reason += " (optional alone is not a default)"
            ways: tuple[WayOut | str, ...] = (new.advice.default(field.name, optional=field.optional), CONVERTER)
            was = next(
                (stored for stored in pairing.removed if stored.snapshot.describe() == field.serializer.describe()),
                None,
            )
            if was is not None:
                reason += f"; was it called {was.name!r}?"
                ways = (f"if it was called {was.name!r}: {new.advice.field_alias(was.name)} on {field.name}", *ways)
            findings.append(Finding(path, "REC-3", Verdict.INCOMPATIBLE, "", kind, reason, ways))
        else:
            reason = f"the field is new; stored records get {field.default.title} {field.default.describe()}"
            ways = (by_migration("the default is filled in"),)
            findings.append(Finding(path, "REC-2", Verdict.REQUIRES_MIGRATION, "", kind, reason, ways))
    return findings


def _order_and_names(new: DescribedRecordSerializer[Any], pairing: _Pairing) -> list[Finding]:
    """Check REC-5 and REC-6: names are not in the bytes, but the order is."""
    findings = []
    in_order = pairing.added or pairing.removed or pairing.stored_order == [field.name for field in new.fields]
    for field, stored in pairing.paired:
        if field.name == stored.name:
            continue
        verdict, reason = Verdict.COMPATIBLE_AFTER_RECONFIGURATION, "renamed; the bytes hold no names"
        ways: tuple[WayOut | str, ...] = ()
        if new.sorted_fields and not in_order:
            verdict = Verdict.REQUIRES_MIGRATION
            reason = "renamed, which moves it in the alphabetical order of the bytes"
            ways = (by_migration("the fields are written in their new order"),)
        findings.append(Finding(f"$.{field.name}", "REC-6", verdict, stored.name, field.name, reason, ways))
    if not in_order and not findings:
        if new.sorted_fields:
            verdict, reason = Verdict.REQUIRES_MIGRATION, "the stored fields are in another order than Flink's"
            ways = (by_migration("the fields are written in alphabetical order"),)
        else:
            verdict, reason = Verdict.COMPATIBLE_AFTER_RECONFIGURATION, "the stored order of the fields is kept"
            ways = ()
        findings.append(Finding("$", "REC-5", verdict, new.name, new.name, reason, ways))
    return findings


def _declaring_classes(
    new: DescribedRecordSerializer[Any], old: RecordSnapshot, pairing: _Pairing
) -> Iterator[Finding]:
    """Check REC-11 for fields: Flink finds a field by the class that declares it, and drops the values of any other."""
    for field, stored in pairing.paired:
        was = new.name if stored.declared_by == old.record_name() else stored.declared_by
        becomes = field.declared_by or new.name
        if not new.sorted_fields or not was or was == becomes:
            continue
        path = f"$.{field.name}"
        if was in field.declared_aliases:
            verdict, reason = (
                Verdict.COMPATIBLE_AFTER_RECONFIGURATION,
                "the class that declares it has this former name",
            )
            yield Finding(path, "REC-11", verdict, was, becomes, reason)
            continue
        reason = "another class declares the field; Flink finds a field by that class, and would drop the values"
        ways = (
            f"declare it: Field(declared_by={was!r}) on {field.name}",
            f"declare it in a base class with @record(java_class={was!r})",
        )
        yield Finding(path, "REC-11", Verdict.INCOMPATIBLE, was, becomes, reason, ways)


def _primitives(new: DescribedRecordSerializer[Any], pairing: _Pairing) -> Iterator[Finding]:
    """Check REC-17 for a class known only from a snapshot: its field may be a primitive, which holds no null."""
    for field, stored in pairing.paired:
        if new.knows_nulls or not stored.takes_null or not is_primitive(field.serializer):
            continue
        bare = field.serializer.describe()
        reason = (
            "a null may be written here, and the stored types do not say whether the class takes one; it would fail"
        )
        flags = (Flagged(Flag.MAY_FAIL_PER_VALUE, nulls=Nulls.DECLARED),)
        yield Finding(
            f"$.{field.name}", "REC-17", Verdict.COMPATIBLE, f"optional<{bare}>", bare, reason, (KEEP_OLD_TYPE,), flags
        )


def _field_child(
    field: RecordField, stored: StoredField, new: DescribedRecordSerializer[Any]
) -> tuple[Child, tuple[Finding, ...]]:
    """Judge a stored field by the new one; findings about the null flag of a POJO's container belong to the record."""
    step = f".{field.name}"
    serializer, kept = keep_null_flag(field.serializer, stored.snapshot, step, nullable=field.optional)
    if new.knows_nulls:
        step = attrs.evolve(field, serializer=serializer).step
    result = serializer.ensure_compatibility(stored.snapshot)
    finding = _nullability(field, stored, new.advice)
    if finding is not None:
        result = result.preceded_by(finding)
    return Child(step, serializer, result, stored.snapshot.restore_serializer), kept


def _nullability(field: RecordField, stored: StoredField, advice: Advice) -> Finding | None:
    """Check REC-10 and REC-17."""
    if field.optional or stored.optional is False:
        return None
    old = stored.describe()
    optional_old = old if old.startswith("optional<") else f"optional<{old}>"
    declare = advice.optional(field.name)
    if stored.takes_null and field.on_none is None:
        reason = "a null may be stored here, as its class declares; it would fail"
        flags = (Flagged(Flag.MAY_FAIL_PER_VALUE, nulls=Nulls.DECLARED),)
        return Finding("$", "REC-17", Verdict.COMPATIBLE, optional_old, field.describe(), reason, (declare,), flags)
    if stored.optional is None:
        if field.on_none is None:
            flags = (Flagged(Flag.MAY_FAIL_PER_VALUE, nulls=Nulls.UNTOLD),)
            return Finding("$", "REC-17", Verdict.COMPATIBLE, old, field.describe(), NULLS_UNTOLD, (declare,), flags)
        reason = f"a stored null becomes {field.on_none.describe()}; Flink does not say whether there is one"
        once = WayOut(
            "migrate the state, and remove on_none afterwards: otherwise it is migrated each time", does=Does.MIGRATE
        )
        flags = (Flagged(Flag.LOSSY),)
        return Finding("$", "REC-10", Verdict.REQUIRES_MIGRATION, old, field.describe(), reason, (once, declare), flags)
    if field.on_none is not None:
        reason = f"a stored null becomes {field.on_none.describe()}"
        ways: tuple[WayOut | str, ...] = (by_migration(), declare)
        return Finding(
            "$", "REC-10", Verdict.REQUIRES_MIGRATION, optional_old, field.describe(), reason, ways, (Flag.LOSSY,)
        )
    reason = "a stored null has no value in the new type (a default fills absent fields, not stored nulls)"
    ways = (*advice.on_none(field.name), declare)
    return Finding("$", "OPT-2", Verdict.INCOMPATIBLE, optional_old, field.describe(), reason, ways)


@attrs.frozen
class RecordConversion:
    """Converts an old record to a new one: paired fields are converted, defaults filled in, other fields dropped."""

    type_name: str
    moved: tuple[tuple[str, str, str, Convert | None, Any], ...]
    filled: tuple[tuple[str, Any], ...]
    subclasses: dict[str, Convert | None]

    def __call__(self, value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, Record) and value._type_name in self.subclasses:  # noqa: SLF001 - public API of Record
            convert = self.subclasses[value._type_name]  # noqa: SLF001
            return value if convert is None else convert(value)
        fields = {}
        for name, step, stored_name, convert, on_none in self.moved:
            item = field_of(value, stored_name, stored_name)
            if item is None:
                item = None if on_none is None else on_none.make()
            elif convert is not None:
                try:
                    item = convert(item)
                except StateShiftError as error:
                    add_step(error, step)
                    raise
            fields[name] = item
        for name, default in self.filled:
            fields[name] = default.make()
        return Record(self.type_name, fields)
