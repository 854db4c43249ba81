"""Labels: the snapshots in a state's metadata, before and after a migration."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import attrs

from ..serializers.containers.wrappers import LazyMigrationSnapshot
from ..serializers.snapshot import snapshot_to_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..serializers.compatibility import CompatibilityResult
    from ..serializers.snapshot import TypeSerializerConfigSnapshot
    from .description import SerializerDescription, StateDescription
    from .parts import Part


@attrs.frozen
class Labels:
    """The snapshots in a state's metadata; None for those that the kind lacks or the side does not know."""

    value: TypeSerializerConfigSnapshot[Any]
    namespace: TypeSerializerConfigSnapshot[Any] | None = None
    key: TypeSerializerConfigSnapshot[Any] | None = None

    @classmethod
    def of(cls, state: StateDescription) -> Labels:
        """Return the labels of a state on one side."""
        return cls(
            state.value.snapshot,
            state.namespace.snapshot if state.namespace else None,
            state.key.snapshot if state.key else None,
        )

    def __iter__(self) -> Iterator[TypeSerializerConfigSnapshot[Any]]:
        return (snapshot for snapshot in (self.value, self.namespace, self.key) if snapshot is not None)

    def digest(self) -> str:
        """Return the SHA-256 of the snapshots, in hexadecimal: equal digests mean equal configuration."""
        whole = hashlib.sha256()
        for snapshot in (self.value, self.namespace, self.key):
            data = snapshot_to_bytes(snapshot) if snapshot is not None else b""
            whole.update(len(data).to_bytes(4, "big") + data)
        return whole.hexdigest()


def label_after(
    result: CompatibilityResult[Any], old: SerializerDescription, new: SerializerDescription
) -> TypeSerializerConfigSnapshot[Any]:
    """Return the snapshot that describes the bytes after a migration.

    For a compatible serializer, neither bytes nor label are rewritten; reconfigured bytes get the label of the copy,
    and migrated ones the label of the new side.
    """
    return old.snapshot if result.is_compatible_as_is() else label_declared(result, new)


def label_declared(result: CompatibilityResult[Any], new: SerializerDescription) -> TypeSerializerConfigSnapshot[Any]:
    """Return the snapshot that the new side will write: of the reconfigured copy, or of its own serializer."""
    if result.is_compatible_after_reconfiguration():
        return result.reconfigured_serializer.snapshot_configuration()
    return new.snapshot


def labels_after(
    old: StateDescription,
    new: StateDescription,
    values: CompatibilityResult[Any],
    namespace: CompatibilityResult[Any] | None,
    parts: tuple[Part, ...],
) -> Labels:
    """Return the labels, after a migration, of a state that both sides have.

    Args:
        old: The stored side.
        new: The new side.
        values: The new side's answer about the values.
        namespace: The new side's answer about the namespace; None if it was not compared.
        parts: The parts of an entry; for broadcast state, the key comes first.
    """
    value = label_after(values, old.value, new.value)
    if isinstance(old.value.snapshot, LazyMigrationSnapshot) and not isinstance(value, LazyMigrationSnapshot):
        value = LazyMigrationSnapshot(value)  # Flink must not take a table for a state that nobody asks for
    labels = attrs.evolve(Labels.of(old), value=value)
    if namespace is not None and old.namespace is not None and new.namespace is not None:
        labels = attrs.evolve(labels, namespace=label_after(namespace, old.namespace, new.namespace))
    if old.key is not None and new.key is not None and parts:
        key = label_after(parts[0].result, old.key, new.key)
        if values.is_migration_required() and parts[0].is_rewritten:
            key = new.key.snapshot
        labels = attrs.evolve(labels, key=key)
    return labels
