"""The profile of a savepoint: how many entries, how large, how old, of which keys and values, found in one pass.

    profile = Savepoint.open("/data/savepoint-1").profile()
    for state in profile.states:
        print(state.state, state.size_bytes, state.heaviest.keys[0].key)

A savepoint is read once, whatever is asked. Memory does not grow with the number of entries. Checkpoints of Spark have
the same figures.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.description import StateKind
from ...compat.edits import is_called
from ...compat.lazy_tables import state_in
from ...compat.profiles import HeaviestKeys, HeavyKey, OperatorProfile, Profile, Spreading, StateProfile
from ...compat.reference_time import checked_time, length_ms, milliseconds, now
from ...compat.spread import Share, Spread
from ...compat.type_difference import state_type_text
from ...serializers.errors import DeclarationError, StateNotFound, StateShiftError, located
from ...serializers.json_forms import tagger_of
from ..entry_keys import decode
from ..key_groups import key_group_range
from ..runner import InProcess
from .plans import OperatorPlan, Profiling, StatePlan, tasks_of
from .store_pass import StoreProfiling, plan_of
from .tallies import OperatorTally, PartSums, StateTally

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime, timedelta

    from ..formats.spark.reader import SparkCheckpoint
    from ..progress import Progress
    from ..runner import Runner
    from ..savepoint.reader import Savepoint
    from .key_weights import Top

    Chosen = Sequence[tuple[Any, list[Any]]]
    """Operators, each with the states that are read."""

BINS = 16
"""The most ranges of key groups that are told apart."""


def profile(
    opened: Savepoint | SparkCheckpoint,
    *,
    operator: str | None = None,
    state: str | None = None,
    reference_time: datetime | None = None,
    time_to_live: Mapping[str, timedelta] | timedelta | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
    runner: Runner | None = None,
) -> Profile:
    """Return the profile of a savepoint, or of the checkpoint of a Spark query.

    Args:
        opened: The savepoint or checkpoint.
        operator: As in `Savepoint.profile`.
        state: As there.
        reference_time: As there.
        time_to_live: As there.
        progress: As there.
        runner: What runs the pass; None: this process.

    Raises:
        StateNotFound, DeclarationError, CorruptSavepoint, SavepointNotFound: As there.
    """
    time = now() if reference_time is None else checked_time(reference_time)
    operators: Any = opened.operators if operator is None else (opened.operator(operator),)
    chosen = [(one, [each for each in one.states if state is None or is_called(each.name, state)]) for one in operators]
    if state is not None and not any(states for _, states in chosen):
        known = sorted({state_in(each.name) for one, _ in chosen for each in one.states})
        what = f"no operator has a state {state!r}; there are: {', '.join(known) or 'none'}"
        raise StateNotFound(what, **opened.where)
    chosen = [(one, states) for one, states in chosen if states or (state is None and one.unreadable)]
    lives = _Lives(time_to_live)
    kind: Any = _OfStores if opened.is_of_spark else _OfStreams
    how = kind.of(opened, chosen, lives, are_many=runner is not None)
    lives.require_all_used()
    work = how.work(milliseconds(time))
    with located(**opened.where):
        results = (runner or InProcess()).run([work], progress) if work.tasks else []
        tallies = [
            OperatorTally({how.place(each): how.nothing(one, each, milliseconds(time)) for each in states})
            for one, states in chosen
        ]
        for task, result in zip(work.tasks, results, strict=True):
            tallies[task.operator].merge(result)
        profiles = [_operator(how, *each, tally) for each, tally in zip(chosen, tallies, strict=True)]
    return Profile(
        savepoint=opened.place,
        reference_time=time,
        operators=tuple(sorted(profiles, key=lambda each: -each.size_bytes)),
    )


class _Lives:
    """How long the values of states live.

    Args:
        given: By name of the state; or of all states that have TTL.
    """

    def __init__(self, given: Mapping[str, timedelta] | timedelta | None) -> None:
        self._named = dict(given) if isinstance(given, Mapping) else {}
        self._all = None if isinstance(given, Mapping) else given
        self._unused = set(self._named)

    def of(self, operator: str, state: str) -> int | None:
        """Return the milliseconds that values of a state live; None: it is not known."""
        for name in (f"{operator}/{state}", state):
            if name in self._named:
                self._unused.discard(name)
                return length_ms(self._named[name])
        return None if self._all is None else length_ms(self._all)

    def refuse(self) -> None:
        """Raise if a time to live is given."""
        if self._named or self._all is not None:
            raise DeclarationError("a Spark query stores when values expire: leave out how long they live")

    def require_all_used(self) -> None:
        """Raise if a name was given that no state has."""
        for name in sorted(self._unused):
            raise DeclarationError(f"a time to live is given for {name!r}, and no state that is read is called so")


@attrs.frozen
class _OfStreams:
    """How savepoints are read."""

    savepoint: Savepoint
    plans: tuple[OperatorPlan, ...]
    tasks: tuple[Any, ...]

    @classmethod
    def of(cls, savepoint: Savepoint, chosen: Chosen, lives: _Lives, *, are_many: bool) -> _OfStreams:
        """Return how some states are read; with `are_many`, large streams are divided among tasks."""
        plans = []
        for one, states in chosen:
            seen = [each for each in states if not each.is_hidden]
            found = [StatePlan.of(one, each, lives.of(one.title, state_in(each.name))) for each in seen]
            plans.append(OperatorPlan(one.title, one.max_parallelism, {plan.place: plan for plan in found}))
        tasks = [
            task
            for index, (one, states) in enumerate(chosen)
            for task in tasks_of(index, one, states, are_many=are_many)
        ]
        return cls(savepoint, tuple(plans), tuple(tasks))

    def work(self, reference_ms: int) -> Profiling:
        """Return the pass."""
        return Profiling.of(self.tasks, self.savepoint.folder, self.plans, reference_ms)

    def nothing(self, operator: Any, state: Any, reference_ms: int) -> StateTally:
        """Return the figures of a state before it is read."""
        parts = range(operator.max_parallelism) if state.kind.is_keyed else None
        plan = next(one for one in self.plans if one.title == operator.title).states.get(self.place(state))
        tally = StateTally.of(plan or StatePlan(state.name, state.kind), reference_ms, parts)
        tally.not_counted = state.unsupported if state.is_hidden else ""
        return tally

    def place(self, state: Any) -> tuple[str, str]:
        """Return the place of a state in its operator."""
        return state.kind.scope, state.name

    def type_of(self, state: Any) -> str:
        """Return the type of a state in words."""
        try:
            return state_type_text(state.description)
        except StateShiftError:
            return str(state.description.value.snapshot.describe())

    def has_keys(self, state: Any) -> bool:
        """Whether the entries of a state have keys."""
        return bool(state.kind.is_keyed)

    def has_lists(self, state: Any) -> bool:
        """Whether an entry of a state is a list."""
        return bool(state.kind.has_elements and state.kind.is_keyed)

    def key(self, operator: Any, data: bytes) -> Any:
        """Return a key as plain data."""
        return tagger_of(operator.key)(decode(operator.key.restore_serializer(), data))

    def spreads(self, operator: Any, parts: PartSums) -> tuple[Spreading, ...]:
        """Return how entries are spread."""
        groups, subtasks = operator.max_parallelism, operator.parallelism
        bins = min(BINS, groups)
        ranges = [range(at * groups // bins, (at + 1) * groups // bins) for at in range(bins)]
        by_subtask = tuple(_share(parts, key_group_range(index, subtasks, groups)) for index in range(subtasks))
        by_range = tuple(_share(parts, one) for one in ranges)
        return (
            Spreading("key group", groups, Spread.of(parts.sizes.tolist()), by_range),
            Spreading("subtask", subtasks, Spread.of([one.size_bytes for one in by_subtask]), by_subtask),
        )


@attrs.frozen
class _OfStores:
    """How checkpoints of Spark's queries are read."""

    checkpoint: SparkCheckpoint
    operators: tuple[Any, ...]

    @classmethod
    def of(cls, checkpoint: SparkCheckpoint, chosen: Chosen, lives: _Lives, **_: bool) -> _OfStores:
        """Return how some stores are read; partitions are tasks anyway, and values have the times of their expiry.

        Raises:
            DeclarationError: A time to live is given.
        """
        lives.refuse()
        readable = [(one, tuple(each for each in stores if not each.unsupported)) for one, stores in chosen]
        return cls(checkpoint, tuple(readable))

    def work(self, reference_ms: int) -> StoreProfiling:
        """Return the pass."""
        return StoreProfiling.of(self.checkpoint, self.operators, reference_ms)

    def nothing(self, operator: Any, state: Any, reference_ms: int) -> StateTally:
        """Return the figures of a store before it is read."""
        parts = range(max(store.partitions for store in operator.stores))
        tally = StateTally.of(plan_of(operator, state), reference_ms, parts)
        tally.not_counted = state.unsupported
        return tally

    def place(self, state: Any) -> tuple[str, str]:
        """Return the place of a store in its operator."""
        return StateKind.VALUE.scope, state.name

    def type_of(self, state: Any) -> str:
        """Return the type of the values of a store as SQL spells it."""
        return str(state.sql_types.get("value", ""))

    def has_keys(self, state: Any) -> bool:
        """Whether the keys of a store are those of the query."""
        return not state.is_index

    def has_lists(self, _: Any) -> bool:
        """Whether an entry of a store is a list: each element is an entry."""
        return False

    def key(self, _: Any, data: bytes) -> Any:
        """Return a key as plain data."""
        return json.loads(data)

    def spreads(self, _: Any, parts: PartSums) -> tuple[Spreading, ...]:
        """Return how entries are spread."""
        shares = tuple(_share(parts, range(at, at + 1)) for at in range(len(parts.sizes)))
        return (Spreading("partition", len(shares), Spread.of(parts.sizes.tolist()), shares),)


