"""Conversion of the options of a migration to plain data for plan files, and back.

Each option has its own form here: the content of a file is checked, and never imported or evaluated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...compat.description import operator_id_of_uid
from ...compat.edits import Edits, NewIdentity
from ...compat.plain_data import Fields, fields_of, plain
from ...compat.plan import BadValues, Compression, SavepointFormatType
from ...compat.policy import Policy
from ...compat.reference_time import parse_time
from ...compat.repartition import Merge, Repartition
from ...compat.targets import Target
from ...serializers.errors import CorruptFile, DeclarationError, StateShiftError
from .options import MigrationOptions
from .repartition import NotLoaded

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime


def _edits_data(edits: Edits) -> dict[str, Any]:
    return {
        **fields_of(edits, "drop rename_states"),
        "rename_uids": [[old, identity.uid] for old, identity in edits.rename_operators],
        **fields_of(edits, "convert"),
    }


def _edits(facts: Fields, name: str) -> Edits:
    given = facts.required(name)
    edits = Edits(
        given.texts("drop"),
        tuple(_pairs(given, "rename_states")),
        tuple((old, NewIdentity(operator_id_of_uid(new).hex(), new)) for old, new in _pairs(given, "rename_uids")),
        given.texts("convert"),
    )
    given.require_empty()
    return edits


def _pairs(facts: Fields, name: str) -> list[tuple[str, str]]:
    pairs = facts.items(name)
    if not all(
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(text, str) for text in pair) for pair in pairs
    ):
        raise CorruptFile(f"{name!r} should be a list of pairs of strings")
    return [(old, new) for old, new in pairs]


def _repartition_data(repartition: Repartition | None) -> dict[str, Any] | None:
    if repartition is None:
        return None
    unnamed = next((merge.name for _, merge in repartition.merge if ":" not in merge.name), None)
    if unnamed is not None:
        raise DeclarationError.before_writing(
            f"the merge function {unnamed} cannot be written to a plan file: it cannot be imported by name",
            advice="give it as MODULE:FUNCTION",
        )
    return {
        "max_parallelism": {name or "*": number for name, number in repartition.max_parallelism},
        "merge": {name: merge.name for name, merge in repartition.merge},
    }


def _repartition(facts: Fields, name: str) -> Repartition | None:
    """Read the repartition option; merge functions are named, and not loaded."""
    given = facts.optional(name)
    if given is None:
        return None
    numbers = {("" if uid == "*" else uid): number for uid, number in given.required("max_parallelism").rest().items()}
    merges = given.required("merge")
    named = {state: Merge(place, NotLoaded(place)) for state in merges.names() for place in [merges.text(state)]}
    given.require_empty()
    return Repartition(max_parallelism=numbers, merge=named)


def _policy(facts: Fields, name: str) -> Policy:
    given = facts.required(name)
    policy = Policy(given.texts("forbid"), given.texts("allow_empty"))
    given.require_empty()
    return policy


def _word(kind: Callable[[str], Any]) -> Callable[[Fields, str], Any]:
    return lambda facts, name: kind(facts.text(name))


def _time(facts: Fields, name: str) -> datetime | None:
    text = facts.text(name, optional=True)
    return parse_time(text) if text else None


_READ: dict[str, Callable[[Fields, str], Any]] = {
    "restore_target": _word(Target),
    "edits": _edits,
    "parallelism": lambda facts, name: facts.number(name) or None,
    "compression": _word(Compression),
    "format": _word(SavepointFormatType),
    "absolute": Fields.flag,
    "reference_time": _time,
    "repartition": _repartition,
    "trust_stored_serializers": Fields.flag,
    "trust": Fields.texts,
    "source_digests": Fields.flag,
    "policy": _policy,
    "bad_values": _word(BadValues),
    "max_bad_values": Fields.number,
}
"""The functions that read an option from the fields of the options, in the order of the file."""

_WRITE: dict[str, Callable[[Any], Any]] = {
    "edits": _edits_data,
    "repartition": _repartition_data,
}
"""The functions that return an option as plain data, unless that is simply its value."""


def options_to_data(options: MigrationOptions) -> dict[str, Any]:
    """Return options as plain data, in the order in which they are declared.

    Raises:
        DeclarationError: A merge function of the options cannot be written to a file.
    """
    return {name: _WRITE.get(name, plain)(getattr(options, name)) for name in _READ}


def options_from_data(facts: Fields) -> MigrationOptions:
    """Read options from plain data; missing ones get their defaults.

    Raises:
        CorruptFile: An option is unknown, or has an invalid value.
    """
    given = {name: _value(read, facts, name) for name, read in _READ.items() if name in facts}
    facts.require_empty()
    try:
        return MigrationOptions(**given)
    except (ValueError, TypeError) as error:
        raise CorruptFile(f"the options are not valid: {error}") from error


def _value(read: Callable[[Fields, str], Any], facts: Fields, name: str) -> Any:
    try:
        return read(facts, name)
    except CorruptFile:
        raise
    except (StateShiftError, ValueError, TypeError) as error:
        what = error.what if isinstance(error, StateShiftError) else error
        raise CorruptFile(f"the option {name!r} has an invalid value: {what}") from error
