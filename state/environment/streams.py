"""Streams, by PyFlink's names: what a program declares. Nothing runs before `execute`.

Elements are handed on as they are. Where a stream has a type (`output_type`, `type_info`), an element goes on as it is
after it was written and read by that type, so a value that does not fit is found there. Without a type it may be
anything, and state and keys are pickles, as in PyFlink.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Self

import attrs

from ...serializers.errors import DeclarationError, shown
from ...serializers.hints import serializer_for
from ...serializers.pickled.serializers import PickleSerializer
from ...serializers.primitives.abilities import Int8
from ...serializers.rows.values import Row
from ..runtime.files import FileSink
from ..runtime.functions import (
    FilterFunction,
    FlatMapFunction,
    MapFunction,
    SinkFunction,
)
from ..runtime.windows.assigners import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from ..runtime.windows.functions import (
    AllWindowApply,
    AllWindowFunction,
    AllWindowProcess,
    ProcessAllWindowFunction,
)
from ..runtime.windows.windowed_stream import WindowedStream as Windows
from .files import FileWriter
from .functions import Accumulate, KeyedReduce, Print, function_of
from .graph import Edge, Partition, Transformation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import timedelta

    from ..runtime.descriptors import MapStateDescriptor
    from ..runtime.functions import AggregateFunction, Function
    from ..runtime.output_tag import OutputTag
    from ..runtime.watermarks import WatermarkStrategy
    from ..runtime.windows.assigners import WindowAssigner
    from ..runtime.windows.triggers import Trigger
    from ..runtime.windows.windowed_stream import WindowOperation
    from .environment import StreamExecutionEnvironment

ANY: Any = PickleSerializer(object)
"""The type of what has no type."""


def type_of(given: Any) -> Any:
    """Return the type that is meant: a list is that of a row's columns, as in PyFlink; None: there is none.

    Raises:
        DeclarationError: It is no type.
    """
    for one in given if isinstance(given, list) else () if given is None else (given,):
        serializer_for(one)  # so the error is where the type is written
    return Row[tuple(one | None for one in given)] if isinstance(given, list) else given  # type: ignore[misc]


class DataStreamSink:
    """The end of a stream.

    Args:
        transformation: The sink.
    """

    def __init__(self, transformation: Transformation) -> None:
        self._transformation = transformation

    def name(self, name: str) -> Self:
        """Name the operator, for errors about one without a uid."""
        self._transformation.name = name
        return self

    def uid(self, uid: str) -> Self:
        """Say by what the state of the operator is found again, in savepoints."""
        self._transformation.uid = uid
        return self

    def set_parallelism(self, parallelism: int) -> Self:
        """Set the number of subtasks."""
        self._transformation.parallelism = parallelism
        return self

    def set_description(self, description: str) -> Self:
        """Do nothing: there is no page of the job that would show it."""
        return self


class DataStream:
    """Elements without keys.

    Args:
        env: The environment.
        edges: Where the elements come from.
        element_type: The type hint or serializer of the elements; None: they have no type.
    """

    def __init__(self, env: StreamExecutionEnvironment, edges: tuple[Edge, ...], element_type: Any = None) -> None:
        self._env, self._edges, self._type = env, edges, element_type

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """Return the environment."""
        return self._env

    def get_type(self) -> Any:
        """Return the type hint or serializer of the elements; without a type, that of pickles."""
        return ANY if self._type is None else self._type

    # The operator that the elements come from

    @property
    def _own(self) -> Transformation:
        edge, *others = self._edges
        if others or type(self) is not DataStream or edge.partition is not Partition.FORWARD or edge.tag is not None:
            raise DeclarationError(
                "this stream is no operator of its own, so it has no name, uid or parallelism",
                advice="set them at the operator before or behind it",
            )
        return edge.origin

    def name(self, name: str) -> Self:
        """Name the operator, for errors about one without a uid.

        Raises:
            DeclarationError: The stream is no operator of its own, such as a union.
        """
        self._own.name = name
        return self

    def get_name(self) -> str:
        """Return the name of the operator; raises as `name`."""
        return self._own.name

    def uid(self, uid: str) -> Self:
        """Say by what the state of the operator is found again, in savepoints; raises as `name`."""
        self._own.uid = uid
        return self

    def set_parallelism(self, parallelism: int) -> Self:
        """Set the number of subtasks of the operator; raises as `name`."""
        self._own.parallelism = parallelism
        return self

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Set the number of key groups of the operator; raises as `name`."""
        self._own.max_parallelism = max_parallelism
        return self

    def force_non_parallel(self) -> Self:
        """Have one subtask; raises as `name`."""
        return self.set_parallelism(1)

    def set_description(self, description: str) -> Self:
        """Do nothing: there is no page of the job that would show it."""
        return self

    def start_new_chain(self) -> Self:
        """Do nothing: operators are not chained."""
        return self

    def disable_chaining(self) -> Self:
        """Do nothing: operators are not chained."""
        return self

    def slot_sharing_group(self, slot_sharing_group: Any) -> Self:
        """Do nothing: there is one process."""
        return self

    def set_buffer_timeout(self, timeout_millis: int) -> Self:
        """Do nothing: there are no buffers."""
        return self

    # Operators

    def _then(self, body: Any, name: str, output_type: Any = None, **facts: Any) -> DataStream:
        made = Transformation(body, name, (self._edges,), output_type=type_of(output_type), **facts)
        return self._env.added(made)

    def map(self, func: Callable[[Any], Any] | MapFunction, output_type: Any = None) -> DataStream:
        """Make one element of each.

        Args:
            func: A plain function or a `MapFunction`.
            output_type: The type of the results; None: they have none.

        Raises:
            DeclarationError: The function is another one.
        """
        return self._then(function_of(MapFunction, func), "Map", output_type, **self._keys)

    def flat_map(self, func: Callable[[Any], Any] | FlatMapFunction, output_type: Any = None) -> DataStream:
        """Make any number of elements of each; arguments and errors as of `map`."""
        return self._then(function_of(FlatMapFunction, func), "Flat Map", output_type, **self._keys)

    def filter(self, func: Callable[[Any], Any] | FilterFunction) -> DataStream:
        """Keep some elements, which a plain function or a `FilterFunction` chooses; raises as `map`."""
        made = self._then(function_of(FilterFunction, func), "Filter", **self._keys)
        return DataStream(self._env, made._edges, self._type)  # noqa: SLF001 - as they were

    def process(self, func: Function, output_type: Any = None) -> DataStream:
        """Process elements by a `ProcessFunction`; a keyed stream by a `KeyedProcessFunction`.

        Args:
            func: The function.
            output_type: The type of the results; None: they have none.
        """
        return self._then(func, "Process", output_type, **self._keys)

    @property
    def _keys(self) -> dict[str, Any]:
        """What makes an operator of this stream keyed."""
        return {}

    def key_by(self, key_selector: Callable[[Any], Any], key_type: Any = None) -> KeyedStream:
        """Return the same elements with keys.

        Args:
            key_selector: Returns the key of an element: a plain function or a `KeySelector`.
            key_type: The type of the keys; None: any value, as a pickle. Equal values may have different pickles, so
                a type is better.
        """
        if not callable(key_selector):
            raise DeclarationError(f"{shown(key_selector)} is no function that returns keys")
        edges = tuple(attrs.evolve(edge, partition=Partition.KEYED, selector=key_selector) for edge in self._edges)
        values = DataStream(self._env, self._edges, self._type)
        return KeyedStream(self._env, edges, self._type, type_of(key_type), values)

    def _values(self) -> DataStream:
        """Return the elements without keys."""
        return self

    def union(self, *streams: DataStream) -> DataStream:
        """Return the elements of several streams as one.

        Raises:
            DeclarationError: Streams have elements of different types, which Flink refuses, too.
        """
        every = [one._values() for one in (self, *streams)]  # noqa: SLF001 - its own class
        types = {id(one._type): one._type for one in every}  # noqa: SLF001
        texts = {serializer_for(one).describe() for one in types.values() if one is not None}
        if len(texts) > 1:
            raise DeclarationError(f"a union of different types: {', '.join(sorted(texts))}", advice="map them to one")
        return DataStream(
            self._env,
            tuple(edge for one in every for edge in one._edges),  # noqa: SLF001
            self._type if all(one == self._type for one in types.values()) else None,
        )

    def connect(self, ds: DataStream | BroadcastStream) -> Any:
        """Return this stream beside another one, for functions of two inputs: `ConnectedStreams`.

        With a broadcast stream: `BroadcastConnectedStream`.
        """
        return BroadcastConnectedStream(self, ds) if isinstance(ds, BroadcastStream) else ConnectedStreams(self, ds)

    def window_all(self, window_assigner: WindowAssigner[Any, Any]) -> AllWindowedStream:
        """Put all elements into windows, in one subtask."""
        keyed = self._values().key_by(_no_key, Int8)
        return AllWindowedStream(keyed, Windows(window_assigner, self.get_type()))

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> DataStream:
        """Assign timestamps to elements, and generate watermarks from them."""
        made = self._values()._then(watermark_strategy, "Timestamps/Watermarks")  # noqa: SLF001 - its own class
        return DataStream(self._env, made._edges, self._type)  # noqa: SLF001

    def get_side_output(self, output_tag: OutputTag) -> DataStream:
        """Return a side output of the operator; raises as `name`."""
        return DataStream(self._env, (Edge(self._own, output_tag),), output_tag.type_info)

    # Ways to the next operator

    def _by(self, partition: Partition, **facts: Any) -> DataStream:
        edges = tuple(attrs.evolve(edge, partition=partition, **facts) for edge in self._values()._edges)  # noqa: SLF001
        return DataStream(self._env, edges, self._type)

    def rebalance(self) -> DataStream:
        """Deal elements out to the next subtasks, in turn."""
        return self._by(Partition.REBALANCE)

    rescale = shuffle = rebalance

    def forward(self) -> DataStream:
        """Have elements stay in the subtask of the same number."""
        return self._by(Partition.FORWARD)

    def partition_custom(
        self, partitioner: Callable[[Any, int], int], key_selector: Callable[[Any], Any]
    ) -> DataStream:
        """Have the program choose the next subtask.

        Args:
            partitioner: Called with a key and the number of subtasks; returns the number of one.
            key_selector: Returns the key of an element.
        """
        return self._by(Partition.CUSTOM, partitioner=partitioner, selector=key_selector)

    def broadcast(self, *broadcast_state_descriptors: MapStateDescriptor[Any, Any]) -> Any:
        """Have each element go to all subtasks of the next operator.

        Args:
            broadcast_state_descriptors: Broadcast states that are kept of the elements; with some, the result is a
                `BroadcastStream`, to be connected with another one.
        """
        stream = self._by(Partition.BROADCAST)
        return BroadcastStream(stream, broadcast_state_descriptors) if broadcast_state_descriptors else stream

    def project(self, *field_indexes: int) -> DataStream:
        """Return tuples of some fields of each element."""
        return self.map(lambda value: tuple(value[index] for index in field_indexes))

    # Ends

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Print each element; the text is Flink's where the stream has a type, else Python's.

        Args:
            sink_identifier: What stands before it.
        """
        return self._sink(Print(sink_identifier or "", is_typed=self._type is not None), "Print to Std. Out")

    def add_sink(self, sink_func: SinkFunction | Callable[[Any], Any]) -> DataStreamSink:
        """Hand all elements to a `SinkFunction`, or to a plain function, which PyFlink does not take."""
        return self._sink(function_of(SinkFunction, sink_func), "Sink")

    def sink_to(self, sink: FileSink | SinkFunction | Callable[[Any], Any]) -> DataStreamSink:
        """Write all elements into files; or as `add_sink`.

        Raises:
            DeclarationError: The files are not on this machine.
        """
        if isinstance(sink, FileSink):
            return self._sink(FileWriter(sink, is_typed=self._type is not None), "File Sink")
        return self.add_sink(sink)

    def _sink(self, body: Any, name: str) -> DataStreamSink:
        return DataStreamSink(self._values()._then(body, name)._own)  # noqa: SLF001 - its own class

    def execute_and_collect(self, job_execution_name: str | None = None, limit: int | None = None) -> Any:
        """Run the program, and return the elements of this stream.

        Args:
            job_execution_name: The name of the job.
            limit: How many are wanted: the run ends with them, and they are returned as a list. None: all, as an
                iterator, which is to be closed in PyFlink, and may be here.
        """
        found: list[Any] = []

        def collect(value: Any) -> None:
            if limit is None or len(found) < limit:
                found.append(value)

        self._sink(function_of(SinkFunction, collect), "Collect").set_parallelism(1)
        self._env.run(lambda: limit is not None and len(found) >= limit)
        return found if limit is not None else CloseableIterator(iter(found))


def _no_key(_: Any) -> int:
    return 0


class CloseableIterator:
    """The results of a run.

    Args:
        results: The results.
    """

    def __init__(self, results: Iterator[Any]) -> None:
        self._results = results

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return next(self._results)

    next = __next__

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Have no further results."""
        self._results = iter(())


