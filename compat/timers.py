"""The check of timers: a queue stores keys and namespaces, so their rules decide (rules 8.1 to 8.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ..serializers.compatibility import CompatibilityResult, Finding, Verdict
from ..serializers.errors import OldReaderUnavailable
from ..serializers.flink.namespaces import TimerSerializer, TimerSerializerSnapshot
from .description import SerializerDescription
from .parts import Judgement, ask
from .roles import KEEP, KEY, NAMESPACE, address_only

if TYPE_CHECKING:
    from .description import StateDescription


def judge_timers(old: StateDescription, new: StateDescription, *, rekeyed: bool = False) -> Judgement:
    """Judge a queue of timers; what the ordinary check would migrate is refused.

    Args:
        old: The stored queue.
        new: The queue that takes it over.
        rekeyed: Whether all keys of the operator are rewritten (ROLE-4): then only the namespace has to stay.
    """
    if new.value.repeats(old.value):
        return Judgement(CompatibilityResult.compatible())
    result = ask(new.value.new_side(), old.value.snapshot, "$")
    changed = [child.step for child in result.children if child.result.verdict >= Verdict.REQUIRES_MIGRATION]
    if rekeyed and changed == [KEY]:
        finding = Finding(
            "$" + KEY, "ROLE-4", Verdict.REQUIRES_MIGRATION, old.describe(), new.describe(),
            "the key of a timer is that of its operator, and is rewritten with it", (KEEP,),
        )  # fmt: skip
        return Judgement(CompatibilityResult.requires_migration(finding))
    role = NAMESPACE if NAMESPACE in changed and (rekeyed or changed == [NAMESPACE]) else KEY
    return Judgement(address_only(result, role, old.describe(), new.describe(), step=""))


def along_with_key(
    old: StateDescription, key: SerializerDescription, result: CompatibilityResult[Any]
) -> StateDescription | None:
    """Describe a stored queue that the job does not declare after the change: with the job's key and its own namespace.

    Args:
        old: The stored queue.
        key: The job's key.
        result: The answer of that key about the stored key.

    Returns:
        The new side for a check; None if the key's snapshot stays, and so does the queue's.
    """
    stored = old.value.snapshot
    if old.is_dropped or not isinstance(stored, TimerSerializerSnapshot):
        return None
    if not result.is_compatible_after_reconfiguration() and not result.is_migration_required():
        return None
    try:
        namespace: Any = stored.nested[1].restore_serializer()
    except OldReaderUnavailable:
        return None
    timers = TimerSerializer(key.new_side(), namespace)
    return attrs.evolve(old, value=SerializerDescription.of(timers), stored_name="")
