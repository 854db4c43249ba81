"""Queries of Flink SQL with small inputs, one for each way in which an operator keeps state.

`flink-sql/Sql.java` runs them; `expected` computes from the inputs what an operator keeps then.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import attrs

from stateshift.compat.description import operator_id_of_uid

BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
EPOCH = int(BEGIN.timestamp()) * 1000
CSV = (
    "'connector'='filesystem','path'='@INPUT@/{}','format'='csv','source.monitor-interval'='1 s','csv.null-literal'=''"
)
CHANGES = "'connector'='filesystem','path'='@INPUT@/{}','format'='debezium-json','source.monitor-interval'='1 s'"
MARK = "WATERMARK FOR ts AS ts - INTERVAL '5' SECOND"
LEFT = "id INT, k INT, a STRING, d DECIMAL(20,2), ts TIMESTAMP(3), p TIMESTAMP(6)"
RIGHT = "id INT, k INT, v DOUBLE, ts TIMESTAMP(3)"


def table(name, columns, *more, source=None, form=CSV):
    return f"CREATE TABLE {name} ({', '.join([columns, *more])}) WITH ({form.format(source or name)})"


TABLES = {
    "l": table("l", LEFT, "pr AS PROCTIME()", MARK),
    "r": table("r", RIGHT, MARK),
    "lp": table("lp", LEFT.replace("id INT", "id INT NOT NULL"), "PRIMARY KEY (id) NOT ENFORCED", source="l"),
    "rp": table("rp", RIGHT.replace("id INT", "id INT NOT NULL"), "PRIMARY KEY (id) NOT ENFORCED", source="r"),
    "lk": table("lk", LEFT.replace("k INT", "k INT NOT NULL"), "PRIMARY KEY (k) NOT ENFORCED", source="few"),
    "rk": table("rk", RIGHT.replace("k INT", "k INT NOT NULL"), "PRIMARY KEY (k) NOT ENFORCED", source="others"),
    "c": table("c", "id INT, k INT, v INT", form=CHANGES),
    "versions": table(
        "versions", "k INT NOT NULL, rate DOUBLE, ts TIMESTAMP(3)", "PRIMARY KEY (k) NOT ENFORCED", MARK, source="rates"
    ),
}


@attrs.frozen
class Left:
    id: int
    k: int | None
    a: str | None
    d: int | None
    second: float
    micros: int | None

    def line(self):
        amount = "" if self.d is None else f"{self.d / 100:.2f}"
        at = BEGIN + timedelta(seconds=self.second)
        fine = "" if self.micros is None else (at + timedelta(microseconds=self.micros)).isoformat(" ")[:26]
        if self.micros is not None and "." not in fine:
            fine = fine[:19]
        return [self.id, _text(self.k), _text(self.a), amount, _stamp(at), fine.removesuffix("+00:00")]

    @property
    def ms(self):
        return EPOCH + round(self.second * 1000)


@attrs.frozen
class Right:
    id: int
    k: int | None
    v: float | None
    second: float

    def line(self):
        return [self.id, _text(self.k), _text(self.v), _stamp(BEGIN + timedelta(seconds=self.second))]

    @property
    def ms(self):
        return EPOCH + round(self.second * 1000)


def _text(value):
    return "" if value is None else str(value)


def _stamp(at):
    return at.strftime("%Y-%m-%d %H:%M:%S.") + f"{at.microsecond // 1000:03d}"


LEFTS = [
    Left(1, 1, "ant", 1250, 1, 7), Left(2, 2, "bee", 999, 4, None), Left(3, 1, "crocodile", None, 8, 123456),
    Left(4, None, "ant", 2 * 10**16, 12, 1), Left(5, 3, None, -5, 13.5, 999999), Left(6, 2, "eel", 100, 21, None),
    Left(7, 1, "dromedary", 700, 26, 0), Left(8, 4, "Größe", 31, 33, 500000), Left(9, 2, "fox", 101, 39, 42),
    Left(10, 1, "gnu", 1, 44, None), Left(11, 4, "hen", 32, 47.25, 5), Left(12, 1, "gnu", 2, 51, 6),
    Left(13, 2, "jay", 55, 56, 8), Left(14, 5, "kid", 77, 58, None), Left(15, 2, "ant", 3, 58.5, 9),
    Left(16, 4, "yak", 9, 59, None), Left(17, 1, "bee", None, 59.25, 1), Left(18, 1, "ant", 4, 59.5, 3),
]  # fmt: skip
RIGHTS = [
    Right(21, 1, 0.5, 2), Right(22, 2, None, 5), Right(23, 1, 1.5, 9), Right(24, 9, 2.5, 14), Right(25, None, 3.5, 20),
    Right(26, 2, 4.5, 30), Right(27, 4, 5.5, 41), Right(28, 1, 6.5, 52), Right(29, 2, 7.5, 57),
]  # fmt: skip
FEW = [one for one in LEFTS if one.id in {2, 5, 8, 12, 14}]
OTHERS = [one for one in RIGHTS if one.id in {22, 23, 24, 27}]
RATES = [Right(0, 1, 1.0, 0), Right(0, 2, 2.0, 10), Right(0, 1, 3.0, 25), Right(0, 4, 4.0, 40), Right(0, 1, 5.0, 53)]
EVENTS = [
    (None, (1, 1, 10)), (None, (2, 1, 20)), (None, (3, 2, 5)), (None, (4, 2, 7)), ((1, 1, 10), (1, 1, 30)),
    ((3, 2, 5), None), (None, (5, 3, 1)), ((5, 3, 1), (5, 3, 2)), (None, (6, None, 4)), (None, (7, 1, 15)),
    (None, (8, 1, 15)), ((2, 1, 20), None),
]  # fmt: skip
LIVE = [(1, 1, 30), (4, 2, 7), (5, 3, 2), (6, None, 4), (7, 1, 15), (8, 1, 15)]
WATERMARK = EPOCH + 54_500
"""That behind the last row of the left table."""


def inputs():
    """Give the files of the inputs: name of the table, lines."""

    def change(before, after):
        names = ("id", "k", "v")
        of = {
            "before": before and dict(zip(names, before, strict=True)),
            "after": after and dict(zip(names, after, strict=True)),
        }
        return json.dumps(of | {"op": "c" if before is None else "u" if after else "d"})

    tables = {"l": LEFTS, "r": RIGHTS, "few": FEW, "others": OTHERS}
    lines = {name: [",".join(map(str, one.line())) for one in rows] for name, rows in tables.items()}
    lines["rates"] = [",".join(map(str, one.line()[1:])) for one in RATES]
    lines["c"] = [change(*one) for one in EVENTS]
    return lines


@attrs.frozen
class Sample:
    """A query.

    Attributes:
        tables: The tables it reads.
        query: The query.
        sink: The columns of the sink, as in `CREATE TABLE`.
        options: What is set before the plan is compiled.
    """

    tables: tuple[str, ...]
    query: str
    sink: str
    options: dict[str, str] = attrs.field(factory=dict)

    def script(self):
        """Give the script that `Sql.java` compiles."""
        statements = [f"SET {name}={value}" for name, value in self.options.items()]
        statements += [TABLES[one] for one in self.tables]
        statements.append(f"CREATE TABLE sink_t ({self.sink}) WITH ('connector'='blackhole')")
        return ";\n".join([*statements, f"INSERT INTO sink_t {self.query}"]) + "\n"


JOINS = {"inner": "JOIN", "left": "LEFT JOIN", "right": "RIGHT JOIN", "full": "FULL JOIN"}
SIDES = {"no-key": ("l", "r"), "unique-key": ("lp", "rp"), "join-key": ("lk", "rk")}
BOTH = ("x.id, x.k, x.a, y.id, y.k, y.v", "id INT, k INT, a STRING, id2 INT, k2 INT, v DOUBLE")
WITHOUT_IDS = ("x.k, x.a, y.k, y.v", "k INT, a STRING, k2 INT, v DOUBLE")
SAMPLES = {}
for layout, (left, right) in SIDES.items():
    columns, sink = WITHOUT_IDS if layout == "no-key" else BOTH
    for kind, words in JOINS.items():
        query = f"SELECT {columns} FROM {left} x {words} {right} y ON x.k = y.k"
        SAMPLES[f"join-{kind}-{layout}"] = Sample((left, right), query, sink)
    for kind, words in (("semi", "EXISTS"), ("anti", "NOT EXISTS")):
        SAMPLES[f"join-{kind}-{layout}"] = Sample(
            (left, right),
            f"SELECT id, k, a FROM {left} x WHERE {words} (SELECT * FROM {right} y WHERE x.k = y.k AND x.id < y.id)",
            "id INT, k INT, a STRING",
        )
TTL = {"table.exec.state.ttl": "1 d"}
SAMPLES["join-left-no-key-ttl"] = attrs.evolve(SAMPLES["join-left-no-key"], options=TTL)
SAMPLES["join-full-join-key-ttl"] = attrs.evolve(SAMPLES["join-full-join-key"], options=TTL)


def ranked(of, order, where, more=""):
    number = f"ROW_NUMBER() OVER (PARTITION BY k ORDER BY {order})"
    return f"SELECT * FROM (SELECT {of}, {number} AS rn FROM {more}) WHERE rn {where}"


def windowed(of, what, by, more=""):
    return f"SELECT k, {what} FROM TABLE({of}) GROUP BY k, {by}{more}"


def tvf(name, rows, *sizes):
    return f"{name}(TABLE {rows}, DESCRIPTOR(ts), {', '.join(f'''INTERVAL '{size}' SECOND''' for size in sizes)})"


TUMBLE, HOP, CUMULATE = tvf("TUMBLE", "l", 10), tvf("HOP", "l", 5, 10), tvf("CUMULATE", "l", 5, 20)
OTHER = tvf("TUMBLE", "r", 10)
SESSION = "SESSION(TABLE l PARTITION BY k, DESCRIPTOR(ts), INTERVAL '8' SECOND)"
AGGREGATED = "COUNT(*), SUM(d)"
ENDS = "window_start, window_end"
OF_WINDOW = "k INT, n BIGINT, s DECIMAL(38,2)"
COUNTED = "(SELECT e, k, COUNT(*) AS n FROM (SELECT k > 0 AS e, k FROM l WHERE k <> 5) GROUP BY e, k)"
SUMMED = "(SELECT id, k, SUM(v) AS n FROM c GROUP BY id, k)"
MINI = {
    "table.exec.mini-batch.enabled": "true", "table.exec.mini-batch.size": "4",
    "table.exec.mini-batch.allow-latency": "1 s",
}  # fmt: skip
SAMPLES |= {
    "rank-append": Sample(
        ("l",), ranked("id, k, d", "d DESC", "<= 2", "l"), "id INT, k INT, d DECIMAL(20,2), rn BIGINT"
    ),
    "rank-append-top-1": Sample(("l",), ranked("id, k, a", "a, id", "= 1", "l"), "id INT, k INT, a STRING, rn BIGINT"),
    "rank-update": Sample(
        ("l",),
        ranked("e, k, n", "n DESC", "<= 2", COUNTED).replace("BY k", "BY e"),
        "e BOOLEAN, k INT, n BIGINT, rn BIGINT",
    ),
    "rank-retract": Sample(("c",), ranked("id, k, n", "n", "<= 2", SUMMED), "id INT, k INT, n INT, rn BIGINT"),
    "deduplicate-first-row-time": Sample(
        ("l",), ranked("id, k, ts", "ts", "= 1", "l"), "id INT, k INT, ts TIMESTAMP(3), rn BIGINT"
    ),
    "deduplicate-last-row-time": Sample(
        ("l",), ranked("id, k, ts", "ts DESC", "= 1", "l"), "id INT, k INT, ts TIMESTAMP(3), rn BIGINT"
    ),
    "deduplicate-first-processing-time": Sample(
        ("l",), ranked("id, k, a", "pr", "= 1", "l"), "id INT, k INT, a STRING, rn BIGINT"
    ),
    "deduplicate-last-processing-time-ttl": Sample(
        ("l",), ranked("id, k, a", "pr DESC", "= 1", "l"), "id INT, k INT, a STRING, rn BIGINT", TTL
    ),
    "window-aggregate-tumble": Sample(("l",), windowed(TUMBLE, AGGREGATED, ENDS), OF_WINDOW),
    "window-aggregate-hop": Sample(("l",), windowed(HOP, AGGREGATED, ENDS), OF_WINDOW),
    "window-aggregate-cumulate": Sample(("l",), windowed(CUMULATE, AGGREGATED, ENDS), OF_WINDOW),
    "window-aggregate-session": Sample(("l",), windowed(SESSION, AGGREGATED, ENDS), OF_WINDOW),
    "window-aggregate-distinct": Sample(("l",), windowed(TUMBLE, "COUNT(DISTINCT a), SUM(d)", ENDS), OF_WINDOW),
    "group-window-tumble": Sample(
        ("l",), f"SELECT k, {AGGREGATED} FROM l GROUP BY k, TUMBLE(ts, INTERVAL '10' SECOND)", OF_WINDOW
    ),
    "group-window-hop": Sample(
        ("l",),
        f"SELECT k, {AGGREGATED} FROM l GROUP BY k, HOP(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND)",
        OF_WINDOW,
    ),
    "group-window-session": Sample(
        ("l",), f"SELECT k, {AGGREGATED} FROM l GROUP BY k, SESSION(ts, INTERVAL '8' SECOND)", OF_WINDOW
    ),
    "window-join": Sample(
        ("l", "r"),
        f"SELECT x.id, y.id FROM (SELECT * FROM TABLE({TUMBLE})) x JOIN (SELECT * FROM TABLE({OTHER})) y"
        " ON x.k = y.k AND x.window_start = y.window_start AND x.window_end = y.window_end",
        "id INT, id2 INT",
    ),
    "window-rank": Sample(
        ("l",),
        f"SELECT id, k FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {ENDS}, k ORDER BY a) AS rn"
        f" FROM TABLE({TUMBLE})) WHERE rn <= 2",
        "id INT, k INT",
    ),
    "window-deduplicate": Sample(
        ("l",),
        f"SELECT id, k FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {ENDS}, k ORDER BY ts DESC) AS rn"
        f" FROM TABLE({TUMBLE})) WHERE rn = 1",
        "id INT, k INT",
    ),
    "aggregate-two-phases": Sample(
        ("l",), "SELECT k, COUNT(*), SUM(d), MAX(a) FROM l GROUP BY k", f"{OF_WINDOW}, m STRING", MINI
    ),
    "aggregate-distinct": Sample(
        ("l",),
        "SELECT k, COUNT(DISTINCT a) FILTER (WHERE d > 100), COUNT(DISTINCT a) FILTER (WHERE d < 50), AVG(d)"
        " FROM l GROUP BY k",
        "k INT, n BIGINT, m BIGINT, d DECIMAL(38,6)",
    ),
    "aggregate-array": Sample(("l",), "SELECT k, ARRAY_AGG(id) FROM l GROUP BY k", "k INT, ids ARRAY<INT>"),
    "aggregate-retract": Sample(
        ("c",),
        "SELECT k, SUM(v), MAX(v), COUNT(DISTINCT v) FILTER (WHERE id > 2), COUNT(DISTINCT v),"
        " LISTAGG(CAST(id AS STRING)) FROM c GROUP BY k",
        "k INT, s INT, m INT, n BIGINT, o BIGINT, w STRING",
    ),
    "aggregate-ttl": Sample(
        ("l",), "SELECT k, COUNT(*), COUNT(DISTINCT a) FROM l GROUP BY k", "k INT, n BIGINT, m BIGINT", TTL
    ),
    "aggregate-wide-keys": Sample(
        ("l",),
        "SELECT CAST(d AS DECIMAL(30,2)), p, COUNT(*) FROM l GROUP BY CAST(d AS DECIMAL(30,2)), p",
        "d DECIMAL(30,2), p TIMESTAMP(6), n BIGINT",
    ),
    "interval-join": Sample(
        ("l", "r"),
        "SELECT x.id, y.id FROM l x LEFT JOIN r y ON x.k = y.k AND y.ts BETWEEN x.ts - INTERVAL '10' SECOND AND x.ts",
        "id INT, id2 INT",
    ),
    "temporal-join": Sample(
        ("l", "versions"),
        "SELECT x.id, y.rate FROM l x LEFT JOIN versions FOR SYSTEM_TIME AS OF x.ts y ON x.k = y.k",
        "id INT, rate DOUBLE",
    ),
    "upsert-materialize": Sample(
        ("c",),
        "SELECT v, id, k FROM c ON CONFLICT DO DEDUPLICATE",
        "v INT, id INT, k INT, PRIMARY KEY (v) NOT ENFORCED",
    ),
    "temporal-sort": Sample(("l",), "SELECT id, ts FROM l ORDER BY ts, a", "id INT, ts TIMESTAMP(3)"),
}
OVER = {
    "processing-time-unbounded": "pr", "row-time-unbounded-range": "ts",
    "row-time-unbounded-rows": "ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "row-time-rows": "ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
    "row": "id",
}  # fmt: skip
for name, order in OVER.items():
    SAMPLES[f"over-{name}"] = Sample(
        ("l",), f"SELECT id, SUM(d) OVER (PARTITION BY k ORDER BY {order}) FROM l", "id INT, s DECIMAL(38,2)"
    )


def row(*fields, kind="+I"):
    return {"$sqlrow": {"kind": kind, "fields": list(fields)}}


def amount(unscaled, scale=2):
    return None if unscaled is None else {"$decimal": [str(unscaled), scale]}


def stamp(ms, nanos=0):
    return {"$timestamp": [ms, nanos]}


VIEW = {"$bytes": "00"}
"""What stands in an accumulator for a state of its own."""


def pairs(entries):
    """Give a map of a state: its entries, sorted by their text as an export sorts them."""
    return {"$map": sorted(entries, key=lambda pair: json.dumps(pair, sort_keys=True))}


def grouped(rows, key):
    found = {}
    for one in rows:
        found.setdefault(key(one), []).append(one)
    return found


def entries_of(groups, value, key=row):
    return [[key(one), value(rows)] for one, rows in groups.items()]


def keyed(kind, entries):
    return {"kind": kind, "entries": entries}


def of_join(kind, layout):
    """Give the two sides of a join: of the left one `id, k, a`, of the right one `id, k, v`."""
    lefts, rights = (FEW, OTHERS) if layout == "join-key" else (LEFTS, RIGHTS)
    one_sided = kind in {"semi", "anti"}

    def matches(one, other):
        return one.k is not None and one.k == other.k and (not one_sided or one.id < other.id)

    bare = layout == "no-key" and not one_sided

    def left(one):
        return (one.k, one.a) if bare else (one.id, one.k, one.a)

    def right(one):
        return (one.k, one.v) if bare else (one.id, one.k) if one_sided else (one.id, one.k, one.v)

    found = {}
    sides = (
        (
            "left-records",
            lefts,
            left,
            lambda one: sum(matches(one, other) for other in rights),
            kind in {"left", "full", "semi", "anti"},
        ),
        (
            "right-records",
            rights,
            right,
            lambda one: sum(matches(other, one) for other in lefts),
            kind in {"right", "full"},
        ),
    )
    for name, rows, fields, times, outer in sides:
        groups = grouped(rows, lambda one: one.k)

        def stored(one, fields=fields, times=times, outer=outer):
            return {"$tuple": [row(*fields(one)), times(one)]} if outer else row(*fields(one))

        def counted(of, fields=fields, times=times, outer=outer):
            alike = grouped(of, lambda one: row_key(fields(one)))
            return pairs(
                [
                    [row(*fields(same[0])), {"$tuple": [len(same), times(same[0])]} if outer else len(same)]
                    for same in alike.values()
                ]
            )

        if layout == "no-key":
            found[name] = keyed("MAP", entries_of(groups, counted))
        elif layout == "unique-key":
            found[name] = keyed(
                "MAP", entries_of(groups, lambda of, s=stored: pairs([[row(one.id), s(one)] for one in of]))
            )
        else:
            found[name] = keyed("VALUE", entries_of(groups, lambda of, s=stored: s(of[0])))
    return {"join": found}


def row_key(fields):
    return json.dumps(fields)


NOTHING = {"keyed": {}, "timers": {}, "operator": {}}


def kept(operators):
    """What operators keep, by id and by kind; queues without timers are left out. Flink 1.20 does not store uids."""
    found = {}
    for operator in operators:
        timers = {time: rows for time, rows in operator.get("timers", {}).items() if rows}
        rooms = {"keyed": operator.get("keyed"), "timers": timers, "operator": operator.get("operator")}
        place = operator.get("operator_id") or operator_id_of_uid(operator["uid"]).hex()
        found[place] = {room: states for room, states in rooms.items() if states}
    return {place: rooms for place, rooms in found.items() if rooms}


def expected(name, plan):
    """Give all that Flink keeps of a query, in the form of an export."""
    computed = EXPECTED[name]()
    nodes = {}
    for node in plan["nodes"]:
        kind = node["type"].removeprefix("stream-exec-").rsplit("_", 1)[0]
        nodes.setdefault(kind, []).append(node["id"])
    operators = [
        {"uid": f"{number}_source", "operator": {"SourceReaderState": {"mode": "SPLIT_DISTRIBUTE", "subtasks": [[]]}}}
        for number in nodes["table-source-scan"]
    ]
    for kind, states in computed.items():
        (number,) = nodes[kind.partition("/")[0]]
        rooms = states if states.keys() <= NOTHING.keys() else {"keyed": states}
        for state in rooms.get("keyed", {}).values():
            state.setdefault("ttl", name.endswith("-ttl"))
            state["entries"].sort(key=lambda entry: json.dumps(entry, sort_keys=True))
        operators.append({"uid": f"{number}_{kind.partition('/')[2] or kind}", **rooms})
    return {
        "flink_version": "2.3.0", "format": "canonical", "backend": "rocksdb", "max_parallelism": 128,
        "from": "computed from the inputs in tests/sql_samples.py, not read from Flink", "operators": operators,
    }  # fmt: skip


EXPECTED = {
    f"join-{kind}-{layout}": lambda kind=kind, layout=layout: of_join(kind, layout)
    for layout in SIDES
    for kind in (*JOINS, "semi", "anti")
}


def total(values):
    known = [one for one in values if one is not None]
    return sum(known) if known else None


def count_and_sum(rows):
    return row(len(rows), amount(total(one.d for one in rows)))


def value_state(rows, key, value):
    return keyed("VALUE", entries_of(grouped(rows, key), value))


def window(start, end):
    return {"$window": [EPOCH + round(start * 1000), EPOCH + round(end * 1000)]}


def by_k(one):
    return one.k


def top(rows, order, count):
    """Give the first rows of each k by an order."""
    return {k: sorted(of, key=order)[:count] for k, of in grouped(rows, by_k).items()}


def list_map(groups, key, value):
    """Give a MAP of lists: of each group by the key of its rows."""
    entries = []
    for k, of in groups.items():
        within = grouped(of, lambda one: row_key(key(one)))
        entries.append(
            [row(k), pairs([[row(*key(same[0])), [value(one) for one in same]] for same in within.values()])]
        )
    return keyed("MAP", entries)


def none(kind="VALUE"):
    return keyed(kind, [])


def of_sums():
    """Give the sums of `v` by `id, k` of the changelog: all are of one row."""
    return value_state([Live(*one) for one in LIVE], lambda one: (one.id, one.k), lambda of: row(of[0].v, 1, 1))


@attrs.frozen
class Live:
    id: int
    k: int | None
    v: int


def of_two_phases():
    def value(of):
        texts = [one.a for one in of if one.a is not None]
        return row(len(of), amount(total(one.d for one in of)), max(texts, default=None))

    return {"global-group-aggregate": {"accState": value_state(LEFTS, by_k, value)}}


def of_distinct_texts(rows, filters, value_of):
    """Give a map of distinct `a` and the VALUE of what belongs to null, from bits of filters."""
    entries, nulls = [], []
    for k, of in grouped(rows, by_k).items():
        bits = {}
        for one in of:
            bits[one.a] = bits.get(one.a, 0) | sum(1 << place for place, fits in enumerate(filters) if fits(one))
        bits = {a: found for a, found in bits.items() if found}
        if None in bits:
            nulls.append([row(k), bits.pop(None)])
        if bits:
            entries.append([row(k), pairs([[a, value_of(found)] for a, found in bits.items()])])
    return {"distinctAcc_0": keyed("MAP", entries), "distinctAcc_0_null_state": keyed("VALUE", nulls)}


def many(of, fits):
    return len({one.a for one in of if one.a is not None and fits(one)})


def of_distinct():
    filters = (lambda one: one.d is not None and one.d > 10000, lambda one: one.d is not None and one.d < 5000)

    def value(of):
        known = [one.d for one in of if one.d is not None]
        return row(*(many(of, one) for one in filters), amount(sum(known)), len(known), VIEW)

    return {"group-aggregate": {"accState": value_state(LEFTS, by_k, value), **of_distinct_texts(LEFTS, filters, int)}}


def of_ttl():
    def value(of):
        return row(len(of), many(of, lambda _: True), VIEW)

    views = of_distinct_texts(LEFTS, (lambda _: True,), int)
    return {"group-aggregate": {"accState": value_state(LEFTS, by_k, value), **views}}


def of_wide_keys():
    def key(one):
        nanos = None if one.micros is None else one.micros * 1000
        at = None if nanos is None else stamp(one.ms + nanos // 1_000_000, nanos % 1_000_000)
        return (amount(one.d), at)

    entries = [[row(*key(of[0])), row(len(of))] for of in grouped(LEFTS, lambda one: json.dumps(key(one))).values()]
    return {"group-aggregate": {"accState": keyed("VALUE", entries)}}


def timers(rows):
    return {"event": sorted(rows, key=lambda one: json.dumps(one, sort_keys=True))}


def slices(rows, size):
    """Give the rows of each `k` and end of a slice, in seconds."""
    return grouped(rows, lambda one: (one.k, (one.second // size + 1) * size))


def of_slices(name, groups, ends, value=count_and_sum, operator="global-window-aggregate", kind="VALUE", more=None):
    """Give the state of windows that have not fired, and their timers: at the end of the window less a millisecond."""
    state = keyed(kind, [[row(k), EPOCH + round(end * 1000), value(of)] for (k, end), of in groups.items()])
    due = [[row(k), EPOCH + round(end * 1000), EPOCH + round(end * 1000) - 1] for k, end in ends]
    marks = {"watermark": {"mode": "UNION", "subtasks": [[WATERMARK]]}}
    return {operator: {"keyed": {name: state, **(more or {})}, "timers": timers(due), "operator": marks}}


def of_tumble(value=count_and_sum, operator="global-window-aggregate", name="window-aggs", kind="VALUE"):
    groups = {at: of for at, of in slices(LEFTS, 10).items() if EPOCH + at[1] * 1000 - 1 > WATERMARK}
    return of_slices(name, groups, groups, value, operator, kind)


def of_hop():
    """A slice is kept while one of its two windows has not fired; the next window of a key is due while it has rows."""
    groups = {at: of for at, of in slices(LEFTS, 5).items() if at[1] >= 50}
    return of_slices("window-aggs", groups, {(k, max(end, 55)) for k, end in groups} | {(1, 55)})


def of_cumulate():
    """What has fired of a window of 20 seconds is in the slice with which it begins."""
    groups = grouped(
        [one for one in LEFTS if one.second >= 40], lambda one: (one.k, max((one.second // 5 + 1) * 5, 45))
    )
    merged = {}
    for (k, end), of in groups.items():
        merged.setdefault((k, 45 if end <= 50 else end), []).extend(of)
    return of_slices("window-aggs", merged, {(k, max(end, 55)) for k, end in merged})


def sessions():
    """Give the sessions that have not ended: by k, the window and that with which it began, and the rows."""
    found = []
    for k, of in grouped(LEFTS, by_k).items():
        begun = []
        for one in sorted(of, key=lambda one: one.second):
            if begun and one.second <= begun[-1][1]:
                begun[-1] = (begun[-1][0], one.second + 8, [*begun[-1][2], one])
            else:
                begun.append((one.second, one.second + 8, [one]))
        found += [(k, start, end, rows) for start, end, rows in begun if EPOCH + end * 1000 - 1 > WATERMARK]
    return found


def of_sessions(operator):
    kept, mapped = sessions(), {}
    for k, start, end, _ in kept:
        mapped.setdefault(k, []).append([window(start, end), window(start, start + 8)])
    states = {
        "window-aggs": keyed(
            "VALUE", [[row(k), window(start, start + 8), count_and_sum(of)] for k, start, _, of in kept]
        ),
        "session-window-mapping": keyed("MAP", [[row(k), pairs(found)] for k, found in mapped.items()]),
    }
    due = [[row(k), window(start, end), EPOCH + round(end * 1000) - 1] for k, start, end, _ in kept]
    found = {"keyed": states, "timers": timers(due)}
    if operator == "window-aggregate":
        found["operator"] = {"watermark": {"mode": "UNION", "subtasks": [[WATERMARK]]}}
    return {operator: found}


def of_group_windows(size, slide):
    """The rows are kept by pane, of which a window has several; each window has a timer."""
    found = {}
    for one in LEFTS:
        start = one.second // slide * slide
        while start > one.second - size:
            if EPOCH + (start + size) * 1000 - 1 > WATERMARK:
                found.setdefault((one.k, start), []).append(one)
            start -= slide
    panes = {at: of for at, of in slices(LEFTS, slide).items() if EPOCH + (at[1] - slide + size) * 1000 - 1 > WATERMARK}
    entries = [[row(k), window(end - slide, end), count_and_sum(of)] for (k, end), of in panes.items()]
    states = {"window-aggs": keyed("VALUE", entries)}
    due = [[row(k), window(s, s + size), EPOCH + round((s + size) * 1000) - 1] for k, s in found]
    return {"group-window-aggregate": {"keyed": states, "timers": timers(due)}}


EXPECTED |= {
    "join-left-no-key-ttl": lambda: of_join("left", "no-key"),
    "join-full-join-key-ttl": lambda: of_join("full", "join-key"),
    "aggregate-two-phases": of_two_phases,
    "aggregate-distinct": of_distinct,
    "aggregate-ttl": of_ttl,
    "aggregate-wide-keys": of_wide_keys,
    "window-aggregate-tumble": of_tumble,
    "window-aggregate-hop": of_hop,
    "window-aggregate-cumulate": of_cumulate,
    "window-aggregate-session": lambda: of_sessions("window-aggregate"),
    "group-window-session": lambda: of_sessions("group-window-aggregate"),
    "group-window-tumble": lambda: of_group_windows(10, 10),
    "group-window-hop": lambda: of_group_windows(10, 5),
}


def appended(rows, order, count):
    """Give what a rank of rows that only come keeps: rows until one is behind the last rank, as Flink does."""
    kept = {}
    for k, of in grouped(rows, by_k).items():
        held = []
        for one in of:
            if len(held) >= count and order(one) >= order(held[-1]):
                continue
            held = sorted([*held, one], key=order)  # equal ones stay in the order in which they came
            keys = [order(each) for each in held]
            held = [each for each in held if keys.index(order(each)) <= count]
        kept[k] = held
    return kept


def by_amount(one):
    return (one.d is None, -(one.d or 0))


def by_text(one):
    return (one.a is not None, one.a or "", one.id)


EXPECTED |= {
    "rank-append": lambda: {
        "rank": {
            "data-state-with-append": list_map(
                appended(LEFTS, by_amount, 2),
                lambda one: (amount(one.d),),
                lambda one: row(one.id, one.k, amount(one.d)),
            )
        }
    }
}


def of_updates():
    """The rank of counts that rise: each group's row, and its place among those of the same count."""
    counts = grouped([one for one in LEFTS if one.k not in {5, None}], by_k)
    best = sorted(counts, key=lambda k: -len(counts[k]))[:2]
    rows = [[row(True, k), {"$tuple": [row(True, k, len(counts[k]), kind="+U"), 1]}] for k in best]
    return {
        "group-aggregate": {
            "accState": keyed("VALUE", entries_of(counts, lambda of: row(len(of)), lambda k: row(True, k)))
        },
        "rank": {"data-state-with-update": keyed("MAP", [[row(True), pairs(rows)]])},
    }


