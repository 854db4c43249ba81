"""Lazy migration: a state whose values are still in old forms, each form in a table of its own.

    account                     the values of the last version, or of one before that was never migrated to its end
    stateshift/lazy-2/account   the values of another version

Bytes have no place to say which version they are of, so no table has values of two. One table is the present one: what
the program writes goes there. What an old table still has is read by its old serializer. Any table but that of the
state's own name has a snapshot that Flink refuses (`LazyMigrationSnapshot`).

A table that has become empty is dropped. When there is none with the state's own name any more, that name is free: it
becomes the present table at the next restore, and the entries move on to it as they are; then the migration is over. A
subtask that has all key groups does this at once. With several it takes a restore, because a table must have one form
in all of them: which table is the present one is decided from what all subtasks stored. Source: runtime notes,
section 5.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.lazy_tables import free_table, number_of, state_in
from ...serializers.containers.wrappers import LazyMigrationSnapshot, without_ttl_awareness
from ...serializers.errors import located
from ...serializers.snapshot import snapshot_to_bytes
from ..formats.flink.blocks import Block
from ..formats.flink.meta_info import VALUE_SERIALIZER
from ..key_groups import prefix_size
from ..migration.block_rewriter import BlockRewriter
from ..transcode.executor_choice import ExecutorName

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ...compat.plan import StatePlan
    from ...serializers.snapshot import TypeSerializerConfigSnapshot
    from ..formats.flink.meta_info import StateMetaInfo
    from ..rocksdb.database import Items


def old_among(tables: Mapping[str, TypeSerializerConfigSnapshot[Any]]) -> list[str]:
    """Return the tables that had an old form when a checkpoint was written: not that of the largest number.

    Args:
        tables: The snapshots of all tables of a state, by name.
    """
    forms = {name: snapshot_to_bytes(without_ttl_awareness(found)) for name, found in tables.items()}
    present = max(tables, key=number_of)
    return [name for name, form in forms.items() if form != forms[present]]


def marked(info: StateMetaInfo, table: str, declared: str) -> StateMetaInfo:
    """Return the description of a state for a table with another name than the state's, and what code declares."""
    marked_info = info.with_snapshots(**{VALUE_SERIALIZER: LazyMigrationSnapshot(info.value, declared)})
    return attrs.evolve(marked_info, name=table)


@attrs.frozen
class Layout:
    """The tables of a state that is migrated lazily, the same in all subtasks.

    Attributes:
        present: The name of the table that is written.
        plans: How the values in the other tables get into its form, by their names; None: they have it.
        declared: What the code of the program declares of its form, for the note in it; "": it is noted elsewhere.
    """

    present: str
    plans: Mapping[str, StatePlan | None]
    declared: str = ""

    @classmethod
    def of(
        cls, state: str, plans: Mapping[str, StatePlan | None], present: str = "", declared: str = ""
    ) -> Layout | None:
        """Return the layout of a state; None where it has one table, as it should be.

        The state's own name is free again only when all values have one form: else the present table is the one with
        the largest number.

        Args:
            state: The name of the state.
            plans: The plans of all stored tables of the state, by name; None: the values have the present form.
            present: The present table in all subtasks, if that was decided from what they all stored.
            declared: As the attribute.
        """
        alike = [name for name, plan in plans.items() if plan is None]
        if state in alike:
            present = state
        elif not present or plans.get(present) is not None:
            is_free = state not in plans and len(alike) == len(plans)
            present = state if is_free else next(iter(alike), free_table(state, plans))
        others = {name: plan for name, plan in plans.items() if name != present}
        return cls(present, others, declared) if others or present != state else None


class OldForm:
    """The values of one table, and how they get into the present form.

    Args:
        info: The description of the table.
        plan: The plan of their conversion; None: they have the present form.
        key: The snapshot of the keys.
        max_parallelism: The number of key groups.

    Attributes:
        name: The name of the table.
        is_present: Whether the values have the present form.
    """

    def __init__(
        self,
        info: StateMetaInfo,
        plan: StatePlan | None,
        key: TypeSerializerConfigSnapshot[Any],
        max_parallelism: int,
    ) -> None:
        self.name = info.name
        self._facts = info, plan, key, max_parallelism
        self._rewriter = BlockRewriter.of(info, plan, key, max_parallelism, ExecutorName.OBJECTS)
        self._prefix = prefix_size(max_parallelism)
        self.is_present = self._rewriter is None

    def copy(self) -> OldForm:
        """Return the same for another thread."""
        return OldForm(*self._facts)

    def block(self, block: Block) -> Block:
        """Return a block of entries in the present form; raises as a migration."""
        if self._rewriter is None:
            return block
        with located(state=state_in(self.name)):
            return self._rewriter.convert(block, block.state_id).block

    def items(self, keys: tuple[bytes, ...], values: tuple[bytes, ...]) -> Items:
        """Return entries in the present form; some may be left out, because they have expired. Raises as `block`."""
        if self._rewriter is None:
            return keys, values
        found = [entry for block in self._blocks(keys, values) for entry in self.block(block).items()]
        return tuple(key for key, _ in found), tuple(value for _, value in found)

    def _blocks(self, keys: tuple[bytes, ...], values: tuple[bytes, ...]) -> Iterator[Block]:
        entries = zip(keys, values, strict=True)
        for prefix, of_group in groupby(entries, key=lambda entry: entry[0][: self._prefix]):
            yield Block.of(int.from_bytes(prefix, "big"), 0, list(of_group))
