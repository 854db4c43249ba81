"""Whole key groups at once, as they lie in a stream: no Python between their blocks, which costs more than little ones.

    u16 state id, entries, u16 next state id, entries, ..., 0xFFFF; a key's first byte tells where the state ends

It is all or nothing. Where anything is not plain (an odd entry, one of another key group, damaged bytes), nothing is
given: who asked goes from block to block then, and finds out. Only machine code does this. Of the speed of a migration
it gives an eighth, with small entries a fourth.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .entry_check import EntryCheck
    from .program import Program


@attrs.frozen
class Treatment:
    """What happens to the entries of a stored state.

    Attributes:
        new_id: The id that they get; None where they are dropped.
        program: The op list that rewrites them; None where they are copied, or dropped.
        check: What they are held against; None: nothing.
    """

    new_id: int | None
    program: Program | None = None
    check: EntryCheck | None = None


@attrs.frozen
class StateTotal:
    """The entries of one state.

    Attributes:
        state_id: As it is stored.
        first: Where the first new one begins; of a state whose entries are dropped it means nothing.
        entries: How many were read, and rewritten, copied or dropped.
        keys_read: The checksum of their keys (`framed`), where they were rewritten.
        keys_written: That of the new ones.
    """

    state_id: int
    first: int
    entries: int
    keys_read: int
    keys_written: int


@attrs.frozen
class NewKeyGroups:
    """New key groups, one behind the other.

    Attributes:
        data: Their bytes, in memory that nobody else has.
        offsets: Where each begins; -1 of one of which all states were dropped.
        totals: Of each state that was met.
    """

    data: memoryview = attrs.field(repr=False)
    offsets: list[int]
    totals: list[StateTotal]


class KeyGroupsExecutor(Protocol):
    """Rewrites whole key groups."""

    def rewrite(self, data: memoryview, begins: Sequence[int], key_groups: Sequence[int]) -> NewKeyGroups | None:
        """Rewrite key groups; give None where an entry is not plain.

        Args:
            data: Key groups, in memory that may be written; they are the same bytes again when it comes back.
            begins: Where each begins.
            key_groups: Which they are.
        """
        ...


def make_key_groups_executor(treatments: Sequence[Treatment], prefix_bytes: int) -> KeyGroupsExecutor:
    """Make who rewrites key groups by machine code; numba must be there.

    Args:
        treatments: By the id of the stored state.
        prefix_bytes: How many bytes of a key tell its key group.
    """
    made: KeyGroupsExecutor = import_module(f"{__package__}.numba_key_groups").NumbaKeyGroups(treatments, prefix_bytes)
    return made
