"""Entries of a Spark query before and after: a few of each store that changes, converted as the copy converts them."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from ....compat.description import function_name
from ....compat.entry_samples import (
    Did,
    Dropped,
    EntryChange,
    EntryFailure,
    EntrySamples,
    Fate,
    SampledEntry,
    SampledState,
)
from ....compat.plan import StateAction
from ....compat.queries.kinds import TIME_TO_LIVE
from ....compat.value_changes import ValueRules, value_changes
from ....serializers.errors import IncompatibleState, located
from ....serializers.spark_rows.json_values import json_values
from ....serializers.spark_rows.row_encoder import encode_rows, longs_of, rows_of
from ..entry_sides import redacted
from ..samples import FEW, evenly
from .variable_entries import VariableConversion, moved_keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from ....serializers.spark_rows.spark_types import SparkType
    from ...formats.spark.chosen_rows import ChosenRows
    from ...formats.spark.reader import Block, SparkStore
    from .operator_copy import OperatorCopy, StoreCopy
    from .preparation import PreparedCopy


@attrs.frozen
class QuerySampleChoice:
    """Which entries are shown.

    Attributes:
        first: How many entries of each store at most.
        chosen: The keys whose entries are shown, by the number of the old operator and the name of the store; None: the
            first entries are.
        keys: These keys, as they were written.
        skipped: What is told of operators that cannot have them, or of which everything is read.
    """

    first: int = FEW
    chosen: Mapping[tuple[int, str], ChosenRows] | None = None
    keys: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


def sample_query(prepared: PreparedCopy, choice: QuerySampleChoice | None = None) -> EntrySamples:
    """Return a few entries of each store that a copy changes, before and after.

    Args:
        prepared: The copy; nothing of it is written.
        choice: Which entries; None: the first `FEW` of each store.

    Raises:
        SavepointNotFound, CorruptFile: A file of the checkpoint is missing, or damaged.
        UnsupportedFormat: Entries are of a kind that this release does not read.
    """
    choice = choice or QuerySampleChoice()
    states: list[SampledState] = []
    unchanged = 0
    for operator in sorted(prepared.operators, key=lambda one: one.number):
        with located(savepoint=prepared.source.place, operator=operator.now.title):
            for one in operator.stores:
                if one.is_same and not one.is_empty:
                    unchanged += 1
                elif (found := _sampled(prepared, operator, one, choice)) is not None:
                    states.append(found)
            states += (_of_one_side(operator, one, StateAction.NEW, choice) for one in operator.added)
            states += (
                _of_one_side(operator, one, StateAction.DROP, choice)
                for one in operator.dropped
                if choice.chosen is None or (one.operator, one.name) in choice.chosen
            )
    return EntrySamples(states=tuple(states), unchanged=unchanged, keys=choice.keys, skipped=choice.skipped)


def _sampled(
    prepared: PreparedCopy, operator: OperatorCopy, plan: StoreCopy, choice: QuerySampleChoice
) -> SampledState | None:
    """Return entries of a store; None: it has none of the chosen keys."""
    if plan.is_empty:
        return _of_one_side(operator, plan.now, StateAction.NEW, choice)
    if choice.chosen is not None and (plan.was.operator, plan.was.name) not in choice.chosen:
        return None
    converting = _Converting.of(prepared, operator, plan)
    with located(state=plan.was.name):
        blocks, is_all = _some(plan.was, choice)
        entries = [entry for block in blocks for entry in converting.entries(block)]
    return SampledState(
        operator_id=str(operator.number),
        operator=operator.now.title,
        state=plan.was.name,
        new_state=plan.now.name,
        kind=plan.was.kind,
        new_kind=plan.now.kind,
        action=str(StateAction.CONVERT),
        entries=tuple(entries),
        is_all=is_all,
        may_be_merged=plan.may_collide,
    )


def _of_one_side(
    operator: OperatorCopy, store: SparkStore, action: StateAction, choice: QuerySampleChoice
) -> SampledState:
    """Return a store that only one side has: one that is dropped has entries."""
    is_dropped, entries = action is StateAction.DROP, list[SampledEntry]()
    why = store.unsupported if is_dropped else ""
    blocks, is_all = _some(store, choice) if is_dropped and not why else ([], True)
    for block in blocks:
        schema = store.require_schema()
        pairs = zip(json_values(block.key, schema.key), json_values(block.value, schema.value), strict=True)
        entries += (
            redacted(SampledEntry(key=key, old=value, fate=Fate.DROPPED, dropped=Dropped.STATE)) for key, value in pairs
        )
    number, title = str(operator.number), operator.now.title
    found: dict[str, Any] = {"entries": tuple(entries), "is_all": is_all, "not_shown": why}
    return SampledState.of_one_side(number, title, store.name, store.kind, action, **found)


def _some(store: SparkStore, choice: QuerySampleChoice) -> tuple[list[Block], bool]:
    """Return some entries of a store, and whether there are no others."""
    found: list[Block] = []
    room = choice.first
    for block in _blocks(store, choice):
        if room:
            found.append(_taken(block, range(min(room, len(block.key)))))
        if len(block.key) > room:
            return found, False
        room -= len(block.key)
    return found, True


def _blocks(store: SparkStore, choice: QuerySampleChoice) -> Iterator[Block]:
    """Yield the entries of a store: of the chosen keys; else first some of each of some partitions, then the others."""
    chosen = None if choice.chosen is None else choice.chosen.get((store.operator, store.name))
    if chosen is not None:
        yield from (one for one in attrs.evolve(store, chosen=chosen).blocks() if len(one.key))
        return
    spread = evenly(range(store.partitions), choice.first)
    share = -(-choice.first // max(len(spread), 1))
    left: list[Iterator[Block]] = []
    for partition in spread:
        blocks = (one for one in store.blocks_of(partition) if len(one.key))
        for block in blocks:
            yield _taken(block, range(min(share, len(block.key))))
            if len(block.key) > share:
                left.append(iter([_taken(block, range(share, len(block.key)))]))
            break
        left.append(blocks)
    yield from chain.from_iterable(left)
    for partition in range(store.partitions):
        if partition not in spread:
            yield from (one for one in store.blocks_of(partition) if len(one.key))


def _taken(block: Block, at: range) -> Block:
    numbers = longs_of(np.asarray(at, np.int64))
    return attrs.evolve(
        block,
        key=block.key.take(numbers),
        value=block.value.take(numbers),
        stored_keys=[block.stored_keys[one] for one in at],
    )


@attrs.frozen
class _Converting:
    """The conversion of the entries of a store, or of a variable."""

    plan: StoreCopy
    variable: VariableConversion | None
    rules: ValueRules

    @classmethod
    def of(cls, prepared: PreparedCopy, operator: OperatorCopy, plan: StoreCopy) -> _Converting:
        rules = ValueRules.of(plan.findings, None, None)
        retyped = frozenset(str(one.path).replace("?", "") for one in plan.findings if one.rule == "SPK-5")
        converted = {f"$.{path}": function_name(function) for path, function in operator.changes.converters.items()}
        variable = VariableConversion(prepared.settings, operator, plan) if operator.has_variables else None
        return cls(plan, variable, attrs.evolve(rules, retyped=retyped, converted=converted))

    def entries(self, block: Block) -> Iterator[SampledEntry]:
        """Yield the entries of a block before and after."""
        if not len(block.key):
            return
        old, plan = self.plan.was.require_schema(), self.plan
        keys, (values, deadlines) = (
            json_values(block.key, old.key),
            self._values(block.value, old.value, plan.deadlines.were),
        )
        try:
            after = self._converted(block)
        except IncompatibleState as error:
            failure = EntryFailure(path=f"$.{error.where.get('path', '')}", rule="", reason=error.what)
            for key, value in zip(keys, values, strict=True):
                yield redacted(SampledEntry(key=key, old=value, fate=Fate.FAILED, failure=failure))
            return
        new = plan.now.require_schema()
        new_keys, (new_values, ends) = (
            json_values(after[0], new.key),
            self._values(after[1], new.value, plan.deadlines.are),
        )
        roots = self._roots()
        for at, key in enumerate(keys):
            changes = [
                *value_changes(key, new_keys[at], self.rules, roots[0]),
                *value_changes(values[at], new_values[at], self.rules, roots[1]),
                *_of_deadlines(plan.now.name, deadlines[at], ends[at]),
            ]
            yield redacted(
                SampledEntry(
                    fate=Fate.CHANGED if changes else Fate.SAME,
                    key=key,
                    new_key=new_keys[at],
                    old=values[at],
                    new=new_values[at],
                    changes=tuple(changes),
                )
            )

    def _roots(self) -> tuple[str, str]:
        if self.variable is None:
            return "$.key", "$.value"
        step = {"list": "[]", "map": "{}"}.get(self.plan.now.kind, "")
        return "$.key", f"$.{self.plan.now.name}{step}"

    def _values(self, column: pa.StructArray, of: SparkType, expire: bool) -> tuple[list[Any], list[int | None]]:  # noqa: FBT001 - private, positional
        """Return values without the times at which they expire, and these times."""
        if not expire:
            return json_values(column, of), [None] * len(column)
        value, ends = column.flatten()
        return json_values(value, of.fields[0].type), ends.to_pylist()

    def _converted(self, block: Block) -> tuple[pa.StructArray, pa.StructArray]:
        """Return new keys and values; raises as the copy."""
        plan = self.plan
        if self.variable is not None:
            return self.variable.each(block.partition, block.key, block.value)
        key, _ = moved_keys(plan, block.partition, block.key)
        value = block.value if plan.value.convert is None else plan.value.convert(block.value)
        if plan.filled:
            encoded = rows_of(encode_rows(key, plan.now.require_schema().key))
            for fill in plan.filled:
                value = fill.into(value, encoded)
        return key, value


def _of_deadlines(name: str, before: int | None, after: int | None) -> Iterator[EntryChange]:
    """Yield what is done with the time at which an entry expires."""
    if before == after:
        return
    did = Did.STAMPED if before is None else Did.UNSTAMPED if after is None else Did.CONVERTED
    yield EntryChange(path=f"$<{TIME_TO_LIVE}{name}>", did=did, old=before, new=after, rule="SPK-14")