def of_retractions():
    live = [Live(*one) for one in LIVE]
    groups = grouped(live, by_k)
    numbers = {
        k: pairs([[row(v), len(same)] for v, same in grouped(of, lambda one: one.v).items()])
        for k, of in groups.items()
    }
    sums = keyed("VALUE", [[row(one.id, one.k), row(one.v, 1, 1)] for one in live])
    return {
        "group-aggregate": {"accState": sums},
        "rank": {
            "data-state": list_map(groups, lambda one: (one.v,), lambda one: row(one.id, one.k, one.v)),
            "sorted-map": keyed("VALUE", [[row(k), counted] for k, counted in numbers.items()]),
        },
    }


def of_first_row_time():
    first = {k: of[0] for k, of in grouped(LEFTS, by_k).items()}
    waiting = [one for one in first.values() if one.ms > WATERMARK]
    emitted = [[row(k), True] for k, one in first.items() if one not in waiting]
    return {
        "deduplicate": {
            "keyed": {
                "waiting-to-emit-on-timer": keyed(
                    "VALUE", [[row(one.k), row(one.id, one.k, stamp(one.ms))] for one in waiting]
                ),
                "already-emitted-state-boolean": keyed("VALUE", emitted),
            },
            "timers": timers([[row(one.k), {"$void": True}, one.ms] for one in waiting]),
        }
    }


