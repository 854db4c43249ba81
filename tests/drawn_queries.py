"""Queries of Spark before and after changes, drawn by hypothesis: their stateful operators, and what these keep.

Who draws knows where each column comes from: of a column that a plan says something of, by what it is computed from
(`text`); of any other, by its name. `Fate` follows that, and knows nothing of how a check or a migration pairs fields.
"""

from __future__ import annotations

import datetime as dt
import json
import zlib
from collections import Counter

import attrs
from hypothesis import strategies as st

from stateshift.compat.description import Computation, JobDescription
from stateshift.compat.queries.description import describe_query_operator
from stateshift.compat.queries.kinds import (
    AGGREGATION,
    DEDUPLICATION,
    GROUPS,
    JOIN,
    SESSION,
    TRANSFORM,
    WITHIN_WATERMARK,
)
from stateshift.serializers.spark_rows.spark_types import StoreSchema, parse_struct

TYPES = ("integer", "long", "double", "string", "boolean")
WIDER = {"integer": "long", "long": "decimal(20,0)"}
NAMES = ("x", "y", "z", "w", "v", "u")
KEYS = tuple("klmnop")
BUFFERS = ("sum", "count", "max", "min", "first", "last")
AGGREGATES = tuple(f"sum({name})" for name in "abcdefgh")
SIDES = {"left": tuple("abcdefgh"), "right": tuple(f"{name}@1" for name in "abcdefgh")}
STEPS = {"": "", "array": "[]", "map": "{}"}
OF_VARIABLES = {"value": "", "list": "[]", "map": "{}"}
COMPUTED = {AGGREGATION, SESSION, JOIN}
"""The kinds of which a plan says what their values are computed from; of all it says that of their keys."""
TIMES_MS = 1_800_000_000_000


@attrs.frozen
class Column:
    """A column: its name, what it is computed from, and its type; the second `sum` is `sum#2`.

    Attributes:
        name: Its name.
        text: What it is computed from; "": nobody says it.
        type: The type, or what the values of an array or a map have.
        fields: The fields, if it is a struct.
        within: `array` or `map`, if it has several such values.
    """

    name: str
    text: str
    type: str
    fields: tuple = ()
    within: str = ""

    def json(self):
        return {"name": self.name.partition("#")[0], "type": self._json_type(), "nullable": True, "metadata": {}}

    def _json_type(self):
        one = {"type": "struct", "fields": [each.json() for each in self.fields]} if self.fields else self.type
        if self.within == "array":
            return {"type": "array", "elementType": one, "containsNull": True}
        if self.within == "map":
            return {"type": "map", "keyType": "string", "valueType": one, "valueContainsNull": True}
        return one


def struct_json(columns):
    return {"type": "struct", "fields": [one.json() for one in columns]}


def struct(columns):
    return parse_struct(json.dumps(struct_json(columns)))


@attrs.frozen
class Kept:
    """Entries that an operator keeps: the rows of a store, or a variable.

    Attributes:
        name: The store, or the variable.
        kind: `rows`; of a variable `value`, `list` or `map`; or `timers`.
        parts: The paths of key, of the keys of a map, and of value, with the columns of each.
        expires: Whether its entries have a time to live.
    """

    name: str
    kind: str
    parts: tuple
    expires: bool = False

    @property
    def key(self):
        return self.parts[0][1]

    @property
    def value(self):
        return self.parts[-1][1]

    def stores(self):
        """Return what Spark has of it: name, columns of the key, of the value, and how keys are laid out."""
        key, value = self.key, self.value
        if self.kind == "rows":
            return {self.name: (key, value, 0)}
        if self.kind == "timers":
            time, group = Column("expiryTimestampMs", "", "long"), _group("key", key)
            word = self.name.removesuffix("_keyToTimestamp")
            nothing = (Column("__dummy__", "", "void"),)
            return {self.name: ((group, time), nothing, 1), f"{word}_timestampToKey": ((time, group), nothing, -1)}
        of_key = key if self.kind != "map" else (_group("key", key), _group("userKey", self.parts[1][1]))
        of_value = (_group("value", value), Column("ttlExpirationMs", "", "long")) if self.expires else value
        found = {self.name: (of_key, of_value, 1 if self.kind == "map" else 0)}
        if self.expires:
            by_time = Column("expirationMs", "", "long"), _group("elementKey", of_key)
            found[f"$ttl_{self.name}"] = (by_time, (Column("__empty__", "", "void"),), -1)
        if self.kind == "list":
            counts = (Column("count", "", "long"),)
            found[f"$rowCounter_{self.name}"] = (key, counts, 0)
            if self.expires:
                found[f"$count_{self.name}"] = (key, counts, 0)
                found[f"$min_{self.name}"] = (key, (Column("expirationMs", "", "long"),), 0)
        return found


