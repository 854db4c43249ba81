"""Joining of the tables of a state that was migrated lazily: after a migration of all of them it has one table.

The entries of such a state in one key group are held in memory, as bytes; they are written in the order of their keys.
Source: rule STATE-10; `compat/lazy_tables.py`.
"""

from __future__ import annotations

from heapq import merge
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

import attrs

from ...compat.lazy_tables import is_reduced, number_of
from ...compat.plan import StateAction
from ...serializers.errors import ValuesCollide
from ...serializers.ways_out import Option, WayOut
from ..formats.flink.blocks import Block
from ..storage.prefetch import in_batches, pair_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ...compat.plan import OperatorPlan
    from ..formats.flink.meta_info import StateMetaInfo

_BLOCK_BYTES = 1 << 20


@attrs.frozen
class JoinedTables:
    """Makes one table of several, key group by key group. Created with `of`.

    Attributes:
        ages: The ids of the joined tables in the stored stream, each with its place: 0 for the present table of its
            state, then from the newest to the oldest.
        unordered: The names of those of which it is not known which is newer, by their ids.
    """

    ages: Mapping[int, int]
    unordered: Mapping[int, str] = attrs.field(factory=dict)

    @classmethod
    def of(
        cls, plan: OperatorPlan, infos: Sequence[StateMetaInfo], new_ids: Sequence[int | None]
    ) -> JoinedTables | None:
        """Return what joins those states of a stream that get the same id; None if there are none."""

        def is_older(at: int) -> tuple[bool, int]:
            # The state's own name is free again only for the present form: what has it unconverted is the newest.
            name, state = infos[at].name, plan.state(infos[at].name, keyed=True)
            is_present = not number_of(name) and state is not None and state.action is not StateAction.CONVERT
            return not is_present, -number_of(name)

        tables: dict[int, list[int]] = {}
        for at, new_id in enumerate(new_ids):
            if new_id is not None:
                tables.setdefault(new_id, []).append(at)
        ages = {at: age for found in tables.values() for age, at in enumerate(sorted(found, key=is_older)) if found[1:]}
        return cls(ages, {at: infos[at].name for at in ages if is_reduced(infos[at].name)}) if ages else None

    def blocks(self, found: Iterable[tuple[int, Block]], leave_out: Callable[[int, bytes], None]) -> Iterator[Block]:
        """Yield blocks, those of joined tables as those of one state: each key once, with its newest value.

        Args:
            found: Blocks with their new ids, key group by key group, each with the stored id of its state.
            leave_out: Called with the stored id of a state, and a key of which another table has a newer value.
        """
        for _, in_group in groupby(found, key=lambda one: one[1].key_group):
            held: dict[int, dict[int, list[Block]]] = {}
            for at, block in in_group:
                if at in self.ages:
                    held.setdefault(block.state_id, {}).setdefault(at, []).append(block)
                else:
                    yield block
            for tables in held.values():
                yield from self._joined(tables, leave_out)

    def _joined(self, tables: Mapping[int, list[Block]], leave_out: Callable[[int, bytes], None]) -> Iterator[Block]:
        if len(tables) == 1:
            yield from next(iter(tables.values()))
            return
        first = next(iter(tables.values()))[0]
        entries = merge(*(_sorted(tables[at], self.ages[at], at) for at in tables))

        def newest() -> Iterator[tuple[bytes, bytes]]:
            for key, same in groupby(entries, key=lambda entry: entry[0]):
                (_, _, present, value), *others = same
                if others and present in self.unordered:
                    raise self._collision([present, *(at for _, _, at, _ in others)])
                for _, _, at, _ in others:
                    leave_out(at, key)
                yield key, value

        for pieces in in_batches(newest(), pair_bytes, _BLOCK_BYTES):
            yield Block.of(first.key_group, first.state_id, pieces)

    def _collision(self, places: Iterable[int]) -> ValuesCollide:
        names = sorted(self.unordered[at] for at in places)
        return ValuesCollide(
            f"a key is in {len(names)} states of a keyed reduce of PyFlink, of several starts: {', '.join(names)};"
            " nothing says which start was the last",
            advice=("leave out those of earlier starts:", *(_left_out(name) for name in names)),
            rule="STATE-11",
        )


def _left_out(name: str) -> WayOut:
    return WayOut.telling("this one:", Option.DROP, name)


def _sorted(blocks: Sequence[Block], age: int, at: int) -> Iterable[tuple[bytes, int, int, bytes]]:
    """Return the entries of a table in the order of their keys, which is mostly that in which they are stored."""

    def entries() -> Iterator[tuple[bytes, int, int, bytes]]:
        return ((key, age, at, value) for block in blocks for key, value in block.items())

    ascend = all(one[0] < other[0] for one, other in pairwise(entries()))
    return entries() if ascend else sorted(entries())
