"""The error policy of an operator: what it does with an element that it cannot process.

The policy is no stored state: another one may be chosen at each start.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.errors import DeclarationError, StateShiftError, ValueNotConvertible, cause_text, shown
from ...serializers.rows.values import Row
from ..runtime.output_tag import OutputTag

if TYPE_CHECKING:
    from typing import TypeAlias

FAIL, SKIP = POLICIES = ("fail", "skip")
ErrorPolicy: TypeAlias = "str | OutputTag"
"""`FAIL`, `SKIP`, or the tag of the side output for failed elements."""


@attrs.frozen
class FailedElement:
    """An element, timer or row that an operator could not process: a value of the side output of its error policy.

    Attributes:
        element: The element as JSON; None: a timer.
        key: Its key as JSON; None: it has none.
        error: What was raised.
    """

    element: str | None
    key: str | None
    error: str


def check_policy(policy: Any) -> None:
    """Raise `DeclarationError` for an unknown error policy."""
    if not isinstance(policy, OutputTag) and policy not in POLICIES:
        raise DeclarationError(
            f"{shown(policy)} is not what can be done with an element that fails",
            advice=f"pass {', '.join(map(repr, POLICIES))} or an OutputTag as on_error",
        )
    if isinstance(policy, OutputTag) and policy.type_info not in (None, FailedElement):
        raise DeclarationError(
            f"the side output {policy.tag_id!r} for failed elements has values of FailedElement",
            advice=f'write OutputTag("{policy.tag_id}")',
        )


def may_be_passed_over(error: Exception) -> bool:
    """Whether an error is about an element, and not about a store, stored bytes, a declaration, or memory."""
    if isinstance(error, StateShiftError):
        return isinstance(error, ValueNotConvertible)
    return not isinstance(error, MemoryError)


def error_text(error: Exception) -> str:
    """Return what was raised, in a line."""
    return error.what if isinstance(error, StateShiftError) else cause_text(error)


def as_json(value: Any) -> str:
    """Return an element or key as JSON; a value that JSON cannot express becomes a text."""
    try:
        return json.dumps(value, default=_parts, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):  # keys of a map that are no texts; parts within themselves
        return json.dumps(shown(value))


def _parts(value: Any) -> Any:
    if isinstance(value, Row) and value._names:  # noqa: SLF001 - columns may have any name
        return value._asdict()
    if isinstance(value, Row | set | frozenset):
        return list(value)
    names = [field.name for field in getattr(type(value), "__attrs_attrs__", ())]
    names = names or list(getattr(type(value), "__dataclass_fields__", ()))
    return {name: getattr(value, name) for name in names} if names else str(value)
