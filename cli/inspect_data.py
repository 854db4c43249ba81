"""Results of `stateshift inspect`: operators and states with their sizes, or why they cannot be read, as data.

Savepoints, state directories and checkpoints of Spark give the same views. What is a fact of one of them alone is
additional data: `more`.
"""

from __future__ import annotations

from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import attrs

from ..compat.description import StateKind
from ..compat.edits import is_called
from ..compat.lazy_tables import is_reduced, state_in, versions_of
from ..compat.plain_data import fields_of, plain
from ..compat.spread import Share, Spread
from ..compat.type_difference import state_type_text
from ..serializers.errors import (
    LibraryNotFound,
    SavepointNotFound,
    StateNotFound,
    StateShiftError,
    values_are_redacted,
)
from ..state.backends.lazy_forms import old_among
from ..state.progress import size_text
from ..state.savepoint.states import Measure
from .failures import error_data
from .progress import spinning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ..compat.description import OperatorDescription, StateDescription
    from ..compat.profiles import Profile
    from ..serializers.snapshot import TypeSerializerConfigSnapshot
    from ..state.formats.spark.reader import SparkCheckpoint, SparkOperator, SparkStore
    from ..state.savepoint.largest_keys import LargestKeys
    from ..state.savepoint.reader import Savepoint, SavepointOperator
    from ..state.savepoint.sizes import OperatorSizes, StateSizes
    from ..state.savepoint.states import SavepointState

    Counted = Mapping[tuple[str, str], Measure]
    """The sizes of an operator's states, by name and kind."""
    AnyOperator = SavepointOperator | SparkOperator
    AnyState = SavepointState | SparkStore

_LAST = {StateKind.TIMERS: 1, "index": 2}
"""The kinds of states that follow the others."""
_NOTHING = Share(range(0), 0, 0)


@attrs.frozen
class StateView:
    """A state and its size, or why it is not known.

    Attributes:
        state: The state.
        measure: Its size; None where it cannot be counted.
        error: Why it cannot be counted: damage, or a missing file.
        largest: The largest keys, if they were requested and the state has keys.
        lazy_version: The version of the values here, if the state is migrated lazily: each version has a view.
        by_partition: Of a Spark query: the size of each partition.
        has_ttl: Whether values have a time stamp.
        is_forgotten: Whether it is of a variable that the query has not any more.
    """

    state: AnyState
    measure: Measure | None = None
    error: StateShiftError | None = None
    largest: LargestKeys | None = None
    lazy_version: int | None = None
    by_partition: tuple[Share, ...] | None = None
    has_ttl: bool = False
    is_forgotten: bool = False

    @classmethod
    def of(cls, sizes: StateSizes, lazy_version: int | None) -> StateView:
        """Return the view of a measured state of a savepoint."""
        state = sizes.state
        has_ttl = any(snapshot.kind == "ttl" for snapshot in _tree(state.description.value.snapshot))
        return cls(state, sizes.measure, sizes.error, sizes.largest, lazy_version, has_ttl=has_ttl)

    @classmethod
    def of_store(cls, store: SparkStore, operator: SparkOperator, counted: Counted | None) -> StateView:
        """Return the view of a store of a Spark query; it is measured, if this release reads it and nothing has yet."""
        has_ttl, is_forgotten = store.name in operator.facts.expiring, store in operator.forgotten
        view = cls(store, has_ttl=has_ttl, is_forgotten=is_forgotten)
        if store.unsupported:
            return view
        if counted is not None:
            return attrs.evolve(view, measure=counted.get((store.name, store.kind)))
        try:
            sizes = store.measure()
        except StateShiftError as error:
            return attrs.evolve(view, error=error)
        shares = (Share(range(at, at + 1), one.entries, one.size_bytes) for at, one in enumerate(sizes))
        measure = Measure(sum(one.entries for one in sizes), sum(one.size_bytes for one in sizes))
        return attrs.evolve(view, measure=measure, by_partition=tuple(shares))

    @property
    def name(self) -> str:
        """The name of the state."""
        return state_in(self.state.name)

    @property
    def kind(self) -> str:
        """Its kind; `index`: it follows from other states of a Spark query."""
        return self.state.kind

    @property
    def description(self) -> StateDescription | None:
        """What a check compares; None: its types are not known."""
        return self.state.description

    @property
    def rows(self) -> dict[str, str] | None:
        """The types of keys and values, as SQL spells them; None: it is not of Spark."""
        return self.state.sql_types

    @property
    def is_flink_restorable(self) -> bool | None:
        """Whether Flink knows all serializers of the state; None: it is not of Flink."""
        if self.description is None or self.rows is not None:
            return None
        return all(part.snapshot.is_flink for part in self.description.serializers())

    @property
    def namespace(self) -> str:
        """The namespace's type in words; "" if there is none."""
        namespace = None if self.description is None else self.description.namespace
        words = namespace.describe() if namespace is not None else ""
        return "" if words == "VoidNamespace" else words

    @property
    def is_empty(self) -> bool:
        """Whether the state is known to have no entries."""
        return self.measure is not None and not self.measure.entries

    @property
    def is_unsupported(self) -> bool:
        """Whether it has values that cannot be read; most operators have timer queues without a timer."""
        return bool(self.state.unsupported) and not self.is_empty

    def types(self, width: int = 0) -> list[str]:
        """Return its types in words, a line each, limited to a number of characters, or in full.

        What follows from other states of a Spark query is told in full only.
        """
        if self.rows is None:
            return [] if self.description is None else [state_type_text(self.description, width)]
        lines = [f"{word:<5} {text}" for word, text in self.rows.items() if not (width and self.kind == "index")]
        return [line if not width or len(line) <= width else f"{line[: width - 1]}…" for line in lines]

    def remarks(self) -> list[str]:
        """Return further facts about the state, in words."""
        remarks = [f"per {self.namespace}"] if self.namespace else []
        remarks += [f"version {self.lazy_version} of a lazy migration"] if self.lazy_version else []
        remarks += [f"of one start: {self.state.name}"] if is_reduced(self.state.name) else []
        remarks += ["TTL"] if self.has_ttl else []
        remarks += ["of a variable that the query has not any more"] if self.is_forgotten else []
        remarks += ["not Flink-restorable"] if self.is_flink_restorable is False else []
        remarks += ["unsupported"] if self.is_unsupported else []
        if self.measure is not None and self.measure.oversized:
            remarks.append("a value over 2 GB, which Flink cannot read back")
        if self.error is not None:
            words = {LibraryNotFound: "not counted", SavepointNotFound: "a file is missing"}
            remarks.append(words.get(type(self.error), "damaged"))
        return remarks

    def records(self) -> list[dict[str, Any]]:
        """Return the records in its types, each with its fields."""
        return [] if self.description is None else _records(part.snapshot for part in self.description.serializers())


