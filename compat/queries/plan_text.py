"""Plans of Spark as text that is equal for equal plans: no ids of expressions, and no order where none matters.

Spark prints a plan as JSON (`TreeNode.toJSON`): the nodes of a tree in pre-order, each with its class, the number of
its children and its arguments; expressions are such trees again. What Java cannot print is null there, such as the
code of a function: `Texts.unseen` lists it.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.errors import UnsupportedFormat, cause_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


_WITHOUT_MEANING = {
    "class", "num-children", "exprId", "resultId", "qualifier", "metadata", "explicitMetadata", "nullable",
    "nonInheritableMetadataKeys", "mutableAggBufferOffset", "inputAggBufferOffset", "udfDeterministic", "hint",
    "evalMode", "evalContext", "nodeId", "dataSource", "source", "table", "extraOptions", "delay", "dedupSpec",
    "unrequiredChildIndex", "seed", "rdd", "session", "outputPartitioning", "outputOrdering", "sourceIdentifyingName",
    "userFacingDataType", "branches", "randomSeed",
}  # fmt: skip
_PASSED = {"Alias", "KnownNullable", "KnownNotNull", "AggregateExpression", "NormalizeNaNAndZero"}
_INFIX = {"Subtract": "-", "Divide": "/", "Remainder": "%", "LessThan": "<", "LessThanOrEqual": "<="}
_TURNED = {"GreaterThan": "<", "GreaterThanOrEqual": "<="}
_UNORDERED = {"EqualTo": "=", "EqualNullSafe": "<=>", "Add": "+", "Multiply": "*"}
_FUNCTIONS = {"PythonUDF": "func", "PythonUDAF": "func", "ScalaUDF": "function", "PythonUDTF": "func"}
OUTPUTS = ("output", "outputAttrs", "generatorOutput", "resultAttrs")
"""The arguments of a node of a plan that list the columns it makes."""
_GREENWICH = {"UTC", "Etc/UTC", "Z", "GMT", "Etc/GMT", "Etc/UCT", "UCT", "Universal", "Zulu", "+00:00"}
_SMALL = ("byte", "short", "integer")
_NUMBERS = {*_SMALL, "long", "float", "double"}
_TO_LONG, _TO_DOUBLE = (
    {(one, to) for one in (*_SMALL, *more)} for to, more in (("long", ()), ("double", ("long", "float")))
)
_WIDENED_BY = {"Sum": _TO_LONG | {("float", "double")}, "Count": _TO_LONG | _TO_DOUBLE, "Average": _TO_DOUBLE}
"""Casts of a column that Spark itself makes before it adds, by the function."""
_NAMED_LATER = {"TimeAdd": "TimestampAddInterval", "TransformWithStateInPandas": "TransformWithStateInPySpark"}
"""Classes that have another name since Spark 4.1, so that the plans of all releases have equal texts."""
_ADDED_LATER: Mapping[str, Mapping[str, Any]] = {
    "CollectList": {"ignoreNulls": True},
    "CollectSet": {"ignoreNulls": True},
    "Sample": {"sampleMethod": {"object": "org.apache.spark.sql.catalyst.plans.logical.SampleMethod.Bernoulli$"}},
}
"""Arguments that plans show since Spark 4.3, with the value that all had before."""
_ADDRESS = re.compile(r"@[0-9a-f]+$")
_UNITS = (("day", 86_400_000_000), ("hour", 3_600_000_000), ("minute", 60_000_000), ("second", 1_000_000))


@attrs.frozen
class Node:
    """A node of a plan or of an expression.

    Attributes:
        name: The name of its class, without the package.
        arguments: Its arguments, as Spark printed them.
        children: The nodes below it.
    """

    name: str
    arguments: Mapping[str, Any] = attrs.field(repr=False)
    children: tuple[Node, ...]

    def expressions(self, argument: str) -> tuple[Node, ...]:
        """Return the expressions of an argument, which has one or several, or none."""
        said = self.arguments.get(argument) or []
        lists = [said] if said and isinstance(said[0], dict) else said
        return tuple(_tree(iter(one)) for one in lists)

    def within(self) -> Iterator[Node]:
        """Yield the node and all nodes below it, from the top."""
        yield self
        for child in self.children:
            yield from child.within()

    def attributes(self) -> Iterator[Node]:
        """Yield the attributes that an expression is computed from."""
        return (one for one in self.within() if one.name == "AttributeReference")

    @property
    def expression_id(self) -> int:
        """The id of an attribute or a named expression."""
        return int(self.arguments["exprId"]["id"])


def parse_plan(text: str) -> Node:
    """Return the tree that a plan's JSON describes.

    Raises:
        UnsupportedFormat: It is not of the form that this release reads.
    """
    try:
        return _tree(iter(json.loads(text)))
    except (ValueError, KeyError, TypeError, StopIteration, RuntimeError) as error:
        raise UnsupportedFormat(
            f"Spark printed the plan of the query in a form that is not known: {cause_text(error)}",
            advice="use a release of stateshift that was tried with this release of Spark",
        ) from error


def _tree(nodes: Iterator[dict[str, Any]]) -> Node:
    said = next(nodes)
    children = tuple(_tree(nodes) for _ in range(said["num-children"]))
    name = str(said["class"]).rpartition(".")[2]
    name = _NAMED_LATER.get(name, name)
    later = {argument: of for argument, of in _ADDED_LATER.get(name, {}).items() if argument not in said}
    return Node(name, {**said, **later}, children)


def conjuncts(condition: Node) -> Iterator[Node]:
    """Yield the parts of a condition that all have to hold."""
    if condition.name == "And":
        for child in condition.children:
            yield from conjuncts(child)
    else:
        yield condition


_MARK = re.compile("\x00([^\x00]*)\x00")


@attrs.frozen
class Detail:
    """What decides what an expression yields, and is not part of its text.

    Attributes:
        kind: `column`, `function`, `seed` or `type`.
        name: The column, the name of the function, or the class of an aggregate and its text.
        value: The place of the column's leaf in the plan, the fingerprint of the function, the seed, or the types.
        unread: Why a function is not read whole, or "".
    """

    kind: str
    name: str
    value: str
    unread: str = ""

    def marked(self, text: str) -> str:
        """Return a text with a mark behind it, which has the detail; it sorts as the text does."""
        return f"{text}\x00{json.dumps([self.kind, self.name, self.value, self.unread])}\x00"


def details_in(text: str) -> tuple[Detail, ...]:
    """Return the details that a text has marks of, each once, in their order."""
    return tuple(dict.fromkeys(Detail(*json.loads(said)) for said in _MARK.findall(text)))


def unmarked(text: str) -> str:
    """Return a text without its marks."""
    return _MARK.sub("", text)


@attrs.frozen
class Texts:
    """The text of expressions, in which an attribute stands as what it is computed from.

    Attributes:
        known: The text of each attribute, by the id of its expression.
        unseen: What was met that has no text: the code of functions.
        functions: The code of Python functions, by the id of their results.
    """

    known: Mapping[int, str]
    unseen: set[str] = attrs.field(factory=set)
    functions: Mapping[int, FunctionCode] = attrs.field(factory=dict)

    def of(self, node: Node) -> str:
        """Return the text of an expression."""
        if node.name == "AttributeReference":
            return self.known.get(node.expression_id, str(node.arguments["name"]))
        if node.name == "AggregateExpression":
            return self._aggregate(node)
        if node.name in _PASSED:
            return self.of(node.children[0])
        written = _WRITTEN.get(node.name)
        return written(self, node) if written else self._other(node)

    def _aggregate(self, node: Node) -> str:
        function, *condition = (self.of(child) for child in node.children)
        distinct = "distinct " if node.arguments.get("isDistinct") else ""
        return f"{distinct}{function}" + "".join(f" where {one}" for one in condition)

    def _literal(self, node: Node) -> str:
        value, kind = node.arguments.get("value"), node.arguments["dataType"]
        if value is None:
            return "null"
        text = str(value)
        if _ADDRESS.search(text):
            self.unseen.add(f"a constant of type {kind}")
            return f"a constant of type {kind}"
        if str(kind).startswith("interval ") and text.lstrip("-").isdigit():
            return _duration(node) if "month" not in str(kind) and "year" not in str(kind) else f"{text} months"
        return repr(text) if kind == "string" else text

    def _cast(self, node: Node) -> str:
        zone = zone_name(node.arguments.get("timeZoneId"))
        of, to = _type(node.children[0]), _type(node)
        is_of_time = any("timestamp" in one or one == "" for one in (of, to))
        needs_zone = zone and is_of_time and not {of, to} & _NUMBERS
        word = words_of(node.arguments["dataType"])
        return f"cast({self.of(node.children[0])} as {word}{f' in {zone}' if needs_zone else ''})"

    def _of_numbers(self, node: Node) -> str:
        """Return the text of a sum, a count or an average, without a cast that Spark itself makes."""
        first, *rest = node.children
        if (_type(first.children[0]) if first.name == "Cast" else "", _type(first)) in _WIDENED_BY[node.name]:
            first = first.children[0]
        if node.name == "Average":
            return f"avg({self.of(first)})"
        return f"{node.name.lower()}({', '.join([self.of(first), *map(self.of, rest), *self._arguments(node)])})"

    def _named_struct(self, node: Node) -> str:
        texts = [self.of(child) for child in node.children]
        return _window(node, self) or f"struct({', '.join(texts)})"

    def _function(self, node: Node) -> str:
        name = node.arguments.get("name") or node.arguments.get("udfName")
        name = words_of(name) if name else "a function"
        text = f"{name}({', '.join(map(self.of, node.children))})"
        code = self.functions.get(int((node.arguments.get("resultId") or {}).get("id", -1)))
        if code is None:
            self.unseen.add(f"the code of {name}")
            return text
        return Detail("function", code.name or name, code.fingerprint, code.unread).marked(text)

    def step(self, node: Node) -> str:
        """Return the text of a node of a plan, without its inputs and the columns that it makes."""
        text = f"{node.name.lower()}({', '.join(self._arguments(node))})"
        return Detail("seed", "", str(node.arguments.get("seed"))).marked(text) if node.name == "Sample" else text

    def _other(self, node: Node) -> str:
        """Return the name of an expression's class with its children, and the arguments that are not children."""
        return f"{node.name.lower()}({', '.join([*map(self.of, node.children), *self._arguments(node)])})"

    def _in(self, node: Node) -> str:
        value, *listed = map(self.of, node.children)
        return f"{value} in ({', '.join(sorted(set(listed)))})"

    def _arguments(self, node: Node) -> list[str]:
        arguments = []
        for name, value in node.arguments.items():
            if name in _WITHOUT_MEANING or name in OUTPUTS or _is_place(value, node):
                continue
            if value is None:
                self.unseen.add(f"{name} of {node.name}")
                continue
            value = zone_name(value) if name == "timeZoneId" else value  # noqa: PLW2901
            inner = node.expressions(name) if _has_expressions(value) else ()
            text = ", ".join(map(self.of, inner)) if inner else words_of(value)
            if '"exprId"' in text:  # an expression in another form: its ids are other ones in each plan
                self.unseen.add(f"{name} of {node.name}")
            elif text not in {"", "false"}:
                arguments.append(f"{name}={text}")
        return arguments