def of_deduplicate(value):
    return {"deduplicate": {"deduplicate-state": value_state(LEFTS, by_k, value)}}


EXPECTED |= {
    "rank-append-top-1": lambda: {
        "rank": {
            "Top1-Rank-State": value_state(
                LEFTS, by_k, lambda of: next(row(one.id, one.k, one.a) for one in sorted(of, key=by_text))
            )
        }
    },
    "rank-update": of_updates,
    "rank-retract": of_retractions,
    "deduplicate-first-row-time": of_first_row_time,
    "deduplicate-last-row-time": lambda: of_deduplicate(
        lambda of: row(of[-1].id, of[-1].k, stamp(of[-1].ms), kind="+U" if len(of) > 1 else "+I")
    ),
    "deduplicate-first-processing-time": lambda: of_deduplicate(lambda _: True),
    "deduplicate-last-processing-time-ttl": lambda: of_deduplicate(lambda of: row(of[-1].id, of[-1].k, of[-1].a, None)),
}


def of_window(one):
    start = one.second // 10 * 10
    return stamp(EPOCH + round(start * 1000)), stamp(EPOCH + round(start * 1000) + 10_000)


def of_window_join():
    found = {}
    for name, rows in (("left-records", LEFTS), ("right-records", RIGHTS)):
        groups = {at: of for at, of in slices(rows, 10).items() if at[1] == 60 and at[0] is not None}
        states = of_slices(
            name, groups, groups, lambda of: [row(one.id, one.k, *of_window(one)) for one in of], "window-join", "LIST"
        )["window-join"]
        found.setdefault("keyed", {}).update(states["keyed"])
        due = found.get("timers", {}).get("event", [])
        found["timers"] = timers([*due, *(one for one in states["timers"]["event"] if one not in due)])
    return {"window-join": found}