def _group(name, columns):
    return Column(name, "", "struct", tuple(columns))


@attrs.frozen
class Operator:
    """A stateful operator."""

    kind: str
    kept: tuple

    def described(self, number, *, is_planned):
        stores, columns, facts = {}, {}, {}
        for one in self.kept:
            for name, (key, value, _) in one.stores().items():
                stores[name] = StoreSchema(struct(key), struct(value))
            of = {f"key.{each.name}": each.text for each in one.key if each.text}
            if self.kind in COMPUTED:
                of |= {f"value.{each.name}": each.text for each in one.value if each.text}
            columns[one.name] = of
            if one.expires:
                facts[f"time to live of {one.name}"] = "1000 ms"
        if not is_planned:
            return describe_query_operator(Computation(number, self.kind, stores))
        return describe_query_operator(Computation(number, self.kind, stores, columns, facts, source="the query"))


@attrs.frozen
class Query:
    """A query before and after a change; an operator that both have stands on both sides.

    Attributes:
        pairs: The old and the new operator; None: there is none.
        is_known: Whether it is known what the old query computes.
        new_order: The pairs in the order of the new query.
    """

    pairs: tuple
    is_known: bool
    new_order: tuple

    @property
    def old(self):
        return [one for one, _ in self.pairs if one is not None]

    @property
    def new(self):
        return [self.pairs[at][1] for at in self.new_order if self.pairs[at][1] is not None]

    def descriptions(self):
        """Return the checkpoint, the query that wrote it, and the new one."""
        old, new = self.old, self.new
        sides = (("stored", old, False), ("old", old, True), ("new", new, True))
        return [
            JobDescription(name, tuple(of.described(at, is_planned=known) for at, of in enumerate(side)), inputs=())
            for name, side, known in sides
        ]


def distinct(draw, pool, count):
    return draw(st.permutations(pool))[:count]


def labelled(columns, pool):
    """Columns whose names are each once: buffers of aggregates are numbered, others of one name are left out.

    A count is a whole number, with which a new group begins at 0.
    """
    if pool is not BUFFERS:
        return tuple({one.name: one for one in columns}.values())
    seen = Counter()
    found = []
    for one in columns:
        name = one.name.partition("#")[0]
        seen[name] += 1
        of = {"type": "long", "fields": (), "within": ""} if name == "count" else {}
        found.append(attrs.evolve(one, name=name if seen[name] == 1 else f"{name}#{seen[name]}", **of))
    return tuple(found)


@st.composite
def inner_fields(draw):
    return tuple(
        Column(one, "", draw(st.sampled_from(TYPES))) for one in distinct(draw, NAMES, draw(st.integers(1, 3)))
    )


@st.composite
def columns(draw, texts, pool=NAMES, most=4, *, is_flat=False):
    count = draw(st.integers(1, most))
    of = distinct(draw, texts, count)
    names = draw(st.lists(st.sampled_from(pool), min_size=count, max_size=count))
    found = []
    for name, text in zip(names, of, strict=True):
        more = {}
        if not is_flat and draw(st.integers(0, 4)) == 0:
            within = ("", "array") if pool is KEYS else ("", "", "array", "map")  # Spark groups by no map
            more = {"fields": draw(inner_fields()), "within": draw(st.sampled_from(within))}
        found.append(Column(name, text, draw(st.sampled_from(TYPES)), **more))
    return labelled(found, pool)


