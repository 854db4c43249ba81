"""What is declared of stored values and must be done once, where their type does not tell whether it was (STATE-8).

A converter of a state whose type stays, and the names of stored columns whose types fit the new ones already, stay in
the code after the migration they served. So a person says that a savepoint is not converted yet; what its lineage
tells, nobody has to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..serializers.compatibility import CompatibilityResult, Finding, Verdict

if TYPE_CHECKING:
    from .description import Converter, SerializerDescription

ROW = "ROW-8"
_LEAVE_OUT = "if it was: leave `stored=` out of row_of"
_NOT_YET = "if it was not done yet: --convert STATE, which is named as in --drop (a key as UID/<key>)"


def about_converter(converter: Converter, old: SerializerDescription, path: str, words: tuple[str, str]) -> Finding:
    """Say what a converter means for values whose bytes are valid as they are.

    Args:
        converter: As it is declared.
        old: The stored side.
        path: Of what it converts.
        words: Both types.
    """
    if converter.name in old.done:
        reason = f"the converter {converter.name} was called already, as the lineage of the savepoint tells"
        return Finding(path, "STATE-8", Verdict.COMPATIBLE, *words, reason)
    if old.is_unconverted:
        ways = (f"migrate the state: {converter.name} is called", "leave --convert out")
        reason = f"the converter {converter.name} is called, though the type does not change: it is asked for"
        return Finding(path, "STATE-8", Verdict.REQUIRES_MIGRATION, *words, reason, ways)
    reason = f"the converter {converter.name} is declared, and the type does not tell whether it was called already"
    ways = (_NOT_YET, "if it was: take the converter out of the job")
    return Finding(path, "STATE-8", Verdict.INCOMPATIBLE, *words, reason, ways)


def columns_written(path: str, names: str) -> str:
    """Name for a lineage that the columns of a row were written in an order; `names` as the finding of ROW-8 has it."""
    return f"{ROW} {path} {names}"


def about_columns(result: CompatibilityResult[Any], old: SerializerDescription) -> CompatibilityResult[Any]:
    """Refuse columns that would be written anew where that may have been done, unless a person says it was not."""
    told = [finding for finding in result.findings if finding.rule == ROW]
    if not told or result.is_incompatible():
        return result
    known = [one for one in told if columns_written(one.path, one.new) in old.done]
    if old.is_unconverted and not known:
        return result
    reason = "the columns may have been written in their new order already: their types do not tell"
    ways: tuple[str, ...] = (_NOT_YET, _LEAVE_OUT)
    if known:
        reason = "the columns were written in their new order already, as the lineage of the savepoint tells"
        ways = (_LEAVE_OUT,)
    refusals = (
        Finding(one.path, "STATE-8", Verdict.INCOMPATIBLE, one.old, one.new, reason, ways) for one in known or told
    )
    return CompatibilityResult.incompatible(*refusals, *result.findings)
