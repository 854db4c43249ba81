"""The report of a check: a decision for every state, for every operator, and for the whole job."""

from __future__ import annotations

import enum
from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs

from ..serializers.compatibility import CompatibilityResult, Decision, Flag, Verdict
from ..serializers.displayed import Displayed
from ..serializers.wording import many, repr_of
from .description import StateKind
from .header_snapshots import Labels, labels_after
from .policy import ACCEPT_ALL, Policy
from .scan_report import condition, place_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..serializers.compatibility import Finding
    from ..serializers.serializer import TypeSerializer
    from ..serializers.ways_out import Told
    from .description import Computation, JobDescription, OperatorDescription, StateDescription
    from .entry_samples import EntrySamples
    from .old_reader import OldReader
    from .parts import Part
    from .repartition import Merge, Repartition
    from .scan_report import ScannedState, ScanReport
    from .targets import Target

_EXIT_START, _EXIT_REFUSE, _EXIT_MIGRATE, _EXIT_PARTIAL = 0, 1, 4, 8
_ORDER = (Decision.START, Decision.MIGRATE, Decision.REFUSE)


class Status(enum.StrEnum):
    """The sides that have a state or operator."""

    MATCHED = "matched"
    ORPHANED = "orphaned"
    NEW = "new"
    UNREADABLE = "unreadable"
    NOT_IN_PROBE = "not_in_probe"
    DROPPED = "dropped"

    @property
    def words(self) -> str:
        """The status in words, for people."""
        return _STATUS_WORDS[self]


_STATUS_WORDS = {
    Status.MATCHED: "in both",
    Status.ORPHANED: "only in the stored state: kept",
    Status.NEW: "only in the job: starts empty",
    Status.UNREADABLE: "not readable in the savepoint",
    Status.NOT_IN_PROBE: "not in the probe: kept",
    Status.DROPPED: "dropped, as requested",
}


def worst_decision(decisions: Iterable[Decision]) -> Decision:
    """Return the worst of several decisions; `start` if there are none."""
    return max(decisions, key=_ORDER.index, default=Decision.START)


@attrs.frozen
class RoleReport:
    """The check of a serializer in its role: the key of an operator, or the namespace of a state; or of key groups.

    Attributes:
        result: The result under the rules of the role, with paths such as `$<key>`.
        decision: The decision; `migrate` also if only the header has to be rewritten.
        old: The stored type.
        new: The new type.
        reader: The reader of stored keys that are rewritten; None if their bytes stay.
        converter: The name of the operator's function that converts keys, or "".
    """

    result: CompatibilityResult[Any]
    decision: Decision
    old: str
    new: str
    reader: OldReader | None = None
    converter: str = ""

    def __repr__(self) -> str:
        return repr_of(self, f"{self.new or self.old}: {_judged(self.decision, self.result)}")


def _judged(decision: Decision, result: CompatibilityResult[Any]) -> str:
    found = f", {many(len(result.findings), 'finding')}" if result.findings else ""
    return f"{decision} ({result.verdict.label}{found})"


