"""The savepoint of a stop, found in the folder that it is written to.

Flink notes in `_metadata` whether a savepoint was taken to stop its job, and its files are of the same backends as
those of the job's checkpoints. So neither another job's savepoint is taken for the last one, nor one after which the
job is to go on. What is in the folder when the following begins is of an earlier stop.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import attrs

from ...serializers.errors import CorruptSavepoint, SavepointNotFound
from ..formats.flink.handles import DatabaseHandle
from ..formats.flink.metadata import METADATA
from ..savepoint.reader import Savepoint
from ..savepoint.states import keyed_handles

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from ..formats.flink.roots import AllowedRoot
    from ..storage.files import Folder

_WRITTEN_S = 10.0
"""How long a savepoint may look damaged because it is being written."""


@attrs.define
class StoppingSavepoints:
    """Finds the savepoint of the stop of a followed job.

    Attributes:
        place: The folder to which the stop writes it.
        allow_roots: As in `Savepoint.open`.
        earlier: The names of what was there before the job was followed; None: `begin` was not called.
        passed_over: The savepoints that are not the one, by name, each with the reason.
    """

    place: Folder
    allow_roots: tuple[AllowedRoot, ...]
    earlier: frozenset[str] | None = None
    passed_over: dict[str, str] = attrs.field(factory=dict)
    _damaged_s: dict[str, float] = attrs.field(factory=dict)

    def begin(self, noted: Iterable[str] | None) -> None:
        """Pass over what was there before the job was followed.

        Args:
            noted: The names that were noted when the following began; None: it begins now.
        """
        self.earlier = frozenset(self._names() if noted is None else noted)

    def find(self, backends: Collection[str]) -> str:
        """Return the place of the savepoint; "" as long as there is none.

        Args:
            backends: The ids of the backends that are followed.

        Raises:
            CorruptSavepoint: A savepoint is damaged, and is not being written at this moment.
            UntrustedPlace: Its files are elsewhere.
        """
        for name in sorted(self._names() - (self.earlier or frozenset()) - self.passed_over.keys()):
            folder = self.place.folder(name)
            try:
                if not folder.exists(METADATA):
                    continue  # it is not complete
                savepoint = Savepoint.open(folder.place, allow_roots=self.allow_roots)
            except SavepointNotFound:
                continue  # it was deleted
            except CorruptSavepoint:
                if time.monotonic() - self._damaged_s.setdefault(name, time.monotonic()) > _WRITTEN_S:
                    raise
                continue
            if not savepoint.metadata.stops_job:
                self.passed_over[name] = "it does not say that it was taken to stop its job"
            elif _backends(savepoint).isdisjoint(backends):
                self.passed_over[name] = "it has no files of the job that is followed; a canonical one never has"
            else:
                return folder.place
        return ""

    def _names(self) -> set[str]:
        try:
            return {*self.place.names()}
        except SavepointNotFound:
            return set()


def _backends(savepoint: Savepoint) -> set[str]:
    handles = (handle for operator in savepoint.metadata.operators for handle in keyed_handles(operator))
    return {handle.backend_id for handle in handles if isinstance(handle, DatabaseHandle)}
