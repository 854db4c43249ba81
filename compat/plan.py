"""What a migration does: copied as files, copied as bytes, relabelled, converted, keyed anew, dropped.

A plan is data for three readers: a person (dry run), the lineage of the new savepoint, and the workers, to whom it is
sent whole (with cloudpickle: converters may be closures).
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

import attrs

from ..serializers.compatibility import Flag
from .targets import Target

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime, timedelta

    from ..serializers.compatibility import Finding
    from ..serializers.serializer import TypeDeserializer, TypeSerializer
    from ..serializers.snapshot import TypeSerializerConfigSnapshot
    from .description import StateKind
    from .header_snapshots import Labels
    from .repartition import Merge


class OperatorAction(enum.StrEnum):
    """What happens to the files of an operator."""

    COPY = "copy"
    REWRITE = "rewrite"


class StateAction(enum.StrEnum):
    """What happens to the entries of a state in an operator that is rewritten.

    COPY: bytes and header as they are. RELABEL: bytes as they are, under a new snapshot or name. REKEY: the value's
    bytes as they are, under a key that is written anew. CONVERT: read, converted, written anew, the key too where all
    keys are. DROP: left out, because the caller says so. WRITE: made from rows that come from elsewhere, beside what is
    stored or in place of it; no migration does that.
    """

    COPY = "copy"
    RELABEL = "relabel"
    REKEY = "rekey"
    CONVERT = "convert"
    DROP = "drop"
    WRITE = "write"


class Compression(enum.StrEnum):
    """Whether state is compressed in the new savepoint.

    KEEP: where it was. NONE: nowhere. SNAPPY: everywhere, as with Flink's
     `execution.checkpointing.snapshot-compression`.
    """

    KEEP = "keep"
    NONE = "none"
    SNAPPY = "snappy"


class BadValues(enum.StrEnum):
    """What becomes of a value that does not fit its new type (rule RUN-4).

    ABORT: it ends the run. QUARANTINE: its bytes are written aside, with the reason, and the run goes on.
    """

    ABORT = "abort"
    QUARANTINE = "quarantine"


NEW_SERIALIZER = "new serializer"
CalledCode = tuple[tuple[str, str], ...]
"""What of the user's is called, by name, with its fingerprint: functions, classes, and defaults."""


@attrs.frozen
class Recoding:
    """How one piece of an entry is rewritten.

    Attributes:
        step: How a path reaches the piece: "", `[]`, `<key>` or `{}`.
        reader: Reads the old bytes.
        source: Where the reader comes from; `NEW_SERIALIZER` where the piece is only looked at.
        conversion: Old object to new object; None: as it is.
        writer: Writes the new bytes.
        nullable: Whether the entry's own null flag may say null (values of map state).
        converter: Name of the user's function behind the conversion, or "".
        expired_until_ms: Of values with a time stamp that is taken off: those whose last access was then, in
            milliseconds since 1970 UTC, or before are left out (rule STATE-5); None: none is.
        null_stamp_ms: The time stamp that a null of map state gets, where values get one and their type has a form for
            null behind it (rule STATE-4); None: the entry's own flag tells it.
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
    def is_check(self) -> bool:
        """Whether it is only looked at, beside a piece that is converted: its bytes stay, and must fit as they are."""
        return self.source == NEW_SERIALIZER

    def is_expired(self, old: Any) -> bool:
        """Whether an old value is to be left out."""
        return self.expired_until_ms is not None and old.last_access_ms <= self.expired_until_ms


@attrs.frozen
class Transformation:
    """How all that a key has becomes that of a state of another kind (rule STATE-2).

    The plan's recodings then say who reads the stored pieces, and both write the new state as a whole.

    Attributes:
        old_kind: Kind of the stored state.
        name: Of the user's function.
        function: Called with what is stored; gives what is to be.
    """

    old_kind: StateKind
    name: str
    function: Callable[[Any], Any]


@attrs.frozen
class StatePlan:
    """What happens to one state.

    Attributes:
        name: Its name.
        kind: Its kind.
        action: Copied, relabelled or converted.
        old: The snapshots that are stored.
        new: The snapshots to be written into the header.
        value: How the value, the element or the map value is rewritten or looked at; None: its bytes stay, unread.
        user_key: The same of the user key of map state, or the key of broadcast state.
        findings: What the check found, for messages and lineage.
        new_name: What it is called from now on, where that is another name.
        former_time_to_live: How long the stored values lived, where they lose their stamps and the job tells it.
        transform: Makes it a state of another kind, which `kind` tells; None: its kind stays.
        trust: Names of pickled classes whose values may be opened.
        code: What of the user's is called to rewrite it.
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

    @property
    def changes(self) -> bool:
        """Whether anything happens to the state, so that its stream is written anew."""
        return self.action is not StateAction.COPY

    @property
    def calls_users_code(self) -> bool:
        """Whether a function of the user's is given every value: how long that takes is not known beforehand."""
        return self.transform is not None or (self.value is not None and bool(self.value.converter))

    @property
    def drops(self) -> tuple[str, ...]:
        """Paths of what is left out of the new values."""
        return self._told_of(Flag.DROPS)

    @property
    def possible_renames(self) -> tuple[str, ...]:
        """What is left out, and may be called otherwise now, as `old->new`."""
        return self._told_of(Flag.POSSIBLE_RENAME)

    def _told_of(self, flag: Flag) -> tuple[str, ...]:
        prefix = f"{flag}:"
        return tuple(told.removeprefix(prefix) for _, told in self.flags if told.startswith(prefix))

    @property
    def flags(self) -> tuple[tuple[str, str], ...]:
        """All flags as (path, flag)."""
        return tuple((finding.path, str(flag)) for finding in self.findings for flag in finding.flags)

    def rule_at(self, path: str) -> str | None:
        """The rule of the finding at a path, or at the nearest one above it."""
        above = [finding for finding in self.findings if path.startswith(finding.path)]
        return max(above, key=lambda finding: len(finding.path)).rule if above else None


