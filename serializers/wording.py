r"""Wording of counts, articles, suggestions and ways out, and escaping of text from files.

There is one function for each form of escaped text, for people and for other programs. A state may have any name. A
line break in it would forge a line of output, a bidirectional override would show different text, and half a surrogate
pair cannot be encoded. Whatever `str.isprintable` rejects (control characters, C1 too, line and paragraph separators,
formatting characters, surrogates, unassigned code points, spaces except the plain one) is written as Python would:
`\n`, `\x1b`, `\u202e`.

    one_line        a line, or a part of one, wherever people read it: messages, tables, SARIF, JUnit, Spark's pages
    log_line        a whole line that is printed: a CI system does not take it for a command either
    github_command  a workflow command of GitHub
    markdown_text   text in Markdown as GitHub shows it, in cells of tables too; markdown_code  a code span of it
    json_text       JSON, whose strings read back as they were
    shell_word      a word of a command that a person copies

Code that renders produces lines, never text with line breaks, so any line break comes from outside.
"""

from __future__ import annotations

import codecs
import difflib
import json
import re
import shlex
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .ways_out import WayOut


def many(count: int, what: str, plural: str = "") -> str:
    """Return `1 state`, `2 states`, `9,996 entries`; `plural` is for words whose plural is not formed with an s."""
    return f"{count:,} {what if count == 1 else plural or what + 's'}"


def size_text(size_bytes: int) -> str:
    """Return a size as people read it."""
    size, unit = float(size_bytes), "B"
    for bigger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, bigger
    return f"{size_bytes} B" if unit == "B" else f"{size:.1f} {unit}"


def one(what: str) -> str:
    """Return a word with its article: `a long`, `an int`."""
    return f"an {what}" if what[:1].lower() in tuple("aeiou") else f"a {what}"


def meant(name: str, names: Iterable[str]) -> str:
    """Return `; did you mean 'account'?` with the closest of `names`, or "" if none is close."""
    close = difflib.get_close_matches(name, list(names), 1)
    return f"; did you mean {close[0]!r}?" if close else ""


class Advice:
    """Says what to write in Python so that a finding goes away."""

    def same_record(self, name: str) -> str:
        """Return how to declare that the stored record of that name is the same one."""
        return f"if it is the same class: @record(aliases=[{name!r}])"

    def same_enum(self, name: str) -> str:
        """Return how to declare that the stored enum of that name is the same one."""
        return f"if it is the same enum: @enum_options(aliases=({name!r},))"

    def field_alias(self, stored: str) -> str:
        """Return how to declare a former name of a field."""
        return f"Field(aliases=[{stored!r}])"

    def default(self, name: str, *, optional: bool) -> str:
        """Return how to declare a default for a field."""
        return f"give it a default: {name} = {'None' if optional else '…'}"

    def optional(self, name: str) -> str:
        """Return how to declare that a field may be null."""
        return f"declare it optional: {name}: … | None"

    def on_none(self, name: str) -> tuple[WayOut | str, ...]:
        """Return how to declare what a stored null becomes; empty where that cannot be declared."""
        return (f"say what a null becomes: Field(on_none=…) on {name}",)

    def subclass(self, name: str) -> tuple[WayOut | str, ...]:
        """Return how to declare a stored subclass, or what it became."""
        return ("declare the subclass with @record", f"declare what it became: @record(aliases=[{name!r}])")

    def symbol_alias(self, stored: str, present: str) -> WayOut | str:
        """Return how to declare a former name of an enum's symbol."""
        return f"if it is now called {present!r}: @enum_options(symbol_aliases={{{present!r}: ({stored!r},)}})"

    def enum_default(self) -> str:
        """Return how to declare a symbol that replaces stored symbols which are gone."""
        return "name a symbol for those that are gone: @enum_options(default=…)"


PYTHON = Advice()


_COMMAND = re.compile(r"^\s*:(?=:)|#(?=#\w*\[)")
"""The commands that GitHub (`::error::`, `##[error]`), Azure (`##vso[`) and TeamCity (`##teamcity[`) run from a log."""


