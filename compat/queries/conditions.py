"""What the state of an operator depends on besides types: filters, time-outs, the code of functions (SPK-12 to 22)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...serializers.compatibility import Finding, Flag, Path, Verdict
from ...serializers.spark_rows.rules import NEW, by_copy
from ...serializers.ways_out import Option, Told, WayOut
from .columns import of_buffer, without_places
from .kinds import TIME_TO_LIVE, variable_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..description import Computation
    from .plan_text import Detail
    from .store_pairs import OperatorPair

OF_CODE, CODE = "SPK-21", "code of "
_REFUSED, _FINE = Verdict.INCOMPATIBLE, Verdict.COMPATIBLE
_DRAWN_SEED = 1 << 32
"""Spark draws the seed of a sample that has none among 64 bits; below this a person chose it."""
_UNSCALED = {"Sum", "Average"}
_OF_VALUES = {"CollectList", "CollectSet", "ListAgg", "Mode", "Percentile", "PercentileCont", "PercentileDisc"}
"""Aggregates that keep the values themselves, as bytes of their type; others keep a summary of them."""
FILTER_ON_KEYS = "filter on keys"
_ROWS = ("filters", "rows", FILTER_ON_KEYS)


def facts_changed(pair: OperatorPair) -> Iterator[Finding]:
    """Yield a finding for each changed filter, time-out, limit and function.

    The time to live of a variable that has another name is compared with that under the old one; a variable that one
    side does not have has no entries on both.
    """
    was, becomes = pair.was, pair.becomes
    yield from _details_changed(was, becomes)
    gone, added = ({TIME_TO_LIVE + name for name in names} for names in (pair.gone, pair.added))
    renamed = {TIME_TO_LIVE + one.source: TIME_TO_LIVE + one.store for one in pair.stores}
    facts = [
        {renamed.get(name, without_places(name)): text for name, text in was.facts.items() if name not in gone},
        {without_places(name): text for name, text in becomes.facts.items() if name not in added},
    ]
    for name in sorted({*facts[0], *facts[1]}):
        before, after = (one.get(name, "") for one in facts)
        if without_places(before) == without_places(after) or (name.startswith(FILTER_ON_KEYS) and after):
            continue  # a new condition on keys: the state of a key has all of its rows, or is no longer asked for
        is_rows = name.startswith(_ROWS)
        rule = "SPK-13" if is_rows else "SPK-12"
        told = (
            "other rows reach the operator; its state is of those that reached it before"
            if is_rows
            else "it decides what the state keeps and how long; Spark leaves what is stored as the old one had it, and"
            " only new rows follow the new one"
        )
        yield Finding(
            Path.naming(name, variable_of(name)), rule, _REFUSED, before, after, told,
            (
                "keep it as the old query has it", *_of_times(was, name, after), NEW,
                _accepted(rule),
            ),
        )  # fmt: skip


def _accepted(rule: str) -> WayOut:
    return WayOut.telling("accept that the state goes on:", Option.ACCEPT, rule)


def _of_times(was: Computation, name: str, after: str) -> tuple[WayOut, ...]:
    """Return the way out that gives the stored entries of a variable their new time to live."""
    if not (variable := variable_of(name)) or not after:
        return ()
    told = Told.of(Option.TTL, was.number, variable, after.removesuffix(" ms"))
    return (by_copy("let stored entries expire so many milliseconds after the last batch:", told),)


def _details_changed(was: Computation, becomes: Computation) -> Iterator[Finding]:
    """Yield a finding for each changed type, function and seed of a sample: the texts of expressions lack these."""
    yield from _types_changed(was, becomes)
    told = set()
    for what in was.details.keys() & becomes.details.keys():
        sides = was.details[what], becomes.details[what]
        if len(sides[0]) == len(sides[1]):  # else the texts differ
            told |= set(zip(*sides, strict=True))
    used = [set(details_of(side)) for side in (was, becomes)]
    for before in used[0] - used[1] - {one for one, _ in told}:  # what a column of another name uses
        told |= {(before, after) for after in used[1] - used[0]}
    told = {
        (one, other)
        for one, other in told
        if (one.kind, one.name) == (other.kind, other.name) and one.value != other.value
    }
    for before, after in sorted(told, key=str):
        if before.kind == "function":
            pythons = [one.value.partition(":")[0] for one in (before, after)]
            reason = (
                "the code of the function, or what it uses, is another; the state is of what it did before"
                if pythons[0] == pythons[1]
                else "the code of the function cannot be compared: another version of Python read it, or none could"
            )
            yield Finding(
                Path.naming(CODE + before.name, before.name), OF_CODE, _FINE, before.value[:16], after.value[:16],
                reason, flags=(Flag.UNVERIFIED,),
            )  # fmt: skip
        elif before.kind == "seed" and min(abs(int(before.value)), abs(int(after.value))) < _DRAWN_SEED:
            yield Finding(
                Path.naming("seed of the sample"), "SPK-13", _REFUSED, before.value, after.value,
                "other rows reach the operator; its state is of those that reached it before",
                ("keep the seed of the old query", NEW, _accepted("SPK-13")),
            )  # fmt: skip


def details_of(of: Computation) -> Iterator[Detail]:
    """Yield the details that decide columns or rows, and that the texts of expressions lack."""
    return (one for details in of.details.values() for one in details)


def of_type(detail: Detail) -> tuple[str, tuple[str, str]]:
    """Return an aggregate, the kind of its function, and the types in its buffers."""
    kind, _, text = detail.name.partition(" ")
    return of_buffer(without_places(text)), (kind, detail.value)


def hidden_types(of: Computation) -> dict[str, tuple[str, str]]:
    """Return, by buffer, the types that decide what is in it and that its own type does not show."""
    return dict(of_type(one) for one in details_of(of) if one.kind == "type")


def _scale(decimal: str) -> str:
    return decimal.partition(",")[2]


def _types_changed(was: Computation, becomes: Computation) -> Iterator[Finding]:
    """Yield a finding for each aggregate whose buffer keeps its type, but holds values of another type."""
    before, after = hidden_types(was), hidden_types(becomes)
    for text in sorted(before.keys() & after.keys()):
        (kind, old), (_, new) = before[text], after[text]
        is_unscaled = kind in _UNSCALED
        if old == new or (is_unscaled and _scale(old) == _scale(new)):
            continue
        if is_unscaled or kind in _OF_VALUES:
            told = (
                "Spark sums decimals of up to 8 digits as whole numbers, and goes on as if those had the new scale"
                if is_unscaled
                else "Spark keeps the values as bytes, and goes on as if those were of the new type"
            )
            ways = ("keep the type of the old query", NEW)
            yield Finding(Path.naming(text), "SPK-22", _REFUSED, old, new, told, ways)
        else:
            yield Finding(
                Path.naming(text), "SPK-22", _FINE, old, new,
                "Spark keeps a summary as bytes; it is not known whether one of the old type counts for the new one",
                flags=(Flag.UNVERIFIED,),
            )  # fmt: skip
