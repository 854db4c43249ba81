"""The run of a program in this process: the subtasks of all transformations, which hand elements to each other.

    source --element--> subtask --result--> subtask --> …      each call ends when all that follows from it is done

Sources are read one after the other, in the order of the program. Watermarks and the end of the input go the same way
as elements. Between two elements, at most once in a millisecond, the clock is looked at: then timers of processing time
fire, watermarks are made and checkpoints are taken.
"""

from __future__ import annotations

import tempfile
import uuid
from contextlib import ExitStack
from itertools import cycle
from time import monotonic
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.description import JobDescription
from ...compat.layouts import changes_keys
from ...compat.repartition import Repartition
from ...serializers.compatibility import Decision
from ...serializers.errors import DeclarationError, shown
from ...serializers.hints import serializer_for
from ..backends.restore import restorable, restored_facts
from ..backends.restore_check import RestoreRefused
from ..backends.snapshots import OperatorSnapshot, SubtaskSnapshot, publish_snapshot
from ..job import DEFAULT_KEY_GROUPS, Operator
from ..key_groups import check_parallelism, key_group, key_hasher, subtask_of
from ..publication.checkpoints import open_checkpoints
from ..publication.commit import Commit
from ..publication.publish import Destination, all_or_nothing, check_target
from ..publication.runs import names_of
from ..runtime.runtime_context import TaskInfo
from ..runtime.sources import SourceFunction
from ..runtime.timer_service import MAX_WATERMARK, system_clock
from ..runtime.watermarks import WatermarkStrategy
from ..savepoint.reader import Savepoint
from ..storage.files import Folder
from ..task.backends import configured_backend
from ..task.subtask import StoredOperator
from .files import Finishing
from .graph import Partition, in_order
from .stations import FunctionTask, Outputs, Rest, SourceTask, Station, Stopped, WatermarkTask, located
from .typed import passing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    from ..migration.options import MigrationOptions
    from ..publication.checkpoints import CheckpointStorage
    from ..runtime.output_tag import OutputTag
    from .graph import Edge, Transformation
    from .settings import Settings
    from .stations import Collect

    Task = FunctionTask | SourceTask

_MOST_KEYS = 100_000
"""Of how many keys an edge remembers the subtask."""
_MOST_KEY_GROUPS = 1 << 15


@attrs.frozen
class JobExecutionResult:
    """What is known of a run that is over.

    Attributes:
        job_id: The id of the job, under which its checkpoints are: 32 hexadecimal digits.
        net_runtime_ms: How long it took, in milliseconds.
        savepoint: The place of the savepoint that was taken at its end; "": none was asked for.
        checkpoint: The place of the last checkpoint that is kept, or of that on Spark; "": there is none.
        migrated: The place of the migrated savepoint that the run began from, with `on_incompatible="migrate"`; "":
            nothing was migrated.
    """

    job_id: str
    net_runtime_ms: int
    savepoint: str = ""
    checkpoint: str = ""
    migrated: str = ""

    def get_job_id(self) -> str:
        """Return the id of the job."""
        return self.job_id

    def get_net_runtime(self) -> int:
        """Return how long the job took, in milliseconds."""
        return self.net_runtime_ms


