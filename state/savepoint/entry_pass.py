"""One pass over the entries of a keyed stream: the blocks of each state go to what looks at them.

`inspect` counts them, `inspect --profile` makes statistics of them, and `check --scan` reads them as a new job would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ...serializers.errors import StateShiftError, located
from ..formats.flink.blocks import whole
from ..formats.flink.keyed_readers import blocks_ahead, open_keyed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..formats.flink.blocks import Block
    from ..formats.flink.handles import KeyedHandle
    from ..formats.flink.keyed_stream import KeyedReader
    from ..storage.files import Folder
    from ..transcode.executor_choice import ExecutorName


class Observer(Protocol):
    """What looks at the entries of one state in one stream."""

    @property
    def needs_whole_run(self) -> bool:
        """Whether it needs all entries of a key group at once."""
        ...

    def look(self, block: Block) -> None:
        """Look at a block; key groups ascend, and those of one key group come one state after the other."""
        ...


def observe(
    handle: KeyedHandle,
    folder: Folder,
    max_parallelism: int,
    observers: Callable[[KeyedReader], Mapping[int, Observer]],
    *,
    key_groups: range | None = None,
    executor: ExecutorName | None = None,
    take: Callable[[int], None] = lambda _: None,
    is_enough: Callable[[], bool] = lambda: False,
) -> None:
    """Read a stream once.

    Args:
        handle: The handle of the stream.
        folder: The folder of the savepoint.
        max_parallelism: The number of key groups of the operator.
        observers: Returns what looks at the states of the stream, by their index in its header; others are not read.
        key_groups: The key groups that are read; None: all.
        executor: As in `open_keyed`.
        take: Called with the number of bytes of each block.
        is_enough: Whether the pass may end; it is asked before each block.

    Raises:
        CorruptSavepoint: The bytes are damaged; the error has file and state.
        UnknownSnapshot, UnsupportedFormat, LibraryNotFound: As `open_keyed`.
    """
    with open_keyed(handle, folder, max_parallelism, executor=executor) as reader:
        looks = observers(reader)
        if not looks:
            return
        states = reader.header.states
        needing = frozenset(at for at, look in looks.items() if look.needs_whole_run)
        with located(file=reader.name):
            for block in whole(blocks_ahead(reader, key_groups, looks.keys()), needing):
                if is_enough():
                    return
                take(len(block.data))
                with located(state=states[block.state_id].name):
                    try:
                        looks[block.state_id].look(block)
                    except StateShiftError as error:
                        error.where.pop("offset", None)  # it is relative to the block, not to the file
                        raise
