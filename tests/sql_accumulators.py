"""What real Flink keeps for each aggregate of SQL: the queries that tell it, and the table that they make.

`flink-sql/Accumulators.java` says of each query which fields its operator would register, with which it begins, and
which views it has beside them. `table_of` makes patterns of them, in which `{0}` stands for the type of an argument.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter

from stateshift.serializers.snapshot import read_versioned_snapshot
from stateshift.serializers.sql.java_objects import read_java_object
from stateshift.serializers.sql.logical_types import logical_type_of, read_logical_type
from stateshift.serializers.sql.serializers import ExternalSerializerSnapshot
from stateshift.serializers.views import DataInputView

DIGITS = ((1, 0), (5, 2), (10, 0), (10, 2), (18, 4), (19, 0), (20, 6), (30, 4), (38, 0), (38, 10), (38, 38))
NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", *(f"DECIMAL({p},{s})" for p, s in DIGITS))
ARGUMENTS = (
    *NUMBERS, "CHAR(3)", "VARCHAR(10)", "STRING", "BOOLEAN", "DATE", "TIME", "TIMESTAMP(0)", "TIMESTAMP(3)",
    "TIMESTAMP(6)", "TIMESTAMP(9)", "TIMESTAMP_LTZ(3)", "TIMESTAMP_LTZ(6)", "BINARY(4)", "VARBINARY(4)", "BYTES",
    "ARRAY<INT>", "MAP<STRING,INT>", "ROW<a INT,b STRING>",
)  # fmt: skip
CALLS = (
    "SUM(x)", "MIN(x)", "MAX(x)", "AVG(x)", "FIRST_VALUE(x)", "LAST_VALUE(x)", "SINGLE_VALUE(x)", "LISTAGG(x)",
    "LISTAGG(x,';')", "COLLECT(x)", "ARRAY_AGG(x)", "STDDEV_POP(x)", "APPROX_COUNT_DISTINCT(x)", "JSON_ARRAYAGG(x)",
    "JSON_OBJECTAGG(KEY 'a' VALUE x)", "PERCENTILE(x, 0.5)", "COUNT(DISTINCT x)", "SUM(DISTINCT x)",
)  # fmt: skip
QUERY = "SELECT k, COUNT(*), {} FROM t GROUP BY k"
FILTERED = "COUNT(DISTINCT x) FILTER (WHERE k > 1)"
CHANGES = {False: "json", True: "debezium-json"}
ROOTS = {
    "INT": "INTEGER", "STRING": "VARCHAR", "BYTES": "VARBINARY", "TIME": "TIME_WITHOUT_TIME_ZONE",
    "TIMESTAMP": "TIMESTAMP_WITHOUT_TIME_ZONE", "TIMESTAMP_LTZ": "TIMESTAMP_WITH_LOCAL_TIME_ZONE",
}  # fmt: skip
NOT_NULL = " NOT NULL"
KNOWN = {"COUNT": 1, "$SUM0": 1, "$WELFORD_M2$1": 1}
"""How many fields these have, by which those of the others in the same query are told from theirs."""


def queries(arguments=ARGUMENTS):
    """Give the lines that the program reads: name, columns, format, query, and perhaps a way to aggregate."""
    lines = []
    for of, null, changes in itertools.product(arguments, ("", NOT_NULL), CHANGES):
        table = (f"k INT, x {of}{null}", CHANGES[changes])
        lines += [(call, *table, QUERY.format(call)) for call in CALLS]
        lines.append(("COUNT(x)", *table, "SELECT k, COUNT(x) FROM t GROUP BY k"))
        lines.append(("two phases", *table, "SELECT k, COUNT(*), MAX(x) FROM t GROUP BY k", "two"))
        if of in NUMBERS:
            lines.append(("split", *table, "SELECT k, COUNT(DISTINCT x), COUNT(x) FROM t GROUP BY k", "split"))
            lines.append(("two phases", *table, "SELECT k, COUNT(*), AVG(x), SUM(x) FROM t GROUP BY k", "two"))
        if of in NUMBERS and not changes:
            over = "SELECT k, SUM(x) OVER (PARTITION BY k ORDER BY p) FROM t"
            lines.append(("over", f"k INT, x {of}{null}, p AS PROCTIME()", CHANGES[False], over))
    for changes in CHANGES.values():
        for filters in (1, 2, 64, 65):
            many = ", ".join(FILTERED.replace("1", str(number)) for number in range(filters))
            lines.append((f"{filters} filters", "k INT, x INT", changes, QUERY.format(many)))
        both = "SELECT k, COUNT(*), COUNT(DISTINCT x), SUM(DISTINCT x) FROM t GROUP BY k"
        lines.append(("both", "k INT, x INT", changes, both))
    return ["\t".join(line) for line in lines]


def types_of(digits):
    """Give the types of the fields of a row's snapshot."""
    source = DataInputView(bytes.fromhex(digits))
    source.read_utf(), source.read_int()
    return [read_logical_type(source) for _ in range(source.read_int())]


