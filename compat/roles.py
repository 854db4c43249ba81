"""Keys and namespaces: what may never migrate, because it decides where an entry lies (rules 8.1 and 8.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ..serializers.compatibility import CompatibilityResult, Finding, Verdict
from ..serializers.serializer import REGISTER_CONVERTER
from .parts import ask
from .report import RoleReport

if TYPE_CHECKING:
    from .description import SerializerDescription

KEY, NAMESPACE = "<key>", "<namespace>"

_REASONS = {
    KEY: "a key's bytes decide its key group and so its place; in place, rewritten keys would be lost or merged",
    NAMESPACE: "a namespace is part of an entry's address; rewritten namespaces would be lost or merged",
}
_RULES = {KEY: "ROLE-2", NAMESPACE: "ROLE-5"}
_FOR_VALUES_ONLY = ("migrate the state", REGISTER_CONVERTER)
_WAYS_OUT = ("keep the old type", "give the operator a new uid, and fill its state anew")


def judge_role(old: SerializerDescription, new: SerializerDescription, role: str) -> RoleReport:
    """Judge a key or namespace: what the ordinary check would migrate is refused (ROLE-1, ROLE-2, ROLE-3, ROLE-5).

    Args:
        old: The stored side.
        new: The side that asks.
        role: `KEY` or `NAMESPACE`; the step that prefixes the findings' paths.
    """
    result: CompatibilityResult[Any] = CompatibilityResult.compatible()
    if not new.repeats(old):
        result = ask(new.new_side(), old.snapshot, "$" + role)
    words = old.describe(), new.describe()
    strict = address_only(result, role, *words)
    return RoleReport(strict, strict.verdict.decision, *words)


def address_only(
    result: CompatibilityResult[Any], role: str, old: str, new: str, *, step: str | None = None
) -> CompatibilityResult[Any]:
    """Put a result under the rules of a role: accepted where bytes stay, refused otherwise.

    Args:
        result: The ordinary answer.
        role: `KEY` or `NAMESPACE`.
        old: The stored type in words.
        new: The new type in words.
        step: What prefixes the paths of the answer, where that is not the role.
    """
    findings = tuple(finding.below(role if step is None else step) for finding in result.findings)
    if result.verdict < Verdict.REQUIRES_MIGRATION:
        return attrs.evolve(result, findings=findings)
    refusal = Finding("$" + role, _RULES[role], Verdict.INCOMPATIBLE, old, new, _REASONS[role], _WAYS_OUT)
    return CompatibilityResult.incompatible(refusal, *map(_without_rewriting, findings))


def _without_rewriting(finding: Finding) -> Finding:
    """Leave out the ways that only values have."""
    ways = tuple(way for way in finding.ways_out if not any(words in way for words in _FOR_VALUES_ONLY))
    return attrs.evolve(finding, ways_out=ways)
