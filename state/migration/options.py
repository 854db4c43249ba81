"""What is wanted of a migration beside the new types."""

from __future__ import annotations

import attrs

from ...compat.edits import Edits
from ...compat.plan import Compression
from ...compat.targets import Target


@attrs.frozen(kw_only=True)
class MigrationOptions:
    """How state is to be migrated; by default, with as little change as the types allow.

    Attributes:
        restore_target: `Target.FLINK` refuses what Flink could not restore; one with a release (`FLINK_1_20`) also what
            that one cannot read, and gives `_metadata` the version that it writes. By default that of the source.
        edits: States to drop, states and operators to rename; see `state.edits.parse_edits`.
        parallelism: Subtasks of every operator with state: keyed state is dealt out by key group, operator state as its
            mode says. By default as many as before, or more where keyed state that is rewritten is large.
        compression: Whether streams are compressed; by default those that were.
        trust_stored_serializers: Whether serializers stored beside the savepoint may be unpickled (rule READ-2).
    """

    restore_target: Target = Target.ANY
    edits: Edits = attrs.field(factory=Edits)
    parallelism: int | None = None
    compression: Compression = Compression.KEEP
    trust_stored_serializers: bool = False

    @property
    def changes_without_types(self) -> bool:
        """Whether something else than types is to change, so that no job is needed."""
        others = (self.parallelism, self.edits, self.restore_target.major)
        return any(others) or self.compression is not Compression.KEEP
