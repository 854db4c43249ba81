"""The executors by machine code: of op lists, block by block, and of whole key groups (`key_groups`).

The interpreter checks every offset, but its loads may run past the end of an entry by less than `PADDING` bytes: the
last entries of a block are copied into a padded buffer.
"""

from __future__ import annotations

import math
from ctypes import addressof, c_char
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from . import ops
from .frames import Survey
from .interpreter import DONE, FULL, NEAR_END
from .key_groups import NewKeyGroups, StateTotal, Treatment
from .key_shapes import table_size
from .memory import PADDING
from .moves import moves_of
from .numba_kernels import (
    ACTION,
    CHECK,
    CHECK_CONSTANTS,
    CODE,
    CONSTANTS,
    CONVERT,
    COPY,
    DROP,
    FIXED,
    MOVES,
    MOVES_END,
    NEW_ID,
    NO_TABLE,
    RESULT_NUMBERS,
    RUN_NUMBERS,
    SHAPE,
    STATE_NUMBERS,
    TOTAL_NUMBERS,
    ascends,
    call,
    differing_entries,
    find_entries,
    find_placed,
    find_run,
    make_table_blocks,
    merge_entries,
    note_key_sums,
    pack_table_blocks,
    parse_table_entries,
    read_only,
    rewrite,
    survey,
    unpack_table_blocks,
)
from .program import Program
from .table_entries import ROOM_BYTES, VALUES
from .table_packing import NO_COMPRESSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

SLACK, SPARE_BYTES = 9 / 8, 1 << 14
"""The factor and the bytes by which a block may grow more than the one before it without a second try."""
_CHECKSUM = (1 << 64) - 1
_NO_STATES, _NO_TOTALS = np.zeros((0, STATE_NUMBERS), np.int64), np.zeros((0, TOTAL_NUMBERS), np.int64)
_NO_NUMBERS = np.zeros(0, np.int64)
_OF_TABLES = (
    "read_table_entries", "write_table_blocks", "unpack_blocks", "pack_blocks", "merge_entries", "differing_entries",
    "ascends",
)  # fmt: skip
_MIGRATING = ("rewrite", "find_run", "survey", "find_placed")
FUNCTIONS = (*_MIGRATING, "note_key_sums", "find_entries", *_OF_TABLES)
"""The functions of `numba_kernels` that are compiled."""


@attrs.frozen
class Rewritten:
    """New entries, and the reason why rewriting stopped.

    Attributes:
        status: The status of the interpreter.
        data: The new entries, framed; a memoryview is of a buffer that nothing else uses.
        stop: The offset in the block of the first entry that is not rewritten; the block's size if all are.
        entries: The number of entries rewritten.
        keys: The checksum of the old entries' keys, to 64 bits; see `frames`.
        seen: The survey of the new entries, if one was made.
    """

    status: int
    data: bytes | memoryview
    stop: int
    entries: int
    keys: int
    seen: Survey | None = attrs.field(default=None, eq=False)


@attrs.frozen
class _Done:
    """The result of one run: the attributes of `Rewritten`, with the number of bytes written instead of data."""

    status: int
    stop: int
    size: int
    entries: int
    keys: int
    seen: Survey

    def go_on(self, rest: _Done) -> _Done:
        """Return this result extended by `rest`, the result for the entries from `stop` on."""
        return _Done(
            rest.status,
            self.stop + rest.stop,
            self.size + rest.size,
            self.entries + rest.entries,
            self.keys + rest.keys,
            self.seen.go_on(rest.seen, self.size),
        )


