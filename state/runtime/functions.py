"""The functions of a stream program, as in `pyflink.datastream.functions`.

A function that may have several results returns an iterable: it is a generator, which yields them, or it returns a
list or None. `yield tag, value` writes to a side output (see `OutputTag`). Source: runtime notes, section 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from . import contexts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .runtime_context import RuntimeContext

ACC = TypeVar("ACC")
T = TypeVar("T")
IN = TypeVar("IN")
IN1 = TypeVar("IN1")
IN2 = TypeVar("IN2")
KEY = TypeVar("KEY")
OUT = TypeVar("OUT")


class Function(ABC):  # noqa: B024 - as in PyFlink, where both methods are optional
    """The base class of functions."""

    def open(self, runtime_context: RuntimeContext) -> None:  # noqa: B027 - optional
        """Prepare the function, such as by asking for its states; it is called once, before any element."""

    def close(self) -> None:  # noqa: B027 - optional
        """Free what the function holds; it is called once, after the last element or an error."""


class MapFunction(Function):
    """Makes one result of each element."""

    @abstractmethod
    def map(self, value: Any) -> Any:
        """Return the result for an element."""


class CoMapFunction(Function):
    """Makes one result of each element of two streams."""

    @abstractmethod
    def map1(self, value: Any) -> Any:
        """Return the result for an element of the first stream."""

    @abstractmethod
    def map2(self, value: Any) -> Any:
        """Return the result for an element of the second stream."""


class FlatMapFunction(Function):
    """Makes any number of results of each element."""

    @abstractmethod
    def flat_map(self, value: Any) -> Iterable[Any] | None:
        """Yield the results for an element."""


class CoFlatMapFunction(Function):
    """Makes any number of results of each element of two streams."""

    @abstractmethod
    def flat_map1(self, value: Any) -> Iterable[Any] | None:
        """Yield the results for an element of the first stream."""

    @abstractmethod
    def flat_map2(self, value: Any) -> Iterable[Any] | None:
        """Yield the results for an element of the second stream."""


class FilterFunction(Function):
    """Decides which elements go on."""

    @abstractmethod
    def filter(self, value: Any) -> bool:
        """Whether an element goes on."""


class ReduceFunction(Function, Generic[T]):
    """Combines two values into one of the same type. It can be called like a plain function."""

    @abstractmethod
    def reduce(self, value1: T, value2: T) -> T:
        """Return the combination of two values; neither may be changed."""

    def __call__(self, value1: T, value2: T) -> T:
        return self.reduce(value1, value2)


class AggregateFunction(Function, Generic[IN, ACC, OUT]):
    """Adds values to an accumulator, from which a result is made."""

    @abstractmethod
    def create_accumulator(self) -> ACC:
        """Return the accumulator of no values."""

    @abstractmethod
    def add(self, value: IN, accumulator: ACC) -> ACC:
        """Return the accumulator with a further value. The given one may be changed and returned."""

    @abstractmethod
    def get_result(self, accumulator: ACC) -> OUT:
        """Return the result for an accumulator."""

    @abstractmethod
    def merge(self, acc_a: ACC, acc_b: ACC) -> ACC:
        """Return the accumulator of all values of two others, which may be changed."""


class KeySelector(Function):
    """Returns the key of an element. It can be called like a plain function."""

    @abstractmethod
    def get_key(self, value: Any) -> Any:
        """Return the key, which is always the same for equal elements."""

    def __call__(self, value: Any) -> Any:
        return self.get_key(value)


class Partitioner(Function):
    """Returns the subtask that a key goes to. It can be called like a plain function."""

    @abstractmethod
    def partition(self, key: Any, num_partitions: int) -> int:
        """Return the number of the subtask, from 0 and less than `num_partitions`."""

    def __call__(self, key: Any, num_partitions: int) -> int:
        return self.partition(key, num_partitions)


class SinkFunction(Function):
    """Takes the elements of a stream. In PyFlink it is a class of Java."""

    @abstractmethod
    def invoke(self, value: Any) -> None:
        """Take an element."""


class ProcessFunction(Function):
    """Makes any number of results of each element, and knows its time stamp and the current times."""

    Context: TypeAlias = contexts.ProcessContext

    @abstractmethod
    def process_element(self, value: Any, ctx: contexts.ProcessContext) -> Iterable[Any] | None:
        """Yield the results for an element."""


class CoProcessFunction(Function):
    """The same for two streams."""

    Context: TypeAlias = contexts.ProcessContext

    @abstractmethod
    def process_element1(self, value: Any, ctx: contexts.ProcessContext) -> Iterable[Any] | None:
        """Yield the results for an element of the first stream."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: contexts.ProcessContext) -> Iterable[Any] | None:
        """Yield the results for an element of the second stream."""


class KeyedProcessFunction(Function):
    """Makes any number of results of each element of a keyed stream, with keyed state and timers."""

    Context: TypeAlias = contexts.KeyedContext
    OnTimerContext: TypeAlias = contexts.OnTimerContext

    @abstractmethod
    def process_element(self, value: Any, ctx: contexts.KeyedContext) -> Iterable[Any] | None:
        """Yield the results for an element."""

    def on_timer(self, timestamp: int, ctx: contexts.OnTimerContext) -> Iterable[Any] | None:
        """Yield the results for a timer that fires; the states have its key."""


class KeyedCoProcessFunction(Function):
    """The same for two streams with keys of one type, which share the states."""

    Context: TypeAlias = contexts.KeyedContext
    OnTimerContext: TypeAlias = contexts.OnTimerContext

    @abstractmethod
    def process_element1(self, value: Any, ctx: contexts.KeyedContext) -> Iterable[Any] | None:
        """Yield the results for an element of the first stream."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: contexts.KeyedContext) -> Iterable[Any] | None:
        """Yield the results for an element of the second stream."""

    def on_timer(self, timestamp: int, ctx: contexts.OnTimerContext) -> Iterable[Any] | None:
        """Yield the results for a timer that fires; the states have its key."""


class BaseBroadcastProcessFunction(Function):
    """The base class of functions of a stream and a broadcast stream, whose elements go to every subtask."""

    BaseContext: TypeAlias = contexts.BaseBroadcastContext
    Context: TypeAlias = contexts.BroadcastContext
    ReadOnlyContext: TypeAlias = contexts.ReadOnlyContext

    @abstractmethod
    def process_broadcast_element(self, value: Any, ctx: contexts.BroadcastContext) -> Iterable[Any] | None:
        """Yield the results for a broadcast element. It may change broadcast state, and has no key."""


class BroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[IN1, IN2, OUT]):
    """Makes results of a stream and a broadcast stream."""

    @abstractmethod
    def process_element(self, value: IN1, ctx: contexts.ReadOnlyContext) -> Iterable[Any] | None:
        """Yield the results for an element that is not broadcast; it only reads broadcast state."""


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[KEY, IN1, IN2, OUT]):
    """Makes results of a keyed stream and a broadcast stream, with keyed state and timers."""

    ReadOnlyContext: TypeAlias = contexts.KeyedReadOnlyContext
    OnTimerContext: TypeAlias = contexts.OnTimerReadOnlyContext

    @abstractmethod
    def process_element(self, value: IN1, ctx: contexts.KeyedReadOnlyContext) -> Iterable[Any] | None:
        """Yield the results for an element of the keyed stream; it only reads broadcast state."""

    def on_timer(self, timestamp: int, ctx: contexts.OnTimerReadOnlyContext) -> Iterable[Any] | None:
        """Yield the results for a timer that fires; the states have its key."""
