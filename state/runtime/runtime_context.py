"""What a function knows of its subtask, and how it gets its keyed states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from ...serializers.errors import DeclarationError, shown
from ..value_copies import handing_out
from .descriptors import (
    AggregatingStateDescriptor,
    FoldingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from .metrics import MetricGroup
from .states import AggregatingState, ListState, MapState, ReducingState, ValueState
from .time_to_live import StateTtlConfig
from .timer_service import system_clock
from .ttl_states import (
    Cleaner,
    Expiry,
    TtlAggregate,
    TtlAggregatingState,
    TtlListState,
    TtlMapState,
    TtlReduce,
    TtlReducingState,
    TtlValueState,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...serializers.serializer import K, V
    from ..backends.keyed_backend import KeyedStateBackend

D = TypeVar("D", bound=StateDescriptor)


class FoldingState(AggregatingState[Any, Any]):
    """Folding state, over a value state that has the accumulator.

    Args:
        accumulator: The value state.
        descriptor: Has the function and the accumulator of no values.
    """

    __slots__ = ("_accumulator", "_fold", "_initial")

    def __init__(self, accumulator: ValueState[Any], descriptor: FoldingStateDescriptor[Any]) -> None:
        self._accumulator = accumulator
        self._fold = descriptor.fold_function
        self._initial = handing_out(descriptor.value_serializer, descriptor.initial_value)

    def get(self) -> Any:
        return self._accumulator.value()

    def add(self, value: Any) -> None:
        if value is None:
            self.clear()
            return
        found = self._accumulator.value()
        self._accumulator.update(self._fold(self._initial() if found is None else found, value))

    def clear(self) -> None:
        self._accumulator.clear()

    def set_current_namespace(self, namespace: Any) -> None:
        self._accumulator.set_current_namespace(namespace)

    def merge_namespaces(self, target: Any, sources: Any) -> None:
        raise DeclarationError(
            "folding state cannot be merged: a fold function takes no second accumulator",
            advice="use an AggregatingStateDescriptor",
        )


class KeyedStateStore:
    """Returns the handles of keyed states.

    Args:
        backend: Has the states; None: the stream is not keyed.
        clock: Returns the processing time in milliseconds since 1970 UTC.

    Attributes:
        cleaners: What looks for expired values at every element, where a state is configured so.
    """

    def __init__(self, backend: KeyedStateBackend | None, clock: Callable[[], int] = system_clock) -> None:
        self._backend = backend
        self._clock = clock
        self._wrapped: dict[str, Any] = {}
        self._folding: dict[str, FoldingState] = {}
        self.cleaners: list[Cleaner] = []

    def get_state(self, state_descriptor: ValueStateDescriptor[V]) -> ValueState[V]:
        """Return the handle of a value state; the same one for the same name.

        Raises:
            DeclarationError: The stream is not keyed, the descriptor is of another kind, the name is taken by a state
                of another type, or the state has TTL without a `StateTtlConfig`.
        """
        wanted = self._expect(state_descriptor, ValueStateDescriptor)
        return self._handle(wanted)  # type: ignore[no-any-return]

    def get_list_state(self, state_descriptor: ListStateDescriptor[V]) -> ListState[V]:
        """Return the handle of a list state; raises as `get_state`."""
        return self._handle(self._expect(state_descriptor, ListStateDescriptor))  # type: ignore[no-any-return]

    def get_map_state(self, state_descriptor: MapStateDescriptor[K, V]) -> MapState[K, V]:
        """Return the handle of a map state; raises as `get_state`."""
        return self._handle(self._expect(state_descriptor, MapStateDescriptor))  # type: ignore[no-any-return]

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor[V]) -> ReducingState[V]:
        """Return the handle of a reducing state; raises as `get_state`, and without a function."""
        wanted = self._expect(state_descriptor, ReducingStateDescriptor)
        self._require(wanted, "reduce_function", wanted.reduce_function)
        return self._handle(wanted)  # type: ignore[no-any-return]

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor[Any]) -> AggregatingState[Any, Any]:
        """Return the handle of an aggregating state; raises as `get_state`, and without a function."""
        wanted = self._expect(state_descriptor, AggregatingStateDescriptor)
        self._require(wanted, "agg_function", wanted.agg_function)
        return self._handle(wanted)  # type: ignore[no-any-return]

    def get_folding_state(self, state_descriptor: FoldingStateDescriptor[Any]) -> AggregatingState[Any, Any]:
        """Return the handle of a folding state; raises as `get_state`."""
        wanted = self._expect(state_descriptor, FoldingStateDescriptor)
        accumulator = self._handle(wanted)
        return self._folding.setdefault(wanted.name, FoldingState(accumulator, wanted))

    def _expect(self, descriptor: Any, kind: type[D]) -> D:
        if not isinstance(descriptor, kind):
            raise DeclarationError(f"{shown(descriptor)} is not a {kind.__name__}", advice="use the method of its kind")
        return descriptor

    def _require(self, descriptor: StateDescriptor, what: str, function: object) -> None:
        if function is None:
            raise DeclarationError(
                f"the state {descriptor.name!r} has no {what}", advice=f"pass one: {type(descriptor).__name__}(name, …)"
            )

    def _handle(self, descriptor: Any) -> Any:
        if self._backend is None:
            raise DeclarationError(
                f"the state {descriptor.name!r} needs a keyed stream",
                advice="key the stream, or use operator state (CheckpointedFunction)",
            )
        if not descriptor.time_to_live:
            return self._backend.get_or_create_keyed_state(descriptor)
        if not isinstance(descriptor.time_to_live, StateTtlConfig):
            raise DeclarationError(
                f"the state {descriptor.name!r} has TTL, but not how long its values live",
                advice="pass time_to_live=StateTtlConfig.new_builder(timedelta(…)).build()",
            )
        config = descriptor.time_to_live
        expiry = Expiry(config, self._clock)
        stored = self._backend.get_or_create_keyed_state(_stamped(descriptor, expiry))
        if descriptor.name not in self._wrapped:
            self._wrapped[descriptor.name] = state = _wrapped(descriptor, stored, expiry)
            if config.get_cleanup_strategies().is_done_by_snapshots():
                self._backend.expired[descriptor.name] = expiry.is_past
            if config.get_cleanup_strategies().get_rocksdb_compact_filter_cleanup_strategy() is not None:
                self._backend.swept[descriptor.name] = expiry.is_past
            if self._backend.cleans_up_incrementally and not descriptor.namespace.length:
                self._clean_up_incrementally(descriptor.name, state, config, expiry)
        return self._wrapped[descriptor.name]

    def _clean_up_incrementally(self, name: str, state: Any, config: StateTtlConfig, expiry: Expiry) -> None:
        cleanup = config.get_cleanup_strategies().get_incremental_cleanup_strategy()
        if cleanup is None or self._backend is None:
            return
        cleaner = Cleaner(self._backend, name, state, expiry, cleanup.get_cleanup_size())
        state.clean_up_at_accesses(cleaner)
        if cleanup.run_cleanup_for_every_record():
            self.cleaners.append(cleaner)


def _stamped(descriptor: Any, expiry: Expiry) -> Any:
    """Return the descriptor for the backend, whose functions take stamped values."""
    if isinstance(descriptor, ReducingStateDescriptor):
        reduce: Any = descriptor.reduce_function
        return attrs.evolve(descriptor, reduce_function=TtlReduce(reduce, expiry))
    if isinstance(descriptor, AggregatingStateDescriptor):
        function: Any = descriptor.agg_function
        return attrs.evolve(descriptor, agg_function=TtlAggregate(function, expiry))
    if isinstance(descriptor, ValueStateDescriptor):
        return attrs.evolve(descriptor, default_value=None)
    return descriptor


def _wrapped(descriptor: Any, stored: Any, expiry: Expiry) -> Any:
    if isinstance(descriptor, ReducingStateDescriptor):
        return TtlReducingState(stored, expiry)
    if isinstance(descriptor, AggregatingStateDescriptor):
        function: Any = descriptor.agg_function
        return TtlAggregatingState(stored, expiry, function)
    if isinstance(descriptor, ListStateDescriptor):
        return TtlListState(stored, expiry)
    if isinstance(descriptor, MapStateDescriptor):
        return TtlMapState(stored, expiry)
    return TtlValueState(stored, expiry, handing_out(descriptor.value_serializer, descriptor.default_value))


@attrs.frozen(kw_only=True)
class TaskInfo:
    """The subtask that a function runs in.

    Attributes:
        name: The name of the task.
        index: The number of the subtask, from 0.
        parallelism: The number of subtasks.
        max_parallelism: The number of key groups.
        attempt: How often the subtask was started before.
        job_parameters: The global parameters of the job.
    """

    name: str = "task"
    index: int = 0
    parallelism: int = 1
    max_parallelism: int = 128
    attempt: int = 0
    job_parameters: Mapping[str, str] = attrs.field(factory=dict)


class RuntimeContext(KeyedStateStore):
    """What a function gets in `open`: its keyed states, and facts about its subtask.

    Args:
        task: The subtask.
        backend: Has the keyed states; None: the stream is not keyed.
        clock: Returns the processing time in milliseconds since 1970 UTC.
    """

    def __init__(
        self,
        task: TaskInfo,
        backend: KeyedStateBackend | None = None,
        clock: Callable[[], int] = system_clock,
    ) -> None:
        super().__init__(backend, clock)
        self._task = task
        self._metrics = MetricGroup()

    def get_task_name(self) -> str:
        """Return the name of the task."""
        return self._task.name

    def get_number_of_parallel_subtasks(self) -> int:
        """Return the parallelism."""
        return self._task.parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        """Return the number of key groups."""
        return self._task.max_parallelism

    def get_index_of_this_subtask(self) -> int:
        """Return the number of the subtask, from 0."""
        return self._task.index

    def get_attempt_number(self) -> int:
        """Return how often the subtask was started before."""
        return self._task.attempt

    def get_task_name_with_subtasks(self) -> str:
        """Return the name of the task with the number of the subtask: "task (1/2)"."""
        return f"{self._task.name} ({self._task.index + 1}/{self._task.parallelism})"

    def get_job_parameter(self, key: str, default_value: str) -> str:
        """Return a global parameter of the job, or the default where there is none."""
        return self._task.job_parameters.get(key, default_value)

    def get_metrics_group(self) -> MetricGroup:
        """Return where the function registers its metrics."""
        return self._metrics
