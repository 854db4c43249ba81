"""The record fields and containers that hold nulls, which Flink's snapshots do not record.

Each family knows how to look into its values, by the table of `Ability.NULLS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from .families import Ability, families
from .snapshot import snapshot_to_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .snapshot import TypeSerializerConfigSnapshot

    Look = Callable[["StoredNulls", Any, Any], None]
    """Notes the nulls in a value of a snapshot."""
    NullTable = Mapping[type, Look]
    """The table of `Ability.NULLS`."""


@attrs.frozen
class StoredNulls:
    """The fields and containers in which a null was found.

    Attributes:
        fields: The record fields that were null at least once, as (class, field).
        containers: Maps with null values and sets with null elements, as the bytes of their snapshots.
    """

    fields: set[tuple[str, str]] = attrs.field(factory=set)
    containers: set[bytes] = attrs.field(factory=set)

    def has_field(self, record_name: str, field: str) -> bool:
        """Whether this field of a record was null at least once."""
        return (record_name, field) in self.fields

    def has_item(self, container: TypeSerializerConfigSnapshot[Any]) -> bool:
        """Whether a value of this kind of map, or an element of this kind of set, was null at least once."""
        return snapshot_to_bytes(container) in self.containers

    def add_container(self, container: TypeSerializerConfigSnapshot[Any]) -> None:
        """Note that a value of this kind of map, or an element of this kind of set, was null."""
        self.containers.add(snapshot_to_bytes(container))

    def look(self, value: Any, snapshot: TypeSerializerConfigSnapshot[Any]) -> None:
        """Find the nulls in a value, as the generic reader of its snapshot returns it."""
        look: Look | None = None if value is None else families.find(Ability.NULLS, type(snapshot))
        if look is not None:
            look(self, value, snapshot)
