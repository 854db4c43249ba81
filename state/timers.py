"""The timers of an operator: a timer service has a queue for each of the two time domains.

In Flink a process function has the service "user-timers", whose timers have no namespace; a window operator has
"window-timers", whose namespaces are windows. Both queues exist as soon as an operator has a service, even if no timer
is set. Source: format notes 5.5.
"""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING, Any

import attrs

from ..compat.description import SerializerDescription, StateDescription, StateKind
from ..serializers.errors import DeclarationError, shown
from ..serializers.flink.namespaces import TimerSerializer, VoidNamespaceSerializer
from ..serializers.hints import serializer_for

if TYPE_CHECKING:
    from ..serializers.serializer import TypeSerializer

USER_TIMERS, WINDOW_TIMERS = "user-timers", "window-timers"
_QUEUE = re.compile("_timer_state/(event|processing)_(.*)", re.DOTALL)


class TimeDomain(enum.StrEnum):
    """The time that fires a timer. EVENT_TIME: the watermark. PROCESSING_TIME: the clock."""

    EVENT_TIME = "event"
    PROCESSING_TIME = "processing"


def queue_name(service: str, domain: TimeDomain) -> str:
    """Return the name under which a savepoint stores the timers of a service and a time domain."""
    return f"_timer_state/{domain}_{service}"


def queue_parts(name: str) -> tuple[str, TimeDomain] | None:
    """Return the service and the time domain of a queue; None where the name is not that of a timer queue."""
    found = _QUEUE.fullmatch(name)
    return (found[2], TimeDomain(found[1])) if found else None


def _checked_name(_: Any, __: Any, name: str) -> None:
    if not isinstance(name, str) or not name:
        raise DeclarationError(f"the name of a timer service must be a non-empty string, not {shown(name)}")


@attrs.frozen
class TimerServiceDescriptor:
    """A timer service of an operator; its timers have the operator's key type.

    Attributes:
        name: The name of the service: "user-timers" (process functions), "window-timers" (window operators), or a name
            of the operator's own.
        namespace: The type hint or serializer of the namespace: `TimeWindow` for timers of time windows.
    """

    name: str = attrs.field(default=USER_TIMERS, validator=_checked_name)
    namespace: TypeSerializer[Any] = attrs.field(
        factory=VoidNamespaceSerializer, converter=serializer_for, kw_only=True
    )

    def describe(self, key: TypeSerializer[Any]) -> tuple[StateDescription, ...]:
        """Return descriptions of both queues for the compatibility check."""
        timers = SerializerDescription.of(TimerSerializer(key, self.namespace))
        return tuple(StateDescription(queue_name(self.name, domain), StateKind.TIMERS, timers) for domain in TimeDomain)
