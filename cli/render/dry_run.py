"""Formatting of a migration plan for people: the output of a dry run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...compat.description import StateKind
from ...compat.lazy_tables import is_joined
from ...compat.plan import Compression, OperatorAction, StateAction
from ...compat.reference_time import length_text, time_text
from ...serializers.compatibility import Flag
from ...serializers.wording import many

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...compat.plan import MigrationPlan, OperatorPlan, Rekeying, StatePlan

_MEANINGS = {
    StateAction.COPY: "copied as bytes",
    StateAction.RELABEL: "copied as bytes, with a new snapshot in the header",
    StateAction.REKEY: "values copied as bytes, under new keys",
    StateAction.CONVERT: "read, converted and rewritten",
    StateAction.DROP: "dropped",
    StateAction.WRITE: "written from rows",
}
_COMPRESSIONS = {Compression.SNAPPY: "compressed with snappy", Compression.NONE: "uncompressed"}


def text_lines(migration: MigrationPlan) -> list[str]:
    """Return a plan as lines of plain text: each operator, and each state with its reader and what is left out."""
    lines = [f"plan: {_headline(migration)}", f"  from {migration.source} to {migration.job}"]
    if migration.reference_time is not None:
        lines.append(f"  at the reference time {time_text(migration.reference_time)}")
    for operator in migration.operators:
        lines += ["", *_operator_lines(operator)]
    return lines


def _headline(migration: MigrationPlan) -> str:
    if migration.is_empty:
        return "nothing has to change; every file is copied as it is"
    states = [state for operator in migration.operators for state in operator.states]
    converted = sum(state.action is StateAction.CONVERT for state in states)
    relabelled = sum(state.action is StateAction.RELABEL for state in states)
    rekeyed = sum(state.action is StateAction.REKEY for state in states)
    rekeyed_first = f"{rekeyed:,} rekeyed, " if rekeyed else ""
    whole = many(len(states), "state")
    return f"of {whole}, {converted:,} converted, {relabelled:,} relabelled, {rekeyed_first}the rest copied as bytes"


def _operator_lines(operator: OperatorPlan) -> Iterator[str]:
    title = f"operator {operator.uid} ({operator.operator_id})" if operator.uid else f"operator {operator.operator_id}"
    if operator.new_id:
        title = f"operator {operator.uid} ({operator.new_id}, was {operator.operator_id})"
    if operator.action is OperatorAction.COPY:
        number = f", max parallelism becomes {operator.max_parallelism:,}" if operator.max_parallelism else ""
        yield f"{title}: files copied as they are{number}"
        return
    yield ", ".join([f"{title}: rewritten", *_reshaping(operator)])
    if operator.rekeying is not None:
        yield from _key_lines(operator, operator.rekeying)
    elif operator.relabels_key and operator.key is not None:
        yield f"  key  {operator.key.describe()}: {_MEANINGS[StateAction.RELABEL]}"
    for state in operator.states:
        yield from _state_lines(state)


def _key_lines(operator: OperatorPlan, rekeying: Rekeying) -> Iterator[str]:
    groups = f", into {operator.max_parallelism:,} key groups" if operator.max_parallelism else ""
    key = rekeying.key
    if key is None:
        yield f"  key  {rekeying.serializer.describe()}: every entry and timer gets a new key group{groups}"
    else:
        converter = f"; converter: {key.converter}" if key.converter else ""
        yield f"  key  {rekeying.serializer.describe()}: read, converted and rewritten{groups}"
        yield f"    $<key>  reader: {key.source}{converter}"
        unmerged = "two keys that become one abort the run"
        merged = ", ".join(f"{state} by {merging.merge.name}" for state, merging in rekeying.merges)
        yield f"    $<key>  {f'two keys that become one are merged: {merged}' if merged else unmerged}"


def _reshaping(operator: OperatorPlan) -> Iterator[str]:
    """Yield the changes of its streams that do not depend on their content."""
    if operator.is_reframed:
        yield "from the native format into the canonical one"
    if operator.is_rescaled:
        yield f"redistributed to {operator.parallelism} subtask{'s' * (operator.parallelism > 1)}"
    if operator.compression is not Compression.KEEP:
        yield _COMPRESSIONS[operator.compression]
    if operator.max_bad_values:
        yield "values that do not fit go to quarantine"


def _state_lines(state: StatePlan) -> Iterator[str]:
    old, new = state.old.value.describe(), state.new.value.describe()
    types = old if old == new else f"{old} -> {new}"
    does = "in one table with" if is_joined(state.name, state.new_name) else "renamed to"
    named = f"; {does} {state.new_name}" if state.new_name else ""
    kind = f"{state.transform.old_kind} -> {state.kind}" if state.transform else str(state.kind)
    is_address = state.kind is StateKind.TIMERS and state.action is StateAction.REKEY
    done = "rewritten, with their keys" if is_address else _MEANINGS[state.action]
    yield f"  {state.name}  {kind}  {types}: {done}{named}"
    if state.transform:
        yield f"    transform: {state.transform.name}"
    for piece in state.recodings:
        converter = f"; converter: {piece.converter}" if piece.converter else ""
        yield f"    {piece.path}  reader: {piece.source}{converter}"
    if state.action is StateAction.CONVERT:
        yield from _stamp_lines(state)
        for path in state.drops:
            yield f"    {path}  dropped"
        flags: dict[str, list[str]] = {}
        for finding in state.findings:
            for flag in finding.flags:
                if flag.flag is not Flag.DROPS:
                    flags.setdefault(str(flag), []).append(finding.path)
        for told, paths in flags.items():
            yield f"    {', '.join(paths)}  {told}"


def _stamp_lines(state: StatePlan) -> Iterator[str]:
    """Yield what happens to time stamps, if a state gains or loses its time to live."""
    rules = {finding.rule for finding in state.findings}
    if "STATE-4" in rules:
        yield "    time to live on: each value is stamped with the reference time"
    if "STATE-5" in rules:
        lived = state.former_time_to_live
        left_out = (
            f"values that expired after {length_text(lived)} are dropped" if lived else "nothing is dropped as expired"
        )
        yield f"    time to live off: time stamps are removed; {left_out}"
