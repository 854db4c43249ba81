"""The facts of one start, which its tasks read from the state directory."""

from __future__ import annotations

from functools import cached_property, lru_cache

import attrs

from ...serializers.errors import DeclarationError, SavepointNotFound
from ...state.directory.directory import Epoch, StateDirectory
from ...state.storage.files import Folder


@attrs.frozen(slots=False)
class Run:
    """One start of a query.

    Attributes:
        directory: The state directory.
        epoch: The epoch.
        number: The number of the start.
        retained: How many batches Spark keeps and may go back to.
        drains: The batch after whose rows event time ends; None: none.
    """

    directory: StateDirectory
    epoch: Epoch
    number: int
    retained: int
    drains: int | None

    @property
    def groups(self) -> tuple[int, ...]:
        """For each slot, the integer by which Spark groups its rows."""
        return self.epoch.groups

    @property
    def max_parallelism(self) -> int:
        """The number of key groups."""
        return self.directory.max_parallelism

    @cached_property
    def slots(self) -> dict[int, int]:
        """Which slot an integer stands for."""
        return {group: slot for slot, group in enumerate(self.groups)}


@attrs.frozen
class RunFacts:
    """Where tasks read them.

    Attributes:
        place: The state directory.
        token: The name of the start.
    """

    place: str
    token: str

    def read(self) -> Run:
        """Read the facts, once in each process and run: a stopped query may be started again by the same job.

        Raises:
            DeclarationError: The query was not started by `StreamJob.start`.
        """
        return _read(self.place, self.token, local_property("spark.jobGroup.id"))

    def read_anew(self) -> Run:
        """Read the facts; raises as `read`."""
        return _read.__wrapped__(self.place, self.token, "")


def local_property(name: str) -> str:
    """Return a property that Spark sets for the tasks of a batch; "": there is none."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return "" if context is None else context.getLocalProperty(name) or ""


@lru_cache(maxsize=16)
def _read(place: str, token: str, _: str) -> Run:
    folder = Folder.at(place)
    try:
        directory = StateDirectory.open(folder)
        begun = directory.run(token)
    except SavepointNotFound as error:
        raise DeclarationError(
            "the query was not started by its job, so it is not known which state it goes on from",
            advice="start it with StreamJob.start(writer) instead of writer.start()",
        ) from error
    return Run(directory, directory.epoch(begun.epoch), begun.number, begun.retained, begun.drains)