def of_window_rank():
    """Rows that are among the first when they come stay until the window fires, also those that others displace."""

    def value(of):
        held = []
        for one in of:
            if len(held) < 2 or one.a < max(other.a for other in held):
                held.append(one)
        return pairs([[row(one.a), [row(one.id, one.k, one.a, *of_window(one))]] for one in held])

    return of_tumble(value, "window-rank", "window_rank", "MAP")


def of_window_deduplicate():
    def value(of):
        return row(of[-1].id, of[-1].k, stamp(of[-1].ms), *of_window(of[-1]))

    return of_tumble(value, "window-deduplicate", "window_deduplicate")


def of_window_distinct():
    def value(of):
        return row(len({one.a for one in of}), amount(total(one.d for one in of)), VIEW)

    def texts(of):
        return pairs([[a, 1] for a in {one.a for one in of}])

    found, views = of_tumble(value), of_tumble(texts, name="distinctAcc_0", kind="MAP")
    keyed_views = views["global-window-aggregate"]["keyed"] | {"distinctAcc_0_null_state": none()}
    found["global-window-aggregate"]["keyed"].update(keyed_views)
    return found


def of_retract():
    """The lists of LISTAGG follow the order of the events; a value that was taken back has left its place."""
    live, listed = grouped([Live(*one) for one in LIVE], by_k), {}
    for before, after in EVENTS:
        if before is not None:
            listed[before[1]].remove(str(before[0]))
        if after is not None:
            listed.setdefault(after[1], []).append(str(after[0]))
    times = {k: grouped(of, lambda one: one.v) for k, of in live.items()}

    def counts(same):
        return [sum(one.id > 2 for one in same), len(same)]

    def value(k):
        values = times[k]
        distinct = (sum(counts(same)[0] > 0 for same in values.values()), len(values))
        most = row(max(values), len(values), VIEW)
        return row(sum(one.v for one in live[k]), len(live[k]), most, *distinct, row(VIEW, VIEW), len(live[k]), VIEW)

    return {
        "group-aggregate": {
            "accState": keyed("VALUE", [[row(k), value(k)] for k in live]),
            "agg1$map": keyed("MAP", [[row(k), pairs([[v, len(s)] for v, s in times[k].items()])] for k in live]),
            "distinctAcc_0": keyed(
                "MAP", [[row(k), pairs([[v, counts(s)] for v, s in times[k].items()])] for k in live]
            ),
            "distinctAcc_0_null_state": none(),
            "agg4$list": keyed("LIST", [[row(k), of] for k, of in listed.items() if of]),
            "agg4$retractList": none("LIST"),
        }
    }


