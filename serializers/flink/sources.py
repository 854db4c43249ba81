"""What `init` writes for namespaces, and for what is always null."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .void import VoidSerializer
from .windows import (
    GlobalWindowSerializerSnapshot,
    TimeWindowSerializerSnapshot,
    VoidNamespaceSerializerSnapshot,
)

if TYPE_CHECKING:
    from ..type_source import SourceTable

SOURCES: SourceTable = {
    VoidSerializer.snapshot: VoidSerializer.row.hint,
    TimeWindowSerializerSnapshot: "TimeWindow",
    VoidNamespaceSerializerSnapshot: "VoidNamespace",
    GlobalWindowSerializerSnapshot: "GlobalWindow",
}
