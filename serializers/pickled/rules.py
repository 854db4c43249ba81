"""The rules for pickles, PKL-1 to PKL-6: fingerprints are compared, and nothing is opened.

Source: compatibility rules, section 6.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, cast

import attrs

from ..compatibility import CompatibilityResult, Finding, Flag, Flagged, Obstacle, Verdict, worst
from ..families import ANY, families
from ..records.classes import is_record_class
from ..serializer import CONVERTER, KEEP_OLD_TYPE, unrelated
from ..ways_out import WayOut, by_migration
from .unpickler import BY_VALUE, LIBRARY
from .values import PickledBy, PickledValue, reads_older_state, running_python

if TYPE_CHECKING:
    from ..snapshot import TypeSerializerConfigSnapshot
    from .serializers import PickledSnapshot, PickleSerializer, UnopenedPickleSerializer
    from .values import Fingerprint, Shape

_FALLBACK = "pass a fallback deserializer, which reads the stored values (fallback_deserializer=… of the descriptor)"


def judge(new: PickleSerializer[Any], old: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[Any]:
    """Judge any stored snapshot for a pickle serializer."""
    if old.kind != "pickle":
        return families.judge(ANY, "pickle", new, old) or unrelated(new, old)
    old = cast("PickledSnapshot", old)
    has_hook = new.upgrade is not None or reads_older_state(new.python_class)
    result = _Comparison(new.fingerprint, old, new.redirects, has_hook, is_record_class(new.python_class)).result()
    if result.is_migration_required():
        needs = obstacles(old)
        if any(finding.rule == "PKL-6" for finding in result.findings):
            needs += (Obstacle(f"the class {old.fingerprint.name} is not in the job"),)
        return attrs.evolve(result, conversion=Repickle(new), obstacles=needs)
    if result.is_compatible_after_reconfiguration():
        return CompatibilityResult.compatible_after_reconfiguration(attrs.evolve(new), *result.findings)
    return result


def written_anew(
    new: PickleSerializer[Any], old: TypeSerializerConfigSnapshot[Any], result: CompatibilityResult[Any]
) -> CompatibilityResult[Any]:
    """Return a result of `judge` for readers that know no aliases, as PyFlink: what has a former name is migrated."""
    moved = [one for one in result.findings if one.rule == "PKL-3"]
    if not (moved and result.is_compatible_after_reconfiguration()):
        return result
    reason = f"{moved[0].reason}, by which PyFlink imports the class"
    way = by_migration("each value is opened, where its class is trusted, and pickled again under the present name")
    finding = attrs.evolve(moved[0], verdict=Verdict.REQUIRES_MIGRATION, reason=reason, ways_out=(way,))
    needs = obstacles(cast("PickledSnapshot", old))
    migrated = CompatibilityResult[Any].requires_migration(finding, conversion=Repickle(new))
    return attrs.evolve(migrated, obstacles=needs)


def judge_stored(
    new: UnopenedPickleSerializer, old: TypeSerializerConfigSnapshot[Any]
) -> CompatibilityResult[PickledValue]:
    """Judge a snapshot for pickles whose class is not at hand: without it, no hook can adapt a changed shape."""
    if old.kind != "pickle":
        return unrelated(new, old)
    old = cast("PickledSnapshot", old)
    if old == new.stored:
        return CompatibilityResult.compatible()
    result = _Comparison(new.fingerprint, old, dict(new.stored.former), has_hook=False).result()
    if result.is_compatible_after_reconfiguration():
        return CompatibilityResult.compatible_after_reconfiguration(new, *result.findings)
    if result.is_migration_required():
        return CompatibilityResult.incompatible(*result.findings)  # without the class they cannot be opened and written
    return result


def obstacles(old: PickledSnapshot) -> tuple[Obstacle, ...]:
    """Return the names that must be trusted before stored pickles are opened, or why only a fallback can read them."""
    found = old.fingerprint
    if found.by_value and found.python != running_python():
        return (Obstacle(_other_byte_code(found)),)
    if found.by_value:
        word = BY_VALUE + found.name
        return (Obstacle("its values are pickles with code of their own, which runs only where it is trusted", word),)
    names = [found.name, *(name for name in found.names[1:] if name not in LIBRARY)]
    return tuple(
        Obstacle("its values are pickles, and opened only where each name in them is trusted", name)
        for name in dict.fromkeys([*names, *(was for was, _ in old.former)])
    )


def _other_byte_code(found: Fingerprint) -> str:
    was, here = (".".join(map(str, version)) for version in (found.python, running_python()))
    return f"its pickles contain byte code of Python {was}, which Python {here} cannot run"


@attrs.frozen
class _Comparison:
    """A comparison of a stored fingerprint with the present one.

    Attributes:
        new: The present fingerprint.
        old: The stored snapshot.
        redirects: Former name -> present name, as the new side declares them.
        has_hook: Whether the new side can convert the old shape to the new one.
        is_described: Whether the class could be a record.
    """

    new: Fingerprint
    old: PickledSnapshot
    redirects: dict[str, str]
    has_hook: bool
    is_described: bool = False

    @property
    def was(self) -> Fingerprint:
        return self.old.fingerprint

    def result(self) -> CompatibilityResult[Any]:
        findings = [*self._identity(), *self._shapes(), *self._interpreter()]
        verdict = worst([finding.verdict for finding in findings])
        if verdict <= Verdict.COMPATIBLE_AFTER_RECONFIGURATION:
            findings.append(self._unverified())
        return CompatibilityResult(verdict, tuple(findings))

    def _finding(
        self, rule: str, verdict: Verdict, reason: str, *ways: WayOut | str, flags: tuple[Flagged | Flag, ...] = ()
    ) -> Finding:
        word = "cloudpickle" if self.new.by_value else "pickle"
        return Finding("$", rule, verdict, self.old.describe(), f"{word}<{self.new.name}>", reason, ways, flags)

    def _identity(self) -> list[Finding]:
        """Check PKL-3 and PKL-6: the class is the same, or is declared to have had another name."""
        was, becomes = self.was.name, self.new.name
        missing = [old for old, _ in self.old.former if old not in self.redirects]
        if missing:
            reason = f"stored pickles may still use the former name {missing[0]}, and no alias declares it"
            ways = (f"keep the alias {missing[0]!r}", "store it as a described type")
            return [self._finding("PKL-3", Verdict.INCOMPATIBLE, reason, *ways)]
        if self.redirects.get(was, was) == becomes:
            return [*self._moved(), *self._listed()]
        same = f"if it is the same class: aliases=({was!r},)"
        if was.rpartition(".")[2] == becomes.rpartition(".")[2]:
            reason = "the class is in another module, and no alias declares the move"
            return [self._finding("PKL-3", Verdict.INCOMPATIBLE, reason, same, KEEP_OLD_TYPE)]
        reason = f"the class {was} is not in the job"
        return [self._finding("PKL-6", Verdict.REQUIRES_MIGRATION, reason, same, _FALLBACK)]

    def _moved(self) -> list[Finding]:
        """Check PKL-3 with an alias: the copy looks up the new names."""
        moved = [f"{name} is {self.redirects[name]}" for name in self.was.names if name in self.redirects]
        reason = f"stored pickles keep their names: {', '.join(moved)}"
        return [self._finding("PKL-3", Verdict.COMPATIBLE_AFTER_RECONFIGURATION, reason)] if moved else []

    def _listed(self) -> list[Finding]:
        """Check PKL-1 for added classes: stored pickles hold none of them, and the new snapshot lists them."""
        stored = {self.redirects.get(name, name) for name in self.was.names}
        further = [name for name in self.new.names if name not in stored]
        reason = f"values may now also hold {', '.join(further)}"
        return [self._finding("PKL-1", Verdict.COMPATIBLE_AFTER_RECONFIGURATION, reason)] if further else []

    def _shapes(self) -> list[Finding]:
        """Check PKL-4: classes that stored pickles may hold still have the same fields."""
        if self.redirects.get(self.was.name, self.was.name) != self.new.name:
            return []
        today = {shape.name: shape for shape in self.new.classes}
        differences = [
            difference
            for shape in self.was.classes
            if (difference := _difference(shape, today.get(self.redirects.get(shape.name, shape.name))))
        ]
        if self.was.by_value is not self.new.by_value:
            differences.append("the class comes " + ("within" if self.was.by_value else "by name") + " stored pickles")
        if not differences:
            return []
        reason = "; ".join(differences)
        if self.has_hook:
            return [
                self._finding(
                    "PKL-4", Verdict.REQUIRES_MIGRATION, f"{reason}; the class or its upgrade accepts the old shape",
                    by_migration("each value is opened and pickled again"), flags=(Flag.UNVERIFIED_AFTER,),
                )
            ]  # fmt: skip
        reason += "; unpickling fills in no defaults, so an error would come later"
        ways = ("give the class a __setstate__ that takes the old state, or the serializer an upgrade=…", CONVERTER)
        described = (f"store it as a record: {self.new.name} for the state's type",) if self.is_described else ()
        return [self._finding("PKL-4", Verdict.INCOMPATIBLE, reason, *described, *ways)]

    def _interpreter(self) -> list[Finding]:
        """Check PKL-2 and PKL-5: this Python can read the pickles."""
        if self.was.by_value and self.was.python != self.new.python:
            reason = _other_byte_code(self.was)
            return [self._finding("PKL-5", Verdict.REQUIRES_MIGRATION, reason, _FALLBACK, "use the same Python")]
        if self.was.protocol > pickle.HIGHEST_PROTOCOL:
            reason = f"pickles of protocol {self.was.protocol}, and this Python reads {pickle.HIGHEST_PROTOCOL} at most"
            return [self._finding("PKL-2", Verdict.INCOMPATIBLE, reason, "use a newer Python")]
        return []

    def _unverified(self) -> Finding:
        """Return the finding PKL-1 or PKL-2: equal fingerprints do not prove equal contents."""
        flags = (Flag.UNVERIFIED,)
        if (self.was.protocol, self.was.python) != (self.new.protocol, self.new.python):
            reason = "another pickle protocol or Python, which can read the stored pickles"
            return self._finding("PKL-2", Verdict.COMPATIBLE, reason, flags=flags)
        return self._finding("PKL-1", Verdict.COMPATIBLE, "the same shape; pickles are not opened", flags=flags)


def _difference(was: Shape, becomes: Shape | None) -> str:
    """Return how a class changed, or ""."""
    if becomes is None:
        return "" if was.name in LIBRARY else f"stored values may hold a {was.name}, which is not among the references"
    if was.pickled_by is not becomes.pickled_by:
        return f"{was} is pickled in another form than {becomes}"
    gone = [name for name in was.fields if name not in becomes.fields]
    new = [name for name in becomes.fields if name not in was.fields]
    if was.pickled_by is PickledBy.SYMBOL:
        new = []  # older pickles hold no new members
    if was.pickled_by is PickledBy.ORDER and not gone and not new and was.fields != becomes.fields:
        return f"the fields of {becomes.name} are in another order, and it is pickled by position"
    words = [f"{becomes.name} lost {', '.join(gone)}"] if gone else []
    return " and ".join([*words, *([f"{becomes.name} has the new {', '.join(new)}"] if new else [])])


@attrs.frozen
class Repickle:
    """Converts a stored pickle to an object of the present class, by its `__setstate__` or by the job's `upgrade`."""

    new: PickleSerializer[Any]

    def __call__(self, value: Any) -> Any:
        if isinstance(value, PickledValue):
            value = value.open(self.new.known)
        return value if self.new.upgrade is None else self.new.upgrade(value)