CHANGES = ("keep", "keep", "keep", "rename", "exchange", "widen", "type", "otherwise", "gone", "within")


@st.composite
def changed(draw, old, texts, pool=NAMES):
    """Columns after some changes: each is kept, renamed, widened, of another type, computed otherwise, or gone."""
    names = {one.name for one in old}
    free = [one for one in texts if one not in {column.text for column in old}]
    new = []
    for column in old:
        what = draw(st.sampled_from(CHANGES))
        change = {}
        if what == "rename":
            change["name"] = draw(st.sampled_from(pool))
        elif what == "exchange":
            change["name"] = draw(st.sampled_from(sorted(names)))
        elif what == "widen":
            change["type"] = WIDER.get(column.type, column.type)
        elif what == "type":
            change["type"] = draw(st.sampled_from(TYPES))
        elif what == "otherwise" and free:
            change["text"] = free.pop()
        elif what == "within" and column.fields:
            inner = draw(changed(column.fields, ()))
            change["fields"] = inner or column.fields
        if what != "gone":
            new.append(attrs.evolve(column, **change))
    if not texts or (free and draw(st.booleans())):
        new.append(Column(draw(st.sampled_from(pool)), free.pop() if free else "", draw(st.sampled_from(TYPES))))
    if draw(st.integers(0, 3)) == 0:
        new = draw(st.permutations(new))
    return labelled(new, pool)


@st.composite
def _changed_key(draw, key, texts=KEYS, pool=KEYS):
    return draw(st.one_of(st.just(key), st.just(key), changed(key, texts, pool))) or key


@st.composite
def operators(draw, kinds):
    """An operator, and the same after some changes."""
    kind = draw(st.sampled_from(kinds))
    return tuple(Operator(kind, kept) for kept in draw(_KINDS[kind]()))


@st.composite
def _aggregations(draw):
    key, value = draw(columns(KEYS, KEYS, most=3)), draw(columns(AGGREGATES, BUFFERS))
    after = draw(_changed_key(key)), draw(changed(value, AGGREGATES, BUFFERS)) or value
    return tuple((Kept("default", "rows", (("key", k), ("value", v))),) for k, v in ((key, value), after))


@st.composite
def _deduplications(draw):
    key = draw(columns(KEYS, KEYS, most=3))
    value = (Column("__dummy__", "", "void"),)
    return tuple((Kept("default", "rows", (("key", k), ("value", value))),) for k in (key, draw(_changed_key(key))))


@st.composite
def _within_watermark(draw):
    key = draw(columns(KEYS, KEYS, most=3))
    value = (Column("expiresAtMicros", "", "long"),)
    return tuple((Kept("default", "rows", (("key", k), ("value", value))),) for k in (key, draw(_changed_key(key))))


@st.composite
def _groups(draw):
    key, value = draw(columns(KEYS, KEYS, most=3)), draw(columns(("",) * 4))
    after = draw(_changed_key(key)), draw(changed(value, ())) or value

    def kept(k, v):
        state = Column("groupState", "", "struct", v)
        return (Kept("default", "rows", (("key", k), ("value", (state,)))),)

    return kept(key, value), kept(*after)


@st.composite
def _sessions(draw):
    key = draw(columns(KEYS, KEYS, most=2))
    value = draw(columns(AGGREGATES, BUFFERS, most=3))
    after = draw(_changed_key(key)), draw(changed(value, AGGREGATES, BUFFERS)) or value

    def kept(k, v):
        start, ends = Column("sessionStartTime", "", "timestamp"), ("start", "end")
        text = "session_window(at, 5 minutes)"
        window = Column("session_window", text, "struct", tuple(Column(one, "", "timestamp") for one in ends))
        return (Kept("default", "rows", (("key", (*k, start)), ("value", (window, *k, *v)))),)

    return kept(key, value), kept(*after)


