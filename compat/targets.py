"""Restore targets: the system that is to restore the state, and the types that it cannot read.

Source: DESIGN, section 3 ("Flink-restorable"); format notes 3.7, 6.1 and 7.

Some types Flink extracts by itself for fields of Java classes; others need type information in the class.
Flink 2 writes a field `List<T>` as `optional<list<optional<T>>>`, `Map<K, V>` as `optional<map<optional<K>, V>>` and
`Set<T>` as `optional<set<T>>`; Flink 1 leaves all three to Kryo. Flink restores a field of another form only if the
class names it (`@TypeInfo`); otherwise it reports that the new serializer is incompatible. Tried with both releases.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

from ..serializers.compatibility import Finding, Flag, Verdict

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
        ways = (way, f"choose another target than {target}")
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


_FORMS = {
    "list": ("java.util.List", "optional<list<optional<T>>>", "list[T | None] | None"),
    "map": ("java.util.Map", "optional<map<optional<K>, V>>", "dict[K | None, V] | None"),
    "set": ("java.util.Set", "optional<set<T>>", "set[T] | None"),
}


def unlike_flinks(
    old: TypeSerializerConfigSnapshot[Any] | None, new: TypeSerializerConfigSnapshot[Any], major: str, path: str = "$"
) -> Iterator[Finding]:
    """Yield findings on new or changed fields of Java classes whose types Flink would not extract by itself.

    Args:
        old: The stored snapshot; the class already names the types in it.
        new: The snapshot to be written.
        major: The major release of the Flink that is to restore it, or "".
        path: The path of both snapshots.
    """
    from ..serializers.records.pojo import PojoSerializerSnapshot  # a target is named without loading families

    if isinstance(new, PojoSerializerSnapshot):
        before = old.stored_fields() if isinstance(old, PojoSerializerSnapshot) else ()
        stored = {field.name: field.snapshot for field in before}
        for field in new.stored_fields():
            was, below = stored.get(field.name), f"{path}.{field.name}"
            if _is_odd(field.snapshot, major) and not (was is not None and _is_odd(was, major)):
                yield _form_finding(field.snapshot, major, below)
            yield from unlike_flinks(was, field.snapshot, major, below)
        return
    parts = old.children() if old is not None and old.kind == new.kind else ()
    for index, child in enumerate(new.children()):
        yield from unlike_flinks(parts[index] if index < len(parts) else None, child, major, path)


def _is_odd(snapshot: TypeSerializerConfigSnapshot[Any], major: str) -> bool:
    bare = _without_null(snapshot)
    if bare.kind not in _FORMS:
        return False
    inner = bare.children()
    is_flinks = snapshot is not bare and (bare.kind == "set" or _without_null(inner[0]) is not inner[0])
    return major == "1" or not is_flinks


def _without_null(snapshot: TypeSerializerConfigSnapshot[Any]) -> TypeSerializerConfigSnapshot[Any]:
    from ..serializers.containers.wrappers import NullableSerializerSnapshot

    return snapshot.nested[0] if isinstance(snapshot, NullableSerializerSnapshot) else snapshot


def _form_finding(snapshot: TypeSerializerConfigSnapshot[Any], major: str, path: str) -> Finding:
    java, form, hint = _FORMS[_without_null(snapshot).kind]
    reason, ways = f"Flink 2 by itself describes a {java} as {form}", (f"declare the field as {hint}",)
    if major == "1":
        reason, ways = f"Flink 1 by itself leaves a {java} to Kryo", ("name the type in the class, with @TypeInfo",)
    reason += "; it restores this form only where the class names it (@TypeInfo), and otherwise refuses the state"
    described = snapshot.describe()
    return Finding(path, "TARGET-FLINK", Verdict.COMPATIBLE, "", described, reason, ways, (Flag.UNVERIFIED,))
