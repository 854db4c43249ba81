"""The sides of an entry: its key and value, before and after a migration, as JSON.

A side is read by the snapshots of its stream, as an export reads it; where those restore no reader of the old values,
by the reader of the plan.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.description import StateKind
from ...compat.entry_samples import Did, Dropped, EntryChange, Fate, SampledEntry
from ...compat.value_changes import ValueRules, value_changes
from ...serializers.containers.ttl import TtlValue
from ...serializers.containers.wrappers import without_ttl_awareness
from ...serializers.errors import StateShiftError, shown, unless_redacted, values_are_redacted
from ...serializers.flink.namespaces import VoidNamespace
from ...serializers.json_forms import sorted_by_text, tagger_of
from ...serializers.views import DataInputView
from ..entry_keys import EntryKeyFormat, decode
from ..formats.flink.entries import read_pieces
from ..formats.flink.meta_info import KEY_SERIALIZER, NAMESPACE_SERIALIZER
from ..formats.flink.state_kinds import info_snapshot, keyed_kind, state_kind
from ..formats.flink.value_readers import value_reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ...compat.entry_samples import EntryFailure
    from ...compat.plan import Recoding, StatePlan
    from ...serializers.serializer import TypeDeserializer
    from ...serializers.snapshot import TypeSerializerConfigSnapshot
    from ..formats.flink.meta_info import StateMetaInfo

    Snapshot = TypeSerializerConfigSnapshot[Any]

_COUNT_BYTES = 4
Item = tuple[bytes, bytes]
"""The bytes of an entry's key and value."""


@attrs.frozen
class Part:
    """Reads a part of an entry as JSON.

    Attributes:
        reader: Reads its bytes.
        tag: Makes JSON of what was read.
    """

    reader: TypeDeserializer[Any]
    tag: Callable[[Any], Any]

    @classmethod
    def of(cls, snapshot: Snapshot) -> Part:
        """Return what reads values of a type; raises `OldReaderUnavailable`."""
        return cls(snapshot.restore_serializer(), tagger_of(snapshot))

    def read(self, data: bytes) -> Any:
        """Return the JSON of bytes."""
        return self.form(decode(self.reader, data))

    def form(self, value: Any) -> Any:
        """Return the JSON of a value; of what a fallback returns its text, if it has no JSON."""
        try:
            return self.tag(value)
        except Exception:  # noqa: BLE001 - objects of a user's reader may be anything
            return {"$opaque": shown(value)}


@attrs.frozen(kw_only=True)
class Seen:
    """One side of an entry.

    Attributes:
        key: The key as JSON; also its namespace, and the key within a map; None: there is none.
        timestamp_ms: The time at which a timer fires.
        value: The value as JSON.
        stamps: The time stamps of the value, or of its elements.
        size_bytes: The size of the value.
        not_shown: Why the value could not be read, or "".
    """

    key: Any = None
    namespace: Any = None
    user_key: Any = None
    timestamp_ms: int | None = None
    value: Any = None
    stamps: tuple[int, ...] = ()
    size_bytes: int = 0
    not_shown: str = ""


