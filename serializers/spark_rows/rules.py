"""The rules for rows of Spark, SPK-1 to SPK-6: fields pair by name, although Spark itself pairs them by position.

Spark compares the types of a checkpoint with those of a query by position, and never the names (notes on Spark, 4.2).
So it starts where two fields of one type changed places, and reads each as the other; it refuses what adds a field.
What may be null is not compared (SPK-1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

import attrs

from ..compatibility import Finding, Flag, Flagged, Verdict
from ..ways_out import Does, Told, WayOut
from .pairing import UNCONVERTED, UNSCALED, Becomes, Pairing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .pairing import FieldPair
    from .spark_types import SparkType

_KEEP = "keep the type of the old query"
NEW = WayOut("start the new query with a new checkpoint")
COMMAND = "stateshift migrate spark:OLD spark:NEW --query MODULE:FUNCTION"


def by_copy(words: str, *told: Told, is_ready: bool = True) -> WayOut:
    """Return the way out to migrate a copy with some options; `with_command` names the command."""
    return WayOut(words, told, Does.MIGRATE, command=COMMAND, is_ready=is_ready)


COPY = by_copy("migrate a copy:")
_ORDER = {Becomes.DROPPED: 0, Becomes.NEW: 1}
"""What is told first of a struct; the rest has the order of its fields."""
_MIGRATE, _REFUSED = Verdict.REQUIRES_MIGRATION, Verdict.INCOMPATIBLE


def with_command(finding: Finding, command: str) -> Finding:
    """Return a finding whose ways out name the command that migrates a copy."""
    ways = (attrs.evolve(one, command=command) if one.command else one for one in finding.ways_out)
    return attrs.evolve(finding, ways_out=ways)


def resolve(old: SparkType, new: SparkType, path: str = "$") -> Iterator[Finding]:
    """Yield every difference between a stored type and a new one, whose fields pair by name."""
    yield from (finding for _, finding in findings_on(Pairing().pair(old, new, path)))


def findings_on(pair: FieldPair, prefix: str = "") -> Iterator[tuple[FieldPair, Finding]]:
    """Yield the findings on a field and on all within it, by their types alone, each with its field."""
    yield from ((pair, finding) for finding in _finding(pair, prefix))
    if pair.becomes is not Becomes.CARRIED:
        return
    several = [one for one in pair.below if one.becomes is Becomes.SEVERAL]
    for one in several:
        alike = {of.source for of in one.below}
        count = sum(alike == {of.source for of in other.below} for other in several)
        yield one, _several(one, prefix, is_dropped=count < len(one.below))
    for one in sorted(pair.below, key=lambda one: _ORDER.get(one.becomes, len(_ORDER))):
        yield from findings_on(one, prefix)


def _finding(pair: FieldPair, prefix: str) -> Iterator[Finding]:
    """Yield the findings on a field by its types, without those on fields within it.

    Args:
        pair: What becomes of it.
        prefix: What stands before its path in that of the finding.
    """
    path = prefix + pair.path
    words = "" if pair.old is None else pair.old.describe(), "" if pair.new is None else pair.new.describe()
    match pair.becomes:
        case Becomes.CARRIED:
            if pair.is_moved and pair.old is not None and pair.new is not None:
                yield _moved(path, pair.old, pair.new)
        case Becomes.WIDENED:
            reason = "the new type holds every stored value, in other bytes; Spark refuses to start"
            yield Finding(path, "SPK-5", _MIGRATE, *words, reason, (COPY, _KEEP, NEW))
        case Becomes.UNCONVERTED:
            yield Finding(path, "SPK-6", _REFUSED, *words, UNCONVERTED, (_KEEP, NEW))
        case Becomes.UNSCALED:
            yield Finding(path, "SPK-6", _REFUSED, *words, UNSCALED, (_KEEP, NEW))
        case Becomes.NEW:
            reason = "the field is new; stored rows have no value for it"
            yield Finding(path, "SPK-3", _MIGRATE, *words, reason, (COPY, "leave it out", NEW))
        case Becomes.DROPPED:
            name, twin = pair.path.last, pair.instead.last
            flags: tuple[Flagged | Flag, ...] = (Flag.DROPS.of(path),)
            reason = "the field is gone; its stored value is dropped"
            if twin:
                flags += (Flag.POSSIBLE_RENAME.of(name, twin),)
                reason += f"; Spark would start if {twin!r} stands in its place, and take the value for it"
            yield Finding(path, "SPK-4", _MIGRATE, *words, reason, (COPY, f"keep the field {name!r}", NEW), flags)
        case Becomes.OTHERWISE:
            reason = "the column is computed from something else, and Spark goes on with what is stored"
            ways = ("keep it as the old query computes it", NEW)
            yield Finding(path, "SPK-10", _MIGRATE, pair.was, pair.now, reason, ways)
        case Becomes.UNCLEAR | Becomes.SEVERAL | Becomes.MISSING | Becomes.FILLED | Becomes.CONVERTED:
            pass  # unclear ones, and several of one name, are told together; a check says nothing of fields
        case _:
            assert_never(pair.becomes)


def _several(pair: FieldPair, prefix: str, *, is_dropped: bool) -> Finding:
    path, new = prefix + pair.path, "" if pair.new is None else pair.new.describe()
    name = pair.path.last.partition("#")[0]
    reason = f"several fields are called {name!r}, and their number is another: the types do not say which is which"
    flags = (Flag.DROPS.of(path),) if is_dropped else ()
    return Finding(path, "SPK-2", _MIGRATE, "", new, reason, (COPY, "keep as many of them", NEW), flags)


def _moved(path: str, old: SparkType, new: SparkType) -> Finding:
    is_silent = [one.type.describe() for one in old.fields] == [one.type.describe() for one in new.fields]
    spark = "would start, and read each as another" if is_silent else "refuses to start"
    reason = f"the fields have another order; Spark pairs them by position: it {spark}"
    order = ", ".join(old.names), ", ".join(new.names)
    return Finding(path, "SPK-2", _MIGRATE, *order, reason, (COPY, "keep the order of the old query", NEW))
