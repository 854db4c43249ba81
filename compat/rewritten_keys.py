"""The check of rewritten keys: whether they may be rewritten, and the consequences for the states of the operator.

All states of an operator share its key, so a run moves all of them to new key groups. Source: rule ROLE-4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ..serializers.compatibility import CompatibilityResult, Decision, Finding, Flag, Verdict
from ..serializers.errors import DeclarationError, OldReaderUnavailable
from ..serializers.flink.namespaces import TimerSerializerSnapshot
from ..serializers.ways_out import Option, Told
from .description import StateKind
from .header_snapshots import label_after
from .key_hashes import MAX_KEY_GROUPS, is_stable
from .report import RoleReport, Status, worst_decision
from .roles import BY_REPARTITION, KEEP, KEY, NAMESPACE

if TYPE_CHECKING:
    from ..serializers.snapshot import TypeSerializerConfigSnapshot
    from ..serializers.ways_out import WayOut
    from .description import JobDescription, OperatorDescription, StateDescription
    from .repartition import Merge, Repartition
    from .report import OperatorReport, StateReport
    from .targets import Target

_RULE = "ROLE-4"
_NOTE = "rekeyed, with all state of its operator"
_KEEP_GROUPS = "leave its max parallelism as it is"
_GROUPS_RULE, OPERATOR = "ROLE-6", "$<operator>"
_FLINKS_LEAST = 128


@attrs.frozen
class RekeyingOptions:
    """The caller's options for rewritten keys, by operator. Create it with `of`."""

    repartition: Repartition | None
    _stored: JobDescription
    _merges: dict[tuple[str, str], Merge]

    @classmethod
    def of(cls, repartition: Repartition | None, stored: JobDescription) -> RekeyingOptions:
        """Return the options; raises the errors of `Repartition.require_known`."""
        if repartition is None:
            return cls(None, stored, {})
        repartition.require_known(stored)
        return cls(repartition, stored, repartition.merges(stored))

    @property
    def allowed(self) -> bool:
        """Whether keys may be rewritten."""
        return self.repartition is not None

    def groups(self, was: OperatorDescription) -> int:
        """Return the new number of key groups of an operator, if it changes; else 0."""
        return 0 if self.repartition is None else self.repartition.key_groups(was)

    def merges(self, was: OperatorDescription) -> tuple[tuple[str, Merge], ...]:
        """Return the merge functions for colliding keys, by state of an operator."""
        return tuple((state, merge) for (owner, state), merge in self._merges.items() if owner == was.operator_id)

    def require_kept(self, was: OperatorDescription) -> None:
        """Refuse a number of key groups for an operator that is not in the job, and so is kept as it is.

        Raises:
            DeclarationError: The caller names the operator.
        """
        if self.repartition is not None and self.repartition.names(was):
            raise DeclarationError.before_writing(
                f"the operator {was.uid or was.operator_id!r} is not in the job, so it keeps its "
                f"{was.max_parallelism} key groups",
                advice="name operators of the job; or migrate without a job, which keeps all types",
            )

    def judge_groups(
        self, was: OperatorDescription, becomes: OperatorDescription, new: JobDescription
    ) -> RoleReport | None:
        """Judge the number of key groups that the state will have, against that of the new side (rule ROLE-6).

        Flink refuses state with another number than a job sets, and takes over the stored one if it sets none. The
        number of a probe may be either: one that its job sets, or one that Flink derived from the parallelism.
        """
        after, number = self.groups(was) or was.max_parallelism, becomes.max_parallelism
        is_refused = is_asked = False
        if after and number and after != number:
            is_refused = becomes.declares_key_groups
            is_asked = not is_refused and new.is_probe
        findings = []
        if is_refused:
            findings.append(Finding(
                OPERATOR, _GROUPS_RULE, Verdict.INCOMPATIBLE, f"{after:,}", f"{number:,}",
                "Flink refuses state with another max parallelism than the job sets",
                (f"set max parallelism {after} in the job", _migrate_to(number)),
            ))  # fmt: skip
        if is_asked:
            findings.append(Finding(
                OPERATOR, _GROUPS_RULE, Verdict.COMPATIBLE, f"{after:,}", f"{number:,}",
                f"Flink refuses the state if the job sets {number:,}, which Flink "
                f"{_derives(number, becomes.parallelism)}; if the job sets none, Flink takes over {after:,}",
                (f"set max parallelism {after} in the job, or none", _migrate_to(number)), (Flag.UNVERIFIED,),
            ))  # fmt: skip
        if parted := self._parted(was):
            names = ", ".join(other.uid or other.operator_id for other in parted)
            findings.append(Finding(
                OPERATOR, _GROUPS_RULE, Verdict.COMPATIBLE, f"{was.max_parallelism:,}", f"{after:,}",
                f"no longer the number of {names}: Flink loses keys, or fails, if they are chained to this operator",
                ("give operators that are chained together the same max parallelism",), (Flag.UNVERIFIED,),
            ))  # fmt: skip
        if not findings:
            return None
        verdict = Verdict.INCOMPATIBLE if is_refused else Verdict.COMPATIBLE
        result: CompatibilityResult[Any] = CompatibilityResult(verdict, tuple(findings))
        return RoleReport(result, verdict.decision, findings[0].old, findings[0].new)

    def _parted(self, was: OperatorDescription) -> list[OperatorDescription]:
        """Return the other operators that have the same number of key groups now, and another one afterwards.

        Operators that are chained together have the same number.
        """
        if self.repartition is None or not (after := self.groups(was)):
            return []
        same = (other for other in self._stored.operators if other.max_parallelism == was.max_parallelism)
        return [other for other in same if (self.groups(other) or other.max_parallelism) != after]

    def unknown_key(self, was: OperatorDescription) -> RoleReport | None:
        """Refuse new key groups for an operator whose keys are not known; return None if it needs none."""
        if was.key is not None or not self.groups(was):
            return None
        why = was.unreadable or was.bound
        if not why:
            return None  # no keyed state: only the number of key groups changes
        return _refused(
            "(unreadable)" if was.unreadable else "", "", f"its keys cannot be changed: {why}", _KEEP_GROUPS
        )

    def judge(
        self, role: RoleReport, was: OperatorDescription, becomes: OperatorDescription, target: Target
    ) -> RoleReport:
        """Judge a key after the check of its type: whether its state can move to another key group, if it has to.

        Raises:
            OldReaderUnavailable: The stored keys cannot be read.
        """
        groups = self.groups(was)
        assert was.key is not None and becomes.key is not None  # noqa: S101, PT018 - its type was judged before
        if role.result.is_incompatible() or not (groups or role.result.is_migration_required()):
            return role
        if why := was.bound or was.unreadable:
            return _refused(role.old, role.new, f"its keys cannot be changed: {why}", KEEP, _KEEP_GROUPS)
        was.key.snapshot.restore_serializer()  # needed to find the end of a stored key
        label = label_after(role.result, was.key, becomes.key)
        for_flink = target.is_flink or (was.is_flink_restorable and becomes.is_flink_restorable)
        if for_flink and not is_stable(label):
            reason = f"{label.describe()} has no hash that is the same in every JVM, so Flink would not find the keys"
            return _refused(role.old, role.new, reason, "key by numbers, strings, booleans, or tuples, lists, rows")
        if not groups:
            return role
        finding = Finding(
            "$" + KEY, _RULE, Verdict.REQUIRES_MIGRATION, f"{was.max_parallelism:,} key groups", f"{groups:,}",
            "every key gets a new key group", (BY_REPARTITION, _KEEP_GROUPS),
        )  # fmt: skip
        result = attrs.evolve(role.result, findings=(finding, *role.result.findings))
        return attrs.evolve(role, result=result, decision=Decision.MIGRATE)


