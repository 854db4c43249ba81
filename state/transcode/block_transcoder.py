"""The transcoder of states with a byte rewrite: an op list rewrites blocks, objects rewrite odd entries."""

from __future__ import annotations

import struct
from importlib import import_module
from typing import TYPE_CHECKING

import attrs

from ...serializers.errors import StateShiftError
from .frames import survey
from .interpreter import DAMAGED, DONE, FULL, ODD
from .transcoder import Transcoded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .numba_executor import NumbaExecutor, Rewritten
    from .objects import ObjectTranscoder
    from .program import Program

_LENGTH = struct.Struct(">i")
_LENGTH_BYTES = _LENGTH.size
_CHECKSUM = (1 << 64) - 1


@attrs.define
class BlockTranscoder:
    """A transcoder that rewrites blocks by an op list.

    Attributes:
        objects: The transcoder of odd entries, which also raises the error of damaged ones.
        program: The op list.
        keeps_apart: Whether it never makes one key of two.
    """

    objects: ObjectTranscoder
    program: Program
    keeps_apart: bool = False
    _made: NumbaExecutor | None = attrs.field(default=None, init=False, eq=False, repr=False)

    @property
    def needs_whole_run(self) -> bool:
        return self.objects.needs_whole_run

    def transcode(self, block: bytes | memoryview, prefix: bytes = b"") -> Transcoded:
        if not self.needs_whole_run:
            return _joined([*self._pieces(block, prefix)])
        try:
            pieces = [*self._pieces(block, prefix)]
        except StateShiftError:
            return self.objects.transcode(block)  # two keys that become one may be the first failure
        found = _joined(pieces)
        if self.keeps_apart and all(one.seen is not None for one in pieces):  # no entry was odd
            return found
        return found if _are_apart(found.data, found.written) else self.objects.transcode(block)

    def _pieces(self, block: bytes | memoryview, prefix: bytes) -> Iterator[Transcoded]:
        at = 0
        while at < len(block):
            done = self._rewritten(block, at, prefix)
            yield Transcoded(done.data, done.entries, keys_read=done.keys & _CHECKSUM, seen=done.seen)
            at = done.stop
            if done.status == ODD:
                end = entry_end(block, at)
                yield self._slowly(block, at, end)
                at = end
            elif done.status == DAMAGED:
                yield self._slowly(block, at, len(block))
                at = len(block)
            else:
                assert done.status in {DONE, FULL}  # noqa: S101 - there is no other status

    def _rewritten(self, block: bytes | memoryview, at: int, prefix: bytes) -> Rewritten:
        if self._made is None:
            self._made = make_executor(self.program)
        return self._made.rewrite(block, at, prefix)

    def _slowly(self, block: bytes | memoryview, start: int, end: int) -> Transcoded:
        """Rewrite entries as objects; an error gets the offset in the whole block."""
        try:
            found = self.objects.transcode(block[start:end])
            return attrs.evolve(found, keys_read=survey(block[start:end], b"").keys)
        except StateShiftError as error:
            offset = error.where.get("offset")
            if isinstance(offset, int):
                error.where["offset"] = offset + start
            raise

    def __getstate__(self) -> tuple[ObjectTranscoder, Program, bool]:
        return self.objects, self.program, self.keeps_apart

    def __setstate__(self, state: tuple[ObjectTranscoder, Program, bool]) -> None:
        self.objects, self.program, self.keeps_apart = state
        self._made = None


def make_executor(program: Program) -> NumbaExecutor:
    """Return the executor of an op list; numba must be installed."""
    made: NumbaExecutor = import_module(f"{__package__}.numba_executor").NumbaExecutor(program)
    return made


def entry_end(block: bytes | memoryview, start: int) -> int:
    """Return the end of a correctly framed entry."""
    value = start + _LENGTH_BYTES + int.from_bytes(block[start : start + _LENGTH_BYTES], "big")
    return value + _LENGTH_BYTES + int.from_bytes(block[value : value + _LENGTH_BYTES], "big")


def _are_apart(data: bytes | memoryview, count: int) -> bool:
    """Whether no two entries have the same key."""
    keys, at, load = set[bytes](), 0, _LENGTH.unpack_from
    data = bytes(data)
    while at < len(data):
        value = at + _LENGTH_BYTES + load(data, at)[0]
        keys.add(data[at + _LENGTH_BYTES : value])
        at = value + _LENGTH_BYTES + load(data, value)[0]
    return len(keys) == count


def _joined(pieces: list[Transcoded]) -> Transcoded:
    """Join pieces in order."""
    if len(pieces) == 1:
        return pieces[0]
    return Transcoded(
        memoryview(bytearray().join(piece.data for piece in pieces)),
        sum(piece.entries for piece in pieces),
        tuple(key for piece in pieces for key in piece.dropped_keys),
        sum(piece.dropped_elements for piece in pieces),
        tuple(bad for piece in pieces for bad in piece.quarantined),
        keys_read=sum(piece.keys_read or 0 for piece in pieces) & _CHECKSUM,
    )
