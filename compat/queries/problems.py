"""What no migration of an operator's state carries over, and what is said of one that does not fit: as findings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ...serializers.compatibility import Finding, Path, Verdict
from ...serializers.spark_rows.pairing import KEY, STEPS, VALUE, Becomes
from ...serializers.spark_rows.rules import NEW
from .columns import path_of_values
from .kinds import (
    AGGREGATION,
    DEDUPLICATION,
    GROUPS,
    JOIN,
    LIMIT,
    OF_SCALA,
    OF_VARIABLES,
    SESSION,
    WITHIN_WATERMARK,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ...serializers.spark_rows.pairing import FieldPair
    from ...serializers.spark_rows.spark_types import SparkType
    from ...serializers.ways_out import WayOut
    from .changes import FieldChanges
    from .store_pairs import OperatorPair, StorePair, Variable

_ROWS_BY_TIME = "-keyWithTsToValues"
_CONVERTED = {AGGREGATION, SESSION, JOIN, LIMIT, DEDUPLICATION, WITHIN_WATERMARK, GROUPS}
_OF_OTHERS = f"this release changes only those of {', '.join(sorted(_CONVERTED))}"
_LEFT_ALONE = "state of Scala is what an encoder made of objects: it is copied as it is, and never changed"
NEVER_MERGED = {
    SESSION: "sessions of one key may overlap then, and only Spark can put them together",
    JOIN: "rows would match that did not, and those that are stored were never joined so",
}
"""Why keys of a kind of operators must not become equal."""
_STATES = "the states of two keys are not merged"
_TTL = re.compile(r"[+-]?\d+")
_MOST_TTL_DIGITS = 15


def problem(path: str, rule: str, reason: str, *ways: WayOut | str, old: str = "", new: str = "") -> Finding:
    """Return the finding that a migration cannot be done so.

    Args:
        path: The field or variable; "": it is of the operator.
        rule: The rule that decides it.
        reason: Why.
        ways: What can be done; else only a new checkpoint helps.
        old: What was.
        new: What is now.
    """
    return Finding(f"$.{path}" if path else "$", rule, Verdict.INCOMPATIBLE, old, new, reason, ways or (NEW,))


def impossible(pair: OperatorPair) -> Iterator[Finding]:
    """Yield what no migration carries over, whatever it is told."""
    return _impossible_variables(pair) if pair.was.kind in OF_VARIABLES else _impossible_rows(pair)


def _impossible_rows(pair: OperatorPair) -> Iterator[Finding]:
    kind = pair.was.kind
    for store in pair.stores:
        key, value = store.parts
        if kind == JOIN:
            told = (
                "the join is on more columns, and stored rows of one key would belong to several, by what is in their"
                " other columns"
            )
            yield from (problem(path, "SPK-11", told, "keep the columns of the join", NEW) for path in added_to(key))
        yield from _other_orders(value, store)
        yield from (*_equal_map_keys(key), *_equal_map_keys(value))
        if kind not in _CONVERTED and not (key.is_same and value.is_same):
            told = f"its types change, and {_LEFT_ALONE if kind in OF_SCALA else _OF_OTHERS}"
            yield problem("", "SPK-6", told)
        if becomes_several(key):
            yield problem("", "SPK-4", "the state of one group becomes that of several, or the other way round")
        if kind in NEVER_MERGED:
            yield from _equal_keys(key, NEVER_MERGED[kind])
        if store.store.endswith(_ROWS_BY_TIME):
            yield from _other_times(pair, store)


def _other_orders(value: FieldPair, store: StorePair) -> Iterator[Finding]:
    """Yield the structs within buffers of aggregates whose fields have another order, whatever is said of these."""
    for one in value.all():
        is_other = one.is_moved or any(below.becomes is Becomes.UNCLEAR for below in one.below)
        if is_other and store.reading.is_buffer(one.path):
            told = "the order of the fields decides which struct is the largest, and it is another one"
            yield problem(one.path, "SPK-2", told, "keep the order of the old query", NEW)


def _equal_map_keys(pair: FieldPair) -> Iterator[Finding]:
    for one in pair.all():
        keys = [at.path for at in one.below[:1] if len(one.below) == 2 and at.path.is_within_map_key]
        if keys and (lost := dropped_of(one.below[0])):
            yield problem(one.path, "SPK-4", f"keys of one map could become equal without {', '.join(lost)}")
        if one.becomes is Becomes.CONVERTED and one.path.is_within_map_key:
            yield problem(one.path, "SPK-6", "keys of one map could become equal by a function")


def _equal_keys(key: FieldPair, told: str) -> Iterator[Finding]:
    for paths, how in ((dropped_of(key), "without it"), (by_function(key), "by a function")):
        for path in paths:
            keep = f"keep the field {Path(path).last!r}"
            yield problem(path, "SPK-4", f"keys may become equal {how}: {told}", keep, NEW)


def is_of_key(pair: FieldPair) -> bool:
    """Whether entries are found by a field, so that it cannot have one value for all of them."""
    return pair.path.is_within(KEY) or pair.was.startswith("session_window(")


def added_to(pair: FieldPair) -> list[str]:
    """Return the paths of the fields that are new."""
    return [one.path for one in pair.all() if one.becomes in {Becomes.NEW, Becomes.FILLED}]


def dropped_of(pair: FieldPair) -> list[str]:
    """Return the paths of the stored fields that are dropped."""
    return [one.source for one in pair.all() if one.becomes is Becomes.DROPPED]


def by_function(pair: FieldPair) -> list[str]:
    """Return the paths of the fields that a function makes."""
    return [one.path for one in pair.all() if one.becomes is Becomes.CONVERTED]


def field_paths(pair: FieldPair) -> set[str]:
    """Return the paths of all fields of the new type of rows, and its own if a function makes it."""
    of = {pair.path} if pair.becomes is Becomes.CONVERTED else set()
    return of | set(_paths(pair.new, pair.path))


def _paths(of: SparkType | None, path: str) -> Iterator[str]:
    if of is None:
        return
    steps = STEPS.get(of.word) or [f".{name}" for name in of.names]
    for step, field in zip(steps, of.fields, strict=False):
        if of.word == "struct":
            yield path + step
        yield from _paths(field.type, path + step)


def becomes_several(key: FieldPair) -> bool:
    """Whether the state of one group, which has no key, becomes that of several; or the other way round."""
    return not key.is_same and _has_one_key(key.old) is not _has_one_key(key.new)


def _has_one_key(key: SparkType | None) -> bool:
    return key is not None and all(field.type.word == "void" for field in key.fields)


def unmerged(of: SparkType, path: str, rules: Mapping[str, str]) -> Iterator[str]:
    """Yield the paths of the fields of values that need a rule, if keys become equal, and have none."""
    never = {*never_merged(of, path)}
    for name, field in zip(of.names, of.fields, strict=True):
        if field.type.word != "void" and (below := f"{path}.{name}") not in rules and below not in never:
            yield below


def never_merged(of: SparkType, path: str) -> Iterator[str]:
    """Yield the paths of the fields of values that no rule merges: structs, arrays, maps and intervals."""
    for name, field in zip(of.names, of.fields, strict=True):
        if field.type.fields or field.type.word.startswith("interval"):
            yield f"{path}.{name}"


def _other_times(pair: OperatorPair, store: StorePair) -> Iterator[Finding]:
    """Yield why rows would lie under other times than those by which Spark removes them."""
    rows = path_of_values(store.store, pair.was.kind)
    was, now = (
        next((f"{rows}.{one.name}" for one in schema.value.fields if one.is_event_time), "")
        for schema in (pair.was.stores[store.source], pair.becomes.stores[store.store])
    )
    made = {one.path for one in store.parts[-1].all() if one.becomes in {Becomes.FILLED, Becomes.CONVERTED}}
    if was != pair.renames.get(now, now) or now in made:
        told = (
            f"the event time of rows, by which join state of format 4 has them, was {was or 'none'}, and is"
            f" {now or 'none'} now"
        )
        yield problem(now or was, "SPK-12", told, "keep it", NEW)


def _impossible_variables(pair: OperatorPair) -> Iterator[Finding]:
    is_changed = False
    for index, store in enumerate(pair.stores):
        if index == 0:
            yield from _equal_keys(store.parts[0], _STATES)
        yield from (one for part in store.parts for one in _equal_map_keys(part))
        is_changed = is_changed or not all(one.is_same for one in store.parts)
        if store.variables is None:
            continue
        before, after = store.variables
        is_changed = is_changed or before.kind != after.kind or before.expires is not after.expires
        if before.kind != after.kind:
            told = f"a {before.kind} becomes a {after.kind}, and entries of one are none of the other"
            ways = "keep the kind of the old query", NEW
            yield problem(store.store, "SPK-6", told, *ways, old=before.kind, new=after.kind)
    if pair.was.kind in OF_SCALA and is_changed:
        yield problem("", "SPK-6", f"its types change, and {_LEFT_ALONE}")


def misfits(pair: OperatorPair, changes: FieldChanges) -> Iterator[Finding]:
    """Yield what is said of a migration, and does not fit the types or itself."""
    paths = set[str]()
    for store in pair.stores:
        *keys, value = store.parts
        paths |= {path for one in store.parts for path in field_paths(one)}
        yield from (_misfit(one.path, _MISSING.format(one.source)) for part in store.parts for one in _missing(part))
        if value.new is not None and any(map(dropped_of, keys)):
            yield from _unmergeable(value.new, value.path, changes)
        said = changes.ttls.get(store.store, "")
        if said and store.variables is not None and (told := deadline_problem(*store.variables, said)):
            yield _misfit(store.store, told, "SPK-14")
        if pair.was.kind == SESSION:
            yield from _unlike_keys(keys[0], value, changes)
    if pair.was.kind in OF_VARIABLES:
        yield from _unknown_variables(pair, changes, paths)
        return
    advice = "; those of rows begin with left.value. or right.value." if pair.was.kind == JOIN else ""
    for path in sorted(changes.paths() - paths):
        yield _misfit(path, f"the new types have no such field{advice}")


_MISSING = "there is no field {!r} that it could be renamed from"


def _missing(part: FieldPair) -> Iterator[FieldPair]:
    return (one for one in part.all() if one.becomes is Becomes.MISSING)


def _misfit(path: str, told: str, rule: str = "SPK-3") -> Finding:
    return problem(path, rule, told, "say something else of it, or nothing")


def _unmergeable(of: SparkType, values: str, changes: FieldChanges) -> Iterator[Finding]:
    """Yield what cannot be said of values whose keys may become equal."""
    for path in changes.backfills:
        yield _misfit(path, "keys may become equal, so that a DataFrame cannot fill it")
    for path in never_merged(of, values):
        if path in changes.merges:
            told = "no rule merges its type: leave the rule out; if keys become equal, the migration writes nothing"
            yield _misfit(path, told, "SPK-4")


def _unlike_keys(key: FieldPair, value: FieldPair, changes: FieldChanges) -> Iterator[Finding]:
    """Yield what is said of a key of sessions and not of the column of their values that repeats it, or otherwise."""
    (_, of_key), (_, of_value) = key.types, value.types
    for name in (one for one in of_key.names if one in of_value.names):
        twins = KEY.then(name), VALUE.then(name)
        ways = (Path(changes.renames.get(one, one)) for one in twins)
        fills = (changes.fills.get(one, ...) for one in twins)
        if len({one.after(one.first) for one in ways}) > 1 or len({repr(one) for one in fills}) > 1:
            yield _misfit(twins[1], f"it repeats {twins[0]}: say the same of both")


def _unknown_variables(pair: OperatorPair, changes: FieldChanges, paths: set[str]) -> Iterator[Finding]:
    """Yield the variables and fields that are named, and are not there."""
    gone = {one for one in pair.gone if not one.startswith("$")}
    becomes = {name: of for name, of in changes.renames.items() if name in pair.becomes.stores}
    for name, source in sorted(becomes.items()):
        if source not in pair.was.stores:
            yield _misfit(name, f"there is no variable {source!r} that it could be renamed from")
    for name in sorted({*changes.drops} - gone):
        yield _misfit(name, "there is no variable that could be dropped", "SPK-14")
    variables = {name for name in pair.becomes.stores if not name.startswith("$")}
    for name in sorted({*changes.paths(), *changes.ttls} - variables - paths):
        yield _misfit(name, "the new query has no such field or variable with stored entries")


def deadline_problem(was: Variable, becomes: Variable, said: str) -> str:
    """Return why it is not clear when the stored entries of a variable expire; "": it is.

    Args:
        was: The variable.
        becomes: The new one.
        said: Its new time to live as an option says it, or "".
    """
    if said and (not _TTL.fullmatch(said) or len(said) > _MOST_TTL_DIGITS):
        return f"{said!r} is no number of milliseconds"
    if said and not becomes.expires:
        return "the new variable has no time to live"
    if was.expires and said and said[0] not in "+-":
        return "its entries expire already: say by how much later, such as +60000; without it they keep their time"
    if becomes.expires and not was.expires and (not said or said[0] in "+-"):
        return "its entries had no time to live: say after how many milliseconds stored ones expire"
    return ""
