"""Base of snapshots whose values this release does not read: they are parsed, described and rewritten.

Flink's snapshots have no length, so each must be parsed to find the rest of a header.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import OldReaderUnavailable
from ..snapshot import TypeSerializerConfigSnapshot

if TYPE_CHECKING:
    from ..serializer import TypeSerializer


class ValuesNotRead(TypeSerializerConfigSnapshot[Any]):
    """A snapshot that can be shown and kept, and whose values stay bytes. It must be the first base class."""

    def restore_serializer(self) -> TypeSerializer[Any]:
        raise OldReaderUnavailable(
            f"values of {self.describe()} are not read by this release",
            advice="leave the state as it is (its bytes are copied), pass a fallback deserializer, or drop it",
        )
