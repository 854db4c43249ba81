"""The error about a value that does not fit says how many others do not, which are counted only then."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...serializers.errors import ValueNotConvertible, ValuesCollide

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...compat.plan import MigrationPlan
    from ..savepoint.reader import Savepoint


@contextmanager
def failures_counted(savepoint: Savepoint, plan: MigrationPlan) -> Iterator[None]:
    """Add to the error about a value that does not fit how many values of its state do not.

    Args:
        savepoint: The source of the migration.
        plan: Its plan.
    """
    try:
        yield
    except ValuesCollide:
        raise
    except ValueNotConvertible as error:
        from .scan import count_like

        error.options = (*error.options, *count_like(error, savepoint, plan))
        raise