@attrs.frozen
class StateReport:
    """The check of one state.

    Attributes:
        name: The name of the state.
        kind: The kind of the state, on the new side if both sides have it.
        status: The sides that have the state.
        result: The result for namespace and values together: the worst verdict and all findings.
        decision: The decision for this state.
        note: A remark that the verdict does not express, or "".
        namespace: The result for the namespace alone; None if it was not compared.
        values: The result for the values alone, with conversion or reconfigured copy; None if they were not compared.
        parts: The parts of an entry that a migration reads and writes.
        was: The state on the old side; None for a new state.
        becomes: The state on the new side; None for an orphaned state.
        joined: The snapshots of the one table that a migration makes of all tables of the state (`lazy_tables`); None:
            it makes none.
    """

    name: str
    kind: StateKind
    status: Status
    result: CompatibilityResult[Any]
    decision: Decision
    note: str = ""
    namespace: RoleReport | None = None
    values: CompatibilityResult[Any] | None = None
    parts: tuple[Part, ...] = ()
    was: StateDescription | None = None
    becomes: StateDescription | None = None
    joined: Labels | None = None

    @classmethod
    def refusing(
        cls,
        status: Status,
        finding: Finding,
        was: StateDescription | None = None,
        becomes: StateDescription | None = None,
    ) -> StateReport:
        """Return the report on a state of one or both sides that a finding refuses."""
        side = becomes or was
        assert side is not None  # noqa: S101 - it is of a side
        result: CompatibilityResult[Any] = CompatibilityResult.incompatible(finding)
        return cls(side.name, side.kind, status, result, Decision.REFUSE, was=was, becomes=becomes)

    def refused(self, finding: Finding) -> StateReport:
        """Return the report with a refusal in place of its result."""
        return attrs.evolve(self, result=CompatibilityResult.incompatible(finding), decision=Decision.REFUSE)

    def __repr__(self) -> str:
        return repr_of(self, f"{self.name} {self.kind}: {_judged(self.decision, self.result)}")

    @property
    def old(self) -> str:
        """The stored type in words, or ""."""
        return self.was.describe() if self.was else ""

    @property
    def new(self) -> str:
        """The new type in words, or ""."""
        return self.becomes.describe() if self.becomes else ""

    @property
    def reader(self) -> str:
        """The source of the reader of the old values (rule READ-5), or "" if nothing is read."""
        sources = [str(part.reader.source) for part in self.parts if part.reader is not None]
        return ", ".join(dict.fromkeys(sources))

    @property
    def labels_after(self) -> Labels | None:
        """The snapshots in the state's metadata after a migration; None if it has none, or is refused."""
        if self.was is None or self.result.is_incompatible():
            return None
        if self.joined is not None:
            return self.joined
        if self.becomes is None or self.values is None:
            return Labels.of(self.was)
        namespace = self.namespace.result if self.namespace else None
        return labels_after(self.was, self.becomes, self.values, namespace, self.parts)

    @cached_property
    def is_flink_after(self) -> bool:
        """Whether Flink knows all snapshots in the state's metadata after a migration."""
        return all(label.is_flink for label in self.labels_after or ())

    @property
    def transform(self) -> str:
        """The name of the transform to another kind, or "" (rule STATE-2)."""
        given = self.becomes.transform if self.becomes else None
        is_used = given is not None and self.was is not None and self.was.kind is given.old_kind and self.parts
        return given.name if given is not None and is_used else ""

    @property
    def serializer_after(self) -> TypeSerializer[Any]:
        """The serializer of a stored state's values after a migration; raises `OldReaderUnavailable`."""
        assert self.was is not None  # noqa: S101 - a new state has no values
        if self.becomes is None or self.values is None:
            return self.was.value.new_side()
        is_copy = self.values.is_compatible_after_reconfiguration()
        return self.values.reconfigured_serializer if is_copy else self.becomes.value.new_side()

    @property
    def converter(self) -> str:
        """The name of the converter, or ""."""
        given = self.becomes.value.converter if self.becomes and not self.transform else None
        return given.name if given is not None and self.decision is Decision.MIGRATE and self._is_converted else ""

    @property
    def _is_converted(self) -> bool:
        return bool(self.parts) and self.parts[-1].result.is_migration_required()