@st.composite
def _joins(draw):
    count = draw(st.integers(1, 2))
    key = tuple(
        Column("", f"{one} = {one}@1", draw(st.sampled_from(TYPES))) for one in distinct(draw, SIDES["left"], count)
    )
    rows = {side: draw(columns(texts)) for side, texts in SIDES.items()}
    after_key = draw(st.one_of(st.just(key), st.just(key), changed(key, tuple(f"{n} = {n}@1" for n in "xyz"), ("",))))
    after_rows = {side: draw(changed(of, SIDES[side])) or of for side, of in rows.items()}
    if draw(st.integers(0, 5)) == 0 and len(key) == 2:
        after_key = key[::-1]

    def kept(key, rows):
        key = tuple(attrs.evolve(one, name=f"field{at}") for at, one in enumerate(key))
        index, number, matched = (
            Column(*one) for one in (("index", "", "long"), ("value", "", "long"), ("matched", "", "boolean"))
        )
        return tuple(
            Kept(name, "rows", parts)
            for side, of in rows.items()
            for name, parts in (
                (f"{side}-keyToNumValues", (("key", key), (f"{side}.number", (number,)))),
                (f"{side}-keyWithIndexToValue", (("key", (*key, index)), (f"{side}.value", (*of, matched)))),
            )
        )

    return kept(key, rows), kept(after_key or key, after_rows)


@st.composite
def _processors(draw):
    key = draw(columns(KEYS, KEYS, most=2))
    names = distinct(draw, ("count", "log", "seen"), draw(st.integers(1, 3)))
    old = [draw(_variables(name, key)) for name in names]
    after_key = draw(_changed_key(key))
    new = [draw(_changed_variable(one, after_key)) for one in old if draw(st.integers(0, 8))]
    if draw(st.integers(0, 5)) == 0:
        new.append(draw(_variables("more", after_key)))
    timers = draw(st.booleans())
    if timers:
        old.append(Kept("$procTimers_keyToTimestamp", "timers", (("key", key),)))
        new.append(Kept("$procTimers_keyToTimestamp", "timers", (("key", after_key),)))
    return tuple(old), tuple(new) or (draw(_variables("other", after_key)),)


@st.composite
def _variables(draw, name, key):
    kind = draw(st.sampled_from(("value", "list", "map")))
    parts = [(f"{name}{OF_VARIABLES[kind]}", draw(columns(("",) * 3, most=3)))]
    if kind == "map":
        parts.insert(0, (f"{name}{{key}}", draw(columns(("",) * 2, most=2, is_flat=True))))
    return Kept(name, kind, (("key", key), *parts), expires=draw(st.booleans()))


@st.composite
def _changed_variable(draw, one, key):
    parts = [(path, draw(st.one_of(st.just(of), changed(of, ()))) or of) for path, of in one.parts[1:]]
    kept = attrs.evolve(one, parts=(("key", key), *parts))
    what = draw(st.integers(0, 11))
    if what == 0:
        return attrs.evolve(kept, expires=not one.expires)
    if what == 1:
        return draw(_variables(one.name, key))
    if what == 2:
        name = f"new_{one.name}"  # two may be renamed
        renamed = ((f"{name}{path[len(one.name) :]}", of) for path, of in parts)
        return attrs.evolve(kept, name=name, parts=(("key", key), *renamed))
    return kept


_KINDS = {
    AGGREGATION: _aggregations,
    DEDUPLICATION: _deduplications,
    WITHIN_WATERMARK: _within_watermark,
    GROUPS: _groups,
    SESSION: _sessions,
    JOIN: _joins,
    TRANSFORM: _processors,
}