class KeyedStream(DataStream):
    """Elements with keys.

    Args:
        env: As for `DataStream`.
        edges: As for `DataStream`.
        element_type: As for `DataStream`.
        key_type: The type hint or serializer of the keys; None: they have none.
        values: The same without keys.
    """

    def __init__(
        self,
        env: StreamExecutionEnvironment,
        edges: tuple[Edge, ...],
        element_type: Any,
        key_type: Any,
        values: DataStream,
    ) -> None:
        super().__init__(env, edges, element_type)
        self._key_type, self._without_keys = ANY if key_type is None else key_type, values

    @property
    def _keys(self) -> dict[str, Any]:
        return {"key_type": self._key_type}

    def _values(self) -> DataStream:
        return self._without_keys

    def key_by(self, key_selector: Callable[[Any], Any], key_type: Any = None) -> KeyedStream:
        return self._without_keys.key_by(key_selector, key_type)

    def reduce(self, func: Callable[[Any, Any], Any]) -> DataStream:
        """Combine the elements of a key; with each of them the result so far goes on, in batch mode one at the end.

        Args:
            func: (element, element) -> element: a plain function or a `ReduceFunction`.
        """
        if not callable(func):
            raise DeclarationError(f"{shown(func)} is no function of two elements")
        body = KeyedReduce(func, self.get_type(), at_end=self._env.is_batch)
        made = self._then(body, "Reduce", keeps_any=self._type is None, **self._keys)
        return DataStream(self._env, made._edges, self._type)  # noqa: SLF001 - its own class

    def sum(self, position_to_sum: int | str = 0) -> DataStream:
        """Add up a field, by its number or name; the other fields are those of the key's first element."""
        return self.reduce(Accumulate(position_to_sum, operator.add))

    def min(self, position_to_min: int | str = 0) -> DataStream:
        """Find the least value of a field; the other fields are those of the key's first element."""
        return self.reduce(Accumulate(position_to_min, min))

    def max(self, position_to_max: int | str = 0) -> DataStream:
        """Find the largest value of a field; the other fields are those of the key's first element."""
        return self.reduce(Accumulate(position_to_max, max))

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream:
        """Find the element with the least value of a field; the first one of several."""
        return self.reduce(Accumulate(position_to_min_by, min, is_whole=True))

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream:
        """Find the element with the largest value of a field; the first one of several."""
        return self.reduce(Accumulate(position_to_max_by, max, is_whole=True))

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> WindowedStream:
        """Put the elements of each key into windows."""
        return WindowedStream(self, Windows(window_assigner, self.get_type()))

    def count_window(self, size: int, slide: int = 0) -> WindowedStream:
        """Put the elements of each key into windows of a number of elements.

        Args:
            size: The number of elements of a window.
            slide: After how many elements the next window begins; 0: when the one before is full.
        """
        return self.window(CountSlidingWindowAssigner(size, slide) if slide else CountTumblingWindowAssigner(size))


