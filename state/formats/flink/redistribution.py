"""Redistribution of operator state for another parallelism, in the same way as Flink does it.

    split       each state's elements are cut into even runs, in the order of the old subtasks; the first subtasks get
                the odd elements, and the next state begins with the subtask after these
    union       on restore every subtask gets all elements of all subtasks, so each is stored once: even runs
    broadcast   every subtask stores the whole map; new subtask i takes it from old subtask i mod n

Flink iterates over states in the order of a Java hash map, which is reproduced here, so that the shares are the same as
Flink's. Only `_metadata` is needed. Source: Flink's class RoundRobinOperatorStateRepartitioner; format notes,
section 8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ....serializers.errors import UnsupportedFormat
from ....serializers.primitives.text import StringSerializer
from ...key_groups import java_hash
from .handles import DistributionMode
from .meta_info import StateMetaInfo, merged_info
from .operator_stream import OperatorStreamHeader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from .handles import OperatorStateHandle

_SMALLEST_TABLE = 16
_LOAD = 0.75


@attrs.frozen
class Share:
    """The elements that one subtask gets from one stored stream.

    Attributes:
        handle: The stored stream.
        elements: The indices of a state's elements in the handle, by the name of the state. The map of a broadcast
            state is one element.
        carried: Those that the subtask stores again if nobody asks for the state, where these are not all: of a union
            state, which every subtask gets whole.
    """

    handle: OperatorStateHandle = attrs.field(repr=False)
    elements: dict[str, range]
    carried: dict[str, range] = attrs.field(factory=dict)

    @classmethod
    def whole(cls, handle: OperatorStateHandle) -> Share:
        """Return the share of all elements of a stream."""
        return cls(handle, {state.name: range(len(state.offsets)) for state in handle.states})

    @property
    def size_bytes(self) -> int:
        """The approximate number of bytes to read, in proportion to the number of elements."""
        total = sum(len(state.offsets) for state in self.handle.states)
        return self.handle.stream.size * sum(map(len, self.elements.values())) // max(total, 1)


def deal_out(handles: Sequence[OperatorStateHandle], parallelism: int) -> list[tuple[Share, ...]]:
    """Return the shares of each new subtask.

    Args:
        handles: The handles of the old subtasks that have operator state, in order.
        parallelism: The number of new subtasks.
    """
    taken: list[dict[int, dict[str, range]]] = [{} for _ in range(parallelism)]
    places = {mode: _places(handles, mode) for mode in DistributionMode}
    first = 0
    for name, runs in places[DistributionMode.SPLIT_DISTRIBUTE]:
        shares, first = _split(runs, parallelism, first)
        _note(taken, name, shares)
    for name, runs in places[DistributionMode.UNION]:
        _note(taken, name, _split(runs, parallelism, 0)[0])
    for name, runs in places[DistributionMode.BROADCAST]:
        holders = [at for at, count in runs if count]
        for subtask in range(parallelism) if holders else ():
            taken[subtask].setdefault(holders[subtask % len(holders)], {})[name] = range(1)
    return [tuple(Share(handles[at], names) for at, names in sorted(shares.items())) for shares in taken]


def deal_out_at_start(handles: Sequence[OperatorStateHandle], parallelism: int) -> list[tuple[Share, ...]]:
    """Return the shares that the subtasks of a starting operator get.

    Each gets all elements of union states; at the same parallelism each gets its own elements of split states.

    Args:
        handles: As for `deal_out`.
        parallelism: The number of subtasks.
    """
    is_same = len(handles) == parallelism
    dealt = [(Share.whole(handle),) for handle in handles] if is_same else deal_out(handles, parallelism)
    return [tuple(_with_unions(handle, shares) for handle in handles) for shares in dealt]


def _with_unions(handle: OperatorStateHandle, shares: Iterable[Share]) -> Share:
    """Return a subtask's share of a handle, with all elements of union states."""
    elements = next((share.elements for share in shares if share.handle is handle), {})
    every = {state.name: range(len(state.offsets)) for state in handle.states if state.mode is DistributionMode.UNION}
    return Share(handle, elements | every, {name: elements.get(name, range(0)) for name in every})


def _places(
    handles: Sequence[OperatorStateHandle], mode: DistributionMode
) -> Iterator[tuple[str, list[tuple[int, int]]]]:
    """Yield each state of a mode with the indices of the handles that have it, and their numbers of elements."""
    found: dict[str, list[tuple[int, int]]] = {}
    for at, handle in enumerate(handles):
        for state in handle.states:
            if state.mode is mode:
                found.setdefault(state.name, []).append((at, len(state.offsets)))
    return ((name, found[name]) for name in java_hash_map_order(found))


def _split(runs: list[tuple[int, int]], parallelism: int, first: int) -> tuple[list[tuple[int, int, range]], int]:
    """Cut the elements of one state into even runs.

    Returns:
        The new subtask, handle and elements of each piece; and the subtask with which the next state begins.
    """
    even, odd = divmod(sum(count for _, count in runs), parallelism)
    pieces: list[tuple[int, int, range]] = []
    left = [(at, range(count)) for at, count in runs]
    for turn in range(parallelism):
        wanted = even + (turn < odd)
        while wanted:
            at, elements = left[0]
            piece = elements[:wanted]
            wanted -= len(piece)
            left[0] = (at, elements[len(piece) :])
            if not left[0][1]:
                left.pop(0)
            if piece:
                pieces.append(((first + turn) % parallelism, at, piece))
    return pieces, (first + odd) % parallelism


def _note(taken: list[dict[int, dict[str, range]]], name: str, pieces: Iterable[tuple[int, int, range]]) -> None:
    for subtask, at, elements in pieces:
        taken[subtask].setdefault(at, {})[name] = elements


def java_hash_map_order(names: Iterable[str]) -> list[str]:
    """Return texts in the order in which a `java.util.HashMap` that Flink has filled iterates over them.

    Its `computeIfAbsent` inserts a key before the others of its bucket, and doubles the table one key late.
    """
    found = list(dict.fromkeys(names))
    size = _SMALLEST_TABLE
    while len(found) - 1 > size * _LOAD:
        size *= 2
    string = StringSerializer()

    def bucket(name: str) -> int:
        code = java_hash(name, string) & 0xFFFFFFFF
        return (code ^ code >> 16) & (size - 1)

    found.reverse()
    return sorted(found, key=bucket)


def joined_headers(headers: Iterable[OperatorStreamHeader]) -> OperatorStreamHeader:
    """Return one header with the states of all subtasks, which all new subtasks get.

    Raises:
        UnsupportedFormat: Two subtasks describe a state differently.
    """
    lists: dict[str, StateMetaInfo] = {}
    maps: dict[str, StateMetaInfo] = {}
    compressed = False
    for header in headers:
        compressed |= header.compressed
        for info in header.states:
            own, other = (lists, maps) if info in header.list_states else (maps, lists)
            known = own.get(info.name, info)
            merged, disagreed = merged_info(known, info)
            if disagreed or known.options != info.options or info.name in other:
                raise UnsupportedFormat(
                    f"the subtasks describe the operator state {info.name!r} differently: it cannot be redistributed",
                    advice="leave the parallelism as it is",
                    state=info.name,
                )
            own[info.name] = merged
    return OperatorStreamHeader(tuple(lists.values()), tuple(maps.values()), compressed)
