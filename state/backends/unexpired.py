"""What is left of entries whose time to live is over: in full snapshots (`cleanup_full_snapshot`), and in a sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...compat.description import StateKind
from ...serializers.layout import SEPARATOR_BYTES
from ...serializers.views import DataInputView
from ..entry_keys import end_of
from ..formats.flink.blocks import Block
from ..formats.flink.state_kinds import keyed_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ..formats.flink.meta_info import StateMetaInfo
    from .keyed_backend import FrozenState

    Expired = Callable[[int], bool]
    Kept = Callable[[bytes], bytes | None]
    """Returns the part of an entry's value bytes that is kept; None where nothing is."""

_STAMP_BYTES = 8
_SEPARATOR = bytes.fromhex("2c")


def unexpired_blocks(frozen: FrozenState, expired: Mapping[str, Expired]) -> Iterator[Block]:
    """Yield the blocks of a frozen state without the values that have expired.

    Args:
        frozen: The state.
        expired: Whether a time stamp in milliseconds is too old, by the names of states with TTL. Other states are
            whole.
    """
    infos = enumerate(frozen.header.states)
    kept = {state_id: keeper(info, expired[info.name]) for state_id, info in infos if info.name in expired}
    for block in frozen.blocks():
        keep = kept.get(block.state_id)
        if keep is None:
            yield block
            continue
        items = [(key, left) for key, value in block.items() if (left := keep(value)) is not None]
        if items:
            yield Block.of(block.key_group, block.state_id, items)


def keeper(info: StateMetaInfo, expired: Expired) -> Kept:
    """Return what decides which part of an entry of a state with TTL is kept."""
    kind = keyed_kind(info)
    if kind is StateKind.LIST:
        serializer: Any = info.value.restore_serializer()
        return _Elements(serializer.element, expired)
    flag = 1 if kind is StateKind.MAP else 0

    def keep(value: bytes) -> bytes | None:
        is_null = flag and value[0]
        return None if not is_null and expired(_stamp(value, flag)) else value

    return keep


class _Elements:
    """Keeps the elements of a list that live."""

    def __init__(self, element: Any, expired: Expired) -> None:
        self._end, self._expired = end_of(element), expired

    def __call__(self, value: bytes) -> bytes | None:
        source, elements = DataInputView(value), []
        while source.remaining():
            start = source.position
            self._end.skip(source)
            if not self._expired(_stamp(value, start)):
                elements.append(source.span(start))
            if source.remaining():
                source.skip_bytes(SEPARATOR_BYTES)
        return _SEPARATOR.join(elements) if elements else None


def _stamp(data: bytes, start: int) -> int:
    return int.from_bytes(data[start : start + _STAMP_BYTES], "big", signed=True)
