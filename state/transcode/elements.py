"""The transcoders of operator state, object by object: elements of lists, and the maps of broadcast state."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.errors import StateShiftError, ValuesCollide, add_step, located, shown
from ...serializers.views import DataInputView, DataOutputView
from .bad_values import BadValue
from .objects import expect_end, hex_shown, name_rule, read_old, recode, recode_all
from .transcoder import TranscodedElements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...compat.plan import Recoding, StatePlan
    from ...serializers.serializer import TypeSerializer
    from ...serializers.snapshot import TypeSerializerConfigSnapshot


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
