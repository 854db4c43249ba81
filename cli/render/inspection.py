"""Formatting of the result of `stateshift inspect`, in lines that fit 80 columns if names allow it."""

from __future__ import annotations

import json
import re
import textwrap
from typing import TYPE_CHECKING, Any

from ...compat.description import StateKind
from ...compat.explain import MUST_DECLARE
from ...compat.plan import StateAction
from ...compat.reference_time import millis_text
from ...serializers.errors import unless_redacted
from ...serializers.json_forms import tagger_of
from ...serializers.plain_forms import plain, value_text
from ...serializers.wording import many
from ...state.formats.spark.commit_log import source_offsets
from ...state.progress import size_text
from ..inspect_data import skew_data
from ..output import Column, styled_table, text_width
from .bars import percent
from .spreads import spread_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...state.formats.spark.reader import SparkCheckpoint, SparkOperator
    from ...state.savepoint.reader import Savepoint, SavepointOperator
    from ..inspect_data import Inspected, OperatorView, StateView
    from ..output import Block, Line, Row, Span

_NUMBERS = (Column("entries", is_number=True), Column("bytes", is_number=True), Column("share", is_number=True))
_STATES = (Column("state", is_name=True), Column("kind"), *_NUMBERS)
_KEYS = (Column("state", is_name=True), Column("key"), Column("key group", is_number=True), *_NUMBERS)
_KEY_WIDTH = 32
_GLUE = "\N{NO-BREAK SPACE}"


def lines_of(inspected: Inspected, *, is_full: bool, with_skew: bool) -> Iterator[Block]:
    """Yield all lines.

    Args:
        inspected: The result to print.
        is_full: Whether types are printed in full, over several lines.
        with_skew: Whether charts of the distribution of its entries follow each operator.
    """
    yield from head_lines(inspected)
    for view in inspected.operators:
        if view.is_stateless:
            continue
        yield []
        yield [(view.operator.heading, "bold")]
        size = f"{size_text(view.size_bytes)} ({percent(view.size_bytes, inspected.size_bytes)})"
        yield from _FACTS[view.operator.is_of_spark](view.operator, view, size)
        yield from _states(view, is_full=is_full)
        yield from _unsupported(view)
        for state, left in view.left_to_migrate.items():
            yield [
                (f"  {state} is migrated lazily: {many(left, 'entry is', 'entries are')} left in an old form", "yellow")
            ]
        yield from _largest_keys(view)
        if with_skew:
            yield from _skew(view)
    yield from _stateless(inspected)


def head_lines(inspected: Inspected) -> Iterator[Line]:
    """Yield the lines on the whole, of which the first one says what it is."""
    opened = inspected.opened
    yield from _HEADS[opened.is_of_spark](opened, inspected)


def _checkpoint(checkpoint: SparkCheckpoint, _: Inspected) -> Iterator[Line]:
    yield from _facts_of_checkpoint(checkpoint)
    if not checkpoint.operators:
        yield []
        yield [("no stateful operator: the query keeps no state", "dim")]


def _facts_of_checkpoint(checkpoint: SparkCheckpoint) -> Iterator[Line]:
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
        yield [(f"  watermark {millis_text(log.watermark_ms)}", "")]
    if log.last is None:
        return
    yield [(f"  state stores: {log.last.provider}, checkpoint format {log.format}", "")]
    if log.last.sources:
        yield [("  sources as of that batch:", "")]
    for source in log.last.sources:
        yield [(f"    {source.name}: {source.text or 'not read yet'}", "")]


