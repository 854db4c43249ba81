"""JSON files that people keep and send around: plans, recorded snapshots. Everything that is read is validated.

Every document is a JSON object that begins with its format and version. A name given twice is refused, as a reviewer of
the file might see one value, and a program the other. A sealed document ends with a digest of its content, so that an
edit is noticed even in parts that only people read.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from ..serializers.errors import CorruptFile, UnsupportedFormat, shown
from ..serializers.escaping import json_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    T = TypeVar("T")

MOST_BYTES = 64 << 20
"""The maximum size of a file; a plan for ten thousand states has about 20 MB."""

MOST_NESTED = 200
"""The maximum nesting of a document; those of stateshift, with all defaults of states, are nested far less deeply."""

SEAL = "seal"

_LARGEST = (1 << 63) - 1
_TOO_DEEP = "not valid JSON: it is nested too deeply"


def print_document(form: str, version: int, data: Mapping[str, Any]) -> str:
    """Return the text of a file; equal data produce equal texts."""
    document = {"format": form, "version": version, **data}
    return json_text(document, indent=2, is_ascii=False, with_nan=False) + "\n"


def print_sealed(form: str, version: int, data: Mapping[str, Any]) -> str:
    """Return the text of a sealed file, which is not to be edited."""
    document = {"format": form, "version": version, **data}
    return print_document(form, version, {**data, SEAL: seal_of(document)})


def seal_of(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a document in hexadecimal; its layout does not count."""
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode("ascii")).hexdigest()


def parse_json(text: str | bytes, **hooks: Any) -> Any:
    """Return the parsed content of an untrusted file; `hooks` are passed to `json.loads`.

    Raises:
        CorruptFile: It is not JSON, or is nested more deeply than the callers can process.
    """
    try:
        document = json.loads(text, **hooks)
    except RecursionError as error:
        raise CorruptFile(_TOO_DEEP) from error
    except ValueError as error:
        raise CorruptFile(f"not valid JSON: {error}") from error
    level = [document]
    for _ in range(MOST_NESTED):
        level = [item for one in level if isinstance(one, (dict, list)) for item in _items(one)]
        if not level:
            return document
    raise CorruptFile(_TOO_DEEP)


