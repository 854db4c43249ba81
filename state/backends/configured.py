"""The backend that a configuration names."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from .heap.backend import HashMapStateBackend

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...serializers.serializer import TypeSerializer
    from .configuration import Configuration
    from .keyed_backend import KeyedStateBackend


def configured_backend(
    configuration: Configuration,
) -> Callable[[TypeSerializer[Any], int, range], KeyedStateBackend]:
    """Return what creates the backends that `state.backend.type` names, such as for `KeyedProcessHarness(backend=…)`.

    It is called with the serializer of the keys, the number of key groups, and those of a subtask.
    """
    if configuration["state.backend.type"] == "hashmap":
        return HashMapStateBackend
    from .rocksdb.backend import EmbeddedRocksDBStateBackend  # its library is optional

    return partial(EmbeddedRocksDBStateBackend, configuration=configuration)
