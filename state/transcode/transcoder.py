"""The seam of block transcoding: what callers hold.

A block is a run of entries of one state within one key group:

    i32 n, n key bytes, i32 m, m value bytes, ...

with the end flag (the top bit of a key's first byte) cleared. The caller finds the runs, sets the flag and writes state
ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .bad_values import BadValue
    from .framed import Survey


@attrs.frozen
class Transcoded:
    """A block of new entries.

    Attributes:
        data: The entries, framed as they came; a view is of memory that nobody else has.
        entries: How many were read. Written are those that were neither dropped nor quarantined (rule RUN-2).
        dropped_keys: The keys, as they came, of those that were left out.
        dropped_elements: How many elements of lists were left out, those of lists that were left out whole among them.
        quarantined: Those that do not fit their new type; always empty where the first such value ends the run.
        framed: How many entries `data` holds, where a transform to another kind of state counts keys; else None.
        keys_read: The checksum of the keys of the entries that were read (`framed`), where it was taken on the way.
        seen: What was seen of the entries of `data`, if they were looked at on the way.
    """

    data: bytes | memoryview
    entries: int
    dropped_keys: tuple[bytes, ...] = ()
    dropped_elements: int = 0
    quarantined: tuple[BadValue, ...] = ()
    framed: int | None = None
    keys_read: int | None = attrs.field(default=None, eq=False)
    seen: Survey | None = attrs.field(default=None, eq=False)

    @property
    def dropped(self) -> int:
        """How many entries were left out."""
        return len(self.dropped_keys)

    @property
    def written(self) -> int:
        """How many were neither dropped nor quarantined."""
        return self.entries - self.dropped - len(self.quarantined)

    @property
    def new_entries(self) -> int:
        """How many entries `data` holds."""
        return self.written if self.framed is None else self.framed


@attrs.frozen
class TranscodedElements:
    """New elements of an operator's state.

    Attributes:
        elements: Framed as they came.
        quarantined: As of `Transcoded`.
    """

    elements: tuple[bytes, ...]
    quarantined: tuple[BadValue, ...] = ()


class Transcoder(Protocol):
    """Rewrites blocks of one state."""

    @property
    def needs_whole_run(self) -> bool:
        """Whether a block must hold all of the state's entries in the key group.

        Two old user keys may become one, or all entries of a key are transformed together.
        """
        ...

    def transcode(self, block: bytes | memoryview, prefix: bytes = b"") -> Transcoded:
        """Rewrite a block.

        Args:
            block: Entries.
            prefix: How the keys of the new entries must begin; for who looks at them on the way (`Transcoded.seen`).

        Raises:
            ValueNotConvertible: A value does not fit.
            ValuesCollide: Two user keys become one.
            CorruptSavepoint: The bytes are not entries of this state.

        Both tell state, key, path and rule; `where["offset"]` is the start of the entry within the block, to which the
        caller adds the block's own.
        """
        ...


class ElementTranscoder(Protocol):
    """Rewrites elements of an operator's list state, or the map of a broadcast state."""

    def transcode(self, elements: Sequence[bytes]) -> TranscodedElements:
        """Rewrite elements; raises as `Transcoder.transcode`."""
        ...
