"""Pairing of new fields with stored ones, by name, then by alias; for records, rows, Avro and pickles.

Source: compatibility rules, section 5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import attrs

from .compatibility import Finding, Flag, Flagged, Verdict
from .errors import DeclarationError
from .ways_out import WayOut, by_migration

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence


class _Stored(Protocol):
    @property
    def name(self) -> str: ...


class _Declared(_Stored, Protocol):
    @property
    def aliases(self) -> tuple[str, ...]: ...


F = TypeVar("F", bound=_Declared)
S = TypeVar("S", bound=_Stored)


@attrs.frozen
class Pairing(Generic[F, S]):
    """New fields paired with stored ones; `added` and `removed` are the unpaired rest of either side."""

    paired: tuple[tuple[F, S], ...]
    added: tuple[F, ...]
    removed: tuple[S, ...]

    @property
    def stored_order(self) -> list[str]:
        """The new names of the paired fields, in stored order."""
        return [field.name for field, _ in self.paired]


def pair_fields(fields: Sequence[F], stored: Sequence[S]) -> Pairing[F, S]:
    """Pair fields by name, then by alias, in listed order.

    Raises:
        DeclarationError: Two new fields claim one stored field, or aliases form a cycle.
    """
    names = {field.name for field in stored}
    claims = claims_of(fields, {name: name for name in names}, names)
    paired = tuple((claims[field.name], field) for field in stored if field.name in claims)
    taken = {field.name for field, _ in paired}
    return Pairing(
        paired,
        added=tuple(field for field in fields if field.name not in taken),
        removed=tuple(field for field in stored if field.name not in claims),
    )


def claims_of(fields: Iterable[F], direct: Mapping[str, str], stored: Collection[str]) -> dict[str, F]:
    """Return the new field that takes each stored name.

    Args:
        fields: The new fields.
        direct: Name of a new field -> the stored name that it takes without an alias, where there is one.
        stored: The stored names.

    Raises:
        DeclarationError: Two fields claim one stored name, or aliases form a cycle.
    """
    present = {field.name: field for field in fields if field.name in direct}
    _refuse_swaps(present)
    claims = {direct[name]: field for name, field in present.items()}
    for field in fields:
        alias = next((alias for alias in field.aliases if alias in stored), None)
        if field.name in direct or alias is None:
            continue
        if alias in claims:
            raise DeclarationError(
                f"the stored field {alias!r} is claimed by {claims[alias].name!r} and, as an alias, by {field.name!r}",
                advice=f"remove the alias {alias!r} from one of them",
            )
        claims[alias] = field
    return claims


def gone(
    rule: str, path: str, name: str, kind: str, *, twin: str = "", alias: str = "", what: str = "field"
) -> Finding:
    """Return the finding that a stored field is gone, whose value a migration drops.

    Args:
        rule: The rule of its family.
        path: Its path.
        name: Its name.
        kind: Its type in words.
        twin: A new field that it may have become, or "".
        alias: What to write at that one, if so.
        what: What the family calls a field.
    """
    flags: tuple[Flagged | Flag, ...] = (Flag.DROPS.of(path),)
    ways: tuple[WayOut | str, ...] = (by_migration("the value is dropped"), f"keep the {what} {name!r}")
    reason = f"the {what} is gone; its stored value is dropped"
    if twin:
        flags += (Flag.POSSIBLE_RENAME.of(name, twin),)
        ways = (f"if it is now called {twin!r}: {alias} there", *ways)
        reason += f"; was it renamed to {twin!r}?"
    return Finding(path, rule, Verdict.REQUIRES_MIGRATION, kind, "", reason, ways, flags)


def _refuse_swaps(present: Mapping[str, _Declared]) -> None:
    """Refuse fields that have each other's names as aliases: stored data does not show whether they were swapped.

    Args:
        present: The fields whose names are stored, by name.
    """
    for field in (field for field in present.values() if field.aliases):
        reached, pending = set[str](), [alias for alias in field.aliases if alias != field.name]
        while pending:
            alias = pending.pop()
            if alias in present and alias not in reached:
                reached.add(alias)
                pending += present[alias].aliases
        if field.name in reached:
            raise DeclarationError(
                f"the aliases of {', '.join(map(repr, sorted(reached)))} swap them, and all of these are stored:"
                " it cannot be known whether their values were swapped before",
                advice="remove the aliases, and let a converter swap the values once",
            )
