"""What shows that PyFlink has laid state out, before its layouts are looked at: names of states, and keys in rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..serializers.snapshot import TypeSerializerConfigSnapshot
    from .description import JobDescription, OperatorDescription

PREFIX = "python-state-"
"""What the name of a state in process mode begins with."""


def may_be_of_pyflink(job: JobDescription) -> bool:
    """Whether a state has a name of process mode, or a key is a row of one column."""
    return any(
        has_row(one) or any((state.stored_name or state.name).startswith(PREFIX) for state in one.states)
        for one in job.operators
    )


def has_row(operator: OperatorDescription) -> bool:
    """Whether the key is a row of one column, as PyFlink's are."""
    return operator.key is not None and column_of(operator.key.snapshot) is not None


def column_of(snapshot: TypeSerializerConfigSnapshot[Any]) -> TypeSerializerConfigSnapshot[Any] | None:
    """Return the one column of a row; None for a row of several, and for any other type."""
    children = snapshot.children() if snapshot.kind == "row" else ()
    return children[0] if len(children) == 1 else None
