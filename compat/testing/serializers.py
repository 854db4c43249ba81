"""Small serializers of whole numbers, one for each answer to an upgrade, for testing the code around them.

    V1              layout one, the old one
    V2              layout two; migrates from V1, with the same values
    NeedsReconfig   accepts V1 data with a reconfigured copy; raises when used itself
    Refuses         accepts no stored data
    NeedsFallback   migrates from any serializer but itself, with a fallback; its own snapshot cannot restore it
    Unrestorable    layout one, under a snapshot that cannot restore it

Use them as parts of a composite serializer of your own, to test its answer when a part migrates, is refused, and so on.
Source: harness cases, vocabulary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from ...serializers.compatibility import CompatibilityResult, Finding, Verdict
from ...serializers.errors import CorruptSavepoint, OldReaderUnavailable
from ...serializers.registry import register_snapshot
from ...serializers.serializer import CONVERTER, KEEP_OLD_TYPE, TypeSerializer, incompatible
from ...serializers.snapshot import TypeSerializerConfigSnapshot

if TYPE_CHECKING:
    from ...serializers.views import DataInputView, DataOutputView

_SECOND_LAYOUT = 2


@register_snapshot
@attrs.define
class HarnessSnapshot(TypeSerializerConfigSnapshot[int]):
    """The snapshot of all these serializers, which it distinguishes by name."""

    snapshot_id: ClassVar[str] = "stateshift/harness"

    name: str = "V1"

    def describe(self) -> str:
        return f"{self.name} of the test harness"

    def write(self, target: DataOutputView) -> None:
        target.write_utf(self.name)

    def read(self, source: DataInputView) -> None:
        self.name = source.read_utf()
        if self.name not in _BY_NAME:
            raise CorruptSavepoint(f"the test harness has no serializer {self.name!r}")

    def restore_serializer(self) -> TypeSerializer[int]:
        if self.name in _NOT_RESTORED:
            raise OldReaderUnavailable(f"the snapshot of {self.name} cannot restore it, which is what it is for")
        return _BY_NAME[self.name]


@attrs.frozen
class V1(TypeSerializer[int]):
    """Layout one: a long."""

    def serialize(self, value: int, target: DataOutputView) -> None:
        target.write_long(value)

    def deserialize(self, source: DataInputView) -> int:
        return source.read_long()

    def snapshot_configuration(self) -> HarnessSnapshot:
        return HarnessSnapshot("V1")


@attrs.frozen
class V2(V1):
    """Layout two: the int 2, then a long. Migrates from `V1`, with the same values."""

    def serialize(self, value: int, target: DataOutputView) -> None:
        target.write_int(_SECOND_LAYOUT)
        target.write_long(value)

    def deserialize(self, source: DataInputView) -> int:
        source.expect(_SECOND_LAYOUT, "the mark of layout two")
        return source.read_long()

    def snapshot_configuration(self) -> HarnessSnapshot:
        return HarnessSnapshot("V2")

    def ensure_compatibility(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[int]:
        if snapshot == HarnessSnapshot("V1"):
            return CompatibilityResult.requires_migration(_found(self, snapshot, Verdict.REQUIRES_MIGRATION))
        return super().ensure_compatibility(snapshot)


@attrs.frozen
class NeedsReconfig(V1):
    """Layout one. Accepts `V1` data only as a copy with `reconfigured` set; without it, reading and writing raise."""

    reconfigured: bool = False

    def serialize(self, value: int, target: DataOutputView) -> None:
        self._expect_reconfigured()
        super().serialize(value, target)

    def deserialize(self, source: DataInputView) -> int:
        self._expect_reconfigured()
        return super().deserialize(source)

    def snapshot_configuration(self) -> HarnessSnapshot:
        return HarnessSnapshot("NeedsReconfig, reconfigured" if self.reconfigured else "NeedsReconfig")

    def ensure_compatibility(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[int]:
        copy = NeedsReconfig(reconfigured=True)
        if snapshot not in (HarnessSnapshot("V1"), copy.snapshot_configuration()):
            return super().ensure_compatibility(snapshot)
        if self.reconfigured:
            return CompatibilityResult.compatible()
        finding = _found(self, snapshot, Verdict.COMPATIBLE_AFTER_RECONFIGURATION)
        return CompatibilityResult.compatible_after_reconfiguration(copy, finding)

    def _expect_reconfigured(self) -> None:
        if not self.reconfigured:
            raise AssertionError("NeedsReconfig was used, and not the copy that its answer holds")


@attrs.frozen
class Refuses(V1):
    """Layout one. Accepts no stored data, not even its own."""

    def snapshot_configuration(self) -> HarnessSnapshot:
        return HarnessSnapshot("Refuses")

    def ensure_compatibility(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[int]:
        return incompatible(self, snapshot, RULE, "it refuses everything")


@attrs.frozen
class NeedsFallback(V2):
    """Layout two. Migrates from any other serializer, with a fallback that reads layout one."""

    def snapshot_configuration(self) -> HarnessSnapshot:
        return HarnessSnapshot("NeedsFallback")

    def ensure_compatibility(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[int]:
        if snapshot == self.snapshot_configuration():
            return CompatibilityResult.compatible()
        finding = _found(self, snapshot, Verdict.REQUIRES_MIGRATION_WITH_FALLBACK)
        return CompatibilityResult.requires_migration(finding, fallback=V1())


@attrs.frozen
class Unrestorable(V1):
    """Layout one, under a snapshot that cannot restore it, so that only a fallback can read stored data."""

    def snapshot_configuration(self) -> HarnessSnapshot:
        return HarnessSnapshot("Unrestorable")


RULE = "HARNESS"
"""The rule id in the findings of these serializers; it is not in the rule book."""

_NOT_RESTORED: dict[str, TypeSerializer[int]] = {"NeedsFallback": NeedsFallback(), "Unrestorable": Unrestorable()}
_BY_NAME: dict[str, TypeSerializer[int]] = {
    "V1": V1(),
    "V2": V2(),
    "NeedsReconfig": NeedsReconfig(),
    "NeedsReconfig, reconfigured": NeedsReconfig(reconfigured=True),
    "Refuses": Refuses(),
    **_NOT_RESTORED,
}


def _found(new: TypeSerializer[int], snapshot: TypeSerializerConfigSnapshot[Any], verdict: Verdict) -> Finding:
    """Return the single finding of an answer."""
    reason = f"{type(new).__name__} answers so"
    return Finding("$", RULE, verdict, snapshot.describe(), new.describe(), reason, (KEEP_OLD_TYPE, CONVERTER))
