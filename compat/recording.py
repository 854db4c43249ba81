"""Recorded descriptions: what a savepoint or job says of its state, as JSON that people read and programs read back.

    {"format": "stateshift snapshot", "version": 2, "origin": …, "operators": [
        {"operator_id": …, "uid": …, "key": SNAPSHOT, "states": [{"name": …, "kind": …, "value": SNAPSHOT}]}],
     "seal": digest of all of it, since version 2}

    SNAPSHOT    {"type": words, "sha256": of the bytes, "base64": the SNAP frame, "declared": what only code knows}

The words are for people and for diffs of the file; what is read back are the bytes, which have to say the same.
Operators and states are sorted, so that equal descriptions give equal files.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from typing import TYPE_CHECKING, Any

from ..serializers.errors import CorruptFile, StateShiftError, located, shown
from ..serializers.snapshot import snapshot_from_bytes, snapshot_to_bytes
from .description import JobDescription, OperatorDescription, SerializerDescription, StateDescription, StateKind
from .json_files import Fields, parse_document, print_sealed
from .type_text import type_text

if TYPE_CHECKING:
    from ..serializers.declared import Facts
    from ..serializers.snapshot import TypeSerializerConfigSnapshot

FORMAT, VERSION, SEALED_SINCE = "stateshift snapshot", 2, 2


def to_json(description: JobDescription) -> str:
    """Give a description as the text of a file."""
    return print_sealed(FORMAT, VERSION, to_data(description))


def to_data(description: JobDescription) -> dict[str, Any]:
    """Give a description as plain data, without the file's format and version."""
    operators = sorted(description.operators, key=lambda one: (not one.uid, one.uid, one.operator_id))
    return {
        "origin": description.origin,
        "stored_by": description.stored_by or None,
        "sha256": digest(description),
        "operators": [_operator_data(operator) for operator in operators],
    }


def digest(description: JobDescription) -> str:
    """SHA-256 in hexadecimal over what a check compares; where it comes from, and how parallel it is, do not count."""
    pieces: dict[str, list[_Piece]] = {}
    for operator in description.operators:
        of_operator = pieces.setdefault(operator.operator_id, [_piece(operator.operator_id, operator.key)])
        for state in _sorted(operator.states):
            of_operator += _pieces(state)
    return _digest_of(pieces)


def unchanged(a: JobDescription, b: JobDescription) -> set[tuple[str, str]]:
    """Give the states that two sides declare alike, in bytes and beyond: operator, and name."""
    ours, theirs = ({op.operator_id: op for op in side.operators} for side in (a, b))
    found = set()
    for operator_id in ours.keys() & theirs.keys():
        known = [_pieces(state) for state in ours[operator_id].states]
        for operator in (ours[operator_id], theirs[operator_id]):
            title = operator.uid or operator_id
            found |= {(title, state.name) for state in theirs[operator_id].states if _pieces(state) in known}
    return found


def _pieces(state: StateDescription) -> list[_Piece]:
    place = f"{state.kind}/{state.name}"
    return [
        _piece(place, state.value),
        _piece(f"{place}<key>", state.key),
        _piece(f"{place}<namespace>", state.namespace),
    ]


_Piece = tuple[str, str, "Facts"]
"""Where a serializer is, the SHA-256 of its snapshot or "" where there is none, and what only code says of it."""


def _piece(place: str, part: SerializerDescription | None) -> _Piece:
    if part is None:
        return place, "", {}
    # Of a record, that of the bytes in the file: this release may write the same snapshot in a later version (SNAP-5).
    return place, part.sha256 or hashlib.sha256(snapshot_to_bytes(part.snapshot)).hexdigest(), _declared(part)


def _digest_of(pieces: dict[str, list[_Piece]]) -> str:
    whole = hashlib.sha256()
    for operator_id in sorted(pieces):
        for place, sha256, declared in pieces[operator_id]:
            facts = json.dumps(declared, sort_keys=True) if declared else "{}"
            for piece in (place.encode("utf-8", "surrogatepass"), sha256.encode(), facts.encode()):  # as Java's names
                whole.update(len(piece).to_bytes(4, "big") + piece)
    return whole.hexdigest()


def _sorted(states: tuple[StateDescription, ...]) -> list[StateDescription]:
    return sorted(states, key=lambda state: (state.name, state.kind))


def _operator_data(operator: OperatorDescription) -> dict[str, Any]:
    return {
        "operator_id": operator.operator_id,
        "uid": operator.uid,
        "name": operator.name,
        "parallelism": operator.parallelism or None,
        "max_parallelism": operator.max_parallelism or None,
        "unreadable": operator.unreadable or None,
        "keeps": list(operator.keeps),
        "key": _snapshot_data(operator.key),
        "states": [
            {
                "name": state.name,
                "kind": str(state.kind),
                "namespace": _snapshot_data(state.namespace),
                "key": _snapshot_data(state.key),
                "value": _snapshot_data(state.value),
            }
            for state in _sorted(operator.states)
        ],
    }


