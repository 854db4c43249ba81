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
from ..formats.flink.keyed_stream import KeyedStreamHeader
from ..formats.flink.metadata import OperatorState, SavepointMetadata, SubtaskState
from ..formats.flink.state_kinds import state_kind
from ..key_groups import prefix_size
from ..publication.commit import Commit
from ..publication.lineage import StateCount
from ..publication.publish import Destination, all_or_nothing, check_target, stream_name
from ..publication.runs import names_of
from ..publication.source_guard import Read, refuse_by_place
from ..storage.files import Folder
from .new_streams import put_keyed_state, put_operator_state
from .reader import Savepoint

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from ..formats.flink.handles import KeyGroupsHandle
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
        keyed = self._keyed(commit, groups)
        lists = put_operator_state(commit, self.operator_id, self.lists.values(), [self.elements], self.broadcast)
        subtask = SubtaskState(0, managed_keyed=keyed, managed_operator=next(iter(lists), None))
        return OperatorState(bytes.fromhex(self.operator_id), 1, groups, "", self.uid, subtasks=(subtask,))

    def _keyed(self, commit: Commit, groups: int) -> KeyGroupsHandle | None:
        if self.key is None or self.key.key_snapshot is None:
            return None
        prefix, header = prefix_size(groups), KeyedStreamHeader(self.key.key_snapshot, tuple(self.keyed.values()))
        for state, entries in self.entries.items():
            highest = max(int.from_bytes(key[:prefix], "big") for key in entries)
            if highest >= groups:
                raise CorruptSavepoint(
                    f"a value in quarantine is of key group {highest:,}, but there are {groups:,}", state=state
                )
        name = stream_name(self.operator_id, "keyed", 0)
        return put_keyed_state(commit, name, header, range(groups), self.entries, prefix)

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
