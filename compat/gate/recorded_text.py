"""The text of a recorded description: one line per state and type, and the parts that can be used without parsing.

    {
      "format": …, "version": 3, …                    the head, one line per field
      "operators": [
        {
          "operator_id": …,
          "states": [
            {"name": …, "kind": …, "namespace": TYPE, "key": TYPE, "value": TYPE}
          ]
        }
      ],
      "types": {
        TYPE: {"type": words, …}
      },
      "seal": the SHA-256 of everything before it, with non-ASCII letters escaped
    }

The seal covers the text. So a file that is unchanged since it was written is known to be unedited after reading its
head, and the rest is parsed only on demand; a reader of many files parses a line that occurs in all of them only once.
A file with another layout is parsed, and laid out as above: the layout does not matter.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.errors import CorruptFile
from ...serializers.wording import json_text
from ..json_files import SEAL, open_document, parse_checked, readable, require_size, seal_of, unsupported
from ..plain_data import Fields

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION = 3
"""Version 2 repeated a type wherever it was used, and sealed the parsed document; version 1 had no seal."""

_OPERATORS, _TYPES, _STATES = "operators", "types", "states"
_BEFORE_OPERATORS, _BEFORE_TYPES, _END = f',\n  "{_OPERATORS}": [', f'\n  ],\n  "{_TYPES}": {{', "\n  }"
_BEFORE_TYPE = "\n    "
_BEFORE_SEAL, _AFTER_SEAL = f',\n  "{SEAL}": "', '"\n}\n'
_DECODER = json.JSONDecoder()
_OTHER_LETTER = re.compile(r"[^\x00-\x7f]")
_NAMES = (
    *("format", "version", "id", "parents", "message", "created", "notes", "origin", "stored_by", "sha256"),
    *("operators", "types", "operator_id", "uid", "name", "kind", "parallelism", "max_parallelism", "unreadable"),
    *("keeps", "namespace", "key", "value", "states", "type", "base64", "bzip2", "declared"),
)
_ORDER = {name: place for place, name in enumerate(_NAMES)}
"""The order in which the fields of a document are printed; other fields follow in alphabetical order."""


def print_recorded(form: str, data: Mapping[str, Any]) -> str:
    """Return the text of a file; equal data produce equal texts. Raises `DeclarationError` if it is not read back."""
    document = {"format": form, "version": VERSION, **data}
    text = _laid_out(document).removesuffix("\n}")
    return readable(f"{text}{_BEFORE_SEAL}{_seal(text)}{_AFTER_SEAL}", document, form)


def _laid_out(value: Any, pad: str = "\n") -> str:
    """Return the text of a document: one line per field if it has operators or states, else a single line."""
    if not isinstance(value, dict) or not value.keys() & {_OPERATORS, _STATES}:
        return _one_line(value)
    inner = f"{pad}  "
    names = sorted(value, key=lambda name: (_ORDER.get(name, len(_ORDER)), name))
    members = [f"{_one_line(name)}: {_listed(name, value[name], inner)}" for name in names]
    return f"{{{inner}{f',{inner}'.join(members)}{pad}}}"


def _listed(name: str, value: Any, pad: str) -> str:
    """Return the text of a field's value: operators, states and types each start a line."""
    inner = f"{pad}  "
    if name in {_OPERATORS, _STATES} and isinstance(value, list):
        return f"[{','.join(inner + _laid_out(item, inner) for item in value)}{pad}]"
    if name == _TYPES and isinstance(value, dict):
        lines = (f"{inner}{_one_line(title)}: {_one_line(value[title])}" for title in sorted(value))
        return f"{{{','.join(lines)}{pad}}}"
    return _one_line(value)


def _one_line(value: Any) -> str:
    return json_text(_ordered(value), with_nan=False)


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: (_ORDER.get(name, len(_ORDER)), name))
        return {name: _ordered(value[name]) for name in names}
    return [_ordered(item) for item in value] if isinstance(value, list) else value


def _seal(text: str) -> str:
    """Return the digest of the text in ASCII, since which letters JSON escapes depends on the release of Python."""
    ascii_text = text if text.isascii() else _OTHER_LETTER.sub(lambda found: json.dumps(found[0])[1:-1], text)
    return _digest(ascii_text.encode("ascii"))


