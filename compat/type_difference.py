"""Types in words, and the difference between two types.

A type in words is an expression: `map<string, tuple<long, pojo fx.Order{id: long, …}>>`.

Snapshots provide the words (`spell`). This module only limits their length: fields of deeply nested records, long lists
of fields and constants, and records that were spelled out before become `…`.

Differences are found by snapshots alone: fields, constants, classes, and nested types, each by path. The result says
what changed; whether state can go from one type to the other is decided by the check. No serializer is asked, so that
no user class is needed, and no family of types is known: snapshots describe themselves (`spell`), and the descriptions
are compared.

Defaults, aliases, retired names and nulls are declared in code, and snapshots do not hold them. A savepoint does not
hold them, so only two sides that are code, or records of code, are compared.
"""

from __future__ import annotations

import enum
import math
from typing import TYPE_CHECKING, Any

import attrs

from ..serializers.compatibility import Path
from ..serializers.containers.lists import MapSerializerSnapshot
from ..serializers.containers.wrappers import without_ttl_awareness
from ..serializers.defaults import Default
from ..serializers.errors import shown
from ..serializers.records.classes import RecordField
from ..serializers.serializer import DECLARED
from ..serializers.snapshot import CompositeTypeSerializerSnapshot, shorten, snapshot_to_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..serializers.serializer import TypeSerializer
    from ..serializers.snapshot import TypeSerializerConfigSnapshot
    from .description import StateDescription

CUT = "…"
DEEPEST = 40
"""The maximum depth: snapshots may be nested 200 deep, which is unreadable and close to the limit of Python's stack."""


def type_text(snapshot: TypeSerializerConfigSnapshot[Any], width: int = 0) -> str:
    """Return the text of a type: fields of records with their types, names of constants; each record once.

    Args:
        snapshot: The snapshot of the type.
        width: The maximum number of characters; details are left out until the text fits. 0: no limit.
    """
    whole = _Speller().part(snapshot)
    if not width or len(whole) <= width:
        return whole
    text = whole
    for detail in _DETAILS:
        text = attrs.evolve(detail).part(snapshot)
        if len(text) <= width:
            return text
    return text[: max(width - len(CUT), 0)] + CUT


def state_type_text(state: StateDescription, width: int = 0) -> str:
    """Return the text of the type of a state's values; broadcast state is a map."""
    snapshot = state.value.snapshot
    if state.key is not None:
        snapshot = MapSerializerSnapshot((state.key.snapshot, snapshot))
    return type_text(snapshot, width)