def of_interval_join():
    """A left row waits for right ones until its own time, a right one for left ones for ten seconds more."""
    now = EPOCH + 52_000
    lefts = grouped([one for one in LEFTS if one.k is not None and one.ms > now], by_k)
    rights = grouped([one for one in RIGHTS if one.k is not None and one.ms + 10_000 > now], by_k)

    def met(one):
        return any(other.k == one.k and one.ms - 10_000 <= other.ms <= one.ms for other in RIGHTS)

    def left(one):
        return {"$tuple": [row(one.id, one.k, stamp(one.ms)), met(one)]}

    def right(one):
        return {"$tuple": [row(one.id, one.k, stamp(one.ms)), False]}

    def cache(groups, value):
        return keyed("MAP", [[row(k), pairs([[one.ms, [value(one)]] for one in of])] for k, of in groups.items()])

    ends = {
        "IntervalJoinRightTimerState": [[row(k), of[0].ms + 1] for k, of in lefts.items()],
        "IntervalJoinLeftTimerState": [[row(k), of[0].ms + 10_001] for k, of in rights.items()],
    }
    due = {json.dumps([key, {"$void": True}, end]) for rows in ends.values() for key, end in rows}
    return {
        "interval-join": {
            "keyed": {
                "IntervalJoinLeftCache": cache(lefts, left), "IntervalJoinRightCache": cache(rights, right),
                **{name: keyed("VALUE", rows) for name, rows in ends.items()},
            },
            "timers": timers([json.loads(one) for one in due]),
        }
    }  # fmt: skip


