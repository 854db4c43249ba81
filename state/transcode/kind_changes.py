"""The transcoder of a state that becomes another kind of state: each key's value is read, transformed, and rewritten.

A map has an entry per user key; these are gathered first, in whatever order they come. The new entries of a key are
written together, user keys ascending, as RocksDB orders them; Flink itself restores entries in any order.
Source: rule STATE-2; format notes 5.2 and 5.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.containers.pieces import unique
from ...serializers.errors import CorruptSavepoint, StateShiftError, ValuesCollide, at_step, located, shown
from ...serializers.views import DataInputView, DataOutputView
from ..user_code import called
from .entry_layout import ENTRY, entry_values
from .objects import expect_end, read_old
from .transcoder import BadValue, Transcoded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...compat.plan import Recoding, StatePlan, Transformation
    from .entry_layout import EntryFraming

_WAY_OUT = "handle such keys in the transform, or correct it"
_RULE = "STATE-2"

Entries = list[tuple[bytes, bytes]]
"""The entries of one key: pairs of entry key and value bytes."""


@attrs.frozen
class KindTranscoder:
    """A transcoder of keyed entries to another kind of state, key by key; `Transcoded.entries` counts keys."""

    plan: StatePlan
    framing: EntryFraming
    quarantines: bool = False

    @property
    def needs_whole_run(self) -> bool:
        return self._transform.old_kind.has_user_keys

    @property
    def _transform(self) -> Transformation:
        assert self.plan.transform is not None  # noqa: S101 - make_transcoder chose this executor by it
        return self.plan.transform

    def transcode(self, block: bytes | memoryview, prefix: bytes = b"") -> Transcoded:
        target, aside = DataOutputView(), list[BadValue]()
        keys, framed, dropped = 0, 0, list[bytes]()
        with located(state=self.plan.name):
            for address, entries in self._by_key(block).items():
                keys += 1
                try:
                    new = self._transformed(address, entries)
                except StateShiftError as error:
                    bad = self._bad(error, address, entries)
                    if bad is None:
                        raise
                    aside.append(bad)
                    continue
                if not new:
                    dropped.append(address)
                framed += len(new)
                for entry in new:
                    ENTRY.write(target, entry)
        return Transcoded(target.getvalue(), keys, tuple(dropped), quarantined=tuple(aside), framed=framed)

    def _by_key(self, block: bytes | memoryview) -> dict[bytes, Entries]:
        """Return the entries of each key, by the entry key without the user key."""
        gathered: dict[bytes, Entries] = {}
        is_map = self._transform.old_kind.has_user_keys
        source = DataInputView(bytes(block))
        while source.remaining():
            key, value = ENTRY.read(source)
            gathered.setdefault(self.framing.keys.address(key) if is_map else key, []).append((key, value))
        return gathered

    def _transformed(self, address: bytes, entries: Entries) -> Entries:
        """Return the new entries of a key; an empty list if the transform leaves nothing."""
        old = self._old(entries)
        name, writer = f"the transform {self._transform.name}", _recoding(self.plan).writer
        new = called(lambda: self._transform.function(old), lambda: f"{name} failed on {shown(old)}", _WAY_OUT)
        values = called(
            lambda: entry_values(self.plan.kind, writer, new),
            lambda: f"{shown(new)}, returned by {name}, cannot be written as {writer.describe()}",
            _WAY_OUT,
        )
        return sorted((address + user_key, value) for user_key, value in values)

    def _old(self, entries: Entries) -> Any:
        """Read the value, the list, or the dict of a key."""
        recoding = _recoding(self.plan)
        if self._transform.old_kind.has_user_keys:
            pairs = list(self._pairs(entries))
            unique([name for name, _ in pairs], "user keys of one key are read as", "<key>", _RULE)
            return dict(pairs)
        if len(entries) > 1:
            raise CorruptSavepoint(f"a key has {len(entries)} entries in {self._transform.old_kind} state")
        source = DataInputView(entries[0][1])
        with at_step(recoding.step):
            found = [read_old(recoding, source)]
            if not self._transform.old_kind.has_elements:
                expect_end(source)
                return found[0]
            while source.remaining():
                source.skip_bytes(1)
                found.append(read_old(recoding, source))
        return found

    def _pairs(self, entries: Entries) -> Iterator[tuple[Any, Any]]:
        keys, values = self.plan.user_key, _recoding(self.plan)
        assert keys is not None  # noqa: S101 - map state has user keys
        for key, value in entries:
            with at_step(keys.step):
                source = DataInputView(key, self.framing.keys.user_key_start(key))
                name = read_old(keys, source)
                expect_end(source)
            with at_step(values.step):
                source = DataInputView(value)
                item = None
                if not source.read_boolean():
                    item = read_old(values, source)
                    expect_end(source)
            yield name, item

    def _bad(self, error: StateShiftError, address: bytes, entries: Entries) -> BadValue | None:
        """Add the location to an error; return the bad value if it may be quarantined."""
        error.where.setdefault("key", self.framing.show_key(address))
        error.where.setdefault("path", "$")
        error.where.setdefault("rule", _RULE)
        if not isinstance(error, ValuesCollide):
            error.advice = error.advice or _WAY_OUT
        if not self.quarantines:
            return None
        value = entries[0][1]
        if self._transform.old_kind.has_user_keys:
            target = DataOutputView()
            for entry in entries:
                ENTRY.write(target, entry)
            value = target.getvalue()
        return BadValue.of(error, address, value, int.from_bytes(address[: self.framing.keys.prefix], "big"))


def _recoding(plan: StatePlan) -> Recoding:
    assert plan.value is not None  # noqa: S101 - a transform reads all pieces
    return plan.value
