"""Restore of keyed state into a backend, whatever backend wrote it and at whatever parallelism.

The kind of each stored handle chooses its reader; all readers yield canonical blocks, and every backend takes them. The
types are those of the stream: whether the types of a job can take over is for the check to say, before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...serializers.errors import DeclarationError
from ..savepoint.keyed_readers import open_keyed
from ..savepoint.states import keyed_handles, require_own_key_groups

if TYPE_CHECKING:
    from ..savepoint.metadata import OperatorState
    from ..storage.files import Folder
    from .keyed_backend import KeyedStateBackend


def restore_keyed(backend: KeyedStateBackend, stored: OperatorState, folder: Folder) -> None:
    """Read the keyed state of an operator that belongs to the subtask of a backend, which has no handles yet.

    Args:
        backend: The new backend; its key groups may be spread over several stored subtasks.
        stored: The operator in `_metadata`.
        folder: The folder of that `_metadata`.

    Raises:
        DeclarationError: The number of key groups differs.
        CorruptSavepoint, UnknownSnapshot, UnsupportedFormat, SavepointNotFound: As `open_keyed`.
        OldReaderUnavailable: In a native format, the ends of a state's entries cannot be found.
    """
    if stored.max_parallelism != backend.max_parallelism:
        raise DeclarationError(
            f"the state was stored in {stored.max_parallelism} key groups, but the operator has"
            f" {backend.max_parallelism}",
            advice=f"set max parallelism {stored.max_parallelism}, or migrate the savepoint with --repartition",
            operator=str(stored),
        )
    require_own_key_groups(stored)
    own = [handle for handle in keyed_handles(stored) if handle.reaches(backend.key_groups)]
    for handle in backend.adopt(own, folder):
        with open_keyed(handle, folder, stored.max_parallelism) as reader:
            backend.restore(reader)
