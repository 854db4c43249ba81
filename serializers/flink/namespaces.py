"""Windows and other namespaces, Void, and timers.

Namespaces: the part of keyed state's address besides the key.

    VoidNamespace  one byte 0, although its declared length is 0    all plain keyed state
    TimeWindow     i64 start, i64 end (exclusive)                   windows in time, milliseconds
    CountWindow    i64 number                                       windows of a number of elements
    GlobalWindow   one byte 0                                       the one window of everything

Flink's table runtime has a TimeWindow and a GlobalWindow of its own, with the same bytes; PyFlink's windows are these.
CountWindow is only there.

Source: format notes 5.3 and 7.

Void: Flink's type without a value, written as one byte 0. Source: format notes 7.

Timers: the time at which an operator is called for a key and a namespace.

    i64 timestamp with its sign bit flipped (so that bytes sort as the numbers do), key, namespace

Source: format notes 5.5 and 7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, TypeVar

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
    from collections.abc import Callable, Iterable

    from ..views import DataInputView, DataOutputView

W = TypeVar("W")

_WINDOWS = "org.apache.flink.streaming.api.windowing.windows."
_SQL_WINDOWS = "org.apache.flink.table.runtime.operators.window."
_LAST_TIME = (1 << 63) - 1


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

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """Return the start of the window with a time, where one begins every `window_size` ms, `offset` ms later."""
        return timestamp - (timestamp - offset) % window_size

    @staticmethod
    def merge_windows(windows: Iterable[TimeWindow], callback: Any) -> None:
        """Call `callback.merge` with each group of windows that overlap or touch, and the window that covers it.

        Args:
            windows: The windows, in any order.
            callback: A `MergingWindowAssigner.MergeCallback`.
        """
        group: list[TimeWindow] = []
        whole: TimeWindow | None = None
        for window in [*sorted(set(windows)), None]:
            if window is not None and whole is not None and whole.intersects(window):
                group.append(window)
                whole = whole.cover(window)
                continue
            if len(group) > 1:
                callback.merge(group, whole)
            group, whole = [] if window is None else [window], window


@lasting
@attrs.frozen(order=True)
class CountWindow:
    """A window of a number of elements.

    Attributes:
        id: The number of the window among those of its key, from 0.
    """

    id: int

    def max_timestamp(self) -> int:
        """Return the last time of all, 2**63 - 1."""
        return _LAST_TIME


@lasting
@attrs.frozen
class GlobalWindow:
    """The window of everything. All instances are equal; readers return `GLOBAL_WINDOW`."""

    @staticmethod
    def get() -> GlobalWindow:
        """Return the window."""
        return GLOBAL_WINDOW

    def max_timestamp(self) -> int:
        """Return the last time of all, 2**63 - 1."""
        return _LAST_TIME


VOID_NAMESPACE = VoidNamespace()
GLOBAL_WINDOW = GlobalWindow()


@attrs.frozen
class _OneValueSerializer(ScalarSerializer[Any]):
    """Base of the serializers of types with one value, which is stored as one byte 0."""

    value: ClassVar[Any]
    what: ClassVar[str]
    """The value, for messages."""

    def serialize(self, value: Any, target: DataOutputView) -> None:
        if value != self.value:
            raise ValueNotConvertible(f"{shown(value)} is not {self.what}")
        target.write_byte(0)

    def deserialize(self, source: DataInputView) -> Any:
        found = source.read_unsigned_byte()
        if found:
            raise CorruptSavepoint(f"{self.what} must be one byte 0, not {found:#04x}", offset=source.position - 1)
        return self.value


class _NamespaceSnapshot(ScalarSnapshot[Any]):
    """Base of the snapshots of namespaces."""

    kind: ClassVar[str] = "namespace"


@attrs.frozen
class VoidNamespaceSerializer(_OneValueSerializer):
    """Flink's VoidNamespace: declares length 0 and writes one byte, as Flink does."""

    value, what = VOID_NAMESPACE, "the void namespace"
    row = Scalar("VoidNamespace", "VoidNamespace", "", "", "VoidNamespace")

    length = 0

    layout = rewrite.Fixed(1)


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

    def ensure_compatibility(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[Any]:
        if isinstance(snapshot, TimeWindowSerializerSnapshot | SqlTimeWindowSerializerSnapshot):
            if type(snapshot) is not type(self.snapshot_configuration()):  # the same bytes, with another class in Java
                return CompatibilityResult.compatible_after_reconfiguration(self)
            return CompatibilityResult.compatible()
        return super().ensure_compatibility(snapshot)


TimeWindowSerializerSnapshot = snapshot_of(
    TimeWindowSerializer,
    _NamespaceSnapshot,
    snapshot_id=f"{_WINDOWS}TimeWindow$Serializer$TimeWindowSerializerSnapshot",
)


@attrs.frozen
class SqlTimeWindowSerializer(TimeWindowSerializer):
    """The TimeWindow of Flink's table runtime, which PyFlink's windows in time are."""

    row = Scalar("TimeWindow", "SqlTimeWindow", "", ">qq", "TimeWindow")


SqlTimeWindowSerializerSnapshot = snapshot_of(
    SqlTimeWindowSerializer,
    _NamespaceSnapshot,
    snapshot_id=f"{_SQL_WINDOWS}TimeWindow$Serializer$TimeWindowSerializerSnapshot",
)


SqlTimeWindow = Annotated[TimeWindow, SqlTimeWindowSerializer()]
"""The type hint of windows in time of Flink SQL and of PyFlink: values are `TimeWindow`, of a class of their own."""


@attrs.frozen
class CountWindowSerializer(ScalarSerializer[CountWindow]):
    """The CountWindow of Flink's table runtime, which PyFlink's count windows are."""

    row = Scalar("CountWindow", "CountWindow", "", ">q", "CountWindow")

    def serialize(self, value: CountWindow, target: DataOutputView) -> None:
        if not isinstance(value, CountWindow):
            raise ValueNotConvertible(f"{shown(value)} is not a CountWindow")
        target.write_long(value.id)

    def deserialize(self, source: DataInputView) -> CountWindow:
        return CountWindow(source.read_long())


CountWindowSerializerSnapshot = snapshot_of(
    CountWindowSerializer,
    _NamespaceSnapshot,
    snapshot_id=f"{_SQL_WINDOWS}CountWindow$Serializer$CountWindowSerializerSnapshot",
)


@attrs.frozen
class GlobalWindowSerializer(_OneValueSerializer):
    """Flink's GlobalWindow."""

    value, what = GLOBAL_WINDOW, "the global window"
    row = Scalar("GlobalWindow", "GlobalWindow", "", ">b", "GlobalWindow")


GlobalWindowSerializerSnapshot = snapshot_of(
    GlobalWindowSerializer,
    _NamespaceSnapshot,
    snapshot_id=f"{_WINDOWS}GlobalWindow$Serializer$GlobalWindowSerializerSnapshot",
)


@attrs.frozen
class SqlGlobalWindowSerializer(GlobalWindowSerializer):
    """The GlobalWindow of Flink's table runtime."""

    row = Scalar("GlobalWindow", "SqlGlobalWindow", "", ">b", "GlobalWindow")


SqlGlobalWindowSerializerSnapshot = snapshot_of(
    SqlGlobalWindowSerializer,
    _NamespaceSnapshot,
    snapshot_id=f"{_SQL_WINDOWS}GlobalWindow$Serializer$GlobalWindowSerializerSnapshot",
)


class VoidSerializer(_OneValueSerializer):
    """Flink's Void, whose only value is None."""

    value, what = None, "None, Flink's Void,"
    row = Scalar("void", "Void", "java.lang.Void", ">b", "None")


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
        timestamp = source.read_long() ^ -_SIGN_BIT
        step = _KEY
        try:
            key = self.key.deserialize(source)
            step = _NAMESPACE
            return Timer(timestamp, key, self.namespace.deserialize(source))
        except StateShiftError as error:
            add_step(error, step)
            raise

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[Timer[K, N]]:
        return TimerSerializerSnapshot((self.key.snapshot_configuration(), self.namespace.snapshot_configuration()))

    def ensure_compatibility(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[Timer[K, N]]:
        if not isinstance(snapshot, TimerSerializerSnapshot):
            return unrelated(self, snapshot)
        old_key, old_namespace = snapshot.nested
        key, namespace = self.key.ensure_compatibility(old_key), self.namespace.ensure_compatibility(old_namespace)
        return compose(
            CompatibilityResult.compatible(),
            [
                Child(_KEY, self.key, key, old_key.restore_serializer),
                Child(_NAMESPACE, self.namespace, namespace, old_namespace.restore_serializer),
            ],
            rebuild=lambda rebuilt: TimerSerializer(*rebuilt),
            convert=lambda parts: None if parts == [None, None] else _TimerConversion(*parts),
            read_with=lambda readers: TimerSerializer(*readers),
        )


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

    def restore_serializer(self) -> TypeSerializer[Timer[Any, Any]]:
        return TimerSerializer(self.restore_nested(0), self.restore_nested(1))
