"""Recorded descriptions: the state of a savepoint or job as JSON that people read and programs read back.

    {"format": "stateshift snapshot", "version": 3, "origin": …, "operators": [
        {"operator_id": …, "uid": …, "key": TYPE, "states": [{"name": …, "kind": …, "value": TYPE}]}],
     "types": {TYPE: SNAPSHOT}, "seal": digest of the whole document, since version 2}

    TYPE        words and a fingerprint, the name of a type in the table: `list<Order> 5f6c79a167588143`
    SNAPSHOT    {"type": words, "sha256": of the bytes, "bzip2": the SNAP frame, compressed and in Base64,
                 "declared": declarations beyond the snapshot}

The words are for people and for diffs of the file; programs read the bytes, which must match the words. Operators and
states are sorted, so that equal descriptions produce equal files: bzip2, unlike zlib, compresses alike everywhere.
Until version 2, a SNAPSHOT, with its bytes as `base64`, was written at every place that has a TYPE now.
"""

from __future__ import annotations

import base64
import binascii
import bz2
import hashlib
import json
from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.errors import CorruptFile, StateShiftError, located, shown
from ...serializers.snapshot import recorded_to_bytes, snapshot_from_bytes
from ..description import JobDescription, OperatorDescription, SerializerDescription, StateDescription, StateKind
from ..json_files import MOST_BYTES, parse_checked
from ..memo import Memo
from ..plain_data import Fields, fields_of
from ..type_difference import type_text
from .recorded_text import RecordedText, print_recorded

if TYPE_CHECKING:
    from ...serializers.snapshot import TypeSerializerConfigSnapshot
    from ..declarations import Facts

FORMAT = "stateshift snapshot"

_SHOWN, _FINGERPRINT_LENGTH = 60, 16
_COMPRESSION = 1
"""The smallest block size: a snapshot hardly ever fills one, and a block takes its full size in memory."""


def to_json(description: JobDescription) -> str:
    """Return the text of the file of a description."""
    return print_recorded(FORMAT, to_data(description))


def to_data(description: JobDescription) -> dict[str, Any]:
    """Return a description as plain data, without the file's format and version."""
    operators = sorted(description.operators, key=lambda one: (not one.uid, one.uid, one.operator_id))
    types: dict[str, Any] = {}
    return fields_of(description, "origin stored_by?") | {
        "sha256": digest(description),
        "operators": [_operator_data(operator, types) for operator in operators],
        "types": types,
    }


def digest(description: JobDescription) -> str:
    """Return the SHA-256 of what a check compares, in hexadecimal; origin and parallelism do not count.

    A number of key groups counts if a job declares it.
    """
    pieces: dict[str, list[_Piece]] = {}
    for operator in description.operators:
        of_operator = pieces.setdefault(operator.operator_id, [_piece(operator.operator_id, operator.key)])
        if operator.declares_key_groups:
            of_operator.append(("max_parallelism", str(operator.max_parallelism), ""))
        for state in _sorted(operator.states):
            of_operator += _pieces(state)
    whole = hashlib.sha256()
    for operator_id in sorted(pieces):
        for of_piece in pieces[operator_id]:
            for text in of_piece:
                piece = text.encode("utf-8", "surrogatepass")  # names in Java may have lone surrogates
                whole.update(len(piece).to_bytes(4, "big") + piece)
    return whole.hexdigest()


def unchanged(a: JobDescription, b: JobDescription) -> set[tuple[str, str]]:
    """Return the states, as operator and name, that two sides declare alike, in bytes and beyond."""
    ours, theirs = ({op.operator_id: op for op in side.operators} for side in (a, b))
    found = set()
    for operator_id in ours.keys() & theirs.keys():
        known = {_pieces(state) for state in ours[operator_id].states}
        names = {state.name for state in theirs[operator_id].states if _pieces(state) in known}
        titles = (operator.uid or operator_id for operator in (ours[operator_id], theirs[operator_id]))
        found |= {(title, name) for title in titles for name in names}
    return found


_Piece = tuple[str, str, str]
"""The place of a serializer, the SHA-256 of its snapshot ("" if there is none), and the declarations beyond it."""


def _pieces(state: StateDescription) -> tuple[_Piece, ...]:
    place = f"{state.kind}/{state.name}"
    return (
        _piece(place, state.value),
        _piece(f"{place}<key>", state.key),
        _piece(f"{place}<namespace>", state.namespace),
    )


def _piece(place: str, part: SerializerDescription | None) -> _Piece:
    return (place, "", "{}") if part is None else (place, *part.identity)


