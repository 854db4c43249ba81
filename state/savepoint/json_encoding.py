"""State as JSON: entries, timers and elements, with their values in the forms of `serializers.json_forms`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...compat.description import StateKind
from ...compat.lazy_tables import state_in, versions_of
from ...serializers.containers.abilities import map_tagger
from ...serializers.containers.wrappers import without_ttl_awareness
from ...serializers.json_forms import sorted_by_text, tagger_of
from ..formats.flink.meta_info import KEY_SERIALIZER
from ..timers import queue_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from .quarantine import QuarantinedValue
    from .reader import SavepointOperator
    from .states import SavepointState


def tagged_rows(operator: SavepointOperator, state: SavepointState) -> Iterator[list[Any]]:
    """Yield the entries of a keyed state as `[key, value]`, or `[key, namespace, value]` where it is namespaced.

    Raises:
        OldReaderUnavailable: This release cannot read the values of the state.
        CorruptSavepoint: The bytes are damaged.
    """
    place, value = place_tagger(operator, state), tagger_of(state.description.value.snapshot)
    for entry in state.read_entries():
        yield [*place(entry.key, entry.namespace), value(entry.value)]


def place_tagger(operator: SavepointOperator, state: SavepointState) -> Callable[[Any, Any], list[Any]]:
    """Return the function that converts key and namespace to `[key]`, or `[key, namespace]` where it is namespaced."""
    space = state.description.namespace
    key = tagger_of(operator.key) if operator.key is not None else repr
    namespace = tagger_of(space.snapshot) if space is not None else repr
    return lambda one, within: [key(one)] if within is None else [key(one), namespace(within)]


def tagged_timers(state: SavepointState) -> Iterator[list[Any]]:
    """Yield the timers of a queue as `[key, namespace, timestamp]`; raises as `tagged_rows`."""
    key, namespace = map(tagger_of, state.description.value.snapshot.children())
    for timer in state.read_timers():
        yield [key(timer.key), namespace(timer.namespace), timer.timestamp]


def timer_label(operator: SavepointOperator, state: SavepointState) -> str:
    """Return the name of a queue in the tagged format: its time domain, and the service if the operator has several."""
    parts = queue_parts(state.name)
    if parts is None:
        return state.name
    service, domain = parts
    others = [queue_parts(other.name) for other in operator.states if other.name != state.name]
    is_one_of_several = any(other is not None and other[1] is domain for other in others)
    return f"{domain}_{service}" if is_one_of_several else str(domain)


def tagged_quarantined(value: QuarantinedValue) -> Any:
    """Return a value in quarantine in the tagged format; raises as `QuarantinedValue.read`."""
    read = value.read()
    assert value.stored is not None  # noqa: S101 - it was read by them
    info = value.stored.info
    key = info.snapshot(KEY_SERIALIZER)
    tag = tagger_of(without_ttl_awareness(info.value))
    return (tag if key is None else map_tagger(tagger_of(key), tag))(read.value)


def tagged_elements(state: SavepointState) -> list[list[Any]]:
    """Return the elements of an operator's list state by subtask; for broadcast state its map, as one element."""
    return [list(elements) for elements in each_tagged_element(state)]


def each_tagged_element(state: SavepointState) -> Iterator[Iterator[Any]]:
    """Yield for each subtask an iterator over what `tagged_elements` returns; one element is converted at a time."""
    value = tagger_of(state.description.value.snapshot)
    if state.description.key is not None:
        value = map_tagger(tagger_of(state.description.key.snapshot), value)
    for elements in state.each_element():
        yield map(value, elements)


def has_ttl(state: SavepointState) -> bool:
    """Whether the values of a state have time stamps."""
    pending = [state.description.value.snapshot]
    while pending:
        snapshot = pending.pop()
        if snapshot.kind == "ttl":
            return True
        pending += snapshot.children()
    return False


def tagged_operator(operator: SavepointOperator, states: Iterable[SavepointState]) -> dict[str, Any]:
    """Return one operator in the tagged format.

    Args:
        operator: The operator.
        states: The states to include; all of them can be read.

    Returns:
        `operator_id`, `uid` where it is known, and `keyed`, `timers`, `operator` and `broadcast` where such states
        exist. Entries and timers are sorted by their JSON text; elements keep their order. A state that is migrated
        lazily has the entries of all its tables, and in `lazy_versions` the number of those of each version.
    """
    scopes: dict[str, dict[str, Any]] = {}
    versions = versions_of(state.name for state in operator.states)
    for state in states:
        if state.kind is StateKind.TIMERS:
            scopes.setdefault("timers", {})[timer_label(operator, state)] = sorted_by_text(tagged_timers(state))
        elif state.kind.is_keyed:
            entries = sorted_by_text(tagged_rows(operator, state))
            content: Any = {"kind": str(state.kind).upper(), "ttl": has_ttl(state), "entries": entries}
            if version := versions.get(state.name):
                before = scopes.get("keyed", {}).get(state_in(state.name), {})
                content["entries"] = sorted_by_text([*before.get("entries", ()), *entries])
                content["lazy_versions"] = {**before.get("lazy_versions", {}), str(version): len(entries)}
            scopes.setdefault("keyed", {})[state_in(state.name)] = content
        elif state.kind is StateKind.BROADCAST:
            scopes.setdefault("broadcast", {})[state.name] = [
                part for parts in tagged_elements(state) for part in parts
            ]
        else:
            content = {"mode": state.kind.row.flink, "subtasks": tagged_elements(state)}
            scopes.setdefault("operator", {})[state.name] = content
    names = {"operator_id": operator.operator_id} | ({"uid": operator.uid} if operator.uid else {})
    return names | {scope: dict(sorted(content.items())) for scope, content in sorted(scopes.items())}
