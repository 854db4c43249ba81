"""`_stateshift.json`: the origin of a savepoint, its counts of entries, and a digest of each file.

It is beside `_metadata`; Flink ignores it. Savepoints without it are fully supported: Flink's have none.
Source: DESIGN, section 3; rules RUN-2, RUN-5, RUN-6.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import attrs
from xxhash import xxh3_128

from ...compat.description import StateKind, uid_order
from ...compat.json_files import parse_json
from ...compat.one_time_changes import ROW, columns_written
from ...compat.plan import StateAction
from ...serializers.errors import CorruptSavepoint, SavepointNotFound, UnsupportedFormat
from ...serializers.wording import many, masked, repr_of
from ..formats.flink.metadata import METADATA

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..formats.flink.sources import ByteSource
    from ..storage.files import Folder

LINEAGE = "_stateshift.json"
NEXT_LINEAGE = re.compile(r"_stateshift-[0-9a-f]{12}\.json")
"""The file name of the lineage of a savepoint that is about to replace another one."""
TYPES = "_stateshift-types.json"
"""The file beside a savepoint with the types of the job that wrote it."""
FORMAT = 2
_SUMMED = ("read", "written", "dropped", "quarantined", "dropped_elements", "merged")
_LATER_FACTS = frozenset({"dropped_elements", "entries", "kept", "merged", "proof", "quarantined", "rescaled"})

# The types of the facts are checked when the file is read, because it may have been edited.
_TEXT = attrs.validators.instance_of(str)
_LONGS = range(-(1 << 63), 1 << 63)
_NUMBER = attrs.validators.and_(attrs.validators.instance_of(int), attrs.validators.in_(_LONGS))
_CHECKSUM = attrs.validators.matches_re("[0-9a-f]{0,16}")
_FACTS = attrs.validators.optional(attrs.validators.instance_of(dict))
_KINDS = frozenset(str(kind) for kind in StateKind)


@attrs.frozen
class FileDigest:
    """The expected size and digest of a file.

    The digest detects accidental damage. It does not protect against deliberate changes.

    Attributes:
        size: The size in bytes.
        xxh128: The XXH3 digest of 128 bits, in hexadecimal; "": the file was linked and not read.
    """

    size: int = attrs.field(validator=_NUMBER)
    xxh128: str = attrs.field(validator=_TEXT)

    @classmethod
    def of(cls, data: bytes) -> FileDigest:
        """Return the digest of bytes."""
        return cls(len(data), xxh3_128(data).hexdigest())

    def fits(self, folder: Folder, name: str) -> bool:
        """Whether a file is as expected; of one that was linked only the size is compared."""
        if not self.xxh128:
            return folder.size(name) == self.size
        return FileDigest.of_file(folder, name) == self

    @classmethod
    def of_file(cls, folder: Folder, name: str) -> FileDigest:
        """Return the digest of a file, read once in pieces."""
        with folder.open_range(name) as file:
            return cls.of_stream(file)

    @classmethod
    def of_stream(cls, file: ByteSource) -> FileDigest:
        """Return the digest of an open file, read once in pieces."""
        digest = xxh3_128()
        for piece in file.pieces():
            digest.update(piece)
        return cls(file.size, digest.hexdigest())


@attrs.frozen
class StateCount:
    """The numbers of entries of one state that were read, written and left out (rule RUN-2).

    For a state whose kind has changed, keys are counted, because the numbers of entries of a key differ.

    Attributes:
        operator_id: The operator's id in 32 hexadecimal digits.
        operator: The operator's uid, or "".
        state: The name of the state.
        kind: The kind of the state.
        action: The action of the run: copy, relabel, rekey, convert, or write for a new savepoint.
        read: The number of entries or elements read.
        written: The number of entries or elements written.
        dropped: The number of entries left out by the plan, or because they had expired.
        quarantined: The number of entries or elements that did not fit their new type and were written to quarantine
            (rule RUN-4).
        keys: A checksum of the keys of the written entries that does not depend on their order, in hexadecimal.
        dropped_elements: The number of elements of list state left out because they had expired, including those of
            lists that were left out as a whole. (In map state each user key is an entry.)
        entries: The number of entries, where keys were counted; else None.
        merged: The number of entries that were merged into others because their keys became equal; `keys` counts each
            of them.
        rescaled: The number of decimals from rows that were written with another scale, because they did not fit the
            scale of the values that they replace.
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

    @property
    def place(self) -> tuple[str, str, str]:
        """The state: the operator's id, the kind, and the name."""
        return self.operator_id, self.kind, self.state


