"""Aliases that are added to a schema: names that later schemas gave to what it declares."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NAMED = {"record", "enum", "fixed", "error"}


def with_aliases(text: str, aliases: Mapping[tuple[str, str], Sequence[str]]) -> str:
    """Return a schema's JSON text with further aliases.

    Args:
        text: The text.
        aliases: The aliases of each named type, by (full name, ""), and of fields, by (full name, field).
    """
    schema = json.loads(text)
    _add(schema, "", aliases)
    return json.dumps(schema, ensure_ascii=False)


def _add(schema: Any, namespace: str, aliases: Mapping[tuple[str, str], Sequence[str]]) -> None:
    """Add the aliases of a type and of all that is within it; names without a dot are in the namespace around."""
    if isinstance(schema, list):
        for branch in schema:
            _add(branch, namespace, aliases)
    if not isinstance(schema, dict):
        return
    kind = schema.get("type")
    if kind not in _NAMED:
        for part in ("type", "items", "values"):
            _add(schema.get(part), namespace, aliases)
        return
    name, around = str(schema["name"]), schema.get("namespace", namespace) or ""
    full = name if "." in name or not around else f"{around}.{name}"
    _extend(schema, aliases.get((full, ""), ()))
    for field in schema.get("fields", ()):
        _extend(field, aliases.get((full, field["name"]), ()))
        _add(field["type"], full.rpartition(".")[0], aliases)


def _extend(of: dict[str, Any], names: Sequence[str]) -> None:
    if names:
        of["aliases"] = [*of.get("aliases", ()), *names]