def _is_place(value: Any, node: Node) -> bool:
    """Whether an argument only says which child it is."""
    places = value if isinstance(value, list) else [value]
    return all(type(one) is int and 0 <= one < len(node.children) for one in places)


def _has_expressions(value: Any) -> bool:
    first = value[0] if isinstance(value, list) and value else None
    first = first[0] if isinstance(first, list) and first else first
    return isinstance(first, dict) and "num-children" in first


def words_of(value: Any) -> str:
    """Return an argument that is no expression in words: a type, an object of Scala, a text."""
    if isinstance(value, dict):
        if "object" in value:
            return str(value["object"]).rstrip("$").rpartition(".")[2].rpartition("$")[2]
        return json.dumps({name: one for name, one in value.items() if name != "metadata"}, sort_keys=True)
    return json.dumps(value) if isinstance(value, bool | list) else str(value)


def zone_name(said: Any) -> str:
    """Return a time zone; that of Greenwich has many names."""
    return "UTC" if said in _GREENWICH else str(said or "")


def _type(node: Node) -> str:
    return str(node.arguments.get("dataType", ""))


def _sorted(sign: str) -> Callable[[Texts, Node], str]:
    return lambda texts, node: f"({f' {sign} '.join(sorted(map(texts.of, node.children)))})"


