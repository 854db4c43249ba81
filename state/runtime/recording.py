"""What a function declares: its `open` is called with a context that notes the descriptors and has no state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...serializers.errors import StateShiftError, UserCodeFailed, cause_text
from .of_pyflink import as_ours
from .runtime_context import RuntimeContext, TaskInfo

if TYPE_CHECKING:
    from .descriptors import StateDescriptor
    from .runtime_context import D


class RecordingContext(RuntimeContext):
    """Notes the states that a function asks for. There is no state: a handle is None.

    Attributes:
        descriptors: The descriptors, in the order in which they were used, each name once.
    """

    def __init__(self) -> None:
        super().__init__(TaskInfo())
        self.descriptors: dict[str, StateDescriptor] = {}

    def _expect(self, descriptor: Any, kind: type[D]) -> D:
        return super()._expect(as_ours(descriptor), kind)

    def _require(self, descriptor: StateDescriptor, what: str, function: object) -> None:
        """Allow that a state has no function: it is not called."""

    def _handle(self, descriptor: Any) -> Any:
        self.descriptors.setdefault(descriptor.name, descriptor)


def states_of(function: Any) -> tuple[StateDescriptor, ...]:
    """Return the descriptors of the keyed states for which a function, ours or one of PyFlink itself, asks in `open`.

    Raises:
        UserCodeFailed: Its `open` fails, as where it does more than ask for state.
    """
    context = RecordingContext()
    try:
        function.open(context)
    except StateShiftError:
        raise
    except Exception as error:
        raise UserCodeFailed(
            f"open of {type(function).__name__} was called to see its states, and failed: {cause_text(error)}",
            advice="pass the descriptors of its states instead of the function",
        ) from error
    return tuple(context.descriptors.values())
