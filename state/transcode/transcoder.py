"""The interface of block transcoding.

A block is a run of entries of one state within one key group:

    i32 n, n key bytes, i32 m, m value bytes, ...

with the end flag (the top bit of a key's first byte) cleared. The caller finds the runs, sets the flag and writes state
ids.

A value is bad when its reader, its conversion or its writer fails on it: a run quarantines it if that is allowed (rule
RUN-4). Wrongly framed bytes are corruption, and two keys that become one mean that the conversion is wrong, not a
value: both end the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import attrs

from ...serializers.errors import ValueNotConvertible, ValuesCollide

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...serializers.errors import StateShiftError
    from .frames import Survey


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


@attrs.frozen
class Transcoded:
    """A block of new entries.

    Attributes:
        data: The entries, framed like the old ones; a memoryview is of a buffer that nothing else uses.
        entries: The number of entries read. All are written that are neither dropped, quarantined nor merged (RUN-2).
        dropped_keys: The old keys of the entries that were left out.
        dropped_elements: The number of list elements that were left out, including those of lists left out entirely.
        quarantined: The values that do not fit their new type; always empty if the first such value ends the run.
        merged: The number of entries that were merged into others, since their keys became equal.
        framed: The number of entries in `data`, if a transform to another kind of state counts keys; else None.
        keys_read: The checksum of the old keys (`frames`), if the transcoder computed it.
        seen: The survey of `data`, if the transcoder made one.
    """

    data: bytes | memoryview
    entries: int
    dropped_keys: tuple[bytes, ...] = ()
    dropped_elements: int = 0
    quarantined: tuple[BadValue, ...] = ()
    merged: int = 0
    framed: int | None = None
    keys_read: int | None = attrs.field(default=None, eq=False)
    seen: Survey | None = attrs.field(default=None, eq=False)

    @property
    def dropped(self) -> int:
        """The number of entries that were left out."""
        return len(self.dropped_keys)

    @property
    def written(self) -> int:
        """The number of entries that were neither dropped, quarantined nor merged into others."""
        return self.entries - self.dropped - len(self.quarantined) - self.merged

    @property
    def new_entries(self) -> int:
        """The number of entries in `data`."""
        return self.written if self.framed is None else self.framed


@attrs.frozen
class TranscodedElements:
    """New elements of an operator's state.

    Attributes:
        elements: The elements, in the order of the old ones.
        quarantined: The values that do not fit their new type.
    """

    elements: tuple[bytes, ...]
    quarantined: tuple[BadValue, ...] = ()


class Transcoder(Protocol):
    """A transcoder of the blocks of one state."""

    @property
    def needs_whole_run(self) -> bool:
        """Whether a block must hold all of the state's entries in the key group.

        This is so if two old user keys may become one, or all entries of a key are transformed together.
        """

    def transcode(self, block: bytes | memoryview, prefix: bytes = b"") -> Transcoded:
        """Rewrite a block.

        Args:
            block: Entries.
            prefix: The bytes that the new keys must begin with; only used for the survey (`Transcoded.seen`).

        Raises:
            ValueNotConvertible: A value does not fit its new type.
            ValuesCollide: Two user keys become one.
            CorruptSavepoint: The bytes are not entries of this state.

        The errors have state, key, path and rule; `where["offset"]` is the start of the entry within the block, to
        which the caller adds the offset of the block.
        """


class ElementTranscoder(Protocol):
    """A transcoder of the elements of an operator's list state, or of the map of a broadcast state."""

    def transcode(self, elements: Sequence[bytes]) -> TranscodedElements:
        """Rewrite elements; raises as `Transcoder.transcode`."""
