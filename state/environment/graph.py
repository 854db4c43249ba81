"""A stream program as data."""

from __future__ import annotations

import enum
from itertools import count
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..runtime.output_tag import OutputTag


class Partition(enum.Enum):
    """Which subtasks of the next operator an element goes to.

    FORWARD: the one with the same number; with another parallelism as with REBALANCE. REBALANCE: each in turn. KEYED:
    the one that has the key group. BROADCAST: all. CUSTOM: the one that the program's partitioner names.
    """

    FORWARD = enum.auto()
    REBALANCE = enum.auto()
    KEYED = enum.auto()
    BROADCAST = enum.auto()
    CUSTOM = enum.auto()


@attrs.frozen(eq=False)
class Edge:
    """The way of elements from one transformation to another.

    Attributes:
        origin: Where they come from.
        tag: The side output; None: the main output.
        partition: Which subtasks they go to.
        selector: Returns the key of an element (KEYED, CUSTOM).
        partitioner: Called with the key and the number of subtasks; returns the number of one (CUSTOM).
    """

    origin: Transformation
    tag: OutputTag | None = None
    partition: Partition = Partition.FORWARD
    selector: Callable[[Any], Any] | None = None
    partitioner: Callable[[Any, int], int] | None = None


@attrs.define(eq=False)
class Transformation:
    """A step of the program: a source, an operator or a sink.

    Attributes:
        body: What is done: a `SourceFunction`, a `WatermarkStrategy`, another function, or a `WindowOperation`.
        name: Its name.
        inputs: The edges of each input; none: a source.
        key_type: The type hint or serializer of the keys; None: it is not keyed.
        output_type: The type hint or serializer of the results; None: any value.
        keeps_any: Whether it keeps elements that have no type. They may then be of any class, as long as they are not
            written.
        uid: By what its state is found again; "": by its place in the program.
        parallelism: The number of its subtasks; None: that of the environment.
        max_parallelism: The number of its key groups; None: that of the environment.
        number: Grows from one that is declared to the next.
    """

    body: Any
    name: str
    inputs: tuple[tuple[Edge, ...], ...] = ()
    key_type: Any = None
    output_type: Any = None
    keeps_any: bool = False
    uid: str = ""
    parallelism: int | None = None
    max_parallelism: int | None = None
    number: int = attrs.field(factory=count().__next__, init=False)

    @property
    def title(self) -> str:
        """What errors call it: its uid, as in savepoints; without one its name."""
        return self.uid or self.name


def in_order(last: Iterable[Transformation]) -> list[Transformation]:
    """Return transformations and all those that they get elements from, each after those."""
    found: dict[Transformation, None] = {}

    def visit(one: Transformation) -> None:
        if one not in found:
            for edges in one.inputs:
                for edge in edges:
                    visit(edge.origin)
            found[one] = None

    for one in last:
        visit(one)
    return list(found)
