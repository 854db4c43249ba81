"""Python source as text: quoted strings, names, and calls laid out as a formatter does it.

The names and strings come from a savepoint, where a state may have any name, so all of them are quoted or escaped.
"""

from __future__ import annotations

import keyword
import re
import textwrap
import unicodedata
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
