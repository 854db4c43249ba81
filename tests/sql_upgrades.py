"""Changes of queries of Flink SQL, each as two queries: what Flink's state makes of them, and what we are to say.

`area` is that of the published table of query changes whose row each is (specs: `sql-changes.csv`).
"""

# ruff: noqa: E501 - each change stands in one line; the queries are constants

from __future__ import annotations

import attrs

TIMED = "ts TIMESTAMP(3), proctime AS PROCTIME(), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND"
TABLES = {
    "MyTable": f"a INT, b BIGINT, c VARCHAR, d INT, {TIMED}",
    "Other": "x INT, y BIGINT, z VARCHAR, ts2 TIMESTAMP(3), WATERMARK FOR ts2 AS ts2 - INTERVAL '1' SECOND",
    "Third": "k INT, g INT, w VARCHAR",
    "Versions": "x INT NOT NULL, y BIGINT, z VARCHAR, ts2 TIMESTAMP(3), PRIMARY KEY (x) NOT ENFORCED, WATERMARK FOR ts2 AS ts2 - INTERVAL '40' DAY",
}
WIDE = {"MyTable": f"a BIGINT, b BIGINT, c VARCHAR, d INT, {TIMED}"}
WIDER = WIDE | {"Other": TABLES["Other"].replace("x INT", "x BIGINT")}
UNIQUE = {"Third": f"{TABLES['Third']}, PRIMARY KEY (k) NOT ENFORCED"}
WIDE_D = {"MyTable": f"a INT, b BIGINT, c VARCHAR, d BIGINT, {TIMED}"}
DAY = "INTERVAL '1' DAY"


@attrs.frozen(eq=False)
class Upgrade:
    """Two queries.

    Attributes:
        row: The row of the published table, with a letter where several are of one row.
        old: The old query.
        new: The new one.
        decision: What we say: start, migrate or refuse.
        published: What the vendor says: full, partial, none, unknown or conditional.
        tables: Columns of tables in the new query, where they differ.
        were: Those of the old query.
        given: The option without which it is refused.
        collides: Whether what `test_sql_upgrades.py` stores has two rows where there is room for one.
        why: Why we say something else than the vendor.
        is_run: Whether real Flink runs it; else it is judged alone, since its plans need what a session has.
    """

    row: str
    old: str
    new: str
    decision: str
    published: str
    tables: dict[str, str] = attrs.field(factory=dict, kw_only=True)
    were: dict[str, str] = attrs.field(factory=dict, kw_only=True)
    given: str = attrs.field(default="", kw_only=True)
    collides: bool = attrs.field(default=False, kw_only=True)
    why: str = attrs.field(default="", kw_only=True)
    is_run: bool = attrs.field(default=True, kw_only=True)


def _grouped(aggregates, keys="b"):
    return f"SELECT {keys}, {aggregates} FROM MyTable GROUP BY {keys}"


def _over(aggregates, columns="a, b", window="ORDER BY ts", source="MyTable"):
    return f"SELECT {columns}, {aggregates} FROM {source} WINDOW w AS (PARTITION BY a {window})"


def _first(order, columns="a, b, c", keys="a"):
    return f"SELECT {columns} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {keys} ORDER BY {order}) AS n FROM MyTable) WHERE n = 1"


def _top(columns="a, b, c", n=3, order="b DESC", keys="a", source="MyTable"):
    return f"SELECT {columns} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {keys} ORDER BY {order}) AS n FROM {source}) WHERE n <= {n}"


def _tumbled(aggregates, keys="a", size=DAY):
    return f"SELECT {aggregates} FROM TABLE(TUMBLE(TABLE MyTable, DESCRIPTOR(ts), {size})) GROUP BY window_start, window_end, {keys}"


def _legacy(aggregates, keys="a", size=DAY):
    return f"SELECT {aggregates} FROM MyTable GROUP BY TUMBLE(ts, {size}), {keys}"


JOIN = "SELECT {} FROM MyTable m JOIN Other o ON {}"
INTERVALS = "SELECT m.a, m.c, o.z FROM MyTable m JOIN Other o ON m.a = o.x AND m.ts BETWEEN o.ts2 - INTERVAL '{}' HOUR AND o.ts2"

