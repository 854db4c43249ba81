"""Formatting of the result of `stateshift inspect`, in lines that fit 80 columns if names allow it."""

from __future__ import annotations

import json
import re
import textwrap
from typing import TYPE_CHECKING, Any

from ...compat.explain import MUST_DECLARE
from ...compat.plan import StateAction
from ...serializers.errors import shown
from ...serializers.wording import many
from ...state.formats.spark.commit_log import source_offsets
from ...state.progress import size_text
from ..inspect_data import share_of, writer_of
from ..output import Column, is_terminal, styled_table, text_width

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...state.savepoint.sizes import OperatorSizes, Share
    from ..inspect_data import Inspected, OperatorView, StateView
    from ..output import Line, Row, Span

_NUMBERS = (Column("entries", is_number=True), Column("bytes", is_number=True), Column("share", is_number=True))
_STATES = (Column("state", is_name=True), Column("kind"), *_NUMBERS)
_KEYS = (Column("state", is_name=True), Column("key"), Column("key group", is_number=True), *_NUMBERS)
_RANGES = (Column("key groups", is_number=True), *_NUMBERS, Column(""))
_BAR_WIDTH = 24
_EIGHTHS = " ▏▎▍▌▋▊▉"
_MOST_SUBTASKS = 16
_MUCH = 2.0
_KEY_WIDTH = 32
_GLUE = "\N{NO-BREAK SPACE}"


def lines_of(inspected: Inspected, *, is_full: bool, with_skew: bool) -> Iterator[Line | Row]:
    """Yield all lines.

    Args:
        inspected: The result to print.
        is_full: Whether types are printed in full, over several lines.
        with_skew: Whether a chart of the key groups follows each operator with keyed state.
    """
    yield from _heading(inspected)
    for view in inspected.operators:
        if view.is_stateless:
            continue
        yield []
        yield [(_title(view), "bold")]
        yield from _facts(view, inspected.size_bytes)
        yield from _states(view, is_full=is_full)
        yield from _unsupported(view)
        for state, left in view.left_to_migrate.items():
            yield [
                (f"  {state} is migrated lazily: {many(left, 'entry is', 'entries are')} left in an old form", "yellow")
            ]
        yield from _largest_keys(view)
        if with_skew and view.sizes is not None and view.has_keyed_entries:
            yield from _skew(view.sizes)
    yield from _stateless(inspected)


def _heading(inspected: Inspected) -> Iterator[Line]:
    savepoint, operators = inspected.savepoint, inspected.operators
    metadata, lineage = savepoint.metadata, savepoint.lineage
    writer = writer_of(savepoint)
    if lineage is not None and lineage.source is not None:
        how = "from rows and" if any(count.action == StateAction.WRITE for count in lineage.states) else "migrated from"
        writer += f", {how} {lineage.source.get('place', 'another savepoint')}"
    masters = f", {many(len(metadata.master_states), 'master state')}" if metadata.master_states else ""
    unsupported = sum(view.error is None and bool(view.operator.unreadable) for view in operators)
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


def _title(view: OperatorView) -> str:
    operator = view.operator
    words = f"operator {operator.uid} ({operator.operator_id})" if operator.uid else f"operator {operator.operator_id}"
    return f"{words}, {operator.name}" if operator.name and operator.name != operator.uid else words


def _facts(view: OperatorView, whole: int) -> Iterator[Line]:
    """Yield the lines below an operator's title."""
    operator = view.operator
    facts = [f"key {view.key.describe()}"] if view.key is not None else []
    facts += [f"parallelism {operator.parallelism}", f"max parallelism {operator.max_parallelism}"]
    facts += [f"{size_text(operator.size_bytes)} ({_percent(operator.size_bytes, whole)})"]
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


def _percent(part: int, whole: int) -> str:
    share = share_of(part, whole)
    if share is None:
        return "-"
    return "<1%" if 0 < share < 0.01 else f"{share:.0%}"


def _states(view: OperatorView, *, is_full: bool) -> Iterator[Line | Row]:
    states = view.states
    if not states:
        return
    whole = view.sizes.size_bytes if view.sizes else 0
    titles, *rows = styled_table(_STATES, [_state_row(state, whole) for state in states], indent=2)
    yield titles
    for state, row in zip(states, rows, strict=True):
        yield row
        if not (state.is_empty and state.kind.name == "TIMERS"):
            yield from _type_lines(state, is_full=is_full)


def _state_row(state: StateView, whole: int) -> Line:
    measure = state.sizes.measure
    numbers = ["?"] * 3
    if measure is not None:
        numbers = [f"{measure.entries:,}", f"{measure.size_bytes:,}", _percent(measure.size_bytes, whole)]
    return [(state.name, "cyan"), (str(state.kind), ""), *((number, "") for number in numbers)]


