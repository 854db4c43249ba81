"""The names of the tables that a state has while it is migrated lazily; `lazy_forms` says what they are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_NAME = re.compile(r"stateshift/lazy-([0-9]+)/(.+)", re.DOTALL)


def state_in(table: str) -> str:
    """Return the state whose values a table has."""
    found = _NAME.fullmatch(table)
    return found[2] if found else table


def versions_of(tables: Iterable[str]) -> dict[str, int]:
    """Return which version of its state each table has, by name: of those states that are migrated lazily.

    The table with the state's own name has version 1.
    """
    names = list(tables)
    lazy = {state_in(name) for name in names if state_in(name) != name}
    return {name: number_of(name) or 1 for name in names if state_in(name) in lazy}


def tables_of(state: str, names: Iterable[str]) -> list[str]:
    """Return those names that are tables of a state, that of its own name first."""
    return sorted((name for name in names if state_in(name) == state), key=number_of)


def free_table(state: str, names: Iterable[str]) -> str:
    """Return the name of a further table of a state, with a number that is larger than those there are."""
    numbers = [int(found[1]) for name in names if (found := _NAME.fullmatch(name)) and found[2] == state]
    return f"stateshift/lazy-{max(numbers, default=1) + 1}/{state}"


def number_of(table: str) -> int:
    """Return the number in the name of a table; 0: it has the state's own name."""
    found = _NAME.fullmatch(table)
    return int(found[1]) if found else 0
