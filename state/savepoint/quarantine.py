"""Values that a migration could not convert, kept beside the savepoint that it wrote (rule RUN-4).

One file for each stream that had any, beside the stream's own; Flink ignores it. Each line is a JSON object:

    operator_id, operator, state, kind    whose value it is, as the new savepoint names it
    key_group, key, user_key, path, rule  where it lay; null for what has none
    reason, cause                         what failed, and the class of the error behind it
    key_bytes, value_bytes                hexadecimal, in the form of the savepoint that was migrated

The bytes are there also where keys and values were redacted: they are the state, and nowhere else in the new savepoint.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.json_files import parse_json
from ...serializers.errors import CorruptSavepoint, shown, values_are_redacted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..storage.files import Folder
    from ..storage.lineage import Lineage

_NAME = re.compile(r"[0-9a-f]{32}-quarantine-[a-z]+-[0-9]+(-[0-9a-f]{12})?")
_TEXT, _NUMBER = attrs.validators.instance_of(str), attrs.validators.instance_of(int)
_OPTIONAL_TEXT = attrs.validators.optional(_TEXT)


def quarantine_part(part: str) -> str:
    """Give the part of a stream's name that its quarantine has in place of `part`."""
    return f"quarantine-{part}"


def is_quarantine(name: str) -> bool:
    """Whether a file holds values in quarantine."""
    return _NAME.fullmatch(name) is not None


@attrs.frozen(kw_only=True)
class QuarantinedValue:
    """One line of such a file: an entry, or an element of an operator's list.

    Attributes:
        operator_id: 32 hexadecimal digits.
        operator: Its uid, or "".
        state: Its name in the new savepoint.
        kind: The state's kind.
        key_group: Of keyed state; None elsewhere.
        key: The key as messages show it; None where there is none.
        user_key: Of map state: the user key, in the same way.
        path: Where in the value the failure was, from `$`.
        rule: By which rule it was to be converted; None where none is cited.
        reason: What failed; may show the value.
        cause: Class of the error behind it.
        key_bytes: The key as it was stored: of keyed state with key group, namespace and user key; empty for elements.
        value_bytes: The value as it was stored; of a map state that was to become one of another kind, all entries of
            the key, each with the length of its key and of its value before them, in four bytes.
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
        """The key, as a message may show it."""
        return _shown(self.key)

    @property
    def shown_user_key(self) -> str | None:
        """The user key, as a message may show it."""
        return _shown(self.user_key)

    @property
    def shown_reason(self) -> str:
        """The reason; where values are redacted, the class of the error alone."""
        return f"{shown(self.reason)}: {self.cause}" if values_are_redacted() else self.reason

    def to_line(self) -> bytes:
        """Give the line of a file."""
        facts = attrs.asdict(self)
        for name in ("key_bytes", "value_bytes"):
            facts[name] = facts[name].hex()
        return json.dumps(facts).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> QuarantinedValue:
        """Read a line.

        Raises:
            CorruptSavepoint: It is not what `to_line` gives.
        """
        try:
            facts: dict[str, Any] = parse_json(line)
            for name in ("key_bytes", "value_bytes"):
                facts[name] = bytes.fromhex(facts[name])
            return cls(**facts)
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptSavepoint(f"a line is no value in quarantine ({type(error).__name__})") from error


def _shown(text: str | None) -> str | None:
    return text if text is None or not values_are_redacted() else shown(text)


def quarantine_files(lineage: Lineage | None) -> tuple[str, ...]:
    """Give the names of the files with values in quarantine, sorted; none without a lineage."""
    return tuple(sorted(filter(is_quarantine, lineage.files))) if lineage is not None else ()


def read_quarantine(folder: Folder, lineage: Lineage | None) -> Iterator[QuarantinedValue]:
    """Read all values in quarantine, file by file, in the order in which they were met.

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
