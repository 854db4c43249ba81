"""The profile of a savepoint: how many entries, how large, how old, of which keys and values, found in one pass.

    profile = Savepoint.open("/data/savepoint-1").profile()
    for state in profile.states:
        print(state.state, state.size_bytes, state.heaviest.keys[0].key)

A savepoint is read once, whatever is asked. Memory does not grow with the number of entries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...compat.edits import is_called
from ...compat.profile import HeaviestKeys, HeavyKey, OperatorProfile, Profile, Spreading, StateProfile
from ...compat.reference_time import checked_time, length_ms, milliseconds, now
from ...compat.spread import Share, Spread
from ...compat.type_difference import state_type_text
from ...serializers.errors import DeclarationError, StateNotFound, StateShiftError, located
from ...serializers.json_forms import tagger_of
from ..entry_keys import decode
from ..key_groups import key_group_range
from ..runner import InProcess
from .plans import OperatorPlan, Profiling, StatePlan, tasks_of
from .tallies import OperatorTally, PartSums, StateTally

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime, timedelta

    from ...serializers.snapshot import TypeSerializerConfigSnapshot
    from ..progress import Progress
    from ..runner import Runner
    from ..savepoint.reader import Savepoint, SavepointOperator
    from ..savepoint.states import SavepointState
    from .key_weights import Top
    from .plans import ProfileTask

BINS = 16
"""The most ranges of key groups that are told apart."""


def profile(
    savepoint: Savepoint,
    *,
    operator: str | None = None,
    state: str | None = None,
    reference_time: datetime | None = None,
    time_to_live: Mapping[str, timedelta] | timedelta | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
    runner: Runner | None = None,
) -> Profile:
    """Return the profile of a savepoint; arguments and errors as of `Savepoint.profile`.

    Args:
        savepoint: The savepoint.
        operator: As there.
        state: As there.
        reference_time: As there.
        time_to_live: As there.
        progress: As there.
        runner: What runs the pass; None: this process.
    """
    time = now() if reference_time is None else checked_time(reference_time)
    chosen = [one for one in _chosen(savepoint, operator) if one.stored.has_state]
    lives = _Lives(time_to_live)
    plans: list[OperatorPlan] = []
    tasks: list[ProfileTask] = []
    states: list[list[SavepointState]] = []
    for index, one in enumerate(chosen):
        found = [found for found in one.states if state is None or is_called(found.name, state)]
        states.append(found)
        seen = {each.name: StatePlan.of(one, each, lives.of(one, each)) for each in found if not each.is_hidden}
        plans.append(OperatorPlan(one.title, one.max_parallelism, seen))
        tasks += tasks_of(index, one, found, are_many=runner is not None)
    if state is not None and not any(states):
        known = sorted({each.name for one in chosen for each in one.states})
        raise StateNotFound(
            f"no operator has a state {state!r}; there are: {', '.join(known) or 'none'}", **savepoint.where
        )
    lives.require_all_used()
    tallies = [OperatorTally() for _ in chosen]
    if tasks:
        work = Profiling.of(tasks, savepoint.folder, plans, milliseconds(time))
        with located(savepoint=savepoint.place):
            for task, result in zip(tasks, (runner or InProcess()).run([work], progress), strict=True):
                tallies[task.operator].merge(result)
    profiles = [
        _operator(one, found, tally)
        for one, found, tally in zip(chosen, states, tallies, strict=True)
        if found or (state is None and one.unreadable)
    ]
    return Profile(
        savepoint=savepoint.place,
        reference_time=time,
        operators=tuple(sorted(profiles, key=lambda each: -each.size_bytes)),
    )


def _chosen(savepoint: Savepoint, name: str | None) -> Sequence[SavepointOperator]:
    return savepoint.operators if name is None else (savepoint.operator(name),)


class _Lives:
    """How long the values of states live.

    Args:
        given: By name of the state; or of all states that have TTL.
    """

    def __init__(self, given: Mapping[str, timedelta] | timedelta | None) -> None:
        self._all = None if given is None or isinstance(given, dict) else given
        self._named: dict[str, Any] = dict(given) if isinstance(given, dict) else {}
        self._unused = set(self._named)

    def of(self, operator: SavepointOperator, state: SavepointState) -> int | None:
        """Return the milliseconds that values of a state live; None: it is not known."""
        for name in (f"{operator.title}/{state.name}", state.name):
            if name in self._named:
                self._unused.discard(name)
                return length_ms(self._named[name])
        return None if self._all is None else length_ms(self._all)

    def require_all_used(self) -> None:
        """Raise if a name was given that no state has."""
        for name in sorted(self._unused):
            raise DeclarationError(f"a time to live is given for {name!r}, and no state is called so")


def _operator(operator: SavepointOperator, states: list[SavepointState], tally: OperatorTally) -> OperatorProfile:
    found = [_state(operator, state, tally.states.get(state.name)) for state in states]
    is_keyed = any(state.kind.is_keyed for state in states)
    parts = PartSums.of(operator.max_parallelism)
    for one in tally.states.values():
        if one.parts is not None:
            parts.merge(one.parts)
    unknown = next((one.unknown for one in tally.states.values() if one.unknown), "")
    return OperatorProfile(
        operator_id=operator.operator_id,
        operator=operator.title,
        states=tuple(sorted(found, key=lambda one: -one.size_bytes)),
        heaviest=_heaviest(tally.top, operator.key, unknown) if is_keyed else None,
        spreads=_spreads(operator, parts) if is_keyed else (),
        not_counted=operator.unreadable,
    )


def _state(operator: SavepointOperator, state: SavepointState, tally: StateTally | None) -> StateProfile:
    names = {"operator_id": operator.operator_id, "operator": operator.title, "state": state.name}
    names |= {"kind": str(state.kind), "type": _type(state)}
    if tally is None:
        return StateProfile(**names, not_counted=state.unsupported)
    fields = tally.fields.result()
    lengths = None if tally.lengths is None else tally.lengths.result()
    if state.kind.has_elements and state.kind.is_keyed:
        lengths = next((field.lengths for field in fields if field.path == "value"), None)
    return StateProfile(
        **names,
        entries=tally.entries,
        size_bytes=tally.size_bytes,
        key_bytes=tally.key_bytes,
        value_bytes=tally.value_bytes,
        value_sizes=tally.value_sizes.result(),
        lengths=lengths,
        heaviest=_heaviest(tally.top, operator.key, tally.unknown) if state.kind.is_keyed else None,
        spreads=_spreads(operator, tally.parts) if tally.parts is not None else (),
        ages=tally.fields.ages.result() if tally.fields.has_ages else None,
        fields=fields,
        not_decoded=tally.not_decoded,
        not_counted=tally.not_counted,
    )


def _type(state: SavepointState) -> str:
    try:
        return state_type_text(state.description)
    except StateShiftError:
        return str(state.description.value.snapshot.describe())


def _heaviest(top: Top, key: TypeSerializerConfigSnapshot[Any] | None, unknown: str) -> HeaviestKeys:
    if not top.keys or key is None:
        return HeaviestKeys(unknown=unknown)
    tagged, serializer = tagger_of(key), key.restore_serializer()
    keys = [HeavyKey(tagged(decode(serializer, data)), part, entries, size) for size, part, entries, data in top.keys]
    return HeaviestKeys(tuple(keys), top.missing_bytes, unknown)


def _spreads(operator: SavepointOperator, parts: PartSums) -> tuple[Spreading, ...]:
    if not parts.entries.any():
        return ()
    groups, subtasks = operator.max_parallelism, operator.parallelism
    bins = min(BINS, groups)
    ranges = [range(at * groups // bins, (at + 1) * groups // bins) for at in range(bins)]
    by_subtask = [_share(parts, key_group_range(index, subtasks, groups)) for index in range(subtasks)]
    return (
        Spreading("key group", groups, Spread.of(parts.sizes.tolist()), tuple(_share(parts, one) for one in ranges)),
        Spreading("subtask", subtasks, Spread.of([one.size_bytes for one in by_subtask]), tuple(by_subtask)),
    )


def _share(parts: PartSums, of: range) -> Share:
    among = slice(of.start, of.stop)
    return Share(of, int(parts.entries[among].sum()), int(parts.sizes[among].sum()))
