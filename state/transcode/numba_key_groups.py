"""The executor of whole key groups by machine code; see `key_groups`."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from .even import moves_of
from .interpreter import DONE, FULL
from .key_groups import NewKeyGroups, StateTotal, Treatment
from .machine import PADDING
from .numba_executor import SLACK, SPARE_BYTES, padded, with_margin, without
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
    SHAPE,
    STATE_NUMBERS,
    TOTAL_NUMBERS,
    read_only,
    rewrite,
)
from .placed import table_size

if TYPE_CHECKING:
    from collections.abc import Sequence

_FIRST_GROWTH = 2
_CHECKSUM = (1 << 64) - 1


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
        """Rewrite key groups, as `KeyGroupsExecutor.rewrite`."""
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