def _savepoint(savepoint: Savepoint, inspected: Inspected) -> Iterator[Line]:
    operators = inspected.operators
    metadata, lineage = savepoint.metadata, savepoint.lineage
    writer = savepoint.written_by
    if lineage is not None and lineage.source is not None:
        how = "from rows and" if any(count.action == StateAction.WRITE for count in lineage.states) else "migrated from"
        writer += f", {how} {lineage.source.get('place', 'another savepoint')}"
    masters = f", {many(len(metadata.master_states), 'master state')}" if metadata.master_states else ""
    unsupported = sum(view.error is None and bool(view.facts.unreadable) for view in operators)
    damaged = sum(view.is_damaged for view in operators)
    troubled = [f"{count} {word}" for count, word in ((unsupported, "unsupported"), (damaged, "damaged")) if count]
    held = many(len(savepoint.operators), "operator") + (f" ({', '.join(troubled)})" if troubled else "")
    states = many(sum(len(view.states) for view in operators), "state")
    if len(operators) < len(savepoint.operators):
        states = f"{len(operators)} shown with {states}"
    what = "savepoint" if savepoint.query is None else "state of a query in"
    yield [(f"{what} {savepoint.place}", "bold")]
    if savepoint.query is not None:
        yield [(f"  after batch {savepoint.query.batch}, in epoch {savepoint.query.epoch}", "")]
    yield [(f"  written by {writer}; metadata version {metadata.version}, checkpoint {metadata.checkpoint_id}", "")]
    yield [(f"  {held}, {states}, {size_text(inspected.size_bytes)} of state{masters}", "")]
    yield from _position(savepoint.position)
    if savepoint.missing_timers:
        yield [(f"  {savepoint.missing_timers}", "yellow")]
    if lineage is not None and lineage.proof is not None:
        proof = lineage.proof
        result = "proven" if proof.get("proven") else "not proven"
        yield [(f"  {result} by Flink {proof.get('flink', '?')} at {proof.get('created', '?')}", "")]
    if lineage is not None and lineage.quarantined:
        yield [(f"  {many(lineage.quarantined, 'value')} in quarantine: `stateshift quarantine` lists them", "yellow")]


def _position(position: Any) -> Iterator[Line]:
    """Yield the position of the state in its sources, if it is known."""
    if position is None:
        return
    if not isinstance(position, dict) or not isinstance(position.get("offsets"), str):
        yield [(f"  position: {json.dumps(position, ensure_ascii=False)}", "")]
        return
    yield [(f"  sources as of batch {position.get('batch')} of the checkpoint {position.get('checkpoint')}:", "")]
    offsets, kinds = source_offsets(position["offsets"]), position.get("sources")
    if isinstance(kinds, list) and len(kinds) == len(offsets):
        offsets = [f"{kind} at {offset}" for kind, offset in zip(kinds, offsets, strict=True)]
    for number, offset in enumerate(offsets, start=1):
        yield [(f"    {number}: {offset}", "")]


_HEADS: dict[bool, Callable[..., Iterator[Line]]] = {True: _checkpoint, False: _savepoint}
"""The lines on a checkpoint of Spark, and on others."""


def _facts_of_spark(operator: SparkOperator, view: OperatorView, size: str) -> Iterator[Line]:
    modes = [f"{name} {mode}" for name, mode in operator.facts.modes.items()]
    yield [(f"  {', '.join([many(view.facts.parallelism, 'partition'), size, *modes])}", "dim")]
    if not operator.facts.name:
        yield [("  written by Spark before 4.0, which does not say what the operator is", "yellow")]


def _facts_of_flink(operator: SavepointOperator, view: OperatorView, size: str) -> Iterator[Line]:
    facts = [f"key {view.key.describe()}"] if view.key is not None else []
    facts += [f"parallelism {operator.parallelism}", f"max parallelism {operator.max_parallelism}"]
    facts.append(size)
    restorable = view.is_flink_restorable
    must_declare = bool(restorable) and operator.has_custom_raw_keyed_state
    if restorable is not None and not must_declare:
        facts.append("Flink-restorable" if restorable else "not Flink-restorable")
    if operator.is_native:
        facts.append("in files of a RocksDB database" if operator.keyed_format == "database" else "in native format")
    yield [(f"  {', '.join(facts)}", "dim")]
    if must_declare:
        yield [(f"  {MUST_DECLARE}", "yellow")]
    if view.sizes is not None and view.sizes.foreign:
        left_out = many(view.sizes.foreign, "entry is", "entries are")
        yield [(f"  {left_out} of key groups that subtasks gave away in a rescaling, and left out", "yellow")]
    if operator.keeps:
        yield [(f"  also kept as is: {', '.join(operator.keeps)}", "dim")]
    if view.error is not None:
        yield [("  damaged: see below", "red")]
    elif operator.unreadable:
        yield [(f"  unsupported: {operator.unreadable}", "red")]
    elif not view.states:
        yield [("  no other state" if operator.keeps else "  no state", "dim")]


_FACTS: dict[bool, Callable[..., Iterator[Line]]] = {True: _facts_of_spark, False: _facts_of_flink}
"""The lines below the title of an operator of Spark, and of others."""


