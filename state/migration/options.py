"""The options of a migration, apart from the new types."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ...compat.edits import Edits
from ...compat.plan import BadValues, Compression, MigrationPlan, SavepointFormatType
from ...compat.policy import ACCEPT_ALL, Policy
from ...compat.targets import Target

if TYPE_CHECKING:
    from datetime import datetime

    from ...compat.repartition import Repartition

MAX_BAD_VALUES = 1000


@attrs.frozen(kw_only=True)
class MigrationOptions:
    """The options of a migration; by default it changes as little as the types allow.

    Attributes:
        restore_target: The system that is to restore the result. `Target.FLINK` refuses what Flink could not restore; a
            target with a release (`FLINK_1_20`) also what that release cannot read, and writes `_metadata` in the
            version of that release. By default the target is that of the source.
        edits: The states to drop, and the states and operators to rename; see `parse_edits`.
        parallelism: The number of subtasks of every operator with state: keyed state is distributed by key group,
            operator state by its mode. By default as before, or more if rewritten keyed state is large.
        compression: Whether streams are compressed; by default as before.
        format: The format of keyed state; by default as before. Native are files of RocksDB, which only its backend
            restores, and which keep the number of subtasks unless another one is asked for.
        absolute: Whether files of RocksDB are named by absolute URIs, for a job that starts with the claim mode `CLAIM`
            (FLINK-39964); the savepoint can then not be moved.
        reference_time: A time with a time zone: the timestamp of values whose state gets a time to live, and the time
            at which expiry is checked for values of a state that loses it (STATE-4, STATE-5). None for the time of
            planning, or for a resumed run the time of its start.
        repartition: The permission to rewrite keys, with all state of their operators: with another type, or with
            another number of key groups (rule ROLE-4).
        trust_stored_serializers: Whether serializers stored beside the savepoint may be unpickled (rule READ-2).
        trust: The qualified names of pickled classes whose values may be opened; see `Savepoint.describe`.
        source_digests: Whether files of a source that has digests are checked while they are read (RUN-3).
        policy: The flags that are an error; by default none.
        bad_values: The treatment of a value that does not fit its new type (rule RUN-4).
        max_bad_values: The most values that may go to quarantine in all, at least one; with more, the run fails.
            The quarantine is for manual inspection: if thousands of values do not fit, the new type is wrong.
    """

    restore_target: Target = Target.AUTO
    edits: Edits = attrs.field(factory=Edits)
    parallelism: int | None = None
    compression: Compression = Compression.KEEP
    format: SavepointFormatType = SavepointFormatType.KEEP
    absolute: bool = False
    reference_time: datetime | None = None
    repartition: Repartition | None = None
    trust_stored_serializers: bool = False
    trust: tuple[str, ...] = ()
    source_digests: bool = True
    policy: Policy = ACCEPT_ALL
    bad_values: BadValues = BadValues.ABORT
    max_bad_values: int = attrs.field(default=MAX_BAD_VALUES, validator=attrs.validators.ge(1))

    @property
    def changes_without_types(self) -> bool:
        """Whether something other than types is to change, so that no job is needed."""
        is_reformatted = self.format is not SavepointFormatType.KEEP
        others = (self.parallelism, self.edits, self.restore_target.major, is_reformatted)
        key_groups = self.repartition is not None and self.repartition.max_parallelism
        return any(others) or bool(key_groups) or self.compression is not Compression.KEEP

    def with_bad_values(self, plan: MigrationPlan) -> MigrationPlan:
        """Return a plan with the limit of quarantined values; unchanged if bad values end the run."""
        if self.bad_values is BadValues.ABORT:
            return plan
        operators = [attrs.evolve(operator, max_bad_values=self.max_bad_values) for operator in plan.operators]
        return attrs.evolve(plan, operators=tuple(operators))