def _type_lines(state: StateView, *, is_full: bool) -> Iterator[Line]:
    """Yield the type below a state's row, followed by further remarks, on the same line or on lines of their own."""
    indent, width = " " * 4, text_width() - 4
    remarks = f"({', '.join(state.remarks())})" if state.remarks() else ""
    style = "red" if state.is_unsupported or state.sizes.error else "yellow"
    *lines, last = wrapped(state.type_text(), width) if is_full else [state.type_text(width)]
    yield from ([(indent, ""), (line, "")] for line in lines)
    if remarks and len(last) + 1 + len(remarks) > width:
        yield [(indent, ""), (last, "")]
        yield [(indent, ""), (remarks, style)]
    else:
        yield [(indent, ""), (last, ""), (f" {remarks}" if remarks else "", style)]


def wrapped(text: str, width: int) -> list[str]:
    """Split a type into lines between its parts: only after commas, so that words which belong together stay so."""
    glued = re.sub("(?<!,) ", _GLUE, text)
    lines = textwrap.wrap(glued, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return [line.replace(_GLUE, " ") for line in lines]


def _unsupported(view: OperatorView) -> Iterator[Line]:
    """Yield the reasons why states cannot be read, a line each."""
    reasons: dict[str, list[str]] = {}
    for state in view.states:
        if state.is_unsupported:
            stored = state.sizes.state
            reasons.setdefault(stored.unsupported, []).append(state.name)
    for reason, names in reasons.items():
        yield [(f"  unsupported: {reason} ({', '.join(names)})", "red")]


def _largest_keys(view: OperatorView) -> Iterator[Line | Row]:
    """Yield a table of the largest keys, state by state."""
    rows: list[Line] = []
    notes: dict[str, list[str]] = {}
    for state in view.states:
        largest, measure = state.sizes.largest, state.sizes.measure
        if largest is None or measure is None:
            continue
        name: Span = (state.name, "cyan")
        for one in largest.keys:
            numbers = [f"{one.entries:,}", f"{one.size_bytes:,}", _percent(one.size_bytes, measure.size_bytes)]
            plain = [shown(one.key, _KEY_WIDTH), str(one.key_group), *numbers]
            rows.append([name, *((text, "") for text in plain)])
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


def _skew(sizes: OperatorSizes) -> Iterator[Line | Row]:
    """Yield charts of key groups and subtasks."""
    yield from _chart(many(len(sizes.key_groups), "key group"), sizes.key_groups, sizes.bins(), _RANGES, [])
    subtasks, columns = sizes.subtasks, (Column("subtask", is_number=True), *_RANGES)
    if len(subtasks) == 1:
        return
    order = list(range(len(subtasks)))
    title = many(len(subtasks), "subtask")
    if len(subtasks) > _MOST_SUBTASKS:
        order = sorted(order, key=lambda index: -subtasks[index].size_bytes)[:_MOST_SUBTASKS]
        title = f"the {_MOST_SUBTASKS} largest of {title}"
    yield from _chart(title, subtasks, [subtasks[index] for index in order], columns, [str(index) for index in order])


def _chart(
    title: str, every: Sequence[Share], bars: Sequence[Share], columns: Sequence[Column], names: Sequence[str]
) -> Iterator[Line | Row]:
    from ...state.savepoint.sizes import Spread

    spread, shares = Spread.of([share.size_bytes for share in every]), Spread.of([share.size_bytes for share in bars])
    sizes = f"{size_text(spread.smallest)} to {size_text(spread.largest)}, median {size_text(int(spread.median))}"
    skew = "" if spread.skew is None else f", largest {spread.skew:.1f} x the average"
    yield [(f"  {title} of {sizes}{skew}", "bold")]
    whole = sum(share.size_bytes for share in every)
    rows: list[Line] = []
    for index, share in enumerate(bars):
        first, last = share.key_groups.start, share.key_groups.stop - 1
        numbers = [f"{share.entries:,}", f"{share.size_bytes:,}", _percent(share.size_bytes, whole)]
        texts = [*names[index : index + 1], f"{first}-{last}" if last > first else str(first), *numbers]
        is_much = share.size_bytes > _MUCH * whole * len(share.key_groups) / sum(len(one.key_groups) for one in every)
        bar = (_bar(share.size_bytes, shares.largest), "red" if is_much else "green")
        rows.append([*((text, "") for text in texts), bar])
    yield from styled_table(columns, rows, indent=4)


def _bar(size: int, largest: int) -> str:
    """Return a bar for a size, in eighths of a character on a terminal; it is never empty unless the size is 0."""
    eighths = -(-size * _BAR_WIDTH * 8 // largest) if largest else 0
    if is_terminal():
        return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
    return "#" * -(-eighths // 8)


def _stateless(inspected: Inspected) -> Iterator[Line]:
    stateless = [view.operator for view in inspected.operators if view.is_stateless]
    if stateless:
        yield []
        yield [("operators without state", "dim")]
    for operator in stateless:
        finished = ", finished" if operator.stored.finished else ""
        name = f", {operator.name}" if operator.name and operator.name != operator.uid else ""
        ident = f"{operator.uid} ({operator.operator_id})" if operator.uid else operator.operator_id
        facts = f"parallelism {operator.parallelism}, max parallelism {operator.max_parallelism}{finished}"
        yield [(f"  {ident}{name}: {facts}", "dim")]
