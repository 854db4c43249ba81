"""What a migration of an operator's state must be told, and what none can carry over: as data, for check and run."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING

import attrs

from ...serializers.compatibility import Path
from ...serializers.spark_rows.pairing import KEY, STEPS, VALUE, Becomes, asked, is_within
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
OF_COLUMNS = "SPK-10"
"""The rule for columns that are computed from something else."""
_TTL = re.compile(r"[+-]?\d+")
_MOST_TTL_DIGITS = 15


class Asks(StrEnum):
    """What would solve a problem."""

    FIELD = "field"
    """Something is to be said of a field: its value, or which stored one it is."""
    TYPE = "type"
    """A function of its author is to convert a field."""
    MERGE = "merge"
    """It is to be said how the values of keys are merged that become equal."""
    VARIABLE = "variable"
    """It is to be said that a variable is dropped, or what it is called now."""
    DEADLINE = "deadline"
    """It is to be said when the stored entries of a variable expire."""
    MEANT = "meant"
    """It is to be said that a change is meant."""
    OPERATOR = "operator"
    """It is to be said which operator takes the state of another."""
    NOTHING = "nothing"
    """No option of a migration helps."""


@attrs.frozen
class Problem:
    """Something that a migration has to be told, or cannot do.

    Attributes:
        asks: What would solve it.
        words: What it is.
        path: The field or variable; "": it is of the operator.
        rule: The rule that a check finds it by, and that would have to be accepted, if that solves it; or "".
    """

    asks: Asks
    words: str
    path: str = ""
    rule: str = ""

    def __str__(self) -> str:
        rule = f" [{self.rule}]" if self.asks is Asks.MEANT else ""
        return f"{self.path}: {self.words}{rule}" if self.path else f"{self.words}{rule}"


def problems_of(pair: OperatorPair, changes: FieldChanges) -> Iterator[Problem]:
    """Yield the problems of an operator's state that `changes` does not solve."""
    yield from _variable_problems(pair, changes) if pair.was.kind in OF_VARIABLES else _row_problems(pair, changes)


def _row_problems(pair: OperatorPair, changes: FieldChanges) -> Iterator[Problem]:
    kind, paths = pair.was.kind, set[str]()
    for store in pair.stores:
        key, value = store.parts
        added = added_to(key)
        if kind == JOIN and added:
            told = (
                "the join is on more columns, and stored rows of one key would belong to several, by what is in their"
                " other columns; start the new query with a new checkpoint"
            )
            yield from (Problem(Asks.NOTHING, told, path, "SPK-11") for path in added)
        else:
            yield from field_problems(key, pair)
        ordered = {problem.path: problem for problem in _other_orders(value, store)}
        yield from ordered.values()
        yield from (one for one in field_problems(value, pair) if not is_within(one.path, ordered))
        if kind not in _CONVERTED and not (key.is_same and value.is_same):
            told = f"its types change, and {_LEFT_ALONE if kind in OF_SCALA else _OF_OTHERS}"
            yield Problem(Asks.NOTHING, told, rule="SPK-6")
        if becomes_several(key):
            told = "the state of one group becomes that of several, or the other way round"
            yield Problem(Asks.NOTHING, told, rule="SPK-4")
        yield from _collisions(pair, key, value, changes)
        if kind == SESSION:
            yield from _unlike_keys(key, value, changes)
        if store.store.endswith(_ROWS_BY_TIME):
            yield from _other_times(pair, store, changes)
        paths |= field_paths(key) | field_paths(value)
    advice = "; those of rows begin with left.value. or right.value." if kind == JOIN else ""
    for path in sorted(changes.paths() - paths):
        yield Problem(Asks.FIELD, f"the new types have no such field{advice}", path)


def _other_orders(value: FieldPair, store: StorePair) -> Iterator[Problem]:
    """Yield the structs within buffers of aggregates whose fields have another order, whatever is said of these."""
    for one in value.all():
        is_other = one.is_moved or any(below.becomes is Becomes.UNCLEAR for below in one.below)
        if is_other and store.reading.is_buffer(one.path):
            told = "the order of the fields decides which struct is the largest, and it is another one"
            yield Problem(Asks.NOTHING, told, one.path, "SPK-2")


def field_problems(pair: FieldPair, of: OperatorPair) -> Iterator[Problem]:
    """Yield the problems of the fields of rows."""
    for one in pair.all():
        if not (words := asked(one)):
            continue
        if one.becomes is Becomes.OTHERWISE and is_of_key(one):
            yield Problem(Asks.MEANT, f"it was {one.was}, and is {one.now} now", one.path, OF_COLUMNS)
            continue
        texts = (columns[one.path] for columns in of.becomes.columns.values() if one.path in columns)
        text = "" if one.becomes is Becomes.OTHERWISE else next(texts, "")
        is_of_type = one.becomes is Becomes.UNCONVERTED
        computed = f" (in the new query it is of {text})" if text else ""
        yield Problem(Asks.TYPE if is_of_type else Asks.FIELD, f"{words}{computed}", one.path)
    for one in pair.all():
        keys = [at.path for at in one.below[:1] if len(one.below) == 2 and at.path.is_within_map_key]
        if keys and (lost := dropped_of(one.below[0])):
            told = f"keys of one map could become equal without {', '.join(lost)}"
            yield Problem(Asks.NOTHING, told, one.path, "SPK-4")
        if one.becomes is Becomes.CONVERTED and one.path.is_within_map_key:
            yield Problem(Asks.NOTHING, "keys of one map could become equal by a function", one.path, "SPK-6")


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


