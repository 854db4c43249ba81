"""Values as all tests of the harness handle them: written, read, modified, and among those of other serializers.

The other serializers show whether answers about their snapshots are true of their bytes: plain serializers of each size
and framing, and the serializer itself with other parameters.

A second Python process with another hash seed sees serializers as a worker on another machine does (`Twin`). It serves
a whole test run; it is started on first use, and ends with the run.
"""

from __future__ import annotations

import atexit
import functools
import os
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, cast, get_args, get_origin

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
from ...serializers.views import DataInputView, DataOutputView

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...serializers.serializer import TypeDeserializer


def written(serializer: TypeSerializer[Any], *values: Any) -> bytes:
    """Return the bytes of the values, one after the other."""
    target = DataOutputView()
    for value in values:
        serializer.serialize(value, target)
    return target.getvalue()


def read(reader: TypeDeserializer[Any], data: bytes) -> Any:
    """Return the one value encoded in the bytes, or raise AssertionError if bytes are left over."""
    source = DataInputView(data)
    value = reader.deserialize(source)
    assert source.remaining() == 0, f"{source.remaining()} of {len(data)} bytes are left over"
    return value


def disturb(value: Any) -> bool:
    """Empty every list, dict, set and bytearray within a value, and return whether there was any that had items."""
    parts: list[Any] = []
    if isinstance(value, dict):
        parts = [*value.keys(), *value.values()]
    elif isinstance(value, list | tuple | set | frozenset):
        parts = list(value)
    elif attrs.has(type(value)):
        parts = [getattr(value, field.name, None) for field in attrs.fields(type(value))]
    elif hasattr(value, "__dict__"):
        parts = list(vars(value).values())
    changed = sum(disturb(part) for part in parts) > 0
    if isinstance(value, list | dict | set | bytearray) and value:
        value.clear()
        return True
    return changed


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


def shipped(value: Any) -> Any:
    """Return a value as a worker receives it, pickled and unpickled; classes that workers lack are pickled by value."""
    import cloudpickle

    return pickle.loads(cloudpickle.dumps(value))  # noqa: S301 - pickled in this line


def written_elsewhere(serializer: TypeSerializer[Any], values: Sequence[Any]) -> list[bytes]:
    """Return the bytes that a process with another hash seed writes for the values.

    Raises:
        AssertionError: Writing failed in that process only; the message is that of its error.
    """
    import cloudpickle

    twin = _twin()
    assert twin.stdin is not None
    assert twin.stdout is not None
    module = sys.modules[type(serializer).__module__]
    by_value = not type(serializer).__module__.startswith("stateshift.")
    if by_value:
        cloudpickle.register_pickle_by_value(module)
    try:
        _send(twin.stdin, cloudpickle.dumps((serializer, list(values))))  # as bytes: the other side may fail to open it
    finally:
        if by_value:
            cloudpickle.unregister_pickle_by_value(module)
    try:
        answer = pickle.load(twin.stdout)  # noqa: S301 - pickled by a process started here
    except EOFError:
        raise EOFError("the other process has ended") from None
    assert isinstance(answer, list), f"another process cannot write the values:\n{answer}"
    return answer


@functools.cache
def _twin() -> subprocess.Popen[bytes]:
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    twin = subprocess.Popen(  # noqa: S603 - it runs this module
        [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )
    atexit.register(_end, twin)
    return twin


def _end(twin: subprocess.Popen[bytes]) -> None:
    """Kill the process at the end of the run."""
    with twin:
        twin.kill()


def _send(stream: BinaryIO | Any, data: object) -> None:
    pickle.dump(data, stream)
    stream.flush()


def _serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until the input is closed."""
    while True:
        try:
            data = pickle.load(requests)  # noqa: S301 - from the process that started this one
        except EOFError:
            return
        answer: list[bytes] | str
        try:
            serializer, values = pickle.loads(data)  # noqa: S301 - pickled by the process that started this one
            answer = [written(serializer, value) for value in values]
        except Exception as error:  # noqa: BLE001 - any error is reported to the test that asked
            answer = f"{type(error).__name__}: {error}"
        _send(answers, answer)


if __name__ == "__main__":
    _serve(sys.stdin.buffer, sys.stdout.buffer)