def _declared(part: SerializerDescription | None) -> Facts:
    """What code says beyond the snapshot, where the side is code: its defaults decide what it could take over."""
    return {} if part is None else part.what_code_says


def _snapshot_data(part: SerializerDescription | None) -> dict[str, Any] | None:
    if part is None:
        return None
    data = snapshot_to_bytes(part.snapshot)
    return {
        "type": type_text(part.snapshot),
        "sha256": hashlib.sha256(data).hexdigest(),
        "base64": base64.b64encode(data).decode("ascii"),
        "declared": _declared(part),
    }


def from_json(text: str | bytes, *, file: str = "") -> JobDescription:
    """Read a recorded description.

    Args:
        text: The file's content.
        file: What messages call it.

    Raises:
        CorruptFile: It is no recorded snapshot, or was edited so that words and bytes do not belong together.
        UnsupportedFormat: It was written by a later release.
        UnknownSnapshot, SnapshotVersionError: It holds a snapshot that this code does not read.
    """
    with located(file=file or None):
        return from_fields(parse_document(text, FORMAT, VERSION, sealed_since=SEALED_SINCE))[0]


def from_fields(facts: Fields) -> tuple[JobDescription, str]:
    """Read what `to_data` gave, out of an object that holds nothing else any more; raises as `from_json`.

    Returns:
        The description and its digest.
    """
    description = JobDescription(
        facts.text("origin"),
        tuple(map(_operator, facts.objects("operators"))),
        stored_by=facts.text("stored_by", optional=True),
    )
    recorded = facts.text("sha256")
    facts.require_empty()
    ids = [operator.operator_id for operator in description.operators]
    if len(set(ids)) < len(ids):
        raise CorruptFile("an operator is listed twice")
    if recorded != digest(description):
        raise CorruptFile("its content is not what its sha256 says: it was changed after it was written")
    facts.require_unedited()
    return description, recorded


def _operator(facts: Fields) -> OperatorDescription:
    operator_id = facts.text("operator_id")
    with located(operator=operator_id):
        operator = OperatorDescription(
            operator_id,
            facts.text("uid"),
            facts.text("name"),
            _optional_part(facts, "key"),
            tuple(map(_state, facts.objects("states"))),
            facts.number("parallelism"),
            facts.number("max_parallelism"),
            facts.text("unreadable", optional=True),
            facts.texts("keeps"),
        )
        facts.require_empty()
        return operator


def _state(facts: Fields) -> StateDescription:
    name = facts.text("name")
    with located(state=name):
        kind = facts.text("kind")
        if kind not in {str(known) for known in StateKind}:
            raise CorruptFile(f"{kind!r} is no kind of state")
        state = StateDescription(
            name,
            StateKind(kind),
            _part(facts.required("value")),
            key=_optional_part(facts, "key"),
            namespace=_optional_part(facts, "namespace"),
        )
        facts.require_empty()
        return state


def _optional_part(facts: Fields, name: str) -> SerializerDescription | None:
    part = facts.optional(name)
    return None if part is None else _part(part)


def _part(facts: Fields) -> SerializerDescription:
    words = facts.text("type")
    recorded, encoded = facts.text("sha256"), facts.text("base64")
    declared = facts.required("declared").rest()
    facts.require_empty()
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise CorruptFile(f"the bytes of a snapshot are not base64: {error}") from error
    if hashlib.sha256(data).hexdigest() != recorded:
        raise CorruptFile("the bytes of a snapshot are not those that its sha256 says")
    snapshot = _snapshot(data)
    if _is_ours(snapshot) and words != type_text(snapshot):
        raise CorruptFile(f"the type is told as {shown(words)}, and the bytes say {type_text(snapshot)}")
    return SerializerDescription(snapshot, declared=declared, sha256=recorded)


def _is_ours(snapshot: TypeSerializerConfigSnapshot[Any]) -> bool:
    """Whether the words for a type are stateshift's alone: a user's class may put itself in other words one day."""
    return type(snapshot).__module__.startswith(f"{__package__.partition('.')[0]}.") and all(
        map(_is_ours, snapshot.children())
    )


def _snapshot(data: bytes) -> TypeSerializerConfigSnapshot[Any]:
    try:
        return snapshot_from_bytes(data)
    except StateShiftError as error:
        error.where.pop("offset", None)  # within the snapshot, which nobody sees
        raise
