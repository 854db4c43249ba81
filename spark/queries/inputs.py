"""What a query reads: its streaming sources and its static tables, with all that decides their rows.

A plan as JSON has the names of sources and columns alone. The rest lies in Java's objects: formats, options, places,
the rows of a local table. Of a table the place and the form are compared, never its contents, except for rows that are
part of the query itself: of these there is a digest. No source is read for it.
"""

from __future__ import annotations

import json
import pickle
import types
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.fingerprint import UNKNOWN, closure_of, fingerprint, is_users
from ...compat.queries.inputs import SESSION_ZONE, SOURCES, Input
from ...compat.queries.options import OF_TEXT, options_of, without_credentials
from ...compat.queries.plan_text import parse_plan
from ...serializers.spark_rows.spark_types import SparkType, parse_struct
from .java import function_of, items_of, kind_of, private, within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ...compat.queries.plan_text import Node

_CACHED = "InMemoryRelation"
_ZONE = "spark.sql.session.timeZone"
_MOST_ROWS, _MOST_BYTES = 100_000, 16 << 20
"""The largest tables of rows of which a digest is made."""


def read_inputs(
    analyzed: Any,
    optimized: Any,
    used: Mapping[int, frozenset[str]],
    settings: Mapping[str, str],
    text_of: Callable[[Node], str],
) -> tuple[Input, ...]:
    """Return what a planned query reads: first its sources in the order of Spark's offsets, then its static tables.

    Args:
        analyzed: The plan before Spark optimized it; it has all sources.
        optimized: The plan.
        used: The columns that reach the state, by the place of the leaf in the optimized plan.
        settings: The settings of the session.
        text_of: The text of a plan of a table that is cached.
    """
    leaves = [(leaf, used.get(place, frozenset())) for place, leaf in enumerate(_leaves(optimized))]
    found = [(_ids(leaf), columns) for leaf, columns in leaves if _is_source(leaf)]
    sources = []
    for leaf in (one for one in _leaves(analyzed) if _is_source(one)):
        ids = _ids(leaf)
        same = [columns for of, columns in found if of & ids] or [columns for _, columns in found]
        sources.append(_source(leaf, frozenset().union(*same), settings))
    tables = [
        _cached(leaf, columns, settings, text_of) if kind_of(leaf) == _CACHED else _table(leaf, columns, settings)
        for leaf, columns in leaves
        if not _is_source(leaf)
    ]
    return (*sources, *tables)


def _leaves(plan: Any) -> Iterator[Any]:
    return (one for one in within(plan) if not one.children().size())


def _is_source(leaf: Any) -> bool:
    return kind_of(leaf) in SOURCES


def _node(leaf: Any) -> Node:
    return parse_plan(leaf.toJSON())


def _ids(leaf: Any) -> frozenset[int]:
    return frozenset(one.expression_id for one in _node(leaf).expressions("output"))


def _schema(leaf: Any) -> SparkType | None:
    fields = [
        {"name": one.arguments["name"], "type": one.arguments["dataType"], "nullable": True}
        for one in _node(leaf).expressions("output")
    ]
    try:
        return parse_struct(json.dumps({"type": "struct", "fields": fields}))
    except Exception:  # noqa: BLE001 - a type that this release does not know; then nothing is claimed
        return None


def _source(leaf: Any, used: frozenset[str], settings: Mapping[str, str]) -> Input:
    name = without_credentials(str(leaf.sourceName()))
    if kind_of(leaf) == "StreamingRelation":
        of = leaf.dataSource()
        kind, given = _word(of.className()), _of_scala(of.options())
    else:
        kind, given = _word(leaf.sourceName()), dict(leaf.extraOptions().asCaseSensitiveMap())
    return _made(Input(name, kind, is_stream=True), leaf, used, given, settings)


def _made(base: Input, leaf: Any, used: frozenset[str], given: Mapping[Any, Any], settings: Mapping[str, str]) -> Input:
    schema = _schema(leaf)
    options, others = options_of(base.kind, {str(name): str(value) for name, value in given.items()})
    if base.kind in OF_TEXT and "timezone" not in options and (schema is None or _has_times(schema, used)):
        others[SESSION_ZONE] = settings.get(_ZONE, "")
    return attrs.evolve(base, schema=schema, used=tuple(sorted(used)), options=options, other_options=others)


def _has_times(schema: SparkType, used: frozenset[str]) -> bool:
    return any(one.word == "timestamp" for of in schema.fields if of.name in used for one in of.type.within())


def _word(name: Any) -> str:
    return str(name).rpartition(".")[2].lower()


def _of_scala(of: Any) -> dict[str, str]:
    """Return a map of Scala."""
    found, each = {}, of.iterator()
    while each.hasNext():
        pair = each.next()
        found[str(pair._1())] = str(pair._2())  # noqa: SLF001 - Scala's
    return found


def _table(leaf: Any, used: frozenset[str], settings: Mapping[str, str]) -> Input:
    """Return a static table. What a release of Spark has in another form than this one knows is told to be unread."""
    kind = kind_of(leaf)
    plain = Input(kind, "", is_stream=False, schema=_schema(leaf), used=tuple(sorted(used)))
    try:
        return _TABLES[kind](leaf, used, settings, plain)
    except Exception:  # noqa: BLE001 - a kind that is not known, or one of the many errors of py4j
        return attrs.evolve(plain, unread="the kind")


