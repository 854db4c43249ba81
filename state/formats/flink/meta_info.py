"""The description of one state in a stream's header: its name, its kind, its serializers.

    UTF name, i32 kind, i32 n, n x (UTF option, UTF value), i32 m, m x (UTF role, SNAP2)

Source: format notes, section 4.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

import attrs

from ....serializers.errors import CorruptSavepoint, UnsupportedFormat, at_step, located
from ....serializers.records.merging import merge_snapshots
from ....serializers.snapshot import read_serializer_snapshot, write_serializer_snapshot

if TYPE_CHECKING:
    from ....serializers.snapshot import TypeSerializerConfigSnapshot
    from ....serializers.views import DataInputView, DataOutputView

KEYED_STATE_TYPE, DISTRIBUTION_MODE = "KEYED_STATE_TYPE", "OPERATOR_STATE_DISTRIBUTION_MODE"
KEY_SERIALIZER, NAMESPACE_SERIALIZER, VALUE_SERIALIZER = "KEY_SERIALIZER", "NAMESPACE_SERIALIZER", "VALUE_SERIALIZER"
_STEPS = {KEY_SERIALIZER: "<key>", NAMESPACE_SERIALIZER: "<namespace>"}
_LEAST_OPTION_BYTES, _LEAST_SERIALIZER_BYTES = 4, 12


class MetaInfoKind(enum.IntEnum):
    """The backend's kind of a state; the value is the one in the stream."""

    KEY_VALUE = 0
    OPERATOR = 1
    BROADCAST = 2
    PRIORITY_QUEUE = 3
    KEY_VALUE_V2 = 4


_NEEDED = {
    MetaInfoKind.KEY_VALUE: (NAMESPACE_SERIALIZER, VALUE_SERIALIZER),
    MetaInfoKind.OPERATOR: (VALUE_SERIALIZER,),
    MetaInfoKind.BROADCAST: (KEY_SERIALIZER, VALUE_SERIALIZER),
    MetaInfoKind.PRIORITY_QUEUE: (VALUE_SERIALIZER,),
    MetaInfoKind.KEY_VALUE_V2: (),
}


@attrs.frozen
class StateMetaInfo:
    """One state, as a header describes it.

    Attributes:
        name: The name of the state.
        kind: The backend's kind of the state.
        options: Pairs of option and value, in the order of the file.
        serializers: Pairs of role and snapshot, in the order of the file.
    """

    name: str
    kind: MetaInfoKind
    options: tuple[tuple[str, str], ...]
    serializers: tuple[tuple[str, TypeSerializerConfigSnapshot[Any]], ...]

    def option(self, key: str) -> str | None:
        """Return an option, such as `KEYED_STATE_TYPE` of keyed state; None where it is not set."""
        return dict(self.options).get(key)

    def snapshot(self, role: str) -> TypeSerializerConfigSnapshot[Any] | None:
        """Return the snapshot of a role; the roles depend on the kind of the state."""
        return dict(self.serializers).get(role)

    @property
    def value(self) -> TypeSerializerConfigSnapshot[Any]:
        """The snapshot of the value's serializer, which every state of a supported kind has."""
        return dict(self.serializers)[VALUE_SERIALIZER]

    def with_snapshots(self, **snapshots: TypeSerializerConfigSnapshot[Any]) -> StateMetaInfo:
        """Return the same state with other snapshots for some roles, in the same order."""
        changed = tuple((role, snapshots.get(role, snapshot)) for role, snapshot in self.serializers)
        return attrs.evolve(self, serializers=changed)


def merged_info(known: StateMetaInfo, found: StateMetaInfo) -> tuple[StateMetaInfo, tuple[str, ...]]:
    """Merge two subtasks' descriptions of a state; return it with the roles that differ, which stay as in `known`."""
    merged, disagreed = {}, []
    for role, snapshot in found.serializers:
        before = known.snapshot(role)
        after = None if before is None else merge_snapshots(before, snapshot)
        if after is None:
            disagreed.append(role)
        else:
            merged[role] = after
    return known.with_snapshots(**merged), tuple(disagreed)


