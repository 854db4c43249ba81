"""Rows: the snapshot of Flink's Row. Its values are not read by this release.

    outer version 4   bool: whether the rows' bytes hold a row kind
    outer version 3   nothing: they do
    below             nothing: they do not

The snapshot holds types and order of the fields, not their names. Source: format notes 6.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from .registry import register_snapshot
from .snapshot import CompositeTypeSerializerSnapshot, TypeSerializerConfigSnapshot
from .unread import ValuesNotRead

if TYPE_CHECKING:
    from collections.abc import Collection

    from .views import DataInputView, DataOutputView

_FIRST_WITH_KIND, _FIRST_THAT_SAYS_SO = 3, 4


@register_snapshot
@attrs.define
class RowSerializerSnapshot(ValuesNotRead, CompositeTypeSerializerSnapshot[Any]):
    """Snapshot of Flink's Row.

    Attributes:
        nested: The fields, by position.
        supports_row_kind: Whether each row begins with its kind (insert, update, delete). Kept when an older version is
            written again at the current one, since it says how the stored bytes are laid out.
    """

    snapshot_id: ClassVar[str] = "org.apache.flink.api.java.typeutils.runtime.RowSerializer$RowSerializerSnapshot"
    kind: ClassVar[str] = "row"
    outer_version: ClassVar[int] = 4

    nested: tuple[TypeSerializerConfigSnapshot[Any], ...] = ()
    supports_row_kind: bool = True

    def describe(self) -> str:
        return f"row<{', '.join(field.describe() for field in self.nested)}>"

    def get_compatible_outer_versions(self) -> Collection[int]:
        return (1, 2, 3, 4)

    def write_outer_snapshot(self, target: DataOutputView) -> None:
        target.write_boolean(self.supports_row_kind)

    def read_outer_snapshot(self, read_outer_version: int, source: DataInputView) -> None:
        if read_outer_version >= _FIRST_THAT_SAYS_SO:
            self.supports_row_kind = source.read_boolean()
        else:
            self.supports_row_kind = read_outer_version >= _FIRST_WITH_KIND
