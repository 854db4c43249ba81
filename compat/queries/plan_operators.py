"""The stateful operators of an optimized plan: what each keeps, in words of the columns of the query's sources.

Names that a query gives to columns on the way are left out, so that two ways to write one query give equal words:
`sum(n)` is the column `n` of the first source, whatever the query calls it; the second source's is `n@1`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from .conditions import FILTER_ON_KEYS
from .inputs import SOURCES
from .kinds import (
    AGGREGATION,
    DEDUPLICATION,
    GROUPS,
    GROUPS_OF_SCALA,
    JOIN,
    LIMIT,
    SESSION,
    TRANSFORM,
    TRANSFORM_OF_SCALA,
    WITHIN_WATERMARK,
)  # fmt: skip
from .options import without_credentials
from .plan_text import OUTPUTS, Detail, Node, Texts, conjuncts, details_in, unmarked, words_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from .inputs import Input
    from .plan_text import FunctionCode

_DEDUPLICATIONS = {"Deduplicate": DEDUPLICATION, "DeduplicateWithinWatermark": WITHIN_WATERMARK}
_WITH_FUNCTION = {
    "FlatMapGroupsInPandasWithState": GROUPS,
    "FlatMapGroupsWithState": GROUPS_OF_SCALA,
    "TransformWithStateInPySpark": TRANSFORM,
    "TransformWithState": TRANSFORM_OF_SCALA,
}
_PLAIN = {"SubqueryAlias", "View", "RepartitionByExpression", "Repartition", "Sort", "ResolvedHint", "LocalLimit"}
_FACTS = {"timeout": "timeout", "timeMode": "time mode"}
_RANDOM = {"Rand", "Randn", "Uuid", "RandStr", "Uniform", "MonotonicallyIncreasingID"}
_WIDENED = {"byte", "short", "integer", "long", "float"}


@attrs.frozen
class Column:
    """A column that an operator keeps: its name, and what it is computed from."""

    name: str
    text: str


@attrs.frozen
class Buffers:
    """The buffers of an aggregate.

    Attributes:
        count: How many there are.
        kind: The class of its function, such as `CollectList`.
        types: The types that decide what the bytes of the buffers mean, and that the types of the buffers do not show:
            of the elements of a list, of a decimal that is summed as a whole number; "": none.
    """

    count: int
    kind: str
    types: str = ""

    def marked(self, text: str) -> str:
        """Return the text of a buffer with its types as a detail."""
        return Detail("type", f"{self.kind} {unmarked(text)}", self.types).marked(text) if self.types else text


_ONE = Buffers(1, "")


@attrs.frozen
class PlannedOperator:
    """A stateful operator of a plan. Its texts have marks of details; see `plan_text.Detail`.

    Attributes:
        kind: Its kind, as `OperatorFacts.kind` has it; without the flavour of transformWithState.
        keys: The columns of its keys; of a join, both sides of each equality.
        values: The buffers of its aggregates, a text for each column.
        sides: The columns that a join keeps, left and right.
        facts: What else decides what it keeps, by a name for people.
        unseen: What its plan does not show: the code of functions.
        function: The function that it calls for each key, and the rows that it is given.
    """

    kind: str
    keys: tuple[Column, ...] = ()
    values: tuple[str, ...] = ()
    sides: tuple[tuple[Column, ...], ...] = ()
    facts: Mapping[str, str] = attrs.field(factory=dict)
    unseen: tuple[str, ...] = ()
    function: str = ""

    def texts(self) -> Iterator[str]:
        """Yield all its texts, with their marks."""
        yield from (column.text for side in (self.keys, *self.sides) for column in side)
        yield from (*self.values, *self.facts.values(), self.function)


@attrs.frozen
class PlannedQuery:
    """The stateful operators of a plan by Spark's numbers, and what they read.

    Attributes:
        operators: The operators.
        sources: The streaming sources, as `sources_of` returns them.
        inputs: The streaming sources and the static tables.
    """

    operators: tuple[PlannedOperator, ...]
    sources: tuple[str, ...]
    inputs: tuple[Input, ...] = ()

    def used(self) -> dict[int, frozenset[str]]:
        """Return the columns that reach the state, by the place of their leaf in the plan."""
        found: dict[int, set[str]] = {}
        for detail in (one for of in self.operators for text in of.texts() for one in details_in(text)):
            if detail.kind == "column":
                found.setdefault(int(detail.value), set()).add(detail.name)
        return {place: frozenset(columns) for place, columns in found.items()}


@attrs.frozen
class _Rows:
    """The rows that a node yields.

    Attributes:
        columns: Name and id of each column.
        texts: What each attribute is computed from, by its id.
        conditions: The conditions that the rows meet, since the last stateful operator, and the columns of each.
        steps: What else happened to them.
        delay: The delay of their watermark, or "".
        times: What the times of their watermarks are computed from.
        unseen: What the plan does not show.
        is_streaming: Whether they come from a stream.
    """

    columns: tuple[tuple[str, int], ...]
    texts: dict[int, str]
    conditions: Mapping[str, frozenset[str]] = attrs.field(factory=dict)
    steps: tuple[str, ...] = ()
    delay: str = ""
    times: frozenset[str] = frozenset()
    unseen: frozenset[str] = frozenset()
    is_streaming: bool = False

    def kept(self) -> tuple[Column, ...]:
        return tuple(Column(name, self.texts.get(of, name)) for name, of in self.columns)

    def facts(self, side: str = "", keys: Iterable[Column] = ()) -> dict[str, str]:
        """Return what decides which rows there are; a condition on keys alone lets all rows of a key pass, or none."""
        of_keys = {key.text for key in keys}
        on_keys = {text for text, columns in self.conditions.items() if columns and columns <= of_keys}
        told = {"filters": " and ".join(sorted(self.conditions.keys() - on_keys)), "rows": "; ".join(self.steps)}
        told |= {f"{FILTER_ON_KEYS}: {text}": text for text in on_keys}
        return {name + side: text for name, text in told.items() if text}


def sources_of(analyzed: Node) -> tuple[str, ...]:
    """Return the streaming sources of an analyzed plan in the order of Spark's offsets.

    Spark counts each place where a source stands: one that is used twice is two of its sources. What the optimizer
    leaves out later counts, too.
    """
    return tuple(
        without_credentials(words_of(node.arguments.get("sourceName")))
        for node in analyzed.within()
        if node.name in SOURCES
    )


def text_of_table(plan: Node) -> str:
    """Return the text of a plan without streams: what happens to its rows, and what its columns are computed from."""
    rows = _Reader({}, {}, {}, is_complete=False, asks_the_time=False).rows(plan)
    return unmarked("; ".join([*rows.steps, *sorted(rows.conditions), *(column.text for column in rows.kept())]))


def read_plan(
    plan: Node,
    analyzed: Node,
    *,
    aggregates: Mapping[int, Buffers],
    delays: Mapping[str, str],
    functions: Mapping[int, FunctionCode],
    is_complete: bool = False,
    asks_the_time: bool = False,
) -> PlannedQuery:
    """Return the stateful operators of an optimized plan, and the sources of the query.

    Args:
        plan: The plan.
        analyzed: The plan as it was before Spark optimized it.
        aggregates: The buffers of each aggregate, by the id of its result.
        delays: The delay of each watermark, by the id of its node.
        functions: The code of Python functions, by the id of their results.
        is_complete: Whether every batch yields the whole state.
        asks_the_time: Whether the present time is part of the query, which the plan has as a constant: then a condition
            on keys may let other keys through in each batch, and is one as any other.
    """
    reader = _Reader(aggregates, delays, functions, is_complete, asks_the_time)
    reader.rows(plan)
    operators = tuple(reader.found[place] for place in sorted(reader.found))
    return PlannedQuery(operators, sources_of(analyzed))


@attrs.define
class _Reader:
    aggregates: Mapping[int, Buffers]
    delays: Mapping[str, str]
    functions: Mapping[int, FunctionCode]
    is_complete: bool
    asks_the_time: bool
    found: dict[int, PlannedOperator] = attrs.field(factory=dict)
    sources: dict[tuple[str, tuple[int, ...]], int] = attrs.field(factory=dict)
    statics: int = 0
    leaves: int = 0
    entered: int = 0

    def rows(self, node: Node) -> _Rows:
        """Return the rows of a node. Operators are numbered on the way down, as Spark does it."""
        self.entered += 1
        place = self.entered
        if node.name in SOURCES:
            return self._source(node)
        inputs = [self.rows(child) for child in node.children]
        if not inputs:
            return self._static(node)
        rows = inputs[0]
        is_stateful = rows.is_streaming and (node.name != "Join" or inputs[1].is_streaming)
        if is_stateful and node.name == "Join":
            return self._joined(node, inputs[0], inputs[1], place)
        if is_stateful and node.name in {"Aggregate", *_DEDUPLICATIONS, *_WITH_FUNCTION, "GlobalLimit"}:
            return self._stateful(node, rows, place)
        if node.name in {"Project", "Filter", "EventTimeWatermark", "Expand", "Union"} or node.name in _PLAIN:
            return self._stateless(node, inputs)
        return self._other(node, inputs)

    def _source(self, node: Node) -> _Rows:
        columns = _columns(node.expressions("output"))
        source = (words_of(node.arguments.get("sourceName")), tuple(of for _, of in columns))
        place = self.sources.setdefault(
            source, self.leaves
        )  # one that stands twice, with the same columns, is one text
        number = list(self.sources).index(source)
        return _Rows(columns, self._leaf(columns, f"@{number}" if number else "", place), is_streaming=True)

    def _static(self, node: Node) -> _Rows:
        self.statics += 1
        columns = _columns(node.expressions("output"))
        return _Rows(columns, self._leaf(columns, f" of table {self.statics}", self.leaves))

    def _leaf(self, columns: tuple[tuple[str, int], ...], of: str, place: int) -> dict[int, str]:
        """Return the texts of the columns of a leaf, with marks that say where they come from."""
        self.leaves += 1
        return {each: Detail("column", name, str(place)).marked(f"{name}{of}") for name, each in columns}

    def _texts(self, known: dict[int, str], unseen: set[str]) -> Texts:
        return Texts(known, unseen, self.functions)

    def _stateless(self, node: Node, inputs: list[_Rows]) -> _Rows:
        rows, unseen = inputs[0], set[str]()
        texts = self._texts(rows.texts, unseen)
        if node.name == "Project":
            listed = node.expressions("projectList")
            rows = attrs.evolve(rows, columns=_columns(listed), texts=rows.texts | _named(listed, texts))
        elif node.name == "Filter":
            (condition,) = node.expressions("condition")
            met = {texts.of(one): _determined_by(one, texts) for one in conjuncts(condition)}
            rows = attrs.evolve(rows, conditions={**rows.conditions, **met})
        elif node.name == "EventTimeWatermark":
            (time,) = node.expressions("eventTime")
            delay = f"{texts.of(time)}, {self.delays.get(str(node.arguments.get('nodeId')), 'unknown')}"
            rows = attrs.evolve(
                rows, delay="; ".join(filter(None, (rows.delay, delay))), times=rows.times | {texts.of(time)}
            )
        elif node.name == "Expand":
            rows = _expanded(node, rows, texts)
        elif node.name == "Union":
            rows = _united(inputs)
        return attrs.evolve(rows, unseen=rows.unseen | unseen)

    def _other(self, node: Node, inputs: list[_Rows]) -> _Rows:
        """Return the rows of a node that is no stateful operator, as a step that is named after it."""
        unseen = set[str]()
        known = {of: text for one in inputs for of, text in one.texts.items()}
        texts = self._texts(known, unseen)
        step = texts.step(node)
        made = _columns(one for name in OUTPUTS for one in node.expressions(name))
        is_join = node.name == "Join"
        kept = [one for each in inputs for one in each.columns] if is_join else list(inputs[0].columns)
        columns = made if any(name in node.arguments for name in ("output", "outputAttrs")) else (*kept, *made)
        is_udf = node.name.endswith("EvalPython")
        if is_udf:  # each result is a function of columns, and nothing happens to the rows
            calls = [texts.of(one) for one in node.expressions("udfs")]
            known |= {of: call for (_, of), call in zip(made, calls, strict=True)}
        else:
            known |= {of: f"{name} of {step}" for name, of in made}
        united = _merged(inputs)
        steps = united.steps if is_udf else (*united.steps, step)
        return attrs.evolve(
            united, columns=tuple(columns), texts=known, steps=steps, unseen=united.unseen | frozenset(unseen)
        )

    def _stateful(self, node: Node, rows: _Rows, place: int) -> _Rows:
        unseen = set[str]()
        texts = self._texts(rows.texts, unseen)
        columns, known = rows.columns, rows.texts
        values: tuple[str, ...] = ()
        function = ""
        if node.name == "Aggregate":
            keys = _keys(node.expressions("groupingExpressions"), texts)
            listed = node.expressions("aggregateExpressions")
            values = tuple(self._buffers(listed, texts))
            is_session = any(key.text.startswith("session_window(") for key in keys)
            kind = SESSION if is_session else AGGREGATION
            columns, known = _columns(listed), rows.texts | _named(listed, texts)
            facts = rows.facts() if self.is_complete else self._facts_of_keys(rows, keys)
        elif node.name in _DEDUPLICATIONS:
            kind, keys = _DEDUPLICATIONS[node.name], _keys(node.expressions("keys"), texts)
            facts = self._facts_of_keys(rows, keys, by_time=kind == WITHIN_WATERMARK)
        elif node.name == "GlobalLimit":
            kind, keys, facts = LIMIT, (), rows.facts()
            facts["limit"] = ", ".join(map(texts.of, node.expressions("limitExpr")))
        else:
            kind, keys, facts, function = self._with_function(node, rows, texts)
            made = _columns(node.expressions("outputAttrs"))
            columns, known = made, rows.texts | {of: f"{name} of {kind}" for name, of in made}
        told = tuple(sorted(rows.unseen | unseen))
        self.found[place] = PlannedOperator(kind, keys, values, facts=facts, unseen=told, function=function)
        step = f"after {kind} of {', '.join(key.text for key in keys) or 'all rows'}"
        step += "".join(f" where {text}" for name, text in sorted(facts.items()) if name.startswith(FILTER_ON_KEYS))
        return attrs.evolve(
            rows, columns=columns, texts=known, conditions={}, steps=(step,),
            unseen=rows.unseen | frozenset(unseen),
        )  # fmt: skip

    def _with_function(
        self, node: Node, rows: _Rows, texts: Texts
    ) -> tuple[str, tuple[Column, ...], dict[str, str], str]:
        """Return kind, keys and facts of an operator that calls a function for each key, and the function."""
        if "groupingAttributes" in node.arguments:
            keys = _keys(node.expressions("groupingAttributes"), texts)
        else:  # the grouping columns are the first of its rows
            keys = rows.kept()[: int(node.arguments.get("groupingAttributesLen") or 0)]
        called = [*map(texts.of, node.expressions("functionExpr")), *(column.text for column in rows.kept())]
        facts = rows.facts() | {
            words: words_of(node.arguments[name]) for name, words in _FACTS.items() if name in node.arguments
        }
        return _WITH_FUNCTION[node.name], keys, facts, " ".join(called)

    def _facts_of_keys(self, rows: _Rows, keys: tuple[Column, ...], *, by_time: bool = False) -> dict[str, str]:
        """Return the facts of an operator that keeps rows by keys; with a time among them it forgets by the watermark.

        Then rows come out of the state for keys that no row asks for, and a condition on keys is one as any other.
        """
        by_time |= any(_is_time(key.text, time) for key in keys for time in rows.times)
        if rows.delay and by_time:
            return rows.facts() | {"watermark": rows.delay}
        return rows.facts(keys=() if self.asks_the_time else keys)

    def _buffers(self, listed: Iterable[Node], texts: Texts) -> Iterator[str]:
        """Yield the text of each buffer; Spark keeps equal aggregates once, in the order of their first use."""
        seen = set()
        for one in listed:
            for aggregate in (part for part in one.within() if part.name == "AggregateExpression"):
                text = texts.of(aggregate)
                if text not in seen:
                    seen.add(text)
                    of = self.aggregates.get(int(aggregate.arguments["resultId"]["id"]), _ONE)
                    made = _of_average(aggregate, texts) if of.count == 2 else [text] * of.count
                    yield from map(of.marked, made)

    def _joined(self, node: Node, left: _Rows, right: _Rows, place: int) -> _Rows:
        unseen = set[str]()
        texts = self._texts(left.texts | right.texts, unseen)
        keys: list[Column] = []
        rest: list[str] = []
        ids = [{of for one in node.children[side].within() for of in _made(one)} for side in (0, 1)]
        for condition in node.expressions("condition"):
            for one in conjuncts(condition):
                pair = _equality(one, ids)
                if pair is None:
                    rest.append(texts.of(one))
                else:
                    keys.append(Column(f"field{len(keys)}", " = ".join(map(texts.of, pair))))
        how = words_of(node.arguments.get("joinType"))
        facts = left.facts(" of the left side") | right.facts(" of the right side")
        facts |= {"kind of join": how, "condition": " and ".join(sorted(rest))}
        facts |= {
            f"watermark of the {side} side": one.delay for side, one in (("left", left), ("right", right)) if one.delay
        }
        self.found[place] = PlannedOperator(
            JOIN, tuple(keys), sides=(left.kept(), right.kept()),
            facts={name: text for name, text in facts.items() if text},
            unseen=tuple(sorted(left.unseen | right.unseen | unseen)),
        )  # fmt: skip
        columns = left.columns if how in {"LeftSemi", "LeftAnti"} else (*left.columns, *right.columns)
        step = f"after {how} join on {', '.join(key.text for key in keys)}"
        return attrs.evolve(
            _merged([left, right]), columns=columns, conditions={}, steps=(step,),
            unseen=left.unseen | right.unseen | frozenset(unseen),
        )  # fmt: skip


def _columns(nodes: Iterable[Node]) -> tuple[tuple[str, int], ...]:
    return tuple((str(node.arguments["name"]), node.expression_id) for node in nodes if "exprId" in node.arguments)


def _named(listed: Iterable[Node], texts: Texts) -> dict[int, str]:
    return {node.expression_id: texts.of(node) for node in listed if "exprId" in node.arguments}


def _keys(nodes: Iterable[Node], texts: Texts) -> tuple[Column, ...]:
    return tuple(Column(str(node.arguments.get("name", "")), texts.of(node)) for node in nodes)


def _determined_by(condition: Node, texts: Texts) -> frozenset[str]:
    """Return the columns that decide a condition; none if chance decides it, too."""
    if any(node.name in _RANDOM for node in condition.within()):
        return frozenset()
    return frozenset(map(texts.of, condition.attributes()))


def _is_time(text: str, time: str) -> bool:
    """Whether a text is an event time, or a window of it: plans as JSON lack Spark's own mark for these."""
    return text == time or (text.startswith(("window(", "session_window(")) and time in text)