def _digest(data: bytes | memoryview) -> str:
    return hashlib.sha256(data).hexdigest()


@attrs.frozen
class RecordedText:
    """An opened file, of any version.

    Attributes:
        head: The fields except `operators` and `types`.
        is_sealed: Whether the file has a valid seal; otherwise, the whole file must be read to validate it.
        has_types: Whether the file has a table of types.
    """

    head: Fields
    is_sealed: bool
    has_types: bool
    _operators: memoryview | list[Any] = attrs.field(repr=False)
    _types: memoryview | dict[str, Any] = attrs.field(repr=False)

    @classmethod
    def of(cls, text: str | bytes, form: str) -> RecordedText:
        """Open a file.

        Raises:
            CorruptFile: The file does not have the format.
            UnsupportedFormat: It was written by a later release.
        """
        require_size(text, form)
        opened = _cut(text, form)
        return _parsed(text, form) if opened is None else opened

    def operators(self) -> tuple[Fields, ...]:
        """Return the parsed operators."""
        data = self._operators
        if isinstance(data, memoryview):
            data = parse_checked(f"[{str(data, 'utf-8')}\n]")
        return Fields({_OPERATORS: data}, "the document").objects(_OPERATORS)

    def types(self) -> dict[str, str]:
        """Return the text of each type by its name: a single line, not parsed."""
        if not isinstance(self._types, memoryview):
            return {title: _one_line(value) for title, value in self._types.items()}
        text = str(self._types, "utf-8")
        lines = text.removeprefix(_BEFORE_TYPE).split(f",{_BEFORE_TYPE}") if text else []
        types: dict[str, str] = {}
        for line in lines:
            title, end = _title_in(line)
            if title in types:
                raise CorruptFile(f"the name {title[:80]!r} is given twice")
            types[title] = line[end:]
        return types


def _title_in(line: str) -> tuple[str, int]:
    """Return the name at the beginning of a line, and the offset of its value."""
    try:
        title, end = _DECODER.raw_decode(line)
    except ValueError as error:
        raise CorruptFile(f"not valid JSON: {error}") from error
    if not isinstance(title, str) or line[end : end + 2] != ": ":
        raise CorruptFile(f"not valid JSON: {line[:80]!r} is not a name with a value")
    return title, end + 2


def _cut(text: str | bytes, form: str) -> RecordedText | None:
    """Open a file with the layout and seal of this release; return None for any other."""
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    end = data.rfind(_BEFORE_SEAL.encode())
    view = memoryview(data)[: max(end, 0)]
    try:
        seal = _digest(view) if data.isascii() else _seal(str(view, "utf-8"))
    except UnicodeDecodeError:
        return None
    if data[len(view) :] != f"{_BEFORE_SEAL}{seal}{_AFTER_SEAL}".encode():
        return None
    first = data.find(_BEFORE_OPERATORS.encode())
    second = data.find(_BEFORE_TYPES.encode(), first)
    if first < 0 or second < 0 or not data.endswith(_END.encode(), second, end):
        return None
    facts = Fields(parse_checked(f"{str(view[:first], 'utf-8')}\n}}"), "the document")
    if facts.text("format") != form or facts.number("version") != VERSION:
        return None
    operators = view[first + len(_BEFORE_OPERATORS) : second]
    types = view[second + len(_BEFORE_TYPES) : end - len(_END)]
    return RecordedText(facts, is_sealed=True, has_types=True, operators=operators, types=types)


def _parsed(text: str | bytes, form: str) -> RecordedText:
    """Open a file of an earlier version, with another layout, or with edits."""
    document, facts, version = open_document(text, form)
    if not 0 < version <= VERSION:
        raise unsupported(form, version, VERSION)
    said, found = facts.text(SEAL) if version > 1 else "", ""
    rest = {name: value for name, value in document.items() if name != SEAL}
    operators, types = facts.items(_OPERATORS), {}
    if version == VERSION:
        types = facts.required(_TYPES).rest()
        found = _seal(_laid_out(rest).removesuffix("\n}"))
    elif version > 1:
        found = seal_of(rest)
    facts.seal(said, found)
    is_sealed = bool(found) and said == found
    return RecordedText(facts, is_sealed, has_types=version == VERSION, operators=operators, types=types)
