"""A large table in several column families, each with the entries of some key groups: `stateshift/range-0-15/count`.

The families of a table have key groups one after the other, so their entries are in the order of the table. Small
tables, and all those that Flink restores, are one family with the name of the table.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

import attrs

from ...serializers.errors import CorruptSavepoint

if TYPE_CHECKING:
    from collections.abc import Iterable

_NAME = re.compile(r"stateshift/range-([0-9]+)-([0-9]+)/(.+)", re.DOTALL)


@attrs.frozen
class KeyRanges:
    """The key groups of a subtask, and into how many ranges they are divided for large tables.

    Attributes:
        key_groups: The key groups.
        prefix: The number of bytes of a key group before a key.
        count: The number of ranges; 1: every table is one column family.
    """

    key_groups: range
    prefix: int
    count: int = 1

    def parts(self, key_groups: range) -> list[range]:
        """Return some key groups in parts that are about as large as those of all."""
        total = len(key_groups)
        count = min(total, max(1, round(self.count * total / len(self.key_groups))))
        bounds = [key_groups.start + total * at // count for at in range(count + 1)] if total else []
        return [range(*pair) for pair in pairwise(bounds)]

    def start(self, key_group: int) -> bytes:
        """Return what the keys of a key group begin with."""
        return key_group.to_bytes(self.prefix, "big")


def family_of(table: str, key_groups: range) -> str:
    """Return the name of the column family that has some key groups of a table."""
    return f"stateshift/range-{key_groups.start}-{key_groups.stop - 1}/{table}"


def key_groups_of(family: str) -> range | None:
    """Return the key groups that a column family has of its table; None: it has all of them."""
    found = _NAME.fullmatch(family)
    return range(int(found[1]), int(found[2]) + 1) if found else None


def table_of(family: str) -> str:
    """Return the table that a column family is of."""
    found = _NAME.fullmatch(family)
    return found[3] if found else family


def families_of_tables(families: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the column families of each table, in the order of their key groups.

    Raises:
        CorruptSavepoint: Two of them have the same key group.
    """
    tables: dict[str, list[str]] = {}
    for family in families:
        tables.setdefault(table_of(family), []).append(family)
    for table, names in tables.items():
        names.sort(key=lambda name: (key_groups_of(name) or range(0)).start)
        reached = 0
        for name in names if len(names) > 1 else ():
            key_groups = key_groups_of(name)
            if key_groups is None or key_groups.start < reached:
                raise CorruptSavepoint(f"two column families have the same key groups, such as {name!r}", state=table)
            reached = key_groups.stop
    return {table: tuple(names) for table, names in tables.items()}