def _made(node: Node) -> Iterator[int]:
    """Yield the ids of the columns that a node has."""
    for name in ("projectList", "aggregateExpressions", *OUTPUTS):
        yield from (of for _, of in _columns(node.expressions(name)))


def _equality(condition: Node, ids: list[set[int]]) -> tuple[Node, Node] | None:
    """Return both sides of an equality of the left and the right side of a join, in this order."""
    if condition.name != "EqualTo":
        return None
    used = [
        {one.expression_id for one in side.within() if one.name == "AttributeReference"} for side in condition.children
    ]
    first, second = condition.children
    if not all(used):
        return None
    if used[0] <= ids[0] and used[1] <= ids[1]:
        return first, second
    if used[0] <= ids[1] and used[1] <= ids[0]:
        return second, first
    return None


def _of_average(aggregate: Node, texts: Texts) -> list[str]:
    """Return both buffers of an aggregate; those of an average are a sum of doubles and a count."""
    function, text = aggregate.children[0], texts.of(aggregate)
    of = function.children[0] if function.children else function
    if of.name == "Cast" and of.arguments.get("dataType") == "double":
        of = of.children[0]
    kind = of.arguments.get("dataType")
    is_plain = len(aggregate.children) == 1 and not aggregate.arguments.get("isDistinct")
    if (
        function.name != "Average"
        or not is_plain
        or of.name != "AttributeReference"
        or kind not in {"double", *_WIDENED}
    ):
        return [text, text]
    column = texts.of(of)
    return [f"sum({column if kind == 'double' else f'cast({column} as double)'})", f"count({column})"]