class LocalRun:
    """One run of a program.

    Args:
        last: The transformations that the program ends with.
        settings: What holds for it.
        on_incompatible: "refuse", or "migrate": a savepoint whose types have changed is migrated, beside it.
        options: The options of the check and the migration.
        is_enough: Whether no further elements are wanted.

    Raises:
        DeclarationError: The program cannot be run as it is declared.
    """

    def __init__(
        self,
        last: Iterable[Transformation],
        settings: Settings,
        on_incompatible: str,
        options: MigrationOptions,
        is_enough: Callable[[], bool],
    ) -> None:
        if on_incompatible not in {"refuse", "migrate"}:
            raise DeclarationError(f"on_incompatible is {shown(on_incompatible)}", advice="choose refuse or migrate")
        self._settings, self._migrates, self._options = settings, on_incompatible == "migrate", options
        self.job_id, self.rest = uuid.uuid4().hex, Rest(self._beat, is_enough)
        self._program = in_order(last)
        self._uids = uids_of(self._program)
        self._following: dict[Transformation, list[tuple[Transformation, int, Edge]]] = {}
        for one in self._program:
            for index, edges in enumerate(one.inputs):
                for edge in edges:
                    self._following.setdefault(edge.origin, []).append((one, index, edge))
        self._stations: dict[Transformation, list[Station]] = {}
        self._factory = configured_backend(settings.configuration)
        self._facts: dict[str, Any] = {}
        self._begun_from = ""
        self._storage: CheckpointStorage | None = None
        self._checkpoint_id = 0
        self._next_checkpoint_ms = self._next_marks_ms = 0

    def run(self, savepoint: str = "") -> JobExecutionResult:
        """Run the program to the end of its input.

        Args:
            savepoint: Where a savepoint is written when all input was read. Then event time does not end: timers and
                windows stay in the savepoint, for a program that goes on from it. "": none, and event time ends.

        Raises:
            RestoreRefused: The program cannot go on from the savepoint, or not without a migration.
            DeclarationError: The savepoint has state that the program does not have, or cannot be opened as declared.
            TargetExists: The folder of the new savepoint is not empty.
        """
        if savepoint:
            check_target(Folder.at(savepoint))  # before elements have effects
        start, now = monotonic(), system_clock()
        with ExitStack() as stack:
            stack.callback(self._close)
            self._start()
            if self._settings.checkpoint_ms is not None:
                self._next_checkpoint_ms = now + self._settings.checkpoint_ms
                self._storage = stack.enter_context(self._opened_storage(stack))
            self._next_marks_ms = now + self._settings.auto_watermark_ms
            self._read(ends_time=not savepoint)
            self.rest.end()
            if savepoint:
                self._take_savepoint(savepoint)
            elif self._storage is not None:
                self._take_checkpoint(self._storage)
            for task in self._tasks():
                if isinstance(task.function, Finishing):
                    task.function.finish()
            latest = self._storage.latest if self._storage and self._keeps_checkpoints else None
        taken = round((monotonic() - start) * 1000)
        checkpoint = "" if latest is None else latest.place
        return JobExecutionResult(self.job_id, taken, savepoint, checkpoint, self._begun_from)

    def _close(self) -> None:
        with ExitStack() as stack:
            for station in self._all_stations():
                stack.callback(station.close)
        self._stations.clear()

    def _all_stations(self) -> list[Station]:
        return [station for stations in self._stations.values() for station in stations]

    def _tasks(self) -> list[Task]:
        return [station for station in self._all_stations() if isinstance(station, FunctionTask | SourceTask)]

    # Start

    def _start(self) -> None:
        """Open all functions, from the state of a savepoint if one is configured."""
        if not self._settings.savepoint:
            self._build(None)
            return
        savepoint = Savepoint.open(self._settings.savepoint)
        refuse_unclaimed(savepoint, self._uids.values(), self._settings)
        refused = self._build(savepoint)
        if refused:
            declared = [task.declared for task in self._tasks() if task.task.index == 0]
            self._close()
            wanted = JobDescription("the program", tuple(one for job in declared if job for one in job.operators))
            savepoint = self._migrated(savepoint, wanted, refused)
            self._begun_from = savepoint.place
            for again in self._build(savepoint):
                raise again
        self._facts = restored_facts(savepoint)
        self._checkpoint_id = savepoint.metadata.checkpoint_id

    def _migrated(self, savepoint: Savepoint, wanted: JobDescription, refused: list[RestoreRefused]) -> Savepoint:
        """Return the savepoint that the program can go on from, after a migration if that is allowed."""
        options = self._options
        if options.repartition is None and changes_keys(savepoint.describe(), wanted):
            # PyFlink has its keys in rows, so a program here is refused every state before it is compared with it.
            options = attrs.evolve(options, repartition=Repartition())
        elif worst := next((one for one in refused if one.report.decision is Decision.REFUSE), None):
            raise worst
        try:
            return restorable(savepoint, wanted, migrate=self._migrates, options=options)
        except RestoreRefused as error:
            if error.report.decision is Decision.MIGRATE:
                error.advice = 'pass on_incompatible="migrate" to execute: the savepoint is migrated, beside it'
            raise

    def _build(self, savepoint: Savepoint | None) -> list[RestoreRefused]:
        """Create and open all subtasks, the last ones first; return why operators cannot go on from the savepoint."""
        refused = []
        for one in reversed(self._program):
            found = stored_operator(savepoint, self._uids[one])
            with located(one.title):
                stations = self._stations[one] = self._created(one, found)
            for number, station in enumerate(stations):
                try:
                    with located(one.title):
                        station.begin(self._outputs(one, number), () if found is None else (found,), self._options)
                except RestoreRefused as error:
                    refused.append(error)
            for following, _, edge in self._following.get(one, ()):
                targets = self._stations[following]
                for number, station in enumerate(stations):
                    of_number = [targets[number]] if _is_forward(edge, stations, targets) else targets
                    station.following += [(target, target.valve.add()) for target in of_number]
        return refused

    def _created(self, one: Transformation, found: StoredOperator | None) -> list[Station]:
        parallelism = self._settings.parallelism if one.parallelism is None else one.parallelism
        if isinstance(one.body, SourceFunction):
            parallelism = 1  # as a source that is not parallel, in Flink
        groups = self._settings.max_parallelism if one.max_parallelism is None else one.max_parallelism
        if groups is None:
            groups = _default_key_groups(parallelism) if found is None else found.stored.max_parallelism
        check_parallelism(parallelism, groups)
        stations: list[Station] = []
        for index in range(parallelism):
            task = TaskInfo(name=one.name, index=index, parallelism=parallelism, max_parallelism=groups)
            if isinstance(one.body, WatermarkStrategy):
                stations.append(WatermarkTask(one.body, one.title))
            elif isinstance(one.body, SourceFunction):
                marks = not self._settings.is_batch
                stations.append(SourceTask(one, self.rest, task, self._uids[one], marks=marks))
            else:
                stations.append(FunctionTask(one, self._factory, task, self._uids[one]))
        return stations

    def _outputs(self, one: Transformation, number: int) -> Outputs:
        """Return where the results of a subtask go."""
        found: dict[OutputTag | None, list[Collect]] = {}
        for following, index, edge in self._following.get(one, ()):
            found.setdefault(edge.tag, []).append(self._way(one, number, following, index, edge))
        typed = {tag: typed_way(one.output_type if tag is None else tag.type_info, ways) for tag, ways in found.items()}
        main = typed.pop(None, None) or typed_way(one.output_type, [])
        return Outputs(main, {tag: collect for tag, collect in typed.items() if tag is not None})

    def _way(self, one: Transformation, number: int, following: Transformation, index: int, edge: Edge) -> Collect:
        """Return what takes the elements of a subtask to those of the following transformation."""
        targets = self._stations[following]
        pushes = [target.push(index, edge) for target in targets]
        if edge.partition is Partition.BROADCAST:
            return to_all(pushes)
        if len(pushes) == 1:
            return pushes[0]
        if _is_forward(edge, self._stations[one], targets):
            return pushes[number]
        if edge.partition is Partition.KEYED:
            return _by_key(following, edge, pushes, targets)
        if edge.partition is Partition.CUSTOM:
            return _by_partitioner(following, edge, pushes)
        return _in_turn(pushes)

    # Elements

    def _read(self, *, ends_time: bool) -> None:
        """Read all sources, one after the other, in the order in which they were declared."""
        sources = [(one, task) for one, (task, *_) in self._stations.items() if isinstance(task, SourceTask)]
        for _, source in sorted(sources, key=lambda pair: pair[0].number):
            try:
                source.read()
            except Stopped:
                return
            if ends_time:
                source.hand_on(MAX_WATERMARK)
            else:
                self._make_marks()

    def _beat(self) -> None:
        now = system_clock()
        for task in self._tasks():
            if isinstance(task, FunctionTask):
                task.fire_due(now)
        if self._settings.auto_watermark_ms and now >= self._next_marks_ms:
            self._next_marks_ms = now + self._settings.auto_watermark_ms
            self._make_marks()
        if self._storage is not None and now >= self._next_checkpoint_ms:
            self._take_checkpoint(self._storage)
            self._next_checkpoint_ms = now + (self._settings.checkpoint_ms or 0)

    def _make_marks(self) -> None:
        for station in self._all_stations() if not self._settings.is_batch else ():
            if isinstance(station, WatermarkTask):
                station.make_mark(system_clock())

    # State

    @property
    def _keeps_checkpoints(self) -> bool:
        return self._settings.configuration["execution.checkpointing.dir"] is not None

    def _opened_storage(self, stack: ExitStack) -> AbstractContextManager[CheckpointStorage]:
        """Return the checkpoints of this job, in a temporary folder if none is configured."""
        root = self._settings.configuration["execution.checkpointing.dir"]
        if root is None:
            root = stack.enter_context(tempfile.TemporaryDirectory(prefix="stateshift-checkpoints-"))
        retained = self._settings.configuration["execution.checkpointing.num-retained"]
        return open_checkpoints(root, self.job_id, retained=retained)

    def _take_checkpoint(self, storage: CheckpointStorage) -> None:
        self._checkpoint_id += 1
        with storage.checkpoint(self._checkpoint_id) as folder:
            self._write(Commit(folder), is_checkpoint=True, shared=storage.shared)
        self._notify()

    def _take_savepoint(self, place: str) -> None:
        self._checkpoint_id += 1
        names = names_of([Operator.named(uid).id for uid in self._uids.values()])
        with all_or_nothing(Destination(Folder.at(place), names)) as claim:
            self._write(Commit(claim.folder), is_checkpoint=False)
        self._notify()

    def _write(self, commit: Commit, *, is_checkpoint: bool, shared: Folder | None = None) -> None:
        """Write the state of all subtasks as one snapshot."""
        operators = []
        for one in self._program:
            tasks = [station for station in self._stations[one] if isinstance(station, FunctionTask | SourceTask)]
            written = [
                task.write(self._checkpoint_id, commit, is_checkpoint=is_checkpoint, shared=shared) for task in tasks
            ]
            if any(part != SubtaskSnapshot() for part in written):
                operators.append(OperatorSnapshot(tasks[0].operator, tasks[0].task.max_parallelism, written))
        publish_snapshot(commit, operators, self._checkpoint_id, is_checkpoint=is_checkpoint, **self._facts)

    def _notify(self) -> None:
        for task in self._tasks():
            task.notify_checkpoint_complete(self._checkpoint_id)


