"""Classes that contain themselves: their serializers, and checks that wait until all cycles are known.

Flink makes POJOs of classes, too, but not of a class within itself: a field of it is a generic type, for Kryo. So is a
list or map of it in Flink 1.20; in Flink 2.3 its type extractor overflows the stack on these (both tried).
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from ..errors import DeclarationError
from ..stored_names import qualified_name
from . import recursion as record_scopes
from .classes import options_of
from .recursion_finder import Circles
from .recursive import RecordReference, RecursiveRecordSerializer
from .serializers import DescribedRecordSerializer, RecordSerializer

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..serializer import TypeSerializer
    from .recursion_finder import Others

    Make = Callable[[type], DescribedRecordSerializer[Any]]

T = TypeVar("T")


def record_name(cls: type) -> str:
    """Return the identity of a class in the state: its Java class, else its qualified name."""
    return options_of(cls).java_class or qualified_name(cls)


def record_or_reference(cls: type, make: Make) -> TypeSerializer[Any]:
    """Return the serializer of a class, or a reference to it within its own cycle.

    Args:
        cls: The class.
        make: Makes the serializer of one class, and calls this function for its fields.

    Raises:
        DeclarationError: A class with a Java class contains itself, or a default does not fit.
    """
    making = _making.get()
    if making is not None:
        return making.circles.serializer(cls)
    making = _Making(make)
    token = _making.set(making)
    try:
        return making.circles.serializer(cls)
    finally:
        _making.reset(token)


def check_in_time(check: Callable[[], None]) -> None:
    """Check a default: at once, or, while serializers of classes are being made, when the class's cycle is complete."""
    making = _making.get()
    if making is None:
        check()
    else:
        making.checks.append(check)


@attrs.define
class _Making:
    """The state of making serializers of classes.

    Attributes:
        make: Makes the serializer of one class.
        checks: Checks that must wait until a cycle is complete: whether defaults can be written.
    """

    make: Make
    circles: Circles[type] = attrs.field(init=False)
    checks: list[Callable[[], None]] = attrs.field(factory=list, init=False)
    _begun: dict[type, int] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.circles = Circles(self._begin, self._close, lambda cls: RecordReference(record_name(cls)))

    def _begin(self, cls: type) -> DescribedRecordSerializer[Any]:
        self._begun[cls] = len(self.checks)
        return self.make(cls)

    def _close(self, cls: type, made: DescribedRecordSerializer[Any], others: Others | None) -> TypeSerializer[Any]:
        if others is not None:
            made = _circle(made, others)
        begun = self._begun.pop(cls)
        due, self.checks[begun:] = self.checks[begun:], []
        with record_scopes.serializers.entered(made.circle):
            for check in due:
                check()
        return made


_making: ContextVar[_Making | None] = ContextVar("_making", default=None)


def _circle(record: DescribedRecordSerializer[T], others: Others) -> DescribedRecordSerializer[T]:
    """Return the serializer of a class that contains itself."""
    java = next((one for one in (record, *others) if not isinstance(one, RecordSerializer)), None)
    if java is not None:
        raise DeclarationError(
            f"{java.name} contains itself, and has a Java class: Flink leaves the inner ones to Kryo, whose bytes are "
            "not written by this release",
            advice="leave the java_class out, for a state of stateshift's own; or store the inner records in a map "
            "state or list state of their own, and refer to them by key",
        )
    names = [one.name for one in (record, *others)]
    if len(set(names)) < len(names):
        raise DeclarationError(f"two classes around {record.name} have the same name: {', '.join(sorted(names))}")
    return RecursiveRecordSerializer(
        **{field.name: getattr(record, field.name) for field in attrs.fields(RecordSerializer)}, others=others
    )
