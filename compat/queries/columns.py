"""What both sides compute: which stored column each column of a new query goes on from, where that is known.

A recording or the old code says what a column is computed from; where two columns are computed from the same, they are
one, whatever they are called. Where nobody says it, there are two readings if names and places disagree: Spark reads by
place, a migration by name (`Reading.unclear`).

Paths are those of entries: `key.NAME`, `value.NAME.FIELD`, `[]` for the elements of an array, `{key}` and `{}` for a
map.
"""

from __future__ import annotations

import re
from ast import literal_eval
from collections import Counter
from typing import TYPE_CHECKING

import attrs

from ...serializers.spark_rows.pairing import KEY, STEPS, VALUE, Origin, Reading
from ...serializers.spark_rows.spark_types import holds_all
from .kinds import AGGREGATION, JOIN, OF_VARIABLES, SESSION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ...serializers.compatibility import Path
    from ...serializers.spark_rows.spark_types import SparkField, SparkType, StoreSchema
    from ..description import Computation

_CAST = re.compile(r"cast\(([^()]*) as [a-z]+(?:\([\d,]+\))?\)")
_DECIMAL = re.compile(r"\bdecimal\(\d+,(\d+)\)")
_PLAIN = re.compile(r"[^()]+|getstructfield\([^()]*\)")
_PLACE = re.compile(r", (?:ordinal|numFields)=\d+(?=, (?:name|numFields|containsNull)=)")
_ONE_BUFFER = re.compile(
    r"(stddevsamp|stddevpop|variancesamp|variancepop)|(covpopulation|covsample)"
    r"|(percentile|percentiledisc|approximatepercentile)"
)
"""Aggregates of three families: those of one have the same buffers, and tell their results apart at the end."""
_STRUCT = "struct("
_NUMBERS_OF_JOINS = "keyToNumValues"
_BESIDE_GROUPS = {("userKey",), ("expiryTimestampMs",)}
_BESIDE_HASHED = {SESSION: {"sessionStartTime"}, JOIN: {"index", "__event_time"}}
"""The fields of a key that Spark does not hash, by the kind of the operator."""
_OPENING, _CLOSING = "([{", ")]}"


def path_of_values(store: str, kind: str) -> str:
    """Return what the paths of a store's values begin with; both sides of a join have rows of their own."""
    if kind != JOIN:
        return "value"
    side, _, rest = store.partition("-")
    return f"{side}.{'number' if rest == _NUMBERS_OF_JOINS else 'value'}"


@attrs.frozen
class _Column:
    """A column, or a field of a struct that the query makes."""

    name: str
    path: str
    type: SparkType
    text: str
    shown: str


def without_places(text: str) -> str:
    """Return a text without the positions of struct fields: fields of a source are read by name."""
    return _PLACE.sub("", _PLACE.sub("", text))


def of_buffer(text: str) -> str:
    """Return the text of an aggregate's buffer: equal for aggregates that keep equal buffers."""
    name, bracket, rest = text.removeprefix("distinct ").partition("(")
    family = _ONE_BUFFER.fullmatch(name)
    if not bracket or family is None:
        return text
    if family[3] is None:
        return text.replace(name, "moments" if family[1] else "covariance", 1)
    column, comma, others = first_of(rest)
    _, _, others = first_of(others)
    return f"{text[: -len(rest)]}{column}, …{comma}{others}" if comma else text


def origins(store: str, was: Computation, becomes: Computation) -> Iterator[Origin]:
    """Yield the columns of a store of which it is known what they go on from, or that they are computed otherwise."""
    for part in (KEY, VALUE):
        old, new = (tuple(_columns(store, part, one)) for one in (was, becomes))
        yield from _origins(old, new)


def _columns(store: str, part: Path, of: Computation) -> Iterator[_Column]:
    schema, texts = of.stores.get(store), of.columns.get(store, {})
    if schema is None:
        return
    struct = group_of(schema.key, of.kind) if part == KEY else schema.value
    for name, field in zip(struct.names, struct.fields, strict=True):
        path = part.then(name)
        shown = texts.get(path, "")
        is_buffer = part == VALUE and of.kind in {AGGREGATION, SESSION} and name not in schema.key.names
        text = without_places(shown)
        yield _Column(name, path, field.type, of_buffer(text) if is_buffer else text, shown)


