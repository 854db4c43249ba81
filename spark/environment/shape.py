"""Which part of a program runs where on Spark.

A program is sources, steps, operators and sinks. Steps are functions without state; they run in Spark's workers behind
the source or operator that they get elements from. An operator has state or several inputs, and is one of the query.
Spark computes the results of an operator for each place in which they are used, so they may go to one place only:
to an input of another operator, or to sinks.
"""

from __future__ import annotations

import enum
from functools import cached_property
from typing import TYPE_CHECKING

import attrs

from ...serializers.errors import DeclarationError
from ...state.environment.environment import Elements
from ...state.environment.execution import uids_of
from ...state.environment.files import Finishing
from ...state.environment.functions import Plain
from ...state.environment.graph import Partition, in_order
from ...state.runtime.checkpointed import CheckpointedFunction, ListCheckpointed
from ...state.runtime.functions import FilterFunction, FlatMapFunction, MapFunction, ProcessFunction, SinkFunction
from ...state.runtime.sources import SourceFunction
from ...state.runtime.watermarks import WatermarkStrategy
from ...state.runtime.windows.triggers import milliseconds
from ...state.streaming.slot import InputSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ...state.environment.graph import Edge, Transformation
    from ...state.environment.settings import Settings


class Role(enum.Enum):
    """What a transformation is on Spark."""

    SOURCE = enum.auto()
    STEP = enum.auto()
    OPERATOR = enum.auto()
    SINK = enum.auto()


def role_of(one: Transformation) -> Role:
    """Return what a transformation is on Spark."""
    body, has_state = one.body, isinstance(one.body, CheckpointedFunction | ListCheckpointed)
    if isinstance(body, SourceFunction):
        return Role.SOURCE
    if isinstance(body, SinkFunction) and (isinstance(body, Finishing) or not has_state):
        return Role.SINK
    if isinstance(body, WatermarkStrategy | Plain):
        return Role.STEP
    is_plain = isinstance(body, MapFunction | FlatMapFunction | FilterFunction | ProcessFunction)
    return Role.STEP if is_plain and one.key_type is None and not has_state else Role.OPERATOR


@attrs.frozen(eq=False)
class Place:
    """What elements of a source or operator go to, behind its steps: an input of an operator, or all sinks.

    Attributes:
        operator: The operator; None: the sinks.
        index: The number of the input.
        edges: The edges into it.
    """

    operator: Transformation | None
    index: int
    edges: tuple[Edge, ...]


