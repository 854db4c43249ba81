"""Writer of a new savepoint from entries, without Spark: for tests, tools and small state.

    with SavepointWriter("/data/savepoint-1", job) as writer:
        writer.put("account-state", "account", 7, Account(7, "Ann"))

Everything is held in memory until the end; the savepoint exists only after it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Self, TypeVar

import attrs

from ...compat.description import StateDescription, StateKind
from ...compat.plan import Compression
from ...compat.targets import Target
from ...serializers.containers.pieces import encode_each
from ...serializers.errors import StateNotFound, ValueNotConvertible, located, shown
from ...serializers.flink.namespaces import Timer, TimerSerializer, VoidNamespace
from ...serializers.snapshot import require_registered
from ..entry_keys import EntryKey, EntryKeyFormat, encode
from ..formats.flink.metadata import SavepointMetadata
from ..job import key_groups_of
from ..key_groups import key_group, key_group_range, key_hasher, prefix_size
from ..publication.commit import Commit
from ..publication.lineage import FileDigest, StateCount
from ..publication.publish import Destination, all_or_nothing, check_target, stream_name
from ..publication.runs import names_of
from ..publication.source_guard import refuse_by_place
from ..publication.stored_serializers import SERIALIZERS, place_of, write_stored_serializers
from ..storage.files import Folder
from ..timers import TimeDomain, queue_name
from ..transcode.entry_layout import entry_values
from ..user_code import called
from .new_streams import check_job, keyed_header, new_operator, operator_infos, put_keyed_state, put_operator_state
from .reader import Savepoint

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from ...serializers.serializer import TypeSerializer
    from ..formats.flink.handles import KeyGroupsHandle
    from ..job import Job, Operator

T = TypeVar("T")


@attrs.define
class _OperatorDraft:
    """The contents of one operator so far."""

    operator: Operator
    states: dict[str, StateDescription]
    lists: dict[str, StateDescription]
    entries: dict[str, dict[bytes, bytes]] = attrs.field(factory=lambda: defaultdict(dict))
    elements: dict[tuple[int, str], list[bytes]] = attrs.field(factory=lambda: defaultdict(list))
    broadcast: dict[str, dict[bytes, bytes]] = attrs.field(factory=lambda: defaultdict(dict))
    slots: dict[str, _Slot] = attrs.field(factory=dict)


@attrs.define
class _Slot:
    """The key format of one keyed state, and the keys that are taken."""

    description: StateDescription
    key: TypeSerializer[Any]
    namespace: TypeSerializer[Any]
    hasher: Callable[[Any], int]
    form: EntryKeyFormat
    taken: set[EntryKey] = attrs.field(factory=set)

    def place(self, key: Any, namespace: Any, max_parallelism: int) -> EntryKey:
        """Return the encoded key and namespace, and their key group."""
        keys = _guarded(lambda: encode_each(self.key, (key,), "<key>")[0], key)
        spaces = _guarded(lambda: encode_each(self.namespace, (namespace,), "<namespace>")[0], namespace)
        return EntryKey(key_group(self.hasher(key), max_parallelism), keys, spaces)


def _guarded(step: Callable[[], T], value: object) -> T:
    """Call a serializer, which may be a user's; convert foreign exceptions to `ValueNotConvertible`."""
    return called(step, lambda: f"{shown(value)} cannot be written", "pass a value of the declared type")


