"""A running query whose errors begin with the message of our worker, which Spark hides between plans and stacks.

It is imported when a query is started, because it extends a class of pyspark.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

_OURS = re.compile(rf"^{__name__.partition('.')[0]}\.[\w.]*[A-Z]\w*: (.+(?:\n {{2}}.*)*)", re.MULTILINE)
"""An error of ours in the traceback of a worker; its further lines are indented."""


class RunningQuery(StreamingQuery):
    """A query that was started by a job."""

    @classmethod
    def of(cls, query: StreamingQuery) -> RunningQuery:
        """Return a query that Spark has started."""
        return cls(query._jsq)  # noqa: SLF001 - there is no public way to the query of Java

    def awaitTermination(self, timeout: int | None = None) -> bool | None:  # noqa: N802 - Spark's name
        """Wait until it has ended, as Spark's own query does.

        Raises:
            StreamingQueryException: It has failed.
        """
        try:
            return super().awaitTermination(timeout)
        except StreamingQueryException as error:
            raise_told(error)

    def processAllAvailable(self) -> None:  # noqa: N802 - Spark's name
        """Wait until all present rows are processed; raises as `awaitTermination`."""
        try:
            super().processAllAvailable()
        except StreamingQueryException as error:
            raise_told(error)

    def exception(self) -> StreamingQueryException | None:
        """Return the error that it has failed with; None: it has not."""
        error: Any = super().exception()
        return error if error is None else told(error)


def told(error: StreamingQueryException) -> StreamingQueryException:
    """Return an error of a query that begins with the message of our worker; Spark's error is its cause."""
    found = _OURS.findall(str(error))
    if not found:
        return error
    begun = StreamingQueryException(message=found[-1])
    begun.__cause__ = error
    return begun


def raise_told(error: StreamingQueryException) -> NoReturn:
    """Raise an error of a query as `told` returns it."""
    raise told(error)
