"""Fast checks of blocks: keys by machine code if it is loaded, keys and values by an op list.

An entry that these checks cannot accept is not yet an error: the caller checks it in plain Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from .block_transcoder import entry_end
from .choice import ExecutorName, load_machine_code
from .executors import make_executor
from .interpreter import DONE, FULL, ODD
from .placed import AHEAD, CRAMPED, table_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .entry_check import EntryCheck
    from .executors import Executor


@attrs.frozen
class SeenKeys:
    """The result for a block whose keys are distinct and belong to its key group.

    Attributes:
        last: The offset of the last entry.
        ascends: Whether the keys ascend, compared as unsigned bytes.
        hashes: A 64-bit hash of each key, as an array; None if the keys ascend.
    """

    last: int
    ascends: bool
    hashes: Any = None


@attrs.define
class BlockChecker:
    """Checks the blocks of one state, in one thread.

    Attributes:
        check: The check of an entry.
        prefix_bytes: The number of key bytes that hold the key group.
        executor: The name of the executor that runs the check.
    """

    check: EntryCheck
    prefix_bytes: int
    executor: ExecutorName
    _executor: Executor | None = attrs.field(default=None, init=False)
    _table: Any = attrs.field(default=None, init=False)
    _shape: Any = attrs.field(default=None, init=False)

    def keys(self, data: bytes | memoryview, key_group: int) -> SeenKeys | None:
        """Check the keys of a block; return None if they must be checked one by one."""
        return self._by_machine_code(data, key_group) if self.executor is ExecutorName.NUMBA else None

    def _by_machine_code(self, data: bytes | memoryview, key_group: int) -> SeenKeys | None:
        import numpy as np

        from .numba_executor import with_margin

        fast = load_machine_code()
        if self._shape is None:
            self._shape, self._table = np.array(self.check.shape.numbers, np.int64), np.zeros(2, np.int64)
        block, result = with_margin(data), np.zeros(4, np.int64)
        numbers = len(data), key_group, self.prefix_bytes
        found = fast.find_placed(block, *numbers, self._shape, self._table, result)
        if found == CRAMPED:
            self._table = np.zeros(table_size(int(result[2])), np.int64)
            found = fast.find_placed(block, *numbers, self._shape, self._table, result)
        stop, last, entries, ascends = result.tolist()
        if found != AHEAD or stop != len(data):
            return None
        return SeenKeys(last, bool(ascends), None if ascends else fast.key_hashes(block, stop, entries))

    def odd_entries(self, data: bytes | memoryview) -> Iterator[tuple[int, int]]:
        """Yield the start and end of each entry that the op list does not accept; nothing if there is no op list."""
        program = self.check.program
        at = 0 if program is not None else len(data)
        while at < len(data) and program is not None:
            if self._executor is None:
                self._executor = make_executor(self.executor, program)
            done = self._executor.rewrite(data, at)
            at = done.stop
            if done.status == ODD:
                end = entry_end(data, at)
                yield at, end
                at = end
            elif done.status not in {DONE, FULL}:
                yield at, len(data)
                return
