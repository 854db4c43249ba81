"""`_stateshift.json`: where a savepoint comes from, what it holds, and a digest of each file.

It lies beside `_metadata`; Flink ignores it. Savepoints without it are first-class: Flink's have none.
Source: DESIGN, section 3; rules RUN-2, RUN-5, RUN-6.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import attrs
from xxhash import xxh3_128

from ...compat.description import StateKind
from ...compat.done_once import ROW, columns_written
from ...compat.json_files import parse_json
from ...serializers.errors import CorruptSavepoint, SavepointNotFound, UnsupportedFormat
from ..savepoint.metadata import METADATA
from .stores import masked

if TYPE_CHECKING:
    from ..savepoint.sources import ByteSource
    from .files import Folder

LINEAGE = "_stateshift.json"
NEXT_LINEAGE = re.compile(r"_stateshift-[0-9a-f]{12}\.json")
"""What the lineage is called of a savepoint that is about to replace another."""
FORMAT = 2
_LATER_COUNTS = frozenset({"dropped_elements", "entries", "merged", "quarantined", "rescaled"})

# What is read is checked by type: anybody may have edited the file.
_TEXT = attrs.validators.instance_of(str)
_LONGS = range(-(1 << 63), 1 << 63)
_NUMBER = attrs.validators.and_(attrs.validators.instance_of(int), attrs.validators.in_(_LONGS))
_CHECKSUM = attrs.validators.matches_re("[0-9a-f]{0,16}")
_FACTS = attrs.validators.optional(attrs.validators.instance_of(dict))
_KINDS = frozenset(str(kind) for kind in StateKind)


@attrs.frozen
class FileDigest:
    """What a file must be.

    The digest tells what was damaged by accident. It is no proof against who changes a file on purpose.

    Attributes:
        size: In bytes.
        xxh128: Its XXH3 of 128 bits, in hexadecimal.
    """

    size: int = attrs.field(validator=_NUMBER)
    xxh128: str = attrs.field(validator=_TEXT)

    @classmethod
    def of(cls, data: bytes) -> FileDigest:
        """Take the digest of bytes at hand."""
        return cls(len(data), xxh3_128(data).hexdigest())

    @classmethod
    def of_file(cls, folder: Folder, name: str) -> FileDigest:
        """Read a file once, in pieces."""
        with folder.open_range(name) as file:
            return cls.of_stream(file)

    @classmethod
    def of_stream(cls, file: ByteSource) -> FileDigest:
        """Read an open file once, in pieces."""
        digest = xxh3_128()
        for piece in file.pieces():
            digest.update(piece)
        return cls(file.size, digest.hexdigest())


@attrs.frozen
class StateCount:
    """Entries of one state: how many were read, written and left out (rule RUN-2).

    Of a state whose kind has changed keys are counted, since a key has other numbers of entries in it.

    Attributes:
        operator_id: 32 hexadecimal digits.
        operator: Its uid, or "".
        state: Its name.
        kind: Its kind.
        action: What the run did with it: copy, relabel, rekey, convert, or write for a new savepoint.
        read: Entries or elements read.
        written: Entries or elements written.
        dropped: Entries left out: by the plan, or because they had expired.
        quarantined: Entries or elements that did not fit their new type and were written aside (rule RUN-4).
        keys: A checksum over the keys of the entries written that does not depend on their order, in hexadecimal.
        dropped_elements: Elements of list state left out because they had expired, those of lists that were left out
            whole among them. (Of map state each user key is an entry.)
        entries: How many entries there are, where keys were counted; else None.
        merged: Entries that are in others now, since their keys have become one; `keys` counts each of them.
        rescaled: Decimals written from rows that did not fit the scale of those that they replace, and have another.
    """

    operator_id: str = attrs.field(validator=_TEXT)
    operator: str = attrs.field(validator=_TEXT)
    state: str = attrs.field(validator=_TEXT)
    kind: str = attrs.field(validator=attrs.validators.in_(_KINDS))
    action: str = attrs.field(validator=_TEXT)
    read: int = attrs.field(validator=_NUMBER)
    written: int = attrs.field(validator=_NUMBER)
    dropped: int = attrs.field(default=0, validator=_NUMBER)
    keys: str = attrs.field(default="", validator=_CHECKSUM)
    quarantined: int = attrs.field(default=0, validator=_NUMBER)
    dropped_elements: int = attrs.field(default=0, validator=_NUMBER)
    entries: int | None = attrs.field(default=None, validator=attrs.validators.optional(_NUMBER))
    merged: int = attrs.field(default=0, validator=_NUMBER)
    rescaled: int = attrs.field(default=0, validator=_NUMBER)


@attrs.frozen(kw_only=True)
class Lineage:
    """The content of `_stateshift.json`.

    Attributes:
        stateshift: The release that wrote it.
        created: When, in UTC; the only thing that differs when a run is repeated (rule RUN-5).
        job: Where the types come from, in words.
        source: Place and metadata digest of the savepoint that was migrated; None for a new one.
        plan: The plan that was carried out, as plain data; None for a new one.
        states: Counts of all states.
        files: Digests of all files but this one.
        history: The lineages before this one, the oldest first, without their file digests.
        position: How far the history goes that a bootstrapped savepoint was made from, as its maker said it: an offset,
            a watermark, a query. None where nothing was said.
    """

    stateshift: str = attrs.field(validator=_TEXT)
    created: str = attrs.field(validator=_TEXT)
    job: str = attrs.field(validator=_TEXT)
    source: dict[str, Any] | None = attrs.field(default=None, validator=_FACTS)
    plan: dict[str, Any] | None = attrs.field(default=None, validator=_FACTS)
    states: tuple[StateCount, ...] = ()
    files: dict[str, FileDigest] = attrs.field(factory=dict)
    history: tuple[dict[str, Any], ...] = ()
    position: Any = None

    def digest_of(self, name: str) -> FileDigest | None:
        """Give what a file must be; None where there are no digests.

        Raises:
            CorruptSavepoint: There are digests, and none of this file.
        """
        if self.files and name not in self.files:
            raise CorruptSavepoint(
                f"{LINEAGE} tells the digests of files, and none of {name}",
                advice=f"use another copy of the savepoint; where the file was added on purpose, remove {LINEAGE}",
                file=LINEAGE,
            )
        return self.files.get(name)

    def is_of(self, metadata: bytes) -> bool:
        """Whether it was written with this `_metadata`."""
        return self.files.get(METADATA) == FileDigest.of(metadata)

    @property
    def quarantined(self) -> int:
        """How many values lie in quarantine beside the savepoint."""
        return sum(count.quarantined for count in self.states)

    def done(self) -> dict[tuple[str, str], frozenset[str]]:
        """Tell what was done to states of which their types do not tell it (rule STATE-8).

        Returns:
            By operator id and name of the state, "" for keys: names of converters that were called, and what
            `columns_written` gives for columns, of the last time.
        """
        found: dict[tuple[str, str], frozenset[str]] = {}
        for plan in (*(told.get("plan") for told in self.history), self.plan):
            with suppress(AttributeError, KeyError, TypeError):  # a plan that somebody edited tells nothing
                for operator in plan["operators"] if plan else ():
                    _add_done(found, operator)
        return found

    def to_json(self) -> bytes:
        """Give the file's content."""
        return json.dumps({"format": FORMAT, **self._facts()}, indent=2, sort_keys=True).encode() + b"\n"

    def _facts(self) -> dict[str, Any]:
        """Give all as plain data, without counts that earlier releases do not know where they say nothing."""
        return attrs.asdict(self, filter=lambda field, value: bool(value) or field.name not in _LATER_COUNTS)

    def as_history(self) -> tuple[dict[str, Any], ...]:
        """Give the history of a savepoint that is made from this one."""
        mine = self._facts()
        mine.pop("files")
        mine.pop("history")
        return (*self.history, mine)

    @classmethod
    def from_json(cls, data: bytes) -> Lineage:
        """Read the file's content.

        Raises:
            CorruptSavepoint: It is not what `to_json` writes.
            UnsupportedFormat: It is of another format.
        """
        try:
            facts = parse_json(data)
            form = facts.pop("format")
            if form != FORMAT:
                raise UnsupportedFormat(
                    f"the lineage is of format {form}, and this release reads {FORMAT}",
                    advice="use the release that wrote it, or remove the file: the state itself does not need it",
                    file=LINEAGE,
                )
            facts["states"] = tuple(StateCount(**count) for count in facts["states"])
            facts["files"] = {name: FileDigest(**digest) for name, digest in facts["files"].items()}
            facts["history"] = tuple(facts["history"])
            for told in (facts, *facts["history"]):
                _mask(told)
            return cls(**facts)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptSavepoint(
                f"the lineage cannot be read: {error}",
                file=LINEAGE,
                advice="remove the file if the state itself is sound: Flink and stateshift can do without it",
            ) from error


