"""The states of Apache Beam as views of ours, for people who come from Beam.

A view, such as `BagState(runtime_context.get_list_state(…))`, stores nothing, and follows the key of its state.
Source: `apache_beam.transforms.userstate`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from .states import AggregatingState, ListState, MapState, ValueState


@attrs.frozen
class BagState:
    """A bag of elements, over list state."""

    state: ListState[Any]

    def read(self) -> list[Any]:
        """Return the elements."""
        return list(self.state.get())

    def add(self, value: Any) -> None:
        """Add an element."""
        self.state.add(value)

    def clear(self) -> None:
        """Remove all elements."""
        self.state.clear()


@attrs.frozen
class SetState:
    """A set of elements, over map state: its map keys are the elements, its values are True."""

    state: MapState[Any, bool]

    def read(self) -> set[Any]:
        """Return the elements."""
        return set(self.state.keys())

    def add(self, value: Any) -> None:
        """Add an element; it may be there already."""
        self.state[value] = True

    def clear(self) -> None:
        """Remove all elements."""
        self.state.clear()


@attrs.frozen
class ReadModifyWriteState:
    """One value, over value state."""

    state: ValueState[Any]

    def read(self) -> Any:
        """Return the value; None where there is none."""
        return self.state.value()

    def write(self, value: Any) -> None:
        """Replace the value."""
        self.state.update(value)

    def clear(self) -> None:
        """Remove the value."""
        self.state.clear()


@attrs.frozen
class CombiningValueState:
    """An accumulator, over aggregating state."""

    state: AggregatingState[Any, Any]

    def read(self) -> Any:
        """Return the result for the accumulator; None where nothing was added."""
        return self.state.get()

    def add(self, value: Any) -> None:
        """Add a value to the accumulator."""
        self.state.add(value)

    def clear(self) -> None:
        """Remove the accumulator."""
        self.state.clear()