def _states(view: OperatorView, *, is_full: bool) -> Iterator[Line | Row]:
    states = view.states
    if not states:
        return
    whole = view.entries_bytes
    titles, *rows = styled_table(_STATES, [_state_row(state, whole) for state in states], indent=2)
    yield titles
    for state, row in zip(states, rows, strict=True):
        yield row
        if not (state.is_empty and state.kind == StateKind.TIMERS):
            yield from _type_lines(state, is_full=is_full)


def _state_row(state: StateView, whole: int) -> Line:
    measure = state.measure
    numbers = ["?"] * 3
    if measure is not None:
        numbers = [f"{measure.entries:,}", f"{measure.size_bytes:,}", percent(measure.size_bytes, whole)]
    return [(state.name, "cyan"), (state.kind, ""), *((number, "") for number in numbers)]


def _type_lines(state: StateView, *, is_full: bool) -> Iterator[Line]:
    """Yield the types below a state's row, followed by further remarks, on the same line or on lines of their own."""
    indent, width = " " * 4, text_width() - 4
    remarks = f"({', '.join(state.remarks())})" if state.remarks() else ""
    style = "red" if state.is_unsupported or state.error else "yellow"
    texts = [line for text in state.types() for line in _wrapped(text, width)] if is_full else state.types(width)
    *lines, last = texts or [""]
    yield from ([(indent, ""), (line, "")] for line in lines)
    if remarks and last and len(last) + 1 + len(remarks) > width:
        yield [(indent, ""), (last, "")]
        yield [(indent, ""), (remarks, style)]
    elif last or remarks:
        yield [(indent, ""), (last, ""), (f"{' ' * bool(last)}{remarks}", style)]


def _wrapped(text: str, width: int) -> list[str]:
    """Split a type into lines between its parts: only after commas, so that words which belong together stay so."""
    glued = re.sub("(?<!,) ", _GLUE, text)
    lines = textwrap.wrap(glued, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return [line.replace(_GLUE, " ") for line in lines]


def _unsupported(view: OperatorView) -> Iterator[Line]:
    """Yield the reasons why states cannot be read, a line each."""
    reasons: dict[str, list[str]] = {}
    for state in view.states:
        if state.is_unsupported:
            reasons.setdefault(state.state.unsupported, []).append(state.name)
    for reason, names in reasons.items():
        yield [(f"  unsupported: {reason} ({', '.join(names)})", "red")]


def _largest_keys(view: OperatorView) -> Iterator[Line | Row]:
    """Yield a table of the largest keys, state by state."""
    rows: list[Line] = []
    notes: dict[str, list[str]] = {}
    for state in view.states:
        largest, measure = state.largest, state.measure
        if largest is None or measure is None:
            continue
        name: Span = (state.name, "cyan")
        operator: Any = view.operator
        for one in largest.keys:
            numbers = [f"{one.entries:,}", f"{one.size_bytes:,}", percent(one.size_bytes, measure.size_bytes)]
            key = str(
                unless_redacted(value_text(plain(tagger_of(operator.key)(one.key)), _KEY_WIDTH))
            )  # as `get` takes it
            rows.append([name, *((text, "") for text in (key, str(one.key_group), *numbers))])
            name = ("", "")
        if not largest.is_exact:
            notes.setdefault("too many keys in no order: these sizes are lower bounds", []).append(state.name)
        if largest.unknown:
            notes.setdefault(largest.unknown, []).append(state.name)
    if rows:
        yield [("  largest keys, with their share of the state", "bold")]
        yield from styled_table(_KEYS, rows, indent=4)
    for note, names in notes.items():
        yield [(f"    {note} ({', '.join(names)})", "yellow")]


def _skew(view: OperatorView) -> Iterator[Block]:
    """Yield charts of key groups and subtasks, or of the partitions of a Spark query."""
    for name, spread in skew_data(view).items():
        if name != "subtasks" or len(spread["ranges"]) > 1:
            yield from spread_lines(name, spread, spread["ranges"])


def _stateless(inspected: Inspected) -> Iterator[Line]:
    stateless: list[Any] = [view.operator for view in inspected.operators if view.is_stateless]  # none is of Spark
    if stateless:
        yield []
        yield [("operators without state", "dim")]
    for operator in stateless:
        finished = ", finished" if operator.stored.finished else ""
        name = f", {operator.name}" if operator.name and operator.name != operator.uid else ""
        ident = f"{operator.uid} ({operator.operator_id})" if operator.uid else operator.operator_id
        facts = f"parallelism {operator.parallelism}, max parallelism {operator.max_parallelism}{finished}"
        yield [(f"  {ident}{name}: {facts}", "dim")]