@attrs.frozen
class StateFiles:
    """The files of a state in databases.

    Attributes:
        operator_id: The operator's id in 32 hexadecimal digits.
        operator: The operator's uid, or "".
        state: The name of the state.
        files: The number of its files.
        size: Their bytes.
    """

    operator_id: str = attrs.field(validator=_TEXT)
    operator: str = attrs.field(validator=_TEXT)
    state: str = attrs.field(validator=_TEXT)
    files: int = attrs.field(validator=_NUMBER)
    size: int = attrs.field(validator=_NUMBER)


def add_files(states: Iterable[StateFiles]) -> tuple[StateFiles, ...]:
    """Return the files of each state, added up over subtasks, by operator and state."""
    sums: dict[tuple[str, str], StateFiles] = {}
    for one in states:
        before = sums.get((one.operator_id, one.state), attrs.evolve(one, files=0, size=0))
        sums[one.operator_id, one.state] = attrs.evolve(
            one, files=before.files + one.files, size=before.size + one.size
        )
    return tuple(sums[place] for place in sorted(sums))


def add_counts(counts: Sequence[StateCount]) -> tuple[StateCount, ...]:
    """Return the counts of each state, added up over all tasks and tables, sorted by operator and state.

    Where tables of a state became one, some may have been converted and others not: it then counts as converted, and
    has no checksum of its keys, as only conversions compute one.
    """
    sums: dict[tuple[str, str, str], StateCount] = {}
    for count in counts:
        before = sums.get(count.place)
        if before is None:
            sums[count.place] = count
            continue
        actions = {before.action, count.action}
        mixed = StateAction.CONVERT if StateAction.CONVERT in actions else StateAction.RELABEL
        both = before.keys and count.keys
        keys = f"{int(before.keys, 16) + int(count.keys, 16) & (1 << 64) - 1:016x}" if both else ""
        sums[count.place] = attrs.evolve(
            count,
            action=str(mixed) if len(actions) > 1 else count.action,
            entries=None if count.entries is None else (before.entries or 0) + count.entries,
            keys=keys,
            **{name: getattr(before, name) + getattr(count, name) for name in _SUMMED},
        )
    return tuple(sums[place] for place in sorted(sums, key=lambda p: (uid_order(sums[p].operator), *p)))


