"""A value that does not fit its new type, as it is stored: what a run puts into quarantine where it may (rule RUN-4).

Only what a value makes fail is bad: its reader, its conversion, its writer. Bytes that are not framed as they should be
are damage, and two keys that become one say that the conversion is wrong, not a value: both end the run.
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
        key_bytes: The key as it is stored: of an entry with key group, namespace and user key; of a broadcast map the
            map's key; of an operator's list nothing.
        value_bytes: The value as it is stored; of a map state that becomes one of another kind, all entries of the key,
            as in a block: i32 n, n key bytes, i32 m, m value bytes.
        key: The key as messages show it, or "".
        path: Where in the value, from `$`.
        rule: Of the rules, or "" where none is cited.
        reason: What failed, as a message says it.
        cause: Class of the error of the user's code or a library behind it, else of our own; tells no value.
        key_group: Of keyed state.
        user_key: Of map state: the user key as messages show it, or "".
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
        """Take the facts from an error whose places are told; None where no bad value is behind it."""
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
    """Name a class of errors, with its module where that is neither Python's nor ours: `struct.error`."""
    cls = type(error)
    is_known = cls.__module__ in {"builtins", ValueNotConvertible.__module__}
    return cls.__qualname__ if is_known else f"{cls.__module__}.{cls.__qualname__}"