def uids_of(program: Sequence[Transformation]) -> dict[Transformation, str]:
    """Return the uid of each transformation; of one that has none, by its place in the program.

    Raises:
        DeclarationError: Two have the same.
    """
    uids = {one: one.uid or f"{one.name}-{number}" for number, one in enumerate(program, 1)}
    names: dict[str, Transformation] = {}
    for one, uid in uids.items():
        other = names.setdefault(uid, one)
        if other is not one:
            raise DeclarationError(f"two operators have the uid {uid!r}: {other.name}, and {one.name}")
    return uids


def refuse_unclaimed(savepoint: Savepoint, uids: Iterable[str], settings: Settings) -> None:
    """Refuse state of operators that the program does not have, unless the settings allow it.

    Args:
        savepoint: What the program starts from.
        uids: The uids of its operators.
        settings: What holds for the run.

    Raises:
        DeclarationError: There is such state.
    """
    ids = {Operator.named(uid).id for uid in uids}
    lost = [one.title for one in savepoint.operators if one.operator_id not in ids and one.size_bytes]
    if lost and not settings.ignores_unclaimed:
        raise DeclarationError.before_writing(
            f"the savepoint {savepoint.place} has state of operators that the program does not have: {', '.join(lost)}",
            advice="give the operators the uid that the state was written with; or set"
            " execution.savepoint.ignore-unclaimed-state, which leaves their state behind",
        )


