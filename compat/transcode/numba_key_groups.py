"""Whole key groups as machine code; see `key_groups`."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from .columns import bytes_behind
from .even import moves_of
from .interpreter import DONE, FULL
from .key_groups import NewKeyGroups, StateTotal, Treatment
from .machine import PADDING
from .numba_executor import SLACK, SPARE_BYTES, padded, without
from .numba_kernels import (
    ACTION,
    CODE,
    CONSTANTS,
    CONVERT,
    COPY,
    DROP,
    FIXED,
    MOVES,
    MOVES_END,
    NEW_ID,
    RESULT_NUMBERS,
    STATE_NUMBERS,
    TOTAL_NUMBERS,
    rewrite,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_FIRST_GROWTH = 2
_CHECKSUM = (1 << 64) - 1


class NumbaKeyGroups:
    """Rewrites whole key groups in machine code.

    Args:
        treatments: By the id of the stored state.
        prefix_bytes: How many bytes of a key tell its key group.
    """

    def __init__(self, treatments: Sequence[Treatment], prefix_bytes: int) -> None:
        programs = [one.program for one in treatments]
        codes = [() if program is None else program.code for program in programs]
        constants = [b"" if program is None else program.constants + bytes(PADDING) for program in programs]
        moves = [() if program is None else moves_of(program) for program in programs]
        self._prefix_bytes = prefix_bytes
        self._programs = [program for program in programs if program is not None]
        self._states = np.zeros((len(treatments), STATE_NUMBERS), np.int64)
        self._states[:, ACTION] = [*map(_action, treatments)]
        self._states[:, NEW_ID] = [one.new_id or 0 for one in treatments]
        self._states[:, CODE] = _places(codes)
        self._states[:, CONSTANTS] = _places(constants)
        self._states[:, MOVES] = _places(moves)
        self._states[:, MOVES_END] = [*accumulate(map(len, moves))]
        self._states[:, FIXED] = [0 if program is None else program.fixed for program in programs]
        self._tables = (
            np.array([number for one in codes for number in one], np.int64),
            padded(b"".join(constants)),
            np.array([number for one in moves for number in one], np.int64),
        )
        self._registers = np.zeros(max((one.registers for one in self._programs), default=0) + 1, np.int64)
        self._result = np.zeros(RESULT_NUMBERS, np.int64)
        self._growth: float = _FIRST_GROWTH

    def rewrite(self, data: memoryview, begins: Sequence[int], key_groups: Sequence[int]) -> NewKeyGroups | None:
        """Rewrite key groups; as of the protocol."""
        old = np.frombuffer(data, np.uint8) if bytes_behind(data) >= PADDING else padded(data)
        room = int(len(data) * self._growth * SLACK) + SPARE_BYTES
        places = np.array([*begins, len(data)], np.int64)
        while True:
            target, offsets = np.empty(room + PADDING, np.uint8), np.empty(len(key_groups), np.int64)
            totals = np.zeros((len(self._states), TOTAL_NUMBERS), np.int64)
            status = rewrite(
                old, places, np.array(key_groups, np.int64), self._prefix_bytes, self._states, *self._tables,
                target, room, self._registers, self._result, offsets, totals,
            )  # fmt: skip
            if status == DONE:
                size = int(self._result[0])
                self._growth = size / len(data)
                return NewKeyGroups(without(target, size), offsets.tolist(), _told(totals))
            most = 2 * max((program.room(len(data)) for program in self._programs), default=len(data)) + SPARE_BYTES
            if status != FULL or room >= most:
                return None
            room = min(2 * room, most)


def _action(treatment: Treatment) -> int:
    if treatment.new_id is None:
        return DROP
    return COPY if treatment.program is None else CONVERT


def _places(parts: Sequence[Sequence[int]]) -> list[int]:
    """Where each part begins, one behind the other."""
    return [*accumulate(map(len, parts), initial=0)][:-1]


def _told(totals: Any) -> list[StateTotal]:
    return [
        StateTotal(state_id, first, entries, keys_read & _CHECKSUM, keys_written & _CHECKSUM)
        for state_id, (group, first, entries, keys_read, keys_written) in enumerate(totals.tolist())
        if group
    ]