@attrs.frozen
class OperatorView:
    """An operator with its states, or with the reason why its streams cannot be read.

    Attributes:
        operator: The operator.
        found: The states that were requested.
        sizes: Of a savepoint: the sizes; None if the streams cannot be read, or none of its states was requested.
        error: The reason why they cannot be read.
    """

    operator: AnyOperator
    found: tuple[StateView, ...] = ()
    sizes: OperatorSizes | None = None
    error: StateShiftError | None = None

    @classmethod
    def of(
        cls,
        operator: AnyOperator,
        state_name: str | None,
        keys: int = 0,
        progress: Callable[[int], None] | None = None,
        counted: Counted | None = None,
    ) -> OperatorView:
        """Measure the state with this name, or all states; find the given number of largest keys.

        What is counted already is not read.
        """
        return _MEASURED[operator.is_of_spark](operator, state_name, keys, progress, counted)

    @property
    def facts(self) -> SavepointOperator | OperatorDescription:
        """What every operator has: its id, uid and name, its subtasks, what it keeps."""
        facts: Any = self.operator
        return facts.description if self.operator.is_of_spark else facts  # type: ignore[no-any-return]

    @property
    def states(self) -> list[StateView]:
        """The states by name, timers and indexes last."""
        return sorted(self.found, key=lambda view: (_LAST.get(view.kind, 0), view.name, view.lazy_version or 0))

    @property
    def entries_bytes(self) -> int:
        """The bytes of all entries that could be counted."""
        return sum(view.measure.size_bytes for view in self.found if view.measure is not None)

    @property
    def size_bytes(self) -> int:
        """The bytes of its streams; of a Spark query, those of its entries."""
        return self.entries_bytes if self.operator.size_bytes is None else self.operator.size_bytes

    @property
    def left_to_migrate(self) -> dict[str, int]:
        """The numbers of entries that are still in an old form, of the states that are migrated lazily.

        With 0 the entries are still moved to the table that Flink expects.
        """
        tables: dict[str, dict[str, StateView]] = {}
        for view in self.states:
            tables.setdefault(view.name, {})[view.state.name] = view
        left = {}
        for state, views in tables.items():
            if set(views) == {state}:
                continue
            described = {name: view.description for name, view in views.items()}
            old = old_among({name: one.value.snapshot for name, one in described.items() if one is not None})
            measures = (views[name].measure for name in old)
            left[state] = sum(measure.entries for measure in measures if measure is not None)
        return left

    @property
    def key(self) -> TypeSerializerConfigSnapshot[Any] | None:
        """The snapshot of the key; None if there is no keyed state, or it cannot be read, or each state has its own."""
        return None if self.sizes is None else self.sizes.operator.key

    @property
    def is_stateless(self) -> bool:
        """Whether there is nothing to show but its name."""
        return not self.operator.has_state and self.error is None

    @property
    def is_flink_restorable(self) -> bool | None:
        """Whether Flink can restore it; None if it is not known, or there is no state that Flink would read."""
        if self.error is not None or self.is_stateless:
            return None
        described = self.operator.description
        return described.is_flink_restorable if described.computation is None else None

    @property
    def spreads(self) -> dict[str, tuple[tuple[Share, ...], tuple[Share, ...]]]:
        """How its entries are distributed: all shares, and those to show, by what they are of; empty without entries.

        They are of key groups and subtasks; of a Spark query, of its partitions.
        """
        if self.sizes is not None and any(sizes.key_groups for sizes in self.sizes.states):
            subtasks = self.sizes.subtasks
            return {"key group": (self.sizes.key_groups, self.sizes.bins()), "subtask": (subtasks, subtasks)}
        counted = [view.by_partition for view in self.found if view.by_partition]
        by_partition = zip_longest(*counted, fillvalue=_NOTHING)
        shares = tuple(
            Share(range(at, at + 1), sum(one.entries for one in of), sum(one.size_bytes for one in of))
            for at, of in enumerate(by_partition)
        )
        return {"partition": (shares, shares)} if shares else {}

    @property
    def is_damaged(self) -> bool:
        """Whether data of it is damaged or missing."""
        return any(not isinstance(error, LibraryNotFound) for error in self.errors())

    def errors(self) -> Iterator[StateShiftError]:
        """Yield the errors on damaged or missing data, or on a missing library, each once."""
        found = [self.error, *(view.error for view in self.found)]
        yield from {id(error): error for error in found if error is not None}.values()


