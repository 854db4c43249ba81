"""Declared changes that must be made only once, where the type does not show whether they were made (STATE-8).

A converter of a state whose type stays, and the names of stored columns whose types already fit the new ones, stay in
the code after their migration. So the user has to say that a savepoint is not converted yet, unless its lineage says
so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ..serializers.compatibility import CompatibilityResult, Finding, Verdict
from ..serializers.ways_out import Option, Told, WayOut, by_migration

if TYPE_CHECKING:
    from .description import Converter, SerializerDescription

ROW = "ROW-8"
_LEAVE_OUT = "if it was: leave `stored=` out of row_of"
_NOT_YET = attrs.evolve(
    WayOut.telling("if it was not done yet:", Option.CONVERT, "STATE"),
    more=", or UID/STATE if it is not unique (a key is UID/<key>)",
)


def about_converter(converter: Converter, old: SerializerDescription, path: str, words: tuple[str, str]) -> Finding:
    """Return a finding about a converter for values whose bytes are valid as they are.

    Args:
        converter: The declared converter.
        old: The stored side.
        path: The path of the value that it converts.
        words: Both types in words.
    """
    if converter.name in old.done:
        reason = f"the converter {converter.name} was called already, according to the lineage of the savepoint"
        return Finding(path, "STATE-8", Verdict.COMPATIBLE, *words, reason)
    if old.is_unconverted:
        ways: tuple[WayOut | str, ...] = (
            by_migration(f"{converter.name} is called"),
            WayOut("leave out", (Told(Option.CONVERT),)),
        )
        reason = f"the converter {converter.name} is called, although the type does not change, as was asked for"
        return Finding(path, "STATE-8", Verdict.REQUIRES_MIGRATION, *words, reason, ways)
    reason = f"the converter {converter.name} is declared, and the type does not show whether it was called already"
    ways = (_NOT_YET, WayOut("if it was: take the converter out of the job"))
    return Finding(path, "STATE-8", Verdict.INCOMPATIBLE, *words, reason, ways)


def columns_written(path: str, names: str) -> str:
    """Return the lineage name of a reordering of a row's columns; `names` is the order in the finding of ROW-8."""
    return f"{ROW} {path} {names}"


def about_columns(result: CompatibilityResult[Any], old: SerializerDescription) -> CompatibilityResult[Any]:
    """Refuse a reordering of columns that may have been done already, unless the user says that it was not."""
    told = [finding for finding in result.findings if finding.rule == ROW]
    if not told or result.is_incompatible():
        return result
    known = [one for one in told if columns_written(one.path, one.new) in old.done]
    if old.is_unconverted and not known:
        return result
    reason = "the columns may have been written in their new order already: their types do not show it"
    ways: tuple[WayOut | str, ...] = (_NOT_YET, _LEAVE_OUT)
    if known:
        reason = "the columns were written in their new order already, according to the lineage of the savepoint"
        ways = (_LEAVE_OUT,)
    refusals = (
        Finding(one.path, "STATE-8", Verdict.INCOMPATIBLE, one.old, one.new, reason, ways) for one in known or told
    )
    return CompatibilityResult.incompatible(*refusals, *result.findings)
