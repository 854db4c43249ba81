"""What each column of a compiled plan is computed from, and which rows come to an operator.

    orders.amount                         a column of a table
    (orders.amount * 2)                   computed by a calc
    SUM(orders.amount)                    an aggregate

Names of columns and numbers of nodes have no part in it: they differ between two compilations of one query. What an
operator computes that this release does not know is a digest of its part of the plan, so that it equals itself alone.
Options of tables may hold credentials, and are not read here.
Source: native snapshot notes, 8.1; specs of SQL operators, A, B and D.
"""

from __future__ import annotations

import hashlib
import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.sql.query import Column
from ...serializers.errors import CorruptFile, StateShiftError, UnsupportedFormat
from ...serializers.sql.logical_types import OPAQUE, LogicalType
from ...serializers.sql.row_changes import TypeChange, change_of
from .column_types import type_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .compiled_plan import CompiledPlan, PlanNode

_LONGEST = 400
_MOST_CONDITIONS = 64
_INFIX = frozenset(["+", "-", "*", "/", "%", "=", "<>", "<", ">", "<=", ">=", "AND", "OR"])
_TIMES = frozenset({"TIMESTAMP_WITHOUT_TIME_ZONE", "TIMESTAMP_WITH_LOCAL_TIME_ZONE"})
_DEFAULT_CATALOG = "default_catalog.default_database."
_PASSES = frozenset({"exchange", "watermark-assigner", "drop-update-before", "mini-batch-assigner"})
_FORMATS_THAT_INSERT = frozenset({"csv", "json", "avro", "parquet", "orc", "raw", "avro-confluent", "protobuf"})
_CONNECTORS_THAT_INSERT = frozenset({"filesystem", "kafka", "datagen", "kinesis", "pulsar"})
_NOT_OF_ITS_WORK = frozenset(
    {"id", "type", "description", "inputProperties", "outputType", "state", "configuration", "generateUpdateBefore"}
)
_LEFT_ALONE = frozenset({"SEMI", "ANTI"})


@attrs.frozen
class Rows:
    """The rows that an operator sends on.

    Attributes:
        columns: Their columns.
        conditions: Which rows they are: the tables that they come from, filters, joins, groups, in a fixed order.
        is_insert_only: Whether none is changed or taken back later. Only then has a downstream operator no row to find.
        tables: The tables that they come from.
        aggregated: Of partial results, the columns from which they are computed.
    """

    columns: tuple[Column, ...]
    conditions: tuple[str, ...]
    is_insert_only: bool
    tables: frozenset[str] = frozenset()
    aggregated: tuple[Column, ...] | None = None


def short(text: str) -> str:
    """Return a text, or its beginning and a digest of it if it is long; so no text grows with the plan."""
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST // 2]}… ({digest(text)})"