def one_line(text: str) -> str:
    """Return text without anything that breaks a line, moves the cursor, or is invisible; idempotent."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def log_line(text: str) -> str:
    r"""Return a line for a log in which a CI system finds no command: `::error::` becomes `\x3a:error::`."""
    return _COMMAND.sub(lambda found: f"{found[0][:-1]}\\x{ord(found[0][-1]):02x}", one_line(text))


def github_command(name: str, properties: Mapping[str, str], lines: Iterable[str]) -> str:
    """Return a GitHub workflow command; its text has one line for each of `lines`.

    Source: GitHub's documentation of workflow commands, and `escapeData` and `escapeProperty` of actions/toolkit.
    """
    given = ",".join(f"{key}={_percent(one_line(value), '%:,')}" for key, value in properties.items())
    return f"::{name} {given}".rstrip() + "::" + "%0A".join(_percent(one_line(line), "%") for line in lines)


def _percent(text: str, characters: str) -> str:
    for character in characters:  # the percent sign first
        text = text.replace(character, f"%{ord(character):02X}")
    return text


_OF_MARKDOWN = re.compile(
    r"[\\`*\[\]|~]"  # code, emphasis, links, cells, struck out
    r"|(?<!\w)_|_(?!\w)"
    r"|(?<=www)\.|:(?=//)"  # what GitHub makes links of
    r"|[<>&@#$]",
    re.IGNORECASE,
)


def markdown_text(text: str) -> str:
    """Return text within a line of Markdown that GitHub shows as it is: no markup, HTML, link, mention or formula.

    Source: GitHub Flavored Markdown; and GitHub's documentation of mentions, references (`#1`) and mathematics, which
    are looked for in what Markdown has become: an element around their first character keeps them from being found.
    """
    return _OF_MARKDOWN.sub(_in_markdown, one_line(text))


def _in_markdown(found: re.Match[str]) -> str:
    if found[0] in "@#$":
        return f"<span>{found[0]}</span>"
    return f"&#{ord(found[0])};" if found[0] in "<>&:" else f"\\{found[0]}"


def markdown_code(text: str) -> str:
    """Return text as code within a line of Markdown, in a cell of a table, too."""
    text = one_line(text)
    if text.strip() == text and not set(text) & set("`|") and text:
        return f"`{text}`"
    return f"<code>{''.join(c if c.isalnum() or c == ' ' else f'&#{ord(c)};' for c in text)}</code>"


def json_text(document: object, *, indent: int | None = None, with_nan: bool = True) -> str:
    """Return a document as JSON, in which whatever is not printable is escaped as JSON does; letters are letters.

    Args:
        document: Plain data.
        indent: The indentation of each level; None: everything in one line.
        with_nan: Whether Python's NaN and Infinity, which JSON does not have, are allowed; else `ValueError`.
    """
    text = _encoder(indent, with_nan).encode(document)
    return "\n".join(map(_json_line, text.split("\n")))


@cache
def _encoder(indent: int | None, with_nan: bool) -> json.JSONEncoder:  # noqa: FBT001 - of `json_text`
    return json.JSONEncoder(indent=indent, ensure_ascii=False, allow_nan=with_nan)


def encodable_json(text: str, encoding: str) -> str:
    """Return JSON in which characters that an encoding lacks are escaped; they stand in strings alone."""
    return text.encode(encoding, _ESCAPED).decode(encoding)


def _escaped(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)  # noqa: S101 - it is registered for encoding
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


_ESCAPED = "stateshift-json"
codecs.register_error(_ESCAPED, _escaped)


def _json_line(line: str) -> str:
    line = line.replace("\x7f", r"\u007f")  # `json.dumps` leaves this one
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in line)


def repr_of(thing: object, *told: str) -> str:
    """Return the `repr` of a result: its class, what it is, and in further lines what it says; "" is left out.

    What is read from files cannot break a line of it, and the credentials of URIs are masked.
    """
    lines = "\n  ".join(one_line(masked(line)) for line in told if line)
    return f"<{type(thing).__name__} {lines}>"


def shell_word(text: str) -> str:
    r"""Return text as one word of an sh command; if it is not printable, in the form of bash and zsh: `$'a\nb'`."""
    if text.isprintable():
        return shlex.quote(text)
    return "$'" + "".join(map(_shell_character, text)) + "'"


def _shell_character(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if character.isprintable():
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))


_SECRET = re.compile(r"key|secret|token|passw|pwd|credential|^sig|^sas", re.IGNORECASE)

_USER_INFO = re.compile(r"(?<=://)[^/?#\s'\"]*@")

_OPTION = re.compile(r"([?&]([^=&#\s]*))=([^&#\s'\"]*)")


def masked(text: str) -> str:
    """Return a text with the credentials of URIs in it masked: users, passwords, and options that contain them."""

    def option(found: re.Match[str]) -> str:
        holds = _SECRET.search(unquote(found[2])) or "@" in unquote(found[3])
        return f"{found[1]}=…" if holds else found[0]

    return _OPTION.sub(option, _USER_INFO.sub("…@", text))
