"""The backend and the checkpoints that a configuration names."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from ...serializers.errors import DeclarationError
from ..backends.heap.backend import HashMapStateBackend
from ..publication.checkpoints import open_checkpoints

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...serializers.serializer import TypeSerializer
    from ..backends.configuration import Configuration
    from ..backends.keyed_backend import KeyedStateBackend
    from ..publication.checkpoints import CheckpointStorage


def configured_backend(
    configuration: Configuration, *, key_ranges: int = 1
) -> Callable[[TypeSerializer[Any], int, range], KeyedStateBackend]:
    """Return what creates the backends that `state.backend.type` names, such as for `KeyedProcessHarness(backend=…)`.

    It is called with the serializer of the keys, the number of key groups, and those of a subtask.

    Args:
        configuration: The configuration.
        key_ranges: Into how many parts RocksDB divides large states, as for `EmbeddedRocksDBStateBackend`.
    """
    if configuration["state.backend.type"] == "hashmap":
        return HashMapStateBackend
    from ..backends.rocksdb.backend import EmbeddedRocksDBStateBackend  # its library is optional

    return partial(EmbeddedRocksDBStateBackend, configuration=configuration, key_ranges=key_ranges)


@contextmanager
def configured_checkpoints(configuration: Configuration, job: str = "") -> Iterator[CheckpointStorage]:
    """Open the folder of a job below `execution.checkpointing.dir`, as `open_checkpoints`, until the `with` block ends.

    Args:
        configuration: Says where checkpoints are, and how many are retained.
        job: The id of the job, 32 hexadecimal digits; "": a new one.

    Raises:
        DeclarationError: No folder is configured; and as `open_checkpoints`.
    """
    key = "execution.checkpointing.dir"
    if configuration[key] is None:
        raise DeclarationError(f"no folder for checkpoints is configured: {key}")
    retained = configuration["execution.checkpointing.num-retained"]
    with open_checkpoints(configuration[key], job, retained=retained) as storage:
        yield storage
