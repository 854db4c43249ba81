"""Results of `stateshift inspect`: operators and states with their sizes, or why they cannot be read, as data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ..compat.description import StateKind
from ..compat.lazy_tables import state_in, versions_of
from ..compat.structuring import fields_of, plain
from ..compat.type_difference import state_type_text
from ..serializers.errors import LibraryNotFound, SavepointNotFound, StateShiftError, values_are_redacted
from ..state.backends.lazy_forms import old_among
from .failures import error_data

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..serializers.snapshot import TypeSerializerConfigSnapshot
    from ..state.savepoint.largest_keys import LargestKeys
    from ..state.savepoint.reader import Savepoint, SavepointOperator
    from ..state.savepoint.sizes import OperatorSizes, Share, StateSizes


@attrs.frozen
class StateView:
    """The facts about a state, except for its sizes.

    Attributes:
        sizes: Its sizes.
        lazy_version: The version of the values here, if the state is migrated lazily: each version has a view.
    """

    sizes: StateSizes
    lazy_version: int | None = None

    @property
    def name(self) -> str:
        """The name of the state."""
        return state_in(self.sizes.state.name)

    @property
    def kind(self) -> StateKind:
        """The kind of the state."""
        return self.sizes.state.kind

    @property
    def has_ttl(self) -> bool:
        """Whether values have a time stamp."""
        return any(snapshot.kind == "ttl" for snapshot in _tree(self.sizes.state.description.value.snapshot))

    @property
    def is_flink_restorable(self) -> bool:
        """Whether Flink knows all serializers of the state."""
        return all(part.snapshot.is_flink for part in self.sizes.state.description.serializers())

    @property
    def namespace(self) -> str:
        """The namespace's type in words; "" if there is none."""
        namespace = self.sizes.state.description.namespace
        words = namespace.describe() if namespace is not None else ""
        return "" if words == "VoidNamespace" else words

    @property
    def is_empty(self) -> bool:
        """Whether the state is known to have no entries."""
        return self.sizes.measure is not None and not self.sizes.measure.entries

    @property
    def is_unsupported(self) -> bool:
        """Whether it has values that cannot be read; most operators have timer queues without a timer."""
        return bool(self.sizes.state.unsupported) and not self.is_empty

    def type_text(self, width: int = 0) -> str:
        """Return the text of the type of its values, limited to a number of characters, or in full."""
        return state_type_text(self.sizes.state.description, width)

    def remarks(self) -> list[str]:
        """Return further facts about the state, in words."""
        remarks = [f"per {self.namespace}"] if self.namespace else []
        remarks += [f"version {self.lazy_version} of a lazy migration"] if self.lazy_version else []
        remarks += ["TTL"] if self.has_ttl else []
        remarks += [] if self.is_flink_restorable else ["not Flink-restorable"]
        remarks += ["unsupported"] if self.is_unsupported else []
        measure = self.sizes.measure
        if measure is not None and measure.oversized:
            remarks.append("a value over 2 GB, which Flink cannot read back")
        if self.sizes.error is not None:
            words = {LibraryNotFound: "not counted", SavepointNotFound: "a file is missing"}
            remarks.append(words.get(type(self.sizes.error), "damaged"))
        return remarks

    def records(self) -> list[dict[str, Any]]:
        """Return the records in its types, each with its fields."""
        return _records(part.snapshot for part in self.sizes.state.description.serializers())