def group_of(key: SparkType, kind: str) -> SparkType:
    """Return the type of the grouping key in that of a store; maps and timers have it within a key of theirs."""
    is_within = kind in OF_VARIABLES and key.names[:1] == ("key",) and key.names[1:] in _BESIDE_GROUPS
    return key.fields[0].type if is_within else key


def hashed_fields(group: SparkType, kind: str) -> dict[str, SparkField]:
    """Return the fields by whose hash Spark spreads entries over partitions, by name."""
    beside = _BESIDE_HASHED.get(kind, ())
    return {name: one for name, one in zip(group.names, group.fields, strict=True) if name not in beside}


def _origins(old: tuple[_Column, ...], new: tuple[_Column, ...]) -> Iterator[Origin]:
    stored = dict(_numbered(old))
    pairs = {becomes.path: stored[alike] for alike, becomes in _numbered(new) if alike in stored}
    taken = {one.path for one in pairs.values()}
    by_name = {one.name: one for one in old if one.path not in taken}
    pairs |= _other_case([one for one in new if one.path not in pairs], by_name)
    for one in new:
        source = pairs.get(one.path)
        same = by_name.get(one.name)
        if source is not None:
            yield Origin(one.path, one.name, source.path)
            yield from _below(source, one)
        elif same is not None and same.text and one.text:
            parts = _fields(same), _fields(one)
            if all(parts) or _is_wider(same, one):
                yield Origin(one.path, one.name, same.path)
                yield from _origins(*parts)
            else:
                yield Origin(one.path, one.name, was=same.shown, now=one.shown)


def _other_case(new: list[_Column], old: Mapping[str, _Column]) -> dict[str, _Column]:
    """Return the stored columns whose names differ only in case, and of which nobody says what they contain."""
    folded = Counter(one.name.casefold() for one in new), Counter(name.casefold() for name in old)
    by_case = {name.casefold(): one for name, one in old.items()}
    found = {}
    for one in new:
        name = one.name.casefold()
        if one.name not in old and folded[0][name] == folded[1][name] == 1:
            stored = by_case[name]
            if not (one.text and stored.text):
                found[one.path] = stored
    return found


def _numbered(columns: tuple[_Column, ...]) -> Iterator[tuple[tuple[str, int], _Column]]:
    """Yield each column with its text, and the number of columns before it with that text (as of one aggregate)."""
    seen = Counter[str]()
    for one in columns:
        if one.text:
            text = _unordered(one)
            yield (text, seen[text]), one
            seen[text] += 1


def _unordered(column: _Column) -> str:
    """Return the text of a column; of a struct that the query makes, the texts of its fields in any order."""
    fields = _fields(column)
    return f"struct of {sorted(map(_unordered, fields))}" if fields else column.text


def _below(old: _Column, new: _Column) -> Iterator[Origin]:
    """Yield the fields of a column that both queries compute alike."""
    fields = _fields(old), _fields(new)
    if all(fields):
        yield from _origins(*fields)
    elif _PLAIN.fullmatch(new.text):  # a column of a source, which has its fields by name
        yield from _of_source(old.type, new.type, old.path, new.path)


def _of_source(old: SparkType, new: SparkType, old_path: str, path: str) -> Iterator[Origin]:
    if old.word != new.word:
        return
    if old.word == "struct":
        stored = dict(zip(old.names, old.fields, strict=True))
        for name, field in zip(new.names, new.fields, strict=True):
            if name in stored:
                yield Origin(f"{path}.{name}", name, f"{old_path}.{name}")
                yield from _of_source(stored[name].type, field.type, f"{old_path}.{name}", f"{path}.{name}")
        return
    for step, one, other in zip(STEPS.get(old.word, ()), old.fields, new.fields, strict=False):
        yield from _of_source(one.type, other.type, old_path + step, path + step)


