"""Migration plans: which data is copied as files, copied as bytes, relabelled, converted, rekeyed or dropped.

A plan is data for three readers: a person (dry run), the lineage of the new savepoint, and the workers, which receive
it as a whole (pickled with cloudpickle: converters may be closures).
"""

from __future__ import annotations

import enum
from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs

from ..serializers.compatibility import Flag, Path, Verdict
from ..serializers.wording import repr_of
from .targets import Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime, timedelta

    from ..serializers.compatibility import Finding
    from ..serializers.serializer import TypeDeserializer, TypeSerializer
    from ..serializers.snapshot import TypeSerializerConfigSnapshot
    from .description import StateKind
    from .header_snapshots import Labels
    from .repartition import Merge


class OperatorAction(enum.StrEnum):
    """The action on the files of an operator."""

    COPY = "copy"
    REWRITE = "rewrite"


class StateAction(enum.StrEnum):
    """The action on the entries of a state in an operator that is rewritten.

    COPY: bytes and header are kept. RELABEL: bytes are kept, under a new snapshot or name. REKEY: the value's bytes are
    kept, under a rewritten key. CONVERT: values are read, converted and rewritten; keys, too, if all keys are. DROP:
    the state is left out, as the caller asked. NEW: nothing of it is stored, and it starts empty; only plans for
    queries list such states. WRITE: the state is made from rows of another source, beside the stored state or in place
    of it; no migration does that.
    """

    COPY = "copy"
    RELABEL = "relabel"
    REKEY = "rekey"
    CONVERT = "convert"
    DROP = "drop"
    NEW = "new"
    WRITE = "write"

    @property
    def done(self) -> str:
        """What is done with a state, in few words."""
        return _DONE[self]


_DONE = {
    StateAction.COPY: "copied",
    StateAction.RELABEL: "new header",
    StateAction.REKEY: "new keys",
    StateAction.CONVERT: "converted",
    StateAction.DROP: "dropped",
    StateAction.NEW: "starts empty",
    StateAction.WRITE: "written",
}


class Compression(enum.StrEnum):
    """Whether state is compressed in the new savepoint.

    KEEP: where it was compressed before. NONE: nowhere. SNAPPY: everywhere, as with Flink's
    `execution.checkpointing.snapshot-compression`.
    """

    KEEP = "keep"
    NONE = "none"
    SNAPPY = "snappy"


class SavepointFormatType(enum.StrEnum):
    """The format of keyed state in the new savepoint, as Flink's enumeration of this name.

    KEEP: files of RocksDB where it is in such files, else canonical. CANONICAL: the format that every backend restores.
    NATIVE: files of RocksDB, which its backend restores without inserting entries.
    """

    KEEP = "keep"
    CANONICAL = "canonical"
    NATIVE = "native"


class BadValues(enum.StrEnum):
    """The treatment of a value that does not fit its new type (rule RUN-4).

    ABORT: it ends the run. QUARANTINE: its bytes are saved separately, with the reason, and the run continues.
    """

    ABORT = "abort"
    QUARANTINE = "quarantine"


NEW_SERIALIZER = "new serializer"
CalledCode = tuple[tuple[str, str], ...]
"""The user code that is called, by name, with its fingerprint: functions, classes, and defaults."""


def details(findings: Iterable[Finding], flag: Flag) -> tuple[str, ...]:
    """Return what a flag in findings is about, such as `$.name` of `drops:$.name`."""
    return tuple("->".join(one.details) for each in findings for one in each.flags if one.flag is flag and one.details)