@attrs.frozen
class OperatorReport:
    """The check of one operator.

    Attributes:
        operator_id: The id, as 32 hexadecimal digits.
        uid: The uid, from the side that knows it, or "".
        name: The display name, from the side that knows it, or "".
        status: The sides that have the operator.
        key: The check of the key, if both sides have one.
        states: The checks of all states of both sides, by name.
        flink_restorable_before: Whether Flink knows every stored snapshot; None if this is not known.
        flink_restorable_after: The same after the migration.
        was: The operator on the old side; None for a new operator.
        becomes: The operator on the new side; None for an orphaned one.
        max_parallelism: The new number of key groups, if it changes; else 0.
        key_groups: The check of the number of key groups, if there is anything to say of it (ROLE-6).
        likely_uid: The uid or id of the stored operator that this new one probably is (rule STATE-7), or "".
        whole: What is found on the operator itself, and on no state of it: another number, other rows that come in,
            another mode; None if nothing is (SPK-12 to SPK-21).
        merges: The merge functions for the values of colliding keys, by state.
    """

    operator_id: str
    uid: str
    name: str
    status: Status
    key: RoleReport | None = None
    states: tuple[StateReport, ...] = ()
    flink_restorable_before: bool | None = None
    flink_restorable_after: bool | None = None
    was: OperatorDescription | None = None
    becomes: OperatorDescription | None = None
    max_parallelism: int = 0
    merges: tuple[tuple[str, Merge], ...] = ()
    key_groups: RoleReport | None = None
    likely_uid: str = ""
    whole: RoleReport | None = None

    def __repr__(self) -> str:
        return repr_of(self, f"{self.title}: {self.decision}, {self.status.words}, {many(len(self.states), 'state')}")

    @property
    def is_rekeyed(self) -> bool:
        """Whether all keyed state and timers are rewritten, under new keys or in other key groups (ROLE-4)."""
        key = self.key
        return key is not None and (key.result.is_migration_required() or bool(self.max_parallelism))

    @property
    def roles(self) -> tuple[RoleReport, ...]:
        """The checks that are of the operator, and not of one of its states."""
        return tuple(role for role in (self.key, self.key_groups, self.whole) if role is not None)

    @property
    def title(self) -> str:
        """The name for messages: its number and kind in a query; else the uid, else the id."""
        (*_, computes) = (None, *self.computations)
        return computes.title if computes is not None else self.uid or self.operator_id

    @property
    def computations(self) -> tuple[Computation, ...]:
        """What it computed, and what it computes now, as far as the sides are of queries."""
        sides = (self.was, self.becomes)
        return tuple(one.computation for one in sides if one is not None and one.computation is not None)

    @property
    def started_by_mistake(self) -> tuple[StateReport, ...]:
        """The states that would start empty because the uid is probably another one than the stored operator's."""
        refused = (state for state in self.states if state.decision is Decision.REFUSE and self.likely_uid)
        return tuple(one for one in refused if any(finding.rule == "STATE-7" for finding in one.result.findings))

    @property
    def is_another(self) -> bool:
        """Whether both sides have states but none in common, so that the uid may now be that of another operator."""
        states = [state for state in self.states if state.kind is not StateKind.TIMERS]
        kept = [state for state in states if state.becomes is None]
        started = [state for state in states if state.was is None]
        is_likely = any(finding.rule == "STATE-7" for state in started for finding in state.result.findings)
        return bool(kept and started) and len(kept) + len(started) == len(states) and not is_likely

    @property
    def is_renumbered(self) -> bool:
        """Whether it gets another id or number of key groups, so that its files change whatever its states do."""
        return bool(self.max_parallelism) or (self.was is not None and bool(self.was.stored_id))

    @property
    def decision(self) -> Decision:
        """The worst decision of the key, the number of key groups, and the states."""
        key = [role.decision for role in self.roles]
        if self.is_renumbered:
            key.append(Decision.MIGRATE)
        return worst_decision([*key, *(state.decision for state in self.states)])