@attrs.frozen
class WindowedStream:
    """Windows of a keyed stream; the last four methods say what becomes of their contents.

    Args:
        keyed: The stream.
        windows: The windows.
    """

    _keyed: KeyedStream
    _windows: Windows

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """Return the environment."""
        return self._keyed.get_execution_environment()

    def get_input_type(self) -> Any:
        """Return the type hint or serializer of the elements."""
        return self._keyed.get_type()

    def trigger(self, trigger: Trigger[Any, Any]) -> Self:
        """Return the same with another trigger than the assigner's default."""
        return attrs.evolve(self, windows=self._windows.trigger(trigger))

    def allowed_lateness(self, time_ms: int | timedelta) -> Self:
        """Return the same where windows of event time still take elements for a while; see `allowed_lateness` there."""
        return attrs.evolve(self, windows=self._windows.allowed_lateness(time_ms))

    def side_output_late_data(self, output_tag: OutputTag) -> Self:
        """Return the same where elements that are too late go to a side output. Without it they are dropped."""
        return attrs.evolve(self, windows=self._windows.side_output_late_data(output_tag))

    def reduce(self, reduce_function: Any, window_function: Any = None, output_type: Any = None) -> DataStream:
        """Reduce the elements of a window as they come.

        Args:
            reduce_function: (element, element) -> element, a plain function or a `ReduceFunction`.
            window_function: Makes the results of the reduced element; None: that is the result.
            output_type: The type of the results; None: they have none, or that of the elements.

        Raises:
            DeclarationError: The functions are of another kind, or windows merge and the trigger cannot.
        """
        typed = self._keyed._type if window_function is None and output_type is None else output_type  # noqa: SLF001
        return self._made(self._windows.reduce(reduce_function, self._function(window_function)), typed)

    def aggregate(
        self,
        aggregate_function: AggregateFunction[Any, Any, Any],
        window_function: Any = None,
        accumulator_type: Any = None,
        output_type: Any = None,
    ) -> DataStream:
        """Add the elements of a window to an accumulator as they come; raises as `reduce`.

        Args:
            aggregate_function: Makes the accumulator and its result.
            window_function: Makes the results of that; None: that is the result.
            accumulator_type: The type of the accumulator; None: any value, as a pickle.
            output_type: The type of the results; None: they have none.
        """
        function = self._function(window_function)
        accumulator = ANY if accumulator_type is None else type_of(accumulator_type)
        return self._made(self._windows.aggregate(aggregate_function, function, accumulator), output_type)

    def apply(self, window_function: Any, output_type: Any = None) -> DataStream:
        """Keep the elements of a window, and call a `WindowFunction` with all of them; raises as `reduce`."""
        return self._made(self._windows.apply(self._function(window_function)), output_type)

    def process(self, process_window_function: Any, output_type: Any = None) -> DataStream:
        """Keep the elements of a window, and call a `ProcessWindowFunction` with all of them; raises as `reduce`."""
        return self._made(self._windows.process(self._function(process_window_function)), output_type)

    def _function(self, given: Any) -> Any:
        return given

    def _made(self, operation: WindowOperation, output_type: Any) -> DataStream:
        keyed = self._keyed
        facts = {"keeps_any": keyed._type is None, **keyed._keys}  # noqa: SLF001 - its own module
        return keyed._then(operation, "Window", output_type, **facts)  # noqa: SLF001