def digest(text: str) -> str:
    """Return a digest of a text, which is equal for equal texts."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _as_json(found: Any) -> str:
    return json.dumps(found, sort_keys=True, ensure_ascii=False)


@attrs.frozen(slots=False)
class Lineage:
    """What the columns of a plan are computed from, node by node.

    Attributes:
        plan: The plan.
    """

    plan: CompiledPlan

    def rows(self, node: PlanNode) -> Rows:
        """Return what a node sends on.

        Raises:
            CorruptFile: The plan is not one that Flink would write.
            UnsupportedFormat: A column has a type that holds objects of Java.
        """
        return self._found[node.id]

    def inputs(self, node: PlanNode) -> list[Rows]:
        """Return what a node gets, input by input."""
        return [self.rows(one) for one in self.plan.inputs(node)]

    @cached_property
    def _found(self) -> dict[int, Rows]:
        """What all nodes send on; a node comes after those before it."""
        found: dict[int, Rows] = {}
        pending = list(self.plan.nodes.values())[::-1]
        begun: set[int] = set()
        while pending:
            node = pending[-1]
            missing = [one for one in self.plan.inputs(node) if one.id not in found]
            if node.id in found:
                pending.pop()
            elif not missing:
                inputs = [found[one.id] for one in self.plan.inputs(node)]
                tables = frozenset[str]().union(*(one.tables for one in inputs)) | ({table_of(node)} - {""})
                found[node.id] = attrs.evolve(self._computed(node, inputs), tables=tables)
                pending.pop()
            elif node.id in begun:
                raise self._wrong(node, "the operators before it form a circle")
            else:
                begun.add(node.id)
                pending += missing
        return found

    def _wrong(self, node: PlanNode, why: str) -> CorruptFile:
        return CorruptFile(
            f"line {node.line}, {node.title}: {why}",
            file=self.plan.place,
            advice="name a file that COMPILE PLAN has written",
        )

    def _computed(self, node: PlanNode, inputs: list[Rows]) -> Rows:
        try:
            return self._of_kind(node, inputs)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise self._wrong(node, f"{type(error).__name__}: {error}") from error

    def _of_kind(self, node: PlanNode, inputs: list[Rows]) -> Rows:
        names = self._columns(node)
        if node.kind == "table-source-scan":
            return _scan(node, names)
        if not inputs:
            return _unknown(node, names, inputs)
        if node.kind in _PASSES or node.kind in _KEPT_COLUMNS:
            columns = _named(names, [one.computed for one in inputs[0].columns])
            told = _KEPT_COLUMNS.get(node.kind, _as_they_come)(node, inputs)
            return Rows(columns, *told, aggregated=inputs[0].aggregated)
        compute = _COMPUTED.get(node.kind, _unknown)
        return compute(node, names, inputs)

    def _columns(self, node: PlanNode) -> list[tuple[str, LogicalType]]:
        """Return the names and types of the columns that a node sends on."""
        found = node.data["outputType"]
        if isinstance(found, dict):  # a column of Java alone is not known in full
            return [(str(one["name"]), self._type(one["fieldType"])) for one in found["fields"]]
        return [(field.name, field.type) for field in type_of(found, self.plan.place).fields]

    def _type(self, found: Any) -> LogicalType:
        try:
            return type_of(found, self.plan.place)
        except UnsupportedFormat:
            return LogicalType(OPAQUE, parameters=(("summary", short(_as_json(found))),))


_Names = list[tuple[str, "LogicalType"]]


def _named(names: _Names, computed: Sequence[str]) -> tuple[Column, ...]:
    return tuple(Column(name, of, short(text)) for (name, of), text in zip(names, computed, strict=True))


def table_of(node: PlanNode) -> str:
    """Return the name of the table that a source or a sink is of; "" if it has none."""
    for spelled in ("scanTableSource", "dynamicTableSink"):
        found = node.data.get(spelled)
        if isinstance(found, dict):
            return str(found["table"]["identifier"]).replace("`", "").removeprefix(_DEFAULT_CATALOG)
    return ""


def options_of(node: PlanNode) -> dict[str, str]:
    """Return the options of the table of a node, with digests of their values: these may be credentials."""
    found = node.data.get("scanTableSource") or node.data.get("dynamicTableSink") or {}
    options = (found.get("table", {}).get("resolvedTable") or {}).get("options") or {}
    return {str(name): digest(str(value)) for name, value in options.items()}


def functions_in(found: Any) -> Iterator[str]:
    """Yield the names of functions that are not Flink's own, in a part of a plan."""
    pending = [found]
    while pending:
        one = pending.pop()
        if isinstance(one, dict):
            is_call = one.get("kind") == "CALL" or "argList" in one
            if is_call and not one.get("internalName"):
                yield function_name(one)
            pending += one.values()
        elif isinstance(one, list):
            pending += one


def _scan(node: PlanNode, names: _Names) -> Rows:
    table, found = table_of(node), node.data["scanTableSource"]
    resolved = found["table"].get("resolvedTable") or {}
    physical = [str(one["name"]) for one in (resolved.get("schema") or {}).get("columns", ()) if "kind" not in one]
    paths: list[str] | None = None
    conditions = [f"from {table}"]
    for ability in found.get("abilities") or ():
        kind = ability["type"]
        if kind == "ProjectPushDown":
            paths = [_nested(physical, path) for path in ability["projectedFields"]]
        elif kind == "FilterPushDown":
            own = [Column(name, of, f"{table}.{name}") for name, of in names]
            source = [Column(name, of, f"{table}.{name}") for name, of in _of_physical(physical, names)] or own
            conditions += [f"where {expression_text(one, source)}" for one in ability["predicates"]]
        elif kind not in {"ReadingMetadata", "WatermarkPushDown", "SourceWatermark"}:
            conditions.append(f"{kind} {digest(_as_json(ability))}")
    if paths is None or len(paths) > len(names):
        paths = [name for name, _ in names]
    paths += [name for name, _ in names[len(paths) :]]  # columns of metadata stand behind
    return Rows(_named(names, [f"{table}.{path}" for path in paths]), tuple(sorted(conditions)), _inserts(resolved))


