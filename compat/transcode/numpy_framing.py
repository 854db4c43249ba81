"""Where entries begin, found by numpy: many cursors at once, each of which must land exactly where the next one began.

Each length depends on the one before, so there is no other way than from entry to entry. But a place that looks like
the beginning of an entry can be guessed, by its small lengths and its key group, and the next one after it. Since the
first beginning is certain, and each cursor comes to the beginning of the next, all guesses were right. Where one was
not, plain Python goes through the block.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from .columns import Column, integers, padded, view
from .framed import COMPLETE, Run, Survey

_END_MARK, _LAST_FLAG = b"\xff\xff", 0x80
_ENTRIES_A_CURSOR = 24
_SAMPLED = 16
_FEWEST_BYTES, _FEWEST_GUESSED = 1 << 11, 1 << 15
_LOOK_BYTES = 8
_LENGTH = struct.Struct(">i")
_STEP = np.uint64(0x1E3779B97F4A7C15)
_LONGEST_WINDOW = 1 << 12
_MOST_STEPS = 8 * _ENTRIES_A_CURSOR


class _Known:
    """Where the entries of blocks begin that were looked at last: each block is gone through several times."""

    kept = 4

    def __init__(self) -> None:
        self._blocks: list[tuple[bytes, Column]] = []

    def put(self, block: bytes, starts: Column) -> None:
        """Keep it for a while."""
        self._blocks = [*self._blocks[1 - self.kept :], (block, starts)]

    def get(self, block: bytes) -> Column | None:
        """Give what was kept of a block; None of any other."""
        return next((starts for known, starts in self._blocks if known is block), None)


known = _Known()


def starts_of(block: bytes) -> Column | None:
    """Give where the entries of a block begin; None where it does not consist of entries, or is too small to matter."""
    found = known.get(block)
    if found is None and len(block) >= _FEWEST_BYTES:
        found = find_starts(block, 0, len(block))
        if found is not None:
            known.put(block, found)
    return found


def find_starts(data: bytes, start: int, end: int) -> Column | None:
    """Give where the entries between two places begin; None where they do not fill it."""
    sample = _sample(data, start, end)
    if sample is not None and end - start >= _FEWEST_GUESSED:
        buffer = padded(memoryview(data)[:end])
        found = _in_step(buffer, _guessed(buffer, sample, end), end)
        if found is not None:
            return found
    return _one_by_one(data, start, end)


def _one_by_one(data: bytes, start: int, end: int) -> Column | None:
    starts, at, size_at = [], start, _LENGTH.unpack_from
    while at <= end - 8:
        starts.append(at)
        key = size_at(data, at)[0]
        value_at = at + 4 + key
        if key < 0 or value_at > end - 4:
            return None
        value = size_at(data, value_at)[0]
        at = value_at + 4 + value
        if value < 0:
            return None
    return np.array(starts, np.int64) if at == end and starts else None


def find_whole_run(data: bytes, start: int) -> Run | None:
    """Give the run of a key group's only, or last, state; None where that is not what the data from `start` on are."""
    end = len(data) - len(_END_MARK)
    if data[end:] != _END_MARK:
        return None
    starts = find_starts(data, start, end)
    if starts is None:
        return None
    flagged = np.frombuffer(data, np.uint8)[starts + 4] >= _LAST_FLAG
    if not flagged[-1] or flagged[:-1].any() or (integers(padded(data), starts, 4) < 1).any():
        return None
    return Run(COMPLETE, end, int(starts[-1]), len(starts), 0, starts)


def survey_columns(data: bytes, prefix: bytes) -> Survey | None:
    """As `framed.survey`; None where only plain Python can tell."""
    starts = starts_of(data)
    if starts is None:
        return None
    buffer = padded(data)
    sizes = integers(buffer, starts, 4)
    misplaced = sizes < len(prefix)
    for place, byte in enumerate(prefix):
        misplaced |= buffer[starts + 4 + place] != byte
    others = np.flatnonzero(misplaced)
    first = int(starts[others[0]]) if len(others) else -1
    return Survey(len(starts), int(key_sums(buffer, starts + 4, sizes).sum(dtype=np.uint64)), first, int(starts[-1]))