def _of_stores(
    operator: SparkOperator, state_name: str | None, _: int, __: object, counted: Counted | None
) -> OperatorView:
    stores = (store for store in operator.stores if state_name in {None, store.name})
    return OperatorView(operator, tuple(StateView.of_store(store, operator, counted) for store in stores))


def _of_streams(
    operator: SavepointOperator,
    state_name: str | None,
    keys: int,
    progress: Callable[[int], None] | None,
    counted: Counted | None,
) -> OperatorView:
    from ..state.savepoint.sizes import OperatorSizes, StateSizes

    try:
        names = None
        if state_name is not None:
            names = {one.name for one in operator.states if is_called(one.name, state_name)}
        if counted is None:
            sizes = operator.measure(states=names, keys=keys, progress=progress)
        else:
            states = (one for one in operator.states if names is None or one.name in names)
            known = tuple(StateSizes(one, counted.get((one.name, str(one.kind)))) for one in states)
            sizes = OperatorSizes(operator, known)
    except StateShiftError as error:
        return OperatorView(operator, error=error)
    if names is not None and not sizes.states:
        return OperatorView(operator)
    versions = versions_of(one.state.name for one in sizes.states)
    return OperatorView(operator, tuple(StateView.of(one, versions.get(one.state.name)) for one in sizes.states), sizes)


_MEASURED: dict[bool, Callable[..., OperatorView]] = {True: _of_stores, False: _of_streams}
"""The views of operators of Spark, and of others."""


@attrs.frozen
class Inspected:
    """A savepoint or a checkpoint of Spark, and the operators and states that were inspected."""

    opened: Savepoint | SparkCheckpoint
    operators: tuple[OperatorView, ...]

    @classmethod
    def of(
        cls, opened: Savepoint | SparkCheckpoint, operator_name: str | None, state_name: str | None, keys: int = 0
    ) -> Inspected:
        """Read and measure the requested states.

        Raises:
            StateNotFound: No operator or state has the name.
        """
        chosen: tuple[AnyOperator, ...] = chosen_operators(opened, operator_name)
        views = []
        with spinning("reading") as show:
            for operator in chosen:
                show(operator.title)
                views.append(OperatorView.of(operator, state_name, keys, partial(_show_bytes, show, operator.title)))
        if state_name is not None:
            views = [view for view in views if view.found or view.error]
            if not views:
                raise no_such_state(opened, chosen, state_name)
        return cls(opened, tuple(views))

    @classmethod
    def of_profile(
        cls,
        opened: Savepoint | SparkCheckpoint,
        operator_name: str | None,
        state_name: str | None,
        profile: Profile,
    ) -> Inspected:
        """Return the requested states with the sizes that their profile has counted; no entries are read."""
        views = []
        for operator in chosen_operators(opened, operator_name):
            facts: Any = operator
            place = str(facts.number) if operator.is_of_spark else facts.operator_id
            known = (one for one in profile.states if one.operator_id == place and not one.not_counted)
            counted = {(one.state, one.kind): Measure(one.entries, one.size_bytes) for one in known}
            views.append(OperatorView.of(operator, state_name, counted=counted))
        return cls(opened, tuple(view for view in views if state_name is None or view.found))

    @property
    def size_bytes(self) -> int:
        """The total size of the streams of all operators, shown or not; of a Spark query, of what is shown."""
        sizes = [operator.size_bytes for operator in self.opened.operators]
        known = [size for size in sizes if size is not None]
        return sum(known if len(known) == len(sizes) else (view.size_bytes for view in self.operators))

    def errors(self) -> list[StateShiftError]:
        """Return the errors on all damaged or missing data."""
        return [error for operator in self.operators for error in operator.errors()]