def of_temporal_join():
    """A left row waits until the watermark of both sides has passed it; of older versions the newest is kept."""
    now = EPOCH + 48_000
    groups = grouped(LEFTS, by_k)
    waiting = {k: [(place, one) for place, one in enumerate(of) if one.ms > now] for k, of in groups.items()}
    waiting = {k: of for k, of in waiting.items() if of}
    versions = {
        k: of[max([place for place, one in enumerate(of) if one.ms <= now], default=0) :]
        for k, of in grouped(RATES, by_k).items()
    }
    return {
        "temporal-join": {
            "keyed": {
                "next-index": keyed("VALUE", [[row(k), len(of)] for k, of in groups.items()]),
                "left": keyed("MAP", [
                    [row(k), pairs([[place, row(one.id, one.k, stamp(one.ms))] for place, one in of])]
                    for k, of in waiting.items()
                ]),
                "right": keyed("MAP", [
                    [row(k), pairs([[one.ms, row(one.k, one.v, stamp(one.ms))] for one in of])]
                    for k, of in versions.items()
                ]),
                "timer": keyed("VALUE", [[row(k), of[0][1].ms] for k, of in waiting.items()]),
            },
            "timers": timers([[row(k), {"$void": True}, of[0][1].ms] for k, of in waiting.items()]),
        }
    }  # fmt: skip


