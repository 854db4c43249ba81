"""Types that Flink extracts by itself for fields of Java classes, and types that need type information in the class.

Flink 2 writes a field `List<T>` as `optional<list<optional<T>>>`, `Map<K, V>` as `optional<map<optional<K>, V>>` and
`Set<T>` as `optional<set<T>>`; Flink 1 leaves all three to Kryo. Flink restores a field of another form only if the
class names it (`@TypeInfo`); otherwise it reports that the new serializer is incompatible. Tried with both releases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..serializers.compatibility import Finding, Flag, Verdict
from ..serializers.containers.wrappers import NullableSerializerSnapshot
from ..serializers.records.pojo import PojoSerializerSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..serializers.snapshot import TypeSerializerConfigSnapshot

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
    if isinstance(new, PojoSerializerSnapshot):
        before = old.stored_fields() if isinstance(old, PojoSerializerSnapshot) else ()
        stored = {field.name: field.snapshot for field in before}
        for field in new.stored_fields():
            was, below = stored.get(field.name), f"{path}.{field.name}"
            if _is_odd(field.snapshot, major) and not (was is not None and _is_odd(was, major)):
                yield _told(field.snapshot, major, below)
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
    return snapshot.nested[0] if isinstance(snapshot, NullableSerializerSnapshot) else snapshot


def _told(snapshot: TypeSerializerConfigSnapshot[Any], major: str, path: str) -> Finding:
    java, form, hint = _FORMS[_without_null(snapshot).kind]
    reason, ways = f"Flink 2 by itself describes a {java} as {form}", (f"declare the field as {hint}",)
    if major == "1":
        reason, ways = f"Flink 1 by itself leaves a {java} to Kryo", ("name the type in the class, with @TypeInfo",)
    reason += "; it restores this form only where the class names it (@TypeInfo), and otherwise refuses the state"
    described = snapshot.describe()
    return Finding(path, "TARGET-FLINK", Verdict.COMPATIBLE, "", described, reason, ways, (Flag.UNVERIFIED,))
