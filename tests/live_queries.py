"""Small queries that Spark runs, as data, and what they keep as `drawn_queries` has it: the same law holds for them.

An old query is run once; new ones differ from it in columns: other names, orders, types, some gone, some new.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import attrs
from drawn_queries import BUFFERS, NAMES, OF_VARIABLES, Column, Kept, Operator, labelled
from pyspark.sql import functions as F  # noqa: N812 - as its users write it

from stateshift.compat.queries.kinds import AGGREGATION, DEDUPLICATION, JOIN, SESSION, TRANSFORM

SCHEMA = "k string, l string, n int, m int, d double, at timestamp"
SOURCES = {"k": "string", "l": "string", "n": "integer", "m": "integer", "d": "double"}
AGGREGATES = {
    **{f"{name}({of})": SOURCES[of] for name in ("max", "min") for of in SOURCES},
    "sum(n)": "long", "sum(m)": "long", "sum(d)": "double", "count(n)": "long", "count(d)": "long",
}  # fmt: skip
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
WIDER = {"integer": "long"}


def write_rows(folder, random, batch):
    """Write a file of rows of each source."""
    for source in ("s", "t"):
        lines = [
            {"k": random.choice("pqr"), "l": random.choice("uvw"), "n": random.randrange(90), "m": random.randrange(9),
             "d": random.randrange(40) / 4, "at": f"2026-01-01T{batch:02}:{random.randrange(60):02}:00Z"}
            for _ in range(12)
        ]  # fmt: skip
        place = Path(folder, source)
        place.mkdir(exist_ok=True)
        file = place / f"{batch}.json"
        file.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
        os.utime(file, (batch + 1, batch + 1))


@attrs.frozen
class Live:
    """A query.

    Attributes:
        kind: The kind of its operator.
        keys: The columns of its key, each a `Column` whose text is the expression.
        values: The aggregates; of a join the columns of the left side.
        others: The columns of the right side of a join.
        variables: The variables of a processor, as `Kept`.
        is_rocks: Whether its state lies in RocksDB.
    """

    kind: str
    keys: tuple
    values: tuple = ()
    others: tuple = ()
    variables: tuple = ()
    is_rocks: bool = False

    def operator(self):
        """What it keeps."""
        key = self.keys
        if self.kind == AGGREGATION:
            return Operator(self.kind, (Kept("default", "rows", (("key", key), ("value", self.buffers()))),))
        if self.kind == DEDUPLICATION:
            nothing = (Column("__dummy__", "", "void"),)
            return Operator(self.kind, (Kept("default", "rows", (("key", key), ("value", nothing))),))
        if self.kind == SESSION:
            ends = tuple(Column(one, "", "timestamp") for one in ("start", "end"))
            window = Column("session_window", "session_window(at, 5 minutes)", "struct", ends)
            of_key = (*key, Column("sessionStartTime", "", "timestamp"))
            value = (window, *key, *self.buffers())
            return Operator(self.kind, (Kept("default", "rows", (("key", of_key), ("value", value))),))
        if self.kind == JOIN:
            joined = (Column("field0", "k = k@1", "string"),)
            matched, index, number = (
                Column(*one) for one in (("matched", "", "boolean"), ("index", "", "long"), ("value", "", "long"))
            )
            return Operator(self.kind, tuple(
                kept
                for side, of in (("left", self.values), ("right", self.others))
                for kept in (
                    Kept(f"{side}-keyToNumValues", "rows", (("key", joined), (f"{side}.number", (number,)))),
                    Kept(f"{side}-keyWithIndexToValue", "rows",
                         (("key", (*joined, index)), (f"{side}.value", (*of, matched)))),
                )
            ))  # fmt: skip
        of_key = (("key", key),)
        timers = Kept("$procTimers_keyToTimestamp", "timers", of_key)
        variables = (attrs.evolve(one, parts=of_key + one.parts[1:]) for one in self.variables)
        return Operator(self.kind, (*variables, timers))

    def buffers(self):
        return labelled([attrs.evolve(one, name=one.text.partition("(")[0]) for one in self.values], BUFFERS)

    def session(self, spark):
        session = spark.newSession()
        of = {"spark.sql.shuffle.partitions": "2", "spark.sql.session.timeZone": "UTC"}
        of["spark.sql.streaming.noDataMicroBatches.enabled"] = "false"
        if self.is_rocks:
            of["spark.sql.streaming.stateStore.providerClass"] = ROCKSDB
        for name, value in of.items():
            session.conf.set(name, value)
        return session

    def build(self, spark, folder):
        """Return its DataFrame."""
        session = self.session(spark)

        def source(name):
            return session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", "1").json(str(Path(folder, name)))

        keys = [expression(one).alias(one.name) for one in self.keys]
        names = [one.name for one in self.keys]
        rows = source("s").select("*", *keys)
        aggregates = [F.expr(one.text).alias(f"r{at}") for at, one in enumerate(self.values)]
        if self.kind == AGGREGATION:
            return rows.groupBy(*names).agg(*aggregates)
        if self.kind == DEDUPLICATION:
            return rows.dropDuplicates(names)
        if self.kind == SESSION:
            late = rows.withWatermark("at", "10 days")
            return late.groupBy(F.session_window("at", "5 minutes"), *names).agg(*aggregates)
        if self.kind == JOIN:
            left, right = (
                of.select(*(F.expr(one.text.removesuffix("@1")).alias(one.name) for one in columns))
                for of, columns in ((rows, self.values), (source("t"), self.others))
            )
            return left.join(right, F.expr(f"{self.values[0].name} = {self.others[0].name}"))
        processor = processor_of(self.variables)
        grouped = rows.select(*names, F.col("n").alias("given")).groupBy(*names)
        return grouped.transformWithState(processor, "n bigint", "update", "processingTime")

    @property
    def mode(self):
        return {AGGREGATION: "update", TRANSFORM: "update"}.get(self.kind, "append")

    def writer(self, spark, folder, checkpoint, batches=None):
        def collect(frame, batch):
            found = sorted(map(str, frame.collect()))
            if batches is not None:
                batches[batch] = found

        writer = self.build(spark, folder).writeStream.outputMode(self.mode).foreachBatch(collect)
        return writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)


def expression(column):
    """Return what a key is computed from; of another type than its source it is a cast."""
    found = F.expr(column.text)
    return found if column.type == SOURCES[column.text] else found.cast(column.type)


def ddl(columns):
    words = {"integer": "int", "long": "bigint"}
    return ", ".join(f"{one.name} {words.get(one.type, one.type)}" for one in columns)


def processor_of(variables):
    """Return a processor with some variables; each has values of its own from the rows of a key."""
    from pyspark.sql.streaming import StatefulProcessor

    declared = [(one.name, one.kind, one.expires, *[(ddl(of), [c.type for c in of]) for _, of in one.parts[1:]])
                for one in variables]  # fmt: skip

    def row(types, number):
        made = {"string": f"t{number}", "double": number / 4, "boolean": number % 2 == 0}
        return tuple(made.get(of, number) for of in types)

    class Keeping(StatefulProcessor):
        def init(self, handle):
            self.states = []
            for name, kind, expires, *parts in declared:
                make = {"value": handle.getValueState, "list": handle.getListState, "map": handle.getMapState}[kind]
                self.states.append(make(name, *(text for text, _ in parts), *([10**9] if expires else ())))

        def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803 - Spark's names
            from pyspark.sql import Row

            numbers = [one.given for one in rows]
            for state, (_, kind, _, *parts) in zip(self.states, declared, strict=True):
                types = parts[-1][1]
                if kind == "value":
                    state.update(row(types, sum(numbers)))
                elif kind == "list":
                    state.put([row(types, one) for one in numbers])
                else:
                    for one in numbers:
                        state.updateValue(row(parts[0][1], one), row(types, one + 1))
            yield Row(n=len(numbers))

        def close(self):
            pass

    return Keeping()


def draw_columns(random, pool, texts, most):
    """Return columns of some texts, each by its own name or another one."""
    of = random.sample(sorted(texts), random.randint(1, min(most, len(texts))))
    names = random.sample(pool, len(of))
    return tuple(Column(name, text, texts[text]) for name, text in zip(names, of, strict=True))


KINDS = (AGGREGATION,) * 8 + (DEDUPLICATION,) * 2 + (SESSION,) * 3 + (JOIN,) * 3 + (TRANSFORM,) * 4
KEYS = ("a", "b", "c", "e", "f", "g")


def draw_old(random, kind):
    keys = draw_columns(random, KEYS, SOURCES, 3)
    is_rocks = kind == TRANSFORM or random.random() < 0.5
    if kind in {AGGREGATION, SESSION}:
        return Live(kind, keys, draw_columns(random, [f"v{at}" for at in range(9)], AGGREGATES, 4), is_rocks=is_rocks)
    if kind == JOIN:
        sides = []
        for end in ("", "@1"):
            joined = Column(f"k{len(end)}", f"k{end}", "string")
            rest = {f"{one}{end}": of for one, of in SOURCES.items() if one != "k"}
            names = [f"{one}{len(end)}" for one in NAMES]
            sides.append((joined, *draw_columns(random, names, rest, 3)))
        return Live(kind, (), *sides, is_rocks=is_rocks)
    if kind == DEDUPLICATION:
        return Live(kind, keys, is_rocks=is_rocks)
    variables = []
    for name in random.sample(("count", "log", "seen"), random.randint(1, 3)):
        what = random.choice(("value", "list", "map"))
        parts = [(f"{name}{OF_VARIABLES[what]}", own_columns(random, 3))]
        if what == "map":
            parts.insert(0, (f"{name}{{key}}", (Column(random.choice(NAMES), "", "integer"),)))
        variables.append(Kept(name, what, (("key", ()), *parts), random.random() < 0.3))
    return Live(kind, keys, variables=tuple(variables), is_rocks=True)


def own_columns(random, most):
    types = ("integer", "long", "double", "string", "boolean")
    return tuple(Column(one, "", random.choice(types)) for one in random.sample(NAMES, random.randint(1, most)))


def draw_new(random, old, *, adds=True):
    """Return the query after some changes; `adds`: also with new columns."""
    is_own = old.kind == TRANSFORM
    first = 1 if old.kind == JOIN else 0
    pools = {"": [f"{one}0" for one in NAMES], "@1": [f"{one}2" for one in NAMES]}

    def side(columns, end):
        rest = {f"{one}{end}": of for one, of in SOURCES.items() if one != "k"}
        return (*columns[:first], *changed(random, columns[first:], pools[end], rest, adds))

    if old.kind == JOIN:
        return attrs.evolve(old, values=side(old.values, ""), others=side(old.others, "@1"))
    is_changed = old.kind == DEDUPLICATION or random.random() < 0.4
    keys = changed(random, old.keys, KEYS, SOURCES, adds) if is_changed else old.keys
    if old.kind in {AGGREGATION, SESSION}:
        values = changed(random, old.values, [f"v{at}" for at in range(9)], AGGREGATES, adds)
        return attrs.evolve(old, keys=keys, values=values)
    if not is_own:
        return attrs.evolve(old, keys=keys)
    variables = [
        attrs.evolve(
            one, parts=(*one.parts[:-1], (one.parts[-1][0], changed(random, one.parts[-1][1], NAMES, None, adds)))
        )
        for one in old.variables
    ]
    if random.random() < 0.2:
        variables = variables[1:] or variables
    if random.random() < 0.2:
        variables.append(Kept("more", "value", (("key", ()), ("more", own_columns(random, 2))), random.random() < 0.5))
    return attrs.evolve(old, keys=keys, variables=tuple(variables))


def changed(random, columns, pool, texts, adds):
    """Return columns of which some are kept, and others have another name or a wider type, are gone, or new."""
    new = []
    for one in columns:
        what = random.choice(("keep", "keep", "keep", "rename", "widen", "gone"))
        column = one
        if what == "rename":
            column = attrs.evolve(one, name=random.choice(pool))
        elif what == "widen" and (texts is None or pool is KEYS):
            column = attrs.evolve(one, type=WIDER.get(one.type, one.type))
        if what != "gone":
            new.append(column)
    used = {one.text for one in (*columns, *new)}
    free = sorted(set(texts) - used) if texts is not None else [""]
    if adds and free and random.random() < 0.5:
        text = random.choice(free)
        of = texts[text] if texts is not None else random.choice(("integer", "string"))
        new.append(Column(random.choice(pool), text, of))
    if random.random() < 0.3:
        random.shuffle(new)
    return tuple({one.name: one for one in new}.values()) or columns
