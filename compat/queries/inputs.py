"""What a query reads, as data: its sources and tables, and how those of two queries differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.compatibility import Finding, Flag, Path, Verdict
from ...serializers.spark_rows.rules import resolve
from ...serializers.spark_rows.spark_types import SparkType, parse_struct, schema_text
from ...serializers.ways_out import Option, WayOut
from ..plain_data import plain, structured
from .options import OF_TEXT
from .plan_text import zone_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

SESSION_ZONE = "time zone of the session"
_NEW = "start the new query with a new checkpoint"


SOURCES = {"StreamingRelation", "StreamingRelationV2", "StreamingExecutionRelation", "StreamingDataSourceV2Relation"}

_BY_POSITION = {"csv"}

_ZONES = {SESSION_ZONE, "timezone"}


@attrs.frozen
class Input:
    """A streaming source or a static table of a query.

    Attributes:
        name: Its name: a source as Spark names it, or the place of a table.
        kind: Its format, such as `json`; "" where it is not known.
        is_stream: Whether it is a stream.
        schema: Its columns; None: they have types that are not known.
        used: The columns that reach the state of an operator.
        options: The options that decide which rows there are, or what stands in them; without those that say the
            default.
        other_options: Those of which nobody knows what they do.
        rows: A digest of its rows, if they are part of the query.
        unread: What of it is not compared, or "".
    """

    name: str
    kind: str
    is_stream: bool
    schema: SparkType | None = None
    used: tuple[str, ...] = ()
    options: dict[str, str] = attrs.field(factory=dict)
    other_options: dict[str, str] = attrs.field(factory=dict)
    rows: str = ""
    unread: str = ""


def inputs_changed(was: tuple[Input, ...], now: tuple[Input, ...]) -> Iterator[Finding]:
    """Yield a finding for each change in what a query reads, but for names of sources (`verdict.sources_changed`)."""
    for is_stream in (True, False):
        sides = ([one for one in side if one.is_stream is is_stream] for side in (was, now))
        word, first = ("source", 0) if is_stream else ("table", 1)
        for number, (before, after) in enumerate(zip(*sides, strict=False), start=first):
            if not is_stream or before.name == after.name:
                yield from _changed(Path.naming(f"{word} {number}"), before, after)


def _changed(path: Path, was: Input, now: Input) -> Iterator[Finding]:
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
    """Yield each change that decides which rows come in: what changed, and both sides of it."""
    if was.name != now.name:
        yield "place", was.name, now.name
    if was.kind != now.kind:
        yield "format", was.kind, now.kind
        return
    yield from _differences(was.options, now.options)
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
    corrupt = of.options.get("columnnameofcorruptrecord", "_corrupt_record")
    has_corrupt = of.schema is not None and corrupt in of.schema.names
    return of.kind in OF_TEXT and (has_corrupt or of.options.get("mode", "permissive") != "permissive")


def _column(schema: SparkType, name: str) -> tuple[int, SparkType] | None:
    return next(((at, one.type) for at, one in enumerate(schema.fields) if one.name == name), None)


def _unclear(was: Input, now: Input) -> Iterator[tuple[str, str, str]]:
    """Yield each change that may decide which rows come in."""
    yield from _differences(was.other_options, now.other_options)
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
    schema = None if one.schema is None else schema_text(one.schema)
    return plain(attrs.evolve(one, schema=None)) | {"schema": schema}  # type: ignore[no-any-return]


def input_of(data: dict[str, Any]) -> Input:
    """Return the input that `input_data` returned as data.

    Raises:
        KeyError, CorruptFile: It is no such data.
    """
    schema = data["schema"]
    found: Input = structured(Input, data | {"schema": None}, "an input of a query")
    return found if schema is None else attrs.evolve(found, schema=parse_struct(schema))
