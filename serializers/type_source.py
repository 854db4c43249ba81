"""Python source of stored types: type hints, and the definitions of the classes that they name.

Each snapshot is mapped to the hint whose serializer is compatible with it, by the table of `Ability.SOURCES` of its
family.
"""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING, Any, TypeVar

from .families import Ability, families
from .snapshot import snapshot_to_bytes
from .source_text import Names, quoted, statement, subscript

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from .snapshot import TypeSerializerConfigSnapshot
    from .stored_nulls import StoredNulls

    Snapshot = TypeSerializerConfigSnapshot[Any]
    Source = str | Callable[["TypeSource", Any, "Use"], str]
    """A type hint, or a function that returns one for a snapshot and its use."""
    SourceTable = Mapping[type, Source]
    """The table of `Ability.SOURCES`."""

F = TypeVar("F")

_LONGEST_HINT = 44
_QUALIFIED = re.compile(r"[\w.$]+")
BUILTINS = ("bool", "bytes", "dict", "float", "frozenset", "int", "list", "set", "str", "tuple")


class Use(enum.Enum):
    """What the values of a type are used as."""

    VALUE = enum.auto()
    KEY = enum.auto()
    """Keys of a map, or elements of a set: they must be hashable."""


class NoSourceError(Exception):
    """A type cannot be declared in Python source; the text is the reason."""


class TypeSource:
    """Writes type hints, and collects the definitions of the classes and aliases that they need.

    Args:
        names: The names of the module.
        snapshots: All snapshots whose hints will be requested; only the snapshot of a base class lists its subclasses.
        nulls: The fields and containers in which nulls were found.

    Attributes:
        names: The same.
        snapshots: The same.
        nulls: The same.
        blocks: The definitions as lists of lines, each after the definitions that it needs.
        defined: The names of the defined classes, by the bytes of their snapshots.
        ahead: The names of the classes that are defined later.
        quoted_names: The names in quoted hints, which refer to a class that is defined later.
    """

    def __init__(self, names: Names, snapshots: Iterable[Snapshot], nulls: StoredNulls) -> None:
        self.names = names
        self.snapshots = tuple(snapshots)
        self.nulls = nulls
        self.blocks: list[list[str]] = []
        self.defined: dict[bytes, str] = {}
        self.ahead: set[str] = set()
        self.quoted_names: set[str] = set()
        self._aliases: dict[str, str] = {}
        self._kept: dict[Any, Any] = {}

    def kept(self, make: Callable[[TypeSource], F]) -> F:
        """Return the object in which a family keeps what it knows of this source; it is made on the first call."""
        if make not in self._kept:
            self._kept[make] = make(self)
        found: F = self._kept[make]
        return found

    def try_hint(self, *snapshots: Snapshot) -> tuple[str, ...]:
        """Return the hints of several snapshots; if one has none, discard the definitions of the others.

        Raises:
            NoSourceError: A snapshot has no hint; the text is the reason.
        """
        kept = len(self.blocks), dict(self.defined), dict(self._aliases)
        try:
            return tuple(map(self.hint, snapshots))
        except NoSourceError:
            del self.blocks[kept[0] :]
            self.defined, self._aliases = kept[1:]
            raise

    def hint(self, snapshot: Snapshot, use: Use = Use.VALUE) -> str:
        """Return the hint of a snapshot; a long hint becomes an alias."""
        written = self._hint(snapshot, use)
        if len(written) <= _LONGEST_HINT or self.is_ahead(written):
            return written
        if written not in self._aliases:
            name = self.names.take(f"Stored{snapshot.kind.capitalize()}")
            self.blocks.append(statement(subscript(written), before=f"{name} = "))
            self._aliases[written] = name
        return self._aliases[written]

    def _hint(self, snapshot: Snapshot, use: Use) -> str:
        source: Source | None = families.find(Ability.SOURCES, type(snapshot))
        if source is None:
            raise no_hint(snapshot)
        return source if isinstance(source, str) else source(self, snapshot, use)

    def is_ahead(self, hint: str) -> bool:
        """Whether a hint names a class that is defined later."""
        return not self.ahead.isdisjoint(re.findall(r"\w+", hint))

    def once(self, snapshot: Snapshot, define: Callable[[Any], str]) -> str:
        """Return the name of the class of a snapshot, which `define` defines and returns on the first call."""
        place = snapshot_to_bytes(snapshot)
        if place not in self.defined:
            self.defined[place] = define(snapshot)
        return self.defined[place]


def no_hint(snapshot: Snapshot) -> NoSourceError:
    """Return the error of a type that no type hint describes."""
    return NoSourceError(f"no type hint says {snapshot.describe()}")


def or_none(hint: str) -> str:
    """Return a hint with `| None`, unless it allows None already."""
    return hint if hint == "None" or hint.endswith(" | None") else f"{hint} | None"


def class_options(*, is_java: bool, name: str) -> str:
    """Return the argument of `record` or `enum_options` that says which stored class a class is."""
    return f"java_class={quoted(name)}" if is_java else f"aliases=({quoted(name)},)"


def class_docstring(name: str, what: str, *, is_java: bool) -> str:
    """Return the docstring of a generated class, as a line of its body."""
    whose = "Java" if is_java else "Python"
    text = f"The {whose} {what} {name}." if _QUALIFIED.fullmatch(name) else f"A {whose} {what}."
    return f'    """{text}"""'
