"""A savepoint of the values in quarantine alone: as they lay in the savepoint that was migrated, with its types.

Every tool that works on savepoints works on it: `export` shows the values, `check --scan` and `migrate` try a corrected
type or converter on them. The bytes are those of the quarantine.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.description import StateKind
from ...serializers.errors import CorruptSavepoint, StateNotFound, UnsupportedFormat
from ..formats.flink.blocks import Block
from ..formats.flink.handles import CANONICAL, KeyGroupsHandle, OperatorStateHandle
from ..formats.flink.keyed_stream import KeyedStreamHeader, write_keyed_stream
from ..formats.flink.metadata import OperatorState, SavepointMetadata, SubtaskState
from ..formats.flink.operator_stream import write_operator_stream
from ..formats.flink.state_kinds import state_kind
from ..key_groups import prefix_size
from ..publication.commit import Commit
from ..publication.lineage import StateCount
from ..publication.publish import Destination, all_or_nothing, check_target, stream_name
from ..publication.runs import names_of
from ..publication.source_guard import Read, refuse_by_place
from ..storage.files import Folder
from .new_streams import broadcast_bytes, operator_header
from .reader import Savepoint

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from ..formats.flink.meta_info import StateMetaInfo
    from .quarantine import QuarantinedValue, StoredTypes

_KEY_GROUPS = 128
"""The number of key groups of an operator without keyed state in quarantine, as Flink's default."""


@attrs.define
class _Operator:
    """The values of one operator."""

    operator_id: str
    uid: str = ""
    max_parallelism: int = 0
    key: StoredTypes | None = None
    keyed: dict[str, StateMetaInfo] = attrs.field(factory=dict)
    lists: dict[str, StateMetaInfo] = attrs.field(factory=dict)
    entries: dict[str, dict[bytes, bytes]] = attrs.field(factory=lambda: defaultdict(dict))
    elements: dict[str, list[bytes]] = attrs.field(factory=lambda: defaultdict(list))
    broadcast: dict[str, dict[bytes, bytes]] = attrs.field(factory=lambda: defaultdict(dict))

    def add(self, value: QuarantinedValue, types: StoredTypes) -> None:
        """Add a value; a broadcast map has an entry once, though each subtask stored it."""
        info = types.info
        self.uid = self.uid or types.uid
        if types.kind.is_keyed:
            self.key, self.max_parallelism = types, types.max_parallelism
            self.keyed[info.name] = info
            self.entries[info.name].update(value.entries())
            return
        self.lists[info.name] = info
        if types.kind is StateKind.BROADCAST:
            self.broadcast[info.name][value.key_bytes] = value.value_bytes
        else:
            self.elements[info.name].append(value.value_bytes)

    def written(self, commit: Commit) -> OperatorState:
        """Write the streams of the one subtask."""
        groups = self.max_parallelism or _KEY_GROUPS
        keyed, lists = self._keyed(commit, groups), self._lists(commit)
        subtask = SubtaskState(0, managed_keyed=keyed, managed_operator=lists)
        return OperatorState(bytes.fromhex(self.operator_id), 1, groups, "", self.uid, subtasks=(subtask,))

    def _keyed(self, commit: Commit, groups: int) -> KeyGroupsHandle | None:
        if self.key is None or self.key.key_snapshot is None:
            return None
        infos, prefix = tuple(self.keyed.values()), prefix_size(groups)
        items: dict[tuple[int, int], list[tuple[bytes, bytes]]] = defaultdict(list)
        for index, info in enumerate(infos):
            for key, value in self.entries[info.name].items():
                group = int.from_bytes(key[:prefix], "big")
                if group >= groups:
                    raise CorruptSavepoint(
                        f"a value in quarantine is of key group {group:,}, but there are {groups:,}", state=info.name
                    )
                items[group, index].append((key, value))
        blocks = [Block.of(group, index, sorted(found)) for (group, index), found in sorted(items.items())]
        header = KeyedStreamHeader(self.key.key_snapshot, infos)
        data, offsets = write_keyed_stream(header, range(groups), blocks)
        return KeyGroupsHandle(CANONICAL, 0, offsets, commit.put(stream_name(self.operator_id, "keyed", 0), data))

    def _lists(self, commit: Commit) -> OperatorStateHandle | None:
        if not self.lists:
            return None
        data = bytearray()
        maps = {name: broadcast_bytes(found) for name, found in self.broadcast.items()}
        offsets = write_operator_stream(operator_header(self.lists.values()), self.elements, maps, data.extend)
        return OperatorStateHandle(offsets, commit.put(stream_name(self.operator_id, "operator", 0), bytes(data)))

    def counts(self) -> Iterable[StateCount]:
        """Yield the counts for the lineage."""
        found: list[tuple[Any, int]] = [(info, len(self.entries[name])) for name, info in self.keyed.items()]
        found += [(info, len(self.elements[name]) + len(self.broadcast[name])) for name, info in self.lists.items()]
        for info, count in found:
            yield StateCount(self.operator_id, self.uid, info.name, str(state_kind(info)), "write", 0, count)


def write_quarantine(savepoint: Savepoint, target: str | os.PathLike[str]) -> Savepoint:
    """Write the values in quarantine beside a savepoint as a savepoint of their own, and open it.

    Operators, states and types have the names that they had in the savepoint that was migrated.

    Args:
        savepoint: The savepoint that the migration wrote; it is only read.
        target: A folder that is empty or does not exist.

    Raises:
        StateNotFound: Nothing is in quarantine.
        UnsupportedFormat: An earlier release wrote the quarantine, without types.
        TargetExists: The folder is taken.
    """
    operators: dict[str, _Operator] = {}
    for value in savepoint.quarantine():
        if value.stored is None:
            raise UnsupportedFormat.before_writing(
                "the quarantine was written by an earlier release, without the types of its values",
                advice="migrate the source again with this release",
                savepoint=savepoint.place,
            )
        identity = value.stored.operator_id
        operators.setdefault(identity, _Operator(identity)).add(value, value.stored)
    if not operators:
        raise StateNotFound.before_writing("nothing is in quarantine", savepoint=savepoint.place)
    folder, reads = Folder.at(target), (Read.of(savepoint.folder, savepoint.metadata),)
    refuse_by_place(folder, reads)
    check_target(folder)
    with all_or_nothing(Destination(folder, names_of(operators), reads)) as claim:
        commit = Commit(claim.folder)
        states = tuple(operator.written(commit) for operator in operators.values())
        counts = [count for operator in operators.values() for count in operator.counts()]
        commit.publish(SavepointMetadata.new(states), job=f"quarantine of {savepoint.place}", states=counts)
    return Savepoint.open(folder.place)