def _sample(data: bytes, start: int, end: int) -> Column | None:
    """Give where the first entries begin; None where there are few."""
    starts, at = [], start
    for _ in range(_SAMPLED):
        starts.append(at)
        for _ in range(2):
            size = int.from_bytes(data[at : at + 4], "big", signed=True)
            at += 4 + size
            if size < 0 or at > end - 8:
                return None
    return np.array(starts, np.int64)


def _guessed(buffer: Any, sample: Column, end: int) -> Column:
    """Give the first place, and one in each stretch of the buffer that looks like the beginning of an entry.

    The look is two zero bytes of the key's length, and those of its first bytes that are the same in all of a sample.
    """
    start = int(sample[0])
    mean = max(int(sample[-1] - start) // (len(sample) - 1), 9)
    window = min(2 * mean + 32, _LONGEST_WINDOW)
    stretch = max(_ENTRIES_A_CURSOR * mean, 2 * window)
    firsts = np.arange(start + stretch, end - 2 * window, stretch)
    if not len(firsts):
        return sample[:1]
    heads = view(buffer, f"({_LOOK_BYTES},)u1")[sample].reshape(len(sample), _LOOK_BYTES)
    alike = [
        place for place in range(_LOOK_BYTES) if place < 2 or (place > 3 and (heads[:, place] == heads[0, place]).all())
    ]
    rows = np.lib.stride_tricks.sliding_window_view(buffer, window + _LOOK_BYTES)[firsts]
    looks = np.logical_and.reduce([rows[:, place : place + window] == heads[0, place] for place in alike])
    row, offset = np.nonzero(looks)
    places = firsts[row] + offset
    good, there = np.ones(len(places), bool), places
    for _ in range(2):
        there, sound = _next(buffer, there, end)
        good &= sound & (there < end - 8)
        there = np.where(good, there, start)
        for place in alike:
            good &= buffer[there + place] == heads[0, place]
    row, places = row[good], places[good]
    _, first = np.unique(row, return_index=True)
    return np.concatenate([sample[:1], places[first]])


def _next(buffer: Any, at: Column, end: int) -> tuple[Column, Column]:
    """Give where the entries behind some end, and whether they can be entries at all."""
    key = integers(buffer, at, 4)
    sound = (key > 0) & (key <= end - at - 8)
    value_at = np.where(sound, at + 4 + key, at)
    value = integers(buffer, value_at, 4)
    sound &= (value >= 0) & (value <= end - value_at - 4)
    return np.where(sound, value_at + 4 + value, end), sound


def _in_step(buffer: Any, cursors: Column, end: int) -> Column | None:
    """Go from each cursor to the next, an entry a step; None where one does not come to where the next began."""
    goals = np.concatenate([cursors[1:], [end]])
    at, rows = cursors, np.arange(len(cursors))
    steps: list[Column] = []
    while len(rows):
        if len(steps) >= _MOST_STEPS:
            return None
        here = np.full(len(cursors), -1)
        here[rows] = at
        steps.append(here)
        at, sound = _next(buffer, at, end)
        if not sound.all() or (at > goals[rows]).any():
            return None
        going = at < goals[rows]
        at, rows = at[going], rows[going]
    table = np.stack(steps, axis=1).ravel()
    return table[table >= 0]


def key_sums(buffer: Any, at: Column, sizes: Column) -> Column:
    """Give what each key adds to the checksum, as `memory.key_sum` says."""
    total, loaded = sizes.astype(np.uint64), view(buffer, ">u8")
    whole = np.maximum(sizes - 1, 0) // 8
    for place in range(int(whole.max(initial=0))):
        more = whole > place
        total[more] += _mixed(_STEP * np.array([place + 1], np.uint64), loaded[at[more] + 8 * place].astype(np.uint64))
    ends = np.where(sizes >= 8, at + sizes - 8, at)
    short = np.clip(8 * (8 - sizes), 0, 63).astype(np.uint64)
    last = np.where(sizes > 0, loaded[ends].astype(np.uint64) >> short, 0).astype(np.uint64)
    total += _mixed(_STEP * (whole + 1).astype(np.uint64), last)
    return _mixed(total, np.uint64(0))


def _mixed(number: Column, word: Column) -> Column:
    product = (number ^ word) * np.uint64(0x9E3779B97F4A7C15)
    return product ^ product >> np.uint64(32)
