"""A check and a migration pair fields alike: what the one names is what the other does, on drawn operators.

Which stored field each new one goes on from is known to whoever draws: by what it is computed from, or by its name.
The migration is told what the check's ways out say, as the command line reads them, and converts real rows.
"""

from __future__ import annotations

import json
import shlex
import zlib
from collections import Counter

import attrs
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stateshift.cli.spark_queries import _typed
from stateshift.serializers.compatibility import Flag, Verdict
from stateshift.serializers.spark_rows.rows import arrow_type
from stateshift.serializers.spark_rows.spark_types import parse_struct
from stateshift.spark.checkpoint.changes import FieldChanges
from stateshift.spark.checkpoint.judging import judge
from stateshift.spark.checkpoint.migrating.conversion import conversion
from stateshift.spark.checkpoint.pairing import Becomes
from stateshift.spark.checkpoint.problems import problems_of
from stateshift.spark.checkpoint.query import QueryDescription, QueryOperator
from stateshift.spark.checkpoint.store_pairs import pair_stores
from stateshift.state.formats.spark.schema_files import StoreSchema

TYPES = ("integer", "long", "double", "string", "boolean")
WIDER = {"integer": "long", "long": "decimal(20,0)"}
NAMES = ("x", "y", "z", "w", "v", "u")
BUFFERS = ("sum", "count", "max", "min", "first", "last")
TEXTS = tuple(f"sum({name})" for name in "abcdefgh")
ROWS = 5


@attrs.frozen
class Column:
    """A column of an operator: its name, what it is computed from, and its type; the second `sum` is `sum#2`."""

    name: str
    text: str
    type: str
    fields: tuple[Column, ...] = ()

    def json(self):
        return {"name": self.name.partition("#")[0], "type": self.json_type(), "nullable": True}

    def json_type(self):
        return {"type": "struct", "fields": [one.json() for one in self.fields]} if self.fields else self.type


def struct(columns):
    return parse_struct(json.dumps({"type": "struct", "fields": [one.json() for one in columns]}))


@attrs.frozen
class Drawn:
    """An operator before and after: its columns of the key and of the value."""

    kind: str
    old: tuple[tuple[Column, ...], tuple[Column, ...]]
    new: tuple[tuple[Column, ...], tuple[Column, ...]]
    is_known: bool


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
        of = {"type": "long", "fields": ()} if name == "count" else {}
        found.append(attrs.evolve(one, name=name if seen[name] == 1 else f"{name}#{seen[name]}", **of))
    return tuple(found)


@st.composite
def columns(draw, texts, pool=NAMES, most=4):
    count = draw(st.integers(1, most))
    of = distinct(draw, texts, count)
    names = draw(st.lists(st.sampled_from(pool), min_size=count, max_size=count))
    found = []
    for name, text in zip(names, of, strict=True):
        fields = ()
        if draw(st.integers(0, 5)) == 0:
            inner = distinct(draw, NAMES, draw(st.integers(1, 3)))
            fields = tuple(Column(one, "", draw(st.sampled_from(TYPES))) for one in inner)
        found.append(Column(name, text, draw(st.sampled_from(TYPES)), fields))
    return labelled(found, pool)


@st.composite
def changed(draw, old, texts, pool=NAMES):
    """Columns after some changes: each is kept, renamed, widened, of another type, computed otherwise, or gone."""
    names = {one.name for one in old}
    free = [one for one in texts if one not in {column.text for column in old}]
    new = []
    for column in old:
        what = draw(
            st.sampled_from(("keep", "keep", "keep", "rename", "exchange", "widen", "type", "otherwise", "gone"))
        )
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
        if what != "gone":
            new.append(attrs.evolve(column, **change))
    if free and draw(st.booleans()):
        new.append(Column(draw(st.sampled_from(pool)), free.pop(), draw(st.sampled_from(TYPES))))
    if draw(st.integers(0, 3)) == 0:
        new = draw(st.permutations(new))
    return labelled(new, pool)


@st.composite
def operators(draw):
    kind = draw(st.sampled_from(("aggregation", "dropDuplicates", "applyInPandasWithState", "transformWithState")))
    key = draw(columns(tuple("klmnop"), most=3))
    pool = BUFFERS if kind == "aggregation" else NAMES
    value = draw(columns(TEXTS, pool))
    new_key = draw(st.one_of(st.just(key), changed(key, tuple("klmnop"))))
    new_value = draw(changed(value, TEXTS, pool))
    return Drawn(kind, (key, value), (new_key or key, new_value or value), draw(st.booleans()))


def operator(drawn, sides, *, planned):
    key, value = sides
    columns = {f"key.{one.name}": one.text for one in key}
    if drawn.kind == "aggregation":
        columns |= {f"value.{one.name}": one.text for one in value}
    stores = {store_of(drawn): StoreSchema(struct(key), struct(value))}
    of = {store_of(drawn): columns} if planned else {}
    return QueryOperator(0, drawn.kind, stores, columns=of, is_planned=planned)


def store_of(drawn):
    return "count" if drawn.kind == "transformWithState" else "default"


def values_path(drawn):
    return "count" if drawn.kind == "transformWithState" else "value"


def reported(drawn):
    was, now = (operator(drawn, sides, planned=True) for sides in (drawn.old, drawn.new))
    stored = attrs.evolve(was, columns={}, is_planned=False)
    of = [QueryDescription(name, (one,), inputs=()) for name, one in (("stored", stored), ("old", was), ("new", now))]
    report = judge(of[0], of[2], known=of[1] if drawn.is_known else None)
    return report, was if drawn.is_known else stored, now