def _show_bytes(show: Callable[[str], None], title: str, seen: int) -> None:
    show(f"{title}: {size_text(seen)} so far")


def chosen_operators(opened: Savepoint | SparkCheckpoint, name: str | None) -> tuple[AnyOperator, ...]:
    """Return the operator of a name, or all; raises `StateNotFound`."""
    return opened.operators if name is None else (opened.operator(name),)


def no_such_state(opened: Savepoint | SparkCheckpoint, operators: Iterable[AnyOperator], name: str) -> StateNotFound:
    """Return the error on a state that none of some operators has."""
    known = sorted({state_in(state.name) for operator in operators for state in operator.states})
    return StateNotFound(f"no operator has a state {name!r}; there are: {', '.join(known) or 'none'}", **opened.where)


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
    opened = inspected.opened
    return {
        "savepoint": opened.place,
        "written_by": opened.written_by.lower(),
        "bytes": inspected.size_bytes,
        **opened.own_facts(),
        "operators": [_operator_data(view, inspected.size_bytes, with_skew) for view in inspected.operators],
    }


def _operator_data(view: OperatorView, whole: int, with_skew: bool) -> dict[str, Any]:  # noqa: FBT001 - private
    operator, facts = view.operator, view.facts
    return {
        **fields_of(facts, "operator_id uid name parallelism max_parallelism keeps"),
        "bytes": view.size_bytes,
        "share": share_of(view.size_bytes, whole),
        "flink_restorable": view.is_flink_restorable,
        "unsupported": None if view.error else facts.unreadable or None,
        "error": None if view.error is None else error_data(view.error),
        "key": None if view.key is None else view.key.describe(),
        "states": [_state_data(state, view) for state in view.states],
        "skew": skew_data(view) if with_skew and view.spreads else None,
        **operator.own_facts(is_damaged=view.error is not None, foreign=view.sizes.foreign if view.sizes else None),
    }


def _state_data(view: StateView, operator: OperatorView) -> dict[str, Any]:
    measure, largest = view.measure, view.largest
    data = {
        **fields_of(view, "name lazy_version? kind"),
        "type": None if view.description is None else view.description.describe(),
        "expression": None if view.description is None else state_type_text(view.description),
        **fields_of(view, "namespace? ttl=has_ttl"),
        **fields_of(view, "entries=measure.entries bytes=measure.size_bytes oversized=measure.oversized"),
        "share": None if measure is None else share_of(measure.size_bytes, operator.entries_bytes),
        **fields_of(view, "flink_restorable=is_flink_restorable unsupported=state.unsupported?"),
        "error": None if view.error is None else error_data(view.error),
        "records": view.records(),
        "largest_keys": None if largest is None else _largest_data(largest, operator.key),
    }
    if view.rows is None:
        return data
    entries = None if view.by_partition is None else [one.entries for one in view.by_partition]
    return data | {"key": view.rows.get("key"), "value": view.rows.get("value"), "by_partition": entries}


def _largest_data(largest: LargestKeys, snapshot: TypeSerializerConfigSnapshot[Any] | None) -> dict[str, Any]:
    from ..serializers.json_forms import tagger_of

    tagged = (lambda _: None) if snapshot is None or values_are_redacted() else tagger_of(snapshot)

    keys = [{"key": tagged(one.key)} | fields_of(one, "key_group entries bytes=size_bytes") for one in largest.keys]
    return fields_of(largest, "exact=is_exact unknown?") | {"keys": keys}


def skew_data(view: OperatorView) -> dict[str, Any]:
    """Return how the entries of an operator are distributed, as plain data."""
    return {
        f"{of.replace(' ', '_')}s": {
            **plain(Spread.of([share.size_bytes for share in every])),
            "ranges": [
                {"first": one.key_groups.start, "last": one.key_groups.stop - 1}
                | fields_of(one, "entries bytes=size_bytes")
                for one in ranges
            ],
        }
        for of, (every, ranges) in view.spreads.items()
    }