def stored_operator(savepoint: Savepoint | None, uid: str) -> StoredOperator | None:
    """Return the state of an operator in a savepoint; None: it has none."""
    identity = Operator.named(uid).id
    if savepoint is None or all(one.operator_id != identity for one in savepoint.operators):
        return None
    return StoredOperator.of(savepoint, identity)


def _default_key_groups(parallelism: int) -> int:
    """Return the number of key groups that Flink takes for a parallelism."""
    half_more = parallelism + parallelism // 2
    return min(max(1 << (half_more - 1).bit_length(), DEFAULT_KEY_GROUPS), _MOST_KEY_GROUPS)


def _is_forward(edge: Edge, origins: Sequence[Station], targets: Sequence[Station]) -> bool:
    return edge.partition is Partition.FORWARD and len(origins) == len(targets)


def typed_way(type_info: Any, ways: Sequence[Collect]) -> Collect:
    """Return what takes a result to all its ways; where it has a type, as it is after it was written and read."""
    collect = ways[0] if len(ways) == 1 else to_all(ways)
    if type_info is None:
        return collect
    passed = passing(type_info)
    return lambda value, timestamp: collect(passed(value), timestamp)


def to_all(ways: Sequence[Collect]) -> Collect:
    """Return what takes a result to all its ways."""

    def to_each(value: Any, timestamp: int | None) -> None:
        for way in ways:
            way(value, timestamp)

    return to_each