@attrs.frozen
class Values:
    """Reads the values of a state, and the keys within its maps.

    Attributes:
        kind: The kind of the state.
        piece: Reads a value, an element, or a value of a map.
        user_key: Reads the key within a map; None: it has none.
    """

    kind: StateKind
    piece: Part
    user_key: Part | None = None

    @classmethod
    def of(cls, info: StateMetaInfo, recoding: Recoding | None = None) -> Values:
        """Return what reads the values of a state.

        Args:
            info: The metadata of the state.
            recoding: The plan of the values, whose reader is taken where the snapshot restores none.

        Raises:
            OldReaderUnavailable: Nothing reads them.
        """
        kind, snapshot = state_kind(info), without_ttl_awareness(info.value)
        children, of_key = snapshot.children(), info.snapshot(KEY_SERIALIZER)
        if kind.row.pieces and len(children) == len(kind.row.pieces):
            of_key = children[0] if kind.has_user_keys else None
            of_piece = children[-1]
        else:
            of_piece = snapshot
        try:
            reader = kind.item_of(value_reader(kind, snapshot))
        except StateShiftError:
            if recoding is None:
                raise
            reader = recoding.reader
        return cls(kind, Part(reader, tagger_of(of_piece)), None if of_key is None else Part.of(of_key))

    def read(self, data: bytes) -> tuple[Any, tuple[int, ...]]:
        """Return the JSON of a value, and its time stamps."""
        found = read_pieces(self.kind, self.piece.reader, data)
        several = found if self.kind.has_elements else [found]
        forms = [self.piece.form(one) for one in several]
        stamps = tuple(one.last_access_ms for one in several if isinstance(one, TtlValue))
        return forms if self.kind.has_elements else forms[0], stamps

    def seen(self, element: bytes) -> Seen:
        """Return an element of an operator's list, or the entry of a map that has no other."""
        if self.user_key is None:
            value, stamps = self.read(element)
            return Seen(value=value, stamps=stamps, size_bytes=len(element))
        source = DataInputView(element, _COUNT_BYTES)
        name, start = self.user_key.reader.deserialize(source), source.position
        value, stamps = self.read(element[start:])
        return Seen(user_key=self.user_key.form(name), value=value, stamps=stamps, size_bytes=len(element) - start)

    def whole(self, names: Sequence[Any], values: Sequence[Any]) -> Any:
        """Return the JSON of all that a state has of a key: for a map its pairs."""
        if not self.kind.has_user_keys:
            return values[0]
        return {"$map": sorted_by_text([name, value] for name, value in zip(names, values, strict=True))}


@attrs.frozen
class Side:
    """Reads the entries of a keyed state on one side.

    Attributes:
        info: The metadata of the state.
        kind: Its kind.
        keys: The format of the keys of its entries.
        key: Reads keys.
        namespace: Reads namespaces.
        values: Reads values; None of a queue of timers.
    """

    info: StateMetaInfo
    kind: StateKind
    keys: EntryKeyFormat
    key: Part
    namespace: Part
    values: Values | None

    @classmethod
    def of(cls, info: StateMetaInfo, key: Snapshot, max_parallelism: int, recoding: Recoding | None = None) -> Side:
        """Return the side of a state; arguments and errors as in `Values.of`."""
        kind = keyed_kind(info)
        is_queue = kind is StateKind.TIMERS
        space = info.value.children()[1] if is_queue else info_snapshot(info, NAMESPACE_SERIALIZER)
        parts = Part.of(key), Part.of(space)
        keys = EntryKeyFormat.of(kind, key.restore_serializer(), space.restore_serializer(), max_parallelism)
        return cls(info, kind, keys, *parts, None if is_queue else Values.of(info, recoding))

    def read(self, items: Sequence[Item], *, is_whole: bool) -> Seen:
        """Return an entry, or all that the state has of a key."""
        place = self.keys.split(items[0][0])
        space = decode(self.namespace.reader, place.namespace)
        seen = Seen(
            key=self.key.read(place.key),
            namespace=None if isinstance(space, VoidNamespace) else self.namespace.form(space),
            size_bytes=sum(len(value) for _, value in items),
        )
        if self.values is None:
            return attrs.evolve(seen, timestamp_ms=place.timestamp_ms)
        names: list[Any] = []
        try:
            if self.values.user_key is not None:
                names = [self.values.user_key.read(self.keys.split(key).user_key) for key, _ in items]
            read = [self.values.read(value) for _, value in items]
        except StateShiftError as error:
            return attrs.evolve(seen, not_shown=error.what.splitlines()[0])
        stamps = tuple(stamp for _, some in read for stamp in some)
        if is_whole:
            return attrs.evolve(seen, value=self.values.whole(names, [one for one, _ in read]), stamps=stamps)
        return attrs.evolve(seen, user_key=names[0] if names else None, value=read[0][0], stamps=stamps)