def type_of(digits):
    """Give the type of SQL of the values of a view's serializer."""
    snapshot = read_versioned_snapshot(DataInputView(bytes.fromhex(digits)))
    if not isinstance(snapshot, ExternalSerializerSnapshot):
        return snapshot.describe()
    return logical_type_of(read_java_object(DataInputView(snapshot.data_type)).get("logicalType"), 0).describe()


def summary(of):
    """Give a type of a plan as `asSummaryString` has it."""
    of = re.sub(r"TIMESTAMP(\(\d\)) WITH LOCAL TIME ZONE", r"TIMESTAMP_LTZ\1", of)
    return of.replace("VARCHAR(2147483647)", "STRING").replace("VARBINARY(2147483647)", "BYTES")


def parts(text):
    """Split a text at commas that are in no brackets and no quotes."""
    found, depth = [""], 0
    for letter in text:
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and not depth:
            found.append("")
        else:
            found[-1] += letter
    return [one.strip() for one in found]


def column_types(row):
    """Give the types of the columns of a plan's row."""
    if isinstance(row, str):
        return [one.split("`", 2)[2].strip() for one in parts(row.removesuffix(NOT_NULL)[len("ROW<") : -1])]
    return [one["fieldType"] for one in row["fields"]]


def root_of(of):
    word = re.match(r"\w+", of)[0]
    return ROOTS.get(word, word)


class Observation:
    """An aggregate of a query: with which arguments, whether it retracts, and what Flink keeps of it."""

    def __init__(self, call, arguments, retracts, fields, initial, views):
        self.function = re.fullmatch(r"\$(.+)\$1", call["internalName"])[1]
        self.arguments = arguments
        self.key = self.function, retracts, tuple(root_of(one) for one in arguments)
        self.views = [(name, kind) for name, kind, _ in views]
        self.initial = json.dumps(initial)
        self.types = [*fields, *(of for _, _, types in views for of in types)]
        self.fields = len(fields)

    def patterns(self):
        """Give all patterns of which the types may be."""
        given = {f"{{{place}}}": one.removesuffix(NOT_NULL) for place, one in enumerate(self.arguments)}
        choices = []
        for of in self.types:
            found = {of}
            for name, argument in given.items():
                at = [match.span() for match in re.finditer(rf"(?<!\w){re.escape(argument)}(?!\w)", of)]
                for size in range(1, len(at) + 1):
                    for chosen in itertools.combinations(at, size):
                        text = of
                        for start, end in reversed(chosen):
                            text = text[:start] + name + text[end:]
                        found.add(text)
                scale = re.fullmatch(r"DECIMAL\(\d+, (\d+)\)", argument)
                if scale and (wide := re.fullmatch(rf"DECIMAL\(38, {scale[1]}\)(.*)", of)):
                    found.add(f"DECIMAL(38, {{{name[1:-1]}.scale}}){wide[1]}")
            choices.append(sorted(found))
        return {(types, self.fields, self.initial, tuple(self.views)) for types in itertools.product(*choices)}


