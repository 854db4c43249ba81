"""Windows and other namespaces, Void, and timers.

Namespaces: the part of keyed state's address besides the key.

    VoidNamespace  one byte 0, although its declared length is 0    all plain keyed state
    TimeWindow     i64 start, i64 end (exclusive)                   windows in time, milliseconds
    GlobalWindow   one byte 0                                       the one window of everything

Flink's table runtime has a TimeWindow of its own, with the same bytes.

Source: format notes 5.3 and 7.

Void: Flink's type without a value, written as one byte 0. Source: format notes 7.

Timers: the time at which an operator is called for a key and a namespace.

    i64 timestamp with its sign bit flipped (so that bytes sort as the numbers do), key, namespace

Source: format notes 5.5 and 7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import attrs

from .. import rewrite
from ..compatibility import Child, CompatibilityResult, compose
from ..errors import CorruptSavepoint, StateShiftError, ValueNotConvertible, add_step, shown
from ..registry import register_snapshot
from ..scalars import Scalar, ScalarSerializer, ScalarSnapshot, flink_id, snapshot_of
from ..serializer import TypeSerializer, unrelated
from ..snapshot import CompositeTypeSerializerSnapshot, TypeSerializerConfigSnapshot
from ..stored_names import lasting

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..serializer import TypeDeserializer
    from ..views import DataInputView, DataOutputView

W = TypeVar("W")

_WINDOWS = "org.apache.flink.streaming.api.windowing.windows."


@lasting
@attrs.frozen
class VoidNamespace:
    """The namespace of state that has none. All instances are equal; readers return `VOID_NAMESPACE`."""


@lasting
@attrs.frozen(order=True)
class TimeWindow:
    """A window in time.

    Attributes:
        start: First millisecond since 1970 UTC.
        end: Last millisecond plus one.
    """

    start: int
    end: int

    def max_timestamp(self) -> int:
        """Return the last millisecond of the window."""
        return self.end - 1

    def intersects(self, other: TimeWindow) -> bool:
        """Whether the windows overlap, or one begins where the other ends."""
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: TimeWindow) -> TimeWindow:
        """Return the smallest window that has both windows in it."""
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))


@lasting
@attrs.frozen
class GlobalWindow:
    """The window of everything. All instances are equal; readers return `GLOBAL_WINDOW`."""

    def max_timestamp(self) -> int:
        """Return the last time of all, 2**63 - 1."""
        return (1 << 63) - 1


VOID_NAMESPACE = VoidNamespace()
GLOBAL_WINDOW = GlobalWindow()


def expect_zero(source: DataInputView, what: str) -> None:
    """Read the byte of a value without content; raises `CorruptSavepoint` if it is not 0."""
    found = source.read_unsigned_byte()
    if found:
        raise CorruptSavepoint(f"{what} must be one byte 0, not {found:#04x}", offset=source.position - 1)


class _NamespaceSnapshot(ScalarSnapshot[Any]):
    """Base of the snapshots of namespaces."""

    kind: ClassVar[str] = "namespace"


@attrs.frozen
class VoidNamespaceSerializer(ScalarSerializer[VoidNamespace]):
    """Flink's VoidNamespace: declares length 0 and writes one byte, as Flink does."""

    row = Scalar("VoidNamespace", "VoidNamespace", "", "", "VoidNamespace")

    @property
    def length(self) -> int:
        return 0

    @property
    def layout(self) -> rewrite.ByteRewrite:
        return rewrite.Fixed(1)

    def serialize(self, value: VoidNamespace, target: DataOutputView) -> None:
        if not isinstance(value, VoidNamespace):
            raise ValueNotConvertible(f"{shown(value)} is not the void namespace")
        target.write_byte(0)

    def deserialize(self, source: DataInputView) -> VoidNamespace:
        expect_zero(source, "the void namespace")
        return VOID_NAMESPACE


VoidNamespaceSerializerSnapshot = snapshot_of(
    VoidNamespaceSerializer,
    _NamespaceSnapshot,
    snapshot_id=flink_id("VoidNamespace", "org.apache.flink.runtime.state."),
)


@attrs.frozen
class TimeWindowSerializer(ScalarSerializer[TimeWindow]):
    """Flink's TimeWindow."""

    row = Scalar("TimeWindow", "TimeWindow", "", ">qq", "TimeWindow")

    def serialize(self, value: TimeWindow, target: DataOutputView) -> None:
        if not isinstance(value, TimeWindow):
            raise ValueNotConvertible(f"{shown(value)} is not a TimeWindow")
        target.write_long(value.start)
        target.write_long(value.end)

    def deserialize(self, source: DataInputView) -> TimeWindow:
        return TimeWindow(source.read_long(), source.read_long())


TimeWindowSerializerSnapshot = snapshot_of(
    TimeWindowSerializer,
    _NamespaceSnapshot,
    snapshot_id=f"{_WINDOWS}TimeWindow$Serializer$TimeWindowSerializerSnapshot",
)


@attrs.frozen
class SqlTimeWindowSerializer(TimeWindowSerializer):
    """The TimeWindow of Flink SQL."""

    row = Scalar("TimeWindow", "SqlTimeWindow", "", ">qq", "TimeWindow")


SqlTimeWindowSerializerSnapshot = snapshot_of(
    SqlTimeWindowSerializer,
    _NamespaceSnapshot,
    snapshot_id="org.apache.flink.table.runtime.operators.window.TimeWindow$Serializer$TimeWindowSerializerSnapshot",
)


@attrs.frozen
class GlobalWindowSerializer(ScalarSerializer[GlobalWindow]):
    """Flink's GlobalWindow."""

    row = Scalar("GlobalWindow", "GlobalWindow", "", ">b", "GlobalWindow")

    def serialize(self, value: GlobalWindow, target: DataOutputView) -> None:
        if not isinstance(value, GlobalWindow):
            raise ValueNotConvertible(f"{shown(value)} is not the global window")
        target.write_byte(0)

    def deserialize(self, source: DataInputView) -> GlobalWindow:
        expect_zero(source, "the global window")
        return GLOBAL_WINDOW


GlobalWindowSerializerSnapshot = snapshot_of(
    GlobalWindowSerializer,
    _NamespaceSnapshot,
    snapshot_id=f"{_WINDOWS}GlobalWindow$Serializer$GlobalWindowSerializerSnapshot",
)


class VoidSerializer(ScalarSerializer[None]):
    """Flink's Void, whose only value is None."""

    row = Scalar("void", "Void", "java.lang.Void", ">b", "None")

    def serialize(self, value: None, target: DataOutputView) -> None:
        if value is not None:
            raise ValueNotConvertible(f"{shown(value)} is not None")
        target.write_byte(0)

    def deserialize(self, source: DataInputView) -> None:
        expect_zero(source, "Flink's Void")


VoidSerializerSnapshot = snapshot_of(VoidSerializer)


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
    def layout(self) -> rewrite.ByteRewrite:
        return rewrite.Sequence((rewrite.Fixed(8), self.key.layout, self.namespace.layout))

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