def _migrate_to(number: int) -> WayOut:
    return attrs.evolve(BY_REPARTITION, told=(*BY_REPARTITION.told, Told.of(Option.MAX_PARALLELISM, number)))


def _derives(number: int, parallelism: int) -> str:
    """Return in words whether Flink derives a number of key groups from a parallelism."""
    half_more = parallelism + parallelism // 2
    derived = min(max(1 << (half_more - 1).bit_length(), _FLINKS_LEAST), MAX_KEY_GROUPS)
    does = "derives" if number == derived else "does not derive"
    return f"{does} from the probe's parallelism {parallelism:,}"


def _refused(old: str, new: str, reason: str, *ways_out: WayOut | str) -> RoleReport:
    finding = Finding("$" + KEY, _RULE, Verdict.INCOMPATIBLE, old, new, reason, ways_out)
    return RoleReport(CompatibilityResult.incompatible(finding), Decision.REFUSE, old, new)


def rekeyed(report: OperatorReport) -> OperatorReport:
    """Return the report with all keyed states marked as moved; states whose entries cannot be split are refused."""
    return attrs.evolve(report, states=tuple(map(_rekeyed, report.states)))


def _rekeyed(state: StateReport) -> StateReport:
    was = state.was
    if was is None or not was.kind.is_keyed or was.is_dropped or state.decision is Decision.REFUSE:
        return state
    unknown = _unknown_end(was)
    if unknown is not None:
        finding = Finding(
            "$" + NAMESPACE, _RULE, Verdict.INCOMPATIBLE, was.describe(), state.new or was.describe(),
            f"the end of the key of an entry cannot be found: {unknown}", (KEEP, "drop the state"),
        )  # fmt: skip
        return attrs.evolve(state.refused(finding), values=None)
    note = "; ".join(
        filter(None, [state.note, _NOTE if state.status is Status.MATCHED else f"{_NOTE}; values as bytes"])
    )
    return attrs.evolve(state, decision=worst_decision([state.decision, Decision.MIGRATE]), note=note)


def _unknown_end(state: StateDescription) -> str | None:
    """Return the reason why the end of the namespace, which follows an entry's key, is not known; None if it is."""
    try:
        _namespace(state).restore_serializer()
    except OldReaderUnavailable as error:
        return error.what
    return None


def _namespace(state: StateDescription) -> TypeSerializerConfigSnapshot[Any]:
    snapshot = state.value.snapshot
    if state.kind is StateKind.TIMERS and isinstance(snapshot, TimerSerializerSnapshot):
        return snapshot.nested[1]
    return state.namespace.snapshot if state.namespace is not None else snapshot
