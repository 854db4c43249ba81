"""Either: the snapshot of Flink's value that is one of two types. Its values are not read by this release.

Source: format notes 6.1.
"""

from __future__ import annotations

from typing import Any, ClassVar

import attrs

from .registry import register_snapshot
from .snapshot import CompositeTypeSerializerSnapshot, TypeSerializerConfigSnapshot
from .unread import ValuesNotRead


@register_snapshot
@attrs.define
class JavaEitherSerializerSnapshot(ValuesNotRead, CompositeTypeSerializerSnapshot[Any]):
    """Snapshot of Flink's Either; nested are left and right."""

    snapshot_id: ClassVar[str] = "org.apache.flink.api.java.typeutils.runtime.JavaEitherSerializerSnapshot"
    kind: ClassVar[str] = "either"
    nested_count: ClassVar[int] = 2

    nested: tuple[TypeSerializerConfigSnapshot[Any], ...] = ()

    def describe(self) -> str:
        return f"either<{', '.join(side.describe() for side in self.nested)}>"
