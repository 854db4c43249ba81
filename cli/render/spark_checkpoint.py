"""Formatting of a Spark query's checkpoint as `stateshift inspect` shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...serializers.wording import many
from ..inspect_data import share_of
from ..output import Column, styled_table, text_width
from ..spark_checkpoints import time_text
from .inspection import wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...state.formats.spark.reader import SparkCheckpoint
    from ..output import Line, Row
    from ..spark_checkpoints import InspectedCheckpoint, OperatorView, StoreView

_STORES = (
    Column("store", is_name=True),
    Column("entries", is_number=True),
    Column("bytes", is_number=True),
    Column("share", is_number=True),
)
_PARTITIONS = (Column("partition", is_number=True), Column("entries", is_number=True), Column("bytes", is_number=True))


def lines_of(inspected: InspectedCheckpoint, *, is_full: bool, with_skew: bool) -> Iterator[Line | Row]:
    """Yield all lines.

    Args:
        inspected: The result to print.
        is_full: Whether types are printed in full, over several lines.
        with_skew: Whether the sizes of partitions follow each store.
    """
    yield from _heading(inspected.checkpoint)
    for view in inspected.operators:
        yield []
        yield from _operator(view, is_full=is_full, with_skew=with_skew)
    if not inspected.checkpoint.operators:
        yield []
        yield [("no stateful operator: the query keeps no state", "dim")]


def _heading(checkpoint: SparkCheckpoint) -> Iterator[Line]:
    log = checkpoint.log
    yield [(f"checkpoint of a Spark query {checkpoint.place}", "bold")]
    yield [(f"  query {log.query_id}", "")]
    if log.committed is None:
        yield [("  no batch is committed yet: there is no state", "yellow")]
    else:
        yield [(f"  after batch {log.committed}, the last committed one", "")]
    if log.unfinished is not None:
        words = "is planned and not committed: the query is running it, or ended in it and will repeat it"
        yield [(f"  batch {log.unfinished} {words}", "yellow")]
    if log.watermark_ms:
        yield [(f"  watermark {time_text(log.watermark_ms)}", "")]
    if log.last is None:
        return
    yield [(f"  state stores: {log.last.provider}, checkpoint format {log.format}", "")]
    if log.last.sources:
        yield [("  sources as of that batch:", "")]
    for source in log.last.sources:
        yield [(f"    {source.name}: {source.text or 'not read yet'}", "")]


def _operator(view: OperatorView, *, is_full: bool, with_skew: bool) -> Iterator[Line | Row]:
    facts = view.operator.facts
    name = f" ({facts.name})" if facts.name not in {"", facts.kind} else ""
    yield [(f"operator {facts.number}: {facts.kind}{name}", "bold")]
    partitions = max((store.store.partitions for store in view.stores), default=0)
    properties = [f"{key} {facts.properties[key]}" for key in ("timeMode", "outputMode") if key in facts.properties]
    yield [(f"  {', '.join([many(partitions, 'partition'), *properties])}", "dim")]
    if not facts.name:
        yield [("  written by Spark before 4.0, which does not say what the operator is", "yellow")]
    yield from _variables(view)
    whole = sum(store.size_bytes or 0 for store in view.stores)
    titles, *rows = styled_table(_STORES, [_row(store, whole) for store in view.stores], indent=2)
    yield titles
    for row, store in zip(rows, view.stores, strict=True):
        yield row
        yield from _types(store, is_full=is_full)
        if with_skew and store.sizes is not None:
            sizes = enumerate(store.sizes)
            table = [
                [(str(number), ""), (f"{one.entries:,}", ""), (f"{one.size_bytes:,}", "")] for number, one in sizes
            ]
            yield from styled_table(_PARTITIONS, table, indent=6)


def _variables(view: OperatorView) -> Iterator[Line]:
    """Yield the variables of transformWithState, as its metadata lists them."""
    variables = view.operator.facts.properties.get("stateVariables")
    for variable in variables if isinstance(variables, list) else ():
        if isinstance(variable, dict) and not str(variable.get("stateName")).startswith("$"):
            ttl = ", TTL" if variable.get("ttlEnabled") else ""
            yield [(f"  variable {variable.get('stateName')}: {variable.get('stateVariableType')}{ttl}", "")]


def _row(view: StoreView, whole: int) -> Line:
    numbers = ["?"] * 3
    if view.entries is not None and view.size_bytes is not None:
        share = share_of(view.size_bytes, whole)
        numbers = [f"{view.entries:,}", f"{view.size_bytes:,}", "-" if share is None else f"{share:.0%}"]
    return [(view.store.name, "cyan"), *((number, "") for number in numbers)]


def _types(view: StoreView, *, is_full: bool) -> Iterator[Line]:
    """Yield the types below a store's row, and the reason why its entries are not read."""
    schema, width = view.store.schema, text_width() - 4
    if view.store.is_index and not is_full:
        schema = None
    for word, of in (("key  ", schema.key), ("value", schema.value)) if schema is not None else ():
        text = f"{word} {of.describe()}"
        if is_full:
            yield from ([("    ", ""), (line, "")] for line in wrapped(text, width))
        else:
            yield [("    ", ""), (text if len(text) <= width else f"{text[: width - 1]}…", "")]
    if view.store.unsupported:
        yield [("    ", ""), (f"unsupported: {view.store.unsupported}", "red")]
    if view.error is not None:
        yield [("    ", ""), ("damaged: see below", "red")]
