"""A second Python process with another hash seed: it sees serializers as a worker on another machine does.

One process serves a whole test run; it is started on first use, and ends with the run.
"""

from __future__ import annotations

import atexit
import functools
import os
import pickle
import struct
import subprocess
import sys
from typing import TYPE_CHECKING, Any, BinaryIO

from ...serializers.views import DataOutputView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...serializers.serializer import TypeSerializer

_SIZE = struct.Struct(">I")


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
        _send(twin.stdin, cloudpickle.dumps((serializer, list(values))))
    finally:
        if by_value:
            cloudpickle.unregister_pickle_by_value(module)
    answer = pickle.loads(_receive(twin.stdout))  # noqa: S301 - pickled by a process started here
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


def _send(stream: BinaryIO | Any, data: bytes) -> None:
    stream.write(_SIZE.pack(len(data)) + data)
    stream.flush()


def _receive(stream: BinaryIO | Any) -> bytes:
    head = stream.read(_SIZE.size)
    if len(head) < _SIZE.size:
        raise EOFError("the other process has ended")
    data: bytes = stream.read(_SIZE.unpack(head)[0])
    return data


def _serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until the input is closed."""
    while True:
        try:
            data = _receive(requests)
        except EOFError:
            return
        answer: list[bytes] | str
        try:
            serializer, values = pickle.loads(data)  # noqa: S301 - pickled by the process that started this one
            answer = []
            for value in values:
                target = DataOutputView()
                serializer.serialize(value, target)
                answer.append(target.getvalue())
        except Exception as error:  # noqa: BLE001 - any error is reported to the test that asked
            answer = f"{type(error).__name__}: {error}"
        _send(answers, pickle.dumps(answer))


if __name__ == "__main__":
    _serve(sys.stdin.buffer, sys.stdout.buffer)
