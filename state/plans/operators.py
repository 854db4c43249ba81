"""The operators of a compiled plan that have state: their keys and states, as Flink lays them out.

Source: native snapshot notes, 8; specs of SQL operators, A to C; each layout is compared with savepoints of Flink
(`tests/state/plans/test_operators.py`). An operator whose layout is not known here is named, and goes on only where it
computes the same as before.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.description import StateKind
from ...compat.sql.description import describe_query
from ...compat.sql.query import Column, Namespace, Removal, SqlOperator, SqlQuery, SqlState, ValueForm
from ...compat.sql.stored import require_template
from ...serializers.errors import CorruptFile
from ...serializers.sql.logical_types import LogicalType
from .aggregates import accumulators_of
from .column_types import type_of
from .compiled_plan import read_plan, read_plan_file
from .lineage import (
    Lineage,
    Rows,
    digest,
    expression_text,
    functions_in,
    join_spec,
    join_times,
    options_of,
    order_text,
    over_columns,
    over_text,
    over_time,
    own_work,
    rank_text,
    sides,
    table_of,
    window_first_text,
    window_text,
)
from .time_to_live import ttl_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...compat.description import JobDescription
    from .compiled_plan import CompiledPlan, PlanNode

_STATELESS = frozenset(
    {
        "calc", "exchange", "union", "watermark-assigner", "drop-update-before", "mini-batch-assigner", "expand",
        "local-group-aggregate", "local-window-aggregate", "values", "correlate",
    }
)  # fmt: skip
"""Kinds of nodes that keep nothing."""
_SEVERAL_UIDS = {
    "table-source-scan": ("source",),
    "sink": ("sink", "upsert-materialize", "constraint-validator", "partitioner", "timestamp-inserter", "writer"),
}
"""The transformations of kinds that have others than one of their own name."""
_OUTER_SIDES = {"LEFT": (True, False), "RIGHT": (False, True), "FULL": (True, True), "SEMI": (True, False),
                "ANTI": (True, False)}  # fmt: skip
_SIDES = ("left", "right")
_OF_NULLS = {True: "", False: " or both null", None: " (of nulls nothing is said)"}
"""Whether rows with null in a key of a join are left out, in words."""


def describe_plan(plan: CompiledPlan) -> SqlQuery:
    """Return what a plan says of its query.

    Raises:
        CorruptFile: The plan is not one that Flink would write.
        UnsupportedFormat: A column has a type that holds objects of Java.
    """
    lineage = Lineage(plan)
    found = [_operator(lineage, node) for node in plan.nodes.values() if not _is_stateless(node)]
    before = _before(plan, (one.node for one in found if one.is_keyed))
    operators = tuple(attrs.evolve(one, is_followed=one.node in before) for one in found)
    sinks = {
        table_of(node): tuple(one for rows in lineage.inputs(node) for one in rows.conditions)
        for node in plan.nodes.values()
        if node.kind == "sink"
    }
    tables = {name: options_of(node) for node in plan.nodes.values() if (name := table_of(node))}
    functions = sorted({name for node in plan.nodes.values() for name in functions_in(node.data)})
    return SqlQuery(f"plan {plan.place}", plan.flink_version, operators, sinks, tables, tuple(functions))


def _before(plan: CompiledPlan, nodes: Iterable[int]) -> set[int]:
    """Return the numbers of all operators whose rows reach some of these."""
    found: set[int] = set()
    pending = list(nodes)
    while pending:
        missing = set(plan.before.get(pending.pop(), ())) - found
        found |= missing
        pending += missing
    return found


def _is_stateless(node: PlanNode) -> bool:
    """Whether a node keeps nothing; of windows, sessions keep rows, and so do those lookups that wait for answers."""
    if node.kind == "window-table-function":
        return "SessionWindow" not in json.dumps(node.data.get("windowing"))
    if node.kind == "lookup-join":
        return not (node.data.get("requireUpsertMaterialize") or node.data.get("asyncLookupOptions"))
    return node.kind in _STATELESS


def _operator(lineage: Lineage, node: PlanNode) -> SqlOperator:
    inputs = lineage.inputs(node)
    uids = tuple(f"{node.id}_{one}" for one in _SEVERAL_UIDS.get(node.kind, (node.kind,)))
    rows = tuple(one for number, given in enumerate(inputs) for one in _numbered(number, given, len(inputs)))
    blank = SqlOperator(node=node.id, kind=node.kind, line=node.line, rows=rows, uids=uids)
    describe = _LAYOUTS.get(node.kind, _not_known)
    try:
        found = describe(_Node(lineage, node, inputs), blank)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise CorruptFile(
            f"line {node.line}, {node.title}: {type(error).__name__}: {error}",
            file=lineage.plan.place,
            advice="name a file that COMPILE PLAN has written",
        ) from error

    return attrs.evolve(found, work=f"{found.work} {_digest_of(node, inputs)}") if found.unknown else found


def _digest_of(node: PlanNode, inputs: list[Rows]) -> str:
    """Return a digest of all that may decide a layout which is not known: types, and whether state goes with time."""
    columns = [[(column.computed, column.type.describe()) for column in rows.columns] for rows in inputs]
    return digest(repr((columns, [state.ttl for state in node.states], _words(own_work(node)))))


def _numbered(number: int, given: Rows, count: int) -> list[str]:
    return [one if count == 1 else f"input {number}: {one}" for one in given.conditions]


@attrs.frozen
class _Node:
    """A node, with what comes in."""

    lineage: Lineage
    node: PlanNode
    inputs: list[Rows]

    def picked(self, name: str, of: int = 0) -> tuple[Column, ...]:
        """Return the columns of an input whose numbers a part of the node lists."""
        return tuple(self.inputs[of].columns[index] for index in self.node.data[name])

    def ttl_ms(self, index: int = 0) -> int:
        """Return the time to live of a state of the node, as the plan says; 0: it has none."""
        states = self.node.states
        return ttl_of(self.lineage.plan, self.node, states[index]).millis if index < len(states) else 0

    def removal(self, otherwise: Removal, of: int = 0) -> Removal:
        """Return how rows are found again: of an input that only inserts, none is."""
        return Removal.NEVER if self.inputs[of].is_insert_only else otherwise


def _joined(of: _Node, blank: SqlOperator, states: Iterable[SqlState]) -> SqlOperator:
    """Return a join of any kind with its states: its key, and its work in words."""
    spec, (left, right) = join_spec(of.node), sides(of.inputs)
    keys = tuple(left.columns[index] for index in spec["leftKeys"])
    further, times = spec.get("nonEquiCondition"), join_times(of.node, of.inputs)
    others = [right.columns[index].computed for index in spec["rightKeys"]]
    filtered = spec.get("filterNulls") or [None] * len(keys)
    equal = sorted(
        f"{one.computed} = {other}{_OF_NULLS[drops]}" for one, other, drops in zip(keys, others, filtered, strict=True)
    )
    told = [] if further is None else [expression_text(further, [*left.columns, *right.columns])]
    work = f"{str(spec['joinType']).lower()} join on {' and '.join([*equal, *told])} {times}"
    return attrs.evolve(blank, keys=keys, states=tuple(states), work=work.strip())


def _interval_join(of: _Node, blank: SqlOperator) -> SqlOperator:
    names = [f"IntervalJoin{side.capitalize()}" for side in _SIDES]
    caches = [
        SqlState(
            name=f"{name}Cache", kind=StateKind.MAP, form=ValueForm.FLAGGED_ROWS, columns=rows.columns,
            removal=of.removal(Removal.BY_ROW, number),
        )
        for number, (name, rows) in enumerate(zip(names, sides(of.inputs), strict=True))
    ]  # fmt: skip
    return _joined(of, blank, [*caches, *(_time(f"{name}TimerState") for name in names)])


def _window_join(of: _Node, blank: SqlOperator) -> SqlOperator:
    states = [
        SqlState(
            name=f"{side}-records", kind=StateKind.LIST, form=ValueForm.ROWS, columns=rows.columns,
            removal=of.removal(Removal.BY_ROW, number), namespace=Namespace.SLICE,
        )
        for number, (side, rows) in enumerate(zip(_SIDES, sides(of.inputs), strict=True))
    ]  # fmt: skip
    return _joined(of, blank, states)


def _temporal_join(of: _Node, blank: SqlOperator) -> SqlOperator:
    """Return a join with versions; those that are stored are found by their time, and joined by the left rows."""
    left, right = sides(of.inputs)
    removal = Removal.BY_KEY if left.is_insert_only else Removal.BY_ROW
    versions = SqlState(name="right", columns=right.columns, removal=removal)
    if of.node.data["rightTimeAttributeIndex"] < 0:
        return _joined(of, blank, [versions])
    waiting = SqlState(name="left", kind=StateKind.MAP, columns=left.columns, removal=of.removal(Removal.BY_ROW))
    times = _time("next-index"), _time("timer")
    return _joined(of, blank, [waiting, attrs.evolve(versions, kind=StateKind.MAP), *times])


def _time(name: str, removal: Removal = Removal.NEVER) -> SqlState:
    return SqlState(name=name, form=ValueForm.TIME, removal=removal)


def _join(of: _Node, blank: SqlOperator) -> SqlOperator:
    spec = join_spec(of.node)
    both = sides(of.inputs)
    kind = str(spec["joinType"])
    states = []
    for number, (side, rows) in enumerate(zip(_SIDES, both, strict=True)):
        joined = frozenset(spec[f"{side}Keys"])
        unique = of.node.data.get(f"{side}UpsertKeys") or []
        within = [one for one in unique if frozenset(one) <= joined]
        state = SqlState(
            name=f"{side}-records", columns=rows.columns, has_number=_OUTER_SIDES.get(kind, (False, False))[number],
            ttl_ms=of.ttl_ms(number), removal=of.removal(Removal.BY_KEY if unique else Removal.BY_ROW, number),
            is_side=True,
        )  # fmt: skip
        if not within:
            user_key = rows.columns
            if unique:
                user_key = tuple(rows.columns[index] for index in min(unique, key=len))
            form = ValueForm.ROW if unique else ValueForm.COUNT
            state = attrs.evolve(state, kind=StateKind.MAP, user_key=user_key, form=form)
        states.append(state)
    return _joined(of, blank, states)


def _deduplicate(of: _Node, blank: SqlOperator) -> SqlOperator:
    data = of.node.data
    is_last, by_event_time = bool(data["keepLastRow"]), bool(data["isRowtime"])
    columns = of.inputs[0].columns
    row = SqlState(name="deduplicate-state", columns=columns, ttl_ms=of.ttl_ms(), removal=of.removal(Removal.BY_KEY))
    if by_event_time and not is_last and data.get("outputInsertOnly"):
        emitted = attrs.evolve(row, name="already-emitted-state-boolean", form=ValueForm.FLAG, columns=())
        states = [attrs.evolve(row, name="waiting-to-emit-on-timer"), emitted]
    elif not by_event_time and not is_last:
        states = [attrs.evolve(row, form=ValueForm.FLAG, columns=())]
    else:
        states = [row]
    work = f"keeps the {'last' if is_last else 'first'} by {'event' if by_event_time else 'processing'} time"
    return attrs.evolve(blank, keys=of.picked("uniqueKeys"), states=tuple(states), work=work)


def _normalize(of: _Node, blank: SqlOperator) -> SqlOperator:
    state = SqlState(name="deduplicate-state", columns=of.inputs[0].columns, ttl_ms=of.ttl_ms(), removal=Removal.BY_KEY)
    condition = of.node.data.get("filterCondition")
    work = "keeps the present row"
    if condition is not None:
        work += f" where {expression_text(condition, of.inputs[0].columns)}"
    return attrs.evolve(blank, keys=of.picked("uniqueKeys"), states=(state,), work=work)


def _rank(of: _Node, blank: SqlOperator) -> SqlOperator:
    data, columns = of.node.data, of.inputs[0].columns
    keys = tuple(columns[index] for index in data["partition"]["fields"])
    told = attrs.evolve(blank, keys=keys, work=f"{rank_text(of.node, columns)}, {_words(data.get('rankStrategy'))}")
    sort = tuple(columns[one["index"]] for one in data["orderBy"]["fields"])
    strategy, ranges = data.get("rankStrategy") or {}, data["rankRange"]
    is_first = ranges.get("type") == "Constant" and ranges.get("end") == 1
    by_time = any(dict(one.type.parameters).get("kind") == "PROCTIME" for one in sort)
    if by_time or not sort:
        return attrs.evolve(told, unknown="the layout of a rank without an order, or by processing time, is not known")
    if strategy["type"] == "Retract":
        rows = SqlState(
            name="data-state", kind=StateKind.MAP, form=ValueForm.ROWS, columns=columns, user_key=sort,
            ttl_ms=of.ttl_ms(), removal=of.removal(Removal.BY_ROW),
        )  # fmt: skip
        order = tuple((at, one["isAscending"], one["nullIsLast"]) for at, one in enumerate(data["orderBy"]["fields"]))
        counts = SqlState(
            name="sorted-map", form=ValueForm.SORTED_COUNTS, columns=sort, order=order, ttl_ms=rows.ttl_ms,
            removal=rows.removal,
        )  # fmt: skip
        return attrs.evolve(told, states=(rows, counts))
    state = SqlState(name="Top1-Rank-State", columns=columns, ttl_ms=of.ttl_ms(), removal=of.removal(Removal.BY_KEY))
    if not is_first and strategy["type"] == "AppendFast":
        state = attrs.evolve(
            state, name="data-state-with-append", kind=StateKind.MAP, form=ValueForm.ROWS, user_key=sort,
            removal=of.removal(Removal.BY_ROW),
        )  # fmt: skip
    elif not is_first:
        keys_of_rows = tuple(columns[index] for index in strategy["primaryKeys"])
        state = attrs.evolve(
            state, name="data-state-with-update", kind=StateKind.MAP, user_key=keys_of_rows, has_number=True
        )
    if most := _most(ranges):  # it stands beside the rows: what decides is how many of them are kept
        order = tuple((one["index"], one["isAscending"], one["nullIsLast"]) for one in data["orderBy"]["fields"])
        state = attrs.evolve(state, most=most, order=order)
        told = attrs.evolve(told, work=f"{rank_text(of.node, columns, says_number=False)}, {_words(strategy)}")
    return attrs.evolve(told, states=(state,))


def _most(ranges: dict[str, Any]) -> int:
    """Return how many rows a Top-N keeps; 0: that is not what tells it from another one, such as from a Top-1."""
    is_plain = ranges.get("type") == "Constant" and ranges.get("start") == 1
    return int(ranges["end"]) if is_plain and ranges["end"] > 1 else 0


def _window_rank(of: _Node, blank: SqlOperator) -> SqlOperator:
    columns = of.inputs[0].columns
    keys, sort = (
        tuple(columns[place] for place in places)
        for places in (
            of.node.data["partitionSpec"]["fields"], [one["index"] for one in of.node.data["sortSpec"]["fields"]]
        )
    )  # fmt: skip
    state = SqlState(
        name="window_rank", kind=StateKind.MAP, form=ValueForm.ROWS, columns=columns, user_key=sort,
        removal=of.removal(Removal.BY_ROW), namespace=Namespace.SLICE,
    )  # fmt: skip
    return attrs.evolve(blank, keys=keys, states=(state,), work=rank_text(of.node, columns))


def _window_deduplicate(of: _Node, blank: SqlOperator) -> SqlOperator:
    columns = of.inputs[0].columns
    state = SqlState(
        name="window_deduplicate", columns=columns, removal=of.removal(Removal.BY_KEY), namespace=Namespace.SLICE
    )
    keys = of.picked("partitionKeys")
    return attrs.evolve(blank, keys=keys, states=(state,), work=window_first_text(of.node, columns))


def _temporal_sort(of: _Node, blank: SqlOperator) -> SqlOperator:
    columns = of.inputs[0].columns
    sort = of.node.data["orderBy"]
    told = attrs.evolve(blank, work=f"sorts by {order_text(sort, columns)}")
    if dict(columns[sort["fields"][0]["index"]].type.parameters).get("kind") != "ROWTIME":
        return attrs.evolve(told, unknown="the layout of a sort by processing time is not known")
    rows = SqlState(
        name="dataState", kind=StateKind.MAP, form=ValueForm.ROWS, columns=columns, removal=of.removal(Removal.BY_ROW)
    )
    return attrs.evolve(told, states=(rows, _time("lastTriggeringTsState")))


def _over(of: _Node, blank: SqlOperator) -> SqlOperator:
    data, columns = of.node.data["overSpec"], of.inputs[0].columns
    (group,) = data["groups"]
    time, is_bounded = over_time(of.node, columns), group["lowerBound"]["kind"] != "UNBOUNDED_PRECEDING"
    calls = {"aggCalls": group["aggCalls"]}
    if is_bounded:  # a row that leaves the window is taken off
        calls |= {"aggCallNeedRetractions": [True] * len(group["aggCalls"]), "needRetraction": True}
    found = accumulators_of(calls, over_columns(of.node, columns))
    keys = tuple(columns[index] for index in data["partition"]["fields"])
    told = attrs.evolve(blank, keys=keys, work=over_text(of.node, columns))
    if found.unknown:
        return attrs.evolve(told, work=f"{told.work} {_words(group['aggCalls'])}", unknown=found.unknown)
    removal = Removal.TAKEN_OFF if is_bounded or not time else Removal.ACCUMULATED
    accumulators = SqlState(name="accState", columns=found.columns, removal=removal, ttl_of_job=True)
    rows = SqlState(
        name="inputState", kind=StateKind.MAP, form=ValueForm.ROWS, columns=columns, removal=of.removal(Removal.BY_ROW)
    )
    last, count = _time("lastTriggeringTsState"), _time("processedCountState")
    layouts = {
        ("PROCTIME", False, False): (accumulators,), ("PROCTIME", False, True): (accumulators,),
        ("PROCTIME", True, True): (rows, accumulators, count, _time("smallestTSState")),
        ("PROCTIME", True, False): (rows, accumulators, _time("cleanupTsState")),
        ("ROWTIME", False, False): (accumulators, rows), ("ROWTIME", False, True): (accumulators, rows),
        ("ROWTIME", True, True): (last, count, accumulators, rows),
        ("ROWTIME", True, False): (last, accumulators, rows, _time("cleanupTsState")),
    }  # fmt: skip
    states = layouts.get((time, is_bounded, bool(group["isRows"])))
    if states is None and not is_bounded and not time:
        sort = tuple(columns[one["index"]] for one in group["orderBy"]["fields"])
        by = (_ROW_NUMBER,) if group["isRows"] else sort
        states = (
            _time("idState", rows.removal),
            SqlState(name="sortedListState", form=ValueForm.NUMBERED_KEYS, columns=sort, removal=rows.removal),
            attrs.evolve(rows, name="valueMapState", form=ValueForm.ROW),
            attrs.evolve(accumulators, name="accMapState", kind=StateKind.MAP, user_key=by),
        )
    if states is None:
        return attrs.evolve(
            told, unknown="the layout of OVER within bounds of values, or by a time and other columns, is not known"
        )
    return attrs.evolve(told, states=(*states, *found.views))


_ROW_NUMBER = Column("number", LogicalType("BIGINT"), "the number of the row")


def _aggregate(of: _Node, blank: SqlOperator) -> SqlOperator:
    data, rows = of.node.data, of.inputs[0]
    columns = rows.columns if rows.aggregated is None else rows.aggregated
    found = accumulators_of(data, columns, ttl_ms=of.ttl_ms())
    keys = tuple(rows.columns[index] for index in data["grouping"])
    window = window_text(of.node, rows.columns)
    told = attrs.evolve(blank, keys=keys, work=window or "aggregates")
    if found.unknown:
        return attrs.evolve(told, work=f"{told.work} {_words(data['aggCalls'])}", unknown=found.unknown)
    namespace = Namespace.TIME_WINDOW if "SessionWindow" in window else _NAMESPACES.get(of.node.kind, Namespace.VOID)
    state = SqlState(
        name="window-aggs" if window else "accState", columns=found.columns, ttl_ms=of.ttl_ms(),
        removal=Removal.TAKEN_OFF if data.get("needRetraction") else Removal.ACCUMULATED, namespace=namespace,
    )  # fmt: skip
    views = tuple(attrs.evolve(one, namespace=namespace) for one in found.views)
    return attrs.evolve(told, states=(state, *views))


_NAMESPACES = {
    "window-aggregate": Namespace.SLICE, "global-window-aggregate": Namespace.SLICE,
    "group-window-aggregate": Namespace.TIME_WINDOW,
}  # fmt: skip


def _words(found: object) -> str:
    return json.dumps(found, sort_keys=True)


def _connector(of: _Node, blank: SqlOperator) -> SqlOperator:
    """Return a source or a sink: its connector's state stays as it is; rows that a sink materializes are its own."""
    told = attrs.evolve(blank, work=f"table {table_of(of.node)}", rows=())
    data = of.node.data
    if of.node.kind != "sink" or not data.get("requireUpsertMaterialize"):
        return told
    told = attrs.evolve(told, rows=blank.rows)
    strategy = data.get("upsertMaterializeStrategy", "LEGACY")
    if strategy != "LEGACY":
        return attrs.evolve(
            told, unknown=f"the layout of rows that are materialized by the strategy {strategy} is not known"
        )
    schema = data["dynamicTableSink"]["table"]["resolvedTable"]["schema"]
    written = [one for one in schema["columns"] if "kind" not in one]
    columns = tuple(
        attrs.evolve(column, type=type_of(one["dataType"], of.lineage.plan.place))
        for column, one in zip(of.inputs[0].columns, written, strict=True)
    )
    names = [str(one["name"]) for one in written]
    keys = tuple(columns[names.index(name)] for name in schema["primaryKey"]["columns"])
    removal = of.removal(Removal.BY_KEY if data.get("inputUpsertKey") else Removal.BY_ROW)
    state = SqlState(name="values", form=ValueForm.ROWS, columns=columns, ttl_ms=of.ttl_ms(), removal=removal)
    uids = tuple(sorted(told.uids, key=lambda uid: not uid.endswith("upsert-materialize")))
    return attrs.evolve(told, keys=keys, states=(state,), uids=uids)