_How = _OfStreams | _OfStores


def _operator(how: _How, operator: Any, states: list[Any], tally: OperatorTally) -> OperatorProfile:
    found = [_state(how, operator, state, tally.states[how.place(state)]) for state in states]
    keyed = [tally.states[how.place(state)] for state in states if how.has_keys(state)]
    sums = [one.parts for one in tally.states.values() if one.parts is not None]
    parts = PartSums.of(range(len(sums[0].sizes) if sums else 0))
    for one in sums:
        parts.merge(one)
    unknown = next((one.unknown for one in keyed if one.unknown), "")
    return OperatorProfile(
        operator_id=operator.operator_id if isinstance(how, _OfStreams) else str(operator.number),
        operator=operator.title,
        states=tuple(sorted(found, key=lambda one: -one.size_bytes)),
        heaviest=_heaviest(how, operator, tally.top, unknown) if keyed else None,
        spreads=how.spreads(operator, parts) if parts.entries.any() else (),
        not_counted=operator.unreadable,
    )


def _state(how: _How, operator: Any, state: Any, tally: StateTally) -> StateProfile:
    fields, parts = tally.fields.result(), tally.parts
    lengths = None if tally.lengths is None else tally.lengths.result()
    if how.has_lists(state):
        lengths = next((field.lengths for field in fields if field.path == "value"), None)
    return StateProfile(
        operator_id=operator.operator_id if isinstance(how, _OfStreams) else str(operator.number),
        operator=operator.title,
        state=state.name,
        kind=str(state.kind),
        type=how.type_of(state),
        entries=tally.entries,
        size_bytes=tally.size_bytes,
        key_bytes=tally.key_bytes,
        value_bytes=tally.value_bytes,
        value_sizes=tally.value_sizes.result(),
        lengths=lengths,
        heaviest=_heaviest(how, operator, tally.top, tally.unknown) if how.has_keys(state) else None,
        spreads=how.spreads(operator, parts) if parts is not None and parts.entries.any() else (),
        ages=tally.fields.ages.result() if tally.fields.has_ages else None,
        fields=fields,
        not_decoded=tally.not_decoded,
        not_counted=tally.not_counted,
    )


def _heaviest(how: _How, operator: Any, top: Top, unknown: str) -> HeaviestKeys:
    keys = [HeavyKey(how.key(operator, data), part, entries, size) for size, part, entries, data in top.keys]
    return HeaviestKeys(tuple(keys), top.missing_bytes, unknown)


def _share(parts: PartSums, of: range) -> Share:
    among = slice(of.start, of.stop)
    return Share(of, int(parts.entries[among].sum()), int(parts.sizes[among].sum()))
