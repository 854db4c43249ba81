"""The transcoders of operator state: elements of lists, and the maps of broadcast state.

Op lists rewrite elements that are framed as entries, in blocks; objects rewrite odd elements, or all of them.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.errors import StateShiftError, ValuesCollide, add_step, located, shown
from ...serializers.views import DataInputView, DataOutputView
from .block_transcoder import make_executor
from .interpreter import ODD
from .objects import expect_end, hex_shown, name_rule, read_old, recode, recode_all
from .transcoder import BadValue, TranscodedElements

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...compat.plan import Recoding, StatePlan
    from ...serializers.serializer import TypeSerializer
    from ...serializers.snapshot import TypeSerializerConfigSnapshot
    from .program import Program
    from .transcoder import ElementTranscoder


@attrs.frozen
class ListElements:
    """A transcoder of the elements of an operator's list state."""

    plan: StatePlan
    quarantines: bool = False

    def transcode(self, elements: Sequence[bytes]) -> TranscodedElements:
        recoding = self.plan.value
        if recoding is None:
            return TranscodedElements(tuple(elements))
        found, aside = list[bytes](), list[BadValue]()
        with located(state=self.plan.name):
            for element in elements:
                try:
                    found.append(recode_all(recoding, element))
                except StateShiftError as error:
                    add_step(error, recoding.step)
                    name_rule(error, self.plan)
                    bad = BadValue.of(error, b"", element) if self.quarantines else None
                    if bad is None:
                        raise
                    aside.append(bad)
        return TranscodedElements(tuple(found), tuple(aside))


@attrs.frozen
class BroadcastMaps:
    """A transcoder of the map of a broadcast state: i32 n, n x (key, value), without null flags (format notes 8)."""

    plan: StatePlan
    quarantines: bool = False

    def transcode(self, elements: Sequence[bytes]) -> TranscodedElements:
        found, aside = list[bytes](), list[BadValue]()
        with located(state=self.plan.name):
            for element in elements:
                found.append(self._map(element, aside))
        return TranscodedElements(tuple(found), tuple(aside))

    def _map(self, element: bytes, aside: list[BadValue]) -> bytes:
        source, target = DataInputView(element), DataOutputView()
        key = _MapPiece(self.plan, self.plan.user_key, self.plan.old.key)
        value = _MapPiece(self.plan, self.plan.value, self.plan.old.value)
        count, written, seen = source.read_size("entries of a broadcast map"), 0, set[bytes]()
        for _ in range(count):
            start = source.position
            try:
                new_key, new_value = key.rewritten(source), value.rewritten(source)
                _keep_apart(new_key, seen)
            except StateShiftError as error:
                bad = _entry_aside(error, source, start, key, value) if self.quarantines else None
                if bad is None:
                    raise
                aside.append(bad)
                continue
            target.write(new_key)
            target.write(new_value)
            written += 1
        expect_end(source)
        return written.to_bytes(4, "big") + target.getvalue()


def _keep_apart(key: bytes, seen: set[bytes]) -> None:
    if key in seen:
        raise ValuesCollide(
            f"two keys of the broadcast map become the same: {hex_shown(key)}",
            advice="let a converter keep them apart, or keep the type of the key",
            path="$<key>",
            rule="MAP-3",
        )
    seen.add(key)