def _not_known(of: _Node, blank: SqlOperator) -> SqlOperator:
    (*_, column) = (None, *of.lineage.rows(of.node).columns)
    work = "" if column is None else column.computed
    return attrs.evolve(blank, work=work, unknown=f"the layout of {of.node.kind} is not known")


_LAYOUTS: dict[str, Callable[[_Node, SqlOperator], SqlOperator]] = {
    "join": _join, "interval-join": _interval_join, "window-join": _window_join, "temporal-join": _temporal_join,
    "window-rank": _window_rank, "window-deduplicate": _window_deduplicate, "over-aggregate": _over,
    "temporal-sort": _temporal_sort, "deduplicate": _deduplicate, "changelog-normalize": _normalize, "rank": _rank,
    "group-aggregate": _aggregate, "global-group-aggregate": _aggregate, "window-aggregate": _aggregate,
    "global-window-aggregate": _aggregate, "group-window-aggregate": _aggregate,
    "table-source-scan": _connector, "sink": _connector,
}  # fmt: skip


def describe_plans(
    new: str,
    old: str = "",
    *,
    allows_partial: bool = False,
    allows_stale: bool = False,
    template: JobDescription | None = None,
    keeps_newest: bool = False,
) -> JobDescription:
    """Return the description of a new query of Flink SQL for `check` and `migrate`, from compiled plans.

    Args:
        new: The file that COMPILE PLAN has written for the new query; of any file system.
        old: That of the query which wrote the state. Without it, equal types are all that is known.
        allows_partial: Whether aggregates may begin now, where others go on (rule SQL-15).
        allows_stale: Whether rows that were sent may stay where the new query would not have sent them (rule SQL-19).
        template: A savepoint of the new query, `Savepoint.open(…).describe()`: what is stored as objects of Java, and
            this release does not write, is taken from there (rule SQL-22). It may be of a query without any input.
        keeps_newest: Whether of stored rows that get one unique key the newest stays, where its time stamp says which
            one that is (rule SQL-20).

    Raises:
        CorruptFile: A file is no compiled plan.
        DeclarationError: The template is of another query.
        UnsupportedFormat: A column has a type that holds objects of Java.
        StorageFailed: A file cannot be read.
    """
    was, becomes = read_query(old) if old else None, read_query(new)
    if template is not None:
        require_template(becomes, template)
        becomes = attrs.evolve(becomes, origin=f"{becomes.origin}, objects of Java from {template.origin}")
    return describe_query(
        becomes, was, allows_partial=allows_partial, allows_stale=allows_stale, template=template,
        keeps_newest=keeps_newest,
    )  # fmt: skip


def read_query(place: str) -> SqlQuery:
    """Return what the compiled plan in a file says of its query; of any file system.

    Raises:
        CorruptFile: The file is no compiled plan.
        UnsupportedFormat: A column has a type that holds objects of Java.
        StorageFailed: The file cannot be read.
    """
    return describe_plan(read_plan(read_plan_file(place), place))
