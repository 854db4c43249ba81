"""Queries drawn from a seed with all that a plan does not show, and what of it changes: sources, tables, functions.

Each query is data, and a change is the same query with other data. What a change does is not said here: Spark shows it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random

import attrs
from pyspark.sql import functions as F  # noqa: N812 - as its users write it

FILES, OLD_FILES = 2, 1
"""The batches of all history, and those that the old query runs."""
SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.ansi.enabled": "false",
}
COLUMNS = ("k string", "n int", "m int", "at timestamp", "extra string")
TABLES = {"one": {"p": 2, "q": 3, "r": 5, "-": 7}, "other": {"p": 4, "q": 3, "r": 6, "-": 7}}


def write_rows(folder, seed, numbers):
    """Write some files of the source, in both formats, and the static tables."""
    for number in numbers:
        random = Random(f"{seed} {number}")  # noqa: S311 - it draws tests
        rows = [_row(random) for _ in range(12)]
        for kind, ending, line in (("json", "json", _as_json), ("csv", "csv", _as_csv)):
            for part, of in (("", rows[:8]), ("more-", rows[8:])):
                file = Path(folder, kind, f"{part}{number}.{ending}")
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text("\n".join(map(line, of)) + "\n")
                os.utime(file, (number + 1, number + 1))
    for name, weights in TABLES.items():
        for kind, line in (("json", _as_json), ("csv", _as_csv)):
            file = Path(folder, f"table-{kind}", name, f"0.{kind}")
            file.parent.mkdir(parents=True, exist_ok=True)
            rows = [{"k": key, "w": weight, "e": "-"} for key, weight in weights.items()]
            file.write_text("\n".join(map(line, rows)) + "\n")


def _row(random):
    return {
        "k": random.choice(["p", "q", "r", "-"]),
        "n": random.randrange(-9, 50),
        "m": random.randrange(1, 30),
        "at": f"2026-01-0{random.randrange(1, 9)} 1{random.randrange(9)}:00:00",
        "extra": random.choice(["-", "e"]),
    }


def _as_json(row):
    return json.dumps(row)


def _as_csv(row):
    return ",".join(map(str, row.values()))


def plus(number):
    """A function whose code is the same, and whose closure is not."""
    return lambda value: None if value is None else value + number


def times(number):
    return lambda value: None if value is None else value * number


@attrs.frozen
class Reading:
    """A query.

    Attributes:
        core: What it computes.
        kind: The format of its source.
        columns: The schema of its source.
        options: The options of its source.
        table: Its static table: `rows`, `json` or `csv`, and which one; or None.
        table_options: The options of the table.
        function: Its function of Python, and the number that this has; or None.
        seed: The seed of a sample of the table; None: it takes all of it.
        twice: How the source stands twice: `union`, `filtered union`, or not at all.
        condition: A filter.
    """

    core: str = "sums"
    kind: str = "json"
    columns: tuple = COLUMNS
    options: tuple = ()
    table: tuple | None = None
    table_options: tuple = ()
    function: tuple | None = None
    seed: int | None = None
    twice: str = ""
    condition: str = ""

    def build(self, spark, folder):
        """Return its DataFrame."""
        reader = spark.readStream.schema(", ".join(self.columns)).option("maxFilesPerTrigger", "2")
        rows = reader.format(self.kind).options(**dict(self.options)).load(str(Path(folder, self.kind)))
        if self.twice == "union":
            rows = rows.union(rows)
        elif self.twice == "filtered union":
            rows = rows.where("n > 5").unionByName(rows.where("n <= 9"))
        if self.condition:
            rows = rows.where(self.condition)
        if self.table is not None:
            table = self._table(spark, folder)
            sampled = table if self.seed is None else table.sample(fraction=0.5, seed=self.seed)
            rows = rows.join(sampled, "k", "left").withColumn("n", F.expr("n * coalesce(w, 1)"))
        if self.function is not None:
            make, number = self.function
            rows = rows.withColumn("n", F.udf(make(number), "int")("n"))
        return _CORES[self.core](rows)

    def _table(self, spark, folder):
        kind, which = self.table
        if kind == "rows":
            return spark.createDataFrame([(key, weight, "-") for key, weight in which], "k string, w int, e string")
        reader = spark.read.schema("k string, w int, e string").format(kind).options(**dict(self.table_options))
        return reader.load(str(Path(folder, f"table-{kind}", which)))


_CORES = {
    "sums": lambda rows: rows.groupBy("k").agg(F.sum("n").alias("a"), F.max("m").alias("b"), F.count("n").alias("c")),
    "times": lambda rows: rows.groupBy("k").agg(F.max("at").alias("a"), F.sum("n").alias("b")),
    "days": lambda rows: rows.groupBy(F.to_date("at").alias("day")).agg(F.sum("n").alias("a"), F.count("k").alias("b")),
    "first rows": lambda rows: rows.dropDuplicates(["k", "n"]).select("k", "n"),
}
MODES = {"first rows": "append"}


def draw_query(random):
    """Return an old query."""
    kind = random.choice(["json", "csv", "csv"])
    options = random.sample(
        [("nullValue", "-"), ("mode", "DROPMALFORMED"), ("timestampFormat", "yyyy-MM-dd HH:mm:ss")], random.randrange(2)
    )
    table = random.choice([None, None, ("rows", tuple(TABLES["one"].items())), ("json", "one"), ("csv", "one")])
    return Reading(
        random.choice(list(_CORES)),
        kind,
        options=tuple(one for one in options if kind == "csv" or one[0] != "nullValue"),
        table=table,
        function=random.choice([None, None, (plus, 1), (times, 2)]),
        seed=random.choice([None, 7]) if table else None,
        twice=random.choice(["", "", "union", "filtered union"]),
        condition=random.choice(["", "m > 3"]),
    )


def _options(*given):
    return lambda query, _: attrs.evolve(query, options=(*query.options, *given))


def _columns(order):
    return lambda query, _: attrs.evolve(query, columns=order(query.columns))


def _exchanged(columns):
    return (columns[0], columns[2], columns[1], *columns[3:])


def _retyped(columns):
    return tuple("n smallint" if one == "n int" else one for one in columns)


def _wider(columns):
    return tuple("n bigint" if one == "n int" else one for one in columns)


def _of_table(change):
    return lambda query, random: None if query.table is None else change(query, random)


def _other_rows(query, random):
    if query.table[0] != "rows":
        return attrs.evolve(query, table=(query.table[0], "other"))
    rows = list(query.table[1])
    at = random.randrange(len(rows))
    rows[at] = (rows[at][0], rows[at][1] + 10)
    return attrs.evolve(query, table=("rows", tuple(rows)))


def _rows_in_another_order(query, _):
    return attrs.evolve(query, table=("rows", query.table[1][::-1])) if query.table[0] == "rows" else None


def _table_in_another_format(query, _):
    kinds = {"json": "csv", "csv": "json"}
    return attrs.evolve(query, table=(kinds[query.table[0]], "one")) if query.table[0] in kinds else None


def _function(query, _):
    return None if query.function is None else attrs.evolve(query, function=(query.function[0], query.function[1] + 1))


def _other_function(query, _):
    if query.function is None:
        return None
    return attrs.evolve(query, function=({plus: times, times: plus}[query.function[0]], query.function[1]))


CHANGES = {
    "an option for nulls": _options(("nullValue", "p")),
    "a form of times": _options(("timestampFormat", "yyyy-dd-MM HH:mm:ss")),
    "a time zone of times": _options(("timeZone", "Asia/Tokyo")),
    "a glob of files": _options(("pathGlobFilter", "more-*")),
    "a head in each file": _options(("header", "true")),
    "another mode": _options(("mode", "DROPMALFORMED")),
    "a comment in files": _options(("comment", "p")),
    "files of folders below, too": _options(("recursiveFileLookup", "true")),
    "an option that nobody knows": _options(("madeUp", "1")),
    "options that change no row": _options(("maxCachedFiles", "5"), ("cleanSource", "off")),
    "an option with its default": _options(("multiLine", "false"), ("mode", "PERMISSIVE")),
    "two columns exchanged in the schema": _columns(_exchanged),
    "an unused column more": _columns(lambda columns: (*columns, "unused int")),
    "an unused column in front": _columns(lambda columns: ("unused string", *columns)),
    "an unused column less": _columns(lambda columns: columns[:-1]),
    "a narrower type": _columns(_retyped),
    "a wider type": _columns(_wider),
    "other rows of the table": _of_table(_other_rows),
    "rows of the table in another order": _of_table(_rows_in_another_order),
    "a table in another format": _of_table(_table_in_another_format),
    "an option of the table": _of_table(lambda query, _: attrs.evolve(query, table_options=(("nullValue", "3"),))),
    "another number in a function": _function,
    "another function": _other_function,
    "another seed": lambda query, _: None if query.seed is None else attrs.evolve(query, seed=8),
    "another filter": lambda query, _: attrs.evolve(query, condition="m > 9"),
    "another part of the union": lambda query, _: attrs.evolve(query, twice="union") if query.twice else None,
}


@attrs.frozen
class Pair:
    """An old query with a new one, and the name of the change."""

    change: str
    was: Reading
    now: Reading


def draw(seed, changes):
    """Return pairs with one old query; the changes of many seeds have all kinds alike."""
    random = Random(seed)  # noqa: S311 - it draws tests
    was = draw_query(random)
    names = random.sample(list(CHANGES), len(CHANGES))
    made = ((name, CHANGES[name](was, random)) for name in names)
    return [Pair(name, was, now) for name, now in made if now is not None and now != was][:changes]
