"""Blocks held against what their entries must be: by machine code, or not at all where that does not pay.

What is not plain is no failure: it is named, and who asks looks at it entry by entry, in plain Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from .blocks import entry_end
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
    """The keys of a block: each where it belongs, no two the same.

    Attributes:
        last: Where its last entry begins.
        ascends: Whether each comes before the next one, in the order of unsigned bytes.
        hashes: Of each key 64 bits, as an array, unless they ascend.
    """

    last: int
    ascends: bool
    hashes: Any = None


@attrs.define
class BlockChecker:
    """Looks at the blocks of one state, in one thread.

    Attributes:
        check: What they are held against.
        prefix_bytes: How many bytes of a key tell its key group.
        executor: Who looks.
    """

    check: EntryCheck
    prefix_bytes: int
    executor: ExecutorName
    _executor: Executor | None = attrs.field(default=None, init=False)
    _table: Any = attrs.field(default=None, init=False)
    _shape: Any = attrs.field(default=None, init=False)

    def keys(self, data: bytes | memoryview, key_group: int) -> SeenKeys | None:
        """Look at the keys of a block; None where they must be looked at one by one."""
        return self._by_machine_code(data, key_group) if self.executor is ExecutorName.NUMBA else None

    def _by_machine_code(self, data: bytes | memoryview, key_group: int) -> SeenKeys | None:
        import numpy as np

        from .numba_executor import with_room

        fast = load_machine_code()
        if self._shape is None:
            self._shape, self._table = np.array(self.check.shape.numbers, np.int64), np.zeros(2, np.int64)
        block, result = with_room(data), np.zeros(4, np.int64)
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
        """Give where each entry begins and ends of which the op list cannot tell that it is sound."""
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