def _expanded(node: Node, rows: _Rows, texts: Texts) -> _Rows:
    made = _columns(node.expressions("output"))
    listed = [[texts.of(_tree_of(one)) for one in each] for each in node.arguments["projections"]]
    known = {of: " or ".join(dict.fromkeys(each[index] for each in listed)) for index, (_, of) in enumerate(made)}
    return attrs.evolve(rows, columns=made, texts=rows.texts | known)


def _tree_of(said: list[dict[str, object]]) -> Node:
    (node,) = Node("", {"one": said}, ()).expressions("one")
    return node


def _united(inputs: list[_Rows]) -> _Rows:
    """Return the rows of a union: each column is that of the first part, or those of all."""
    first, known = inputs[0], {}
    for index, (_, of) in enumerate(first.columns):
        known[of] = " or ".join(dict.fromkeys(one.kept()[index].text for one in inputs))
    conditions = {frozenset(one.conditions) for one in inputs}
    merged = _merged(inputs)
    if len(conditions) > 1:
        told = " or ".join(" and ".join(sorted(one.conditions)) or "all" for one in inputs)
        merged = attrs.evolve(merged, conditions={f"({told})": frozenset()})
    return attrs.evolve(merged, columns=first.columns, texts=merged.texts | known, steps=(*merged.steps, "union"))


def _merged(inputs: list[_Rows]) -> _Rows:
    rows = inputs[0]
    for other in inputs[1:]:
        rows = attrs.evolve(
            rows,
            texts=rows.texts | other.texts,
            conditions={**rows.conditions, **other.conditions},
            steps=(*rows.steps, *other.steps),
            delay="; ".join(filter(None, (rows.delay, other.delay))),
            times=rows.times | other.times,
            unseen=rows.unseen | other.unseen,
            is_streaming=rows.is_streaming or other.is_streaming,
        )
    return rows