@st.composite
def queries(draw, kinds=tuple(_KINDS), most=2):
    """A query of one operator, in one of five cases of two of other kinds, and the same after some changes."""
    count = most if draw(st.integers(0, 4)) == 0 else 1
    pairs = []
    for _ in range(count):
        left = [one for one in kinds if one not in {old.kind for old, _ in pairs}]
        pairs.append(draw(operators(left)))
    if count > 1:
        change = draw(st.integers(0, 5))
        if change == 0:
            pairs[1] = (pairs[1][0], None)
        elif change == 1:
            pairs[draw(st.integers(0, 1))] = (None, pairs[1][1])
    order = draw(st.sampled_from((tuple(range(count)), tuple(range(count)), tuple(range(count))[::-1])))
    return Query(tuple(pairs), draw(st.booleans()), order)


def value_of(column, path, at):
    """Return a value that no other leaf has, and no other row."""
    if column.within:
        one = attrs.evolve(column, within="")
        values = [value_of(one, f"{path}{STEPS[column.within]}", at * 10 + number) for number in range(2)]
        return values if column.within == "array" else [(f"k{number}", of) for number, of in enumerate(values)]
    if column.fields:
        return {one.name: value_of(one, f"{path}.{one.name}", at) for one in column.fields}
    number = zlib.crc32(path.encode()) % 1000 * 100 + at
    found = {"string": f"{path}-{at}", "boolean": number % 2 == 0, "double": number + 0.5, "void": None}
    found["timestamp"] = dt.datetime.fromtimestamp(number, dt.UTC)
    return found.get(column.type, number)


def rows_of(columns, path, count):
    return [{one.name: value_of(one, f"{path}.{one.name}", at) for one in columns} for at in range(count)]


@attrs.define
class Fate:
    """What becomes of the fields of some columns, by what is known to whoever drew them.

    Attributes:
        by_text: Whether columns are those that are computed from the same; else those of one name.
        fills: The values that are said, by path.
        renames: The stored paths that are said.
        dropped: The stored fields without a new one.
        filled: The new fields without a stored one.
        widened: The new fields of another type than the stored ones.
    """

    by_text: bool
    fills: dict
    renames: dict = attrs.field(factory=dict)
    dropped: set = attrs.field(factory=set)
    filled: set = attrs.field(factory=set)
    widened: set = attrs.field(factory=set)

    def rows(self, old, new, path, source=None):
        """Return the function that makes new rows of old ones."""
        source = path if source is None else source
        of = self._sources(old, new, path, source)
        parts = [(one.name, *self._one(one, of.get(one.name), f"{path}.{one.name}", source)) for one in new]
        self.dropped |= {f"{source}.{one.name}" for one in old if one not in of.values()}

        def row(value):
            return None if value is None else {name: make(value.get(of)) for name, of, make in parts}

        return row

    def _one(self, column, stored, path, source):
        if stored is None:
            self.filled.add(path)
            return "", lambda _: self.fills[path]
        return stored.name, self._values(column, stored, path, f"{source}.{stored.name}")

    def _values(self, column, stored, path, source):
        if not (column.fields and stored.fields and column.within == stored.within):
            if (column.type, column.within) != (stored.type, stored.within):
                self.widened.add(path)
            return lambda value: value
        step = STEPS[column.within]
        make = Fate.rows(self._plain(), stored.fields, column.fields, path + step, source + step)
        if column.within == "array":
            return lambda value: [make(one) for one in value]
        if column.within == "map":
            return lambda value: [(key, make(one)) for key, one in value]
        return make

    def _plain(self):
        """Return the same for fields within a column, of which nobody says what they are computed from."""
        return Fate(False, self.fills, self.renames, self.dropped, self.filled, self.widened)

    def _sources(self, old, new, path, source):
        """Return the stored column of each new one that has one, by name."""
        by_path = {f"{source}.{one.name}": one for one in old}
        found = {}
        for one in new:
            said = self.renames.get(f"{path}.{one.name}")
            if said is not None:
                found[one.name] = by_path[said]
        said = {one.name for one in found.values()}
        for one in new:
            below = f"{path}.{one.name}"
            if one.name in found or below in self.fills:
                continue
            if self.by_text and one.text:
                same = [each for each in old if each.text == one.text and each.name not in said]
            else:
                same = [each for each in old if each.name == one.name and each.name not in said]
            if same:
                found[one.name] = same[0]
        return found
