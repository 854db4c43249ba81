"""Python source of stored types: type hints, and the definitions of the classes that they name.

Each snapshot is mapped to the hint whose serializer is compatible with it, by the table of `Ability.SOURCES` of its
family. Which record fields and containers hold nulls, which Flink's snapshots do not record, is seen in stored values
(`StoredNulls`): each family knows how to look into them, by the table of `Ability.NULLS`.

Quoted strings, names, and calls are laid out as a formatter does it. The names and strings come from a savepoint, where
a state may have any name, so all of them are quoted or escaped.
"""

from __future__ import annotations

import enum
import keyword
import re
import textwrap
import unicodedata
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from .families import Ability, families
from .snapshot import snapshot_to_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from .snapshot import TypeSerializerConfigSnapshot

if TYPE_CHECKING:
    Look = Callable[["StoredNulls", Any, Any], None]
    """Notes the nulls in a value of a snapshot."""
    NullTable = Mapping[type, Look]
    """The table of `Ability.NULLS`."""


@attrs.frozen
class StoredNulls:
    """The fields and containers in which a null was found.

    Attributes:
        fields: The record fields that were null at least once, as (class, field).
        containers: Maps with null values and sets with null elements, as the bytes of their snapshots.
    """

    fields: set[tuple[str, str]] = attrs.field(factory=set)
    containers: set[bytes] = attrs.field(factory=set)

    def has_field(self, record_name: str, field: str) -> bool:
        """Whether this field of a record was null at least once."""
        return (record_name, field) in self.fields

    def has_item(self, container: TypeSerializerConfigSnapshot[Any]) -> bool:
        """Whether a value of this kind of map, or an element of this kind of set, was null at least once."""
        return snapshot_to_bytes(container) in self.containers

    def add_container(self, container: TypeSerializerConfigSnapshot[Any]) -> None:
        """Note that a value of this kind of map, or an element of this kind of set, was null."""
        self.containers.add(snapshot_to_bytes(container))

    def look(self, value: Any, snapshot: TypeSerializerConfigSnapshot[Any]) -> None:
        """Find the nulls in a value, as the generic reader of its snapshot returns it."""
        look: Look | None = None if value is None else families.find(Ability.NULLS, type(snapshot))
        if look is not None:
            look(self, value, snapshot)


WIDTH = 88
"""The default line length of ruff and black; formatters that allow longer lines leave such source unchanged."""

_LONGEST_NAME = 36


def quoted(text: str) -> str:
    """Return a string literal, with the quotes that a formatter prefers."""
    quote = "'" if '"' in text and "'" not in text else '"'
    return quote + "".join(_escaped(character, quote) for character in text) + quote


def _escaped(character: str, quote: str) -> str:
    if character == "\\":
        return "\\\\"
    if character.isprintable() and character != quote:
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def plain(text: str) -> str:
    """Return text for a docstring: escaped where it is not printable or would end the docstring."""
    return "".join(_escaped(character, '"') for character in text)


