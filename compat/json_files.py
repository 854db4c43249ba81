"""JSON files that people keep and send around: plans, recorded snapshots. Everything that is read is validated.

Every document is a JSON object that begins with its format and version. A name given twice is refused, as a reviewer of
the file might see one value, and a program the other. A sealed document ends with a digest of its content, so that an
edit is noticed even in parts that only people read.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import TYPE_CHECKING, Any, NoReturn

from ..serializers.errors import CorruptFile, DeclarationError, UnsupportedFormat, shown
from ..serializers.wording import json_text
from .plain_data import Fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MOST_BYTES = 64 << 20
"""The maximum size of a file; a plan for ten thousand states has about 20 MB."""

MOST_NESTED = 200
"""The maximum nesting of a document; those of stateshift, with all defaults of states, are nested far less deeply."""

SEAL = "seal"

_TOO_DEEP = "not valid JSON: it is nested too deeply"


def print_document(form: str, version: int, data: Mapping[str, Any]) -> str:
    """Return the text of a file; equal data produce equal texts."""
    document = {"format": form, "version": version, **data}
    return readable(json_text(document, indent=2, with_nan=False) + "\n", document, form)


def readable(text: str, document: Any, form: str) -> str:
    """Return the text of a document that is to be written, if `open_document` reads it back.

    Raises:
        DeclarationError: It is larger, or nested more deeply, than it may be.
    """
    if len(text) > MOST_BYTES:
        why = f"larger than {MOST_BYTES >> 20} MiB"
    elif is_too_deep(document):
        why = f"nested more than {MOST_NESTED} levels deep"
    else:
        return text
    raise DeclarationError.before_writing(
        f"the {form} would be {why}, and could not be read back",
        advice="divide the job, or declare types of fewer levels",
    )


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
    if is_too_deep(document):
        raise CorruptFile(_TOO_DEEP)
    return document


def is_too_deep(document: Any, *, within: int = 0) -> bool:
    """Whether a document is not read back, for its nesting; `within` is the number of levels that will contain it."""
    level = [document]
    for _ in range(MOST_NESTED - within):
        level = [item for one in level if isinstance(one, (dict, list, tuple)) for item in _items(one)]
        if not level:
            return False
    return True


def _items(one: dict[str, Any] | list[Any] | tuple[Any, ...]) -> Iterable[Any]:
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
