"""Pairs of streaming queries drawn from a seed: an old query, and new ones that differ from it by one change each.

A query is data, so that a change is a function from a query to another one. What a change does to the state is not
said here: Spark shows it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random

import attrs
from pyspark.sql import functions as F  # noqa: N812 - as its users write it

SCHEMA = (
    "k string, l string, n int, m int, d double, s struct<a: int, b: string>, xs array<int>, tags map<string, int>,"
    " at timestamp"
)
FILES, OLD_FILES = 4, 2
"""The batches of all history, and those that the old query runs."""
BASE = {
    "spark.sql.shuffle.partitions": "5",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",  # so that batches of all runs are the same ones
}
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def draw_rows(random):
    """Return the rows of each file of two sources; times go on from file to file, with some rows that are late."""
    return {name: [[_row(random, number) for _ in range(14)] for number in range(FILES)] for name in ("s", "t")}


def write_rows(folder, rows, numbers):
    """Write some files of both sources."""
    for source, files in rows.items():
        place = Path(folder, source)
        place.mkdir(exist_ok=True)
        for number in numbers:
            file = place / f"{number}.json"
            file.write_text("\n".join(map(json.dumps, files[number])), encoding="utf-8")
            os.utime(file, (number + 1, number + 1))  # Spark reads them in the order of their times


def _row(random, number):
    minute = max(0, 12 * number + random.randrange(14) - (25 if random.random() < 0.1 else 0))
    row = {
        "k": random.choice("pqr"),
        "l": random.choice("pqx"),
        "n": random.randrange(-20, 60),
        "m": random.randrange(1, 50),
        "d": random.randrange(40) / 4,
        "s": {"a": random.randrange(3), "b": random.choice("uv")},
        "xs": [random.randrange(5) for _ in range(2)],
        "tags": {random.choice("uv"): random.randrange(9)},
        "at": f"2026-01-01T{minute // 60:02}:{minute % 60:02}:00Z",
    }
    for name in ("l", "n", "s"):
        if random.random() < 0.08:
            row[name] = None
    return row


@attrs.frozen
class Sources:
    """Where a query reads its rows: a session and a folder."""

    spark: object
    folder: object
    schema: str = SCHEMA

    def rows(self, name):
        reader = self.spark.readStream.schema(self.schema).option("maxFilesPerTrigger", "1")
        return reader.json(str(Path(self.folder, name)))

    def table(self):
        return self.spark.createDataFrame([("p", 2), ("q", 3), ("r", 5)], "k string, weight int")


@attrs.frozen
class Query:
    """A streaming query.

    Attributes:
        core: Its stateful operators.
        before: Steps before them, a name and its arguments each.
        after: Steps after them.
        mode: The output mode.
        settings: Settings of its session beside `BASE`.
        schema: The schema with which it reads.
        source: Its first source.
    """

    core: object
    before: tuple = ()
    after: tuple = ()
    mode: str = "update"
    settings: dict = attrs.field(factory=dict)
    schema: str = SCHEMA
    source: str = "s"

    def build(self, spark, folder):
        """Return its DataFrame."""
        sources = Sources(spark, folder, self.schema)
        rows = _stepped(sources, sources.rows(self.source), self.before)
        return _stepped(sources, self.core.build(sources, rows), self.after)

    def session(self, spark):
        """Return a session of its own with its settings."""
        session = spark.newSession()
        for name, value in (BASE | self.settings).items():
            session.conf.set(name, value)
        return session


def _stepped(sources, rows, steps):
    for name, *arguments in steps:
        rows = _STEPS[name](sources, rows, *arguments)
    return rows


_STEPS = {
    "where": lambda _, rows, condition: rows.where(condition),
    "column": lambda _, rows, name, text: rows.withColumn(name, F.expr(text)),
    "rename": lambda _, rows, old, new: rows.withColumnRenamed(old, new),
    "drop": lambda _, rows, name: rows.drop(name),
    "watermark": lambda _, rows, delay: rows.withWatermark("at", delay),
    "explode": lambda _, rows: rows.withColumn("x", F.explode("xs")),
    "enrich": lambda sources, rows: rows.join(sources.table(), "k"),
    "enrich by a hint": lambda sources, rows: rows.join(F.broadcast(sources.table()), "k"),
    "union": lambda sources, rows: rows.unionByName(sources.rows("t")),
    "other names": lambda _, rows: rows.toDF(*(f"out_{at}" for at in range(len(rows.columns)))),
    "other order": lambda _, rows: rows.select(*(f"`{name}`" for name in reversed(rows.columns))),
    "first is some": lambda _, rows: rows.where(F.hash(rows[rows.columns[0]]) % 3 != 0),
    "last is some": lambda _, rows: rows.where(F.hash(rows[rows.columns[-1]]) % 3 != 0),
}


@attrs.frozen
class Aggregation:
    """`groupBy(keys).agg(aggregates)`; texts of SQL, or of a key `(text, name)`."""

    keys: tuple
    aggregates: tuple

    def build(self, _, rows):
        keys = [F.expr(key) if isinstance(key, str) else F.expr(key[0]).alias(key[1]) for key in self.keys]
        of = [F.expr(text).alias(f"result_{at}") for at, text in enumerate(self.aggregates)]
        return rows.groupBy(*keys).agg(*of)


@attrs.frozen
class Deduplication:
    """`dropDuplicates(columns)`, or within the watermark; with `is_distinct` these columns alone are there."""

    columns: tuple
    is_within: bool = False
    is_distinct: bool = False

    def build(self, _, rows):
        if self.is_distinct:
            return rows.select(*self.columns).distinct()
        if self.is_within:
            return rows.dropDuplicatesWithinWatermark(list(self.columns))
        return rows.dropDuplicates(list(self.columns))


@attrs.frozen
class Limit:
    """`limit(count)`."""

    count: int

    def build(self, _, rows):
        return rows.limit(self.count)


@attrs.frozen
class Join:
    """A join with the other source, whose columns are called `r_…` there."""

    keys: tuple = ("k = r_k",)
    left: tuple = ("k", "l", "n", "s")
    right: tuple = ("k", "l", "m")
    how: str = "inner"
    minutes: int = 4
    delay: str = "10 minutes"
    other: str = "t"

    def build(self, sources, rows):
        left = rows.withWatermark("at", self.delay).select(*self.left, "at")
        right = sources.rows(self.other).select(*(F.col(name).alias(f"r_{name}") for name in (*self.right, "at")))
        during = f"r_at >= at - interval 1 minute and r_at <= at + interval {self.minutes} minutes"
        on = F.expr(" and ".join((*self.keys, during)))
        return left.join(right.withWatermark("r_at", self.delay), on, self.how)


@attrs.frozen
class Twice:
    """Two operators, the second on the results of the first."""

    first: object
    second: object

    def build(self, sources, rows):
        return self.second.build(sources, self.first.build(sources, rows))


@attrs.frozen
class PandasState:
    """`applyInPandasWithState`: fields `(name, type, role)`; what is kept and yielded for a role does not change."""

    fields: tuple = (
        ("total", "bigint", "total"), ("other", "bigint", "other"), ("first", "string", "first"),
        ("last", "string", "last"),
    )  # fmt: skip
    key: str = "k"
    timeout: str = "NoTimeout"

    def build(self, _, rows):
        roles = tuple(role for _, _, role in self.fields)
        shown = sorted({"total", "other", "first", "last"} & set(roles))

        def count(key, frames, state):
            import pandas as pd

            kept = dict(zip(roles, state.get, strict=True)) if state.exists else dict.fromkeys(roles)
            for frame in frames:
                for row in frame.sort_values(["m", "d", "n"]).itertuples():
                    kept["total"] = (kept["total"] or 0) + row.m
                    if "other" in kept:
                        kept["other"] = (kept["other"] or 0) + 2 * row.m
                    kept["first"] = kept["first"] or f"{row.m}"
                    kept["last"] = f"{row.m}"
            state.update(tuple(kept[role] for role in roles))
            yield pd.DataFrame({"k": [str(key[0])]} | {role: [str(kept[role])] for role in shown})

        return rows.groupBy(self.key).applyInPandasWithState(
            count,
            ", ".join(f"{name} string" for name in ("k", *shown)),
            ", ".join(f"{name} {kind}" for name, kind, _ in self.fields),
            "update",
            self.timeout,
        )


@attrs.frozen
class Processor:
    """`transformWithState` with a value, a list and a map; fields `(name, type, role)` of the value."""

    fields: tuple = (("first", "string", "first"), ("last", "string", "last"), ("total", "bigint", "total"))
    variables: tuple = (("kept", 0), ("seen", 0), ("by", 3_600_000))
    key: str = "k"

    def build(self, _, rows):
        from pyspark.sql import Row
        from pyspark.sql.streaming import StatefulProcessor

        roles = tuple(role for _, _, role in self.fields)
        schema = ", ".join(f"{name} {kind}" for name, kind, _ in self.fields)
        times = {name: ttl or None for name, ttl in self.variables}

        class Count(StatefulProcessor):
            def init(self, handle):
                self.kept = handle.getValueState("kept", schema, times["kept"])
                self.seen = handle.getListState("seen", "v int", times["seen"]) if "seen" in times else None
                self.by = handle.getMapState("by", "l string", "c int", times["by"]) if "by" in times else None
                self.more = handle.getValueState("more", "v int", times["more"]) if "more" in times else None

            def handleInputRows(self, key, rows, timer_values):  # noqa: N802 - Spark's
                stored = self.kept.get()
                kept = dict(zip(roles, stored, strict=True)) if stored else dict.fromkeys(roles)
                for row in sorted(rows, key=lambda one: (one.m, one.d)):
                    kept["first"] = kept["first"] or f"{row.m}"
                    kept["last"] = f"{row.m}"
                    kept["total"] = (kept["total"] or 0) + row.m
                    if self.by:
                        name = (row.l or "none",)
                        old = self.by.getValue(name) if self.by.containsKey(name) else (0,)
                        self.by.updateValue(name, (old[0] + 1,))
                if self.seen:
                    self.seen.appendList([(kept["total"],)])
                if self.more:
                    self.more.update((1,))
                self.kept.update(tuple(kept[role] for role in roles))
                words = f"{kept['first']} {kept['last']} {kept['total']}"
                words += f" {sorted(one[0] for one in self.seen.get())}" if self.seen else ""
                words += f" {sorted((a[0], b[0]) for a, b in self.by.iterator())}" if self.by else ""
                yield Row(k=str(key[0]), words=words)

            def close(self):
                pass

        return rows.groupBy(self.key).transformWithState(Count(), "k string, words string", "Update", "ProcessingTime")


# The old queries.

_SIMPLE = ("sum(n)", "sum(m)", "max(n)", "max(m)", "min(n)", "count(*)", "count(n)", "avg(n)", "avg(d)", "sum(d)")
_OTHER = (
    "max(struct(n, k))", "max(s)", "sort_array(collect_set(l))", "sum(n) filter (where m > 9)", "count(distinct_l)",
    "max(tags['u'])", "min_by(m, struct(n, m))", "approx_count_distinct(l)", "bool_or(n > 5)", "sum(size(xs))",
    "sum(cast(d as decimal(10, 2)))", "max(named_struct('x', n, 'y', xs))",
)  # fmt: skip
_KEYS = (("k",), ("k", "l"), ("s",), ("s.a", "k"), (), ("upper(k)", "l"), (("l", "label"), "k"))


def _aggregation(random, keys=None):
    of = random.sample(_SIMPLE, random.randrange(2, 4))
    if random.random() < 0.5:
        of.append(random.choice([one for one in _OTHER if "distinct_l" not in one]))
    return Aggregation(random.choice(_KEYS) if keys is None else keys, tuple(of))


def _aggregated(random):
    kind = random.choice(("plain", "plain", "filtered", "exploded", "enriched", "complete"))
    if kind == "filtered":
        return Query(_aggregation(random), (("where", "m > 5"), ("where", "n is not null")))
    if kind == "exploded":
        return Query(_aggregation(random, ("x", "k")), (("explode",),))
    if kind == "enriched":
        core = _aggregation(random, ("k",))
        return Query(attrs.evolve(core, aggregates=(*core.aggregates, "sum(n * weight)")), (("enrich",),))
    if kind == "complete":
        return Query(_aggregation(random), mode="complete")
    return Query(_aggregation(random))


def _windowed(random):
    window = random.choice(("window(at, '5 minutes')", "window(at, '10 minutes', '5 minutes')"))
    keys = random.choice(((window, "k"), ("k", window), (window,)))
    return Query(_aggregation(random, keys), (("watermark", "10 minutes"),), mode=random.choice(("append", "update")))


def _sessions(random):
    core = _aggregation(random, ("session_window(at, '3 minutes')", "k"))
    return Query(core, (("watermark", "5 minutes"),), mode="append")


def _deduplicated(random):
    columns = random.choice((("k", "l"), ("k",), ("l", "n"), ("s", "k"), ("k", "l", "m")))
    kind = random.choice(("plain", "within", "distinct", "timed"))
    if kind == "within":
        return Query(Deduplication(columns, is_within=True), (("watermark", "5 minutes"),), mode="append")
    if kind == "timed":
        return Query(Deduplication((*columns, "at")), (("watermark", "5 minutes"),), mode="append")
    return Query(Deduplication(columns, is_distinct=kind == "distinct"), mode="append")


def _joined(random):
    how = random.choice(("inner", "inner", "left_outer", "left_semi", "full_outer"))
    keys = random.choice((("k = r_k",), ("k = r_k", "l = r_l"), ("l = r_k",)))
    left = random.choice((("k", "l", "n", "s"), ("k", "l", "n", "m"), ("l", "k", "xs")))
    return Query(Join(keys, left, how=how), mode="append")


def _limited(random):
    return Query(Limit(random.randrange(20, 45)), (("where", "m > 3"),), mode="append")


def _of_pandas(random):
    return Query(PandasState(key=random.choice("kl")))


def _of_processor(random):
    return Query(Processor(key=random.choice("kl")), settings={"spark.sql.streaming.stateStore.providerClass": ROCKSDB})


def _chained(random):
    kind = random.choice(("dedup, aggregation", "dedups", "windows", "join, window"))
    if kind == "dedup, aggregation":
        return Query(Twice(Deduplication(("k", "l", "m")), _aggregation(random, ("k",))))
    if kind == "dedups":
        return Query(Twice(Deduplication(("k", "m")), Deduplication(("l", "m"))), mode="append")
    if kind == "windows":
        inner = Aggregation(("window(at, '2 minutes') as at", "k"), ("sum(n)", "sum(m)"))
        outer = Aggregation(("window(at, '10 minutes')",), ("max(result_0)", "max(result_1)"))
        return Query(Twice(inner, outer), (("watermark", "5 minutes"),), mode="append")
    outer = Aggregation(("window(at, '5 minutes')", "k"), ("sum(n)", "sum(r_m)"))
    return Query(Twice(Join(), outer), mode="append")


FAMILIES = {
    "aggregation": _aggregated, "window": _windowed, "session": _sessions, "deduplication": _deduplicated,
    "join": _joined, "limit": _limited, "pandas": _of_pandas, "processor": _of_processor, "two operators": _chained,
}  # fmt: skip
_WEIGHTS = (6, 3, 2, 4, 4, 1, 2, 2, 3)


# The changes: of a query as a whole, and of an operator. A function returns None where its change does not apply.


def _stepping(*, before=(), after=()):
    return lambda query, _: attrs.evolve(query, before=(*query.before, *before), after=(*query.after, *after))


def _setting(name, value):
    return lambda query, _: attrs.evolve(query, settings={**query.settings, name: value})


def _conditions_otherwise(query, _):
    texts = [step[1] for step in query.before if step[0] == "where"]
    if len(texts) < 2:
        return None
    rest = [step for step in query.before if step[0] != "where"]
    return attrs.evolve(query, before=(*rest, ("where", " and ".join(f"not (not ({one}))" for one in texts[::-1]))))


def _without_condition(query, _):
    found = [step for step in query.before if step[0] == "where"]
    return attrs.evolve(query, before=tuple(one for one in query.before if one != found[0])) if found else None


def _other_delay(query, _):
    if ("watermark", "10 minutes") in query.before or ("watermark", "5 minutes") in query.before:
        steps = tuple(("watermark", "1 minute") if one[0] == "watermark" else one for one in query.before)
        return attrs.evolve(query, before=steps)
    return None


def _with_hint(query, _):
    if ("enrich",) not in query.before:
        return None
    steps = (("enrich by a hint",) if one == ("enrich",) else one for one in query.before)
    return attrs.evolve(query, before=tuple(steps))


def _nothing(query, _):
    return query


OF_QUERIES = {
    "no change, in another session": _nothing,
    "other names of the results": _stepping(after=[("other names",)]),
    "another order of the results": _stepping(after=[("other order",)]),
    "a filter on the first result": _stepping(after=[("first is some",)]),
    "a filter on the last result": _stepping(after=[("last is some",)]),
    "one result more": _stepping(after=[("column", "one", "1")]),
    "rebuilt with names on the way": _stepping(
        before=[("column", "extra", "n + 1"), ("rename", "k", "kk"), ("rename", "kk", "k"), ("drop", "extra")]
    ),
    "a condition that always holds": _stepping(before=[("where", "1 = 1")]),
    "conditions written in another way": _conditions_otherwise,
    "a static table with a hint": _with_hint,
    "another number of partitions": _setting("spark.sql.shuffle.partitions", "3"),
    "another time zone of the session": _setting("spark.sql.session.timeZone", "Asia/Tokyo"),
    "ANSI mode off": _setting("spark.sql.ansi.enabled", "false"),
    "one column more in the source": lambda query, _: attrs.evolve(query, schema=SCHEMA + ", unused string"),
    "a filter before": _stepping(before=[("where", "m > 20")]),
    "a filter on k before": _stepping(before=[("where", "k <> 'q'")]),
    "a filter less": _without_condition,
    "another delay of the watermark": _other_delay,
    "rows of another source, too": lambda query, _: attrs.evolve(query, before=(("union",), *query.before)),
}


def _of(kind, each):
    """A change of an operator of a kind, wherever it is in the core."""

    def change(core, random):
        if isinstance(core, Twice):
            for name in random.sample(("first", "second"), 2):
                part = change(getattr(core, name), random)
                if part is not None:
                    return attrs.evolve(core, **{name: part})
            return None
        return each(core, random) if isinstance(core, kind) else None

    return lambda query, random: (
        None if (core := change(query.core, random)) is None else attrs.evolve(query, core=core)
    )


def _exchanged(items, random):
    """Return a tuple with two of its items exchanged; None: it has fewer than two."""
    if len(items) < 2:
        return None
    one, other = random.sample(range(len(items)), 2)
    listed = list(items)
    listed[one], listed[other] = listed[other], listed[one]
    return tuple(listed)


def _replaced(items, old, new):
    return tuple(new if one == old else one for one in items) if old in items else None


def _changing(kind, name, how):
    """A change of a field of an operator; `how` returns its new value, or None."""

    def each(core, random):
        value = how(getattr(core, name), random)
        return None if value is None or value == getattr(core, name) else attrs.evolve(core, **{name: value})

    return _of(kind, each)


def _aggregates(how):
    return _changing(Aggregation, "aggregates", how)


def _keys(how):
    return _changing(Aggregation, "keys", how)


def _first(pairs):
    """Replace the first text that is there."""

    def how(items, _):
        for old, new in pairs.items():
            found = _replaced(items, old, new)
            if found is not None:
                return found
        return None

    return how


def _longer(old, new):
    return lambda items, _: tuple(one.replace(old, new) if isinstance(one, str) else one for one in items)


OF_AGGREGATIONS = {
    "two aggregates change places": _aggregates(_exchanged),
    "another function": _aggregates(
        _first({"sum(n)": "max(cast(n as bigint))", "max(n)": "min(n)", "max(m)": "min(m)", "sum(m)": "count(m)"})
    ),
    "another column": _aggregates(
        _first({"sum(n)": "sum(m)", "max(n)": "max(m)", "max(m)": "max(n)", "sum(m)": "sum(n)", "min(n)": "min(m)"})
    ),
    "one aggregate more": _aggregates(lambda of, _: (*of, "min(k)") if "min(k)" not in of else None),
    "one aggregate less": _aggregates(lambda of, _: of[:-1] if len(of) > 1 else None),
    "an aggregate used twice": _aggregates(lambda of, _: (*of, f"({of[0]}) is not null")),
    "a wider aggregate": _aggregates(_first({"max(n)": "max(cast(n as bigint))", "max(m)": "max(cast(m as bigint))"})),
    "a cast that changes nothing": _aggregates(
        _first({"sum(n)": "sum(cast(n as bigint))", "avg(n)": "avg(cast(n as double))", "sum(m)": "sum(bigint(m))"})
    ),
    "an average as a sum and a count": _aggregates(
        lambda of, _: (*of[: of.index("avg(d)")], "sum(d)", "count(d)", *of[of.index("avg(d)") + 1 :])
        if "avg(d)" in of and "sum(d)" not in of else None
    ),
    "a count written in another way": _aggregates(_first({"count(*)": "count(1)"})),
    "another expression of the same meaning": _aggregates(_first({"sum(n)": "sum(n + 0)", "sum(m)": "sum(m * 1)"})),
    "an aggregate of fewer rows": _aggregates(
        _first({"sum(n)": "sum(n) filter (where m > 9)", "sum(n) filter (where m > 9)": "sum(n) filter (where m > 20)"})
    ),
    "two keys change places": _keys(_exchanged),
    "another key": _keys(_first({"k": "l", "l": "k"})),
    "one key more": _keys(lambda keys, _: (*keys, "m") if "m" not in keys else None),
    "one key less": _keys(lambda keys, _: keys[:-1] if len(keys) > 1 else None),
    "a key with another name": _keys(_first({"k": ("k", "user"), "l": ("l", "label")})),
    "a key in capitals": _keys(_first({"k": "K", "l": "L"})),
    "a longer window": _keys(_longer("'5 minutes'", "'6 minutes'")),
    "a window with another step": _keys(_longer(", '5 minutes')", ", '2 minutes')")),
    "another gap of the sessions": _keys(_longer("'3 minutes'", "'6 minutes'")),
}  # fmt: skip
OF_DEDUPLICATIONS = {
    "two columns change places": _changing(Deduplication, "columns", _exchanged),
    "another column": _changing(Deduplication, "columns", _first({"k": "l", "l": "k"})),
    "one column more": _changing(Deduplication, "columns", lambda of, _: (*of, "d")),
    "one column less": _changing(Deduplication, "columns", lambda of, _: of[:-1] if len(of) > 1 else None),
    "distinct rows instead": _changing(Deduplication, "is_distinct", lambda is_distinct, _: not is_distinct),
}
OF_JOINS = {
    "two kept columns change places": _changing(Join, "left", _exchanged),
    "sides of an equality change places": _changing(Join, "keys", _first({"k = r_k": "r_k = k", "l = r_k": "r_k = l"})),
    "another key": _changing(Join, "keys", _first({"k = r_k": "l = r_k", "l = r_k": "k = r_k"})),
    "keys in another order": _changing(Join, "keys", lambda keys, _: keys[::-1]),
    "another condition": _changing(Join, "minutes", lambda minutes, _: minutes + 2),
    "another kind": _changing(Join, "how", lambda how, _: {"inner": "left_outer", "left_outer": "inner"}.get(how)),
    "one kept column more": _changing(Join, "left", lambda left, _: (*left, "d")),
    "one kept column less": _changing(Join, "left", lambda left, _: left[:-1]),
    "another delay": _changing(Join, "delay", lambda *_: "1 minute"),
    "the sources change places": lambda query, _: (
        attrs.evolve(query, source="t", core=attrs.evolve(query.core, other="s"))
        if isinstance(query.core, Join) else None
    ),
}  # fmt: skip
OF_LIMITS = {"another limit": _changing(Limit, "count", lambda count, _: count + 9)}


def _fields(how):
    def both(query, random):
        for kind in (PandasState, Processor):
            found = _changing(kind, "fields", how)(query, random)
            if found is not None:
                return found
        return None

    return both


def _renamed(fields, random):
    chosen = random.choice(fields)
    return _replaced(fields, chosen, (f"{chosen[0]}_now", *chosen[1:]))


def _narrower(fields, _):
    return tuple((name, "int" if kind == "bigint" else kind, role) for name, kind, role in fields)


def _names_exchanged(fields, _):
    names = {"first": "last", "last": "first"}
    return tuple((names.get(name, name), kind, role) for name, kind, role in fields)


def _other_key(query, _):
    if not isinstance(query.core, PandasState | Processor):
        return None
    return attrs.evolve(query, core=attrs.evolve(query.core, key="l" if query.core.key == "k" else "k"))


def _variables(how):
    return _changing(Processor, "variables", how)


OF_FUNCTIONS = {
    "a field with another name": _fields(_renamed),
    "two fields change places": _fields(_exchanged),
    "two fields exchange their names": _fields(_names_exchanged),
    "one field more": _fields(lambda fields, _: (*fields, ("more", "int", "more"))),
    "narrower fields": _fields(_narrower),
    "another key of the groups": _other_key,
    "a time-out": _changing(PandasState, "timeout", lambda *_: "ProcessingTimeTimeout"),
    "one variable more": _variables(lambda of, _: (*of, ("more", 0))),
    "one variable less": _variables(lambda of, _: of[:-1]),
    "a longer time to live": _variables(_first({("by", 3_600_000): ("by", 7_200_000)})),
    "a time to live": _variables(_first({("kept", 0): ("kept", 3_600_000)})),
    "no time to live": _variables(_first({("by", 3_600_000): ("by", 0)})),
}


def _operators_exchanged(query, _):
    core = query.core
    is_pair = isinstance(core, Twice) and isinstance(core.second, Deduplication)
    return attrs.evolve(query, core=Twice(core.second, core.first)) if is_pair else None


def _one_operator_more(query, _):
    if isinstance(query.core, Join | Limit | Processor) or query.mode == "complete":
        return None
    return attrs.evolve(query, core=Twice(Deduplication(("k", "n", "d")), query.core))


def _one_operator_less(query, _):
    is_pair = isinstance(query.core, Twice) and isinstance(query.core.first, Deduplication)
    return attrs.evolve(query, core=query.core.second) if is_pair else None


OF_CHAINS = {
    "two operators change places": _operators_exchanged,
    "one operator more": _one_operator_more,
    "one operator less": _one_operator_less,
}
CHANGES = {
    f"{of}: {name}" if of else name: change
    for of, group in {
        "": OF_QUERIES, "aggregation": OF_AGGREGATIONS, "deduplication": OF_DEDUPLICATIONS, "join": OF_JOINS,
        "limit": OF_LIMITS, "state": OF_FUNCTIONS, "operators": OF_CHAINS,
    }.items()
    for name, change in group.items()
}  # fmt: skip


@attrs.frozen
class Pair:
    """An old query with a new one.

    Attributes:
        family: The kind of the old query.
        change: The name of the change.
        was: The old query.
        now: The new query.
    """

    family: str
    change: str
    was: Query
    now: Query


def draw(seed, changes=5):
    """Return pairs with one old query: the changes of a whole query and those of its operators alternate."""
    random = Random(seed)  # noqa: S311 - it draws tests
    families = tuple(FAMILIES)
    family = families[seed] if seed < len(families) else random.choices(families, _WEIGHTS)[0]
    was = FAMILIES[family](random)
    groups = ([name for name in CHANGES if name in OF_QUERIES], [name for name in CHANGES if name not in OF_QUERIES])
    shuffled = [random.sample(group, len(group)) for group in groups]
    pairs = []
    for turn in range(changes):
        names = shuffled[turn % 2] or shuffled[1 - turn % 2]
        while names:
            name = names.pop()
            now = CHANGES[name](was, random)
            if now is not None:
                pairs.append(Pair(family, name, was, now))
                break
    return pairs