VERSIONED = "SELECT {} FROM MyTable m JOIN Versions FOR SYSTEM_TIME AS OF m.ts AS o ON m.a = o.x"
RATES = "CREATE TABLE Rates (x INT, y BIGINT, z VARCHAR, t TIMESTAMP(3), p AS PROCTIME()) WITH ('connector'='filesystem','path'='@INPUT@/Versions','format'='csv','source.monitor-interval'='1 s','csv.null-literal'='');\nVERSIONS Rate OF Rates BY p, x;\nSELECT {} FROM MyTable m, LATERAL TABLE(Rate(m.proctime)) AS o WHERE m.a = o.x"
WINDOWS = f"SELECT {{}} FROM (SELECT * FROM TABLE(TUMBLE(TABLE MyTable, DESCRIPTOR(ts), {DAY}))) m JOIN (SELECT * FROM TABLE(TUMBLE(TABLE Other, DESCRIPTOR(ts2), {DAY}))) o ON m.a = o.x AND m.window_start = o.window_start AND m.window_end = o.window_end"
WINDOW_LAST = f"SELECT {{}} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, a ORDER BY ts DESC) AS n FROM TABLE(TUMBLE(TABLE MyTable, DESCRIPTOR(ts), {DAY}))) WHERE n = 1"
SUMS_OF = "(SELECT a, b, {} FROM MyTable GROUP BY a, b)"
ROWS_BEFORE = "ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW"
RANGE_BEFORE = "ORDER BY ts RANGE BETWEEN INTERVAL '9' HOUR PRECEDING AND CURRENT ROW"
PICKED = "(SELECT {}, ts, proctime FROM MyTable WHERE d IS NOT NULL)"
SINKS = "CREATE TABLE Sums ({}) WITH ('connector'='{}');\nCREATE {}TABLE Counts (a INT, n BIGINT) WITH ('connector'='blackhole');\n"
BOTH = "STATEMENT SET BEGIN INSERT INTO Sums SELECT b, SUM(a) FROM MyTable GROUP BY b; INSERT INTO Counts SELECT a, COUNT(*) FROM MyTable GROUP BY a; END"
INTO_ONE = "INSERT INTO Sums SELECT b, SUM(a) FROM MyTable GROUP BY b"
LOOKED_UP = "CREATE TABLE Dim (id INT, name STRING) WITH ('connector'='looked-up');\nSELECT {} FROM (SELECT a, COUNT(*) AS n, PROCTIME() AS p FROM MyTable GROUP BY a) m {}JOIN Dim FOR SYSTEM_TIME AS OF m.p AS d ON m.a = d.id"
FUNCTION = "CREATE TEMPORARY SYSTEM FUNCTION Times AS 'fx.Sql$Twice';\n"
CHANGED = "CREATE TABLE Changed (id INT{}, v INT, c VARCHAR{}) WITH ('connector'='filesystem','path'='@INPUT@/Changed','format'='debezium-json','source.monitor-interval'='1 s');\nCREATE TABLE ById (id INT, v INT, c VARCHAR, PRIMARY KEY ({}) NOT ENFORCED) WITH ('connector'='blackhole');\nINSERT INTO ById SELECT id, v, c FROM Changed{}"
NESTED = "CREATE TABLE Nested (id INT NOT NULL, c VARCHAR, e ARRAY<ROW<p INT>>, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem','path'='@INPUT@/Changed','format'='debezium-json','source.monitor-interval'='1 s');\nSELECT {} FROM MyTable m JOIN Nested o ON m.a = o.id"
LONG_INTERVALS = INTERVALS.format(40).replace("HOUR", "DAY")

WINDOW_TOP = f"SELECT {{}} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY b DESC) AS {{}} FROM TABLE(TUMBLE(TABLE MyTable, DESCRIPTOR(ts), {DAY}))) WHERE n <= 3"
MATCHED = "SELECT x FROM MyTable MATCH_RECOGNIZE (PARTITION BY a ORDER BY ts MEASURES A.b AS x AFTER MATCH SKIP PAST LAST ROW PATTERN ({}) DEFINE A AS A.d = 1, B AS B.d = 2)"
RETRACTED = "SELECT s, {} FROM (SELECT a, COUNT(*) AS s, SUM(d) AS m FROM MyTable GROUP BY a) GROUP BY s"
SUMS = "(SELECT a, SUM(b) AS s, MIN(c) AS m FROM MyTable GROUP BY a) x"
OF_AGGREGATES = f"SELECT {{}} FROM {SUMS} JOIN (SELECT x AS a, COUNT(*) AS n FROM Other GROUP BY x) y ON x.a = y.a"
ON_OTHER_KEY = f"SELECT {{}} FROM {SUMS} JOIN Other o ON x.s = o.y"
LEFT = "SELECT {} FROM MyTable m LEFT JOIN Other o ON m.a = o.x"
COUNTED = "SELECT {} FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY n DESC) AS r FROM (SELECT c, COUNT(*) AS n, MAX(d) AS m FROM MyTable GROUP BY c)) WHERE r <= 3"
SELF = "SELECT {} FROM MyTable m JOIN MyTable n ON m.a = n.d"
OF_SUMS = "SELECT s, {} FROM (SELECT a, COUNT(*) AS s, SUM(b) AS m FROM MyTable GROUP BY a) GROUP BY s"
SESSIONS = "SELECT a, SUM(b) FROM MyTable GROUP BY SESSION(ts, INTERVAL '1' DAY), a"
OF_THIRD = "SELECT m.a, m.c, t.k, t.w FROM MyTable m {} Third t ON m.a = t.{}"
GREATEST = "(SELECT a, b, MAX(c) AS c FROM MyTable GROUP BY a, b)"
MOST = "SELECT c, n FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY n DESC) AS r FROM (SELECT c, COUNT(*) AS n FROM MyTable GROUP BY c)) WHERE r <= {}"


def _hinted(query, **kept):
    told = ", ".join(f"'{table}' = '{time}'" for table, time in kept.items())
    return query.replace("SELECT", f"SELECT /*+ STATE_TTL({told}) */", 1)


def _same(row, query, tables, **more):
    return Upgrade(row, query, query, "migrate", "", tables=tables, **more)


def _rekeyed(row, query, becomes="", **more):
    return Upgrade(row, query, becomes or query, "migrate", "", given="--repartition", **more)