def _sorted(states: tuple[StateDescription, ...]) -> list[StateDescription]:
    return sorted(states, key=lambda state: (state.name, state.kind))


def _operator_data(operator: OperatorDescription, types: dict[str, Any]) -> dict[str, Any]:
    return {
        **fields_of(operator, "operator_id uid name parallelism? max_parallelism? unreadable? keeps"),
        "key": _type_name(operator.key, types),
        "states": [
            fields_of(state, "name kind")
            | {part: _type_name(getattr(state, part), types) for part in ("namespace", "key", "value")}
            for state in _sorted(operator.states)
        ],
    }


def _type_name(part: SerializerDescription | None, types: dict[str, Any]) -> str | None:
    """Add a type to the table, and return its name there; None for no type."""
    if part is None:
        return None
    data = recorded_to_bytes(part.snapshot)
    sha256, declared = hashlib.sha256(data).hexdigest(), part.what_code_says
    title = _title(part.snapshot, sha256, declared)
    if title not in types:
        types[title] = {
            "type": type_text(part.snapshot),
            "sha256": sha256,
            "bzip2": base64.b64encode(bz2.compress(data, _COMPRESSION)).decode("ascii"),
            "declared": declared,
        }
    return title


def _title(snapshot: TypeSerializerConfigSnapshot[Any], sha256: str, declared: Facts) -> str:
    """Return the name of a type in the table: its words for people, its fingerprint for programs."""
    return f"{snapshot.describe()[:_SHOWN]} {_fingerprint(sha256, declared)}"


def _fingerprint(sha256: str, declared: Facts) -> str:
    facts = json.dumps([sha256, declared], sort_keys=True)
    return hashlib.sha256(facts.encode("ascii")).hexdigest()[:_FINGERPRINT_LENGTH]


def from_json(text: str | bytes, *, file: str = "") -> JobDescription:
    """Read a recorded description.

    Args:
        text: The content of the file.
        file: The name of the file in messages.

    Raises:
        CorruptFile: The file is not a recorded snapshot, or was edited so that its words do not match its bytes.
        UnsupportedFormat: It was written by a later release.
        UnknownSnapshot, SnapshotVersionError: It holds a snapshot that this code cannot read.
    """
    with located(file=file or None):
        opened = RecordedText.of(text, FORMAT)
        return from_recorded(opened, opened.head.text("sha256"), Parsed())


@attrs.frozen
class Parsed:
    """Cache of the types and states in similar files: those that occur in the next file, too, are not read again."""

    types: Memo[bytes, SerializerDescription] = attrs.field(factory=Memo)
    states: Memo[tuple[Any, ...], StateDescription] = attrs.field(factory=Memo)

    def turn(self) -> None:
        """Start the next file."""
        self.types.turn()
        self.states.turn()


def from_recorded(text: RecordedText, sha256: str, parsed: Parsed) -> JobDescription:
    """Read the description that `to_data` returned; it raises the errors of `from_json`.

    Args:
        text: The file; its other head fields have been taken already.
        sha256: The digest of the description in the head.
        parsed: The cache shared by similar files.
    """
    facts, types = text.head, _Types(parsed, text.types() if text.has_types else None)
    description = JobDescription(
        facts.text("origin"),
        tuple(_operator(operator, types) for operator in text.operators()),
        stored_by=facts.text("stored_by", optional=True),
    )
    types.require_all_used()
    facts.require_empty()
    ids = [operator.operator_id for operator in description.operators]
    if len(set(ids)) < len(ids):
        raise CorruptFile("an operator is listed twice")
    if sha256 != digest(description):
        raise CorruptFile("its content does not match its sha256: it was changed after it was written")
    facts.require_unedited()
    return description


def _operator(facts: Fields, types: _Types) -> OperatorDescription:
    operator_id = facts.text("operator_id")
    with located(operator=operator_id):
        operator = OperatorDescription(
            operator_id,
            facts.text("uid"),
            facts.text("name"),
            types.take_optional(facts, "key"),
            tuple(_state(state, types) for state in facts.objects("states")),
            facts.number("parallelism"),
            facts.number("max_parallelism"),
            facts.text("unreadable", optional=True),
            facts.texts("keeps"),
        )
        facts.require_empty()
        return operator


def _state(facts: Fields, types: _Types) -> StateDescription:
    name = facts.text("name")
    with located(state=name):
        kind = facts.text("kind")
        if kind not in _KINDS:
            raise CorruptFile(f"{kind!r} is not a kind of state")
        value, key = types.take(facts, "value"), types.take_optional(facts, "key")
        namespace = types.take_optional(facts, "namespace")
        facts.require_empty()
        place = (name, kind, id(value), id(key), id(namespace))
        return types.parsed.states.once(
            place, lambda: StateDescription(name, StateKind(kind), value, key=key, namespace=namespace)
        )


