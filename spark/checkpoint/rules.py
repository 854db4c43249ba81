"""The rules for rows of Spark, SPK-1 to SPK-6: fields pair by name, although Spark itself pairs them by position.

Spark compares the types of a checkpoint with those of a query by position, and never the names (notes on Spark, 4.2).
So it starts where two fields of one type changed places, and reads each as the other; it refuses what adds a field.
What may be null is not compared (SPK-1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ...serializers.compatibility import Finding, Flag, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .spark_types import SparkType

_INTEGERS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
"""Integers, and the digits that the largest of them needs."""
_EXACT_IN = {"float": {"tinyint", "smallint"}, "double": {"tinyint", "smallint", "int", "float"}}
_KEEP = "keep the type of the old query"
_NEW = "start the new query with a new checkpoint"
UNCONVERTED = "neither Spark nor stateshift converts this by itself, only a function of yours"
MIGRATE = "{migrate}"
"""Stands in ways out for the command that migrates a copy; `with_command` says it."""
COMMAND = "stateshift migrate spark:OLD spark:NEW --query MODULE:FUNCTION"
_COPY = f"migrate a copy: {MIGRATE}"
_MIGRATE = Verdict.REQUIRES_MIGRATION


def with_command(finding: Finding, command: str = COMMAND) -> Finding:
    """Return a finding whose ways out name the command that migrates a copy."""
    return attrs.evolve(finding, ways_out=tuple(one.replace(MIGRATE, command) for one in finding.ways_out))


def resolve(old: SparkType, new: SparkType, path: str = "$") -> Iterator[Finding]:
    """Yield every difference between a stored type and a new one."""
    if old.word != new.word or not old.fields or not new.fields:
        yield from _scalars(old, new, path)
    elif old.word == "struct":
        yield from _structs(old, new, path)
    else:
        steps = ("[]",) if old.word == "array" else ("{key}", "{}")
        for step, was, now in zip(steps, old.fields, new.fields, strict=True):
            yield from resolve(was.type, now.type, path + step)


def _structs(old: SparkType, new: SparkType, path: str) -> Iterator[Finding]:
    stored = dict(zip(old.names, old.fields, strict=True))
    asked = dict(zip(new.names, new.fields, strict=True))
    kept = [name for name in stored if name in asked]
    if kept != [name for name in asked if name in stored]:
        is_silent = [one.type.describe() for one in old.fields] == [one.type.describe() for one in new.fields]
        spark = "would start, and read each as another" if is_silent else "refuses to start"
        order = ", ".join(old.names), ", ".join(new.names)
        reason = f"the fields have another order; Spark pairs them by position: it {spark}"
        yield Finding(path, "SPK-2", _MIGRATE, *order, reason, (_COPY, "keep the order of the old query", _NEW))
    gone = {name: field for name, field in stored.items() if name not in asked}
    added = {name: field for name, field in asked.items() if name not in stored}
    for name, field in gone.items():
        below, kind = f"{path}.{name}", field.type.describe()
        flags: tuple[str, ...] = (f"{Flag.DROPS}:{below}",)
        reason = "the field is gone; its stored value is dropped"
        if twin := next((one for one, of in added.items() if of.type == field.type), None):
            flags += (f"{Flag.POSSIBLE_RENAME}:{name}->{twin}",)
            reason += f"; Spark would start if {twin!r} stands in its place, and take the value for it"
        yield Finding(below, "SPK-4", _MIGRATE, kind, "", reason, (_COPY, f"keep the field {name!r}", _NEW), flags)
    for name, field in added.items():
        reason = "the field is new; stored rows have no value for it"
        yield Finding(
            f"{path}.{name}", "SPK-3", _MIGRATE, "", field.type.describe(), reason, (_COPY, "leave it out", _NEW)
        )
    for name in kept:
        yield from resolve(stored[name].type, asked[name].type, f"{path}.{name}")


def _scalars(old: SparkType, new: SparkType, path: str) -> Iterator[Finding]:
    if (old.word, old.precision, old.scale) == (new.word, new.precision, new.scale):
        return
    words = old.describe(), new.describe()
    if holds_all(new, old):
        reason = "the new type holds every stored value, in other bytes; Spark refuses to start"
        yield Finding(path, "SPK-5", _MIGRATE, *words, reason, (_COPY, _KEEP, _NEW))
    else:
        yield Finding(path, "SPK-6", Verdict.INCOMPATIBLE, *words, UNCONVERTED, (_KEEP, _NEW))


def holds_all(new: SparkType, old: SparkType) -> bool:
    """Whether a type has every value of another one, exactly."""
    if old.word == "void":
        return True
    if old.word in _INTEGERS and new.word in _INTEGERS:
        return _INTEGERS[old.word] < _INTEGERS[new.word]
    if new.word == "decimal":
        digits = _INTEGERS.get(old.word, old.precision - old.scale if old.word == "decimal" else 99)
        scale = old.scale if old.word == "decimal" else 0
        return new.scale >= scale and new.precision - new.scale >= digits
    return old.word in _EXACT_IN.get(new.word, set())