UPGRADES = [
    Upgrade(
        "A0",
        "SELECT b, SUM(a) AS s FROM MyTable GROUP BY b",
        "SELECT b, SUM(a) AS total FROM MyTable GROUP BY b",
        "start",
        "full",
    ),
    Upgrade("GA2", _grouped("SUM(a), MAX(c)"), _grouped("SUM(a)"), "migrate", "full"),
    Upgrade("GA3", _grouped("SUM(a), MAX(c)"), _grouped("SUM(a), MIN(c)"), "partial", "partial"),
    Upgrade("GA4", _grouped("SUM(a), MAX(c)"), _grouped("SUM(a), MIN(c)"), "partial", "partial"),
    Upgrade("GA6", _grouped("SUM(a), MAX(c)"), _grouped("SUM(a), MAX(SUBSTRING(c, 1, 5))"), "partial", "partial"),
    Upgrade("GA7", _grouped("SUM(a)", "b"), _grouped("SUM(a)", "b, d"), "refuse", "none"),
    Upgrade("GA7b", _grouped("SUM(a)", "b, d"), _grouped("SUM(a)", "b"), "refuse", "none"),
    Upgrade("GA7c", _grouped("SUM(a)", "b"), "SELECT b + 1, SUM(a) FROM MyTable GROUP BY b + 1", "refuse", "none"),
    Upgrade("GA10", _grouped("SUM(a)"), _grouped("MIN(a)"), "refuse", "none"),
    Upgrade("OV4", _over("MAX(d) OVER w, SUM(d) OVER w"), _over("MIN(d) OVER w, SUM(d) OVER w"), "partial", "partial"),
    Upgrade("OV4b", _over("MAX(d) OVER w"), _over("MIN(d) OVER w"), "refuse", ""),
    Upgrade("OV5", _over("MAX(d) OVER w, SUM(d) OVER w"), _over("SUM(d) OVER w, MAX(d) OVER w"), "migrate", "full"),
    Upgrade("OV6", _over("MAX(d) OVER w"), _over("MAX(d) OVER w", "a, b, c"), "start", "none"),
    Upgrade("GW2", _legacy("a, SUM(b), MAX(c)"), _legacy("a, SUM(b)"), "migrate", "full"),
    Upgrade("GW5", _legacy("a, SUM(b), MAX(c)"), _legacy("a, MAX(c), SUM(b)"), "migrate", "full"),
    Upgrade("GW6", _legacy("a, SUM(b), MAX(c)"), _legacy("a, SUM(b), MAX(SUBSTRING(c, 1, 5))"), "partial", "partial"),
    Upgrade("GW7", _legacy("a, SUM(b)"), _legacy(f"a, SUM(b), TUMBLE_START(ts, {DAY})"), "migrate", "full"),
    Upgrade("GW9", _legacy("a, SUM(b)"), _legacy("a, SUM(b)", size="INTERVAL '2' DAY"), "refuse", "none"),
    Upgrade("GW10", _legacy("a, SUM(b)"), _legacy("a, d, SUM(b)", "a, d"), "refuse", "none"),
    Upgrade("GW11", _legacy("a, SUM(b)"), _legacy("a, SUM(b), COUNT(DISTINCT c)"), "refuse", "none"),
    Upgrade("TV1", _tumbled("a, SUM(b)"), _tumbled("a, SUM(b), MAX(c)"), "partial", "partial"),
    Upgrade("TV3", _tumbled("a, SUM(b), MAX(c)"), _tumbled("a, SUM(b), MIN(c)"), "partial", "partial"),
    Upgrade("TV5", _tumbled("a, SUM(b), MAX(c)"), _tumbled("a, MAX(c), SUM(b)"), "migrate", "full"),
    Upgrade("TV6", _tumbled("a, SUM(b), MAX(c)"), _tumbled("a, SUM(b), MAX(SUBSTRING(c, 1, 5))"), "partial", "partial"),
    Upgrade("TV7", _tumbled("a, SUM(b)"), _tumbled("a, SUM(b), window_start"), "start", "full"),
    Upgrade("TV8", _tumbled("a, window_start"), _tumbled("a, window_end"), "start", "full"),
    Upgrade("TV10", _tumbled("a, SUM(b)"), _tumbled("a, SUM(b)", size="INTERVAL '2' DAY"), "refuse", "none"),
    Upgrade("TV11", _tumbled("a, SUM(b)"), _tumbled("a, d, SUM(b)", "a, d"), "refuse", "none"),
    Upgrade(
        "TV12",
        _tumbled("a, d, SUM(b)", "a, d"),
        _tumbled("d, a, SUM(b)", "d, a"),
        "migrate",
        "none",
        given="--repartition",
    ),
    Upgrade("TV14", _tumbled("a, SUM(b)"), _tumbled("a, window_start"), "refuse", "none"),
    Upgrade("TV18", _tumbled("a, SUM(b)"), _tumbled("a + 1, SUM(b)", "a + 1"), "refuse", "none"),
    Upgrade("DD1", _first("proctime ASC"), _first("proctime ASC", "a, b, d"), "start", "full"),
    Upgrade("DD2", _first("proctime DESC"), _first("proctime DESC", "a, b, d"), "migrate", "none"),
    Upgrade("DD4", _first("proctime DESC", "a, b, c"), _first("proctime DESC", "a, b + 1, c"), "start", "full"),
    Upgrade("DD7", _first("proctime ASC"), _first("proctime DESC"), "refuse", "none"),
    Upgrade("DD7b", _first("proctime DESC"), _first("ts DESC"), "refuse", "none"),
    Upgrade("TN4", _top(), _top(keys="a, d"), "refuse", "none"),
    Upgrade("TN5", _top(), _top(order="b ASC"), "refuse", "none"),
    Upgrade("TN6", _top(), _top(n=5), "refuse", "none"),
    Upgrade("TN7", _top(), _top("a, b, d"), "migrate", "none"),
    Upgrade("TN7b", _top(), _top("a, b"), "migrate", "none"),
    Upgrade(
        "J2", JOIN.format("m.a, m.c, o.z", "m.a = o.x"), JOIN.format("m.a, m.c, o.z", "m.b = o.y"), "refuse", "none"
    ),
    Upgrade(
        "J2b",
        JOIN.format("m.a, m.c, o.z", "m.a = o.x"),
        JOIN.format("m.a, m.c, o.z", "m.a = o.x AND m.b > o.y"),
        "refuse",
        "none",
    ),
    Upgrade(
        "J3",
        JOIN.format("m.a, m.c, o.z", "m.a = o.x"),
        JOIN.format("m.a, m.c, o.z, m.d", "m.a = o.x"),
        "migrate",
        "none",
    ),
    Upgrade(
        "J3b",
        JOIN.format("m.a, m.c, m.d, o.z", "m.a = o.x"),
        JOIN.format("m.a, m.c, o.z", "m.a = o.x"),
        "migrate",
        "none",
    ),
    Upgrade(
        "J3c",
        JOIN.format("m.a, m.c, o.z", "m.a = o.x"),
        JOIN.format("m.a, m.c, o.z", "m.a = o.x").replace(" JOIN", " LEFT JOIN"),
        "refuse",
        "none",
    ),
    Upgrade("J6", INTERVALS.format(4), INTERVALS.format(2), "refuse", "none"),
    Upgrade("J8", INTERVALS.format(4), INTERVALS.format(4) + " AND m.d > 1", "refuse", "full"),
    Upgrade("W1", _grouped("SUM(a)"), "SELECT b, SUM(a) FROM MyTable WHERE d > 1 GROUP BY b", "refuse", "none"),
    Upgrade(
        "W1b",
        "SELECT b, SUM(a) FROM MyTable WHERE d > 1 GROUP BY b",
        "SELECT b, SUM(a) FROM MyTable WHERE d > 2 GROUP BY b",
        "refuse",
        "none",
    ),
    Upgrade(
        "U1",
        "SELECT k, SUM(v) FROM (SELECT a AS k, b AS v FROM MyTable UNION ALL SELECT x, y FROM Other) GROUP BY k",
        "SELECT k, SUM(v) FROM (SELECT x AS k, y AS v FROM Other UNION ALL SELECT a, b FROM MyTable) GROUP BY k",
        "migrate",
        "full",
    ),
    Upgrade(
        "TS3", "SELECT a, b FROM MyTable ORDER BY ts", "SELECT a, b, c FROM MyTable ORDER BY ts", "migrate", "none"
    ),
    Upgrade(
        "TS4", "SELECT a, b, d FROM MyTable ORDER BY ts", "SELECT a, b, d FROM MyTable ORDER BY ts, d", "refuse", "none"
    ),
    Upgrade("L1", "SELECT a, b FROM MyTable LIMIT 10", "SELECT a, b FROM MyTable LIMIT 20", "refuse", "none"),
    Upgrade(
        "S1",
        _grouped("SUM(a)"),
        _grouped("SUM(a)"),
        "start",
        "full",
        tables={"MyTable": f"a INT, b BIGINT, c VARCHAR, d INT, e AS d + 1, {TIMED}"},
    ),
    Upgrade(
        "S9",
        _grouped("SUM(a)"),
        _grouped("SUM(a)"),
        "refuse",
        "none",
        tables={"MyTable": f"a INT, b BIGINT NOT NULL, c VARCHAR, d INT, {TIMED}"},
    ),
    Upgrade(
        "S9b",
        JOIN.format("m.a, m.c, o.z", "m.a = o.x"),
        JOIN.format("m.a, m.c, o.z", "m.a = o.x"),
        "refuse",
        "none",
        tables={
            "Other": "x INT, y BIGINT, z VARCHAR(20), ts2 TIMESTAMP(3), WATERMARK FOR ts2 AS ts2 - INTERVAL '1' SECOND"
        },
    ),
    Upgrade(
        "S9c",
        JOIN.format("m.a, m.c, m.d, o.z", "m.a = o.x"),
        JOIN.format("m.a, m.c, m.d, o.z", "m.a = o.x"),
        "migrate",
        "none",
        tables={"MyTable": f"a INT, b BIGINT, c VARCHAR, d BIGINT, {TIMED}"},
    ),
    Upgrade("O4", "SELECT b, a FROM MyTable", _grouped("SUM(a)"), "refuse", "none"),
    Upgrade("S3", _grouped("SUM(a), MAX(b)", "c"), _grouped("SUM(a), MAX(d + 1)", "c"), "partial", "partial"),
    Upgrade(
        "S5",
        JOIN.format("m.a, m.c, o.z", "m.a = o.x"),
        JOIN.format("m.a, m.c, o.z", "m.a = o.x"),
        "migrate",
        "conditional",
        tables={"Other": f"{TABLES['Other']}, PRIMARY KEY (x) NOT ENFORCED"},
        collides=True,
    ),
    Upgrade(
        "S8",
        _grouped("SUM(a)"),
        _grouped("SUM(a)").replace("MyTable", "Renamed"),
        "refuse",
        "none",
        tables={"Renamed": TABLES["MyTable"]},
    ),
    Upgrade("WN1", WINDOW_TOP.format("a, b", "n"), WINDOW_TOP.format("a, b, window_start", "n"), "start", "full"),
    Upgrade("WN2", WINDOW_TOP.format("a, b", "n"), WINDOW_TOP.format("a, b, n", "n"), "start", "full"),
    Upgrade(
        "J9",
        VERSIONED.format("m.a, o.z"),
        VERSIONED.format("m.a, o.z").replace(" JOIN", " LEFT JOIN"),
        "refuse",
        "none",
    ),
    Upgrade("J9b", VERSIONED.format("m.a, o.z"), VERSIONED.format("m.a, o.z") + " AND m.b > o.y", "refuse", "none"),
    Upgrade("J9c", VERSIONED.format("m.a, m.c, o.z"), VERSIONED.format("m.a, m.c, m.d, o.z"), "migrate", "none"),
    Upgrade("J9d", VERSIONED.format("m.a, m.c, o.z, o.y"), VERSIONED.format("m.a, o.z"), "migrate", "none"),
    Upgrade("J10", LOOKED_UP.format("m.a, m.n, d.name", ""), LOOKED_UP.format("m.a, m.n", "LEFT "), "start", "full"),
    Upgrade(
        "K1",
        SINKS.format("b BIGINT, n INT", "blackhole", "") + BOTH,
        SINKS.format("b BIGINT, n INT", "blackhole", "") + INTO_ONE,
        "migrate",
        "full",
    ),
    Upgrade(
        "K3",
        SINKS.format("b BIGINT, n INT", "blackhole", "") + INTO_ONE,
        SINKS.format("b BIGINT, n INT", "print", "") + INTO_ONE,
        "start",
        "full",
    ),
    Upgrade(
        "K3b",
        SINKS.format("b BIGINT, n INT", "blackhole", "") + INTO_ONE,
        (SINKS.format("b BIGINT, n INT", "blackhole", "") + INTO_ONE).replace(" Sums ", " Renamed "),
        "start",
        "full",
    ),
    Upgrade(
        "K5",
        CHANGED.format(" NOT NULL", ", PRIMARY KEY (id) NOT ENFORCED", "id", ""),
        CHANGED.format("", "", "id", " ON CONFLICT DO DEDUPLICATE"),
        "refuse",
        "conditional",
    ),
    Upgrade(
        "K5b",
        CHANGED.format(" NOT NULL", ", PRIMARY KEY (id) NOT ENFORCED", "v", " ON CONFLICT DO DEDUPLICATE"),
        CHANGED.format(" NOT NULL", "", "v", " ON CONFLICT DO DEDUPLICATE"),
        "start",
        "",
    ),
    Upgrade(
        "O2",
        FUNCTION + _grouped("SUM(Times(d))"),
        FUNCTION + _grouped("SUM(Times(d))"),
        "start",
        "unknown",
        is_run=False,
    ),
    Upgrade(
        "O5",
        SINKS.format("b BIGINT, n INT", "blackhole", "TEMPORARY ") + BOTH,
        SINKS.format("b BIGINT, n INT", "blackhole", "TEMPORARY ").replace("n BIGINT", "n BIGINT NOT NULL") + INTO_ONE,
        "migrate",
        "unknown",
        is_run=False,
    ),
    Upgrade("CEP1", MATCHED.format("A B"), MATCHED.format("A B+"), "refuse", "none"),
    # Changes that the published table does not have.
    Upgrade("X1", _grouped("COUNT(DISTINCT c), SUM(a)"), _grouped("SUM(a), COUNT(DISTINCT c)"), "migrate", ""),
    Upgrade("X2", _grouped("COUNT(DISTINCT c), SUM(a)"), _grouped("SUM(a)"), "migrate", ""),
    Upgrade("X3", _grouped("SUM(a)"), _grouped("SUM(a), COUNT(DISTINCT c)"), "refuse", ""),
    Upgrade("X4", _grouped("COUNT(DISTINCT c), COUNT(DISTINCT d)"), _grouped("COUNT(DISTINCT d)"), "migrate", ""),
    Upgrade("X5", RETRACTED.format("COUNT(*), MAX(m), SUM(m)"), RETRACTED.format("SUM(m), MAX(m)"), "migrate", ""),
    Upgrade("X6", RETRACTED.format("SUM(m)"), RETRACTED.format("SUM(m), COUNT(*)"), "start", ""),
    Upgrade("X7", RETRACTED.format("SUM(m)"), RETRACTED.format("SUM(m), MIN(m)"), "refuse", ""),
    Upgrade("X8", OF_AGGREGATES.format("x.a, x.s, x.m, y.n"), OF_AGGREGATES.format("x.a, x.m, y.n"), "migrate", ""),
    Upgrade("X9", OF_AGGREGATES.format("x.a, x.s, y.n"), OF_AGGREGATES.format("x.a, x.s, x.m, y.n"), "partial", ""),
    Upgrade("X10", ON_OTHER_KEY.format("x.a, x.s, x.m, o.z"), ON_OTHER_KEY.format("x.a, x.s, o.z"), "migrate", ""),
    Upgrade("X11", LEFT.format("m.a, m.c, m.d, o.z"), LEFT.format("m.a, m.d, o.z"), "migrate", ""),
    Upgrade("X12", LEFT.format("m.a, m.d, o.z"), LEFT.format("m.a, m.d, o.z, o.y"), "migrate", ""),
    Upgrade(
        "X13",
        "SELECT a, c, d FROM MyTable WHERE a IN (SELECT x FROM Other)",
        "SELECT a, c FROM MyTable WHERE a IN (SELECT x FROM Other)",
        "migrate",
        "",
    ),
    Upgrade("X14", _first("ts ASC"), _first("ts ASC", "a, b, d"), "migrate", ""),
    Upgrade("X15", _first("ts DESC"), _first("ts DESC", "a, b"), "migrate", ""),
    _rekeyed("X16", _grouped("SUM(d)", "a"), tables=WIDE),
    Upgrade(
        "X17",
        _grouped("SUM(d), MAX(c)", "b"),
        _grouped("SUM(d), MAX(c)", "b"),
        "migrate",
        "",
        tables={"MyTable": f"a INT, b BIGINT, c VARCHAR, d BIGINT, {TIMED}"},
    ),
    Upgrade("X18", SELF.format("m.c, n.d"), SELF.format("n.d, m.c"), "start", ""),
    Upgrade(
        "X19",
        _top("a, b, c", source="(SELECT a, b, MAX(c) AS c FROM MyTable GROUP BY a, b)"),
        _top("a, b, c", source="(SELECT a, b, MAX(c) AS c FROM MyTable GROUP BY a, b)"),
        "start",
        "",
    ),
    Upgrade(
        "X20",
        _grouped("SUM(a) FILTER (WHERE d > 1), SUM(a)"),
        _grouped("SUM(a), SUM(a) FILTER (WHERE d > 1)"),
        "migrate",
        "",
    ),
    Upgrade(
        "X21",
        _grouped("LAST_VALUE(c), AVG(a), LISTAGG(c)"),
        _grouped("AVG(a), LISTAGG(c), LAST_VALUE(c)"),
        "migrate",
        "",
    ),
    Upgrade(
        "X22",
        _over("MAX(d) OVER w"),
        _over("MAX(d) OVER w"),
        "migrate",
        "",
        tables={"MyTable": f"a INT, b BIGINT, c VARCHAR, d BIGINT, {TIMED}"},
    ),
    Upgrade("X23", _top("a, b, c", n=1), _top("a, b", n=1), "migrate", ""),
    Upgrade("X24", COUNTED.format("c, n, m"), COUNTED.format("c, n"), "migrate", ""),
    Upgrade("X25", INTERVALS.format(4), INTERVALS.format(4).replace("o.z", "UPPER(o.z)"), "start", ""),
    Upgrade(
        "X26",
        _grouped("COUNT(DISTINCT d), SUM(a)", "b"),
        _grouped("COUNT(DISTINCT d), SUM(a)", "b"),
        "refuse",
        "",
        tables={"MyTable": f"a INT, b BIGINT, c VARCHAR, d BIGINT, {TIMED}"},
    ),
    Upgrade(
        "X27",
        RETRACTED.format("MAX(m)"),
        RETRACTED.format("MAX(m)"),
        "refuse",
        "",
        tables={"MyTable": f"a INT, b BIGINT, c VARCHAR, d BIGINT, {TIMED}"},
    ),
    Upgrade(
        "X28",
        RETRACTED.format("SUM(m)"),
        RETRACTED.format("SUM(m)"),
        "migrate",
        "",
        tables={"MyTable": f"a INT, b BIGINT, c VARCHAR, d BIGINT, {TIMED}"},
    ),
    # Keys become wider, or have another order.
    _rekeyed("KW1", JOIN.format("m.a, m.c, o.z", "m.a = o.x"), tables=WIDER),
    _rekeyed("KW2", JOIN.format("m.a, m.c, o.z", "m.a = o.x"), tables=WIDE),
    _rekeyed("KW3", LEFT.format("m.a, m.c, o.z"), tables=WIDER),
    _rekeyed("KW4", _tumbled("a, SUM(b)"), tables=WIDE),
    _rekeyed("KW5", SESSIONS, tables=WIDE),
    _rekeyed("KW6", _first("ts ASC"), tables=WIDE),
    _rekeyed("KW7", _first("ts DESC"), tables=WIDE),
    _rekeyed("KW8", _top(), tables=WIDE),
    _rekeyed("KW9", _grouped("COUNT(DISTINCT c), SUM(d)", "a"), tables=WIDE),
    _rekeyed("KW10", RETRACTED.format("SUM(m)"), tables=WIDE),
    _rekeyed("KW11", _grouped("SUM(a)", "b, d"), _grouped("SUM(a)", "d, b")),
    _rekeyed(
        "KW12",
        JOIN.format("m.a, m.c, o.z", "m.a = o.x AND m.c = o.z"),
        JOIN.format("m.a, m.c, o.z", "m.c = o.z AND m.a = o.x"),
    ),
    _rekeyed("KW13", _grouped("SUM(d)", "a"), _grouped("SUM(d)", "CAST(a AS BIGINT)")),
    _rekeyed("KW14", LONG_INTERVALS, tables=WIDER),
    _rekeyed("KW15", WINDOWS.format("m.a, m.c, o.z"), tables=WIDER),
    _rekeyed("KW16", WINDOW_LAST.format("a, b, c"), tables=WIDE),
    _rekeyed("KW17", _over("COUNT(b) OVER w", window=ROWS_BEFORE), tables=WIDE),
    _rekeyed("KW18", _over("COUNT(b) OVER w", window="ORDER BY b"), tables=WIDE),
    _rekeyed(
        "KW19",
        VERSIONED.format("m.a, o.z"),
        tables=WIDE | {"Versions": TABLES["Versions"].replace("x INT", "x BIGINT")},
    ),
    _rekeyed("KW20", _top("a, s", order="s", source=SUMS_OF.format("SUM(d) AS s")), tables=WIDE),
    # Rows of a side of a join get or lose a unique key.
    _same("UK1", OF_THIRD.format("JOIN", "k"), UNIQUE),
    _same("UK2", OF_THIRD.format("JOIN", "g"), UNIQUE),
    _same("UK3", OF_THIRD.format("RIGHT JOIN", "g"), UNIQUE),
    _same("UK4", OF_THIRD.format("RIGHT JOIN", "k"), UNIQUE),
    _same("UK5", OF_THIRD.format("JOIN", "k"), {}, were=UNIQUE),
    _same("UK6", OF_THIRD.format("JOIN", "g"), {}, were=UNIQUE),
    _same("UK7", OF_THIRD.format("RIGHT JOIN", "g"), {}, were=UNIQUE),
    _same("UK8", OF_THIRD.format("RIGHT JOIN", "k"), {}, were=UNIQUE),
    _same("UK9", "SELECT m.a, m.c, t.k, t.w FROM Third t JOIN MyTable m ON m.a = t.k", UNIQUE, given="--repartition"),
    Upgrade("UK10", ON_OTHER_KEY.format("x.a, x.s, x.m, o.z"), ON_OTHER_KEY.format("x.s, x.m, o.z"), "migrate", ""),
    # A Top-N keeps fewer rows.
    Upgrade("LN1", _top(n=5), _top(n=3), "migrate", "", given="--allow-stale"),
    Upgrade("LN2", _top("a, b, c, n", n=5), _top("a, b, c, n", n=3), "migrate", "", given="--allow-stale"),
    Upgrade("LN3", _top(n=5, source=GREATEST), _top(n=3, source=GREATEST), "migrate", "", given="--allow-stale"),
    Upgrade("LN4", MOST.format(4), MOST.format(3), "migrate", "", given="--allow-stale"),
    Upgrade("LN5", _top(), _top(n=1), "refuse", ""),
    Upgrade(
        "LN6",
        _grouped("COUNT(*)", "b").replace("MyTable", f"({_top(n=5)})"),
        _grouped("COUNT(*)", "b").replace("MyTable", f"({_top(n=3)})"),
        "refuse",
        "",
    ),
    Upgrade("IJ1", LONG_INTERVALS, LONG_INTERVALS.replace("m.c,", "m.c, m.d,"), "migrate", ""),
    Upgrade(
        "IJ2",
        LONG_INTERVALS.replace("m.c,", "m.c, m.d,").replace(" JOIN", " LEFT JOIN"),
        LONG_INTERVALS.replace("m.c,", "m.d,").replace(" JOIN", " LEFT JOIN"),
        "migrate",
        "",
    ),
    Upgrade(
        "IJ3",
        LONG_INTERVALS.replace("m.c,", "m.d,"),
        LONG_INTERVALS.replace("m.c,", "m.d,"),
        "migrate",
        "",
        tables=WIDE_D,
    ),
    Upgrade(
        "IJ4",
        INTERVALS.format(9),
        INTERVALS.format(9).replace("m.ts", "m.proctime"),
        "refuse",
        "",
    ),
    Upgrade("WJ1", WINDOWS.format("m.a, m.c, o.z"), WINDOWS.format("m.a, m.c, m.d, o.z"), "migrate", ""),
    Upgrade(
        "WJ2",
        WINDOWS.format("m.a, m.c, m.d, o.z").replace(" JOIN", " LEFT JOIN"),
        WINDOWS.format("m.a, m.d").replace(" JOIN", " LEFT JOIN"),
        "migrate",
        "",
        tables=WIDE_D,
    ),
    Upgrade(
        "WJ3",
        WINDOWS.format("m.a, m.c, o.z"),
        WINDOWS.format("m.a, m.c, o.z").replace(" JOIN", " LEFT JOIN"),
        "refuse",
        "",
    ),
    Upgrade(
        "WJ4",
        WINDOWS.format("m.a, m.c, o.z"),
        WINDOWS.format("m.a, m.c, o.z").replace("'1' DAY", "'2' DAY"),
        "refuse",
        "",
    ),
    Upgrade("WR1", WINDOW_TOP.format("a, b", "n"), WINDOW_TOP.format("a, b, c", "n"), "migrate", ""),
    Upgrade("WR2", WINDOW_TOP.format("a, b, c, d", "n"), WINDOW_TOP.format("b, d", "n"), "migrate", "", tables=WIDE_D),
    Upgrade(
        "WR3", WINDOW_TOP.format("a, b", "n"), WINDOW_TOP.format("a, b", "n").replace("<= 3", "<= 2"), "refuse", ""
    ),
    Upgrade("WD1", WINDOW_LAST.format("a, b, c"), WINDOW_LAST.format("a, b, c, d"), "migrate", ""),
    Upgrade("WD2", WINDOW_LAST.format("a, b, c, d"), WINDOW_LAST.format("d, a, c"), "migrate", "", tables=WIDE_D),
    Upgrade(
        "WD3", WINDOW_LAST.format("a, b, c"), WINDOW_LAST.format("a, b, c").replace("ts DESC", "ts ASC"), "refuse", ""
    ),
    Upgrade(
        "OV7",
        _over("MAX(d) OVER w, COUNT(b) OVER w", window=ROWS_BEFORE),
        _over("COUNT(b) OVER w, MAX(d) OVER w", window=ROWS_BEFORE),
        "migrate",
        "",
    ),
    Upgrade(
        "OV8",
        _over("MAX(d) OVER w, SUM(b) OVER w", window=RANGE_BEFORE),
        _over("SUM(b) OVER w", window=RANGE_BEFORE),
        "migrate",
        "",
    ),
    Upgrade(
        "OV9",
        _over("COUNT(b) OVER w", window=ROWS_BEFORE),
        _over("COUNT(b) OVER w, SUM(d) OVER w", window=ROWS_BEFORE),
        "refuse",
        "",
    ),
    Upgrade(
        "OV10",
        _over("COUNT(b) OVER w, MAX(d) OVER w", window="ORDER BY proctime"),
        _over("MAX(d) OVER w, SUM(b) OVER w, COUNT(b) OVER w", window="ORDER BY proctime"),
        "partial",
        "",
    ),
    Upgrade(
        "OV11",
        _over("SUM(d) OVER w", "a, b, c", source=PICKED.format("a, b, c, d")),
        _over("SUM(d) OVER w", "a, c", source=PICKED.format("a, c, d")),
        "migrate",
        "",
    ),
    Upgrade(
        "OV12",
        _over("COUNT(d) OVER w", "a, c", ROWS_BEFORE, PICKED.format("a, c, d")),
        _over("COUNT(d) OVER w", "a, b, c", ROWS_BEFORE, PICKED.format("a, b, c, d")),
        "migrate",
        "",
        tables=WIDE_D,
    ),
    Upgrade(
        "OV13",
        _over("COUNT(b) OVER w, MAX(d) OVER w", window="ORDER BY proctime ROWS BETWEEN 3 PRECEDING AND CURRENT ROW"),
        _over("MAX(d) OVER w, COUNT(b) OVER w", window="ORDER BY proctime ROWS BETWEEN 3 PRECEDING AND CURRENT ROW"),
        "migrate",
        "",
    ),
    Upgrade(
        "OV14",
        _over("COUNT(b) OVER w, MAX(d) OVER w", window="ORDER BY b"),
        _over("MAX(d) OVER w, COUNT(b) OVER w", window="ORDER BY b"),
        "migrate",
        "",
    ),
    Upgrade(
        "OV15",
        _over("COUNT(b) OVER w, MAX(d) OVER w", window="ORDER BY b ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"),
        _over("MAX(d) OVER w", window="ORDER BY b ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"),
        "migrate",
        "",
    ),
    Upgrade(
        "OV16",
        _over("COUNT(b) OVER w", window="ORDER BY b"),
        _over("COUNT(b) OVER w, SUM(b) OVER w", window="ORDER BY b"),
        "refuse",
        "",
    ),
    Upgrade("OV19", _over("MAX(d) OVER w, SUM(b) OVER w"), _over("MAX(d) OVER w"), "migrate", ""),
    Upgrade("OV17", _over("COUNT(b) OVER w"), _over("COUNT(b) OVER w", window=ROWS_BEFORE), "refuse", ""),
    Upgrade(
        "OV18",
        _over(
            "COUNT(b) OVER w, MAX(d) OVER w",
            window="ORDER BY proctime RANGE BETWEEN INTERVAL '9' HOUR PRECEDING AND CURRENT ROW",
        ),
        _over(
            "MAX(d) OVER w, COUNT(b) OVER w",
            window="ORDER BY proctime RANGE BETWEEN INTERVAL '9' HOUR PRECEDING AND CURRENT ROW",
        ),
        "migrate",
        "",
    ),
    Upgrade(
        "TJ1",
        VERSIONED.format("m.a, m.c, m.d, o.z"),
        VERSIONED.format("m.d, m.a, o.z, o.y"),
        "migrate",
        "",
        tables=WIDE_D,
    ),
    Upgrade("TJ2", RATES.format("m.a, o.z, o.y"), RATES.format("m.a, o.z"), "migrate", ""),
    Upgrade("TJ3", RATES.format("m.a, o.z"), RATES.format("m.a, m.c, o.z, o.y"), "migrate", ""),
    Upgrade(
        "RR1",
        _top("a, s, m", order="s", source=SUMS_OF.format("SUM(d) AS s, MAX(c) AS m")),
        _top("a, s", order="s", source=SUMS_OF.format("SUM(d) AS s, MAX(c) AS m")),
        "migrate",
        "",
    ),
    Upgrade(
        "RR2",
        _top("a, m, s", order="s", source=SUMS_OF.format("SUM(d) AS s, MAX(c) AS m")),
        _top("a, s, m", order="s", source=SUMS_OF.format("MAX(c) AS m, SUM(d) AS s")),
        "migrate",
        "",
    ),
    Upgrade(
        "RR3",
        _top("a, s", order="s", source=SUMS_OF.format("SUM(d) AS s")),
        _top("a, s, m", order="s", source=SUMS_OF.format("SUM(d) AS s, MAX(c) AS m")),
        "refuse",
        "",
    ),
    Upgrade(
        "RR4",
        _top("a, s", order="s", source=SUMS_OF.format("SUM(d) AS s")),
        _top("a, s", order="s", source=SUMS_OF.format("SUM(d) AS s")),
        "migrate",
        "",
        tables=WIDE_D,
        given="--template",
    ),
    Upgrade(
        "RR6",
        _top("a, m, s", order="s DESC, m", source=SUMS_OF.format("SUM(d) AS s, MAX(c) AS m, COUNT(*) AS k")),
        _top("a, s, m", order="s DESC, m", source=SUMS_OF.format("MAX(c) AS m, SUM(d) AS s")),
        "migrate",
        "",
        tables=WIDE_D,
        given="--template",
    ),
    Upgrade("AR1", NESTED.format("m.b, o.c"), NESTED.format("m.b, o.c, o.e"), "migrate", "", given="--template"),
    Upgrade(
        "RR5",
        _top("a, s", order="s", source=SUMS_OF.format("SUM(d) AS s")),
        _top("a, s", n=2, order="s", source=SUMS_OF.format("SUM(d) AS s")),
        "refuse",
        "",
    ),
    Upgrade(
        "TS5", "SELECT a, b, c FROM MyTable ORDER BY ts, b", "SELECT c, b FROM MyTable ORDER BY ts, b", "migrate", ""
    ),
    # New aggregates that others give.
    Upgrade("BF1", _grouped("SUM(b), COUNT(b)", "c"), _grouped("SUM(b), AVG(b)", "c"), "migrate", ""),
    Upgrade("BF2", _grouped("AVG(b)", "c"), _grouped("SUM(b), COUNT(b), AVG(b)", "c"), "migrate", ""),
    Upgrade("BF3", _grouped("AVG(d), MAX(b)", "c"), _grouped("SUM(d)", "c"), "migrate", ""),
    Upgrade("BF4", OF_SUMS.format("SUM(m)"), OF_SUMS.format("AVG(m), COUNT(m), SUM(m)"), "migrate", ""),
    Upgrade("BF5", _grouped("SUM(d), COUNT(d)", "c"), _grouped("SUM(d), AVG(d)", "c"), "partial", ""),
    Upgrade("BF6", _tumbled("a, AVG(b)"), _tumbled("a, AVG(b), COUNT(b)"), "migrate", ""),
    # State gets, loses or changes its time to live.
    Upgrade("TTL1", _grouped("SUM(a), MAX(c)"), _hinted(_grouped("SUM(a), MAX(c)"), MyTable="1d"), "start", ""),
    Upgrade("TTL2", _hinted(_grouped("SUM(a), MAX(c)"), MyTable="1d"), _grouped("SUM(a)"), "migrate", ""),
    Upgrade("TTL3", _hinted(_grouped("SUM(a)"), MyTable="1d"), _hinted(_grouped("SUM(a)"), MyTable="2d"), "start", ""),
    Upgrade("TTL4", LEFT.format("m.a, m.c, o.z"), _hinted(LEFT.format("m.a, o.z"), m="1d", o="2d"), "migrate", ""),
    Upgrade("TTL5", _hinted(LEFT.format("m.a, m.c, o.z"), m="1d", o="2d"), LEFT.format("m.a, m.c, o.z"), "migrate", ""),
    _same("TTL6", _hinted(OF_THIRD.format("RIGHT JOIN", "g"), m="1d", t="1d"), UNIQUE),
]

NEWEST = Upgrade(
    "NEWEST",
    _hinted(JOIN.format("m.a, m.c, o.z", "m.a = o.x"), m="1d", o="1d"),
    _hinted(JOIN.format("m.a, m.c, o.z", "m.a = o.x"), m="1d", o="1d"),
    "migrate",
    "",
    tables={"Other": f"{TABLES['Other']}, PRIMARY KEY (x) NOT ENFORCED"},
    given="--keep-newest",
)
"""A unique key that stored rows share: `test_sql_upgrades.py` stores them one after the other."""
