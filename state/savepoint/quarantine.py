"""Values that a migration could not convert, kept beside the savepoint that it wrote (rule RUN-4).

There is one file for each stream that had such values, beside the stream's own; Flink ignores it. Each line is a JSON
object:

    operator_id, operator, state, kind    the state of the value, as named in the new savepoint
    key_group, key, user_key, path, rule  the position of the value; null where it does not apply
    reason, cause                         what failed, and the class of the underlying error
    key_bytes, value_bytes                hexadecimal, in the format of the savepoint that was migrated
    types                                 the digest of the stored types that read them

A line of another form has these types, once for each state of a file, before or behind its values:

    types, stored                         the digest, and operator_id, uid, max_parallelism, key, state: the snapshot of
                                          the key and the description of the state, hexadecimal, as in the savepoint

The bytes are written even if keys and values are redacted: they are state that the new savepoint has nowhere else.
"""

from __future__ import annotations

import hashlib
import json
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from ...compat.description import StateKind
from ...compat.json_files import parse_json
from ...compat.plain_data import plain
from ...serializers.errors import CorruptSavepoint, UnsupportedFormat, located, shown, values_are_redacted
from ...serializers.snapshot import snapshot_from_bytes, snapshot_to_bytes
from ...serializers.views import DataInputView, DataOutputView
from ..formats.flink.meta_info import (
    KEY_SERIALIZER,
    META_INFO,
    NAMESPACE_SERIALIZER,
    StateMetaInfo,
)
from ..formats.flink.metadata import MAX_PARALLELISM
from ..formats.flink.state_kinds import info_snapshot, state_kind
from ..transcode.entry_layout import ENTRY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...serializers.snapshot import TypeSerializerConfigSnapshot
    from ..formats.flink.entries import Entry, EntryDecoder
    from ..publication.lineage import Lineage
    from ..storage.files import Folder

    Snapshot = TypeSerializerConfigSnapshot[Any]

_STORED = b'{"stored": '
"""The beginning of a line with types."""
_NAME = re.compile(r"[0-9a-f]{32}-quarantine-[a-z]+-[0-9]+(-[0-9a-f]{12})?")
_TEXT, _NUMBER = attrs.validators.instance_of(str), attrs.validators.instance_of(int)
_DIGITS = 32
T = TypeVar("T")
_OPTIONAL_TEXT = attrs.validators.optional(_TEXT)


def quarantine_part(part: str) -> str:
    """Return the part of a quarantine file's name that replaces `part` in the stream's name."""
    return f"quarantine-{part}"


def is_quarantine(name: str) -> bool:
    """Whether a file is a quarantine file, by its name."""
    return _NAME.fullmatch(name) is not None


@attrs.frozen(kw_only=True, slots=False)
class StoredTypes:
    """The types of a state in the savepoint that was migrated, by which its values in quarantine are read.

    Attributes:
        operator_id: The operator's id there.
        uid: The operator's uid there, if it is known, or "".
        max_parallelism: The number of key groups; 0 for operator state.
        key: The snapshot of the key; empty for operator state.
        state: The description of the state, as in the header of a stream.
    """

    operator_id: str = attrs.field(validator=attrs.validators.matches_re(r"[0-9a-f]{32}"))
    uid: str = attrs.field(validator=_TEXT)
    max_parallelism: int = attrs.field(
        validator=[_NUMBER, attrs.validators.ge(0), attrs.validators.le(MAX_PARALLELISM)]
    )
    key: bytes = attrs.field(repr=False)
    state: bytes = attrs.field(repr=False)

    @classmethod
    def of(cls, info: StateMetaInfo, key: Snapshot | None, **facts: Any) -> StoredTypes:
        """Return the types of a state, with the snapshot of its operator's key; `facts` are the other attributes."""
        state = DataOutputView()
        META_INFO.write(state, info)
        return cls(key=b"" if key is None else snapshot_to_bytes(key), state=state.getvalue(), **facts)

    @cached_property
    def info(self) -> StateMetaInfo:
        """The description of the state; raises as `META_INFO`."""
        return META_INFO.read(DataInputView(self.state))

    @cached_property
    def key_snapshot(self) -> Snapshot | None:
        """The snapshot of the key; None for operator state."""
        return snapshot_from_bytes(self.key) if self.key else None

    @cached_property
    def kind(self) -> StateKind:
        """The kind of the state."""
        return state_kind(self.info)

    @cached_property
    def digest(self) -> str:
        """The digest by which values refer to the types."""
        return hashlib.sha256(json.dumps(plain(self), sort_keys=True).encode()).hexdigest()[:_DIGITS]

    def to_line(self) -> bytes:
        """Return the types as a line of a quarantine file."""
        return _STORED + json.dumps(plain(self)).encode() + b"}\n"

    @classmethod
    def from_line(cls, line: bytes) -> StoredTypes:
        """Parse a line with types; raises `CorruptSavepoint`."""
        return _parsed(line, lambda facts: cls(**_with_bytes(facts["stored"], "key", "state")))

    @cached_property
    def decoder(self) -> EntryDecoder:
        """The decoder of keyed entries; raises `OldReaderUnavailable`."""
        from ..formats.flink.entries import EntryDecoder  # a check opens savepoints, and reads no entry

        key = self.key_snapshot
        if key is None:
            raise CorruptSavepoint("a value of keyed state in quarantine has no type of its key", state=self.info.name)
        namespace = info_snapshot(self.info, NAMESPACE_SERIALIZER)
        return EntryDecoder.of(self.kind, key, namespace, self.info.value, self.max_parallelism)