@attrs.frozen
class AllWindowedStream(WindowedStream):
    """Windows of a stream without keys, in one subtask. Its functions are those of all windows, without a key.

    Args:
        keyed: The stream, with one key.
        windows: The windows.
    """

    def _function(self, given: Any) -> Any:
        if isinstance(given, AllWindowFunction):
            return AllWindowApply(given)
        return AllWindowProcess(given) if isinstance(given, ProcessAllWindowFunction) else given

    def _made(self, operation: WindowOperation, output_type: Any) -> DataStream:
        return super()._made(operation, output_type).force_non_parallel()


@attrs.frozen
class BroadcastStream:
    """A stream whose elements go to all subtasks of an operator, which keeps broadcast state of them.

    Attributes:
        stream: The elements.
        descriptors: The broadcast states.
    """

    stream: DataStream
    descriptors: tuple[MapStateDescriptor[Any, Any], ...]


class ConnectedStreams:
    """Two streams, for functions of two inputs.

    Args:
        stream1: The first one.
        stream2: The second one; both have keys of one type, or neither has.
    """

    def __init__(self, stream1: DataStream, stream2: DataStream) -> None:
        self.stream1, self.stream2 = stream1, stream2

    def key_by(
        self, key_selector1: Callable[[Any], Any], key_selector2: Callable[[Any], Any], key_type: Any = None
    ) -> ConnectedStreams:
        """Return the same streams with keys.

        Args:
            key_selector1: Returns the key of an element of the first stream.
            key_selector2: Returns the key of an element of the second stream.
            key_type: The type of the keys of both; as for `DataStream.key_by`.
        """
        keyed = self.stream1.key_by(key_selector1, key_type), self.stream2.key_by(key_selector2, key_type)
        return ConnectedStreams(*keyed)

    def map(self, func: Function, output_type: Any = None) -> DataStream:
        """Make one element of each, by a `CoMapFunction`."""
        return self._then(func, "Co-Map", output_type)

    def flat_map(self, func: Function, output_type: Any = None) -> DataStream:
        """Make any number of elements of each, by a `CoFlatMapFunction`."""
        return self._then(func, "Co-Flat Map", output_type)

    def process(self, func: Function, output_type: Any = None) -> DataStream:
        """Process elements by a `CoProcessFunction`; streams with keys by a `KeyedCoProcessFunction`."""
        return self._then(func, "Co-Process", output_type)

    def _then(self, func: Function, name: str, output_type: Any) -> DataStream:
        return _connected(self.stream1, self.stream2, func, name, output_type, of_both=True)


