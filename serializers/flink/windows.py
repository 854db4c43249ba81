"""Namespaces: the part of keyed state's address besides the key.

    VoidNamespace  one byte 0, although its declared length is 0    all plain keyed state
    TimeWindow     i64 start, i64 end (exclusive)                   windows in time, milliseconds
    GlobalWindow   one byte 0                                       the one window of everything

Source: format notes 5.3 and 7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs

from .. import layout
from ..errors import CorruptSavepoint, ValueNotConvertible, shown
from ..registry import register_snapshot
from ..serializer import TypeSerializer
from ..snapshot import FlinkSnapshot, TypeSerializerConfigSnapshot
from ..stored_names import lasting

if TYPE_CHECKING:
    from ..views import DataInputView, DataOutputView

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


@attrs.frozen
class VoidNamespaceSerializer(TypeSerializer[VoidNamespace]):
    """Flink's VoidNamespace: declares length 0 and writes one byte, as Flink does."""

    @property
    def length(self) -> int:
        return 0

    @property
    def layout(self) -> layout.Layout:
        return layout.Fixed(1)

    @property
    def is_immutable_type(self) -> bool:
        return True

    def serialize(self, value: VoidNamespace, target: DataOutputView) -> None:
        if not isinstance(value, VoidNamespace):
            raise ValueNotConvertible(f"{shown(value)} is not the void namespace")
        target.write_byte(0)

    def deserialize(self, source: DataInputView) -> VoidNamespace:
        expect_zero(source, "the void namespace")
        return VOID_NAMESPACE

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[VoidNamespace]:
        return VoidNamespaceSerializerSnapshot()


@register_snapshot
class VoidNamespaceSerializerSnapshot(FlinkSnapshot[VoidNamespace]):
    """Snapshot of `VoidNamespaceSerializer`."""

    snapshot_id: ClassVar[str] = (
        "org.apache.flink.runtime.state.VoidNamespaceSerializer$VoidNamespaceSerializerSnapshot"
    )
    kind: ClassVar[str] = "namespace"

    def describe(self) -> str:
        return "VoidNamespace"

    def restore_serializer(self) -> TypeSerializer[VoidNamespace]:
        return VoidNamespaceSerializer()


@attrs.frozen
class TimeWindowSerializer(TypeSerializer[TimeWindow]):
    """Flink's TimeWindow."""

    @property
    def length(self) -> int:
        return 16

    @property
    def is_immutable_type(self) -> bool:
        return True

    def serialize(self, value: TimeWindow, target: DataOutputView) -> None:
        if not isinstance(value, TimeWindow):
            raise ValueNotConvertible(f"{shown(value)} is not a TimeWindow")
        target.write_long(value.start)
        target.write_long(value.end)

    def deserialize(self, source: DataInputView) -> TimeWindow:
        return TimeWindow(source.read_long(), source.read_long())

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[TimeWindow]:
        return TimeWindowSerializerSnapshot()


@register_snapshot
class TimeWindowSerializerSnapshot(FlinkSnapshot[TimeWindow]):
    """Snapshot of `TimeWindowSerializer`."""

    snapshot_id: ClassVar[str] = _WINDOWS + "TimeWindow$Serializer$TimeWindowSerializerSnapshot"
    kind: ClassVar[str] = "namespace"

    def describe(self) -> str:
        return "TimeWindow"

    def restore_serializer(self) -> TypeSerializer[TimeWindow]:
        return TimeWindowSerializer()


@attrs.frozen
class GlobalWindowSerializer(TypeSerializer[GlobalWindow]):
    """Flink's GlobalWindow."""

    @property
    def length(self) -> int:
        return 1

    @property
    def is_immutable_type(self) -> bool:
        return True

    def serialize(self, value: GlobalWindow, target: DataOutputView) -> None:
        if not isinstance(value, GlobalWindow):
            raise ValueNotConvertible(f"{shown(value)} is not the global window")
        target.write_byte(0)

    def deserialize(self, source: DataInputView) -> GlobalWindow:
        expect_zero(source, "the global window")
        return GLOBAL_WINDOW

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[GlobalWindow]:
        return GlobalWindowSerializerSnapshot()


@register_snapshot
class GlobalWindowSerializerSnapshot(FlinkSnapshot[GlobalWindow]):
    """Snapshot of `GlobalWindowSerializer`."""

    snapshot_id: ClassVar[str] = _WINDOWS + "GlobalWindow$Serializer$GlobalWindowSerializerSnapshot"
    kind: ClassVar[str] = "namespace"

    def describe(self) -> str:
        return "GlobalWindow"

    def restore_serializer(self) -> TypeSerializer[GlobalWindow]:
        return GlobalWindowSerializer()