@attrs.frozen
class Recoding:
    """The rewriting of one part of an entry.

    Attributes:
        step: The path to the part: "", `[]`, `<key>` or `{}`.
        reader: Reads the old bytes.
        source: The source of the reader; `NEW_SERIALIZER` if the part is only checked.
        conversion: Converts the old object to the new one; None: the object stays.
        writer: Writes the new bytes.
        nullable: Whether the entry's own null flag may be set (values of map state).
        converter: The name of the converter behind the conversion, or "".
        expired_until_ms: The latest time of last access, in milliseconds since 1970 UTC, of values that count as
            expired and are left out when their time stamps are removed (rule STATE-5); None: no value is left out.
        null_stamp_ms: The time stamp for a null of map state if values get time stamps and their type can encode a null
            behind one (rule STATE-4); None: a null is stored in the entry's own flag.
    """

    step: str
    reader: TypeDeserializer[Any]
    source: str
    conversion: Callable[[Any], Any] | None
    writer: TypeSerializer[Any]
    nullable: bool = False
    converter: str = ""
    expired_until_ms: int | None = None
    null_stamp_ms: int | None = None

    @property
    def path(self) -> str:
        """The path to the part, from the root `$`."""
        return f"${self.step}"

    @property
    def is_check(self) -> bool:
        """Whether the part is only checked, beside a converted part: its bytes stay, and must fit as they are."""
        return self.source == NEW_SERIALIZER

    def is_expired(self, old: Any) -> bool:
        """Whether an old value has expired, and is to be left out."""
        return self.expired_until_ms is not None and old.last_access_ms <= self.expired_until_ms


@attrs.frozen
class Transformation:
    """The conversion of all the state of a key to a state of another kind (rule STATE-2).

    The plan's recodings then define the readers of the stored parts, and both write the new state as a whole.

    Attributes:
        old_kind: The kind of the stored state.
        name: The name of the state transform.
        function: A function from the stored state of a key to its new state.
    """

    old_kind: StateKind
    name: str
    function: Callable[[Any], Any]


@attrs.frozen
class StatePlan:
    """The action on one state, and its details.

    Attributes:
        name: The name of the state.
        kind: The kind of the state.
        action: The action on its entries.
        old: The stored snapshots.
        new: The snapshots to be written into the header.
        value: The rewriting or check of the value, element or map value; None: its bytes stay, unread.
        user_key: The same for the user key of map state, or the key of broadcast state.
        findings: The findings of the check, for messages and lineage.
        new_name: The new name, if the state is renamed.
        former_time_to_live: How long the stored values lived, if they lose their time stamps and the job declares it.
        transform: The conversion to another kind, which is `kind`; None: the kind stays.
        trust: The names of the pickled classes whose values may be unpickled.
        code: The user code that is called to rewrite the state.
    """

    name: str
    kind: StateKind
    action: StateAction
    old: Labels
    new: Labels
    value: Recoding | None = None
    user_key: Recoding | None = None
    findings: tuple[Finding, ...] = ()
    new_name: str = ""
    former_time_to_live: timedelta | None = None
    transform: Transformation | None = None
    trust: tuple[str, ...] = ()
    code: CalledCode = ()

    def __repr__(self) -> str:
        return repr_of(self, f"{self.name} {self.kind}: {self.action}")

    @property
    def recodings(self) -> tuple[Recoding, ...]:
        """The rewriting or checks of all parts."""
        return tuple(piece for piece in (self.user_key, self.value) if piece is not None)

    @property
    def changes(self) -> bool:
        """Whether the state changes at all, so that its stream is rewritten."""
        return self.action is not StateAction.COPY

    @property
    def calls_users_code(self) -> bool:
        """Whether a converter or state transform is called with every value, so the run time cannot be estimated."""
        return self.transform is not None or (self.value is not None and bool(self.value.converter))

    @property
    def drops(self) -> tuple[str, ...]:
        """The paths of what is left out of the new values."""
        return details(self.findings, Flag.DROPS)

    @property
    def fills(self) -> tuple[str, ...]:
        """The paths of new columns of a query that are null in what is stored."""
        found = (one for one in self.findings if one.rule == "SQL-8" and one.verdict is Verdict.REQUIRES_MIGRATION)
        return tuple(one.path for one in found)

    @property
    def begins(self) -> tuple[str, ...]:
        """The paths of aggregates that begin now, without what came before."""
        return tuple(one.path for one in self.findings if one.has(Flag.PARTIAL))

    @property
    def possible_renames(self) -> tuple[str, ...]:
        """What is left out and may have been renamed, as `old->new`."""
        return details(self.findings, Flag.POSSIBLE_RENAME)

    @property
    def flags(self) -> tuple[tuple[str, str], ...]:
        """All flags as pairs of path and flag."""
        return tuple((finding.path, str(flag)) for finding in self.findings for flag in finding.flags)

    def rule_at(self, path: str) -> str | None:
        """Return the rule of the finding at a path, or at its nearest ancestor."""
        above = [finding for finding in self.findings if Path(path).is_within(finding.path)]
        return max(above, key=lambda finding: len(finding.path)).rule if above else None