def _in_order(sign: str, *, turned: bool = False) -> Callable[[Texts, Node], str]:
    def write(texts: Texts, node: Node) -> str:
        parts = [texts.of(child) for child in node.children]
        return f"({f' {sign} '.join(parts[::-1] if turned else parts)})"

    return write


def _all(texts: Texts, node: Node) -> str:
    return f"({' and '.join(sorted({texts.of(one) for one in conjuncts(node)}))})"


def _any(texts: Texts, node: Node) -> str:
    def parts(of: Node) -> Iterator[Node]:
        if of.name == "Or":
            for child in of.children:
                yield from parts(child)
        else:
            yield of

    return f"({' or '.join(sorted({texts.of(one) for one in parts(node)}))})"


_WRITTEN: dict[str, Callable[[Texts, Node], str]] = {
    "Rand": lambda _, __: "rand()",  # Spark takes another seed in each batch, whatever the query says
    "Randn": lambda _, __: "randn()",
    "Literal": Texts._literal,  # noqa: SLF001 - its own
    "Cast": Texts._cast,  # noqa: SLF001
    "CreateNamedStruct": Texts._named_struct,  # noqa: SLF001
    **dict.fromkeys(_FUNCTIONS, Texts._function),  # noqa: SLF001
    **{name: _sorted(sign) for name, sign in _UNORDERED.items()},
    **{name: _in_order(sign) for name, sign in _INFIX.items()},
    **{name: _in_order(sign, turned=True) for name, sign in _TURNED.items()},
    "In": Texts._in,  # noqa: SLF001
    "And": _all,
    "Or": _any,
    **dict.fromkeys(_WIDENED_BY, Texts._of_numbers),  # noqa: SLF001
    "IsNotNull": lambda texts, node: f"{texts.of(node.children[0])} is not null",
    "IsNull": lambda texts, node: f"{texts.of(node.children[0])} is null",
    "TimestampAddInterval": lambda texts, node: f"({' + '.join(map(texts.of, node.children))})",
}


