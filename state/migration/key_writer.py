"""Rewriting of keys, and of the entry keys of entries and timers that contain them.

Source: rules ROLE-4, RUN-3 and RUN-7; format notes 5.3 to 5.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.errors import CorruptSavepoint, MigrationFailed, StateShiftError, add_step, shown
from ...serializers.pickled.trust import trusting
from ...serializers.views import DataInputView, DataOutputView
from ..entry_keys import EntryKey, decode, encode, shown_key
from ..formats.flink.state_kinds import entry_key_format
from ..key_groups import key_group, key_hasher
from ..transcode.objects import converted, write
from .shuffle_batches import SentEntry

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...compat.plan import Rekeying
    from ...serializers.serializer import TypeSerializer
    from ..entry_keys import EntryKeyFormat
    from ..formats.flink.meta_info import StateMetaInfo


class KeyWriter:
    """Rewrites stored keys and finds their new key groups; caches the keys of the current stored key group."""

    def __init__(self, rekeying: Rekeying, hasher: Callable[[Any], int], max_parallelism: int) -> None:
        self._recoding, self.serializer = rekeying.key, rekeying.serializer
        self._hasher, self.max_parallelism = hasher, max_parallelism
        self._known: dict[bytes, tuple[bytes, int]] = {}
        self._proven = False

    @classmethod
    def of(cls, rekeying: Rekeying, max_parallelism: int) -> KeyWriter:
        """Return a writer for a new number of key groups."""
        return cls(rekeying, key_hasher(rekeying.serializer), max_parallelism)

    @property
    def keeps_bytes(self) -> bool:
        """Whether only the key groups change, and not the bytes of the keys."""
        return self._recoding is None

    def forget(self) -> None:
        """Clear the cache: keys are unique per key group."""
        self._known.clear()

    def written(self, old: bytes) -> tuple[bytes, int]:
        """Return the new bytes of a stored key, and its new key group."""
        known = self._known.get(old)
        if known is None:
            try:
                with trusting(()):  # pickled keys are not opened: there is no option to trust them
                    known = self._known[old] = self._write(old)
            except StateShiftError as error:
                add_step(error, "<key>")
                error.where.setdefault("rule", "ROLE-4")
                error.where.setdefault("key", self.shown_old(old))
                raise
        return known

    def _write(self, old: bytes) -> tuple[bytes, int]:
        new = old
        if self._recoding is not None:
            source, target = DataInputView(old), DataOutputView()
            write(self._recoding, converted(self._recoding, source), target)
            if source.remaining():
                raise CorruptSavepoint(f"{source.remaining()} bytes follow a key")
            new = target.getvalue()
        key = decode(self.serializer, new)
        if not self._proven:
            self._prove(key, new)
        return new, key_group(self._hasher(key), self.max_parallelism)

    def _prove(self, key: Any, data: bytes) -> None:
        again = encode(self.serializer, key)
        if again != data:
            raise MigrationFailed(
                f"the serializer of the keys reads {shown(data.hex())} but writes {shown(again.hex())}",
                rule="RUN-7",
                advice="make the serializer deterministic; nothing is published",
            )
        self._proven = True

    def shown_old(self, old: bytes) -> str:
        """Return a stored key as text for messages."""
        reader: Any = self.serializer if self._recoding is None else self._recoding.reader
        with trusting(()):
            return shown_key(reader, old)

    def shown_new(self, new: bytes) -> str:
        """Return a new key as text for messages."""
        with trusting(()):
            return shown_key(self.serializer, new)


@attrs.frozen
class EntryKeys:
    """Splits the entry keys of one state, and joins their parts with new keys. Made with `of`."""

    old: EntryKeyFormat
    new: EntryKeyFormat
    keys: KeyWriter

    @classmethod
    def of(
        cls,
        info: StateMetaInfo,
        old_key: TypeSerializer[Any],
        keys: KeyWriter,
        max_parallelism: int,
    ) -> EntryKeys:
        """Return an instance with the formats from the metadata of a state, with its old keys and its new ones.

        Entries of a state that becomes another kind have that kind already: values are converted before keys.
        """
        new = entry_key_format(info, keys.serializer, keys.max_parallelism)
        return cls(entry_key_format(info, old_key, max_parallelism), new, keys)

    def moved(self, entry_key: bytes, key_group: int) -> tuple[int, SentEntry]:
        """Return the new key group of an entry, and the entry with its new key (without its value).

        Raises:
            CorruptSavepoint: The entry lies in another key group than its key says.
            ValueNotConvertible: The key does not fit its new type.
        """
        parts = self.old.split(entry_key)
        if parts.key_group != key_group:
            raise CorruptSavepoint(
                f"an entry in key group {key_group} is stored as belonging to key group {parts.key_group}",
                key=self.keys.shown_old(parts.key),
                rule="RUN-3",
            )
        key, group = self.keys.written(parts.key)
        joined = self.new.join(EntryKey(group, key, parts.namespace, parts.user_key, parts.timestamp_ms))
        return group, SentEntry(joined, b"" if self.keys.keeps_bytes else parts.key, self.new.key_start, len(key))