def _collisions(pair: OperatorPair, key: FieldPair, value: FieldPair, changes: FieldChanges) -> Iterator[Problem]:
    """Yield why keys must not become equal, and which rules are missing; what a function makes equal is seen later."""
    dropped, of_function = dropped_of(key), by_function(key)
    if told := NEVER_MERGED.get(pair.was.kind):
        told += "; keep it, or start with a new checkpoint"
        for paths, how in ((dropped, "without it"), (of_function, "by a function")):
            yield from (Problem(Asks.NOTHING, f"keys may become equal {how}: {told}", path, "SPK-4") for path in paths)
        return
    if not dropped:
        return
    for path in changes.backfills:
        yield Problem(Asks.FIELD, "keys may become equal, so that a DataFrame cannot fill it", path)
    yield from _merges(value, dropped, changes)


def _merges(value: FieldPair, dropped: list[str], changes: FieldChanges) -> Iterator[Problem]:
    """Yield which rules for values are missing, or merge nothing, where keys may become equal."""
    _, of = value.types
    told = f"keys may become equal without {', '.join(dropped)}: say how their values are merged"
    yield from (Problem(Asks.MERGE, told, path) for path in unmerged(of, value.path, changes.merges))
    for path in never_merged(of, value.path):
        if path in changes.merges:
            told = "no rule merges its type: leave the rule out; if keys become equal, the migration writes nothing"
            yield Problem(Asks.FIELD, told, path)


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


def _unlike_keys(key: FieldPair, value: FieldPair, changes: FieldChanges) -> Iterator[Problem]:
    """Yield what is said of a key of sessions and not of the column of their values that repeats it, or otherwise."""
    (_, of_key), (_, of_value) = key.types, value.types
    for name in (one for one in of_key.names if one in of_value.names):
        twins = KEY.then(name), VALUE.then(name)
        ways = (Path(changes.renames.get(one, one)) for one in twins)
        fills = (changes.fills.get(one, ...) for one in twins)
        if len({one.after(one.first) for one in ways}) > 1 or len({repr(one) for one in fills}) > 1:
            yield Problem(Asks.FIELD, f"it repeats {twins[0]}: say the same of both", twins[1])


def _other_times(pair: OperatorPair, store: StorePair, changes: FieldChanges) -> Iterator[Problem]:
    """Yield why rows would lie under other times than those by which Spark removes them."""
    rows = path_of_values(store.store, pair.was.kind)
    was, now = (
        next((f"{rows}.{one.name}" for one in schema.value.fields if one.is_event_time), "")
        for schema in (pair.was.stores[store.source], pair.becomes.stores[store.store])
    )
    renames = pair.renames
    if was != renames.get(now, now) or now in changes.fills or now in changes.converters:
        yield Problem(
            Asks.NOTHING,
            f"the event time of rows, by which join state of format 4 has them, was {was or 'none'}, and is"
            f" {now or 'none'} now: keep it, or start with a new checkpoint",
            now or was,
            "SPK-12",
        )


def _variable_problems(pair: OperatorPair, changes: FieldChanges) -> Iterator[Problem]:
    paths = set[str]()
    is_changed = False
    for index, store in enumerate(pair.stores):
        key, *rest = store.parts
        if index == 0:
            yield from _of_group(key, pair)
        is_changed = is_changed or not all(one.is_same for one in store.parts)
        paths |= {store.store, *(path for one in store.parts for path in field_paths(one))}
        if store.variables is None:
            continue
        before, after = store.variables
        is_changed = is_changed or before.kind != after.kind or before.expires is not after.expires
        if before.kind != after.kind:
            told = f"a {before.kind} becomes a {after.kind}, and entries of one are none of the other"
            yield Problem(Asks.NOTHING, told, store.store, "SPK-6")
            continue
        if told := deadline_problem(*store.variables, changes.ttls.get(store.store, "")):
            yield Problem(Asks.DEADLINE, told, store.store)
        for one in rest:
            yield from field_problems(one, pair)
        if len(rest) > 1 and (gone := dropped_of(rest[0])):
            yield from _merges(rest[1], gone, changes)
    if pair.was.kind in OF_SCALA and is_changed:
        yield Problem(Asks.NOTHING, f"its types change, and {_LEFT_ALONE}", rule="SPK-6")
    yield from _variables_gone(pair, changes)
    variables = {name for name in pair.becomes.stores if not name.startswith("$")}
    for name in sorted({*changes.paths(), *changes.ttls} - variables - paths):
        yield Problem(Asks.FIELD, "the new query has no such field or variable with stored entries", name)


def _of_group(key: FieldPair, pair: OperatorPair) -> Iterator[Problem]:
    yield from field_problems(key, pair)
    for paths, how in ((dropped_of(key), "without it"), (by_function(key), "by a function")):
        told = f"keys may become equal {how}, and {_STATES}"
        yield from (Problem(Asks.NOTHING, told, path, "SPK-4") for path in paths)


def _variables_gone(pair: OperatorPair, changes: FieldChanges) -> Iterator[Problem]:
    """Yield the variables that are gone, and not dropped on purpose."""
    gone = {one for one in pair.gone if not one.startswith("$")}
    drops, becomes = {*changes.drops}, {name: of for name, of in changes.renames.items() if name in pair.becomes.stores}
    for name, source in sorted(becomes.items()):
        if source not in pair.was.stores:
            yield Problem(Asks.FIELD, f"there is no variable {source!r} that it could be renamed from", name)
    for name in sorted(gone - drops):
        told = "the new query does not have the variable: say what it is called now, or that it is dropped"
        yield Problem(Asks.VARIABLE, told, name)
    for name in sorted(drops - gone):
        yield Problem(Asks.VARIABLE, "there is no variable that could be dropped", name)


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
