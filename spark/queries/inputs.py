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
from ...compat.queries.options import OF_TEXT, Options, options_of, without_credentials
from ...compat.queries.plan_text import parse_plan, zone_name
from ...serializers.compatibility import Finding, Flag, Verdict
from ...serializers.spark_rows.rules import resolve
from ...serializers.spark_rows.spark_types import SparkType, parse_struct, schema_text
from ...serializers.ways_out import Option, WayOut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ...compat.queries.plan_text import Node

SOURCES = {"StreamingRelation", "StreamingRelationV2", "StreamingExecutionRelation", "StreamingDataSourceV2Relation"}
_BY_POSITION = {"csv"}
_CACHED = "InMemoryRelation"
_ZONE = "spark.sql.session.timeZone"
_SESSION_ZONE = "time zone of the session"
_ZONES = {_SESSION_ZONE, "timezone"}
_MOST_ROWS, _MOST_BYTES = 100_000, 16 << 20
"""The largest tables of rows of which a digest is made."""
_NEW = "start the new query with a new checkpoint"


@attrs.frozen
class Input:
    """A streaming source or a static table of a query.

    Attributes:
        name: Its name: a source as Spark names it, or the place of a table.
        kind: Its format, such as `json`; "" where it is not known.
        is_stream: Whether it is a stream.
        schema: Its columns; None: they have types that are not known.
        used: The columns that reach the state of an operator.
        options: Its options, as far as they are compared.
        rows: A digest of its rows, if they are part of the query.
        unread: What of it is not compared, or "".
    """

    name: str
    kind: str
    is_stream: bool
    schema: SparkType | None = None
    used: tuple[str, ...] = ()
    options: Options = attrs.field(factory=Options)
    rows: str = ""
    unread: str = ""


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
        _cached(leaf, columns, settings, text_of) if _name_of(leaf) == _CACHED else _table(leaf, columns, settings)
        for leaf, columns in leaves
        if not _is_source(leaf)
    ]
    return (*sources, *tables)


def _leaves(plan: Any) -> Iterator[Any]:
    children = plan.children()
    if not children.size():
        yield plan
    for index in range(children.size()):
        yield from _leaves(children.apply(index))


def _is_source(leaf: Any) -> bool:
    return str(leaf.getClass().getSimpleName()) in SOURCES


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
    if leaf.getClass().getSimpleName() == "StreamingRelation":
        of = leaf.dataSource()
        kind, given = _word(of.className()), _of_scala(of.options())
    else:
        kind, given = _word(leaf.sourceName()), dict(leaf.extraOptions().asCaseSensitiveMap())
    return _made(Input(name, kind, is_stream=True), leaf, used, given, settings)


def _made(base: Input, leaf: Any, used: frozenset[str], given: Mapping[Any, Any], settings: Mapping[str, str]) -> Input:
    schema, options = _schema(leaf), options_of(base.kind, {str(name): str(value) for name, value in given.items()})
    if base.kind in OF_TEXT and "timezone" not in options.of_rows and (schema is None or _has_times(schema, used)):
        options = attrs.evolve(options, unknown={**options.unknown, _SESSION_ZONE: settings.get(_ZONE, "")})
    return attrs.evolve(base, schema=schema, used=tuple(sorted(used)), options=options)


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
    kind = str(leaf.getClass().getSimpleName())
    plain = Input(kind, "", is_stream=False, schema=_schema(leaf), used=tuple(sorted(used)))
    try:
        return _TABLES[kind](leaf, used, settings, plain)
    except Exception:  # noqa: BLE001 - a kind that is not known, or one of the many errors of py4j
        return attrs.evolve(plain, unread="the kind")