def _of_physical(physical: list[str], names: _Names) -> _Names:
    by_name = dict(names)
    some = next(iter(by_name.values()), None)
    return [] if some is None else [(name, by_name.get(name, some)) for name in physical]


def _nested(physical: list[str], path: Sequence[int]) -> str:
    first, *rest = path
    name = physical[first]
    return f"{name}[{_as_json(rest)}]" if rest else name


def _inserts(resolved: Any) -> bool:
    """Whether a source only inserts rows, as far as its connector and format are known to."""
    options = resolved.get("options") or {}
    formats = [str(value) for name, value in options.items() if name == "format" or name.endswith(".format")]
    connector = str(options.get("connector", ""))
    return connector in _CONNECTORS_THAT_INSERT and all(one in _FORMATS_THAT_INSERT for one in formats)


def expression_text(node: Any, columns: Sequence[Column]) -> str:
    """Return an expression of a plan in words; equal words are equal expressions."""
    kind = node["kind"]
    if kind == "INPUT_REF":
        computed: str = columns[node["inputIndex"]].computed
        return computed
    if kind == "LITERAL":
        if "sarg" in node:
            return short(_ranges_text(node["sarg"]))
        value = node.get("value")
        shown = "NULL" if value is None else f"'{value}'" if isinstance(value, str) else _as_json(value)
        return f"{shown}:{_type_text(node['type'])}"
    if kind == "FIELD_ACCESS":
        return f"{expression_text(node['expr'], columns)}.{node['name']}"
    if kind != "CALL":
        return short(f"{kind} {digest(_as_json(node))}")
    operands = [expression_text(one, columns) for one in node.get("operands") or ()]
    name = function_name(node)
    if name in {"CAST", "REINTERPRET"}:
        if _is_same_time(node["operands"][0].get("type"), node["type"]):
            return operands[0]
        return short(f"CAST({operands[0]} AS {_type_text(node['type'])})")
    if name in _INFIX and len(operands) > 1:
        return short(f"({f' {name} '.join(operands)})")
    return short(f"{name}({', '.join(operands)})")


_OF_NULL = {"TRUE": ("NULL",), "FALSE": ("not NULL",)}
"""What a search says of null, where that is not unknown."""


def _ranges_text(sarg: Any) -> str:
    """Return the values for which a search is true, such as `{NULL, (-∞, 'a'), [5, 9]}`."""
    shown = list(_OF_NULL.get(sarg.get("nullAs"), ()))
    for one in sarg["ranges"]:
        ends = [one.get(end) for end in ("lower", "upper")]
        lower, upper = ("" if end is None else _as_json(end["value"]).replace('"', "'") for end in ends)
        opens, closes = (end is not None and end["boundType"] == "CLOSED" for end in ends)
        both = f"{lower or '-∞'}, {upper or '∞'}"
        shown.append(lower if opens and closes and lower == upper else f"{'(['[opens]}{both}{')]'[closes]}")
    return f"{{{', '.join(shown)}}}"


def function_name(node: Any) -> str:
    """Return the name of a function; of one that is not built in, with all that tells it from others."""
    internal = node.get("internalName")
    if internal:
        return str(internal).removeprefix("$").rpartition("$")[0] or str(internal)
    named = {key: value for key, value in node.items() if key not in {"kind", "operands", "type", "syntax"}}
    shown = named.get("catalogName") or named.get("systemName") or named.get("class") or "function"
    rest = {key: value for key, value in named.items() if value != shown}
    return f"{str(shown).replace('`', '').removeprefix(_DEFAULT_CATALOG)}{f'#{digest(_as_json(rest))}' if rest else ''}"


def _type_text(found: Any) -> str:
    return found if isinstance(found, str) else _as_json(found)