def comment(text: str, *, hanging: str = "") -> list[str]:
    """Return text as the wrapped lines of a comment; `hanging` indents all lines but the first."""
    printable = "".join(character if character.isprintable() else _escaped(character, "") for character in text)
    return textwrap.wrap(
        printable, WIDTH, initial_indent="# ", subsequent_indent=f"# {hanging}",
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def _expressions(given: Iterable[Expression]) -> tuple[Expression, ...]:
    return tuple(given)


@attrs.frozen
class Group:
    """An expression in brackets: a call, a subscript, a list.

    Attributes:
        head: The text before the items, including the opening bracket: `Operator(`, `Annotated[`, `states=[`.
        items: The items inside the brackets.
    """

    head: str
    items: tuple[Expression, ...] = attrs.field(converter=_expressions)

    def __str__(self) -> str:
        return f"{self.head}{', '.join(map(str, self.items))}{self.tail}"

    @property
    def tail(self) -> str:
        """The closing bracket."""
        return {"(": ")", "[": "]"}[self.head[-1]]


Expression = str | Group


def laid_out(expression: Expression, *, before: str = "", after: str = "", indent: int = 0) -> Iterator[str]:
    """Yield the lines of an expression: one line where it fits, else a line for each item, with a trailing comma.

    Args:
        expression: The expression.
        before: Text before it in its first line: `name: `.
        after: Text after it in its last line: ` = None`.
        indent: The number of spaces before each line.
    """
    margin = " " * indent
    line = f"{margin}{before}{expression}{after}"
    if len(line) <= WIDTH or isinstance(expression, str) or not expression.items:
        yield line
        return
    yield f"{margin}{before}{expression.head}"
    for item in expression.items:
        yield from laid_out(item, after=",", indent=indent + 4)
    yield f"{margin}{expression.tail}{after}"


def statement(expression: Expression, *, before: str = "", after: str = "", indent: int = 0) -> list[str]:
    """Return the lines of a statement; a long line that cannot be split gets `# fmt: skip`."""
    lines = list(laid_out(expression, before=before, after=after, indent=indent))
    if len(lines) == 1 and len(lines[0]) > WIDTH:
        lines[0] += "  # fmt: skip"
    return lines


def subscript(text: str) -> Expression:
    """Return a type hint as an expression that can be laid out: `Row[…]` with two or more types becomes a group."""
    head, bracket, inside = text.partition("[")
    items = _split(inside[:-1]) if bracket and text.endswith("]") else []
    # A comma after a single type would make it a tuple of types.
    return Group(f"{head}[", map(subscript, items)) if len(items) > 1 else text


def _split(text: str) -> list[str]:
    """Split at the commas outside brackets; return [] where the text is not the inside of a single subscript."""
    items, depth = [""], 0
    for character in text:
        depth += {"[": 1, "]": -1}.get(character, 0)
        if depth < 0:
            return []
        if character == "," and not depth:
            items.append("")
        else:
            items[-1] += character
    return [item.strip() for item in items]


def is_name(text: str) -> bool:
    """Whether text is a valid Python name that Python's normalization leaves unchanged."""
    return text.isidentifier() and not keyword.iskeyword(text) and unicodedata.normalize("NFKC", text) == text


def words_of(text: str) -> list[str]:
    """Return the words of a name in any spelling: `account-state`, `accountState`, `account_state`."""
    return re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+", text)


class Names:
    """A pool of names that returns each name only once.

    Args:
        taken: The names that are in use already.
    """

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)

    def __contains__(self, name: object) -> bool:
        return name in self._taken

    def copy(self) -> Names:
        """Return an independent copy with the names taken so far."""
        return Names(self._taken)

    def take(self, *candidates: str) -> str:
        """Return the first candidate that is a free name; where none is, the first valid one with a number."""
        for candidate in candidates:
            if is_name(candidate) and candidate not in self._taken and len(candidate) <= _LONGEST_NAME:
                self._taken.add(candidate)
                return candidate
        stem = next((name for name in candidates if is_name(name)), candidates[-1])[: _LONGEST_NAME - 4]
        number = 2
        while f"{stem}{number}" in self._taken:
            number += 1
        return self.take(f"{stem}{number}")

    def class_name(self, qualified: str, *, fallback: str) -> str:
        """Return a name for a class: its short name, else the short name with as many of its qualifiers as needed."""
        parts = [
            "".join(word[0].upper() + word[1:] for word in words_of(part)) for part in re.split(r"[.$]", qualified)
        ]
        parts = [part for part in parts if part and not part[0].isdigit()] or [fallback]
        return self.take(*("".join(parts[-count:]) for count in range(1, len(parts) + 1)), fallback)

    def variable(self, text: str, *, fallback: str) -> str:
        """Return a name for a variable."""
        name = "_".join(words_of(text)).lower()
        if not name or name[0].isdigit():
            name = f"{fallback}_{name}".rstrip("_")
        return self.take(name, f"{name}_{fallback}", fallback)

    def attribute(self, stored: str) -> str:
        """Return a name for the attribute of a field: the stored name wherever Python allows it."""
        if is_name(stored) and not stored.startswith("_") and stored not in self._taken:
            self._taken.add(stored)
            return stored
        name = re.sub(r"\W", "_", unicodedata.normalize("NFKC", stored)).strip("_")
        if not name or name[0].isdigit():
            name = f"field_{name}".rstrip("_")
        return self.take(name, f"{name}_", f"{name}_field", "field")


if TYPE_CHECKING:
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
