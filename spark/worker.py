"""Preparation of a Python worker before its work."""

from __future__ import annotations

import gc
from functools import cache
from typing import TYPE_CHECKING

from ..serializers.errors import redact_values
from ..serializers.registry import registry

if TYPE_CHECKING:
    from ..serializers.registry import Additions


def begin_work(additions: Additions, *, redacted: bool) -> None:
    """Restore the driver's registrations and settings in this process.

    Args:
        additions: What was registered in the driver, from `registry.additions`.
        redacted: Whether values are left out of messages.
    """
    registry.add(additions)
    redact_values(redacted)
    _freeze_once()


@cache
def _freeze_once() -> None:
    """Exclude the objects of loaded libraries from garbage collection: Spark runs a collection after each task.

    It is done once per process, so that what earlier tasks left behind is still collected.
    """
    gc.freeze()