@attrs.define
class _Speller:
    """The level of detail of one expression.

    Attributes:
        levels: The depth to which nested records are spelled out.
        items: The maximum number of fields or constants of each type.
        has_packages: Whether class names include their packages.
    """

    levels: float = math.inf
    items: float = math.inf
    has_packages: bool = True
    _depth: int = attrs.field(default=0, init=False)
    _opened: int = attrs.field(default=0, init=False)
    _told: set[tuple[str, ...]] = attrs.field(factory=set, init=False)

    def part(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> str:
        if self._depth >= DEEPEST:
            return CUT
        self._depth += 1
        try:
            return snapshot.spell(self)
        finally:
            self._depth -= 1

    def record(
        self, word: str, name: str, fields: Iterable[tuple[str, TypeSerializerConfigSnapshot[Any], bool]]
    ) -> str:
        return self._opening(word, name, {field: _Field(self, snapshot, opt) for field, snapshot, opt in fields})

    def symbols(self, word: str, name: str, symbols: Iterable[str]) -> str:
        return self._opening(word, name, dict.fromkeys(symbols))

    def _opening(self, word: str, name: str, items: dict[str, Callable[[], str] | None]) -> str:
        title = f"{word} {name if self.has_packages else shorten(name).rpartition('$')[2]}"
        identity = (word, name, *items)
        if not items:
            return f"{title}{{}}"
        if self._opened >= self.levels or identity in self._told:
            return f"{title}{{{CUT}}}"
        self._told.add(identity)
        self._opened += 1
        texts: list[str] = []
        for item, type_of in items.items():
            if len(texts) >= self.items:
                texts.append(CUT)
                break
            texts.append(item if type_of is None else f"{item}: {type_of()}")
        self._opened -= 1
        return f"{title}{{{', '.join(texts)}}}"


@attrs.frozen
class _Field:
    """The text of one field's type, computed on call."""

    speller: _Speller
    snapshot: TypeSerializerConfigSnapshot[Any]
    is_optional: bool

    def __call__(self) -> str:
        text = self.speller.part(self.snapshot)
        return f"optional<{text}>" if self.is_optional else text


_DETAILS = tuple(
    _Speller(levels, items, has_packages)
    for levels, items in (
        *((2, items) for items in (math.inf, 8, 4)),
        *((1, items) for items in range(8, 0, -1)),
        (0, 0),
    )
    for has_packages in (True, False)
)
"""The levels of detail, from nearly all to very little; fields are more important than packages."""


if TYPE_CHECKING:
    Snapshot = TypeSerializerConfigSnapshot[Any]

"""The same limit as in `type_text`: snapshots may be nested deeper than Python's stack."""


class Kind(enum.StrEnum):
    """The kind of a change.

    ADDED, REMOVED, RENAMED: a field. TYPE: one type became another. OPTIONAL: whether nulls may be stored. ORDER: the
    order of fields. CONSTANTS: the constants of an enum. CLASS: the class name of a record or enum. TTL: whether values
    have a time stamp. DECLARED: declarations in code alone, such as defaults and aliases. VALUES: types are equal and
    values are not, such as columns of Flink SQL that are computed from others.
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
    VALUES = "values"


@attrs.frozen
class Change:
    """One difference between two types.

    Attributes:
        path: The path from the root `$` of the state's value (compatibility rules, section 3).
        kind: The kind of the change.
        a: The first side in words, or "" if it has none.
        b: The second side in words, or "".
        what: What is declared, such as `default`; "" of any other kind.
    """

    path: Path = attrs.field(converter=Path)
    kind: Kind
    a: str
    b: str
    what: str = ""


@attrs.define
class Shape:
    """A snapshot's description of itself, without nested types."""

    parts: list[Snapshot] = attrs.field(factory=list)
    name: str | None = None
    fields: dict[str, tuple[Snapshot, bool]] | None = None
    constants: tuple[str, ...] | None = None
    outline: str = ""

    @classmethod
    def of(cls, snapshot: Snapshot) -> Shape:
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
    if len(above) >= DEEPEST:
        yield Change(path, Kind.TYPE, a.describe(), b.describe())
        return
    if (a.kind == "ttl") is not (b.kind == "ttl"):
        yield Change(path, Kind.TTL, *("on" if side.kind == "ttl" else "off" for side in (a, b)))
        a, b = (side.children()[1] if side.kind == "ttl" else side for side in (a, b))
        yield from _changes(a, b, path, (*above, pair))
        return
    ours, theirs = Shape.of(a), Shape.of(b)
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
        yield from _changes(one, other, path + step_between(a, one, index), (*above, pair))


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


def step_between(parent: Snapshot, part: Snapshot, index: int) -> str:
    """Return the step of a path to a nested type."""
    place = next((place for place, child in enumerate(parent.children()) if child is part), index)
    if parent.kind in {"record", "pojo"}:
        return f"<{part.describe()}>"  # a subclass
    return parent.step(place) if isinstance(parent, CompositeTypeSerializerSnapshot) else f"({place})"


_STEPS = {"element": "[]", "key": "<key>", "value": "{}"}
_DEEPEST_DECLARED = 60


def compare_declared(a: TypeSerializer[Any], b: TypeSerializer[Any], path: str = "$") -> tuple[Change, ...]:
    """Return what two serializers of the same shape declare differently, except for fields that only one of them has.

    Args:
        a: The first serializer.
        b: The second serializer.
        path: Their path within the state's value.
    """
    return tuple(_declared_changes(a, b, path, ()))


def _declared_changes(a: Any, b: Any, path: str, above: tuple[tuple[int, int], ...]) -> Iterator[Change]:
    if a is b or (id(a), id(b)) in above or len(above) >= _DEEPEST_DECLARED:
        return
    if type(a) is not type(b) or not attrs.has(type(a)) or isinstance(a, type):
        return
    inner = (*above, (id(a), id(b)))
    for field in attrs.fields(type(a)):
        one, other = getattr(a, field.name), getattr(b, field.name)
        if DECLARED.items() <= field.metadata.items():
            if not field.eq:
                continue  # derived from the type, not declared by a person
            words = _words(one), _words(other)
            if one != other and words[0] != words[1]:
                yield Change(path, Kind.DECLARED, *words, field.name.replace("_", " "))
        elif isinstance(one, tuple) and isinstance(other, tuple):
            for step, here, there in _paired(one, other):
                yield from _declared_changes(here, there, path + step, inner)
        else:
            step = b.step.removeprefix(f".{b.name}") if isinstance(b, RecordField) else _STEPS.get(field.name, "")
            yield from _declared_changes(one, other, path + step, inner)


def _paired(ours: tuple[Any, ...], theirs: tuple[Any, ...]) -> Iterator[tuple[str, Any, Any]]:
    """Pair fields by name, and other parts by position."""
    fields = {field.name: field for field in theirs if isinstance(field, RecordField)}
    for index, one in enumerate(ours):
        if isinstance(one, RecordField):
            if one.name in fields:
                yield f".{one.name}", one, fields[one.name]
        elif index < len(theirs):
            yield f"({index})", one, theirs[index]


def _words(value: Any) -> str:
    """Return the text for a declared value; for a factory, for the value that it makes."""
    if isinstance(value, Default):
        try:
            return shown(value.make())
        except Exception:  # noqa: BLE001 - a user's factory may fail in any way; its name is printed then
            return value.describe()
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return {None: "none", True: "yes", False: "no"}.get(value, str(value))