def aggregates_of(plan):
    """Give the node nearest to the sink that aggregates: its calls, the types of its input, which calls retract."""
    nodes = {node["id"]: node for node in plan["nodes"]}
    node = [one for one in plan["nodes"] if "aggregate" in one["type"]][-1]
    before = next(edge["source"] for edge in plan["edges"] if edge["target"] == node["id"])
    row = node.get("localAggInputRowType", nodes[before]["outputType"])
    if "overSpec" in node:
        calls = [call for group in node["overSpec"]["groups"] for call in group["aggCalls"]]
    else:
        calls = node["aggCalls"]
    retract = node.get("aggCallNeedRetractions", [False] * len(calls))
    counted = "indexOfCountStar" in node or any(_counts_rows(call) for call in calls)
    hidden = node.get("needRetraction", False) and not counted
    return calls, column_types(row), retract, hidden


def _counts_rows(call):
    return call["internalName"] == "$COUNT$1" and not call["argList"]


def observations_of(line):
    """Give what a line of the program says: of each aggregate, and of the distinct values."""
    _, plan, fields, initial, views, _ = line
    calls, columns, retract, hidden = aggregates_of(json.loads(plan))
    fields, initial = fields.split("; "), json.loads(initial)
    views = [one.split() for one in dict.fromkeys(views.split("; ")) if one]
    distinct = [one for one in views if one[0].startswith("distinctAcc_")]
    last = len(fields) - len(distinct) - hidden
    names = [re.fullmatch(r"\$(.+)\$1", call["internalName"])[1] for call in calls]
    rest = last - sum(KNOWN.get(name, 0) for name in names)
    unknown = [name for name in names if name not in KNOWN]
    found, at = [], 0
    for number, (call, name) in enumerate(zip(calls, names, strict=True)):
        size = KNOWN.get(name, rest if len(unknown) == 1 else None)
        if size is None:
            size = {"AVG": 2, "SUM": 1 + retract[number]}[name]  # the only two that are beside each other
        own = [
            (view[len(f"agg{number}$") :], kind, [type_of(one) for one in types if one != "null"])
            for view, kind, *types in views
            if view.startswith(f"agg{number}$")
        ]
        given = [summary(columns[place]) for place in call["argList"]]
        found.append(Observation(call, given, retract[number], fields[at : at + size], initial[at : at + size], own))
        at += size
    assert last == at, (names, fields)
    return found, [_distinct(types, calls, columns, retract) for _, _, *types in distinct]


def _distinct(types, calls, columns, retract):
    """Give what a view of distinct values has: how many calls, if they retract, its key and value, if null is apart."""
    of = [number for number, call in enumerate(calls) if call["distinct"]]
    argument = summary(columns[calls[of[0]]["argList"][0]]).removesuffix(NOT_NULL)
    key, value = map(type_of, types[:2])
    pattern = re.sub(rf"(?<!\w){re.escape(argument)}(?!\w)", "{0}", key)
    return len(of), retract[of[0]], pattern, value, len(types) > 2


def patterns_of(lines):
    """Give all rows that fit what the program told: by function and retraction, then by the roots of arguments."""
    groups = {}
    for line in lines:
        for one in observations_of(line)[0]:
            of = groups.setdefault(one.key[:2], {})
            of[one.key[2]] = one.patterns() & of.get(one.key[2], one.patterns())
    return groups


def table_of(lines):
    """Make the table of what the program told: of each function, what it keeps; of views of distinct values."""
    groups, distinct = patterns_of(lines), {one for line in lines for one in observations_of(line)[1]}
    functions = {}
    for (function, retracts), of_arguments in sorted(groups.items()):
        left, rows = dict(of_arguments), functions.setdefault(function, [])
        while left:
            counts = Counter(pattern for patterns in left.values() for pattern in patterns)
            best = min(counts, key=lambda pattern: (-counts[pattern], "".join(pattern[0]).count("{"), pattern))
            of = sorted(arguments for arguments, patterns in left.items() if best in patterns)
            assert of, (function, left)
            rows.append(row_of(retracts, of, *best))
            for one in of:
                del left[one]
    return {function: joined(rows) for function, rows in functions.items()}, sorted(distinct)


