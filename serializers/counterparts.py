"""Counterparts: the same type in another family (rule FAM-4).

A family whose types have a counterpart among stateshift's own types returns it: a serializer of that type, and
conversions of values to it and back. Stored values are then judged and converted as values of the counterpart, so that
each family needs one translation instead of one for every other family. Source: compatibility rules, section 6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from .compatibility import CompatibilityResult, Finding, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from .serializer import TypeSerializer
    from .snapshot import TypeSerializerConfigSnapshot

    Convert = Callable[[Any], Any]

MIGRATE = "migrate the state: each value is rewritten"


@attrs.frozen
class Counterpart:
    """The same type in one of stateshift's own families.

    Attributes:
        serializer: The serializer of that type; only used to judge compatibility.
        to_own: Converts a value of the family to a generic value of the counterpart.
        from_own: Converts in the other direction.
    """

    serializer: TypeSerializer[Any]
    to_own: Convert
    from_own: Convert


@attrs.frozen
class _Steps:
    """Conversions that are applied one after the other."""

    steps: tuple[Convert, ...]

    def __call__(self, value: Any) -> Any:
        for step in self.steps:
            value = step(value)
        return value


def across_families(
    new: TypeSerializer[Any], snapshot: TypeSerializerConfigSnapshot[Any], *ways_out: str
) -> CompatibilityResult[Any] | None:
    """Judge a snapshot of another family by the counterparts of both types (FAM-4).

    Args:
        new: The serializer of the new type.
        snapshot: The snapshot of the stored type.
        ways_out: What can be done other than a migration.

    Returns:
        The result for the counterparts, at best `requires_migration`; None if neither side has a counterpart.
    """
    was, becomes = snapshot.counterpart(), new.counterpart()
    if was is None and becomes is None:
        return None
    stored = snapshot if was is None else was.serializer.snapshot_configuration()
    asked = new if becomes is None else becomes.serializer
    result = asked.ensure_compatibility(stored)
    if stored.kind != asked.snapshot_configuration().kind and result.is_incompatible():
        return attrs.evolve(result, children=())
    reason = "the same type in another family, with other bytes"
    finding = Finding(
        "$", "FAM-4", Verdict.REQUIRES_MIGRATION, snapshot.describe(), new.describe(), reason, (MIGRATE, *ways_out)
    )
    findings = (finding, *result.findings)
    if result.is_incompatible():
        return CompatibilityResult.incompatible(*findings)
    steps = (was.to_own if was else None, result.conversion, becomes.from_own if becomes else None)
    # A fallback reads the bytes of the type that was compared; if that is a counterpart, the stored bytes are others.
    across: CompatibilityResult[Any] = CompatibilityResult.requires_migration(
        *findings,
        fallback=result.fallback if was is None else None,
        conversion=_Steps(tuple(step for step in steps if step is not None)),
    )
    return attrs.evolve(across, obstacles=result.obstacles)
