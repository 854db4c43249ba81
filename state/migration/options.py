"""What is wanted of a migration beside the new types."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ...compat.edits import Edits
from ...compat.plan import BadValues, Compression, MigrationPlan
from ...compat.policy import ACCEPT_ALL, Policy
from ...compat.targets import Target

if TYPE_CHECKING:
    from datetime import datetime

    from ...compat.repartition import Repartition

MAX_BAD_VALUES = 1000


@attrs.frozen(kw_only=True)
class MigrationOptions:
    """How state is to be migrated; by default, with as little change as the types allow.

    Attributes:
        restore_target: `Target.FLINK` refuses what Flink could not restore; one with a release (`FLINK_1_20`) also what
            that one cannot read, and gives `_metadata` the version that it writes. By default that of the source.
        edits: States to drop, states and operators to rename; see `parse_edits`.
        parallelism: Subtasks of every operator with state: keyed state is dealt out by key group, operator state as its
            mode says. By default as many as before, or more where keyed state that is rewritten is large.
        compression: Whether streams are compressed; by default those that were.
        reference_time: With a time zone: the stamp of values whose state gets a time to live, and the moment by which
            values of a state that loses it have expired (STATE-4, STATE-5). None: when the run is planned, or was begun
            if it is resumed.
        repartition: Allows keys to be written anew, with all state of their operators: with another type, or in another
            number of key groups (rule ROLE-4).
        trust_stored_serializers: Whether serializers stored beside the savepoint may be unpickled (rule READ-2).
        trust: Qualified names of pickled classes whose values may be opened; see `Savepoint.describe`.
        source_digests: Whether files of a source that has digests are held against them while they are read (RUN-3).
        policy: Flags that are an error; by default none.
        bad_values: What becomes of a value that does not fit its new type (rule RUN-4).
        max_bad_values: How many values may go to quarantine in all, at least one; with more, the run fails. Quarantine
            is for what a person will look at: where thousands of values do not fit, the new type does not.
    """

    restore_target: Target = Target.AUTO
    edits: Edits = attrs.field(factory=Edits)
    parallelism: int | None = None
    compression: Compression = Compression.KEEP
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
        """Whether something else than types is to change, so that no job is needed."""
        others = (self.parallelism, self.edits, self.restore_target.major)
        key_groups = self.repartition is not None and self.repartition.max_parallelism
        return any(others) or bool(key_groups) or self.compression is not Compression.KEEP

    def with_bad_values(self, plan: MigrationPlan) -> MigrationPlan:
        """Put into a plan what becomes of bad values."""
        if self.bad_values is BadValues.ABORT:
            return plan
        operators = [attrs.evolve(operator, max_bad_values=self.max_bad_values) for operator in plan.operators]
        return attrs.evolve(plan, operators=tuple(operators))
