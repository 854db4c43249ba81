"""What snapshots share whose values this release does not read: parsed, described, written again, and no more.

Flink's snapshots have no length, so every one of them must be parsed for the rest of a header to be found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import OldReaderUnavailable
from ..snapshot import TypeSerializerConfigSnapshot

if TYPE_CHECKING:
    from ..serializer import TypeSerializer


class ValuesNotRead(TypeSerializerConfigSnapshot[Any]):
    """A snapshot that can be shown and kept, and whose values stay bytes. Stands first among the bases."""

    def restore_serializer(self) -> TypeSerializer[Any]:
        raise OldReaderUnavailable(
            f"values of {self.describe()} are not read by this release",
            advice="leave the state as it is (its bytes are copied), pass a fallback deserializer, or drop it",
        )