@attrs.frozen
class Merging:
    """The merge of the values of two keys that become the same key.

    Attributes:
        merge: The function, with its name.
        kind: The kind of the state.
        serializer: Reads and writes the new content of the state: the value, the list or the map.
    """

    merge: Merge
    kind: StateKind
    serializer: TypeSerializer[Any]


@attrs.frozen
class Rekeying:
    """The rewriting of all keys of an operator (rule ROLE-4).

    Attributes:
        serializer: The serializer of the new keys; the key group is the hash of the key that it reads.
        key: The rewriting of a key; None: its bytes stay, and only its key group changes.
        merges: The merges, by the stored name of a state.
        findings: The findings on the key, for messages and lineage.
        code: The user code that is called for the keys and the merges.
    """

    serializer: TypeSerializer[Any]
    key: Recoding | None = None
    merges: tuple[tuple[str, Merging], ...] = ()
    findings: tuple[Finding, ...] = ()
    code: CalledCode = ()


@attrs.frozen
class OperatorPlan:
    """The actions on one operator and its states.

    Attributes:
        operator_id: The id, as 32 hexadecimal digits.
        uid: The uid, or "".
        action: Whether its files are copied as they are, or its streams are rewritten.
        key: The key snapshot for the header of its keyed streams; None if there is none, or it is not known.
        relabels_key: Whether that snapshot differs from the stored one.
        states: The plans of all stored states, by name.
        in_job: Whether the new job has the operator; otherwise it is only kept.
        new_id: The new id, if it changes; its uid is then `uid`.
        is_reframed: Whether its keyed state is written in another format than it is stored in, or in new files of a
            database.
        is_native: Whether its keyed state is written as files of a database; else in the canonical format.
        parallelism: The number of subtasks requested by the caller; 0: as before, or more if its keyed state is large.
        is_rescaled: Whether the number of subtasks changes, so that all its state is redistributed.
        compression: Whether its streams are compressed.
        max_bad_values: The number of values that the run may put into quarantine; 0: the first one ends it (rule
            RUN-4).
        rekeying: The rewriting of its keys, with all its keyed state and timers; None: the keys stay.
        max_parallelism: The new number of key groups, if it changes; else 0.
    """

    operator_id: str
    uid: str
    action: OperatorAction
    key: TypeSerializerConfigSnapshot[Any] | None
    relabels_key: bool
    states: tuple[StatePlan, ...]
    in_job: bool = True
    new_id: str = ""
    is_reframed: bool = False
    parallelism: int = 0
    is_rescaled: bool = False
    compression: Compression = Compression.KEEP
    max_bad_values: int = 0
    rekeying: Rekeying | None = None
    max_parallelism: int = 0
    is_native: bool = False

    def __repr__(self) -> str:
        counts = Counter(state.action for state in self.states)
        told = ", ".join([str(self.action), *(f"{count} {action}" for action, count in counts.items())])
        return repr_of(self, f"{self.uid or self.operator_id}: {told}")

    @property
    def is_rewritten(self) -> bool:
        """Whether its streams are rewritten, and not copied as files."""
        return self.action is OperatorAction.REWRITE

    @property
    def bad_values(self) -> BadValues:
        """The treatment of values that do not fit."""
        return BadValues.QUARANTINE if self.max_bad_values else BadValues.ABORT

    def code(self, *, keyed: bool) -> dict[str, dict[str, str]]:
        """Return the user code called for the keyed streams, or for the others: by state, and under "" for keys."""
        found = {state.name: dict(state.code) for state in self.states if state.kind.is_keyed is keyed and state.code}
        if keyed and self.rekeying is not None and self.rekeying.code:
            found[""] = dict(self.rekeying.code)
        return found

    def without_code(self) -> OperatorPlan:
        """Return the plan without its user code, for comparisons that ignore code."""
        rekeying = None if self.rekeying is None else attrs.evolve(self.rekeying, code=())
        states = tuple(attrs.evolve(state, code=()) for state in self.states)
        return attrs.evolve(self, rekeying=rekeying, states=states)

    @property
    def is_flink_restorable(self) -> bool:
        """Whether Flink will know every snapshot of the operator."""
        labels = [label for state in self.states if state.action is not StateAction.DROP for label in state.new]
        return all(label.is_flink for label in labels) and (self.key is None or self.key.is_flink)

    @property
    def rewrites_keyed(self) -> bool:
        """Whether the keyed streams change; otherwise their bytes are copied."""
        changes = self.relabels_key or self.is_reframed or self.is_reshaped or self.rekeying is not None
        return changes or any(state.changes for state in self.states if state.kind.is_keyed)

    @property
    def rewrites_operator_state(self) -> bool:
        """Whether the streams of list and broadcast state change; otherwise their bytes are copied."""
        return self.is_reshaped or any(state.changes for state in self.states if not state.kind.is_keyed)

    @property
    def is_reshaped(self) -> bool:
        """Whether all streams are rewritten regardless of their content, to redistribute or (de)compress them."""
        return self.is_rescaled or self.compression is not Compression.KEEP

    def state(self, name: str, *, keyed: bool, broadcast: bool = False) -> StatePlan | None:
        """Return the plan of a stored state; a keyed, a list and a broadcast state of an operator may share a name."""
        scope = "keyed" if keyed else "broadcast" if broadcast else "operator"
        found = [state for state in self.states if state.name == name and state.kind.is_keyed is keyed]
        return next((state for state in found if state.kind.scope == scope), found[0] if found else None)