class Shape:
    """A program, divided among the parts of a query.

    Args:
        last: The transformations that the program ends with.
        settings: What holds for its run.

    Attributes:
        program: All transformations, each after those that it gets elements from.
        uids: Their uids, as in a local run.
        settings: What holds for its run.
        specs: The event time of each input.

    Raises:
        DeclarationError: The program cannot be carried; the error names the operator, and the way out.
    """

    def __init__(self, last: Iterable[Transformation], settings: Settings) -> None:
        self.program, self.settings = in_order(last), settings
        self.uids = uids_of(self.program)
        self._roles = {one: role_of(one) for one in self.program}
        for one in self.program:
            self._require_carried(one)
        self._require_used_once()
        self.specs = {place: self._spec(place) for place in self.places if place.operator is not None}

    def of(self, role: Role) -> list[Transformation]:
        """Return the transformations of a role, in their order."""
        return [one for one in self.program if self._roles[one] is role]

    def named(self, one: Transformation) -> str:
        """Return the name of a transformation as errors have it."""
        return f"{one.name!r}" + (f" (uid {one.uid!r})" if one.uid else "")

    @cached_property
    def places(self) -> list[Place]:
        """The inputs of all operators in their order, and at last the sinks."""
        inputs = [Place(one, index, edges) for one in self.of(Role.OPERATOR) for index, edges in enumerate(one.inputs)]
        sinks = [edge for one in self.of(Role.SINK) for edge in one.inputs[0]]
        return [*inputs, Place(None, 0, tuple(sinks))]

    def sink_of(self, number: int) -> Transformation:
        """Return the sink of an edge into the sinks, by its number."""
        return [one for one in self.of(Role.SINK) for _ in one.inputs[0]][number]

    def origins(self, place: Place) -> list[Transformation]:
        """Return the sources and operators that elements of a place come from, in the order of their sources."""
        found = {one for edge in place.edges for one in self._before(edge.origin)}
        return sorted(found, key=lambda one: (self.rank(one), self.program.index(one)))

    def _before(self, one: Transformation) -> Iterator[Transformation]:
        if self._roles[one] is not Role.STEP:
            yield one
            return
        for edge in one.inputs[0]:
            yield from self._before(edge.origin)

    def rank(self, one: Transformation) -> int:
        """Return the number of the first source that elements of a transformation come from."""
        edges = [edge for edges in one.inputs for edge in edges]
        return min((self.rank(edge.origin) for edge in edges), default=one.number)

    def steps(self, origin: Transformation, place: Place) -> list[Transformation]:
        """Return the steps between a source or operator and a place."""
        return [
            one
            for one in self.of(Role.STEP)
            if origin in self._before(one) and any(self._leads(one, edge.origin) for edge in place.edges)
        ]

    def _leads(self, one: Transformation, target: Transformation) -> bool:
        """Whether elements of a step reach a transformation through steps alone."""
        if one is target:
            return True
        return self._roles[target] is Role.STEP and any(self._leads(one, edge.origin) for edge in target.inputs[0])

    # Event time

    def _spec(self, place: Place) -> InputSpec:
        """Return the event time of an input.

        Raises:
            DeclarationError: Its time stamps are given in several places.
        """
        found = {one for edge in place.edges for one in self._timed(edge.origin)}
        strategies = [one.body for one in found if isinstance(one.body, WatermarkStrategy)]
        if len(found) > 1 and any(one.max_out_of_orderness is not None for one in strategies):
            names = ", ".join(sorted(self.named(one) for one in found))
            raise DeclarationError(
                f"the elements of an input of {self._named(place)} get their time stamps in several places ({names}),"
                " and Spark carries one watermark for an input",
                advice="assign them once, behind the union: union(…).assign_timestamps_and_watermarks(…)",
            )
        if len(found) != 1 or not strategies or self.settings.is_batch:
            return InputSpec()
        delay, idle = strategies[0].max_out_of_orderness, strategies[0].idle_timeout
        if delay is None:
            return InputSpec()
        return InputSpec(milliseconds(delay), None if idle is None else milliseconds(idle))

    def _timed(self, one: Transformation) -> Iterator[Transformation]:
        """Yield what gives elements their time stamps: the last assigner before, or a source or operator."""
        if self._roles[one] is not Role.STEP or isinstance(one.body, WatermarkStrategy):
            yield one
            return
        for edge in one.inputs[0]:
            yield from self._timed(edge.origin)

    def _named(self, place: Place) -> str:
        return "the sinks" if place.operator is None else self.named(place.operator)

    # Numbers that Spark has once for a query

    @property
    def slots(self) -> int:
        """The parallelism of its operators.

        Raises:
            DeclarationError: An operator without keys has another one than the rest.
        """
        own = {one: one.parallelism or self.settings.parallelism for one in self.of(Role.OPERATOR)}
        slots = max(own.values(), default=self.settings.parallelism)
        for one, parallelism in own.items():
            if one.key_type is None and parallelism != slots:
                raise DeclarationError(
                    f"{self.named(one)} has {parallelism} subtasks, and another operator {slots}: a query of Spark has"
                    " one number of slots",
                    advice="set_parallelism the same for both; or run them in two programs",
                )
        return slots

    @property
    def max_parallelism(self) -> int | None:
        """The number of key groups that the program sets; None: none.

        Raises:
            DeclarationError: Operators set different ones.
        """
        set_ones = {
            found
            for one in self.of(Role.OPERATOR)
            if (found := one.max_parallelism or self.settings.max_parallelism) is not None
        }
        if len(set_ones) > 1:
            raise DeclarationError(
                f"operators have {' and '.join(map(str, sorted(set_ones)))} key groups, and a query has one number",
                advice="set_max_parallelism the same for all",
            )
        return next(iter(set_ones), self.settings.max_parallelism)

    # What is refused

    def _require_carried(self, one: Transformation) -> None:
        body, name = one.body, self.named(one)
        if isinstance(body, Elements) and not body.is_ordered:
            raise DeclarationError(
                f"the collection of the source {name} has no order: after a restart its elements would come in another"
                " one, and it would not be known which of them were read",
                advice="pass a list: from_collection(sorted(…))",
            )
        is_source = self._roles[one] is Role.SOURCE
        if is_source and not isinstance(body, CheckpointedFunction | ListCheckpointed | Elements):
            raise DeclarationError(
                f"the source {name} ({type(body).__name__}) does not keep how far it was read: after a restart all its"
                " elements would come again",
                advice="make it a ListCheckpointed or CheckpointedFunction, with its position as state",
            )
        for edge in (edge for edges in one.inputs for edge in edges):
            if edge.partition is Partition.CUSTOM and self._roles[one] is Role.OPERATOR:
                raise DeclarationError(
                    f"a partitioner of the program chooses the subtasks of {name}, and Spark has none",
                    advice="key the stream by what the partitioner is called with",
                )

    def _require_used_once(self) -> None:
        """Refuse results of an operator that go to several places."""
        for one in self.of(Role.OPERATOR):
            places = [place for place in self.places if one in self.origins(place)]
            if len(places) > 1:
                names = " and ".join(dict.fromkeys(self._named(place) for place in places))
                raise DeclarationError(
                    f"the results of {self.named(one)} go to {names}: Spark would run it once for each, and its state"
                    " belongs to one",
                    advice=f"cut the program in two behind {one.name!r}: one writes its results to files"
                    " (sink_to(FileSink…)), and the other reads them (from_source(FileSource…))",
                )
