"""Restore targets: the system that is to restore the state, and the types that it cannot read.

Source: DESIGN, section 3 ("Flink-restorable"); format notes 3.7, 6.1 and 7.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

from ..serializers.compatibility import Finding, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..serializers.snapshot import TypeSerializerConfigSnapshot
    from .description import OperatorDescription


class Target(enum.StrEnum):
    """The system that is to restore the state.

    AUTO: the one that can now: Flink if it knows all types of an operator before and after, else stateshift. ANY: never
    Flink. FLINK: the Flink release that wrote the savepoint, or any release for new state.
    """

    AUTO = "auto"
    ANY = "any"
    FLINK = "flink"
    FLINK_1_20 = "flink-1.20"
    FLINK_2_3 = "flink-2.3"

    @property
    def is_flink(self) -> bool:
        """Whether all snapshots must be known to Flink."""
        return self not in {Target.AUTO, Target.ANY}

    def of(self, was: OperatorDescription, becomes: OperatorDescription) -> Target:
        """Return the target of an operator; AUTO becomes FLINK if Flink can restore it before and after, else ANY."""
        if self is not Target.AUTO:
            return self
        return Target.FLINK if was.is_flink_restorable and becomes.is_flink_restorable else Target.ANY

    @property
    def major(self) -> str:
        """The major release of the named Flink, "1" or "2"; "" if none is named."""
        return {Target.FLINK_1_20: "1", Target.FLINK_2_3: "2"}.get(self, "")


def refused_by(
    target: Target, stored_by: str, snapshots: Iterable[TypeSerializerConfigSnapshot[Any]], old: str, new: str
) -> Finding | None:
    """Return a finding on the first type that makes the target refuse the whole operator, or None.

    Args:
        target: The system that is to restore the state.
        stored_by: The major release of the Flink that wrote the values, or "".
        snapshots: The snapshots that the headers will hold.
        old: The stored type in words.
        new: The new type in words.
    """
    for snapshot in snapshots:
        if target.is_flink and not snapshot.is_flink:
            reason = f"Flink would refuse the whole operator over the snapshot of {snapshot.describe()}"
            reason += ", which it does not know"
            way = "use a type that Flink has; give a record its java_class"
        elif why := _unknown_to_release(target, stored_by, snapshot):
            reason = f"Flink {target.removeprefix('flink-')} cannot read {snapshot.describe()}: {why}"
            way = "drop the state"
        else:
            continue
        ways = (way, f"check without --target {target}")
        return Finding("$", "TARGET-FLINK", Verdict.INCOMPATIBLE, old, new, reason, ways)
    return None


def _unknown_to_release(target: Target, stored_by: str, snapshot: TypeSerializerConfigSnapshot[Any]) -> str:
    kinds = set(_kinds(snapshot)) if target.major else set()
    if "kryo" in kinds and stored_by and stored_by != target.major:
        return "Flink 1 holds Kryo 2 and Flink 2 holds Kryo 5, which write different bytes"
    if "ttl_aware" in kinds and target.major == "1":
        return "its snapshot, TtlAwareSerializerSnapshot, came with Flink 2"
    return ""


def _kinds(snapshot: TypeSerializerConfigSnapshot[Any]) -> Iterator[str]:
    yield snapshot.kind
    for child in snapshot.children():
        yield from _kinds(child)