def _fields(column: _Column) -> tuple[_Column, ...]:
    """Return the fields of a struct that the query itself makes, `struct('a', x, 'b', y)`; else none."""
    text = column.text
    if column.type.word != "struct" or not text.startswith(_STRUCT):
        return ()
    parts = _arguments(text[len(_STRUCT) : -1])
    if len(parts) != 2 * len(column.type.fields):
        return ()
    try:
        names = [str(literal_eval(one)) for one in parts[::2]]
    except (ValueError, SyntaxError):
        return ()
    if names != [field.name for field in column.type.fields]:
        return ()
    return tuple(
        _Column(name, f"{column.path}.{name}", field.type, of, of)
        for name, field, of in zip(column.type.names, column.type.fields, parts[1::2], strict=True)
    )


def _arguments(text: str) -> list[str]:
    """Return the arguments of a call; nothing if the text is no call."""
    parts = []
    comma = ","
    while comma:
        part, comma, text = first_of(text)
        parts.append(part.strip())
    return [] if text else parts


def first_of(text: str) -> tuple[str, str, str]:
    """Return the first of arguments, the comma behind it, or "", and the rest, from a closing bracket on."""
    depth, quote, at = 0, "", 0
    while at < len(text):
        sign = text[at]
        if quote:
            if sign == "\\":
                at += 1
            elif sign == quote:
                quote = ""
        elif sign in "'\"":
            quote = sign
        elif sign in _OPENING:
            depth += 1
        elif sign in _CLOSING and depth:
            depth -= 1
        elif sign in _CLOSING:
            return text[:at], "", text[at:]
        elif sign == "," and not depth:
            return text[:at], ",", text[at + 1 :]
        at += 1
    return text, "", ""


def _is_wider(old: _Column, new: _Column) -> bool:
    """Whether a column is computed from the same column, which has a wider type now."""
    before, now = (_DECIMAL.sub(r"decimal(…,\1)", one.text) for one in (old, new))
    if before == now:
        return old.type == new.type or holds_all(new.type, old.type)
    return holds_all(new.type, old.type) and _without_casts(new.text) == old.text


def _without_casts(text: str) -> str:
    """Return a text as it is where its columns are widened first."""
    while (plain := _CAST.sub(r"\1", text)) != text:
        text = plain
    return text


_FIRST_VALUES = {
    **dict.fromkeys(("n", "avg", "m2", "m3", "m4", "xAvg", "yAvg", "ck", "xMk", "yMk"), "0.0"),
    **dict.fromkeys(("max", "min", "first", "last", "valueWithExtremumOrdering", "extremumOrdering"), "null"),
    "count": "0", "isEmpty": "true", "valueSet": "false",
}  # fmt: skip
"""What the buffers of a new group have in them, as JSON; that of a sum depends on its type: an average has one, too."""


def first_value(name: str, value: SparkType) -> str:
    """Return what a new group has in a buffer, as JSON; "": it is not known."""
    plain, _, number = name.partition("#")
    if plain == "sum":
        return "0.0" if value.fields[value.names.index(name)].type.word == "double" else "null"
    return _FIRST_VALUES.get(plain, "") if not number or number.isdigit() else ""


def _alike(old: SparkType, new: SparkType) -> bool:
    """Whether the types of all places are equal, whatever their names."""
    if (old.word, old.precision, old.scale, len(old.fields)) != (new.word, new.precision, new.scale, len(new.fields)):
        return False
    return all(_alike(one.type, other.type) for one, other in zip(old.fields, new.fields, strict=True))


def reading_of(
    kind: str, old: Mapping[str, StoreSchema], new: Mapping[str, StoreSchema], store: str = "", *,
    is_by_name: bool = False,
) -> Reading:  # fmt: skip
    """Return how the entries of a store are read.

    Args:
        kind: The kind of the operator.
        old: The types of all of its stores; Spark refuses to start if those of one differ.
        new: The new ones.
        store: The store.
        is_by_name: Whether entries are in avro, which Spark reads by name, too.
    """
    is_silent = all(
        _alike(one.key, new[name].key) and _alike(one.value, new[name].value)
        for name, one in old.items()
        if name in new
    )
    types = new.get(store)
    is_of_aggregates = types is not None and kind in {AGGREGATION, SESSION}
    of_spark = {*types.value.names} - {*types.key.names} if types is not None and is_of_aggregates else ()
    return Reading(is_silent and not is_by_name, frozenset(map(VALUE.then, of_spark)))