def _window(node: Node, texts: Texts) -> str:
    """Return the text of a window or of a session in the words of its author; "": it is another struct.

    Spark writes the start of a window as arithmetic on microseconds, in which each duration stands several times.
    """
    if [str(one.arguments.get("value")) for one in node.children[::2]] != ["start", "end"]:
        return ""
    start, end = (_without_conversion(one) for one in node.children[1::2])
    if end.name == "TimestampAddInterval" and texts.of(end.children[0]) == texts.of(start):
        return f"session_window({texts.of(start)}, {texts.of(end.children[1])})"
    if end.name != "Add" or start.name != "Subtract":
        return ""
    length, step = end.children[1], _step_of(start)
    if step is None or texts.of(end.children[0]) != texts.of(start):
        return ""
    time, begin, slide = step
    words = f"window({texts.of(time)}, {_duration(length)}"
    if slide.arguments["value"] != length.arguments["value"]:
        words += f", every {_duration(slide)}"
    start_time = begin.arguments["value"]
    if start_time != "0":
        words += f", from {_duration(begin)}"
    back = start.children[1].arguments["value"]
    return f"{words}, back {_duration(start.children[1])})" if back != "0" else f"{words})"


def _step_of(start: Node) -> tuple[Node, Node, Node] | None:
    """Return time, beginning and step of a window's start: `t - (t - beginning) mod step - back`."""
    last = start.children[0]
    if last.name != "Subtract" or last.children[1].name != "CaseWhen" or start.children[1].name != "Literal":
        return None
    remainders = [one for one in last.children[1].within() if one.name == "Remainder"]
    if not remainders or remainders[0].children[0].name != "Subtract":
        return None
    difference, slide = remainders[0].children
    time, begin = difference.children
    if slide.name != "Literal" or begin.name != "Literal":
        return None
    return _without_conversion(time), begin, slide


def _without_conversion(node: Node) -> Node:
    while node.name in {"PreciseTimestampConversion", "KnownNullable"}:
        node = node.children[0]
    return node


def _duration(literal: Node) -> str:
    return duration(int(literal.arguments["value"]))


def duration(micros: int) -> str:
    """Return a number of microseconds in words."""
    for word, unit in _UNITS:
        if micros and micros % unit == 0:
            count = micros // unit
            return f"{count} {word}{'' if count == 1 else 's'}"
    return f"{micros} microseconds"


@attrs.frozen
class FunctionCode:
    """The code of a function.

    Attributes:
        fingerprint: Its fingerprint; of one that is not read whole, that of its own code alone, or "".
        unread: Why it is not read whole, or "".
        name: Its name, if it is another one than that in the plan: the class of a processor.
    """

    fingerprint: str
    unread: str = ""
    name: str = ""