def _is_same_time(old: Any, new: Any) -> bool:
    """Whether a cast only makes a plain time stamp of a time attribute: the values are the same."""
    if old is None:
        return False
    try:
        was, becomes = type_of(old, ""), type_of(new, "")
    except StateShiftError:  # then it is a cast like any other
        return False
    return (
        was.root == becomes.root and was.root in _TIMES and was.parameter("precision") == becomes.parameter("precision")
    )


def _without_widening(node: Any, columns: Sequence[Column]) -> Any:
    """Return the operand of a cast that keeps every value, such as INT to BIGINT of a key; else the same expression.

    Only of a whole column: within an expression, a function may make another value of another type.
    """
    if node["kind"] != "CALL" or function_name(node) != "CAST" or node["operands"][0]["kind"] != "INPUT_REF":
        return node
    (operand,) = node["operands"]
    try:
        change = change_of(columns[operand["inputIndex"]].type, type_of(node["type"], ""))
    except StateShiftError:  # then it is a cast like any other
        return node
    return operand if change == TypeChange() else node


def _calc(node: PlanNode, names: _Names, inputs: list[Rows]) -> Rows:
    columns = inputs[0].columns
    computed = [expression_text(_without_widening(one, columns), columns) for one in node.data["projection"]]
    conditions = inputs[0].conditions
    if node.data.get("condition") is not None:
        conditions = _with(conditions, f"where {expression_text(node.data['condition'], columns)}")
    return Rows(_named(names, computed), conditions, inputs[0].is_insert_only)


def _with(conditions: tuple[str, ...], *more: str) -> tuple[str, ...]:
    """Return conditions and further ones; many of them are one, so that a long plan takes no more time for each."""
    if len(conditions) > _MOST_CONDITIONS:
        conditions = (f"{len(conditions)} conditions ({digest(repr(conditions))})",)
    return tuple(sorted({*conditions, *map(short, more)}))


def _side(rows: Rows) -> str:
    return " and ".join(rows.conditions)


def sides(inputs: list[Rows]) -> list[Rows]:
    """Return the inputs of a join; where both come from one table, columns say from which side they are."""
    left, right = inputs
    if not left.tables & right.tables:
        return [left, right]
    return [
        attrs.evolve(
            rows, columns=tuple(attrs.evolve(one, computed=short(f"{side} {one.computed}")) for one in rows.columns)
        )
        for side, rows in (("left", left), ("right", right))
    ]


def join_spec(node: PlanNode) -> dict[str, Any]:
    """Return the part of a join of any kind that says its type, keys and further condition."""
    found: dict[str, Any] = node.data.get("intervalJoinSpec", node.data)["joinSpec"]
    return found


def join_times(node: PlanNode, inputs: list[Rows]) -> str:
    """Return how the rows of both sides of a join are near each other in time, in words; "" of one of all time."""
    left, right = (rows.columns for rows in sides(inputs))
    if bounds := node.data.get("intervalJoinSpec", {}).get("windowBounds"):
        where = f"{bounds['leftLowerBound']} to {bounds['leftUpperBound']} ms from"
        by = "event" if bounds["isEventTime"] else "processing"
        times = (left[bounds["leftTimeIndex"]].computed, right[bounds["rightTimeIndex"]].computed)
        return short(f"{times[0]} {where} {times[1]} in {by} time")
    if "leftWindowing" in node.data:
        found = [_as_json(node.data[f"{side}Windowing"].get("window")) for side in ("left", "right")]
        return short(f"in windows {' and '.join(found)}")
    if "leftTimeAttributeIndex" in node.data:
        place = node.data["rightTimeAttributeIndex"]
        version = right[place].computed if place >= 0 else "processing time"
        is_function = bool(node.data.get("isTemporalFunctionJoin"))
        of = "of the function " if is_function else ""
        return short(f"{of}with the version of {version} at {left[node.data['leftTimeAttributeIndex']].computed}")
    return ""