_KINDS = frozenset(map(str, StateKind))


@attrs.define
class _Types:
    """The types of one file.

    Attributes:
        parsed: The cache shared by similar files.
        texts: The text of each type by its name; None if the file has types in place, without a table.
    """

    parsed: Parsed
    texts: dict[str, str] | None
    _read: dict[str, SerializerDescription] = attrs.field(factory=dict)
    _left_bytes: int = MOST_BYTES

    def take(self, facts: Fields, name: str) -> SerializerDescription:
        """Take the type that a field names or contains."""
        if self.texts is None:
            return self._known("", json.dumps(facts.required(name).rest(), sort_keys=True))
        title = facts.text(name)
        if title not in self._read:
            if title not in self.texts:
                raise CorruptFile(f"{name!r} has the type {shown(title)}, which is not in the table of types")
            self._read[title] = self._known(title, self.texts[title])
        return self._read[title]

    def take_optional(self, facts: Fields, name: str) -> SerializerDescription | None:
        """Take the type of a field that may be null."""
        return None if facts.take_null(name) else self.take(facts, name)

    def require_all_used(self) -> None:
        """Refuse a type in the table that is not used.

        Raises:
            CorruptFile: A type is not used.
        """
        left = (self.texts or {}).keys() - self._read.keys()
        if left:
            raise CorruptFile(f"the type {shown(min(left))} is not used")

    def _known(self, title: str, text: str) -> SerializerDescription:
        digest = hashlib.sha256(f"{title}\n{text}".encode("utf-8", "surrogatepass")).digest()
        return self.parsed.types.once(digest, lambda: self._titled(title, text) if title else self._part(text))

    def _titled(self, title: str, text: str) -> SerializerDescription:
        with located(type=title):
            part = self._part(text)
            wanted = _title(part.snapshot, part.sha256, part.declared or {})
            if title != wanted and (_is_ours(part.snapshot) or title.split()[-1:] != wanted.split()[-1:]):
                raise CorruptFile(f"the type is named {shown(title)}, but should be named {wanted!r}")
            return part

    def _part(self, text: str) -> SerializerDescription:
        facts = Fields({"snapshot": parse_checked(text)}, "a type").required("snapshot")
        words, recorded = facts.text("type"), facts.text("sha256")
        data = self._bytes(facts)
        declared = facts.required("declared").rest()
        facts.require_empty()
        if hashlib.sha256(data).hexdigest() != recorded:
            raise CorruptFile("the bytes of a snapshot do not match its sha256")
        snapshot = _snapshot(data)
        if _is_ours(snapshot) and words != type_text(snapshot):
            raise CorruptFile(f"the type is given as {shown(words)}, but the bytes have {type_text(snapshot)}")
        return SerializerDescription(snapshot, declared=declared, sha256=recorded)

    def _bytes(self, facts: Fields) -> bytes:
        """Return the bytes of a snapshot; the total size per file is limited."""
        is_packed = self.texts is not None
        encoded = facts.text("bzip2" if is_packed else "base64")
        try:
            data = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError) as error:
            raise CorruptFile(f"the bytes of a snapshot are not base64: {error}") from error
        if is_packed:
            data = _unpacked(data, self._left_bytes)
            self._left_bytes -= len(data)
        return data


def _unpacked(packed: bytes, most_bytes: int) -> bytes:
    unpacking = bz2.BZ2Decompressor()
    try:
        data = unpacking.decompress(packed, most_bytes)
    except (OSError, EOFError) as error:
        raise CorruptFile(f"the bytes of a snapshot are not compressed by bzip2: {error}") from error
    if not unpacking.eof or unpacking.unused_data:
        raise CorruptFile("the compressed bytes of a snapshot do not end where they should, or are too long")
    return data


def _is_ours(snapshot: TypeSerializerConfigSnapshot[Any]) -> bool:
    """Whether only stateshift determines the words for a type: the words of a user's class may change."""
    return type(snapshot).__module__.startswith(f"{__package__.partition('.')[0]}.") and all(
        map(_is_ours, snapshot.children())
    )


def _snapshot(data: bytes) -> TypeSerializerConfigSnapshot[Any]:
    try:
        return snapshot_from_bytes(data)
    except StateShiftError as error:
        error.where.pop("offset", None)  # it counts from the start of the snapshot, not of the file
        raise
