"""Maps in Flink's format, and the rules MAP-1 to MAP-4 and OPT-4.

    i32 n, n x (key, bool is null, the value if not)

Entries are written in the map's iteration order, as by Flink; a dict that was read has the order of the bytes.
Source: format notes 6.1 and 7; compatibility rules 4.5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import attrs

from .. import layout
from ..compatibility import Child, CompatibilityResult, Finding, Flag, Verdict, compose
from ..errors import StateShiftError, ValueNotConvertible, add_step, shown
from ..registry import register_snapshot
from ..scalars import BASE
from ..serializer import KEEP_OLD_TYPE, NULLS_DECLARED, TypeSerializer, unrelated
from ..snapshot import CompositeTypeSerializerSnapshot, TypeSerializerConfigSnapshot
from .optional import OptionalSerializer
from .pieces import convert_each, encode_each, keep_null_flag, nulls_untold, outer_result, unique, unique_as_stored
from .ttl_aware import without_ttl_awareness

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..serializer import TypeDeserializer
    from ..views import DataInputView, DataOutputView

K = TypeVar("K")
V = TypeVar("V")

_KEY, _VALUE = "<key>", "{}"


@attrs.frozen
class MapConversion:
    """Converts keys and values, and refuses two keys that become equal (rule MAP-3)."""

    key: Callable[[Any], Any] | None
    value: Callable[[Any], Any] | None

    def __call__(self, value: Any) -> dict[Any, Any]:
        keys, items = list(value.keys()), list(value.values())
        if self.key is not None:
            keys = convert_each(self.key, keys, _KEY)
            unique(keys, "keys of a map become", _KEY, "MAP-3")
        if self.value is not None:
            items = convert_each(self.value, items, _VALUE)
        return dict(zip(keys, items, strict=True))


@attrs.frozen
class MapSerializer(TypeSerializer[Mapping[K, V]]):
    """Flink's MapSerializer, for dicts.

    Attributes:
        key: The serializer of the keys; a key is never null.
        value: The serializer of the values.
        nullable_values: Whether a value may be None; the layout has a flag for it (rule OPT-4).
    """

    key: TypeSerializer[K]
    value: TypeSerializer[V]
    nullable_values: bool = attrs.field(default=False, kw_only=True, metadata=NULLS_DECLARED)

    @property
    def layout(self) -> layout.Layout:
        return layout.Counted(layout.Sequence((self.key.layout, layout.Nullable(self.value.layout))))

    def serialize(self, value: Mapping[K, V], target: DataOutputView) -> None:
        if not isinstance(value, Mapping):
            raise ValueNotConvertible(f"{shown(value)} is not a map")
        pieces = encode_each(self.key, value.keys(), _KEY)
        unique(pieces, "keys of a map are written", _KEY)
        target.write_int(len(pieces))
        for piece, (key, item) in zip(pieces, value.items(), strict=True):
            target.write(piece)
            self.write_value(key, item, target)

    def write_value(self, key: K, item: V | None, target: DataOutputView) -> None:
        """Write what follows a key: the flag, and the value."""
        if item is None:
            self._check_null(key)
            target.write_byte(1)
            return
        target.write_byte(0)
        try:
            self.value.serialize(item, target)
        except StateShiftError as error:
            add_step(error, _VALUE)
            raise

    def deserialize(self, source: DataInputView) -> dict[K, V]:
        count = source.read_size("entries of a map", least_bytes_each=2)
        keys: list[K] = []
        values: list[Any] = []
        places = []
        step = _KEY
        try:
            for _ in range(count):
                step, start = _KEY, source.position
                keys.append(self.key.deserialize(source))
                places.append((start, source.position))
                step = _VALUE
                values.append(None if source.read_boolean() else self.value.deserialize(source))
        except StateShiftError as error:
            add_step(error, step)
            raise
        unique_as_stored(keys, source, places, "keys of a map", _KEY)
        if not self.takes_null:
            for key, value in zip(keys, values, strict=True):
                if value is None:
                    self._check_null(key)
        return dict(zip(keys, values, strict=True))

    @property
    def takes_null(self) -> bool:
        # As in Flink, the map's own flag marks a null, even where the value's serializer could write it.
        return self.nullable_values or isinstance(self.value, OptionalSerializer)

    def _check_null(self, key: K) -> None:
        if not self.takes_null:
            raise ValueNotConvertible(
                f"the value at key {shown(key)} of a map is null, but values are not declared optional",
                advice="declare the value optional: dict[…, … | None]",
                path="$" + _VALUE,
            )

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[Mapping[K, V]]:
        return MapSerializerSnapshot((self.key.snapshot_configuration(), self.value.snapshot_configuration()))

    def ensure_compatibility(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[Mapping[K, V]]:
        if not isinstance(snapshot, MapSerializerSnapshot):
            return unrelated(self, snapshot)
        old_key, old_value = snapshot.nested[0], without_ttl_awareness(snapshot.nested[1])
        value, findings = keep_null_flag(self.value, old_value, _VALUE, nullable=self.nullable_values)
        findings += nulls_untold(self.value, old_value, _VALUE, nullable=self.takes_null)
        key_result = self.key.ensure_compatibility(old_key)
        if key_result.is_migration_required():
            reason = "two stored keys that become one would abort the migration"
            ways = ("migrate the state: it is checked", KEEP_OLD_TYPE)
            old, new, flags = old_key.describe(), self.key.describe(), (Flag.COLLISION_CHECK,)
            collision = Finding("$" + _KEY, "MAP-3", Verdict.REQUIRES_MIGRATION, old, new, reason, ways, flags)
            findings = (collision, *findings)
        return compose(
            outer_result(findings),
            [
                Child(_KEY, self.key, key_result, old_key.restore_serializer),
                Child(_VALUE, value, value.ensure_compatibility(old_value), old_value.restore_serializer),
            ],
            rebuild=lambda nested: attrs.evolve(self, key=nested[0], value=nested[1]),
            convert=lambda parts: None if parts == [None, None] else MapConversion(*parts),
            read_with=_read_map_with,
        )


def _read_map_with(readers: list[TypeDeserializer[Any]]) -> TypeDeserializer[Any]:
    key, value = (cast("TypeSerializer[Any]", reader) for reader in readers)
    return MapSerializer(key, value, nullable_values=True)


@register_snapshot
@attrs.define
class MapSerializerSnapshot(CompositeTypeSerializerSnapshot[Any]):
    """Snapshot of `MapSerializer`. It does not say whether nulls are stored, so a restored serializer reads them."""

    snapshot_id: ClassVar[str] = BASE + "MapSerializerSnapshot"
    kind: ClassVar[str] = "map"
    java_class: ClassVar[str] = "java.util.Map"
    nested_count: ClassVar[int] = 2
    steps: ClassVar[tuple[str, ...]] = (_KEY, _VALUE)

    nested: tuple[TypeSerializerConfigSnapshot[Any], ...] = ()

    def restore_serializer(self) -> TypeSerializer[Any]:
        return MapSerializer(self.restore_nested(0), self.restore_nested(1), nullable_values=True)