class BroadcastConnectedStream:
    """A stream beside a broadcast stream.

    Args:
        stream: The stream, with keys or without.
        broadcast: The broadcast stream.
    """

    def __init__(self, stream: DataStream, broadcast: BroadcastStream) -> None:
        self.non_broadcast_stream, self.broadcast_stream = stream, broadcast

    def process(self, func: Function, output_type: Any = None) -> DataStream:
        """Process elements by a `BroadcastProcessFunction`; a stream with keys by a `KeyedBroadcastProcessFunction`."""
        inputs = self.non_broadcast_stream, self.broadcast_stream.stream
        return _connected(*inputs, func, "Co-Process-Broadcast", output_type, of_both=False)


def _connected(
    first: DataStream, second: DataStream, func: Function, name: str, output_type: Any, *, of_both: bool
) -> DataStream:
    keys = first._keys  # noqa: SLF001 - its own module
    if of_both and bool(keys) != bool(second._keys):  # noqa: SLF001
        raise DeclarationError("one of two connected streams has keys", advice="key both, or none of them")
    if of_both and keys and serializer_for(keys["key_type"]) != serializer_for(second._keys["key_type"]):  # noqa: SLF001
        raise DeclarationError("two connected streams have keys of different types", advice="give both key_type=…")
    inputs = first._edges, second._edges  # noqa: SLF001
    made = Transformation(func, name, inputs, output_type=type_of(output_type), **keys)
    return first.get_execution_environment().added(made)