@attrs.define
class _MapPiece:
    """The key or the value of a broadcast map's entries: rewritten, or copied if no recoding is planned."""

    plan: StatePlan
    recoding: Recoding | None
    old: TypeSerializerConfigSnapshot[Any] | None

    @cached_property
    def _restored(self) -> TypeSerializer[Any] | None:
        """The serializer restored from the snapshot; None if only the plan's own reader can read the piece."""
        try:
            return self.old.restore_serializer() if self.old is not None else None
        except StateShiftError:
            if self.recoding is None:
                raise
            return None

    def rewritten(self, source: DataInputView) -> bytes:
        if self.recoding is None:
            return self.passed(source)
        target = DataOutputView()
        try:
            recode(self.recoding, source, target)
        except StateShiftError as error:
            add_step(error, self.recoding.step)
            name_rule(error, self.plan)
            raise
        return target.getvalue()

    def passed(self, source: DataInputView) -> bytes:
        """Skip a piece and return its stored bytes."""
        start = source.position
        if self._restored is not None:
            self._restored.copy_bytes(source, DataOutputView())
        elif self.recoding is not None:
            read_old(self.recoding, source)
        return source.span(start)

    def shown(self, data: bytes) -> str:
        return shown(self._restored.deserialize(DataInputView(data))) if self._restored is not None else hex_shown(data)


def single_maps(plan: StatePlan, element: bytes) -> Iterator[bytes]:
    """Yield the entries of a broadcast map, each as a map of its own; raises as `BroadcastMaps.transcode`."""
    source = DataInputView(element)
    key, value = _MapPiece(plan, plan.user_key, plan.old.key), _MapPiece(plan, plan.value, plan.old.value)
    for _ in range(source.read_size("entries of a broadcast map")):
        yield b"".join(((1).to_bytes(4, "big"), key.passed(source), value.passed(source)))


def _entry_aside(
    error: StateShiftError, source: DataInputView, start: int, key: _MapPiece, value: _MapPiece
) -> BadValue | None:
    """Return the bad value of an unframed entry whose reader may have failed halfway; None if its end is not found."""
    try:
        source.position = start
        key_bytes, value_bytes = key.passed(source), value.passed(source)
        error.where.setdefault("key", key.shown(key_bytes))
    except StateShiftError:
        return None
    return BadValue.of(error, key_bytes, value_bytes)


_BLOCK_BYTES = 1 << 22
_LARGEST_BYTES = 1 << 27
"""The largest element that op lists rewrite; the new one may be many times as long, and its size is an i32."""
_KEY = (1).to_bytes(4, "big") + b"\0"
"""The framed dummy key before each element."""
_HEAD_BYTES = len(_KEY) + 4


@attrs.frozen
class ElementBlocks:
    """A transcoder that rewrites elements by an op list.

    Attributes:
        objects: The transcoder of odd elements.
        program: The op list.
    """

    objects: ElementTranscoder
    program: Program

    def transcode(self, elements: Sequence[bytes]) -> TranscodedElements:
        if max(map(len, elements), default=0) > _LARGEST_BYTES:
            return self.objects.transcode(elements)
        executor = make_executor(self.program)
        found: list[bytes] = []
        aside: list[BadValue] = []
        for start, block in framed_elements(elements):
            place, at = start, 0
            while at < len(block):
                done = executor.rewrite(block, at)
                found += _elements(bytes(done.data))
                place, at = place + done.entries, done.stop
                if done.status == ODD:
                    slowly = self.objects.transcode([elements[place]])
                    found += slowly.elements
                    aside += slowly.quarantined
                    at += framed_size(elements[place])
                    place += 1
        return TranscodedElements(tuple(found), tuple(aside))


def framed_elements(elements: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield blocks of framed elements, a few megabytes each, with the index of each block's first element."""
    start, framed, size = 0, list[bytes](), 0
    for place, element in enumerate(elements, 1):
        framed += (_KEY, len(element).to_bytes(4, "big"), element)
        size += len(element)
        if size >= _BLOCK_BYTES or place == len(elements):
            yield start, b"".join(framed)
            start, framed, size = place, [], 0


def framed_size(element: bytes) -> int:
    """Return the size of an element with its frame."""
    return _HEAD_BYTES + len(element)


def _elements(block: bytes) -> Iterator[bytes]:
    """Yield the elements without their frames."""
    at = 0
    while at < len(block):
        start = at + _HEAD_BYTES
        at = start + int.from_bytes(block[start - 4 : start], "big")
        yield block[start:at]