def is_types_line(line: bytes) -> bool:
    """Whether a line of a quarantine file has types, and not a value."""
    return line.startswith(_STORED)


def _with_bytes(facts: dict[str, Any], *names: str) -> dict[str, Any]:
    return facts | {name: bytes.fromhex(facts[name]) for name in names}


def _parsed(line: bytes, make: Callable[[dict[str, Any]], T]) -> T:
    try:
        return make(parse_json(line))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptSavepoint(f"a line is not a value in quarantine ({type(error).__name__})") from error


@attrs.frozen(kw_only=True)
class QuarantinedValue:
    """One line of a quarantine file: an entry, or an element of an operator's list.

    Attributes:
        operator_id: The operator's id in 32 hexadecimal digits.
        operator: The operator's uid, or "".
        state: The name of the state in the new savepoint.
        kind: The kind of the state.
        key_group: The key group in keyed state; else None.
        key: The key as messages show it; None where there is none.
        user_key: The user key in map state, as messages show it; else None.
        path: The position of the failure within the value, from `$`.
        rule: The rule by which the value would have been converted; None where none is cited.
        reason: What failed; may show the value.
        cause: The class of the underlying error.
        key_bytes: The key as it was stored: in keyed state with key group, namespace and user key; empty for elements.
        value_bytes: The value as it was stored; for map state that would have become state of another kind, all entries
            of the key, with four bytes of length before each key and each value.
        types: The digest of the types by which they are read; "" where an earlier release wrote the file without types.
        stored: These types; None where the file has none.
    """

    operator_id: str = attrs.field(validator=_TEXT)
    operator: str = attrs.field(validator=_TEXT)
    state: str = attrs.field(validator=_TEXT)
    kind: str = attrs.field(validator=_TEXT)
    key_group: int | None = attrs.field(default=None, validator=attrs.validators.optional(_NUMBER))
    key: str | None = attrs.field(default=None, validator=_OPTIONAL_TEXT)
    user_key: str | None = attrs.field(default=None, validator=_OPTIONAL_TEXT)
    path: str = attrs.field(validator=_TEXT)
    rule: str | None = attrs.field(default=None, validator=_OPTIONAL_TEXT)
    reason: str = attrs.field(validator=_TEXT)
    cause: str = attrs.field(validator=_TEXT)
    key_bytes: bytes = attrs.field(repr=False)
    value_bytes: bytes = attrs.field(repr=False)
    types: str = attrs.field(default="", validator=_TEXT)
    stored: StoredTypes | None = attrs.field(default=None, repr=False, eq=False)

    def read(self) -> Entry:
        """Return the value as an object, read by the types with which it was stored.

        Returns:
            Key, namespace and value: of a map its one entry, as a dict, or all entries if the whole state of the key is
            in quarantine. Key and namespace are None for operator state; for a broadcast map the value is a dict, too.

        Raises:
            UnsupportedFormat: An earlier release wrote the file, without types.
            OldReaderUnavailable: This release cannot read the type.
            CorruptSavepoint: The bytes are damaged.
        """
        from ..entry_keys import decode
        from ..formats.flink.entries import Entry
        from ..formats.flink.value_readers import value_reader

        types = self.stored
        if types is None:
            raise UnsupportedFormat(
                "the quarantine was written by an earlier release, without the types of its values",
                advice="read key_bytes and value_bytes by the layout that the page on bad values describes",
                state=self.state,
            )
        with located(operator=self.operator or self.operator_id, state=self.state):
            if not types.kind.is_keyed:
                values = value_reader(types.kind, types.info.value)
                value = decode(values, self.value_bytes)
                key = types.info.snapshot(KEY_SERIALIZER)
                return Entry(
                    None, None, value if key is None else {decode(key.restore_serializer(), self.key_bytes): value}
                )
            decoder = types.decoder
            key_bytes, namespace, _ = decoder.place(self.key_bytes)
            found = [decoder.read_value(decoder.place(name)[2], data) for name, data in self.entries()]
            value = dict(found) if types.kind.has_user_keys else found[0]
            return Entry(*decoder.read_key(key_bytes, namespace), value)

    def entries(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield the stored entries, as key and value: one, except for a whole map that would change its kind.

        Raises:
            CorruptSavepoint: The bytes are damaged.
        """
        is_whole_map = self.stored is not None and self.stored.kind.has_user_keys and self.kind != StateKind.MAP
        if not is_whole_map:
            yield self.key_bytes, self.value_bytes
            return
        source = DataInputView(self.value_bytes)
        while source.remaining():
            yield ENTRY.read(source)

    @property
    def shown_key(self) -> str | None:
        """The key as messages show it, redacted if that is set."""
        return _shown(self.key)

    @property
    def shown_user_key(self) -> str | None:
        """The user key as messages show it, redacted if that is set."""
        return _shown(self.user_key)

    @property
    def shown_reason(self) -> str:
        """The reason; if values are redacted, only the class of the error."""
        return f"{shown(self.reason)}: {self.cause}" if values_are_redacted() else self.reason

    def to_line(self) -> bytes:
        """Return the value as a line of a quarantine file."""
        return json.dumps(plain(self, _WRITTEN)).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> QuarantinedValue:
        """Parse a line of a quarantine file.

        Raises:
            CorruptSavepoint: The line does not have the format of `to_line`.
        """
        return _parsed(line, lambda facts: cls(**_with_bytes(facts, "key_bytes", "value_bytes")))


_WRITTEN = " ".join(field.name for field in attrs.fields(QuarantinedValue) if field.name != "stored")


def _shown(text: str | None) -> str | None:
    return text if text is None or not values_are_redacted() else shown(text)


def quarantine_files(lineage: Lineage | None) -> tuple[str, ...]:
    """Return the names of the quarantine files, sorted; none without a lineage."""
    return tuple(sorted(filter(is_quarantine, lineage.files))) if lineage is not None else ()


def read_quarantine(folder: Folder, lineage: Lineage | None) -> Iterator[QuarantinedValue]:
    """Yield all values in quarantine, file by file, in the order in which they were written.

    Args:
        folder: The savepoint.
        lineage: Its lineage, which names the files.

    Raises:
        SavepointNotFound: A file is missing.
        CorruptSavepoint: A line is damaged.
    """
    for name in quarantine_files(lineage):
        types: dict[str, StoredTypes] = {}
        lines = list(enumerate(folder.read(name).splitlines(), start=1))
        for number, line in sorted(lines, key=lambda one: not is_types_line(one[1])):  # types first
            try:
                if is_types_line(line):
                    stored = StoredTypes.from_line(line)
                    types[stored.digest] = stored
                    continue
                value = QuarantinedValue.from_line(line)
                yield attrs.evolve(value, stored=types[value.types]) if value.types else value
            except (CorruptSavepoint, KeyError) as error:
                damage = (
                    error
                    if isinstance(error, CorruptSavepoint)
                    else CorruptSavepoint("the types of a value in quarantine are missing")
                )
                damage.where |= {"savepoint": folder.place, "file": f"{name}, line {number}"}
                raise damage from None