class SavepointWriter:
    """Writes a savepoint of a job.

    Args:
        place: A folder that is empty or does not exist; a path or URI.
        job: The operators and states.
        max_parallelism: The number of key groups; a Flink job that sets its own must have the same one. By default
            that of the job, or 128.
        parallelism: The number of subtasks; a job with another number can restore the savepoint, too.
        store_serializers: Whether to store the serializers of keyed states beside the savepoint (rule READ-2).
        compression: `Compression.SNAPPY` compresses the streams, as Flink does if its job enables it.
        restore_target: The target that restores the savepoint: `Target.FLINK_1_20` writes the format of that release;
            for Flink, types that it does not know are refused.

    Raises:
        TargetExists: The folder is taken.
        DeclarationError: A key type has no stable Java hash, in an operator that Flink could restore.
    """

    def __init__(
        self,
        place: str | os.PathLike[str],
        job: Job,
        *,
        max_parallelism: int | None = None,
        parallelism: int = 1,
        store_serializers: bool = False,
        compression: Compression = Compression.NONE,
        restore_target: Target = Target.ANY,
    ) -> None:
        self._folder = Folder.at(place)
        self._store_serializers = store_serializers
        self._max_parallelism, self._parallelism = key_groups_of(job, max_parallelism), parallelism
        key_group_range(0, parallelism, self._max_parallelism)
        check_job(job, restore_target)
        self._restore_target = restore_target
        self._compressed = compression is Compression.SNAPPY
        self._drafts: dict[str, _OperatorDraft] = {}
        for operator in job.operators:
            description = operator.describe()
            for state in () if store_serializers else description.states:
                for part in (state.namespace, state.key, state.value):
                    if part is not None:
                        require_registered(part.snapshot, f"the state {state.name!r}")
            draft = _OperatorDraft(
                operator,
                {s.name: s for s in description.states if s.kind.has_values},
                {state.name: state for state in description.states if not state.kind.is_keyed},
            )
            self._drafts[operator.id] = draft
        refuse_by_place(self._folder, ())
        check_target(self._folder)

    def put(self, operator: str, state: str, key: Any, value: Any, *, namespace: Any = VoidNamespace()) -> None:  # noqa: B008 - immutable
        """Put the value of a key into a keyed state; for list state a list, for map state a mapping.

        An empty list or map and None are not stored as an entry, as in Flink.

        Raises:
            StateNotFound: The job has no such operator or keyed state.
            ValueNotConvertible: Key or value do not fit, or the key has a value already.
        """
        draft = self._draft(operator)
        slot = self._slot(draft, self._description(draft.states, state, operator))
        with located(operator=operator, state=state, key=shown(key), path="$"):
            parts = slot.place(key, namespace, self._max_parallelism)
            kind, serializer = slot.description.kind, slot.description.value.new_side()
            values = _guarded(lambda: entry_values(kind, serializer, value), value)
            if parts in slot.taken:
                raise ValueNotConvertible(
                    "the key has a value in this state already", advice="write each key of a state once"
                )
            if values:
                slot.taken.add(parts)
            for user_key, data in values:
                draft.entries[state][slot.form.join(attrs.evolve(parts, user_key=user_key))] = data

    def register_event_time_timer(
        self,
        operator: str,
        timestamp: int,
        key: Any,
        *,
        namespace: Any = VoidNamespace(),  # noqa: B008 - immutable
        service: str = "",
    ) -> None:
        """Register a timer of a key that the watermark fires. Registering it twice has no effect, as in Flink.

        Args:
            operator: The uid or id of the operator.
            timestamp: The time at which it fires: milliseconds since 1970 UTC.
            key: The key.
            namespace: The window, if the service has windows.
            service: The name of the timer service; not needed if the operator has only one.

        Raises:
            StateNotFound: The job has no such operator or timer service.
            ValueNotConvertible: Key, namespace or timestamp do not fit.
        """
        self._register(operator, service, TimeDomain.EVENT_TIME, Timer(timestamp, key, namespace))

    def register_processing_time_timer(
        self,
        operator: str,
        timestamp: int,
        key: Any,
        *,
        namespace: Any = VoidNamespace(),  # noqa: B008 - immutable
        service: str = "",
    ) -> None:
        """Register a timer of a key that the clock fires; otherwise as `register_event_time_timer`."""
        self._register(operator, service, TimeDomain.PROCESSING_TIME, Timer(timestamp, key, namespace))

    def _register(self, operator: str, service: str, domain: TimeDomain, timer: Timer[Any, Any]) -> None:
        draft = self._draft(operator)
        services = {known.name: known for known in draft.operator.timers}
        found = services.get(service) if service or len(services) != 1 else next(iter(services.values()))
        if found is None:
            which = f"no timer service {service!r}" if service else f"{len(services)} timer services"
            raise StateNotFound(
                f"the operator has {which}; declared are: {', '.join(services) or 'none'}",
                advice="use one of these: service=…" if services else "declare it with the operator: timers=[…]",
                operator=operator,
            )
        key = draft.operator.key
        assert key is not None  # noqa: S101 - an operator with timers has a key
        name = queue_name(found.name, domain)
        serializer = TimerSerializer(key, found.namespace)
        with located(operator=operator, state=name, key=shown(timer.key), path="$"):
            data = _guarded(lambda: encode(serializer, timer), timer)
            group = key_group(key_hasher(key)(timer.key), self._max_parallelism)
            draft.entries[name][group.to_bytes(prefix_size(self._max_parallelism), "big") + data] = b""

    def add(self, operator: str, state: str, element: Any, *, subtask: int = 0) -> None:
        """Append an element to an operator's list state, split or union, of one subtask."""
        draft = self._draft(operator)
        description = self._description(draft.lists, state, operator)
        if not 0 <= subtask < self._parallelism or description.kind is StateKind.BROADCAST:
            raise StateNotFound(f"there is no list state {state!r} in subtask {subtask}", operator=operator)
        with located(operator=operator, state=state, path="$"):
            data = _guarded(lambda: encode(description.value.new_side(), element), element)
            draft.elements[subtask, state].append(data)

    def put_broadcast(self, operator: str, state: str, key: Any, value: Any) -> None:
        """Put an entry into a broadcast state."""
        draft = self._draft(operator)
        description = self._description(draft.lists, state, operator)
        if description.key is None:
            raise StateNotFound(f"{state!r} is not a broadcast state", operator=operator)
        serializer, values = description.key.new_side(), description.value.new_side()
        with located(operator=operator, state=state, key=shown(key), path="$"):
            name = _guarded(lambda: encode_each(serializer, (key,), "<key>")[0], key)
            if name in draft.broadcast[state]:
                raise ValueNotConvertible(
                    "the key has a value in this state already", advice="write each key of a state once"
                )
            draft.broadcast[state][name] = _guarded(lambda: encode_each(values, (value,), "{}")[0], value)

    def _slot(self, draft: _OperatorDraft, description: StateDescription) -> _Slot:
        """Return the slot of a keyed state, which is created for its first entry."""
        if description.name not in draft.slots:
            key, namespace = draft.operator.key, description.namespace
            assert key is not None  # noqa: S101 - an operator with keyed states has a key
            assert namespace is not None  # noqa: S101 - described by a descriptor
            spaces = namespace.new_side()
            form = EntryKeyFormat.of(description.kind, key, spaces, self._max_parallelism)
            draft.slots[description.name] = _Slot(description, key, spaces, key_hasher(key), form)
        return draft.slots[description.name]

    def _draft(self, operator: str) -> _OperatorDraft:
        for draft in self._drafts.values():
            if operator in {draft.operator.uid, draft.operator.id}:
                return draft
        names = ", ".join(draft.operator.uid or draft.operator.id for draft in self._drafts.values())
        raise StateNotFound(f"the job has no operator {operator!r}; it has: {names}", advice="use one of these")

    @staticmethod
    def _description(states: dict[str, StateDescription], state: str, operator: str) -> StateDescription:
        if state not in states:
            names = ", ".join(states) or "none of this kind"
            raise StateNotFound(
                f"the operator has no such state {state!r}; it has: {names}",
                advice="use one of these",
                operator=operator,
            )
        return states[state]

    def finish(self) -> Savepoint:
        """Write everything, `_metadata` last, and open the result. If that fails, nothing is left in the folder.

        Raises:
            TargetExists: The folder was taken in the meantime, or another run is writing there.
        """
        with all_or_nothing(Destination(self._folder, names_of(self._drafts))) as claim:
            self._write(claim.folder)
        return Savepoint.open(self._folder.place)

    def _write(self, folder: Folder) -> None:
        commit, operators, counts = Commit(folder), [], list[StateCount]()
        subtasks = range(self._parallelism)
        for draft in self._drafts.values():
            keyed = [self._keyed(draft, subtask, commit) for subtask in subtasks]
            elements = [
                {name: found for (owner, name), found in draft.elements.items() if owner == subtask}
                for subtask in subtasks
            ]
            infos, compressed = operator_infos(draft.operator), self._compressed
            lists = put_operator_state(
                commit, draft.operator.id, infos, elements, draft.broadcast, compressed=compressed
            )
            operators.append(new_operator(draft.operator, self._max_parallelism, keyed, lists))
            counts += _counts(draft, self._parallelism)
        if self._store_serializers:
            commit.files[SERIALIZERS] = FileDigest.of(write_stored_serializers(folder, self._serializers()))
        metadata = SavepointMetadata.new(tuple(operators)).written_for(self._restore_target)
        commit.publish(metadata, job="SavepointWriter", states=counts)

    def _serializers(self) -> dict[str, TypeSerializer[Any]]:
        return {
            place_of(draft.operator.id, state.kind.scope, state.name): state.value.new_side()
            for draft in self._drafts.values()
            for state in draft.states.values()
        }

    def _keyed(self, draft: _OperatorDraft, subtask: int, commit: Commit) -> KeyGroupsHandle | None:
        header = keyed_header(draft.operator)
        if header is None:
            return None
        header = attrs.evolve(header, compressed=self._compressed)
        groups = key_group_range(subtask, self._parallelism, self._max_parallelism)
        name, prefix = stream_name(draft.operator.id, "keyed", subtask), prefix_size(self._max_parallelism)
        return put_keyed_state(commit, name, header, groups, draft.entries, prefix)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.finish()


def _counts(draft: _OperatorDraft, parallelism: int) -> list[StateCount]:
    """Return the counts of stored entries; a broadcast map counts once for each subtask, as each stores all of it."""
    keyed = [state for state in draft.operator.describe().states if state.kind.is_keyed]
    counted = [(state, len(draft.entries[state.name])) for state in keyed]
    for name, state in draft.lists.items():
        elements = sum(len(found) for (_, owner), found in draft.elements.items() if owner == name)
        counted.append((state, elements if state.key is None else len(draft.broadcast[name]) * parallelism))
    operator = draft.operator
    return [
        StateCount(operator.id, operator.uid, state.name, str(state.kind), "write", 0, count)
        for state, count in counted
    ]