def _in_turn(ways: Sequence[Collect]) -> Collect:
    turns = cycle(ways)

    def in_turn(value: Any, timestamp: int | None) -> None:
        next(turns)(value, timestamp)

    return in_turn


def _by_key(following: Transformation, edge: Edge, pushes: Sequence[Collect], targets: Sequence[Station]) -> Collect:
    """Return what takes an element to the subtask that has the key group of its key."""
    groups = next(target.task.max_parallelism for target in targets if isinstance(target, FunctionTask))
    hashed, select = key_hasher(serializer_for(following.key_type)), edge.selector
    known: dict[str | int, Collect] = {}

    def by_key(value: Any, timestamp: int | None) -> None:
        key = select(value)  # type: ignore[misc]  # a keyed edge has one
        is_plain = type(key) is str or type(key) is int
        way = known.get(key) if is_plain else None
        if way is None:
            way = pushes[subtask_of(key_group(hashed(key), groups), len(pushes), groups)]
            if is_plain:
                if len(known) >= _MOST_KEYS:
                    known.clear()
                known[key] = way
        way(value, timestamp)

    return by_key


def _by_partitioner(following: Transformation, edge: Edge, pushes: Sequence[Collect]) -> Collect:
    """Return what takes an element to the subtask that the program names."""
    select, partition = edge.selector, edge.partitioner

    def by_partitioner(value: Any, timestamp: int | None) -> None:
        number = partition(select(value), len(pushes))  # type: ignore[misc]  # a custom edge has both
        if not 0 <= number < len(pushes):
            raise DeclarationError(
                f"the partitioner names subtask {number} of {following.title}, which has {len(pushes)}",
                element=shown(value),
            )
        pushes[number](value, timestamp)

    return by_partitioner