def _items(one: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return one.values() if isinstance(one, dict) else one


def parse_document(text: str | bytes, form: str, version: int, *, sealed_since: int = 0) -> Fields:
    """Read the object in a file, and check its format and version.

    Args:
        text: The content of the file.
        form: The expected format.
        version: The version that this release writes.
        sealed_since: The first version with a seal, if earlier ones are read as well; 0: only `version` is read.

    Raises:
        CorruptFile: It is not a JSON object of that format.
        UnsupportedFormat: It has a later version.
    """
    document, facts, found_version = open_document(text, form)
    if sealed_since and sealed_since <= found_version <= version:
        facts.seal(facts.text(SEAL), seal_of({name: value for name, value in document.items() if name != SEAL}))
    elif not (sealed_since and 0 < found_version < sealed_since) and found_version != version:
        raise unsupported(form, found_version, version)
    return facts


def open_document(text: str | bytes, form: str) -> tuple[dict[str, Any], Fields, int]:
    """Read the object in a file; return it, its fields except format and version, and its version, whatever that is.

    Raises:
        CorruptFile: It is not a JSON object of that format.
    """
    require_size(text, form)
    document = parse_checked(text)
    if not isinstance(document, dict) or document.get("format") != form:
        found = document.get("format") if isinstance(document, dict) else None
        what = f"its format is {shown(found)}" if found is not None else "it has no format"
        raise CorruptFile(f"it is not a {form} file: {what}", advice=f"name a file with the format {form!r}")
    facts = Fields(document, "the document")
    facts.text("format")
    return document, facts, facts.number("version")


def require_size(text: str | bytes, form: str) -> None:
    """Refuse a file that exceeds the maximum size.

    Raises:
        CorruptFile: It is too large.
    """
    if len(text) > MOST_BYTES:
        raise CorruptFile(f"it is larger than {MOST_BYTES >> 20} MiB, so it is not a {form} file")


def parse_checked(text: str | bytes) -> Any:
    """Return the parsed JSON; names given twice and numbers such as NaN are refused as by `parse_json`."""
    return parse_json(text, object_pairs_hook=_unique, parse_constant=_refuse, parse_float=_finite)


def unsupported(form: str, found: int, version: int) -> UnsupportedFormat:
    """Return the error for a file of another version."""
    return UnsupportedFormat(
        f"the {form} has version {found}, but this release reads {version}",
        advice="use the release of stateshift that wrote it, or write it again",
    )


def is_document(text: bytes, form: str, version: int) -> bool:
    """Whether a file has a format, in this or another version."""
    try:
        parse_document(text, form, version)
    except UnsupportedFormat:
        return True
    except CorruptFile:
        return False
    return True


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {twice[:80]!r} is given twice")
    return found


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not valid JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError("a number is too large")
    return number


class Fields:
    """The fields of an object in a file, taken one by one; fields that were not taken are refused at the end."""

    def __init__(self, facts: dict[str, Any], title: str) -> None:
        """Wrap an object; `title` is its name in messages."""
        self._facts = dict(facts)
        self._title = title
        self._seals = ("", "")

    def __contains__(self, name: str) -> bool:
        return name in self._facts

    def seal(self, said: str, found: str) -> None:
        """Store the document's digest as it is written in it, and as computed."""
        self._seals = (said, found)

    def require_unedited(self) -> None:
        """Refuse a sealed document that was edited.

        Call it last: an error about a particular field says more.

        Raises:
            CorruptFile: The document was edited.
        """
        said, found = self._seals
        if said != found:
            raise CorruptFile(
                "its content does not match its seal: it was edited after it was written",
                advice="take the file as it was written, or record it again",
            )

    def names(self) -> tuple[str, ...]:
        """Return the names of the remaining fields."""
        return tuple(self._facts)

    def text(self, name: str, *, optional: bool = False) -> str:
        """Take a text; null is "" if it is optional."""
        value = self._take(name, str, "a string", optional=optional)
        return "" if value is None else value

    def take_null(self, name: str) -> bool:
        """Take a null, and return whether there was one; any other value is left.

        Raises:
            CorruptFile: The field does not exist.
        """
        if name not in self._facts:
            raise self._lacks(name)
        if self._facts[name] is not None:
            return False
        del self._facts[name]
        return True

    def number(self, name: str) -> int:
        """Take a whole number that is not negative and fits a Java long; null is 0."""
        value = self._take(name, int, "a number", optional=True)
        if isinstance(value, bool) or (value is not None and not 0 <= value <= _LARGEST):
            raise CorruptFile(f"{name!r} of {self._title} is {shown(value)}, but should be a number from 0 to 2^63 - 1")
        return value or 0

    def flag(self, name: str) -> bool:
        """Take a boolean."""
        return bool(self._take(name, bool, "true or false"))

    def texts(self, name: str) -> tuple[str, ...]:
        """Take a list of texts."""
        items = self.items(name)
        if not all(isinstance(item, str) for item in items):
            raise CorruptFile(f"{name!r} of {self._title} should be a list of strings")
        return tuple(items)

    def items(self, name: str) -> list[Any]:
        """Take a list with items of any type."""
        found: list[Any] = self._take(name, list, "a list")
        return found

    def optional(self, name: str) -> Fields | None:
        """Take an object or null, which is None."""
        value = self._take(name, dict, "an object", optional=True)
        return None if value is None else Fields(value, repr(name))

    def required(self, name: str) -> Fields:
        """Take an object that must exist."""
        return Fields(self._take(name, dict, "an object"), repr(name))

    def objects(self, name: str) -> tuple[Fields, ...]:
        """Take a list of objects."""
        items = self.items(name)
        if not all(isinstance(item, dict) for item in items):
            raise CorruptFile(f"{name!r} of {self._title} should be a list of objects")
        return tuple(Fields(item, f"an item of {name!r}") for item in items)

    def rest(self) -> dict[str, Any]:
        """Take all remaining fields, unchecked."""
        left, self._facts = self._facts, {}
        return left

    def require_empty(self) -> None:
        """Refuse unknown fields.

        Raises:
            CorruptFile: There is a field that was not taken.
        """
        if self._facts:
            name = next(iter(self._facts))
            raise CorruptFile(
                f"{self._title} has {name[:80]!r}, which this release does not know",
                advice="use the release of stateshift that wrote the file, or write it again",
            )

    def _take(self, name: str, kind: type[T], words: str, *, optional: bool = False) -> Any:
        if name not in self._facts:
            raise self._lacks(name)
        value = self._facts.pop(name)
        if (value is None and optional) or isinstance(value, kind):
            return value
        raise CorruptFile(f"{name!r} of {self._title} is {shown(value)}, but should be {words}")

    def _lacks(self, name: str) -> CorruptFile:
        return CorruptFile(f"{self._title} lacks {name!r}")
