"""The interface of block transcoding.

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
        data: The entries, framed like the old ones; a memoryview is of a buffer that nothing else uses.
        entries: The number of entries read. All are written that are neither dropped nor quarantined (rule RUN-2).
        dropped_keys: The old keys of the entries that were left out.
        dropped_elements: The number of list elements that were left out, including those of lists left out entirely.
        quarantined: The values that do not fit their new type; always empty if the first such value ends the run.
        framed: The number of entries in `data`, if a transform to another kind of state counts keys; else None.
        keys_read: The checksum of the old keys (`framed`), if the transcoder computed it.
        seen: The survey of `data`, if the transcoder made one.
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
        """The number of entries that were left out."""
        return len(self.dropped_keys)

    @property
    def written(self) -> int:
        """The number of entries that were neither dropped nor quarantined."""
        return self.entries - self.dropped - len(self.quarantined)

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
        ...

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
        ...


class ElementTranscoder(Protocol):
    """A transcoder of the elements of an operator's list state, or of the map of a broadcast state."""

    def transcode(self, elements: Sequence[bytes]) -> TranscodedElements:
        """Rewrite elements; raises as `Transcoder.transcode`."""
        ...