def keyed_state(
    name: str,
    state_type: str,
    namespace: TypeSerializerConfigSnapshot[Any],
    value: TypeSerializerConfigSnapshot[Any],
) -> StateMetaInfo:
    """Return the description of a new keyed state; `state_type` is VALUE, LIST, MAP, REDUCING or AGGREGATING."""
    serializers = ((VALUE_SERIALIZER, value), (NAMESPACE_SERIALIZER, namespace))
    return StateMetaInfo(name, MetaInfoKind.KEY_VALUE, keyed_options(state_type), serializers)


def keyed_options(state_type: str) -> tuple[tuple[str, str], ...]:
    """Return the options of a keyed state of this type."""
    return ((KEYED_STATE_TYPE, state_type),)


def timer_state(name: str, timer: TypeSerializerConfigSnapshot[Any]) -> StateMetaInfo:
    """Return the description of a new queue of timers."""
    return StateMetaInfo(name, MetaInfoKind.PRIORITY_QUEUE, (), ((VALUE_SERIALIZER, timer),))


def list_state(name: str, mode: str, element: TypeSerializerConfigSnapshot[Any]) -> StateMetaInfo:
    """Return the description of a new operator list state; `mode` is SPLIT_DISTRIBUTE or UNION."""
    return StateMetaInfo(name, MetaInfoKind.OPERATOR, ((DISTRIBUTION_MODE, mode),), ((VALUE_SERIALIZER, element),))


def broadcast_state(
    name: str, key: TypeSerializerConfigSnapshot[Any], value: TypeSerializerConfigSnapshot[Any]
) -> StateMetaInfo:
    """Return the description of a new broadcast state."""
    serializers = ((VALUE_SERIALIZER, value), (KEY_SERIALIZER, key))
    return StateMetaInfo(name, MetaInfoKind.BROADCAST, ((DISTRIBUTION_MODE, "BROADCAST"),), serializers)


def read_meta_info(source: DataInputView) -> StateMetaInfo:
    """Read one state's description.

    Raises:
        UnknownSnapshot: A serializer's snapshot class is not registered; the rest of the stream cannot be read.
        UnsupportedFormat: The kind of the state is not known.
        CorruptSavepoint: The bytes are damaged.
    """
    start = source.position
    name = source.read_utf()
    with located(state=name, offset=start):
        number = source.read_int()
        if number not in set(MetaInfoKind):
            raise UnsupportedFormat(f"the state {name!r} is of kind {number}, which is not known", offset=start)
        kind = MetaInfoKind(number)
        count = source.read_size("options", least_bytes_each=_LEAST_OPTION_BYTES)
        options = tuple((source.read_utf(), source.read_utf()) for _ in range(count))
        count = source.read_size("serializers", least_bytes_each=_LEAST_SERIALIZER_BYTES)
        serializers = tuple(_read_serializer(source) for _ in range(count))
        roles = [role for role, _ in serializers]
        missing = [role for role in _NEEDED[kind] if roles.count(role) != 1]
        if missing:
            raise CorruptSavepoint(f"the state {name!r} should have one {missing[0]}", offset=start)
        return StateMetaInfo(name, kind, options, serializers)


def _read_serializer(source: DataInputView) -> tuple[str, TypeSerializerConfigSnapshot[Any]]:
    role = source.read_utf()
    with at_step(_STEPS.get(role, "")):
        return role, read_serializer_snapshot(source)


def write_meta_info(info: StateMetaInfo, target: DataOutputView) -> None:
    """Write one state's description."""
    target.write_utf(info.name)
    target.write_int(info.kind)
    target.write_int(len(info.options))
    for key, value in info.options:
        target.write_utf(key)
        target.write_utf(value)
    target.write_int(len(info.serializers))
    for role, snapshot in info.serializers:
        target.write_utf(role)
        write_serializer_snapshot(target, snapshot)


def read_meta_infos(source: DataInputView, what: str) -> tuple[StateMetaInfo, ...]:
    """Read an i16 count and that many states; two states of the same name are an error."""
    start = source.position
    count = source.read_short()
    if count < 0:
        raise CorruptSavepoint(f"{count} {what} are announced", offset=start)
    infos = tuple(read_meta_info(source) for _ in range(count))
    if len({info.name for info in infos}) < count:
        raise CorruptSavepoint(f"two {what} have the same name", offset=start)
    return infos


def write_meta_infos(infos: tuple[StateMetaInfo, ...], target: DataOutputView) -> None:
    """Write an i16 count and the states."""
    target.write_short(len(infos))
    for info in infos:
        write_meta_info(info, target)