class NumbaExecutor:
    """An executor of an op list in machine code."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._code = np.array(program.code, np.int64)
        self._constants = padded(program.constants)
        self._registers = np.zeros(program.registers + 1, np.int64)
        self._places, self._key_group = np.zeros(3, np.int64), np.zeros(1, np.int64)
        self._result = np.zeros(RESULT_NUMBERS, np.int64)
        self._moves = np.array(moves_of(program), np.int64)
        self._growth = math.inf  # new bytes per old byte of the last block; unknown before the first

    def rewrite(self, block: bytes | memoryview, start: int, prefix: bytes = b"") -> Rewritten:
        """Rewrite the entries of a block from `start` on, until one cannot be rewritten.

        Args:
            block: Entries.
            start: The offset of the first entry.
            prefix: The bytes that the new keys must begin with, for the survey.
        """
        size = len(block) - start
        most = self._program.capacity(size)
        capacity = int(min(most, size * self._growth * SLACK + SPARE_BYTES))
        while True:
            done = self._rewrite(block, start, capacity, prefix)
            if done.status != FULL:
                if done.stop > start:
                    self._growth = len(done.data) / (done.stop - start)
                return done
            if done.entries and capacity >= most:
                return done
            capacity = most if capacity < most else 2 * capacity

    def _rewrite(self, block: bytes | memoryview, start: int, capacity: int, prefix: bytes) -> Rewritten:
        data, target = np.frombuffer(block, np.uint8), np.empty(capacity + PADDING, np.uint8)
        most = len(block) - max(PADDING - bytes_behind(block), 0)
        done = self._run(data, start, len(block), most, target, capacity, prefix)
        if done.status == NEAR_END:
            rest, left = padded(block[done.stop :]), len(block) - done.stop
            done = done.go_on(self._run(rest, 0, left, left, target[done.size :], capacity - done.size, prefix))
        return Rewritten(done.status, without(target, done.size), done.stop, done.entries, done.keys, done.seen)

    def _run(self, data: Any, start: int, size: int, most: int, target: Any, capacity: int, prefix: bytes) -> _Done:
        self._places[:] = start, size, most
        self._key_group[0] = int.from_bytes(prefix, "big")
        status = rewrite(
            read_only(data), self._places, self._key_group, len(prefix), _NO_STATES, _NO_NUMBERS, self._code,
            self._constants, self._moves, _NO_NUMBERS, target, capacity - self._program.fixed, self._registers,
            self._result, _NO_NUMBERS, _NO_TOTALS,
        )  # fmt: skip
        stop, written, entries, keys, seen, seen_keys, misplaced, last = self._result.tolist()
        return _Done(status, stop, written, entries, keys, Survey(seen, seen_keys & _CHECKSUM, misplaced, last))


def load_compiled(names: Iterable[str] = _MIGRATING) -> None:
    """Load machine code by running it on no entries, so that processes forked from this one have it.

    Args:
        names: Functions of `numba_kernels`; by default those that rewrite state and verify what was written.
    """
    nothing = memoryview(bytearray(PADDING))
    none, result = padded(b""), np.zeros(4, np.int64)
    runs: dict[str, Callable[[], Any]] = {
        "rewrite": lambda: NumbaExecutor(Program((ops.TABLES,), b"", registers=1, growth=0, fixed=0)).rewrite(
            nothing, len(nothing)
        ),
        "find_run": lambda: call(find_run, nothing, 0, 0),
        "survey": lambda: call(survey, nothing, 0, 0, 0),
        "find_placed": lambda: find_placed(none, 0, 0, 1, _NO_NUMBERS, _NO_NUMBERS, result),
        "note_key_sums": lambda: note_key_sums(none, 0, _NO_NUMBERS),
        "find_entries": lambda: find_entries(read_only(none), 0, 0, *[_NO_NUMBERS] * 4),
        "read_table_entries": lambda: parse_table_entries(b"", [], VALUES, 0, 0, 0),
        "write_table_blocks": lambda: make_table_blocks(bytes(ROOM_BYTES), 0, 1, 1, is_last=True),
        "unpack_blocks": lambda: unpack_table_blocks(b"\0", [0, 0]),
        "pack_blocks": lambda: pack_table_blocks(
            memoryview(bytes(PADDING)), [0], NO_COMPRESSION, 0, bytearray(PADDING), [0], 0
        ),
        "merge_entries": lambda: merge_entries(
            np.zeros((0, RUN_NUMBERS), np.int64), read_only(none), -1, padded(b""), np.zeros(1, np.int64), result
        ),
        "differing_entries": lambda: differing_entries(
            read_only(none), _NO_NUMBERS, read_only(none), _NO_NUMBERS, np.zeros(0, np.int64), result
        ),
        "ascends": lambda: ascends(read_only(none), 0),
    }
    for name in names:
        runs[name]()


def padded(data: bytes | memoryview) -> Any:
    """Return a copy of bytes as an array with padding after them.

    It is writable like other arrays here: numba would compile another type of array separately.
    """
    return np.frombuffer(bytearray().join((data, bytes(PADDING))), np.uint8)


def with_margin(data: bytes | memoryview) -> Any:
    """Return bytes as a writable array with padding after it; they are copied if they are not in such a buffer."""
    is_plain = isinstance(data, memoryview) and not data.readonly and bytes_behind(data) >= PADDING
    return np.frombuffer(data, np.uint8) if is_plain else padded(data)


def bytes_behind(block: bytes | memoryview) -> int:
    """Return the number of bytes after a block in the buffer that it is a view of; 0 if it is no view."""
    if not isinstance(block, memoryview) or not block:
        return 0
    whole = memoryview(block.obj)
    return _address(whole) + whole.nbytes - _address(block) - block.nbytes


def _address(data: memoryview) -> int:
    if not data.readonly:  # several times as fast
        return addressof(c_char.from_buffer(data))
    array: Any = np.frombuffer(data, np.uint8)
    address: int = array.__array_interface__["data"][0]
    return address


def without(target: Any, size: int) -> memoryview:
    """Return the first bytes of an array; as a copy if they are less than half of it, so that the array is freed."""
    return memoryview(target[:size] if 2 * size >= len(target) else target[:size].copy())


_FIRST_GROWTH = 2


class NumbaKeyGroups:
    """An executor that rewrites whole key groups in machine code.

    Args:
        treatments: The treatment of each stored state, by its id.
        prefix_bytes: The number of key bytes that hold the key group.
    """

    def __init__(self, treatments: Sequence[Treatment], prefix_bytes: int) -> None:
        programs = [one.program for one in treatments]
        checks = [None if one.check is None else one.check.program for one in treatments]
        shapes = [() if one.check is None else one.check.shape.numbers for one in treatments]
        codes = [() if program is None else program.code for program in (*programs, *checks)]
        constants = [b"" if one is None else one.constants + bytes(PADDING) for one in (*programs, *checks)]
        moves = [() if program is None else moves_of(program) for program in programs]
        count = len(treatments)
        self._prefix_bytes = prefix_bytes
        self._programs = [program for program in programs if program is not None]
        self._states = np.zeros((count, STATE_NUMBERS), np.int64)
        self._states[:, ACTION] = [*map(_action, treatments)]
        self._states[:, NEW_ID] = [one.new_id or 0 for one in treatments]
        self._states[:, CODE] = _places(codes)[:count]
        self._states[:, CONSTANTS] = _places(constants)[:count]
        self._states[:, MOVES] = _places(moves)
        self._states[:, MOVES_END] = [*accumulate(map(len, moves))]
        self._states[:, FIXED] = [0 if program is None else program.fixed for program in programs]
        self._states[:, SHAPE] = _places_or_none(shapes)
        self._states[:, CHECK] = _places_or_none(codes)[count:]
        self._states[:, CHECK_CONSTANTS] = _places(constants)[count:]
        self._shapes = np.array([number for one in shapes for number in one], np.int64)
        self._tables = (
            np.array([number for one in codes for number in one], np.int64),
            padded(b"".join(constants)),
            np.array([number for one in moves for number in one], np.int64),
        )
        most = max((one.registers for one in (*programs, *checks) if one is not None), default=0)
        self._registers = np.zeros(most + 1, np.int64)
        self._keys = np.zeros(0, np.int64)
        self._result = np.zeros(RESULT_NUMBERS, np.int64)
        self._growth: float = _FIRST_GROWTH

    def rewrite(self, data: memoryview, begins: Sequence[int], key_groups: Sequence[int]) -> NewKeyGroups | None:
        """Rewrite key groups; return None if an entry needs block-by-block treatment.

        Args:
            data: Key groups, in a writable buffer; it is modified, and restored before the call returns.
            begins: The offset of each key group.
            key_groups: The numbers of the key groups.
        """
        old = with_margin(data)
        capacity = int(len(data) * self._growth * SLACK) + SPARE_BYTES
        places = np.array([*begins, len(data)], np.int64)
        while True:
            target, offsets = np.empty(capacity + PADDING, np.uint8), np.empty(len(key_groups), np.int64)
            totals = np.zeros((len(self._states), TOTAL_NUMBERS), np.int64)
            status = rewrite(
                read_only(old), places, np.array(key_groups, np.int64), self._prefix_bytes, self._states, self._shapes,
                *self._tables, self._keys, target, capacity, self._registers, self._result, offsets, totals,
            )  # fmt: skip
            if status == DONE:
                size = int(self._result[0])
                self._growth = size / len(data)
                return NewKeyGroups(without(target, size), offsets.tolist(), _state_totals(totals))
            if status == NO_TABLE:
                self._keys = np.zeros(table_size(int(self._result[2])), np.int64)
                continue
            most = 2 * max((program.capacity(len(data)) for program in self._programs), default=len(data)) + SPARE_BYTES
            if status != FULL or capacity >= most:
                return None
            capacity = min(2 * capacity, most)


def _action(treatment: Treatment) -> int:
    if treatment.new_id is None:
        return DROP
    return COPY if treatment.program is None else CONVERT


def _places(parts: Sequence[Sequence[int]]) -> list[int]:
    """Return the offset of each part when they are concatenated."""
    return [*accumulate(map(len, parts), initial=0)][:-1]


def _places_or_none(parts: Sequence[Sequence[int]]) -> list[int]:
    """Return the offset of each part as `_places`, but -1 for an empty part."""
    return [place if part else -1 for place, part in zip(_places(parts), parts, strict=True)]


def _state_totals(totals: Any) -> list[StateTotal]:
    return [
        StateTotal(state_id, first, entries, keys_read & _CHECKSUM, keys_written & _CHECKSUM)
        for state_id, (group, first, entries, keys_read, keys_written) in enumerate(totals.tolist())
        if group
    ]
