"""Values that a migration could not convert, kept beside the savepoint that it wrote (rule RUN-4).

There is one file for each stream that had such values, beside the stream's own; Flink ignores it. Each line is a JSON
object:

    operator_id, operator, state, kind    the state of the value, as named in the new savepoint
    key_group, key, user_key, path, rule  the position of the value; null where it does not apply
    reason, cause                         what failed, and the class of the underlying error
    key_bytes, value_bytes                hexadecimal, in the format of the savepoint that was migrated

The bytes are written even if keys and values are redacted: they are state that the new savepoint has nowhere else.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.json_files import parse_json
from ...compat.structuring import plain
from ...serializers.errors import CorruptSavepoint, shown, values_are_redacted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..storage.files import Folder
    from ..storage.lineage import Lineage

_NAME = re.compile(r"[0-9a-f]{32}-quarantine-[a-z]+-[0-9]+(-[0-9a-f]{12})?")
_TEXT, _NUMBER = attrs.validators.instance_of(str), attrs.validators.instance_of(int)
_OPTIONAL_TEXT = attrs.validators.optional(_TEXT)


def quarantine_part(part: str) -> str:
    """Return the part of a quarantine file's name that replaces `part` in the stream's name."""
    return f"quarantine-{part}"


def is_quarantine(name: str) -> bool:
    """Whether a file is a quarantine file, by its name."""
    return _NAME.fullmatch(name) is not None


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
        return json.dumps(plain(self)).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> QuarantinedValue:
        """Parse a line of a quarantine file.

        Raises:
            CorruptSavepoint: The line does not have the format of `to_line`.
        """
        try:
            facts: dict[str, Any] = parse_json(line)
            for name in ("key_bytes", "value_bytes"):
                facts[name] = bytes.fromhex(facts[name])
            return cls(**facts)
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptSavepoint(f"a line is not a value in quarantine ({type(error).__name__})") from error


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
        for number, line in enumerate(folder.read(name).splitlines(), start=1):
            try:
                yield QuarantinedValue.from_line(line)
            except CorruptSavepoint as error:
                error.where |= {"savepoint": folder.place, "file": f"{name}, line {number}"}
                raise
