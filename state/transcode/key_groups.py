"""Rewriting of whole key groups as they lie in a stream, without running Python code between their small blocks.

    u16 state id, entries, u16 next state id, entries, ..., 0xFFFF; a key's first byte shows where the state ends

It is all or nothing: if any entry is unusual (odd, of another key group, damaged), the result is None, and the caller
goes block by block to handle or report it. Only machine code does this. It accounts for an eighth of the speed of a
migration, with small entries for a fourth.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .entry_check import EntryCheck
    from .numba_executor import NumbaKeyGroups
    from .program import Program


@attrs.frozen
class Treatment:
    """What happens to the entries of a stored state.

    Attributes:
        new_id: The new state id; None if the entries are dropped.
        program: The op list that rewrites them; None if they are copied or dropped.
        check: The check of the entries; None if they are not checked.
    """

    new_id: int | None
    program: Program | None = None
    check: EntryCheck | None = None


@attrs.frozen
class StateTotal:
    """Statistics of the entries of one state.

    Attributes:
        state_id: The stored state id.
        first: The offset of the first new entry; meaningless if the entries are dropped.
        entries: The number of entries read and then rewritten, copied or dropped.
        keys_read: The checksum of their keys (`frames`), if they were rewritten.
        keys_written: The checksum of the new keys, if they were rewritten.
    """

    state_id: int
    first: int
    entries: int
    keys_read: int
    keys_written: int


@attrs.frozen
class NewKeyGroups:
    """New key groups, one after the other.

    Attributes:
        data: Their bytes, in a buffer that nothing else uses.
        offsets: The offset of each key group; -1 if all its states were dropped.
        totals: The statistics of each state that has entries.
    """

    data: memoryview = attrs.field(repr=False)
    offsets: list[int]
    totals: list[StateTotal]


def make_key_groups_executor(treatments: Sequence[Treatment], prefix_bytes: int) -> NumbaKeyGroups:
    """Return an executor that rewrites key groups by machine code; numba must be installed.

    Args:
        treatments: The treatment of each stored state, by its id.
        prefix_bytes: The number of key bytes that hold the key group.
    """
    made: NumbaKeyGroups = import_module(f"{__package__}.numba_executor").NumbaKeyGroups(treatments, prefix_bytes)
    return made
