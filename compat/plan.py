"""From a check to what a migration does: copied as files, copied as bytes, relabelled, converted.

A plan is data for three readers: a person (dry run), the lineage of the new savepoint, and the workers, to whom it is
sent whole (with cloudpickle: converters may be closures).
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

import attrs

from ..serializers.compatibility import Decision, Flag, Verdict
from ..serializers.errors import IncompatibleState
from ..serializers.snapshot import snapshot_to_bytes
from ..serializers.ttl import AtTime
from .explain import finding_data, finding_line
from .labels import Labels, label_after
from .reference_time import checked_time, length_ms, milliseconds, now, time_text
from .report import Status
from .roles import KEY
from .targets import Target

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime, timedelta

    from ..serializers.compatibility import Finding
    from ..serializers.serializer import TypeDeserializer, TypeSerializer
    from ..serializers.snapshot import TypeSerializerConfigSnapshot
    from .description import StateKind
    from .parts import Part
    from .repartition import Merge
    from .report import CheckReport, OperatorReport, StateReport


class OperatorAction(enum.StrEnum):
    """What happens to the files of an operator."""

    COPY = "copy"
    REWRITE = "rewrite"


class StateAction(enum.StrEnum):
    """What happens to the entries of a state in an operator that is rewritten.

    COPY: bytes and header as they are. RELABEL: bytes as they are, under a new snapshot or name. REKEY: the value's
    bytes as they are, under a key that is written anew. CONVERT: read, converted, written anew, the key too where all
    keys are. DROP: left out, because the caller says so.
    """

    COPY = "copy"
    RELABEL = "relabel"
    REKEY = "rekey"
    CONVERT = "convert"
    DROP = "drop"


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


@attrs.frozen
class Recoding:
    """How one piece of an entry is rewritten.

    Attributes:
        step: How a path reaches the piece: "", `[]`, `<key>` or `{}`.
        reader: Reads the old bytes.
        source: Where the reader comes from.
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
        value: How the value, the element or the map value is rewritten; None: its bytes stay.
        user_key: How the user key of map state, or the key of broadcast state, is rewritten; None: its bytes stay.
        findings: What the check found, for messages and lineage.
        new_name: What it is called from now on, where that is another name.
        former_time_to_live: How long the stored values lived, where they lose their stamps and the job tells it.
        transform: Makes it a state of another kind, which `kind` tells; None: its kind stays.
        trust: Names of pickled classes whose values may be opened.
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

    @property
    def drops(self) -> tuple[str, ...]:
        """Paths of what is left out of the new values."""
        prefix = f"{Flag.DROPS}:"
        return tuple(flag.removeprefix(prefix) for _, flag in self.flags if flag.startswith(prefix))

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
    """

    serializer: TypeSerializer[Any]
    key: Recoding | None = None
    merges: tuple[tuple[str, Merging], ...] = ()
    findings: tuple[Finding, ...] = ()


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

    @property
    def is_flink_restorable(self) -> bool:
        """Whether Flink will know every snapshot of the operator."""
        labels = [label for state in self.states if state.action is not StateAction.DROP for label in state.new]
        return all(label.is_flink for label in labels) and (self.key is None or self.key.is_flink)

    @property
    def rewrites_keyed(self) -> bool:
        """Whether the keyed streams change; else their bytes are copied."""
        changes = self.relabels_key or self.is_reframed or self.is_reshaped or self.rekeying is not None
        return changes or any(_changes(state) for state in self.states if state.kind.is_keyed)

    @property
    def rewrites_operator_state(self) -> bool:
        """Whether the streams of list and broadcast state change; else their bytes are copied."""
        return self.is_reshaped or any(_changes(state) for state in self.states if not state.kind.is_keyed)

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
    target: Target = Target.ANY
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


def plan(report: CheckReport, *, reference_time: datetime | None = None) -> MigrationPlan:
    """Say what a migration does, for every stored operator and state.

    Args:
        report: The check.
        reference_time: See `MigrationPlan`; to the millisecond, with a time zone. By default the time of this call; it
            is not looked at where no state gains or loses a time to live.

    Raises:
        IncompatibleState: The check refuses; with every state and every finding.
        DeclarationError: The reference time has no time zone.
    """
    if report.decision is Decision.REFUSE:
        raise _refusal(report)
    at = checked_time(reference_time) if reference_time is not None else None
    at = at or now() if any(_switches(state) for _, state in report.states()) else None
    stored = [operator for operator in report.operators if operator.status is not Status.NEW]
    operators = tuple(_operator(operator, at) for operator in stored)
    groups = report.repartition.for_all if report.repartition is not None else 0
    return MigrationPlan(report.old.origin, report.new.origin, operators, report.target, at, groups)


def _switches(report: StateReport) -> bool:
    return any(finding.rule in {"STATE-4", "STATE-5"} for finding in report.result.findings)


def _operator(report: OperatorReport, at: datetime | None) -> OperatorPlan:
    states = tuple(_state(state, at) for state in report.states if state.was is not None)
    rekeying = _rekeying(report) if report.is_rekeyed else None
    if rekeying is not None:
        states = tuple(map(_rekeyed, states))
    key, relabels_key = None, False
    if report.was is not None and report.was.key is not None:
        key = stored = report.was.key.snapshot
        if report.key is not None and report.becomes is not None and report.becomes.key is not None:
            key = label_after(report.key.result, report.was.key, report.becomes.key)
            relabels_key = snapshot_to_bytes(key) != snapshot_to_bytes(stored)
    is_reframed = report.was is not None and report.was.is_reframed
    changes = relabels_key or is_reframed or rekeying is not None or any(_changes(state) for state in states)
    action = OperatorAction.REWRITE if changes else OperatorAction.COPY
    stored_id = report.was.stored_id if report.was is not None else ""
    new_id = report.operator_id if stored_id else ""
    identity, in_job = stored_id or report.operator_id, report.becomes is not None
    return OperatorPlan(
        identity, report.uid, action, key, relabels_key, states, in_job, new_id, is_reframed,
        rekeying=rekeying, max_parallelism=report.max_parallelism,
    )  # fmt: skip


def _rekeying(report: OperatorReport) -> Rekeying:
    """How the keys of an operator are written anew: with another type, or in other key groups only."""
    role, was, becomes = report.key, report.was, report.becomes
    assert role is not None and was is not None and becomes is not None  # noqa: S101, PT018 - it was judged
    assert was.key is not None and becomes.key is not None  # noqa: S101, PT018 - the role was judged by them
    merging = dict(report.merges)
    merges = tuple(
        (state.was.stored_name or state.name, Merging(merging[state.name], state.kind, state.serializer_after))
        for state in report.states
        if state.was is not None and state.name in merging and state.kind.is_keyed
    )
    if role.reader is None:
        label = label_after(role.result, was.key, becomes.key)
        return Rekeying(label.restore_serializer(), merges=merges, findings=role.result.findings)
    serializer = becomes.key.new_side()
    conversion = role.result.conversion
    key = Recoding(
        KEY, role.reader.reader, str(role.reader.source), conversion, serializer, converter=role.converter
    )  # fmt: skip
    return Rekeying(serializer, key, merges, role.result.findings)


def _rekeyed(state: StatePlan) -> StatePlan:
    """Give the plan of a state whose values stay as bytes, and whose keys do not."""
    stays = state.action in {StateAction.COPY, StateAction.RELABEL}
    return attrs.evolve(state, action=StateAction.REKEY) if stays and state.kind.is_keyed else state


def _changes(state: StatePlan) -> bool:
    return state.action is not StateAction.COPY


def _state(report: StateReport, at: datetime | None) -> StatePlan:
    was, new = report.was, report.labels_after
    assert was is not None and new is not None  # noqa: S101, PT018 - only stored states that are not refused get here
    old, findings = Labels.of(was), report.result.findings
    name, new_name = was.stored_name or was.name, was.name if was.stored_name else ""
    if report.status is Status.DROPPED:
        return StatePlan(name, was.kind, StateAction.DROP, old, old)
    if report.values is None or report.values.verdict < Verdict.REQUIRES_MIGRATION:
        action = StateAction.COPY if old.digest() == new.digest() and not new_name else StateAction.RELABEL
        return StatePlan(name, report.kind, action, old, new, findings=findings, new_name=new_name)
    if not report.parts:  # timers: all of one is its address
        return StatePlan(name, report.kind, StateAction.RELABEL, old, new, findings=findings, new_name=new_name)
    *user_key, value = report.parts
    recoding = _recoding(value, report.converter)
    loses_stamps = report.kind.is_keyed and value.had_stamps and not value.gets_stamps
    lived = report.becomes.former_time_to_live if report.becomes is not None and loses_stamps else None
    if recoding is not None and at is not None and _switches(report):
        recoding = _at_time(recoding, at, lived, stamps_nulls=value.stamps_nulls)
    return StatePlan(
        name, report.kind, StateAction.CONVERT, old, new,
        recoding, _recoding(user_key[0], "") if user_key else None, findings, new_name, lived,
        _transformation(report), was.value.trust,
    )  # fmt: skip


def _at_time(recoding: Recoding, at: datetime, lived: timedelta | None, *, stamps_nulls: bool) -> Recoding:
    """Let stamps that a conversion gives be the reference time, and find what had expired by then."""
    convert = recoding.conversion
    conversion = None if convert is None else AtTime(milliseconds(at), convert)
    expired = milliseconds(at) - length_ms(lived) if lived is not None else None
    null_stamp = milliseconds(at) if stamps_nulls else None
    return attrs.evolve(recoding, conversion=conversion, expired_until_ms=expired, null_stamp_ms=null_stamp)


def _transformation(report: StateReport) -> Transformation | None:
    given = report.becomes.transform if report.becomes is not None and report.transform else None
    return Transformation(given.old_kind, given.name, given.function) if given is not None else None


def _recoding(part: Part, converter: str) -> Recoding | None:
    """How a part is rewritten; None where its bytes stay valid for the new serializer as it is."""
    if part.reader is None:
        return None
    return Recoding(
        part.step,
        part.reader.reader,
        str(part.reader.source),
        part.result.conversion,
        part.new,
        part.nullable,
        converter,
    )


def _refusal(report: CheckReport) -> IncompatibleState:
    lines: list[str] = []
    ways_out: list[str] = []
    for operator, state, finding in report.findings():
        if finding.verdict is Verdict.INCOMPATIBLE or finding.forbidden:
            what = f"state {state.name!r}" if state else "the key"
            lines.append(f"  operator {operator.title}, {what}: {finding_line(finding)}")
            ways_out += finding.ways_out
    return IncompatibleState(
        "\n".join([f"{report.new.origin} cannot take over {report.old.origin}", *lines]),
        advice="; or ".join(dict.fromkeys(ways_out)),
        written="Nothing was changed.",
    )


def to_data(migration: MigrationPlan) -> dict[str, Any]:
    """Give the plan as plain data, for `--json` and for the lineage. Equal plans give equal data."""
    return {
        "source": migration.source,
        "job": migration.job,
        "target": str(migration.target),
        "max_parallelism": migration.max_parallelism or None,
        "reference_time": time_text(migration.reference_time) if migration.reference_time else None,
        "empty": migration.is_empty,
        "operators": [
            {
                "operator_id": operator.operator_id,
                "uid": operator.uid,
                "new_operator_id": operator.new_id or None,
                "action": str(operator.action),
                "relabels_key": operator.relabels_key,
                "reframed": operator.is_reframed,
                "parallelism": operator.parallelism or None,
                "compression": str(operator.compression),
                "bad_values": str(operator.bad_values),
                "max_parallelism": operator.max_parallelism or None,
                "rekeying": None if operator.rekeying is None else rekeying_data(operator.rekeying),
                "states": [_state_data(state) for state in operator.states],
            }
            for operator in migration.operators
        ],
    }


def rekeying_data(rekeying: Rekeying) -> dict[str, Any]:
    """Say how keys are written anew, as plain data."""
    key = rekeying.key
    return {
        "key": rekeying.serializer.describe(),
        "reader": None if key is None else key.source,
        "converter": None if key is None else key.converter or None,
        "merges": {state: merging.merge.name for state, merging in rekeying.merges},
        "flags": [{"path": finding.path, "flag": flag} for finding in rekeying.findings for flag in finding.flags],
        "findings": [finding_data(finding) for finding in rekeying.findings],
    }


def _state_data(state: StatePlan) -> dict[str, Any]:
    pieces = [piece for piece in (state.user_key, state.value) if piece is not None]
    return {
        "name": state.name,
        "new_name": state.new_name or None,
        "kind": str(state.kind),
        "action": str(state.action),
        "old": state.old.value.describe(),
        "new": state.new.value.describe(),
        "old_snapshots_sha256": state.old.digest(),
        "new_snapshots_sha256": state.new.digest(),
        "rewrites": [
            {
                "path": "$" + piece.step,
                "reader": piece.source,
                "converter": piece.converter or None,
            }
            for piece in pieces
        ],
        "former_time_to_live_s": state.former_time_to_live.total_seconds() if state.former_time_to_live else None,
        "transform": {"name": state.transform.name, "from": str(state.transform.old_kind)} if state.transform else None,
        "trusts": list(state.trust),
        "drops": list(state.drops),
        "flags": [{"path": path, "flag": flag} for path, flag in state.flags],
        "findings": [finding_data(finding) for finding in state.findings],
    }