def _join(node: PlanNode, names: _Names, inputs: list[Rows]) -> Rows:
    left, right = sides(inputs)
    spec = join_spec(node)
    kind = str(spec["joinType"])
    both = (*left.columns, *right.columns)
    keys = [
        f"{left.columns[one].computed} = {right.columns[other].computed}"
        for one, other in zip(spec["leftKeys"], spec["rightKeys"], strict=True)
    ]
    further = spec.get("nonEquiCondition")
    on = [*sorted(keys), *([] if further is None else [expression_text(further, both)])]
    times = join_times(node, inputs)
    told = f"{kind.lower()} {node.kind.replace('-', ' ')} of ({_side(left)}) with ({_side(right)})"
    told = f"{told} on {' and '.join(on) or 'nothing'}{f' {times}' if times else ''}"
    columns = left.columns if kind in _LEFT_ALONE else both
    inserts = left.is_insert_only
    if node.kind != "temporal-join":
        inserts &= right.is_insert_only and (kind == "INNER" or bool(times))
    return Rows(_named(names, [one.computed for one in columns]), (short(told),), inserts)


def aggregate_text(call: Any, columns: Sequence[Column], *, retracts: bool = False) -> str:
    """Return an aggregate in words: its function, arguments, and what decides which values come into it."""
    back = " with retraction" if retracts else ""
    return short(f"{function_name(call)}{aggregate_over(call, columns)}{back}")


def aggregate_over(call: Any, columns: Sequence[Column]) -> str:
    """Return which values come into an aggregate, in words."""
    arguments = ", ".join(columns[index].computed for index in call["argList"]) or "*"
    filtered = call.get("filterArg", -1)
    where = f" FILTER ({columns[filtered].computed})" if filtered >= 0 else ""
    extras = "".join(f" {one}" for one in ("approximate", "ignoreNulls") if call.get(one))
    return f"({'DISTINCT ' if call['distinct'] else ''}{arguments}){where}{extras}"


def _aggregate(node: PlanNode, names: _Names, inputs: list[Rows]) -> Rows:
    columns = inputs[0].columns if inputs[0].aggregated is None else inputs[0].aggregated
    keys = [inputs[0].columns[index].computed for index in node.data["grouping"]]
    told = f"grouped by {_told_keys(inputs[0].columns, node.data['grouping'])}"
    window = window_text(node, inputs[0].columns)
    computed = [*keys, *(aggregate_text(call, columns) for call in node.data["aggCalls"])]
    computed += [f"{one['property']['kind']} of {window}" for one in node.data.get("namedWindowProperties") or ()]
    conditions = _with(inputs[0].conditions, told, *([window] if window else []))
    return Rows(_named(names, computed), conditions, is_insert_only=bool(window))


def _local(node: PlanNode, names: _Names, inputs: list[Rows]) -> Rows:
    """Return what the first of two phases sends on: partial results, of which the second one says what they are."""
    computed = [f"partial {name}" for name, _ in names]
    keys = [inputs[0].columns[index].computed for index in node.data["grouping"]]
    computed[: len(keys)] = keys
    window = window_text(node, inputs[0].columns)
    conditions = _with(inputs[0].conditions, *([window] if window else []))
    return Rows(_named(names, computed), conditions, inputs[0].is_insert_only, aggregated=inputs[0].columns)


def window_text(node: PlanNode, columns: Sequence[Column]) -> str:
    """Return the window of an aggregate in words, with its column of time; "" if it has none.

    In two phases, the first one cuts slices by the column, and the second one has no column.
    """
    if "windowing" in node.data:
        windowing = node.data["windowing"]
        told, time = (
            {name: windowing.get(name) for name in ("window", "isRowtime")},
            windowing.get("timeAttributeIndex"),
        )
    elif "window" in node.data:
        window = node.data["window"]
        told = {name: value for name, value in window.items() if name not in {"alias", "timeField"}}
        time = (window.get("timeField") or {}).get("fieldIndex")
    else:
        return ""
    return short(f"window {_as_json(told)}{'' if time is None else f' by {columns[time].computed}'}")


def _windows(node: PlanNode, names: _Names, inputs: list[Rows]) -> Rows:
    """Return rows with the start, the end and the time of their window behind."""
    columns, window = inputs[0].columns, window_text(node, inputs[0].columns)
    more = [f"window_{one} of {window}" for one in ("start", "end", "time")]
    computed = [*(one.computed for one in columns), *more[: len(names) - len(columns)]]
    return Rows(_named(names, computed), _with(inputs[0].conditions, window), inputs[0].is_insert_only)


