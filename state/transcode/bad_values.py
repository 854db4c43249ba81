"""Stored values that do not fit their new type: a run quarantines them if that is allowed (rule RUN-4).

A value is bad when its reader, its conversion or its writer fails on it. Wrongly framed bytes are corruption, and two
keys that become one mean that the conversion is wrong, not a value: both end the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ...serializers.errors import ValueNotConvertible, ValuesCollide

if TYPE_CHECKING:
    from ...serializers.errors import StateShiftError


@attrs.frozen
class BadValue:
    """The smallest piece of a state that can be left out: an entry, or an element of an operator's list.

    Attributes:
        key_bytes: The stored key: for a keyed entry with key group, namespace and user key; for a broadcast map the
            map's key; empty for an operator's list.
        value_bytes: The stored value; for a map state that becomes another kind of state, all entries of the key,
            framed as in a block: i32 n, n key bytes, i32 m, m value bytes.
        key: The key as messages show it, or "".
        path: The place in the value, from `$`.
        rule: The id of the rule, or "" if none is cited.
        reason: The text of the failure.
        cause: The class name of the user code's or library's error behind the failure, else of our own error; contains
            no value.
        key_group: The key group; None for operator state.
        user_key: The user key of a map state's entry as messages show it, or "".
    """

    key_bytes: bytes = attrs.field(repr=False)
    value_bytes: bytes = attrs.field(repr=False)
    key: str
    path: str
    rule: str
    reason: str
    cause: str
    key_group: int | None = None
    user_key: str = ""

    @classmethod
    def of(
        cls, error: StateShiftError, key_bytes: bytes, value_bytes: bytes, key_group: int | None = None
    ) -> BadValue | None:
        """Return the bad value behind an error that has its location filled in; None if the cause is no bad value."""
        if not isinstance(error, ValueNotConvertible) or isinstance(error, ValuesCollide):
            return None
        where = error.where
        return cls(
            key_bytes,
            value_bytes,
            str(where.get("key", "")),
            str(where.get("path", "$")),
            str(where.get("rule", "")),
            error.what,
            _class_of(error.__cause__ or error),
            key_group,
        )


def _class_of(error: BaseException) -> str:
    """Return the name of an error's class, with its module if that is neither Python's nor ours: `struct.error`."""
    cls = type(error)
    is_known = cls.__module__ in {"builtins", ValueNotConvertible.__module__}
    return cls.__qualname__ if is_known else f"{cls.__module__}.{cls.__qualname__}"