@attrs.frozen
class MigrationPlan:
    """The actions on all operators of a savepoint.

    Attributes:
        source: The origin of the old state, in words.
        job: The origin of the new types, in words.
        operators: The plans of all stored operators, by uid and id.
        target: The system that is to restore the result.
        reference_time: The time stamp of values whose state gets a time to live, and the time by which other values
            have expired (STATE-4, STATE-5); None if no state gains or loses a time to live.
        max_parallelism: The new number of key groups of operators without state; 0: as before.
        absolute: Whether `_metadata` names the files of databases by absolute URIs.
    """

    source: str
    job: str
    operators: tuple[OperatorPlan, ...]
    target: Target = Target.AUTO
    reference_time: datetime | None = None
    max_parallelism: int = 0
    absolute: bool = False

    def __repr__(self) -> str:
        counts = Counter(state.action for operator in self.operators for state in operator.states)
        told = ", ".join(f"{count:,} {action}" for action, count in counts.items()) or "none"
        return repr_of(self, f"states: {told}", f"from {self.source}", f"to {self.job}")

    @property
    def is_empty(self) -> bool:
        """Whether all files are copied as they are, and their metadata stays the same."""
        changed = (operator.new_id or operator.max_parallelism for operator in self.operators)
        copied = all(operator.action is OperatorAction.COPY for operator in self.operators)
        return copied and not self.max_parallelism and not any(changed)

    def max_parallelism_of(self, operator_id: str) -> int:
        """Return the new number of key groups of a stored operator, if it changes; else 0."""
        plan = self.operator(operator_id)
        return self.max_parallelism if plan is None else plan.max_parallelism

    def operator(self, operator_id: str) -> OperatorPlan | None:
        """Return the plan of a stored operator, or None."""
        return next((operator for operator in self.operators if operator.operator_id == operator_id), None)
