"""The description of one state in a stream's header: its name, its kind, its serializers.

    UTF name, i32 kind, i32 n, n x (UTF option, UTF value), i32 m, m x (UTF role, SNAP2)

Source: format notes, section 4.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

import attrs

from ....serializers.byte_forms import INT, SHORT, UTF, ByteForm, made, many, several
from ....serializers.errors import CorruptSavepoint, UnsupportedFormat, at_step, located
from ....serializers.records.merging import merge_snapshots
from ....serializers.snapshot import read_serializer_snapshot, write_serializer_snapshot

if TYPE_CHECKING:
    from ....serializers.snapshot import TypeSerializerConfigSnapshot
    from ....serializers.views import DataInputView

KEYED_STATE_TYPE, DISTRIBUTION_MODE = "KEYED_STATE_TYPE", "OPERATOR_STATE_DISTRIBUTION_MODE"
KEY_SERIALIZER, NAMESPACE_SERIALIZER, VALUE_SERIALIZER = "KEY_SERIALIZER", "NAMESPACE_SERIALIZER", "VALUE_SERIALIZER"
_STEPS = {KEY_SERIALIZER: "<key>", NAMESPACE_SERIALIZER: "<namespace>"}


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


def _read_kind(source: DataInputView) -> MetaInfoKind:
    number = source.read_int()
    if number not in set(MetaInfoKind):
        raise UnsupportedFormat(f"a state is of kind {number}, which is not known", offset=source.position - 4)
    return MetaInfoKind(number)


SERIALIZER_SNAPSHOT = ByteForm(read_serializer_snapshot, write_serializer_snapshot, 10)
_INFO = made(
    StateMetaInfo,
    {
        "name": UTF,
        "kind": ByteForm(_read_kind, INT.write, INT.least),
        "options": many(several(UTF, UTF), "options"),
        "serializers": many(
            several(UTF, SERIALIZER_SNAPSHOT, within=lambda role: at_step(_STEPS.get(role, ""))), "serializers"
        ),
    },
    within=lambda name: located(state=name),
)


def _read_info(source: DataInputView) -> StateMetaInfo:
    start, info = source.position, _INFO.read(source)
    roles = [role for role, _ in info.serializers]
    missing = [role for role in _NEEDED[info.kind] if roles.count(role) != 1]
    if missing:
        raise CorruptSavepoint(f"the state {info.name!r} should have one {missing[0]}", offset=start, state=info.name)
    return info


META_INFO = ByteForm(_read_info, _INFO.write, _INFO.least)
"""Of one state's description.

Reading raises `UnknownSnapshot` where a serializer's snapshot class is not registered, and the rest of the stream
cannot be read; `UnsupportedFormat`, where the kind of the state is not known; and `CorruptSavepoint`.
"""


def meta_infos(what: str) -> ByteForm[tuple[StateMetaInfo, ...]]:
    """Return the form of an i16 count and that many states, no two of the same name."""
    return many(META_INFO, what, apart="name", number=SHORT)


def stream_version(what: str, *known: int) -> ByteForm[int]:
    """Return the form of a stream's version; others than the known ones raise `UnsupportedFormat`."""

    def read(source: DataInputView) -> int:
        version = source.read_int()
        if version not in known:
            raise UnsupportedFormat(
                f"the {what} has version {version}; this release reads {' and '.join(map(str, known))}",
                advice="take the savepoint with Flink 1.11 to 2.3",
                offset=source.position - 4,
            )
        return version

    return ByteForm(read, INT.write, INT.least)
