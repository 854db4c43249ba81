"""Keys and namespaces: they decide the position of an entry, and so never migrate in place (rules 8.1 and 8.2).

A queue of timers stores keys and namespaces, so their rules decide about it, too (rule 8.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ..serializers.compatibility import CompatibilityResult, Finding, Flag, Verdict
from ..serializers.errors import OldReaderUnavailable
from ..serializers.flink.namespaces import TimerSerializer, TimerSerializerSnapshot
from ..serializers.serializer import KEEP_OLD_TYPE
from ..serializers.ways_out import Does, Option, Told, WayOut
from .description import SerializerDescription
from .old_reader import find_old_reader
from .one_time_changes import about_converter
from .parts import Judgement, ask
from .report import RoleReport

if TYPE_CHECKING:
    from .description import StateDescription

KEY, NAMESPACE = "<key>", "<namespace>"

_REASONS = {
    KEY: "a key's bytes decide its key group, and so the place of its entries; rewritten in place, keys would be lost "
    "or merged",
    NAMESPACE: "a namespace is part of an entry's address; rewritten namespaces would be lost or merged",
}
_RULES = {KEY: "ROLE-2", NAMESPACE: "ROLE-5"}
KEEP, NEW_UID = KEEP_OLD_TYPE, WayOut("give the operator a new uid, and build its state again")
_REPARTITION = (Told(Option.REPARTITION),)
BY_REPARTITION = WayOut("migrate the state with", _REPARTITION, Does.MIGRATE)
_REKEY = WayOut("rekey the operator:", _REPARTITION, command="stateshift migrate")
_CONVERT = WayOut("declare a key_converter of the operator, and migrate with", _REPARTITION, Does.CONVERT)


def judge_role(
    old: SerializerDescription, new: SerializerDescription, role: str, *, repartition: bool = False
) -> RoleReport:
    """Judge a key or namespace: what the ordinary check would migrate is refused (ROLE-1, ROLE-2, ROLE-3, ROLE-5).

    Args:
        old: The stored side.
        new: The new side.
        role: `KEY` or `NAMESPACE`; the step that is prepended to the paths of findings.
        repartition: Whether keys may be rewritten (ROLE-4).

    Raises:
        OldReaderUnavailable: Keys are to be rewritten, and the stored ones cannot be read.
    """
    result: CompatibilityResult[Any] = CompatibilityResult.compatible()
    if not new.repeats(old):
        result = ask(new.new_side(), old.told, "$" + role)
    words = old.describe(), new.describe()
    is_converted = new.converter is not None or (result.is_migration_required() and not result.obstacles)
    if repartition and new.converter is not None and result.verdict < Verdict.REQUIRES_MIGRATION:
        result = result.preceded_by(about_converter(new.converter, old, "$", words))
        is_converted = result.is_migration_required()
    if repartition and result.verdict >= Verdict.REQUIRES_MIGRATION and is_converted:
        return _rewritten(result, old, new)
    strict = address_only(result, role, *words, convertible=is_converted)
    return RoleReport(strict, strict.verdict.decision, *words)


def _rewritten(result: CompatibilityResult[Any], old: SerializerDescription, new: SerializerDescription) -> RoleReport:
    """Accept a key that is converted, by a rule or by the operator's function (ROLE-4)."""
    words = old.describe(), new.describe()
    reader = find_old_reader(old.snapshot, stored=old.stored)
    conversion, converter = result.conversion, ""
    below = tuple(finding.below(KEY) for finding in result.findings)
    if new.converter is not None:
        conversion, converter = new.converter.function, new.converter.name
        decides = (f"key_converter {converter} decides",)
        below = tuple(
            attrs.evolve(finding, verdict=Verdict.REQUIRES_MIGRATION, ways_out=decides) if finding.ways_out else finding
            for finding in below
        )
    finding = Finding(
        "$" + KEY, "ROLE-4", Verdict.REQUIRES_MIGRATION, *words,
        "all state of the operator is rekeyed; two keys that become one abort the run, unless they are merged",
        (BY_REPARTITION, KEEP), (Flag.COLLISION_CHECK,),
    )  # fmt: skip
    rekeyed: CompatibilityResult[Any] = CompatibilityResult.requires_migration(finding, *below, conversion=conversion)
    return RoleReport(rekeyed, rekeyed.verdict.decision, *words, reader, converter)


def address_only(
    result: CompatibilityResult[Any],
    role: str,
    old: str,
    new: str,
    *,
    step: str | None = None,
    convertible: bool = True,
) -> CompatibilityResult[Any]:
    """Apply the rules of a role to a result: it is accepted if bytes stay, and refused otherwise.

    Args:
        result: The result of the ordinary check.
        role: `KEY` or `NAMESPACE`.
        old: The stored type in words.
        new: The new type in words.
        step: The prefix of the paths of the result, if it is not the role.
        convertible: Whether a rule or a function can convert the key.
    """
    findings = tuple(finding.below(role if step is None else step) for finding in result.findings)
    if result.verdict < Verdict.REQUIRES_MIGRATION:
        return attrs.evolve(result, findings=findings)
    ways = (KEEP, *([_REKEY if convertible else _CONVERT] if role == KEY else []), NEW_UID)
    refusal = Finding("$" + role, _RULES[role], Verdict.INCOMPATIBLE, old, new, _REASONS[role], ways)
    return CompatibilityResult.incompatible(refusal, *map(_without_rewriting, findings))


def _without_rewriting(finding: Finding) -> Finding:
    """Remove the ways out that only values have."""
    return attrs.evolve(finding, ways_out=[way for way in finding.ways_out if way.does is Does.CHANGE])


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