@attrs.frozen
class Merging:
    """What becomes of the values of two keys that become one.

    Attributes:
        merge: The function, with its name.
        kind: Of the state.
        serializer: Reads and writes what the state holds from now on: the value, the list or the map.
    """

    merge: Merge
    kind: StateKind
    serializer: TypeSerializer[Any]


@attrs.frozen
class Rekeying:
    """How all keys of an operator are written anew (rule ROLE-4).

    Attributes:
        serializer: Of the keys from now on; the key group is the hash of what it reads.
        key: How a key is rewritten; None: its bytes stay, and only its key group is another.
        merges: By the stored name of a state.
        findings: What the check found of the key, for messages and lineage.
        code: What of the user's is called for the keys and the merges.
    """

    serializer: TypeSerializer[Any]
    key: Recoding | None = None
    merges: tuple[tuple[str, Merging], ...] = ()
    findings: tuple[Finding, ...] = ()
    code: CalledCode = ()


@attrs.frozen
class OperatorPlan:
    """What happens to one operator.

    Attributes:
        operator_id: 32 hexadecimal digits.
        uid: Its uid, or "".
        action: Its files are copied as they are, or its streams are rewritten.
        key: The key snapshot for the header of its keyed streams; None where there is none, or none is known.
        relabels_key: Whether that snapshot differs from the stored one.
        states: All stored states, by name.
        in_job: Whether the new job has the operator; else it is only kept.
        new_id: Its id from now on, where that is another one; its uid is then `uid`.
        is_reframed: Whether its keyed state lies in a native format, and is written in the canonical one.
        parallelism: Number of subtasks that the caller asks for; 0: as before, or more where keyed state is large.
        is_rescaled: Whether that is another number than before, so that all its state is dealt out anew.
        compression: Whether its streams are compressed from now on.
        max_bad_values: How many values the run may put into quarantine; 0: the first one ends it (rule RUN-4).
        rekeying: How its keys are written anew, with all its keyed state and timers; None: they stay.
        max_parallelism: Number of its key groups from now on, where that is to be another; else 0.
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

    @property
    def bad_values(self) -> BadValues:
        """What becomes of a value that does not fit."""
        return BadValues.QUARANTINE if self.max_bad_values else BadValues.ABORT

    def code(self, *, keyed: bool) -> dict[str, dict[str, str]]:
        """What of the user's is called for the keyed streams, or for the others: by state, and "" for keys."""
        found = {state.name: dict(state.code) for state in self.states if state.kind.is_keyed is keyed and state.code}
        if keyed and self.rekeying is not None and self.rekeying.code:
            found[""] = dict(self.rekeying.code)
        return found

    def without_code(self) -> OperatorPlan:
        """Give the same plan, whatever code of the user's it calls."""
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
        """Whether the keyed streams change; else their bytes are copied."""
        changes = self.relabels_key or self.is_reframed or self.is_reshaped or self.rekeying is not None
        return changes or any(state.changes for state in self.states if state.kind.is_keyed)

    @property
    def rewrites_operator_state(self) -> bool:
        """Whether the streams of list and broadcast state change; else their bytes are copied."""
        return self.is_reshaped or any(state.changes for state in self.states if not state.kind.is_keyed)

    @property
    def is_reshaped(self) -> bool:
        """Whether all streams are written anew whatever is in them: dealt out to other subtasks, or compressed."""
        return self.is_rescaled or self.compression is not Compression.KEEP

    def state(self, name: str, *, keyed: bool, broadcast: bool = False) -> StatePlan | None:
        """The plan of a stored state; a keyed, a list and a broadcast state of an operator may share a name."""
        room = "keyed" if keyed else "broadcast" if broadcast else "operator"
        found = [state for state in self.states if state.name == name and state.kind.is_keyed is keyed]
        return next((state for state in found if state.kind.room == room), found[0] if found else None)


@attrs.frozen
class MigrationPlan:
    """What a migration does.

    Attributes:
        source: Where the old state comes from, in words.
        job: What the new types come from, in words.
        operators: All stored operators, by uid and id.
        target: Who is to restore the result.
        reference_time: The stamp of values whose state gets a time to live, and the moment by which others have expired
            (STATE-4, STATE-5); None where no state gains or loses one.
        max_parallelism: Number of key groups from now on of operators without state; 0: as before.
    """

    source: str
    job: str
    operators: tuple[OperatorPlan, ...]
    target: Target = Target.AUTO
    reference_time: datetime | None = None
    max_parallelism: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether all files are copied as they are, and nothing is said of them that was not said before."""
        changed = (operator.new_id or operator.max_parallelism for operator in self.operators)
        copied = all(operator.action is OperatorAction.COPY for operator in self.operators)
        return copied and not self.max_parallelism and not any(changed)

    def max_parallelism_of(self, operator_id: str) -> int:
        """Number of key groups of a stored operator from now on, where that is another; else 0."""
        plan = self.operator(operator_id)
        return self.max_parallelism if plan is None else plan.max_parallelism

    def operator(self, operator_id: str) -> OperatorPlan | None:
        """The plan of a stored operator."""
        return next((operator for operator in self.operators if operator.operator_id == operator_id), None)