def over_columns(node: PlanNode, columns: Sequence[Column]) -> tuple[Column, ...]:
    """Return the columns to which the aggregates over a window refer: those of the input, and constants behind."""
    constants = (
        Column("constant", type_of(one["type"], ""), expression_text(one, columns))
        for one in node.data["overSpec"].get("constants") or ()
    )
    return (*columns, *constants)


def over_text(node: PlanNode, columns: Sequence[Column]) -> str:
    """Return the window over which aggregates are computed, in words."""
    spec = node.data["overSpec"]
    (group,) = spec["groups"]
    known = over_columns(node, columns)
    bounds = []
    for side in ("lowerBound", "upperBound"):
        bound = group[side]
        offset = "" if bound.get("offset") is None else f"{expression_text(bound['offset'], known)} "
        way = {True: " PRECEDING", False: " FOLLOWING", None: ""}[bound.get("isPreceding")]
        bounds.append(f"{offset}{bound['kind']}{way}")
    keys = _told_keys(columns, spec["partition"]["fields"])
    unit = "ROWS" if group["isRows"] else "RANGE"
    return short(f"OVER each {keys} by {order_text(group['orderBy'], columns)} {unit} {' to '.join(bounds)}")


def over_time(node: PlanNode, columns: Sequence[Column]) -> str:
    """Return the kind of time by which a window goes: ROWTIME, PROCTIME, "" if by values, or what it is of both."""
    (group,) = node.data["overSpec"]["groups"]
    kinds = {dict(columns[one["index"]].type.parameters).get("kind", "REGULAR") for one in group["orderBy"]["fields"]}
    return "" if kinds == {"REGULAR"} else " and ".join(sorted(kinds))


def _over(node: PlanNode, names: _Names, inputs: list[Rows]) -> Rows:
    columns = inputs[0].columns
    told, known = over_text(node, columns), over_columns(node, columns)
    (group,) = node.data["overSpec"]["groups"]
    computed = [one.computed for one in columns]
    computed += [f"{aggregate_text(call, known)} {told}" for call in group["aggCalls"]]
    inserts = inputs[0].is_insert_only and over_time(node, columns) in {"ROWTIME", "PROCTIME"}
    return Rows(_named(names, computed), inputs[0].conditions, inserts)


def _union(_: PlanNode, names: _Names, inputs: list[Rows]) -> Rows:
    told = f"union of {' with '.join(sorted(f'({_side(one)})' for one in inputs))}"
    computed = []
    for index in range(len(names)):
        texts = sorted({one.columns[index].computed for one in inputs})
        computed.append(texts[0] if len(texts) == 1 else f"UNION({', '.join(texts)})")
    return Rows(_named(names, computed), (short(told),), all(one.is_insert_only for one in inputs))


def _unknown(node: PlanNode, names: _Names, inputs: list[Rows]) -> Rows:
    """Return the columns of an operator that is compared as a whole: they equal those of the same operator alone."""
    before = [[*(one.computed for one in rows.columns), *rows.conditions] for rows in inputs]
    told = f"{node.kind} {digest(_as_json([node.kind, node.version, own_work(node), before]))}"
    computed = [f"{told}, column {index}" for index in range(len(names))]
    conditions = tuple(sorted({one for rows in inputs for one in rows.conditions}))
    return Rows(_named(names, computed), _with(conditions, told), is_insert_only=False)


def own_work(node: PlanNode) -> dict[str, Any]:
    """Return the part of a node that says what it does, without options of tables."""
    left_out = _NOT_OF_ITS_WORK | {"scanTableSource", "dynamicTableSink"}
    return {name: value for name, value in node.data.items() if name not in left_out}


def _as_they_come(_: PlanNode, inputs: list[Rows]) -> tuple[tuple[str, ...], bool]:
    return inputs[0].conditions, inputs[0].is_insert_only


def _told_keys(columns: Sequence[Column], chosen: Sequence[int]) -> str:
    """Return keys in words; their order changes nothing."""
    return ", ".join(sorted(columns[index].computed for index in chosen)) or "nothing"


