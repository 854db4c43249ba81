"""Other serializers than the one under test: its answers about their snapshots must be true of their bytes.

They are plain serializers of each size and framing, and the serializer itself with other parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args, get_origin

import attrs

from ...serializers.containers.arrays import BytesSerializer
from ...serializers.containers.lists import ListSerializer, MapSerializer
from ...serializers.errors import StateShiftError
from ...serializers.primitives.numeric import (
    BooleanSerializer,
    DoubleSerializer,
    IntSerializer,
    LongSerializer,
    ShortSerializer,
)
from ...serializers.primitives.text import StringSerializer
from ...serializers.serializer import TypeSerializer
from ...serializers.snapshot import snapshot_to_bytes
from .values import written

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Samples = list[tuple[Any, bytes]]
"""Values with their bytes."""

_LONG, _STRING = LongSerializer(), StringSerializer()
_PLAIN: tuple[tuple[TypeSerializer[Any], Any], ...] = (
    (BooleanSerializer(), True),
    (ShortSerializer(), 258),
    (IntSerializer(), 258),
    (_LONG, 258),
    (DoubleSerializer(), 0.5),
    (_STRING, "seven"),
    (BytesSerializer(), b"seven"),
    (ListSerializer(_LONG), [258]),
    (MapSerializer(_STRING, _LONG), {"seven": 258}),
)


def neighbours_of(
    serializer: TypeSerializer[Any], given: Sequence[TypeSerializer[Any]], values: Sequence[Any]
) -> Iterator[tuple[TypeSerializer[Any], Samples]]:
    """Yield serializers that differ from the given one, each with values and the bytes that it writes for them.

    Args:
        serializer: The serializer under test.
        given: Further serializers, named by the author of the test.
        values: Values of the serializer under test; other serializers are tried with those that they accept.
    """
    own = snapshot_to_bytes(serializer.snapshot_configuration())
    others = [(other, [value]) for other, value in _PLAIN]
    others += [(other, list(values)) for other in (*given, *_with_other_parameters(serializer))]
    for other, found in others:
        if snapshot_to_bytes(other.snapshot_configuration()) != own:
            yield other, _written(other, found)


def doubles_of(
    serializer: TypeSerializer[Any], given: Sequence[TypeSerializer[Any]], values: Sequence[Any]
) -> Iterator[tuple[TypeSerializer[Any], Samples]]:
    """Yield serializers with other parameters that have the same snapshot; arguments as of `neighbours_of`."""
    own = snapshot_to_bytes(serializer.snapshot_configuration())
    for other in (*given, *_with_other_parameters(serializer)):
        if snapshot_to_bytes(other.snapshot_configuration()) == own:
            yield other, _written(other, list(values))


def _written(other: TypeSerializer[Any], values: list[Any]) -> Samples:
    samples = []
    for value in values:
        try:
            samples.append((value, written(other, value)))
        except (StateShiftError, TypeError, AttributeError, AssertionError):
            continue  # it does not accept this value, or may not be used for writing at all
    return samples


def _with_other_parameters(serializer: TypeSerializer[Any]) -> Iterator[TypeSerializer[Any]]:
    """Yield copies of a serializer with one parameter changed; changes that it refuses are skipped."""
    cls: Any = type(serializer)
    for field in attrs.fields(cls) if attrs.has(cls) else ():
        value = getattr(serializer, field.name, None)
        other = _other(value)
        if field.eq and field.init and other != value:
            try:
                made: Any = attrs.evolve(cast("Any", serializer), **{field.alias: other})
                made.ensure_compatibility(made.snapshot_configuration())  # a copy that cannot be asked is not complete
            except (StateShiftError, TypeError, ValueError, AttributeError):
                continue
            yield made


def _other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, TypeSerializer):
        return _STRING if value == _LONG else _LONG
    return value


def declared_type(serializer: TypeSerializer[Any]) -> Any:
    """Return the value type that a class declares, as `int` in `TypeSerializer[int]`, or None if it declares none."""
    for cls in type(serializer).__mro__:
        for base in cls.__dict__.get("__orig_bases__", ()):
            origin, arguments = get_origin(base), get_args(base)
            if isinstance(origin, type) and issubclass(origin, TypeSerializer) and len(arguments) == 1:
                return arguments[0] if _is_concrete(arguments[0]) else None
    return None


def _is_concrete(hint: Any) -> bool:
    return isinstance(hint, type) and not isinstance(hint, TypeVar) and hint is not object
