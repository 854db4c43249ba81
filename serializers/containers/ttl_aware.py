"""TTL-aware snapshots: Flink 2's wrapper that notes whether a state has TTL; the bytes are those of the inner snapshot.

    bool has TTL, SNAP

Source: format notes 6.1. Seen in Flink's class files, in no savepoint yet. A second wrapper of this kind is our own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from ..errors import CorruptSavepoint, OldReaderUnavailable
from ..registry import register_snapshot
from ..snapshot import TypeSerializerConfigSnapshot, read_versioned_snapshot, write_versioned_snapshot

if TYPE_CHECKING:
    from ..compatibility import CompatibilityResult
    from ..serializer import TypeSerializer
    from ..snapshot import Speller
    from ..views import DataInputView, DataOutputView


@register_snapshot
@attrs.define
class TtlAwareSerializerSnapshot(TypeSerializerConfigSnapshot[Any]):
    """Snapshot of Flink's TtlAwareSerializer.

    Attributes:
        has_ttl: Whether the inner snapshot is one of values with time stamps.
        inner: The snapshot that describes the bytes.
    """

    snapshot_id: ClassVar[str] = "org.apache.flink.runtime.state.ttl.TtlAwareSerializerSnapshot"
    kind: ClassVar[str] = "ttl_aware"

    has_ttl: bool = False
    inner: TypeSerializerConfigSnapshot[Any] | None = None

    def children(self) -> tuple[TypeSerializerConfigSnapshot[Any], ...]:
        return () if self.inner is None else (self.inner,)

    def describe(self) -> str:
        return "nothing yet" if self.inner is None else self.inner.describe()

    def spell(self, speller: Speller) -> str:
        return self.describe() if self.inner is None else speller.part(self.inner)

    def write(self, target: DataOutputView) -> None:
        target.write_boolean(self.has_ttl)
        write_versioned_snapshot(target, self._wrapped())

    def read(self, source: DataInputView) -> None:
        self.has_ttl = source.read_boolean()
        self.inner = read_versioned_snapshot(source)

    def restore_serializer(self) -> TypeSerializer[Any]:
        return self._wrapped().restore_serializer()

    def _wrapped(self) -> TypeSerializerConfigSnapshot[Any]:
        if self.inner is None:
            raise OldReaderUnavailable("a TTL-aware snapshot must be read or given an inner snapshot")
        return self.inner


@register_snapshot
@attrs.define
class LazyMigrationSnapshot(TtlAwareSerializerSnapshot):
    """Marks values that are outside of the table of their state while that is migrated lazily; Flink refuses them.

        SNAP; in version 2 then i32 length, and what code declares beyond the snapshot, as JSON in UTF-8

    Attributes:
        inner: The snapshot that describes the bytes.
        declared: Facts as JSON, by which the migration can be finished without its code; "": they are not known.
    """

    snapshot_id: ClassVar[str] = "stateshift/lazy-migration"

    has_ttl: bool = attrs.field(default=False, init=False)
    inner: TypeSerializerConfigSnapshot[Any] | None = None
    declared: str = ""

    def get_version(self) -> int:
        return 2 if self.declared else 1

    def get_compatible_versions(self) -> tuple[int, ...]:
        return (1, 2)

    def write(self, target: DataOutputView) -> None:
        write_versioned_snapshot(target, self._wrapped())
        if self.declared:
            data = self.declared.encode()
            target.write_int(len(data))
            target.write(data)

    def read(self, source: DataInputView) -> None:
        self.inner = read_versioned_snapshot(source)
        if self.get_read_version() > 1:
            start = source.position
            try:
                self.declared = source.read_fully(source.read_size("bytes of declared facts")).decode()
            except UnicodeDecodeError as error:
                raise CorruptSavepoint("declared facts are not UTF-8", offset=start) from error


def judged_within(
    serializer: TypeSerializer[Any], snapshot: TtlAwareSerializerSnapshot
) -> CompatibilityResult[Any] | None:
    """Return the serializer's result for the inner snapshot; None if there is no inner snapshot."""
    return None if snapshot.inner is None else serializer.ensure_compatibility(snapshot.inner)


def without_ttl_awareness(snapshot: TypeSerializerConfigSnapshot[Any]) -> TypeSerializerConfigSnapshot[Any]:
    """Return the snapshot that describes the bytes, which a new serializer should judge."""
    while isinstance(snapshot, TtlAwareSerializerSnapshot) and snapshot.inner is not None:
        snapshot = snapshot.inner
    return snapshot