@attrs.frozen
class EntryRules:
    """What is known of the conversion of a state's entries. Created with `of`.

    Attributes:
        value: What is known of values.
        root: The path of a value.
        is_whole: Whether an entry is all that the state has of a key.
        is_list: Whether an entry is a list whose elements are converted one by one.
        expired_until_ms: Up to which time of last access elements of lists have expired; None: they do not.
        quarantines: Whether values that do not fit are put aside.
    """

    value: ValueRules
    root: str
    is_whole: bool
    is_list: bool
    expired_until_ms: int | None
    quarantines: bool

    @classmethod
    def of(
        cls,
        plan: StatePlan,
        old: Snapshot,
        new: Snapshot | None,
        *,
        is_whole: bool,
        quarantines: bool,
    ) -> EntryRules:
        """Return what a plan and both types say.

        Args:
            plan: The plan of the state.
            old: The stored type of its values, of lists and maps the whole.
            new: The new type; None: there is none.
            is_whole: Whether an entry is all that a state has of a key.
            quarantines: Whether values that do not fit are put aside.
        """
        steps = [step for step, _ in plan.kind.row.pieces]
        root = "$" + (steps[-1] if plan.kind.has_user_keys and not is_whole else "")
        root = root if plan.kind.is_keyed else plan.kind.root
        name = plan.transform.name if plan.transform is not None else plan.value.converter if plan.value else ""
        below = "" if plan.kind.is_keyed else root
        rules = ValueRules.of(plan.findings, old, new, name, below=below)
        expires = None if plan.value is None else plan.value.expired_until_ms
        return cls(rules, root, is_whole, plan.kind.has_elements and plan.transform is None, expires, quarantines)

    def kept(self, before: Seen) -> SampledEntry:
        """Return an entry of which nothing is done yet."""
        return SampledEntry(
            fate=Fate.SAME,
            key=before.key,
            namespace=before.namespace,
            user_key=before.user_key,
            timestamp_ms=before.timestamp_ms,
            old=before.value,
            old_stamp_ms=_only(before),
            old_size_bytes=before.size_bytes,
            not_shown=before.not_shown,
        )

    def changed(self, before: Seen, after: Seen) -> SampledEntry:
        """Return an entry before and after."""
        changes: list[EntryChange] = []
        if before.user_key is not None and after.user_key is not None:
            changes += value_changes(before.user_key, after.user_key, self.value, "$<key>")
        if not (before.not_shown or after.not_shown) and before.timestamp_ms is None:
            changes += self._of_values(before, after)
        return redacted(
            attrs.evolve(
                self.kept(before),
                fate=Fate.CHANGED if changes or before.key != after.key else Fate.SAME,
                new_key=after.key,
                new_user_key=after.user_key,
                new=after.value,
                new_stamp_ms=_only(after),
                new_size_bytes=after.size_bytes,
                changes=tuple(changes),
                not_shown=before.not_shown or after.not_shown,
            )
        )

    def _of_values(self, before: Seen, after: Seen) -> Iterator[EntryChange]:
        old, path = before.value, self.root
        if self.is_list:
            path += "[]"
            stamped = list(zip(old, before.stamps, strict=False))
            expired = -sys.maxsize if self.expired_until_ms is None else self.expired_until_ms
            if left_out := [one for one, stamp in stamped if stamp <= expired]:
                old = [one for one, stamp in stamped if stamp > expired]
                yield EntryChange(path=path, did=Did.DROPPED, old=left_out[0], count=len(left_out))
        yield from value_changes(old, after.value, self.value, self.root)
        if bool(before.stamps) is not bool(after.stamps):
            did, rule = Did.UNSTAMPED if before.stamps else Did.STAMPED, self.value.rules.get(path, "")
            yield EntryChange(path=path, did=did, rule=rule)

    def dropped(self, before: Seen, why: Dropped | None) -> SampledEntry:
        """Return an entry that is left out."""
        return redacted(attrs.evolve(self.kept(before), fate=Fate.DROPPED, dropped=why))

    def failed(self, before: Seen, failure: EntryFailure, *, ends: bool) -> SampledEntry:
        """Return an entry that does not fit; `ends`: it ends the migration, and cannot be put aside."""
        fate = Fate.FAILED if ends or not self.quarantines else Fate.QUARANTINED
        return redacted(attrs.evolve(self.kept(before), fate=fate, failure=failure))


def _only(seen: Seen) -> int | None:
    return seen.stamps[0] if len(seen.stamps) == 1 and not isinstance(seen.value, list) else None


def redacted(entry: SampledEntry) -> SampledEntry:
    """Return an entry without keys and values, if those are kept out of messages."""
    if not values_are_redacted():
        return entry

    def hidden(one: Any, *names: str) -> dict[str, Any]:
        return {name: None if getattr(one, name) is None else unless_redacted(getattr(one, name)) for name in names}

    changes = tuple(attrs.evolve(one, **hidden(one, "old", "new")) for one in entry.changes)
    names = ("key", "new_key", "namespace", "user_key", "new_user_key", "old", "new")
    return attrs.evolve(entry, changes=changes, **hidden(entry, *names))