@attrs.frozen
class OperatorView:
    """An operator with the sizes of its states, or with the reason why its streams cannot be read.

    Attributes:
        operator: The operator.
        sizes: The sizes; None if the streams cannot be read, or none of its states was requested.
        error: The reason why they cannot be read.
    """

    operator: SavepointOperator
    sizes: OperatorSizes | None = None
    error: StateShiftError | None = None

    @classmethod
    def of(
        cls,
        operator: SavepointOperator,
        state_name: str | None,
        keys: int,
        progress: Callable[[int], None] | None = None,
    ) -> OperatorView:
        """Measure the state with this name, or all states; find the given number of largest keys."""
        try:
            names = None
            if state_name is not None:
                names = {one.name for one in operator.states if state_name in {one.name, state_in(one.name)}}
            sizes = operator.measure(states=names, keys=keys, progress=progress)
            return cls(operator, sizes if names is None or sizes.states else None)
        except StateShiftError as error:
            return cls(operator, error=error)

    @property
    def states(self) -> list[StateView]:
        """The states by name, timers last."""
        found = self.sizes.states if self.sizes else ()
        versions = versions_of(sizes.state.name for sizes in found)
        views = [StateView(sizes, versions.get(sizes.state.name)) for sizes in found]
        return sorted(views, key=lambda view: (view.kind is StateKind.TIMERS, view.name, view.lazy_version or 0))

    @property
    def left_to_migrate(self) -> dict[str, int]:
        """The numbers of entries that are still in an old form, of the states that are migrated lazily.

        With 0 the entries are still moved to the table that Flink expects.
        """
        tables: dict[str, dict[str, StateView]] = {}
        for view in self.states:
            tables.setdefault(view.name, {})[view.sizes.state.name] = view
        left = {}
        for state, views in tables.items():
            if set(views) == {state}:
                continue
            old = old_among({name: view.sizes.state.description.value.snapshot for name, view in views.items()})
            measures = (views[name].sizes.measure for name in old)
            left[state] = sum(measure.entries for measure in measures if measure is not None)
        return left

    @property
    def key(self) -> TypeSerializerConfigSnapshot[Any] | None:
        """The snapshot of the key; None if there is no keyed state, or it cannot be read."""
        return None if self.sizes is None else self.operator.key

    @property
    def is_stateless(self) -> bool:
        """Whether there is nothing to show but its name."""
        return not self.operator.stored.has_state and self.error is None

    @property
    def is_flink_restorable(self) -> bool | None:
        """Whether Flink can restore it; None if it is not known, or there is no state that Flink would read."""
        if self.error is not None or not self.operator.stored.has_state:
            return None
        return self.operator.description.is_flink_restorable

    @property
    def has_keyed_entries(self) -> bool:
        """Whether it has entries that are distributed over key groups."""
        return self.sizes is not None and any(sizes.key_groups for sizes in self.sizes.states)

    @property
    def is_damaged(self) -> bool:
        """Whether data of it is damaged or missing."""
        return any(not isinstance(error, LibraryNotFound) for error in self.errors())

    def errors(self) -> Iterator[StateShiftError]:
        """Yield the errors on damaged or missing data, or on a missing library, each once."""
        found = [self.error, *(sizes.error for sizes in (self.sizes.states if self.sizes else ()))]
        yield from {id(error): error for error in found if error is not None}.values()


@attrs.frozen
class Inspected:
    """A savepoint, and the operators and states that were inspected."""

    savepoint: Savepoint
    operators: tuple[OperatorView, ...]

    @property
    def size_bytes(self) -> int:
        """The total size of the streams of all operators, shown or not."""
        return sum(operator.size_bytes for operator in self.savepoint.operators)

    def errors(self) -> list[StateShiftError]:
        """Return the errors on all damaged or missing data."""
        return [error for operator in self.operators for error in operator.errors()]


def writer_of(savepoint: Savepoint) -> str:
    """Return the name of the program that wrote a savepoint, with its release if that is known."""
    if savepoint.lineage is not None:
        return f"stateshift {savepoint.lineage.stateshift}"
    return "Flink" if savepoint.query is None else "stateshift"


def share_of(part: int, whole: int) -> float | None:
    """Return the share of the part in the whole, from 0 to 1; None if the whole is 0."""
    return part / whole if whole else None


def _tree(snapshot: TypeSerializerConfigSnapshot[Any]) -> Iterator[TypeSerializerConfigSnapshot[Any]]:
    yield snapshot
    for child in snapshot.children():
        yield from _tree(child)


def _records(snapshots: Iterator[TypeSerializerConfigSnapshot[Any]]) -> list[dict[str, Any]]:
    from ..serializers.records.serializers import RecordSnapshot

    found: dict[str, dict[str, Any]] = {}
    for snapshot in (inner for outer in snapshots for inner in _tree(outer)):
        if isinstance(snapshot, RecordSnapshot) and snapshot.record_name() not in found:
            fields = [{"name": field.name, "type": field.describe()} for field in snapshot.stored_fields()]
            found[snapshot.record_name()] = {"name": snapshot.record_name(), "fields": fields}
    return list(found.values())