def _deduplicated(node: PlanNode, inputs: list[Rows]) -> tuple[tuple[str, ...], bool]:
    keeps_last = bool(node.data["keepLastRow"])
    by = "event time" if node.data["isRowtime"] else "processing time"
    keys = _told_keys(inputs[0].columns, node.data["uniqueKeys"])
    told = f"the {'last' if keeps_last else 'first'} by {by} of each {keys}"
    first_stays = not keeps_last and (not node.data["isRowtime"] or bool(node.data.get("outputInsertOnly")))
    return _with(inputs[0].conditions, told), first_stays and inputs[0].is_insert_only


def _normalized(node: PlanNode, inputs: list[Rows]) -> tuple[tuple[str, ...], bool]:
    told = [f"the present one of each {_told_keys(inputs[0].columns, node.data['uniqueKeys'])}"]
    if node.data.get("filterCondition") is not None:
        told.append(f"where {expression_text(node.data['filterCondition'], inputs[0].columns)}")
    return _with(inputs[0].conditions, *told), False


def _of_window(node: PlanNode, inputs: list[Rows]) -> tuple[tuple[str, ...], bool]:
    told = window_first_text(node, inputs[0].columns)
    return _with(inputs[0].conditions, told), inputs[0].is_insert_only


def window_first_text(node: PlanNode, columns: Sequence[Column]) -> str:
    """Return which row of each window is kept, in words."""
    keys = _told_keys(columns, node.data["partitionKeys"])
    place = "last" if node.data["keepLastRow"] else "first"
    by = columns[node.data["orderKey"]].computed
    return short(f"the {place} by {by} of each {keys} in each {window_text(node, columns)}")


_KEPT_COLUMNS: dict[str, Callable[[PlanNode, list[Rows]], tuple[tuple[str, ...], bool]]] = {
    "deduplicate": _deduplicated, "changelog-normalize": _normalized, "window-deduplicate": _of_window,
    "temporal-sort": _as_they_come,
}  # fmt: skip
"""Of operators that send rows on as they come, which rows these are, and whether they only insert."""


def _rank(node: PlanNode, names: _Names, inputs: list[Rows]) -> Rows:
    columns = inputs[0].columns
    told = rank_text(node, columns)
    computed = [one.computed for one in columns]
    computed += [f"{told}: the number"] * (len(names) - len(columns))
    is_of_window = node.kind == "window-rank" and inputs[0].is_insert_only
    return Rows(_named(names, computed), _with(inputs[0].conditions, told), is_insert_only=is_of_window)


def rank_text(node: PlanNode, columns: Sequence[Column], *, says_number: bool = True) -> str:
    """Return which rows a rank keeps, in words; of a Top-N also without their number."""
    work = node.data
    ranges = f" {_as_json(work['rankRange'])}" if says_number else ""
    partition, sort = (work.get(one) or work[other] for one, other in _SPELLED_OF_RANKS)
    keys, window = _told_keys(columns, partition["fields"]), window_text(node, columns)
    told = f"{work['rankType']}{ranges} of each {keys} by {order_text(sort, columns)}"
    return short(f"{told} in each {window}" if window else told)


_SPELLED_OF_RANKS = (("partition", "partitionSpec"), ("orderBy", "sortSpec"))
"""What a rank and one of windows call their parts."""


def order_text(sort: Any, columns: Sequence[Column]) -> str:
    """Return an order of rows in words."""
    return ", ".join(
        f"{columns[one['index']].computed} {'ASC' if one['isAscending'] else 'DESC'}"
        f"{' NULLS LAST' if one['nullIsLast'] else ''}"
        for one in sort["fields"]
    )


_COMPUTED: dict[str, Callable[[PlanNode, _Names, list[Rows]], Rows]] = {
    "calc": _calc, "join": _join, "interval-join": _join, "window-join": _join, "temporal-join": _join,
    "union": _union, "rank": _rank, "window-rank": _rank, "over-aggregate": _over, "window-table-function": _windows,
    "group-aggregate": _aggregate,
    "global-group-aggregate": _aggregate, "window-aggregate": _aggregate, "global-window-aggregate": _aggregate,
    "group-window-aggregate": _aggregate, "local-group-aggregate": _local, "local-window-aggregate": _local,
}  # fmt: skip