def row_of(retracts, arguments, types, fields, initial, views):
    """Give a row of the table."""
    own, rest = {}, list(types[fields:])
    for name, kind in views:
        own[name] = [kind, *(rest.pop(0) for _ in range(1 + (kind == "MAP")))]
    return {
        "retraction": retracts,
        "arguments": [", ".join(one) for one in arguments],
        "fields": list(types[:fields]),
        "initial": json.loads(initial),
        "views": own,
    }


def joined(rows):
    """Join rows that differ by retraction alone."""
    found = []
    for row in rows:
        same = next((one for one in found if one | {"retraction": 0} == row | {"retraction": 0}), None)
        if same is None:
            found.append(dict(row, retraction=[row["retraction"]]))
        else:
            same["retraction"].append(row["retraction"])
    return found


ABOUT = """\
What Flink 2.3 keeps for each aggregate of a query of SQL in `accState`, in one phase, in two, and OVER a window. Made
with real Flink by tests/interop/test_sql_accumulators.py, which makes it anew.

functions: by the name in the `internalName` of an aggregate call, without `$` in front and `$1` behind: `$SUM$1` is
SUM, `$$SUM0$1` is $SUM0. Of the rows that one counts that has the call's flag of `aggCallNeedRetractions` in
`retraction`, and the roots of the types of its arguments, in order, joined by a comma and a space, in `arguments`.
What is not there was not sampled, or Flink refuses it. Whether arguments are nullable makes no difference.

fields: the types of the fields, in order, as `asSummaryString` has them. {0} is the type of the first argument made
nullable, {0.scale} its scale.

initial: the values of these fields before the first row; of a row, a list. {view: true} is what stands for a view, one
byte 0; {elements: []} is a list of Java without elements.

views: the states beside `accState`. That with the name N of the call at the position I is `aggI$N`: [MAP, type of the
key, type of the value] or [LIST, type], each in the serializer External.

distinct: calls with `distinct` and the same arguments share one view, `distinctAcc_I`, I by first occurrence. Its field
is a RAW of MapView, behind all others, the hidden count included. `calls` is how many share it: 1, 2 to 64, 65 and
more; retraction as above. {0 as it is} is the type of the argument, nullable or not as it is. What belongs to null is
apart, in the VALUE state `distinctAcc_I_null_state`.

hidden: where `needRetraction` is true, and the node has neither a COUNT(*) nor `indexOfCountStar`, the field of a
COUNT(*) stands behind the fields of all calls.
"""


def json_of(functions, distinct):
    """Give the text of the table: a row in a line."""
    told = [
        {"calls": calls, "retraction": retraction, "key": "{0 as it is}", "value": value}
        for calls, retraction, value in sorted({(one[0], one[1], one[3]) for one in distinct})
    ]
    assert {"{0}", "{0} NOT NULL"} == {one[2] for one in distinct}
    assert all(one[4] for one in distinct)
    lines = [
        "{",
        ' "about": [',
        ",\n".join(f"  {json.dumps(' '.join(one.split()))}" for one in ABOUT.split("\n\n")),
        " ],",
        ' "flink": "2.3",',
    ]
    told_of = [f"  {json.dumps(name)}: [\n{_lines(of)}\n  ]" for name, of in functions.items()]
    lines += [' "functions": {', ",\n".join(told_of)]
    return "\n".join([*lines, " },", ' "distinct": [', _lines(told, 2), " ]", "}", ""])


def _lines(rows, depth=3):
    return ",\n".join(" " * depth + json.dumps(row) for row in rows)
