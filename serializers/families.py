"""Between families: rules that one of them registers for the others, and counterparts (rule FAM-4).

A rule between two kinds belongs to the family that is above the other one, and is registered by it: whoever is below
asks here, and imports nothing from above.

A family whose types have a counterpart among stateshift's own gives it: a serializer of that type, and how values
become its values and back. What is stored is then judged, and converted, as its counterpart; so every family needs one
translation, and not one for every other family. Source: compatibility rules, section 6.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import attrs

from .compatibility import CompatibilityResult, Finding, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from .serializer import TypeSerializer
    from .snapshot import TypeSerializerConfigSnapshot

    Convert = Callable[[Any], Any]

    Answer = CompatibilityResult[Any] | None

MIGRATE = "migrate the state: each value is written again"
ANY = "*"
"""Stands for each kind of snapshot."""

_rules: dict[tuple[str, str], str] = {}


def register_rule(stored: str, new: str, place: str) -> None:
    """Register what answers for a new serializer of one kind about a stored snapshot of another.

    Args:
        stored: The kind of the snapshot, or `ANY`.
        new: The kind of the snapshot that the new serializer makes, or `ANY`.
        place: `module:function` within this package, imported on first use, which commands that never meet the pair
            do not pay for. The function takes the serializer and the snapshot, and returns None where it leaves the
            answer to the next rule.
    """
    _rules[stored, new] = place


def answer_between(stored: str, new: str, serializer: TypeSerializer[Any], snapshot: Any) -> Answer:
    """Return what the rule for a pair of kinds says; None where there is none, or where it says nothing."""
    place = _rules.get((stored, new))
    if place is None:
        return None
    module, _, name = place.partition(":")
    answer: Answer = getattr(import_module(f".{module}", __package__), name)(serializer, snapshot)
    return answer


@attrs.frozen
class Counterpart:
    """The same type in one of stateshift's own families.

    Attributes:
        serializer: Of that type; only asked about compatibility.
        to_own: Gives a value of the family as a generic value of the counterpart.
        from_own: The other way round.
    """

    serializer: TypeSerializer[Any]
    to_own: Convert
    from_own: Convert


@attrs.frozen
class _Steps:
    """Conversions one after the other."""

    steps: tuple[Convert, ...]

    def __call__(self, value: Any) -> Any:
        for step in self.steps:
            value = step(value)
        return value


def across_families(
    new: TypeSerializer[Any], snapshot: TypeSerializerConfigSnapshot[Any], *ways_out: str
) -> CompatibilityResult[Any] | None:
    """Answer about a snapshot of another family by the counterparts of both (FAM-4).

    Args:
        new: Of the new type.
        snapshot: Of the stored type.
        ways_out: What else than a migration can be done.

    Returns:
        What the counterparts say, and at best that a migration is due; None where neither side has a counterpart.
    """
    was, becomes = snapshot.counterpart(), new.counterpart()
    if was is None and becomes is None:
        return None
    stored = snapshot if was is None else was.serializer.snapshot_configuration()
    asked = new if becomes is None else becomes.serializer
    result = asked.ensure_compatibility(stored)
    if stored.kind != asked.snapshot_configuration().kind and result.is_incompatible():
        return attrs.evolve(result, children=())
    reason = "the same type in another family, whose bytes are others"
    finding = Finding(
        "$", "FAM-4", Verdict.REQUIRES_MIGRATION, snapshot.describe(), new.describe(), reason, (MIGRATE, *ways_out)
    )
    findings = (finding, *result.findings)
    if result.is_incompatible():
        return CompatibilityResult.incompatible(*findings)
    steps = (was.to_own if was else None, result.conversion, becomes.from_own if becomes else None)
    # A fallback reads the bytes of a described type. Where the stored family has a counterpart, its bytes are its own.
    across: CompatibilityResult[Any] = CompatibilityResult.requires_migration(
        *findings,
        fallback=result.fallback if was is None else None,
        conversion=_Steps(tuple(step for step in steps if step is not None)),
    )
    return attrs.evolve(across, obstacles=result.obstacles)