def of_temporal_sort():
    late = [one for one in LEFTS if one.ms > WATERMARK]
    last = max(one.ms for one in LEFTS if one not in late)
    return {
        "temporal-sort": {
            "keyed": {
                "dataState": keyed(
                    "MAP", [[row(), pairs([[one.ms, [row(one.id, stamp(one.ms), one.a)]] for one in late])]]
                ),
                "lastTriggeringTsState": keyed("VALUE", [[row(), last]]),
            },
            "timers": timers([[row(), {"$void": True}, one.ms] for one in late]),
        }
    }


def sum_and_count(rows):
    known = [one.d for one in rows if one.d is not None]
    return row(len(known), amount(sum(known)))


def of_over_row_time(of_rows=None):
    groups = grouped(LEFTS, by_k)
    early = {k: [one for one in of if one.ms <= WATERMARK] for k, of in groups.items()}
    early = {k: of for k, of in early.items() if of}
    late = {k: [one for one in of if one.ms > WATERMARK] for k, of in groups.items()}
    due = [[row(k), {"$void": True}, one.ms] for k, of in late.items() for one in of]

    def stored(of):
        return pairs([[one.ms, [row(one.id, one.k, amount(one.d), stamp(one.ms))]] for one in of])

    if of_rows is None:
        states = {
            "accState": keyed("VALUE", [[row(k), sum_and_count(of)] for k, of in early.items()]),
            "inputState": keyed("MAP", [[row(k), stored(of)] for k, of in late.items() if of]),
        }
    else:
        kept = {k: of[-of_rows:] for k, of in early.items()}

        def value(of):
            counted = sum_and_count(of)
            counted["$sqlrow"]["fields"].append(len(of))
            return counted

        inputs_kept = {k: [*kept.get(k, []), *late[k]] for k in groups}
        states = {
            "lastTriggeringTsState": keyed("VALUE", [[row(k), of[-1].ms] for k, of in early.items()]),
            "processedCountState": keyed("VALUE", [[row(k), len(of)] for k, of in kept.items()]),
            "accState": keyed("VALUE", [[row(k), value(of)] for k, of in kept.items()]),
            "inputState": keyed("MAP", [[row(k), stored(of)] for k, of in inputs_kept.items()]),
        }
    return {"over-aggregate": {"keyed": states, "timers": timers(due)}}


