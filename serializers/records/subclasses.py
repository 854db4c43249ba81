"""Pairing of a record's stored subclasses with the present ones: rule REC-14.

Subclasses are distinguished by tags, or by class names in the bytes. Source: compatibility rules, section 5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import attrs

from ..compatibility import Child, Finding, Flag, Obstacle, Verdict
from ..errors import DeclarationError
from ..families import families
from ..serializer import CONVERTER
from ..snapshot import type_digest
from .classes import imported_subclass

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ..serializer import TypeSerializer
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
        ways = ("use a savepoint from before the two became one", CONVERTER)
        return Finding("$", "REC-14", Verdict.INCOMPATIBLE, name, becomes, reason, ways)
    stored = ", ".join(dict.fromkeys((*others, name)))
    reason = (
        f"the stored subclasses {stored} all become {becomes}"
        if name not in others
        else (f"the savepoint lists {name} twice; it is written once")
    )
    ways = ("migrate the state", f"keep the subclasses apart: remove them from the aliases of {becomes}")
    flags = () if name in others else (Flag.LOSSY,)
    return Finding("$", "REC-14", Verdict.REQUIRES_MIGRATION, stored, becomes, reason, ways, flags)