def to_data(inspected: Inspected, *, with_skew: bool) -> dict[str, Any]:
    """Return all results as plain data, with the field names of docs/reference/cli.md."""
    savepoint = inspected.savepoint
    lineage = savepoint.lineage
    return {
        "savepoint": savepoint.place,
        **fields_of(savepoint.metadata, "version checkpoint_id"),
        "master_states": len(savepoint.metadata.master_states),
        "written_by": writer_of(savepoint).lower(),
        "source": None if lineage is None else lineage.source,
        "query": None if savepoint.query is None else fields_of(savepoint.query, "checkpoint batch epoch unproven?"),
        "position": savepoint.position,
        "quarantined": 0 if lineage is None else lineage.quarantined,
        "bytes": inspected.size_bytes,
        "missing_timers": savepoint.missing_timers or None,
        "operators": [_operator_data(view, inspected.size_bytes, with_skew) for view in inspected.operators],
    }


def _operator_data(view: OperatorView, whole: int, with_skew: bool) -> dict[str, Any]:  # noqa: FBT001 - private
    operator = view.operator
    return {
        **fields_of(operator, "operator_id uid name parallelism max_parallelism finished=stored.finished"),
        "bytes": operator.size_bytes,
        "share": share_of(operator.size_bytes, whole),
        "flink_restorable": view.is_flink_restorable,
        "custom_raw_keyed_state": operator.has_custom_raw_keyed_state if view.error is None else None,
        "format": operator.keyed_format or None,
        "foreign_entries": view.sizes.foreign if view.sizes else None,
        **fields_of(operator, "keeps"),
        "unsupported": None if view.error else operator.unreadable or None,
        "error": None if view.error is None else error_data(view.error),
        "key": None if view.key is None else view.key.describe(),
        "states": [_state_data(state, view) for state in view.states],
        "skew": _skew_data(view.sizes) if with_skew and view.sizes and view.has_keyed_entries else None,
    }


def _state_data(view: StateView, operator: OperatorView) -> dict[str, Any]:
    state, measure, largest = view.sizes.state, view.sizes.measure, view.sizes.largest
    whole = operator.sizes.size_bytes if operator.sizes else 0
    return {
        **fields_of(view, "name lazy_version?"),
        **fields_of(state, "kind"),
        "type": state.description.describe(),
        "expression": view.type_text(),
        **fields_of(view, "namespace? ttl=has_ttl"),
        **fields_of(view.sizes, "entries=measure.entries bytes=measure.size_bytes oversized=measure.oversized"),
        "share": None if measure is None else share_of(measure.size_bytes, whole),
        "flink_restorable": view.is_flink_restorable,
        "unsupported": state.unsupported or None,
        "error": None if view.sizes.error is None else error_data(view.sizes.error),
        "records": view.records(),
        "largest_keys": None if largest is None else _largest_data(largest, operator.key),
    }


def _largest_data(largest: LargestKeys, snapshot: TypeSerializerConfigSnapshot[Any] | None) -> dict[str, Any]:
    from ..serializers.json_forms import tagger_of

    tagged = (lambda _: None) if snapshot is None or values_are_redacted() else tagger_of(snapshot)

    keys = [{"key": tagged(one.key)} | fields_of(one, "key_group entries bytes=size_bytes") for one in largest.keys]
    return fields_of(largest, "exact=is_exact unknown?") | {"keys": keys}


def _skew_data(sizes: OperatorSizes) -> dict[str, Any]:
    from ..state.savepoint.sizes import Spread

    def spread(shares: tuple[Share, ...], ranges: tuple[Share, ...]) -> dict[str, Any]:
        return {
            **plain(Spread.of([share.size_bytes for share in shares])),
            "ranges": [
                {"first": one.key_groups.start, "last": one.key_groups.stop - 1}
                | fields_of(one, "entries bytes=size_bytes")
                for one in ranges
            ],
        }

    return {
        "key_groups": spread(sizes.key_groups, sizes.bins()),
        "subtasks": spread(sizes.subtasks, sizes.subtasks),
    }
