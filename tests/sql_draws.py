"""Drawn changes of queries of Flink SQL: one to four changes of columns, aggregates and types at once."""

# ruff: noqa: E501, S311 - each shape stands in one line; queries are drawn, and no secrets

import random

from sql_upgrades import (
    LONG_INTERVALS,
    ROWS_BEFORE,
    SUMS_OF,
    TIMED,
    VERSIONED,
    WINDOW_LAST,
    WINDOWS,
    Upgrade,
    _over,
    _top,
)  # fmt: skip

AGGREGATES = ("COUNT(*)", "SUM(a)", "MAX(c)", "MIN(d)", "AVG(d)", "COUNT(DISTINCT c)", "MIN(c)", "SUM(d)")
OF_SUMS = ("COUNT(*)", "SUM(m)", "MAX(m)", "MIN(s)", "AVG(m)")
COLUMNS = ("m.a", "m.b", "m.c", "m.d", "o.z", "o.y")
KEPT = ("a", "b", "c", "d")
WIDE = {"MyTable": f"a INT, b BIGINT, c VARCHAR, d BIGINT, {TIMED}"}


def changed(draw, chosen, possible, count):
    """Change a list: drop, add, move."""
    found = list(chosen)
    for _ in range(count):
        kind = draw.choice(("drop", "drop", "add", "move"))
        others = [one for one in possible if one not in found]
        if kind == "drop" and len(found) > 1:
            found.remove(draw.choice(found))
        elif kind == "add" and others:
            found.insert(draw.randrange(len(found) + 1), draw.choice(others))
        else:
            draw.shuffle(found)
    return found


SHAPES = {
    "aggregate": (AGGREGATES, "SELECT b, {} FROM MyTable GROUP BY b"),
    "of aggregates": (OF_SUMS, "SELECT s, {} FROM (SELECT a, COUNT(*) AS s, SUM(d) AS m FROM MyTable GROUP BY a) GROUP BY s"),
    "window": (AGGREGATES, "SELECT a, {} FROM TABLE(TUMBLE(TABLE MyTable, DESCRIPTOR(ts), INTERVAL '5' DAY)) GROUP BY window_start, window_end, a"),
    "join": (COLUMNS, "SELECT {} FROM MyTable m JOIN Other o ON m.a = o.x"),
    "left join": (COLUMNS, "SELECT {} FROM MyTable m LEFT JOIN Other o ON m.a = o.x"),
    "first": (KEPT, "SELECT {} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY ts) AS n FROM MyTable) WHERE n = 1"),
    "top": (KEPT, "SELECT {} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC) AS n FROM MyTable) WHERE n <= 3"),
}  # fmt: skip


OVERS = ("MAX(d) OVER w", "COUNT(b) OVER w", "SUM(b) OVER w", "MIN(d) OVER w", "COUNT(c) OVER w")
OF_TIME = {
    "over": (OVERS, _over("{}")),
    "over rows": (OVERS, _over("{}", window=ROWS_BEFORE)),
    "windows": (COLUMNS, WINDOWS),
    "intervals": (COLUMNS, LONG_INTERVALS.replace("m.a, m.c, o.z", "{}")),
    "versions": (COLUMNS, VERSIONED),
    "last of a window": (KEPT, WINDOW_LAST),
    "rank that takes rows back": (("a", "b", "s", "m"), _top("{}", order="s", source=SUMS_OF.format("SUM(d) AS s, MAX(c) AS m"))),
}  # fmt: skip


def drawn(count, shapes=SHAPES, name="D"):
    """Return so many changes; the same ones each time."""
    found = []
    for number in range(count):
        draw = random.Random(f"sql {number}")
        possible, shape = shapes[draw.choice(list(shapes))]
        chosen = draw.sample(possible, draw.randrange(2, 5))
        becomes = changed(draw, chosen, possible, draw.randrange(1, 4))
        tables = WIDE if draw.random() < 0.2 else {}
        queries = (shape.format(", ".join(one)) for one in (chosen, becomes))
        found.append(Upgrade(f"{name}{number}", *queries, "", "", tables=tables))
    return found
