"""Timers: the time at which an operator is called for a key and a namespace.

    i64 timestamp with its sign bit flipped (so that bytes sort as the numbers do), key, namespace

Source: format notes 5.5 and 7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import attrs

from .. import layout
from ..compatibility import Child, CompatibilityResult, compose
from ..errors import CorruptSavepoint, StateShiftError, ValueNotConvertible, add_step, shown
from ..registry import register_snapshot
from ..serializer import TypeSerializer, unrelated
from ..snapshot import CompositeTypeSerializerSnapshot, TypeSerializerConfigSnapshot
from ..stored_names import lasting

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..serializer import TypeDeserializer
    from ..views import DataInputView, DataOutputView

K = TypeVar("K")
N = TypeVar("N")

_SIGN_BIT = 1 << 63
_KEY, _NAMESPACE = "<key>", "<namespace>"


@lasting
@attrs.frozen
class Timer(Generic[K, N]):
    """A timer that was set.

    Attributes:
        timestamp: When it fires: milliseconds since 1970 UTC, in event time or processing time.
        key: The key that it was set for.
        namespace: The window, or the void namespace.
    """

    timestamp: int
    key: K
    namespace: N


@attrs.frozen
class _TimerReader:
    """Reads timers with given readers of their keys and namespaces."""

    key: TypeDeserializer[Any]
    namespace: TypeDeserializer[Any]

    def deserialize(self, source: DataInputView) -> Timer[Any, Any]:
        timestamp = source.read_long() ^ -_SIGN_BIT
        step = _KEY
        try:
            key = self.key.deserialize(source)
            step = _NAMESPACE
            return Timer(timestamp, key, self.namespace.deserialize(source))
        except StateShiftError as error:
            add_step(error, step)
            raise


@attrs.frozen
class _TimerConversion:
    """Converts key and namespace; None leaves a part as it is."""

    key: Callable[[Any], Any] | None
    namespace: Callable[[Any], Any] | None

    def __call__(self, timer: Timer[Any, Any]) -> Timer[Any, Any]:
        key = timer.key if self.key is None else self.key(timer.key)
        namespace = timer.namespace if self.namespace is None else self.namespace(timer.namespace)
        return Timer(timer.timestamp, key, namespace)


@attrs.frozen
class TimerSerializer(TypeSerializer[Timer[K, N]]):
    """Flink's timers, for keys and namespaces of given types."""

    key: TypeSerializer[K]
    namespace: TypeSerializer[N]

    @property
    def length(self) -> int:
        parts = (self.key.length, self.namespace.length)
        return -1 if min(parts) < 0 else 8 + sum(parts)

    @property
    def layout(self) -> layout.Layout:
        return layout.Sequence((layout.Fixed(8), self.key.layout, self.namespace.layout))

    def serialize(self, value: Timer[K, N], target: DataOutputView) -> None:
        if not isinstance(value, Timer):
            raise ValueNotConvertible(f"{shown(value)} is not a Timer")
        timestamp = value.timestamp
        if not (isinstance(timestamp, int) and -_SIGN_BIT <= timestamp < _SIGN_BIT):
            raise ValueNotConvertible(f"{shown(timestamp)} is not a timestamp of 64 bits")
        target.write_long(timestamp ^ -_SIGN_BIT)
        step = _KEY
        try:
            self.key.serialize(value.key, target)
            step = _NAMESPACE
            self.namespace.serialize(value.namespace, target)
        except StateShiftError as error:
            add_step(error, step)
            raise

    def deserialize(self, source: DataInputView) -> Timer[K, N]:
        return _TimerReader(self.key, self.namespace).deserialize(source)

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[Timer[K, N]]:
        return TimerSerializerSnapshot((self.key.snapshot_configuration(), self.namespace.snapshot_configuration()))

    def ensure_compatibility(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[Timer[K, N]]:
        if not isinstance(snapshot, TimerSerializerSnapshot):
            return unrelated(self, snapshot)
        old_key, old_namespace = snapshot.key_and_namespace()
        key, namespace = self.key.ensure_compatibility(old_key), self.namespace.ensure_compatibility(old_namespace)
        return compose(
            CompatibilityResult.compatible(),
            [
                Child(_KEY, self.key, key, old_key.restore_serializer),
                Child(_NAMESPACE, self.namespace, namespace, old_namespace.restore_serializer),
            ],
            rebuild=lambda rebuilt: TimerSerializer(*rebuilt),
            convert=_conversion,
            read_with=lambda readers: _TimerReader(*readers),
        )


def _conversion(parts: list[Callable[[Any], Any] | None]) -> Callable[[Any], Any] | None:
    return None if parts == [None, None] else _TimerConversion(*parts)


@register_snapshot
@attrs.define
class TimerSerializerSnapshot(CompositeTypeSerializerSnapshot[Timer[Any, Any]]):
    """Snapshot of `TimerSerializer`; nested are key and namespace."""

    snapshot_id: ClassVar[str] = "org.apache.flink.streaming.api.operators.TimerSerializerSnapshot"
    kind: ClassVar[str] = "timer"
    outer_version: ClassVar[int] = 2
    nested_count: ClassVar[int] = 2
    steps: ClassVar[tuple[str, ...]] = (_KEY, _NAMESPACE)

    nested: tuple[TypeSerializerConfigSnapshot[Any], ...] = ()

    def key_and_namespace(self) -> tuple[TypeSerializerConfigSnapshot[Any], TypeSerializerConfigSnapshot[Any]]:
        """Return the two nested snapshots; raises `CorruptSavepoint` if there are not two."""
        if len(self.nested) != self.nested_count:
            raise CorruptSavepoint(f"a timer's snapshot holds {len(self.nested)} nested snapshots instead of 2")
        key, namespace = self.nested
        return key, namespace

    def restore_serializer(self) -> TypeSerializer[Timer[Any, Any]]:
        self.key_and_namespace()
        return TimerSerializer(self.restore_nested(0), self.restore_nested(1))
