"""A type whose snapshot restores no reader, as that of a class which is gone, and the type that takes it over.

Only with them does the fourth verdict occur: `requires_migration_with_fallback`.
"""

from __future__ import annotations

from typing import ClassVar

import attrs

from stateshift import (
    CompatibilityResult,
    Finding,
    OldReaderUnavailable,
    TypeSerializer,
    TypeSerializerConfigSnapshot,
    Verdict,
    register_snapshot,
)
from stateshift.serializers.serializer import unrelated


@attrs.frozen
class SealedSerializer(TypeSerializer):
    """An int after a mark."""

    def serialize(self, value, target):
        target.write_byte(0x5E)
        target.write_int(value)

    def deserialize(self, source):
        assert 0x5E == source.read_byte()
        return source.read_int()

    def snapshot_configuration(self):
        return SealedSnapshot()


@attrs.frozen
class OpenedSerializer(TypeSerializer):
    """An int in two bytes; it has the reader of what is sealed."""

    def serialize(self, value, target):
        target.write_short(value)

    def deserialize(self, source):
        return source.read_short()

    def snapshot_configuration(self):
        return OpenedSnapshot()

    def ensure_compatibility(self, snapshot):
        if isinstance(snapshot, SealedSnapshot):
            words = "sealed", "opened", "other bytes", ("migrate the state",)
            finding = Finding("$", "TEST-1", Verdict.REQUIRES_MIGRATION_WITH_FALLBACK, *words)
            return CompatibilityResult.requires_migration(finding, fallback=SealedSerializer())
        return CompatibilityResult.compatible() if isinstance(snapshot, OpenedSnapshot) else unrelated(self, snapshot)


class _Snapshot(TypeSerializerConfigSnapshot):
    def describe(self):
        return self.kind

    def write(self, target):
        target.write_byte(1)

    def read(self, source):
        source.read_byte()


@register_snapshot
@attrs.define
class SealedSnapshot(_Snapshot):
    snapshot_id: ClassVar[str] = "stateshift/test-sealed"
    kind: ClassVar[str] = "sealed"

    def restore_serializer(self):
        raise OldReaderUnavailable("the class of what is sealed is gone")


@register_snapshot
@attrs.define
class OpenedSnapshot(_Snapshot):
    snapshot_id: ClassVar[str] = "stateshift/test-opened"
    kind: ClassVar[str] = "opened"

    def restore_serializer(self):
        return OpenedSerializer()