def _mask(told: Any) -> None:
    """Take credentials out of the places that a lineage tells; who wrote it is not known."""
    for facts, names in ((told, ("job",)), (told.get("source"), ("place",)), (told.get("plan"), ("source", "job"))):
        for name in names if isinstance(facts, dict) else ():
            if isinstance(facts.get(name), str):
                facts[name] = masked(facts[name])


def _add_done(found: dict[tuple[str, str], frozenset[str]], operator: dict[str, Any]) -> None:
    """Add what the plan of an operator did, under the names that it gave."""
    stored_id = operator["operator_id"]
    operator_id = operator["new_operator_id"] or stored_id
    converter = (operator["rekeying"] or {}).get("converter")
    steps = [("", "", {converter} if converter else set())]
    for state in operator["states"]:
        done = {piece["converter"] for piece in state["rewrites"] if piece["converter"]}
        rows = [finding for finding in state["findings"] if finding["rule"] == ROW]
        done |= {columns_written(finding["path"], finding["new"]) for finding in rows}
        steps.append((state["name"], state["new_name"] or state["name"], done))
    before = {name: found.pop((stored_id, name), frozenset()) for name, _, _ in steps}
    for name, new_name, done in steps:
        is_ordered = any(one.startswith(ROW) for one in done)
        kept = {one for one in before[name] if not (is_ordered and one.startswith(ROW))}
        found[operator_id, new_name] = frozenset(kept | done)


def read_lineage(folder: Folder, metadata: bytes) -> Lineage | None:
    """Read the lineage of a savepoint; None where it has none, as Flink's own.

    A run that replaces a savepoint writes its lineage under a name of its own, then `_metadata`, and then gives the
    lineage its name. In between the one of its own is that of the savepoint.

    Args:
        folder: The savepoint.
        metadata: The content of `_metadata`.
    """
    lineage = Lineage.from_json(folder.read(LINEAGE)) if folder.exists(LINEAGE) else None
    if lineage is not None and lineage.is_of(metadata):
        return lineage
    for name in filter(NEXT_LINEAGE.fullmatch, folder.names()):
        with suppress(SavepointNotFound):  # it has just got its name
            following = Lineage.from_json(folder.read(name))
            if following.is_of(metadata):
                return following
    return lineage