@attrs.frozen(kw_only=True)
class Lineage:
    """The content of `_stateshift.json`.

    Attributes:
        stateshift: The release that wrote the file.
        created: The time of writing, in UTC; the only difference between repeated runs (rule RUN-5).
        job: The origin of the types, in words.
        source: The place and metadata digest of the migrated savepoint; None for a new one.
        plan: The plan that was carried out, as plain data; None for a new savepoint.
        states: The counts of all states.
        files: The digests of all files but this one.
        history: The lineages before this one, oldest first, without their file digests.
        position: The position of the data from which a savepoint was bootstrapped, as the caller gave it: an offset,
            a watermark, a query. None where it was not given.
        kept: The states whose files were linked or copied without being read, which `states` do not count.
        proof: The certificate of the latest proof by real Flink (`state/proof`); None where there was none.
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
    proof: dict[str, Any] | None = attrs.field(default=None, validator=_FACTS)
    kept: tuple[StateFiles, ...] = ()

    def __repr__(self) -> str:
        states, files = many(len(self.states), "state"), many(len(self.files), "file")
        source = "" if self.source is None else f"from {self.source.get('place')}"
        return repr_of(self, f"{self.created}, {self.job}: {states}, {files}, {len(self.history):,} before it", source)

    def digest_of(self, name: str) -> FileDigest | None:
        """Return the expected digest of a file; None where there are no digests.

        Raises:
            CorruptSavepoint: There are digests, but none of this file.
        """
        if self.files and name not in self.files:
            raise CorruptSavepoint(
                f"{LINEAGE} has digests of files, but not of {name}",
                advice=f"use another copy of the savepoint; if the file was added on purpose, remove {LINEAGE}",
                file=LINEAGE,
            )
        return self.files.get(name)

    def is_of(self, metadata: bytes) -> bool:
        """Whether the lineage was written with this `_metadata`."""
        return self.files.get(METADATA) == FileDigest.of(metadata)

    @property
    def quarantined(self) -> int:
        """The number of values in quarantine beside the savepoint."""
        return sum(count.quarantined for count in self.states)

    def done(self) -> dict[tuple[str, str], frozenset[str]]:
        """Return the conversions that the types of states do not show (rule STATE-8).

        Returns:
            By operator id and name of the state ("" for keys): the names of the converters that were called, and for
            columns the latest results of `columns_written`.
        """
        found: dict[tuple[str, str], frozenset[str]] = {}
        for plan in (*(told.get("plan") for told in self.history), self.plan):
            with suppress(AttributeError, KeyError, TypeError):  # an edited plan that is malformed is ignored
                for operator in plan["operators"] if plan else ():
                    _add_done(found, operator)
        return found

    def to_json(self) -> bytes:
        """Return the content of the file."""
        return json.dumps({"format": FORMAT, **self._facts()}, indent=2, sort_keys=True).encode() + b"\n"

    def _facts(self) -> dict[str, Any]:
        """Return all fields as plain data, without empty ones that earlier releases do not know."""
        return attrs.asdict(self, filter=lambda field, value: bool(value) or field.name not in _LATER_FACTS)

    def as_history(self) -> tuple[dict[str, Any], ...]:
        """Return the history for a savepoint that is written from this one."""
        mine = self._facts()
        mine.pop("files")
        mine.pop("history")
        return (*self.history, mine)

    @property
    def migrations(self) -> tuple[dict[str, Any], ...]:
        """The lineages of the migrations up to this one, oldest first: what else was written did not change types."""
        return tuple(told for told in self.as_history() if told.get("plan"))

    @classmethod
    def from_json(cls, data: bytes) -> Lineage:
        """Parse the content of the file.

        Raises:
            CorruptSavepoint: The content does not have the form of `to_json`.
            UnsupportedFormat: The format version is another one.
        """
        try:
            facts = parse_json(data)
            form = facts.pop("format")
            if form != FORMAT:
                raise UnsupportedFormat(
                    f"the lineage has format {form}, but this release reads {FORMAT}",
                    advice="use the release that wrote it, or remove the file: the state itself does not need it",
                    file=LINEAGE,
                )
            facts["states"] = tuple(StateCount(**count) for count in facts["states"])
            facts["files"] = {name: FileDigest(**digest) for name, digest in facts["files"].items()}
            facts["history"] = tuple(facts["history"])
            facts["kept"] = tuple(StateFiles(**one) for one in facts.get("kept", ()))
            for told in (facts, *facts["history"]):
                _mask(told)
            return cls(**facts)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptSavepoint(
                f"the lineage cannot be read: {error}",
                file=LINEAGE,
                advice="remove the file if the state itself is intact: Flink and stateshift do not need it",
            ) from error


def _mask(told: Any) -> None:
    """Remove credentials from the places in a lineage, whose origin is not known."""
    for facts, names in ((told, ("job",)), (told.get("source"), ("place",)), (told.get("plan"), ("source", "job"))):
        for name in names if isinstance(facts, dict) else ():
            if isinstance(facts.get(name), str):
                facts[name] = masked(facts[name])


def _add_done(found: dict[tuple[str, str], frozenset[str]], operator: dict[str, Any]) -> None:
    """Add the conversions in the plan of an operator, under the new names of the plan."""
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
    after: dict[str, frozenset[str]] = {}
    for name, new_name, done in steps:
        is_ordered = any(one.startswith(ROW) for one in done)
        kept = {one for one in before[name] if not (is_ordered and one.startswith(ROW))}
        after[new_name] = after.get(new_name, frozenset()) | kept | done  # tables of a state may have become one
    found |= {(operator_id, new_name): done for new_name, done in after.items()}


def read_lineage(folder: Folder, metadata: bytes) -> Lineage | None:
    """Read the lineage of a savepoint; return None where it has none, as Flink's own savepoints.

    A run that replaces a savepoint writes its lineage under another name, then `_metadata`, and then renames the
    lineage. In between, the file under the other name is the savepoint's lineage.

    Args:
        folder: The savepoint.
        metadata: The content of `_metadata`.
    """
    lineage = Lineage.from_json(folder.read(LINEAGE)) if folder.exists(LINEAGE) else None
    if lineage is not None and lineage.is_of(metadata):
        return lineage
    for name in filter(NEXT_LINEAGE.fullmatch, folder.names()):
        with suppress(SavepointNotFound):  # it has just been renamed
            following = Lineage.from_json(folder.read(name))
            if following.is_of(metadata):
                return following
    return lineage
