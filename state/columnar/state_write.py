"""Writing of one state from rows: settled before any row is read, encoded by tasks, and published by one process.

    write = settle(wanted, schema, target, base)
    files = [write.encode(batches, "0") …]          # anywhere, in any order; a task may run twice
    write.publish(files)                            # from then on there is a savepoint

Without a base, the savepoint has only the new state. With a base, the new savepoint has everything of the base, byte
for byte, except the one state. The base is only read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ...compat.targets import Target
from ...serializers.errors import (
    DeclarationError,
    IncompatibleState,
    StateNotFound,
    StateShiftError,
    TargetExists,
    located,
)
from ...serializers.ways_out import WayOut
from ..formats.flink.metadata import METADATA
from ..formats.flink.unchanged import SourceFiles
from ..job import DEFAULT_KEY_GROUPS, Job
from ..key_groups import key_group_range
from ..migration.estimate import require_space
from ..publication.publish import Destination, check_target, leave, prepare_target, stream_name, what_was_written
from ..publication.runs import names_of
from ..publication.source_guard import Read, refuse_by_place
from ..publication.target_lock import Claim, lay, renewed, take_over
from ..savepoint.new_streams import check_job
from ..savepoint.reader import Savepoint
from .base_merge import publish_beside
from .new_savepoint import NewSavepoint
from .row_files import packed, sorted_batches, write_row_file
from .row_sources import ResolvedSource, find_keyed_state, find_operator, resolve_columns
from .row_streams import PASS_AGGREGATE, RowCount, write_streams
from .rows import RowEncoder
from .state_types import (
    Wanted,
    added_operator,
    changed_state,
    columns_of,
    new_job,
    refuse_unscaled_keys,
    refuse_untold,
    require_all_fields,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from ...compat.description import StateDescription
    from ..publication.lineage import Lineage
    from ..savepoint.reader import SavepointOperator
    from ..storage.files import Folder, Root
    from .row_files import RowFile


@attrs.frozen(kw_only=True)
class StateWrite:
    """A settled write of one state. It is small, since each task gets a copy.

    Attributes:
        target: The folder of the new savepoint.
        operator_id: The id of the operator, 32 hexadecimal digits.
        source: The state to write, and the columns that it is written from.
        max_parallelism: The number of key groups of the operator.
        parallelism: The number of its subtasks; None to derive it from the size, or as in the base.
        restore_target: The system that is to restore the result.
        job: The job of a savepoint without a base.
        base: The location of the base, whose other state is copied, or "".
        allow_roots: The folders where files of the base may lie, as in `Savepoint.open`.
        base_files: The files of the base when the write was settled.
        copied_ids: The ids of the operators of the base.
        overwrite: Whether the entries of the state in the base are replaced.
        made: The folders that were created for the target.
    """

    target: Folder
    operator_id: str
    source: ResolvedSource
    max_parallelism: int
    parallelism: int | None
    restore_target: Target
    job: Job | None = None
    base: str = ""
    allow_roots: tuple[Root, ...] = ()
    base_files: SourceFiles | None = None
    copied_ids: tuple[str, ...] = ()
    overwrite: bool = False
    made: tuple[Folder, ...] = ()

    def prepare(self, process: int | None = None) -> StateWrite:
        """Claim the target, and remove what dead runs left in it; return the write with which to continue.

        The claim is held until the write is published or given up, as long as it is renewed.

        Args:
            process: The id of the process that holds the claim, if it is not this one.

        Raises:
            TargetExists: The target is taken, or another run is at work there; or the base is written to.
        """
        base = None if self.base_files is None else Read(self.base_files.folder, self.base_files.folders)
        claim = lay(self.target, () if base is None else (base,), process)
        try:
            take_over(claim)
            listed = prepare_target(claim, names_of([self.operator_id, *self._other_ids]))
        except BaseException:
            claim.release()
            raise
        return attrs.evolve(self, target=listed.folder, made=listed.made)

    @property
    def _other_ids(self) -> list[str]:
        job = [] if self.job is None else [operator.id for operator in self.job.operators]
        return [*job, *self.copied_ids]

    @property
    def claim(self) -> Claim:
        """The claim of this write, once it is prepared."""
        return Claim(self.target, self.made, has_list=True)

    def give_up(self) -> None:
        """Remove what was written, unless it was published or another run has taken the target over."""
        leave(self.claim)
        self.claim.release()

    def encode(self, batches: Iterable[pa.RecordBatch], task: int) -> RowFile:
        """Encode the rows of a task, and write them to a file in the target.

        Errors that another attempt would raise again (a null key, a value that does not fit) are in the result.

        Raises:
            StorageFailed: The store failed; the task may be tried again.
        """
        encoder = RowEncoder(self.source, self.max_parallelism, lambda _: tuple)
        name = stream_name(self.operator_id, "rows", task)
        return write_row_file(packed(encoder.encode(batches)), self.max_parallelism, self.target, name)

    def publish(self, files: Sequence[RowFile]) -> Lineage:
        """Write the streams of all rows, and the savepoint.

        Raises:
            ValueNotConvertible: A row does not fit; there are two rows for a key; or a key has an entry already.
            NoSpaceLeft: The target has too little free space.
            MigrationFailed: The rows written are not those encoded.
            StorageFailed: The store failed.
            TargetExists: Another run is at work in the target, or has published there.
        """
        self.claim.require()
        try:
            with renewed(self.claim):
                lineage = self._publish(files, self.claim)
        except StateShiftError as error:
            if PASS_AGGREGATE in error.ways_out:
                error.ways_out, error.advice = (), "reduce to one row for each key: groupBy, dropDuplicates"
            error.written, _ = what_was_written(Destination(self.target), None)
            raise
        leave(self.claim)
        self.claim.release()
        return lineage

    def _publish(self, files: Sequence[RowFile], claim: Claim) -> Lineage:
        for file in files:
            file.refuse()
        size = sum(file.held for file in files)
        require_space(self.target, size, self.target.free_space_bytes())
        if self.base_files is not None:
            with self.base_files.watched():
                return publish_beside(self, Savepoint.open(self.base, allow_roots=self.allow_roots), files, claim)
        assert self.job is not None  # noqa: S101 - there is a job if there is no base
        place = self.source.operator, self.source.state_id
        new = NewSavepoint(
            self.job,
            [self.source],
            self.max_parallelism,
            self.parallelism,
            self.restore_target,
            origin="rows of a DataFrame",
        )
        operators = new.operators({place[0]: size})
        rows = sorted_batches(files, self.target, self.source.state_id)
        results = list(write_streams(rows, operators, self.target))
        claim.require()
        return new.publish(self.target, operators, results, {place: sum((file.rows for file in files), RowCount())})


def settle(
    wanted: Wanted,
    schema: pa.Schema,
    target: Folder,
    base: Savepoint | None,
    *,
    max_parallelism: int | None = None,
    parallelism: int | None = None,
    restore_target: Target = Target.ANY,
) -> StateWrite:
    """Return the settled write: the state, its types and its columns. Nothing is changed.

    Args:
        wanted: The options that concern the state.
        schema: The schema of the rows.
        target: The folder of the new savepoint.
        base: The savepoint whose other state is copied, or None.
        max_parallelism: The number of key groups of a new operator; by default 128, or the maximum in the base.
        parallelism: The number of subtasks of a new operator; by default one for every 64 MiB.
        restore_target: The system that is to restore the result.

    Raises:
        TargetExists: The target is taken.
        StateNotFound: A required operator or state does not exist.
        DeclarationError: A column is missing or of the wrong type, or the kind of state is not written from rows.
        IncompatibleState: The job declares another type than the stored one; or `restore_target` is Flink, which could
            not restore the state.
        UnsupportedFormat: The stored state cannot be read.
    """
    _check_target(target, base)
    with located(operator=wanted.operator, state=wanted.state):
        if base is not None:
            write = _beside(base, wanted, schema, target, max_parallelism, parallelism, restore_target)
        else:
            job = new_job(wanted, schema)
            check_job(job, restore_target)
            place, operator = find_operator(job, wanted.operator)
            state_id, state = find_keyed_state(operator, wanted.state)
            assert operator.key is not None  # noqa: S101 - it has keyed state
            source = ResolvedSource(place, wanted.operator, state_id, state, operator.key)
            write = StateWrite(
                target=target,
                operator_id=operator.id,
                source=source,
                max_parallelism=max_parallelism or DEFAULT_KEY_GROUPS,
                parallelism=parallelism,
                restore_target=restore_target,
                job=job,
            )
        key_group_range(0, write.parallelism or 1, write.max_parallelism)
        refuse_untold(write.source.description, is_declared=wanted.job is not None)
        columns = columns_of(wanted, write.source.description, schema)
        source = resolve_columns(write.source, columns, schema)
        require_all_fields(source, schema, may_default=wanted.job is not None)
        if base is not None and (found := _operator_in(base, wanted.operator)) is not None:
            is_there = any(state.name == wanted.state for state in found.states)
            refuse_unscaled_keys(source, schema, is_there=is_there)
        return attrs.evolve(write, source=source)


def _beside(
    base: Savepoint,
    wanted: Wanted,
    schema: pa.Schema,
    target: Folder,
    max_parallelism: int | None,
    parallelism: int | None,
    restore_target: Target,
) -> StateWrite:
    """Return the write of a state into a copy of a stored savepoint."""
    found = _operator_in(base, wanted.operator)
    if found is None or (found.key is None and not found.unreadable_keyed):
        operator = added_operator(wanted, schema, found)
        check_job(Job([operator]), restore_target)
        assert operator.key is not None  # noqa: S101 - it has keyed state
        key, (state,) = operator.key, operator.describe().states
        operator_id = operator.id
    else:
        key, state = changed_state(wanted, found, schema)
        operator_id = found.operator_id
    _require_restorable(state, restore_target)
    groups = max_parallelism
    if found is not None:
        groups = found.max_parallelism
        for asked, there, what in (
            (max_parallelism, groups, "key groups"),
            (parallelism, found.parallelism, "subtasks"),
        ):
            if asked is not None and asked != there:
                raise DeclarationError(
                    f"the operator has {there:,} {what} already, but {asked:,} are requested",
                    advice=(
                        "leave the option out",
                        WayOut("change both with", command="stateshift migrate"),
                    ),
                )
    return StateWrite(
        target=target,
        operator_id=operator_id,
        source=ResolvedSource(0, wanted.operator, 0, state, key),
        max_parallelism=groups or max((one.max_parallelism for one in base.operators), default=DEFAULT_KEY_GROUPS),
        parallelism=parallelism,
        restore_target=restore_target,
        base=base.place,
        allow_roots=base.folder.roots,
        base_files=SourceFiles.of(base.folder, base.metadata),
        copied_ids=tuple(operator.operator_id for operator in base.operators),
        overwrite=wanted.overwrite,
    )


def _operator_in(base: Savepoint, name: str) -> SavepointOperator | None:
    try:
        return base.operator(name)
    except StateNotFound:
        return None


def _require_restorable(state: StateDescription, restore_target: Target) -> None:
    unknown = [part.describe() for part in state.serializers() if not part.snapshot.is_flink]
    if restore_target.is_flink and unknown:
        raise IncompatibleState(
            f"Flink cannot restore the operator: it does not know the type {unknown[0]}",
            advice='use types that Flink has: a record with @record(java_class="…"), tuples, numbers, strings',
        )


def _check_target(target: Folder, base: Savepoint | None) -> None:
    refuse_by_place(target, () if base is None else (Read.of(base.folder, base.metadata),))
    if target.exists(METADATA):
        place = base.place if base is not None and base.folder != target else target.place
        raise TargetExists.before_writing(
            f"there is a savepoint in {target.place} already, and savepoints are never changed in place",
            advice=f'write a new one, in a folder of its own: .option("base", "{place}").save("…")',
        )
    check_target(target)