EXPECTED |= {
    "window-join": of_window_join,
    "window-rank": of_window_rank,
    "window-deduplicate": of_window_deduplicate,
    "window-aggregate-distinct": of_window_distinct,
    "aggregate-retract": of_retract,
    "interval-join": of_interval_join,
    "temporal-join": of_temporal_join,
    "temporal-sort": of_temporal_sort,
    "over-processing-time-unbounded": lambda: {"over-aggregate": {"accState": value_state(LEFTS, by_k, sum_and_count)}},
    "over-row-time-unbounded-range": of_over_row_time,
    "over-row-time-unbounded-rows": of_over_row_time,
    "over-row-time-rows": lambda: of_over_row_time(3),
}


def of_materializer():
    """A row that comes to others updates them; where the last goes, the one before it becomes an update."""
    found = {}
    for before, after in EVENTS:
        if before is not None:
            of = found[before[2]]
            place = [one for one, _ in of].index(before)
            del of[place]
            if of and place == len(of):
                of[-1] = (of[-1][0], "+U")
        if after is not None:
            of = found.setdefault(after[2], [])
            of.append((after, "+U" if of else "+I"))
    entries = [[row(v), [row(v, *one[:2], kind=kind) for one, kind in of]] for v, of in found.items() if of]
    return {"sink/upsert-materialize": {"values": keyed("VALUE", entries)}}


def of_over_row():
    """Rows have numbers from the least one on; each sort key has the accumulators up to it."""
    least, groups = -(2**63), grouped(LEFTS, by_k)
    return {
        "over-aggregate": {
            "idState": keyed("VALUE", [[row(k), least + len(of)] for k, of in groups.items()]),
            "sortedListState": keyed("VALUE", [
                [row(k), [{"$tuple": [row(one.id), [least + place]]} for place, one in enumerate(of)]]
                for k, of in groups.items()
            ]),
            "valueMapState": keyed("MAP", [
                [row(k), pairs([[least + place, row(one.id, one.k, amount(one.d))] for place, one in enumerate(of)])]
                for k, of in groups.items()
            ]),
            "accMapState": keyed("MAP", [
                [row(k), pairs([[row(one.id), sum_and_count(of[: place + 1])] for place, one in enumerate(of)])]
                for k, of in groups.items()
            ]),
        }
    }  # fmt: skip


EXPECTED |= {"upsert-materialize": of_materializer, "over-row": of_over_row}


def linked(numbers):
    """Give the bytes of a linked list of INT: the size, a bit for each null, the numbers."""
    items = b"".join(number.to_bytes(4, "big") for number in numbers)
    return len(numbers).to_bytes(4, "big") + bytes((len(numbers) + 7) // 8) + items


def of_array():
    def value(of):
        return row(row({"$bytes": linked([one.id for one in of]).hex()}, {"$bytes": linked([]).hex()}))

    return {"group-aggregate": {"accState": value_state(LEFTS, by_k, value)}}


EXPECTED["aggregate-array"] = of_array
