"""What is stored of a query: its epoch, the committed state of its slots and sources, its settings."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.errors import CorruptFile, DeclarationError
from ...state.directory.directory import lacks_slots
from ...state.directory.manifest import Manifest
from ...state.directory.source_offsets import planned_offsets
from ...state.formats.spark.commit_log import last_committed, last_planned, pinned_settings
from ...state.formats.spark.manifests import VARIABLE
from ...state.savepoint.reader import Savepoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import SparkSession

    from ...state.directory.directory import Epoch, StateDirectory
    from ...state.directory.source_offsets import SourceOffset
    from ...state.storage.files import Folder


@attrs.frozen(slots=False)
class Stored:
    """What is stored of a query. Nothing is read before it is asked for.

    Attributes:
        spark: The session.
        checkpoint: The checkpoint.
        directory: The state directory.
    """

    spark: SparkSession
    checkpoint: Folder
    directory: StateDirectory

    @cached_property
    def epoch(self) -> Epoch | None:
        """The last epoch; None: the query is new."""
        return self.directory.last_epoch

    @cached_property
    def batch(self) -> int | None:
        """The last committed batch; None: there is none."""
        return last_committed(self.checkpoint)

    @cached_property
    def planned(self) -> int | None:
        """The last planned batch; None: there is none."""
        return last_planned(self.checkpoint)

    @property
    def pinned(self) -> dict[str, str]:
        """The settings of Spark that stay those of the first start."""
        return {} if self.planned is None else pinned_settings(self.checkpoint, self.planned)

    @cached_property
    def _offsets(self) -> list[SourceOffset]:
        # A source has its state from the last planned batch on: Spark repeats that batch, and then asks for more.
        return [] if self.planned is None else planned_offsets(self.checkpoint, self.planned)

    @property
    def sources(self) -> list[Manifest]:
        """The manifests of the sources."""
        return [one.manifest for one in self._offsets if one.manifest is not None]

    @property
    def is_new(self) -> bool:
        """Whether there is no state to go on from."""
        return self.epoch is None or (self.batch is None and not self.epoch.base and not self.sources)

    @cached_property
    def manifests(self) -> list[Manifest]:
        """The committed manifests of all slots."""
        if self.batch is None or self.epoch is None or not self.epoch.carriers:
            return []
        return committed_manifests(self.spark, self.checkpoint, self.directory)

    @cached_property
    def state_epoch(self) -> Epoch:
        """The epoch of the state; if no batch was committed in the last epoch, it is an earlier one."""
        written = max((manifest.epoch for manifest in self.manifests), default=0)
        found = (self.directory.epoch(written) if written else self.directory.unchanged_epoch) or self.epoch
        assert found is not None  # noqa: S101 - the caller asks what is stored of a query that is not new
        return found

    @cached_property
    def ran(self) -> dict[bytes, set[int]]:
        """The slots that have run in that epoch, by the id of their operator."""
        found: dict[bytes, set[int]] = {}
        for manifest in self.manifests:
            if manifest.epoch == self.state_epoch.number:
                found.setdefault(manifest.operator.operator_id, set()).add(manifest.slot)
        return found

    @property
    def all_ran(self) -> bool:
        """Whether all slots have run in that epoch, or none."""
        return not lacks_slots(self.ran, self.state_epoch)

    @property
    def attempts(self) -> tuple[str, ...]:
        """The attempts whose manifests Spark has committed."""
        return tuple(manifest.attempt for manifest in self.manifests)

    @property
    def wake_ms(self) -> int | None:
        """When the first slot is to run even without rows; None: never."""
        return min((one.wake_ms for one in self.manifests if one.wake_ms is not None), default=None)

    def savepoint(self, *, for_types: bool = False) -> Savepoint:
        """Return the state after the last committed batch; see `StateDirectory.savepoint`."""
        after = -1 if self.batch is None else self.batch
        return Savepoint.of(
            self.directory.savepoint(self.manifests, self.state_epoch, after, self.sources, for_types=for_types)
        )

    def require_sources(self, uids: Iterable[str]) -> None:
        """Refuse other sources than those whose offsets the checkpoint has."""
        if self.planned is not None and {one.uid for one in self._offsets} != set(uids):
            raise DeclarationError.before_writing(
                f"the checkpoint {self.checkpoint} has offsets of {_named(one.uid for one in self._offsets)}, and the"
                f" job has {_named(uids)}",
                advice="keep the sources of the query, and their order; or start a new query from a savepoint",
            )

    def require_operators(self, carriers: dict[str, str], *, renamed: bool) -> None:
        """Refuse other operators, or another order of them: Spark finds their state by their numbers in the query.

        Args:
            carriers: How Spark calls each operator of the query, in their order.
            renamed: Whether uids may be others, because the options rename some.
        """
        before = {} if self.epoch is None else self.epoch.carriers
        was_in, is_in = list(before), list(carriers)
        if len(was_in) != len(is_in) or (was_in != is_in and not renamed):
            raise DeclarationError.before_writing(
                f"the checkpoint has the state of the operators {', '.join(was_in)}, in this order, and the query has"
                f" {', '.join(is_in)}",
                advice="put the same operators in the same order, with the uids that they had (to rename one, pass"
                ' on_incompatible="migrate", options=MigrationOptions(edits=parse_edits(rename_uids=["OLD=NEW"])));'
                " or start a new query from a savepoint",
            )
        for uid, carrier in carriers.items():
            was = before.get(uid, carrier)
            if was != carrier:
                raise DeclarationError.before_writing(
                    f"the operator {uid!r} ran with the carrier {was!r}, and its checkpoint has the state of that",
                    advice="create the job without a carrier; or start a new query from a savepoint",
                )


def _named(uids: Iterable[str]) -> str:
    """Return how a message names sources."""
    return ", ".join(f"the source {uid!r}" for uid in sorted(uids)) or "no source function"


_IN_PANDAS = "applyInPandasWithState"


def committed_manifests(spark: SparkSession, checkpoint: Folder, directory: StateDirectory) -> list[Manifest]:
    """Return the manifests of all slots after the last committed batch, as far as they belong to a state directory.

    Args:
        spark: The session.
        checkpoint: Spark's checkpoint, which has a committed batch.
        directory: The state directory.

    Raises:
        CorruptFile: The checkpoint has no operator of ours.
    """
    columns = "operatorId", "operatorName", "operatorProperties"
    operators = spark.read.format("state-metadata").load(checkpoint.place).select(*columns).distinct().collect()
    ours = [(number, name) for number, name, facts in operators if name == _IN_PANDAS or VARIABLE in (facts or "")]
    if not ours:
        raise CorruptFile.before_writing(
            f"the checkpoint {checkpoint.place} has committed batches, but no operator of this package",
            advice="pass the checkpoint of the query",
        )
    found = []
    for number, name in sorted(ours):
        for data in _stored(spark, checkpoint.place, number, in_pandas=name == _IN_PANDAS):
            manifest = Manifest.from_bytes(data)
            if manifest.directory == directory.id:
                found.append(manifest)
    return found


def _stored(spark: SparkSession, place: str, number: int, *, in_pandas: bool) -> Iterator[bytes]:
    reader = spark.read.format("statestore").option("operatorId", number)
    if not in_pandas:
        reader = reader.option("stateVarName", VARIABLE)
    for row in reader.load(place).select("value").collect():
        value: Any = row[0]
        while value is not None and not isinstance(value, bytes | bytearray):
            value = next((part for part in value if isinstance(part, bytes | bytearray | tuple)), None)
        if value is not None:
            yield bytes(value)