def _relation(leaf: Any, used: frozenset[str], settings: Mapping[str, str], plain: Input) -> Input:
    of, kind = leaf.relation(), str(leaf.relation().getClass().getSimpleName())
    if kind == "HadoopFsRelation":
        places = of.location().rootPaths()
        name = ", ".join(sorted(without_credentials(str(places.apply(at))) for at in range(places.size())))
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
    base = attrs.evolve(plain, name=name, kind=_word(of.table().getClass().getSimpleName()), unread="the contents")
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
    from pyspark import cloudpickle

    functions: list[Any] = []
    while (kind := str(rdd.getClass().getSimpleName())) != "ParallelCollectionRDD":
        if kind == "PythonRDD":
            command = bytes(_private(rdd, "func").command().unsafeArray())
            functions += _users(cloudpickle.loads(command)[0], set())
        parents = rdd.dependencies()
        if parents.size() != 1:
            return None
        rdd = parents.apply(0).rdd()
    data = _private(rdd, "data")
    chunks: list[bytes] = []
    for at in range(data.size()):
        chunks.append(bytes(data.apply(at)))
        if sum(map(len, chunks)) > _MOST_BYTES:
            return None
    return chunks, functions


def _users(function: Any, seen: set[int]) -> Iterator[Any]:
    """Yield the user's functions in the closures of one of PySpark."""
    if id(function) in seen or not isinstance(function, types.FunctionType):
        return
    seen.add(id(function))
    if is_users(function):
        yield function
        return
    for one in closure_of(function):
        yield from _users(one, seen)


def _private(java: Any, name: str) -> Any:
    field = java.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(java)


def _cached(leaf: Any, used: frozenset[str], settings: Mapping[str, str], text_of: Callable[[Node], str]) -> Input:
    """Return a table that is cached: the text of the plan that made it, and what that reads."""
    plan = leaf.cacheBuilder().logicalPlan()
    told = {"plan": text_of(_node(plan))}
    unread = ""
    for number, one in enumerate(_leaves(plan), start=1):
        schema = _schema(one)
        inner = _table(one, frozenset(() if schema is None else schema.names), settings)
        facts = {"place": inner.name, "format": inner.kind, "rows": inner.rows, **inner.options.of_rows}
        told |= {f"{name} of table {number} in it": value for name, value in facts.items() if value}
        unread = unread or inner.unread
    return Input("a cached table", "cache", False, _schema(leaf), tuple(sorted(used)), Options(told), unread=unread)  # noqa: FBT003


def _name_of(plan: Any) -> str:
    return str(plan.getClass().getSimpleName())


_TABLES: dict[str, Callable[[Any, frozenset[str], Mapping[str, str], Input], Input]] = {
    "LogicalRelation": _relation,
    "DataSourceV2Relation": _scanned,
    "DataSourceV2ScanRelation": _scanned,
    "Range": _range,
    "OneRowRelation": _one_row,
    "LocalRelation": _local,
    "LogicalRDD": _of_rdd,
}


def inputs_changed(was: tuple[Input, ...], now: tuple[Input, ...]) -> Iterator[Finding]:
    """Yield what is another in what a query reads; that a source has another name is told elsewhere."""
    for is_stream in (True, False):
        sides = ([one for one in side if one.is_stream is is_stream] for side in (was, now))
        word, first = ("source", 0) if is_stream else ("table", 1)
        for number, (before, after) in enumerate(zip(*sides, strict=False), start=first):
            if not is_stream or before.name == after.name:
                yield from _changed(f"$<{word} {number}>", before, after)


def _changed(path: str, was: Input, now: Input) -> Iterator[Finding]:
    refused = list(_others(was, now))
    rule, what = ("SPK-15", "source") if was.is_stream else ("SPK-13", "table")
    told = f"the state is of the rows that the {what} had before; from now on they are read in another way"
    for of, before, after in refused:
        yield Finding(
            path, rule, Verdict.INCOMPATIBLE, f"{of}: {before}", f"{of}: {after}", told,
            (
                "read it as the old query does", _NEW,
                WayOut.telling("accept it, if the rows are the same:", Option.ACCEPT, rule),
            ),
        )  # fmt: skip
    for of, before, after in _unclear(was, now):
        yield Finding(
            path, rule, Verdict.COMPATIBLE, f"{of}: {before}", f"{of}: {after}",
            f"it is not known whether other rows come from the {what} by it", flags=(Flag.UNVERIFIED,),
        )  # fmt: skip


