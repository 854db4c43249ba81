"""Differences between two types by their snapshots alone: fields, constants, classes, and nested types, each by path.

The result says what changed; whether state can go from one type to the other is decided by the check. No serializer is
asked, so that no user class is needed, and no family of types is known: snapshots describe themselves (`spell`), and
the descriptions are compared.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

import attrs

from ..serializers.containers.wrappers import without_ttl_awareness
from ..serializers.snapshot import CompositeTypeSerializerSnapshot, snapshot_to_bytes
from .type_difference import type_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..serializers.snapshot import TypeSerializerConfigSnapshot

    Snapshot = TypeSerializerConfigSnapshot[Any]

_DEEPEST = 40
"""The same limit as in `type_text`: snapshots may be nested deeper than Python's stack."""


class Kind(enum.StrEnum):
    """The kind of a change.

    ADDED, REMOVED, RENAMED: a field. TYPE: one type became another. OPTIONAL: whether nulls may be stored. ORDER: the
    order of fields. CONSTANTS: the constants of an enum. CLASS: the class name of a record or enum. TTL: whether values
    have a time stamp. DECLARED: declarations in code alone, such as defaults and aliases.
    """

    ADDED = "added"
    REMOVED = "removed"
    RENAMED = "renamed"
    TYPE = "type"
    OPTIONAL = "optional"
    ORDER = "order"
    CONSTANTS = "constants"
    CLASS = "class"
    TTL = "ttl"
    DECLARED = "declared"


@attrs.frozen
class Change:
    """One difference between two types.

    Attributes:
        path: The path from the root `$` of the state's value (compatibility rules, section 3).
        kind: The kind of the change.
        a: The first side in words, or "" if it has none.
        b: The second side in words, or "".
    """

    path: str
    kind: Kind
    a: str
    b: str


@attrs.define
class _Shape:
    """A snapshot's description of itself, without nested types."""

    parts: list[Snapshot] = attrs.field(factory=list)
    name: str | None = None
    fields: dict[str, tuple[Snapshot, bool]] | None = None
    constants: tuple[str, ...] | None = None
    outline: str = ""

    @classmethod
    def of(cls, snapshot: Snapshot) -> _Shape:
        shape = cls()
        shape.outline = snapshot.spell(shape)
        return shape

    def part(self, snapshot: Snapshot) -> str:
        self.parts.append(snapshot)
        return "…"

    def record(self, word: str, name: str, fields: Iterable[tuple[str, Snapshot, bool]]) -> str:
        self.name = name
        self.fields = {field: (snapshot, is_optional) for field, snapshot, is_optional in fields}
        return f"{word} {{}}"

    def symbols(self, word: str, name: str, symbols: Iterable[str]) -> str:
        self.name, self.constants = name, tuple(symbols)
        return f"{word} {{}}"


def compare_types(a: Snapshot, b: Snapshot, path: str = "$") -> tuple[Change, ...]:
    """Return the differences between two types; empty if their descriptions are equal.

    Args:
        a: The first snapshot.
        b: The second snapshot.
        path: Their path within the state's value.
    """
    return tuple(_changes(a, b, path, ()))


def _changes(a: Snapshot, b: Snapshot, path: str, above: tuple[tuple[int, int], ...]) -> Iterator[Change]:
    a, b = without_ttl_awareness(a), without_ttl_awareness(b)
    pair = (id(a), id(b))
    if pair in above or snapshot_to_bytes(a) == snapshot_to_bytes(b):
        return
    if len(above) >= _DEEPEST:
        yield Change(path, Kind.TYPE, a.describe(), b.describe())
        return
    if (a.kind == "ttl") is not (b.kind == "ttl"):
        yield Change(path, Kind.TTL, *("on" if side.kind == "ttl" else "off" for side in (a, b)))
        a, b = (side.children()[1] if side.kind == "ttl" else side for side in (a, b))
        yield from _changes(a, b, path, (*above, pair))
        return
    ours, theirs = _Shape.of(a), _Shape.of(b)
    if ours.outline != theirs.outline or len(ours.parts) != len(theirs.parts):
        yield Change(path, Kind.TYPE, type_text(a), type_text(b))
        return
    if ours.name is not None and theirs.name is not None and ours.name != theirs.name:
        yield Change(path, Kind.CLASS, ours.name, theirs.name)
    if ours.constants is not None and theirs.constants is not None and ours.constants != theirs.constants:
        yield Change(path, Kind.CONSTANTS, ", ".join(ours.constants), ", ".join(theirs.constants))
    if ours.fields is not None and theirs.fields is not None:
        yield from _field_changes(ours.fields, theirs.fields, path, (*above, pair))
    for index, (one, other) in enumerate(zip(ours.parts, theirs.parts, strict=True)):
        yield from _changes(one, other, path + _step(a, one, index), (*above, pair))


def _field_changes(
    ours: dict[str, tuple[Snapshot, bool]],
    theirs: dict[str, tuple[Snapshot, bool]],
    path: str,
    above: tuple[tuple[int, int], ...],
) -> Iterator[Change]:
    for name, (snapshot, _) in ours.items():
        if name not in theirs:
            yield Change(f"{path}.{name}", Kind.REMOVED, type_text(snapshot), "")
    for name, (snapshot, _) in theirs.items():
        if name not in ours:
            yield Change(f"{path}.{name}", Kind.ADDED, "", type_text(snapshot))
    common = [name for name in ours if name in theirs]
    if common != [name for name in theirs if name in ours]:
        yield Change(path, Kind.ORDER, ", ".join(ours), ", ".join(theirs))
    for name in common:
        (one, was_optional), (other, is_optional) = ours[name], theirs[name]
        if was_optional is not is_optional:
            words = ("may be null" if optional else "never null" for optional in (was_optional, is_optional))
            yield Change(f"{path}.{name}", Kind.OPTIONAL, *words)
        mark = "?" if is_optional and other.kind != "optional" else ""
        yield from _changes(one, other, f"{path}.{name}{mark}", above)


def _step(parent: Snapshot, part: Snapshot, index: int) -> str:
    """Return the step of a path to a nested type."""
    place = next((place for place, child in enumerate(parent.children()) if child is part), index)
    if parent.kind in {"record", "pojo"}:
        return f"<{part.describe()}>"  # a subclass
    return parent.step(place) if isinstance(parent, CompositeTypeSerializerSnapshot) else f"({place})"