@attrs.frozen
class CheckReport(Displayed):
    """The result of a check: whether the job can start on the stored state.

    Attributes:
        old: The description of the stored side.
        new: The description of the new side.
        target: The system that is to restore the state.
        operators: The reports on all operators of both sides, by uid and id.
        policy: The policy that was applied.
        repartition: The options for rewritten keys; None: keys may not be rewritten.
        code: The recorded declarations of the old job, which wrote the stored state, if known; the way back leads to
            it.
        is_recorded: Whether the new side is recorded beside them: the way back then knows what it has renamed.
        scanned: The answers of a scan of the stored values; None if there was none.
        reads: What is found on the sources and tables that both sides read, and on what is not known of the old side;
            None if nothing is, or it is no query.
        known_from: From where it is known what the old query computed, in words; "": it is not.
        is_whole: Whether it is known of all that is stored.
        not_compared: What was not compared, a line each.
        next_command: The migration with the first way out of each finding; "": there is none, or something is to be
            said first that nobody else knows. Only of queries.
        next_options: The options of that command that the ways out name, as data.
        next_asks: What a trial of that command asked for beyond it, a line each; then there is no such command.
        samples: Entries before and after, if they were asked for.
    """

    old: JobDescription
    new: JobDescription
    target: Target
    operators: tuple[OperatorReport, ...]
    policy: Policy = ACCEPT_ALL
    repartition: Repartition | None = None
    code: JobDescription | None = None
    is_recorded: bool = False
    scanned: ScanReport | None = None
    reads: RoleReport | None = None
    known_from: str = ""
    is_whole: bool = False
    not_compared: tuple[str, ...] = ()
    next_command: str = ""
    next_options: tuple[Told, ...] = ()
    next_asks: tuple[str, ...] = ()
    samples: EntrySamples | None = attrs.field(default=None, repr=False)

    def __repr__(self) -> str:
        counted = ", ".join(f"{count:,} {decision}" for decision, count in self.counts.items() if count) or "none"
        told = f"{self.decision}; states: {counted}; {many(sum(1 for _ in self.all_findings()), 'finding')}"
        return repr_of(self, told, f"from {self.old.origin}", f"to {self.new.origin}")

    @property
    def decision(self) -> Decision:
        """The worst decision of all operators; `refuse` if a scan found values that would fail."""
        if self.scanned is not None and self.scanned.failing:
            return Decision.REFUSE
        whole = () if self.reads is None else (self.reads.decision,)
        return worst_decision((*whole, *(operator.decision for operator in self.operators)))

    @property
    def condition(self) -> str:
        """The condition under which the answer holds, as far as no scan has answered it; "" if there is none."""
        if self.scanned is None:
            return condition(self.all_findings())
        found = ((finding, self.scan_of(operator, state)) for operator, state, finding in self.findings())
        return condition(finding for finding, answer in found if answer is None or not answer.is_fine)

    def scan_of(self, operator: OperatorReport, state: StateReport | None) -> ScannedState | None:
        """Return the answer of the scan for a state, or for the key of an operator; None if there is none."""
        return None if self.scanned is None else self.scanned.of(place_of(operator, state))

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of all keys and states."""
        results = (state.result.verdict for _, state in self.states())
        keys = (role.result.verdict for operator in self.operators for role in operator.roles)
        reads = () if self.reads is None else (self.reads.result.verdict,)
        return max([*results, *keys, *reads], default=Verdict.COMPATIBLE)

    @property
    def counts(self) -> dict[Decision, int]:
        """The number of states by decision."""
        counts = dict.fromkeys(Decision, 0)
        for _, state in self.states():
            counts[state.decision] += 1
        return counts

    @property
    def is_partial(self) -> bool:
        """Whether it is refused only because aggregates of Flink SQL would begin now, where others go on (SQL-15)."""
        refusing = [one for one in self.all_findings() if one.forbidden or one.verdict.decision is Decision.REFUSE]
        return bool(self.policy.asks) and bool(refusing) and all(one.forbidden == (Flag.PARTIAL,) for one in refusing)

    @property
    def is_of_query(self) -> bool:
        """Whether the sides are of a query, whose operators compute what is known or not known of them."""
        return self.reads is not None or any(operator.computations for operator in self.operators)

    def states(self) -> Iterator[tuple[OperatorReport, StateReport]]:
        """Return all states, each with its operator."""
        return ((operator, state) for operator in self.operators for state in operator.states)

    def all_findings(self) -> Iterator[Finding]:
        """Yield all findings: those on what a query reads, then those on its operators."""
        if self.reads is not None:
            yield from self.reads.result.findings
        yield from (finding for *_, finding in self.findings())

    def findings(self) -> Iterator[tuple[OperatorReport, StateReport | None, Finding]]:
        """Yield the findings on operators, with operator and state; those on no state come without one."""
        for operator in self.operators:
            for role in (operator.key, operator.key_groups, *operator.states, operator.whole):
                if role is not None:
                    state = role if isinstance(role, StateReport) else None
                    yield from ((operator, state, finding) for finding in role.result.findings)

    @property
    def not_taken(self) -> tuple[tuple[OperatorReport, StateReport], ...]:
        """Stored states that the new side does not have, except for timers, which jobs need not declare."""
        found = [(operator, state) for operator, state in self.states() if state.status is Status.ORPHANED]
        return tuple(one for one in found if one[1].kind is not StateKind.TIMERS)

    @property
    def new_states(self) -> tuple[tuple[OperatorReport, StateReport], ...]:
        """States that only the new side has."""
        return tuple(one for one in self.states() if one[1].status is Status.NEW)

    @property
    def starting_empty(self) -> tuple[tuple[OperatorReport, StateReport], ...]:
        """Those of them that the policy does not allow to start empty."""
        return tuple(one for one in self.new_states if not self.policy.allows_empty(one[0], one[1].name))

    def exit_status(
        self,
        *,
        allow_migration: bool = False,
        allow_non_restored_state: bool = False,
        require_recording: bool = False,
    ) -> int:
        """Return the exit status of a check: 0 start, 1 refuse, 4 if something has to be done or reviewed first.

        It is 8 if the check refuses only what `--allow-partial` allows.

        Args:
            allow_migration: Whether a required, possible migration is accepted.
            allow_non_restored_state: Whether stored state that the job does not take is accepted.
            require_recording: Whether it is to be known of all that is stored what the old query computed.
        """
        if self.decision is Decision.REFUSE:
            return _EXIT_PARTIAL if self.is_partial else _EXIT_REFUSE
        migrates = self.decision is Decision.MIGRATE and not allow_migration
        is_left = bool(self.not_taken) and not allow_non_restored_state
        lacks = require_recording and not self.is_whole
        return _EXIT_MIGRATE if migrates or is_left or lacks or self.starting_empty else _EXIT_START
