"""The claim on a state directory: one process at a time runs its query, or copies it."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from ...serializers.errors import TargetExists
from ..publication.target_lock import RunInProgress, claimed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..storage.files import Folder


@contextmanager
def query_claimed(folder: Folder) -> Iterator[None]:
    """Claim a state directory until the `with` block ends.

    Args:
        folder: The folder; if it is missing, it is created, and deleted afterwards if it is empty.

    Raises:
        TargetExists: Its query is running, or is being copied.
    """
    with ExitStack() as claims:
        try:
            claims.enter_context(claimed(folder))
        except RunInProgress as running:
            until = f"; if that process is dead, its claim ends {running.until}" if running.until else ""
            raise TargetExists.before_writing(
                f"the query with the state in {folder} is running, or is being copied: {running.owner}",
                advice="stop it first (query.stop()); another query needs a state directory and a checkpoint of its own"
                + until,
            ) from None
        yield