def _relation(leaf: Any, used: frozenset[str], settings: Mapping[str, str], plain: Input) -> Input:
    of, kind = leaf.relation(), kind_of(leaf.relation())
    if kind == "HadoopFsRelation":
        name = ", ".join(sorted(without_credentials(str(one)) for one in items_of(of.location().rootPaths())))
        word, given = _word(of.fileFormat().shortName()), _of_scala(of.options())
    elif kind == "JDBCRelation":
        given = _of_scala(of.jdbcOptions().parameters())
        word, name = "jdbc", without_credentials(given.get("url", ""))
    else:
        return attrs.evolve(plain, name=kind, unread="the kind")
    base = attrs.evolve(plain, name=name, kind=word, unread="the contents")
    return _made(base, leaf, used, given, settings)


def _scanned(leaf: Any, used: frozenset[str], settings: Mapping[str, str], plain: Input) -> Input:
    of = leaf.relation() if hasattr(leaf, "relation") and "Scan" in plain.name else leaf
    name = without_credentials(str(of.table().name()))
    base = attrs.evolve(plain, name=name, kind=_word(kind_of(of.table())), unread="the contents")
    return _made(base, leaf, used, dict(of.options().asCaseSensitiveMap()), settings)


def _range(leaf: Any, _: frozenset[str], __: Mapping[str, str], plain: Input) -> Input:
    return attrs.evolve(plain, name=f"range({leaf.start()}, {leaf.end()}, {leaf.step()})", kind="range")


def _one_row(_: Any, __: frozenset[str], ___: Mapping[str, str], plain: Input) -> Input:
    return attrs.evolve(plain, name="one row", kind="one row")


def _local(leaf: Any, _: frozenset[str], __: Mapping[str, str], plain: Input) -> Input:
    rows = str(leaf.data().mkString("\n")) if leaf.data().size() <= _MOST_ROWS else ""
    if not rows or "[B@" in rows:  # the text of an array of Java is not what is in it
        return attrs.evolve(plain, name="rows of the query", kind="rows", unread="the rows")
    return attrs.evolve(plain, name="rows of the query", kind="rows", rows=_digest(rows))


def _of_rdd(leaf: Any, used: frozenset[str], _: Mapping[str, str], plain: Input) -> Input:
    plain = attrs.evolve(plain, name="rows of the query", kind="rows")
    found = _parallelized(leaf.rdd())
    if found is None:
        return attrs.evolve(plain, unread="the rows")
    chunks, functions = found
    rows = [row for chunk in chunks for row in pickle.loads(chunk)]  # noqa: S301 - PySpark of this process wrote it
    told = [fingerprint(one) for one in functions]
    if any(one.startswith(UNKNOWN) for one in told):
        return attrs.evolve(plain, unread="the rows")
    if not functions and plain.schema is not None and all(type(row) is tuple for row in rows):
        places = [at for at, field in enumerate(plain.schema.fields) if field.name in used]
        rows = [tuple(row[at] for at in places) for row in rows]
    code = told[0].partition(":")[0] + ":" if told else ""
    return attrs.evolve(plain, rows=code + _digest("\n".join([*sorted(map(repr, rows)), *told])))


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _parallelized(rdd: Any) -> tuple[list[bytes], list[Any]] | None:
    """Return the pickled rows that an RDD was made of, and the user's functions that they go through; None: others."""
    functions: list[Any] = []
    while (kind := kind_of(rdd)) != "ParallelCollectionRDD":
        if kind == "PythonRDD":
            functions += _users(function_of(private(rdd, "func")), set())
        parents = rdd.dependencies()
        if parents.size() != 1:
            return None
        rdd = parents.apply(0).rdd()
    chunks: list[bytes] = []
    for one in items_of(private(rdd, "data")):
        chunks.append(bytes(one))
        if sum(map(len, chunks)) > _MOST_BYTES:
            return None
    return chunks, functions


def _users(function: Any, seen: set[int]) -> Iterator[Any]:
    """Yield the user's functions in the closure of a function of PySpark."""
    if id(function) in seen or not isinstance(function, types.FunctionType):
        return
    seen.add(id(function))
    if is_users(function):
        yield function
        return
    for one in closure_of(function):
        yield from _users(one, seen)


def _cached(leaf: Any, used: frozenset[str], settings: Mapping[str, str], text_of: Callable[[Node], str]) -> Input:
    """Return a table that is cached: the text of the plan that made it, and what that reads."""
    plan = leaf.cacheBuilder().logicalPlan()
    told = {"plan": text_of(_node(plan))}
    unread = ""
    for number, one in enumerate(_leaves(plan), start=1):
        schema = _schema(one)
        inner = _table(one, frozenset(() if schema is None else schema.names), settings)
        facts = {"place": inner.name, "format": inner.kind, "rows": inner.rows, **inner.options}
        told |= {f"{name} of table {number} in it": value for name, value in facts.items() if value}
        unread = unread or inner.unread
    return Input("a cached table", "cache", False, _schema(leaf), tuple(sorted(used)), told, unread=unread)  # noqa: FBT003


_TABLES: dict[str, Callable[[Any, frozenset[str], Mapping[str, str], Input], Input]] = {
    "LogicalRelation": _relation,
    "DataSourceV2Relation": _scanned,
    "DataSourceV2ScanRelation": _scanned,
    "Range": _range,
    "OneRowRelation": _one_row,
    "LocalRelation": _local,
    "LogicalRDD": _of_rdd,
}