def _others(was: Input, now: Input) -> Iterator[tuple[str, str, str]]:
    """Yield what decides rows, and is another: what it is, and both sides of it."""
    if was.name != now.name:
        yield "place", was.name, now.name
    if was.kind != now.kind:
        yield "format", was.kind, now.kind
        return
    yield from _differences(was.options.of_rows, now.options.of_rows)
    if was.rows and now.rows and was.rows != now.rows and _python(was.rows) == _python(now.rows):
        yield "rows", was.rows[:12], now.rows[:12]
    if was.schema is None or now.schema is None:
        return
    if (_depends_on_all(was) or _depends_on_all(now)) and was.schema.describe() != now.schema.describe():
        yield "columns", was.schema.describe(), now.schema.describe()
        return
    for name in sorted({*was.used} & {*now.used}):
        before, after = _column(was.schema, name), _column(now.schema, name)
        if before is None or after is None:
            continue
        if was.kind in _BY_POSITION and before[0] != after[0]:
            yield f"column {name}", f"position {before[0] + 1}", f"position {after[0] + 1}"
        if any(one.rule == "SPK-6" for one in resolve(before[1], after[1])):
            yield f"column {name}", before[1].describe(), after[1].describe()


def _python(digest: str) -> str:
    return digest.rpartition(":")[0]


def _depends_on_all(of: Input) -> bool:
    """Whether each column decides which rows there are, used or not: where one that does not fit makes a row fail."""
    corrupt = of.options.of_rows.get("columnnameofcorruptrecord", "_corrupt_record")
    has_corrupt = of.schema is not None and corrupt in of.schema.names
    return of.kind in OF_TEXT and (has_corrupt or of.options.of_rows.get("mode", "permissive") != "permissive")


def _column(schema: SparkType, name: str) -> tuple[int, SparkType] | None:
    return next(((at, one.type) for at, one in enumerate(schema.fields) if one.name == name), None)


def _unclear(was: Input, now: Input) -> Iterator[tuple[str, str, str]]:
    """Yield what may decide rows, and is another."""
    yield from _differences(was.options.unknown, now.options.unknown)
    if was.rows and now.rows and _python(was.rows) != _python(now.rows):
        yield "rows", was.rows[:12], now.rows[:12]
    if bool(was.rows) != bool(now.rows) and was.kind == now.kind:
        yield "rows", was.rows[:12], now.rows[:12]
    if was.schema is None or now.schema is None:
        return
    for name in sorted({*was.used} & {*now.used}):
        before, after = _column(was.schema, name), _column(now.schema, name)
        rules = {one.rule for one in resolve(before[1], after[1])} if before and after else set()
        if before and after and "SPK-5" in rules and "SPK-6" not in rules:  # what did not fit was read as null
            yield f"column {name}", before[1].describe(), after[1].describe()


def _differences(was: Mapping[str, str], now: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    for name in sorted({*was, *now}):
        before, after = was.get(name), now.get(name)
        if name in _ZONES and before and after and zone_name(before) == zone_name(after):
            continue
        if before != after:
            yield name, "not set" if before is None else repr(before), "not set" if after is None else repr(after)


def tables_not_compared(inputs: Iterable[Input]) -> Iterator[str]:
    """Yield what of the static tables of a query is not compared."""
    for number, one in enumerate((one for one in inputs if not one.is_stream), start=1):
        if one.unread:
            yield f"{one.unread} of table {number} ({f'{one.kind} ' * bool(one.kind)}{one.name})"


def input_data(one: Input) -> dict[str, Any]:
    """Return an input as plain data."""
    return {
        "name": one.name,
        "kind": one.kind,
        "is_stream": one.is_stream,
        "schema": None if one.schema is None else schema_text(one.schema),
        "used": list(one.used),
        "options": dict(one.options.of_rows),
        "other_options": dict(one.options.unknown),
        "rows": one.rows,
        "unread": one.unread,
    }


def input_of(data: dict[str, Any]) -> Input:
    """Return the input that `input_data` returned as data.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: It is no such data.
    """
    return Input(
        str(data["name"]),
        str(data["kind"]),
        bool(data["is_stream"]),
        None if data["schema"] is None else parse_struct(str(data["schema"])),
        tuple(map(str, data["used"])),
        Options(*({str(name): str(value) for name, value in data[of].items()} for of in ("options", "other_options"))),
        str(data["rows"]),
        str(data["unread"]),
    )
