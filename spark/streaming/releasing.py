"""The claim on a state directory, which a query has until it has ended."""

from __future__ import annotations

import threading
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_RELEASES: dict[str, tuple[StreamingQuery, threading.Thread]] = {}
"""The last query of this process on each state directory, and the thread that releases the directory after it."""


def await_release(place: str) -> None:
    """Wait until the last query of this process on a state directory has released it, if that query has ended."""
    if place in _RELEASES:
        query, release = _RELEASES[place]
        with suppress(Exception):  # Java is gone, and the query with it
            if query.isActive:
                return
        release.join()


def release_at_end(place: str, query: StreamingQuery, claims: ExitStack) -> None:
    """Release a state directory when its query has ended, however it did."""
    release = threading.Thread(target=_released, args=(query, claims), daemon=True)
    release.start()
    _RELEASES[place] = query, release


def _released(query: StreamingQuery, claims: ExitStack) -> None:
    with claims, suppress(Exception):  # the caller of the query learns how it ended
        query.awaitTermination()
