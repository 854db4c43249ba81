"""Conversion of the options of a migration to plain data for plan files, and back.

Each option has its own form here: the content of a file is checked, and never imported or evaluated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ...compat.edits import Edits, NewIdentity
from ...compat.plan import BadValues, Compression
from ...compat.policy import Policy
from ...compat.reference_time import parse_time, time_text
from ...compat.repartition import Merge, Repartition
from ...compat.targets import Target
from ...serializers.errors import CorruptFile, DeclarationError, StateShiftError
from ..repartition import NotLoaded
from ..savepoint.metadata import operator_id_of_uid
from .options import MigrationOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...compat.json_files import Fields


def _edits_data(edits: Edits) -> dict[str, Any]:
    return {
        "drop": list(edits.drop),
        "rename_states": [list(pair) for pair in edits.rename_states],
        "rename_uids": [[old, identity.uid] for old, identity in edits.rename_operators],
        "convert": list(edits.convert),
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
        raise DeclarationError(
            f"the merge function {unnamed} cannot be written to a plan file: it cannot be imported by name",
            advice="give it as MODULE:FUNCTION",
            written="Nothing was written.",
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


def _policy_data(policy: Policy) -> dict[str, Any]:
    return {"forbid": sorted(policy.forbid), "allow_empty": list(policy.allow_empty)}


def _policy(facts: Fields, name: str) -> Policy:
    given = facts.required(name)
    policy = Policy(given.texts("forbid"), given.texts("allow_empty"))
    given.require_empty()
    return policy


@attrs.frozen
class _Form:
    """The functions that convert an option to plain data, and read it from the fields of the options."""

    write: Callable[[Any], Any]
    read: Callable[[Fields, str], Any]


def _plain(value: Any) -> Any:
    return value


_NUMBER = _Form(_plain, lambda facts, name: facts.number(name) or None)
_FLAG = _Form(_plain, lambda facts, name: facts.flag(name))

_FORMS: dict[str, _Form] = {
    "restore_target": _Form(str, lambda facts, name: Target(facts.text(name))),
    "edits": _Form(_edits_data, _edits),
    "parallelism": _NUMBER,
    "compression": _Form(str, lambda facts, name: Compression(facts.text(name))),
    "repartition": _Form(_repartition_data, _repartition),
    "reference_time": _Form(
        lambda time: time_text(time) if time is not None else None,
        lambda facts, name: parse_time(text) if (text := facts.text(name, optional=True)) else None,
    ),
    "trust_stored_serializers": _FLAG,
    "trust": _Form(list, lambda facts, name: facts.texts(name)),
    "source_digests": _FLAG,
    "policy": _Form(_policy_data, _policy),
    "bad_values": _Form(str, lambda facts, name: BadValues(facts.text(name))),
    "max_bad_values": _Form(_plain, lambda facts, name: facts.number(name)),
}
_DEFAULTS = MigrationOptions()


def options_to_data(options: MigrationOptions) -> dict[str, Any]:
    """Return options as plain data, in the order in which they are declared.

    Raises:
        DeclarationError: An option that is not at its default cannot be written to a file.
    """
    data = {}
    for field in attrs.fields(MigrationOptions):
        value = getattr(options, field.name)
        form = _FORMS.get(field.name)
        if form is not None:
            data[field.name] = form.write(value)
        elif value != getattr(_DEFAULTS, field.name):
            raise DeclarationError(
                f"the option {field.name} cannot be written to a plan file",
                advice="migrate without a plan file, or leave the option out",
                written="Nothing was written.",
            )
    return data


def options_from_data(facts: Fields) -> MigrationOptions:
    """Read options from plain data; missing ones get their defaults.

    Raises:
        CorruptFile: An option is unknown, or has an invalid value.
    """
    given = {name: _value(form, facts, name) for name, form in _FORMS.items() if name in facts}
    facts.require_empty()
    try:
        return MigrationOptions(**given)
    except (ValueError, TypeError) as error:
        raise CorruptFile(f"the options are not valid: {error}") from error


def _value(form: _Form, facts: Fields, name: str) -> Any:
    try:
        return form.read(facts, name)
    except CorruptFile:
        raise
    except (StateShiftError, ValueError, TypeError) as error:
        what = error.what if isinstance(error, StateShiftError) else error
        raise CorruptFile(f"the option {name!r} has an invalid value: {what}") from error
