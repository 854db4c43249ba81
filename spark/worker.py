"""What a Python worker does before its work."""

from __future__ import annotations

import gc
from functools import cache
from typing import TYPE_CHECKING

from ..serializers.errors import redact_values
from ..serializers.registry import registry

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def begin_work(snapshots: Mapping[str, Any], *, redacted: bool) -> None:
    """Know in this process what the driver knew.

    Args:
        snapshots: Classes that were registered, of `registry.additions`.
        redacted: Whether values are kept out of messages.
    """
    registry.add(dict(snapshots))
    redact_values(redacted)
    _freeze_once()


@cache
def _freeze_once() -> None:
    """Take what the libraries keep alive out of every collection: Spark asks for one after each task.

    Once for a process: what earlier tasks have left behind is to be collected.
    """
    gc.freeze()
