"""Types as expressions: `map<string, tuple<long, pojo fx.Order{id: long, …}>>`.

Snapshots provide the words (`spell`). This module only limits their length: fields of deeply nested records, long lists
of fields and constants, and records that were spelled out before become `…`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import attrs

from ..serializers.containers.lists import MapSerializerSnapshot
from ..serializers.snapshot import shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..serializers.snapshot import TypeSerializerConfigSnapshot
    from .description import StateDescription

CUT = "…"
_DEEPEST = 40
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
        if self._depth >= _DEEPEST:
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