def options_of(finding, random):
    """The options of a way out that a migration takes, as the command line reads them."""
    ways = [one.partition("--query MODULE:FUNCTION")[2] for one in finding.ways_out if "stateshift migrate" in one]
    plain = [one for one in ways if "--rename-field" not in one] if finding.rule in {"SPK-2", "SPK-4"} else ways
    chosen = random.choice(plain or ways) if ways else ""
    return chosen.replace("RULE", "max")


def answered(report, random):
    words = [word for finding in report.findings() for word in shlex.split(options_of(finding, random))]
    changes, _ = _typed(words)
    return changes.of_fields().get(0, FieldChanges())


def rows_of(side, of):
    """Rows in which each leaf has values that no other has."""
    data = [{one.name: value_of(one, f"{side}.{one.name}", at) for one in of} for at in range(ROWS)]
    return pa.array(data, arrow_type(struct(of)))


def value_of(column, path, at):
    if column.fields:
        return {one.name: value_of(one, f"{path}.{one.name}", at) for one in column.fields}
    number = zlib.crc32(path.encode()) % 1000 * 10 + at
    return {"string": f"{path}-{at}", "boolean": number % 2 == 0, "double": number + 0.5}.get(column.type, number)


def sources(drawn, part, old, new):
    """The stored column of each new one, by its text where both are known to compute something, else by name."""
    is_by_text = drawn.is_known and (part == "key" or drawn.kind == "aggregation")
    by_text = {one.text: one for one in old}
    found = {one.name: by_text[one.text] for one in new if is_by_text and one.text in by_text}
    taken = {one.name for one in found.values()}
    for one in new:
        same = next((each for each in old if each.name == one.name), None)
        if one.name not in found and same is not None and same.name not in taken and not is_by_text:
            found[one.name] = same
    return found


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(operators(), st.randoms(use_true_random=False))
def test_what_a_check_names_is_what_a_migration_does(drawn, random):
    holds(drawn, random)


@pytest.mark.slow
@settings(max_examples=2_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(operators(), st.randoms(use_true_random=False))
def test_what_a_check_names_is_what_a_migration_does_in_2_000_cases(drawn, random):
    holds(drawn, random)


def holds(drawn, random):
    report, was, now = reported(drawn)
    decision = str(report.decision)
    bare = pair_stores(was, now)
    if decision == "refuse":
        assert [*problems_of(bare, FieldChanges())], "a refusal that a migration carries"
        return
    findings = tuple(report.findings())
    if decision == "start":
        told = {one.rule for one in findings}
        assert all(part.is_same for store in bare.stores for part in store.parts) or "SPK-18" in told
        return
    changes = answered(report, random)
    pair = pair_stores(was, now, changes.answers)
    assert [] == list(map(str, problems_of(pair, attrs.evolve(changes, renames=pair.renames))))
    several = {one.path[2:] for one in findings if one.rule == "SPK-2" and not one.old}  # it is said that each is new
    done = Done(changes.fills)
    sides = ("key", values_path(drawn))
    for side, part, old, new in zip(sides, pair.stores[0].parts, drawn.old, drawn.new, strict=True):
        result = conversion(part, changes)
        assert result.problems == []
        before = rows_of(side, old)
        after = read_by_place(before, new) if result.convert is None else result.convert(before)
        of = sources(drawn, side, old, new)
        of = {name: stored for name, stored in of.items() if f"{side}.{name}" not in several}
        done.compare(side, old, new, of, before, after)
    dropped = {flag.partition(":$.")[2] for one in findings for flag in one.flags if flag.startswith(Flag.DROPS)}
    otherwise = {one.path[2:] for one in findings if one.rule == "SPK-10"}
    names = {path.partition("#")[0] for path in several}
    alike = {f"value.{one.name}" for one in drawn.old[1] if f"value.{one.name}".partition("#")[0] in names}
    assert done.dropped == (dropped - several) | otherwise | alike
    assert done.filled == {one.path[2:] for one in findings if one.rule in {"SPK-3", "SPK-11"}} | otherwise | several
    widened = {one.path[2:] for one in findings if one.rule == "SPK-5"} - otherwise
    assert widened == {
        one.path for part in pair.stores[0].parts for one in part.all() if one.becomes is Becomes.WIDENED
    }
    assert all(one.verdict is not Verdict.INCOMPATIBLE for one in findings)


def read_by_place(rows, columns):
    """Rows whose bytes stay as they are, under the names of the new types."""
    fields = [
        read_by_place(rows.field(at), one.fields) if one.fields else rows.field(at) for at, one in enumerate(columns)
    ]
    return pa.StructArray.from_arrays(fields, [one.name for one in columns])


@attrs.define
class Done:
    """What a migration did to rows, seen by their values."""

    fills: dict
    dropped: set = attrs.field(factory=set)
    filled: set = attrs.field(factory=set)

    def compare(self, path, old, new, of, before, after):
        """`of` are the stored columns of the new ones, by name."""
        self.dropped |= {f"{path}.{one.name}" for one in old if one not in of.values()}
        for column in new:
            below, stored, made = f"{path}.{column.name}", of.get(column.name), after.field(column.name)
            if below in self.fills:
                self.filled.add(below)
                assert stored is None, below
                assert [self.fills[below]] * ROWS == made.to_pylist()
            elif column.fields and stored.fields:
                within = {one.name: one for one in stored.fields}
                same = {one.name: within[one.name] for one in column.fields if one.name in within}
                self.compare(below, stored.fields, column.fields, same, before.field(stored.name), made)
            else:
                assert before.field(stored.name).to_pylist() == made.to_pylist(), below
