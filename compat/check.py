"""The compatibility check: it makes a decision for every state from two descriptions, an old and a new one.

Source: compatibility rules, sections 1 to 3, 8 and 10. It has no rules about types; each family of serializers has its
own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from ..serializers.compatibility import CompatibilityResult, Decision, Finding, Verdict, worst
from ..serializers.errors import DeclarationError, NothingInCommon, OldReaderUnavailable, located, shown
from ..serializers.serializer import KEEP_OLD_TYPE
from ..serializers.ways_out import Option, Told, WayOut
from .description import JobDescription, StateKind, uid_order
from .former_job import FormerJob
from .header_snapshots import Labels, label_after, label_declared, labels_after
from .kinds import is_transformed, judge, kind_changed
from .lazy_tables import judged_together, with_tables
from .memo import Memo
from .one_sided_states import with_likely_names
from .policy import ACCEPT_ALL, AskingPolicy, Policy
from .pyflink_names import may_be_of_pyflink
from .report import CheckReport, OperatorReport, RoleReport, StateReport, Status, worst_decision
from .rewritten_keys import RekeyingOptions, rekeyed
from .roles import KEY, NAMESPACE, along_with_key, judge_role, judge_timers
from .targets import Target, refused_by, unlike_flinks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..serializers.snapshot import TypeSerializerConfigSnapshot
    from .description import OperatorDescription, SerializerDescription, StateDescription
    from .repartition import Repartition

S = TypeVar("S")
T = TypeVar("T")

_HEADER_ONLY = "the bytes stay valid, but Flink itself can use them only under the new snapshot in the header"
_DONE_BY_FLINK = {"ENUM-2", "ENUM-3", "REC-14"}
"""Reconfigurations that Flink does by itself when it restores (tried: tests/interop/test_started.py)."""
_KEY_REFUSED = "not checked: the key of its operator is refused"


def check(
    old: JobDescription,
    new: JobDescription,
    *,
    target: Target = Target.AUTO,
    policy: Policy = ACCEPT_ALL,
    repartition: Repartition | None = None,
    known: Memo[tuple[Any, ...], Any] | None = None,
) -> CheckReport:
    """Decide whether `new` can take over the state that `old` describes.

    Args:
        old: The description of the stored state.
        new: The description of the job, or of another savepoint, that is to take it over. Its serializers are asked;
            neither side changes (rules V-1, V-2).
        target: The system that is to restore the state, operator by operator. Flink accepts bytes that stay valid only
            under headers that it can use; `Target.FLINK` also refuses what Flink could no longer restore, and a target
            with a release refuses what that release cannot read.
        policy: Changes that are refused although the rules allow them (none by default), and states that may start
            empty although a similar stored state is left over (rule STATE-7).
        repartition: Permission to rewrite keys, and the new numbers of key groups (rule ROLE-4).
        known: Answers of earlier checks, reused where the keys and states of both sides are the same objects.

    Returns:
        A report on every operator and state of both sides.

    Raises:
        DeclarationError: A side is not a description; or the job that is said to have written the state did not.
        CompatibilityCheckError: A serializer failed during the check (rule V-6).
        StateNotFound, DeclarationError: `repartition` names a state or operator that does not exist or is not in the
            job.
        NothingInCommon: Both sides have operators, but none in common; or the new side is a probe without operators.
    """
    for side in (old, new):
        if not isinstance(side, JobDescription):
            raise DeclarationError(
                f"{shown(side)} is not a description", advice="call check(savepoint.describe(), job.describe())"
            )
    if new.upgrade is not None:
        from .sql.take_over import taken_over

        old, new = taken_over(old, new.upgrade)
    if new.former is not None:
        old = FormerJob.of(new.former).described(old)
    if may_be_of_pyflink(old) or may_be_of_pyflink(new):
        from .layouts import across_layouts

        old, new = across_layouts(old, new)
    if new.upgrade is not None and (asked := new.upgrade.asks()):
        policy = AskingPolicy(policy.forbid | asked, policy.allow_empty)
    new = with_tables(old, new)
    is_paired = new.upgrade is not None and new.upgrade.old is not None
    olds, news = ({operator.operator_id for operator in side.operators} for side in (old, new))
    if olds and (news or new.is_probe) and not olds & news and not is_paired:
        raise _nothing_in_common(old, new)
    reports = _operator_reports(old, new, target, RekeyingOptions.of(repartition, old), known or Memo())
    reports = with_likely_names(reports, policy)
    if new.upgrade is not None:
        from .sql.time_stamps import stamped_by_flink
        from .sql.ways_out import of_query

        version = new.upgrade.new.flink_version
        reports = [stamped_by_flink(of_query(one, is_old_known=is_paired), version) for one in reports]
    reports = list(map(policy.applied, reports))
    reports.sort(key=lambda report: uid_order(report.uid, report.operator_id))
    report = CheckReport(old, new, target, tuple(reports), policy, repartition)
    if new.upgrade is None:
        return report
    from .sql.query_findings import not_compared, query_findings

    before = new.upgrade.old
    return attrs.evolve(
        report, known_from="" if before is None else before.origin, is_whole=before is not None,
        reads=_role(query_findings(new.upgrade)), not_compared=not_compared(new.upgrade),
    )  # fmt: skip


def _operator_reports(
    old: JobDescription,
    new: JobDescription,
    target: Target,
    rekeying: RekeyingOptions,
    known: Memo[tuple[Any, ...], Any],
) -> list[OperatorReport]:
    """Return the reports on the operators of both sides: those that are stored, and then those that begin."""
    theirs = {operator.operator_id: operator for operator in new.operators}
    left = Status.NOT_IN_PROBE if new.is_probe else Status.ORPHANED
    reports = []
    for was in old.operators:
        becomes = theirs.pop(was.operator_id, None)
        if becomes is None:
            rekeying.require_kept(was)
            reports.append(_left(was, left, target, old.stored_by))
        else:
            of = target.of(was, becomes)
            matched = _Matched(was, becomes, of, left, old.stored_by, rekeying, known).report()
            reports.append(attrs.evolve(matched, key_groups=rekeying.judge_groups(was, becomes, new)))
    return reports + [_started(becomes) for becomes in theirs.values()]


def _nothing_in_common(old: JobDescription, new: JobDescription) -> NothingInCommon:
    theirs, ours = (", ".join(op.uid or op.operator_id for op in side.operators) or "none" for side in (old, new))
    if new.is_probe:
        return NothingInCommon.before_writing(
            f"the probe {new.origin} has no operator in common with {old.origin}: its operators with state are "
            f"{ours}; the savepoint has {theirs}",
            advice="take the probe from the new version of the same job, with the same uids, after each state was "
            "used once",
        )
    if new.upgrade is not None:
        way = WayOut("give the plan that wrote it, by which operators are paired:", (Told(Option.OLD_PLAN),))
        return NothingInCommon.before_writing(
            f"the query of {new.origin} has no operator in common with {old.origin}: its operators are {ours}; the"
            f" savepoint has {theirs}",
            advice=(way,),
        )
    return NothingInCommon.before_writing(
        f"{new.origin} has no operator in common with {old.origin}: it declares {ours}; the savepoint has {theirs}",
        advice=(
            "use the stored uids in the job",
            WayOut.telling("if an operator has a new uid:", Option.RENAME_UID, "OLD", "NEW"),
        ),
    )


def _left(was: OperatorDescription, status: Status, target: Target, stored_by: str) -> OperatorReport:
    """Report an operator that the new side does not have; its states are kept."""
    restorable = was.is_flink_restorable
    states = tuple(_kept(state, status, target, stored_by) for state in _by_name(was.states))
    return OperatorReport(was.operator_id, was.uid, was.name, status, None, states, restorable, restorable, was=was)


def _started(becomes: OperatorDescription) -> OperatorReport:
    states = tuple(_new(state) for state in _by_name(becomes.states))
    restorable = becomes.is_flink_restorable
    return OperatorReport(
        becomes.operator_id, becomes.uid, becomes.name, Status.NEW, None, states, None, restorable, becomes=becomes,
        whole=_role(becomes.findings),
    )  # fmt: skip


def _role(found: tuple[Finding, ...]) -> RoleReport | None:
    """Return what is found on an operator itself, or on the whole; None if nothing is."""
    if not found:
        return None
    result: CompatibilityResult[Any] = CompatibilityResult(worst([one.verdict for one in found]), found)
    return RoleReport(result, result.verdict.decision, "", "")


def _kept(state: StateDescription, status: Status, target: Target, stored_by: str) -> StateReport:
    compatible: CompatibilityResult[Any] = CompatibilityResult.compatible()
    if state.is_dropped:
        return StateReport(state.name, state.kind, Status.DROPPED, compatible, Decision.MIGRATE, was=state)
    words = state.describe()
    snapshots = [part.snapshot for part in state.serializers() if part.snapshot.is_flink]
    refused = refused_by(target, stored_by, snapshots, words, words)
    if refused is not None:
        return StateReport.refusing(status, refused, state)
    decision, note = (Decision.MIGRATE, _renamed(state)) if state.stored_name else (Decision.START, "")
    return StateReport(state.name, state.kind, status, compatible, decision, note, was=state)


def _renamed(state: StateDescription) -> str:
    return f"stored as {state.stored_name!r}; it gets its new name in the header"


def _new(state: StateDescription) -> StateReport:
    return StateReport(
        state.name, state.kind, Status.NEW, CompatibilityResult.compatible(), Decision.START, becomes=state
    )


def _by_name(states: tuple[StateDescription, ...]) -> list[StateDescription]:
    return sorted(states, key=lambda state: (state.name, state.kind))


def paired(
    old: tuple[StateDescription, ...], new: tuple[StateDescription, ...]
) -> Iterator[tuple[StateDescription | None, StateDescription | None]]:
    """Pair states of an operator by name within their name scope: a keyed and an operator state may share a name.

    The remaining states are paired by name alone: a state in another scope has changed its kind (STATE-1), and is not
    lost.
    """
    left = {(state.kind.scope, state.name): state for state in _by_name(old)}
    unmatched = []
    for becomes in _by_name(new):
        was = left.pop((becomes.kind.scope, becomes.name), None)
        if was is None:
            unmatched.append(becomes)
        else:
            yield was, becomes
    for becomes in unmatched:
        place = next((place for place in left if place[1] == becomes.name), None)
        yield (left.pop(place) if place else None), becomes
    for gone in left.values():
        yield gone, None


@attrs.frozen
class _Matched:
    """The check of an operator that exists on both sides."""

    was: OperatorDescription
    becomes: OperatorDescription
    target: Target
    left: Status
    stored_by: str
    rekeying: RekeyingOptions
    known: Memo[tuple[Any, ...], Any]

    def report(self) -> OperatorReport:
        uid, name = self.was.uid or self.becomes.uid, self.becomes.name or self.was.name
        with located(operator=uid or self.was.operator_id):
            key = self._once(self._key, self.was.key, self.becomes.key)
            groups = self.rekeying.groups(self.was)
            pairs = paired(self.was.states, self.becomes.states)
            states = sorted(
                (self._known_state(old, new, key) for old, new in pairs),
                key=lambda state: (state.name, state.kind),
            )
            states = list(judged_together(states, is_rekeyed=key is not None and key.reader is not None))
        report = OperatorReport(
            self.was.operator_id, uid, name, Status.MATCHED, key, tuple(states),
            self.was.is_flink_restorable, self._restorable_after(key, states), self.was, self.becomes,
            groups, self.rekeying.merges(self.was), whole=_role(self.becomes.findings),
        )  # fmt: skip
        return rekeyed(report) if report.is_rekeyed else report

    def _once(self, ask: Callable[[], T], *about: Any) -> T:
        """Return the answer about some objects, asking only if it is not known."""
        if self.rekeying.allowed:
            return ask()
        facts = self.target, self.left, self.stored_by, self.was.is_flink_restorable
        key = (*map(id, about), *facts, self.was.unreadable, self.becomes.unreadable)
        answer: T = self.known.once(key, lambda: (about, ask()))[1]  # kept alive, so that ids stay unique
        return answer

    def _known_state(
        self, old: StateDescription | None, new: StateDescription | None, key: RoleReport | None
    ) -> StateReport:
        """Report a state; the report is shared by states that differ only in their names."""
        if old is None or new is None or StateKind.TIMERS in {old.kind, new.kind}:
            return self._state(old, new, key)

        def alike() -> StateReport:
            found = self._once(lambda: self._state(old, new, key), *old.likeness, *new.likeness, key)
            return attrs.evolve(found, name=new.name, was=old, becomes=new)

        return self._once(alike, old, new, key)

    def _key(self) -> RoleReport | None:
        old, new = self.was.key, self.becomes.key
        if old is None or new is None:
            return self.rekeying.unknown_key(self.was)
        try:
            role = judge_role(old, new, KEY, repartition=self.rekeying.allowed)
            role = self.rekeying.judge(role, self.was, self.becomes, self.target)
        except OldReaderUnavailable as error:
            result: CompatibilityResult[Any] = CompatibilityResult.incompatible(_not_judged(new, error, KEY))
            return RoleReport(result, Decision.REFUSE, old.describe(), new.describe())
        return self._for_target(role, old, new, KEY)

    def _state(self, old: StateDescription | None, new: StateDescription | None, key: RoleReport | None) -> StateReport:
        if new is None and old is not None and old.kind is StateKind.TIMERS and key is not None:
            assert self.becomes.key is not None  # noqa: S101 - it was judged before
            new = along_with_key(old, self.becomes.key, key.result)
        if new is None:
            assert old is not None  # noqa: S101 - a pair has at least one side
            return self._hidden(old) if self.becomes.unreadable else _kept(old, self.left, self.target, self.stored_by)
        with located(state=new.name):
            if old is not None and old.is_dropped:
                return attrs.evolve(
                    _kept(old, self.left, self.target, self.stored_by),
                    note="the job's state of this name starts empty",
                    becomes=new,
                )
            if old is None:
                return self._unreadable(new) if self.was.unreadable else self._new_for_target(new)
            if old.kind is not new.kind and not is_transformed(old, new):
                return StateReport.refusing(Status.MATCHED, kind_changed(old, new), old, new)
            if new.kind.is_keyed and key is not None and key.result.is_incompatible():
                return StateReport(
                    new.name, new.kind, Status.MATCHED, CompatibilityResult.incompatible(), Decision.REFUSE,
                    _KEY_REFUSED, was=old, becomes=new,
                )  # fmt: skip
            try:
                return self._compared(old, new)
            except OldReaderUnavailable as error:
                return StateReport.refusing(Status.MATCHED, _not_judged(new.value, error, ""), old, new)

    def _hidden(self, old: StateDescription) -> StateReport:
        """Refuse a state that an unreadable probe may or may not have."""
        finding = Finding(
            "$<state>", "SNAP-6", Verdict.INCOMPATIBLE, old.describe(), "(unreadable)",
            f"the operator's state in the probe is not known: {self.becomes.unreadable}",
            ("register a snapshot class for it", "check against a job in Python"),
        )  # fmt: skip
        return StateReport.refusing(Status.UNREADABLE, finding, old)

    def _unreadable(self, new: StateDescription) -> StateReport:
        finding = Finding(
            "$<state>", "SNAP-6", Verdict.INCOMPATIBLE, "(unreadable)", new.describe(),
            f"the operator's state is not known: {self.was.unreadable}",
            ("register a snapshot class for it", "give the operator a new uid: it then starts empty"),
        )  # fmt: skip
        return StateReport.refusing(Status.UNREADABLE, finding, becomes=new)

    def _new_for_target(self, new: StateDescription) -> StateReport:
        finding = self._lost_for_flink([part.snapshot for part in new.serializers()], "", new.describe())
        if finding is None:
            return _new(new)
        return StateReport.refusing(Status.NEW, finding, becomes=new)

    def _compared(self, old: StateDescription, new: StateDescription) -> StateReport:
        namespace = None
        if old.namespace is not None and new.namespace is not None:
            role = judge_role(old.namespace, new.namespace, NAMESPACE)
            namespace = self._for_target(role, old.namespace, new.namespace, NAMESPACE)
            if namespace.result.is_incompatible():
                return StateReport(
                    new.name, new.kind, Status.MATCHED, namespace.result, Decision.REFUSE, namespace=namespace,
                    was=old, becomes=new,
                )  # fmt: skip
        if new.kind is StateKind.TIMERS:
            judged = judge_timers(old, new, rekeyed=self.rekeying.allowed)
        else:
            judged = judge(old, new)
        values, note = judged.result, ""
        declared = [label_declared(values, new.value), *([new.key.snapshot] if new.key else [])]
        lost = self._lost_for_flink(declared, old.describe(), new.describe())
        if lost is not None and not values.is_incompatible():
            values = CompatibilityResult.incompatible(lost, *values.findings)
        if self.target.is_flink:
            odd = unlike_flinks(old.value.snapshot, new.value.snapshot, self.target.major or self.stored_by)
            values = attrs.evolve(values, findings=(*values.findings, *odd))
        decision = values.verdict.decision
        after = labels_after(old, new, values, None, judged.parts) if not values.is_incompatible() else Labels.of(old)
        if self._needs_header(values, Labels.of(old), after) or (namespace and namespace.decision is Decision.MIGRATE):
            note = _HEADER_ONLY
        elif old.stored_name:
            note = _renamed(old)
        if note:
            decision = worst_decision([decision, Decision.MIGRATE])
        before = namespace.result if namespace else CompatibilityResult.compatible()
        result = attrs.evolve(
            values, verdict=worst([before.verdict, values.verdict]), findings=before.findings + values.findings
        )
        return StateReport(
            new.name, new.kind, Status.MATCHED, result, decision, note, namespace, values, judged.parts, old, new
        )

    def _for_target(
        self, role: RoleReport, old: SerializerDescription, new: SerializerDescription, step: str
    ) -> RoleReport:
        """Check a key or namespace against the target."""
        if role.result.is_incompatible():
            return role
        lost = self._lost_for_flink([label_declared(role.result, new)], role.old, role.new)
        if lost is not None:
            result: CompatibilityResult[Any] = CompatibilityResult.incompatible(lost.below(step), *role.result.findings)
            return attrs.evolve(role, result=result, decision=Decision.REFUSE)
        before, after = Labels(old.snapshot), Labels(label_after(role.result, old, new))
        is_relabelled = self._needs_header(role.result, before, after)
        return attrs.evolve(role, decision=Decision.MIGRATE) if is_relabelled else role

    def _needs_header(self, result: CompatibilityResult[Any], before: Labels, after: Labels) -> bool:
        """Whether Flink needs a rewritten header to use the bytes: it does only a few reconfigurations by itself."""
        if not self.target.is_flink or not result.is_compatible_after_reconfiguration():
            return False
        rules = {one.rule for one in result.findings if one.verdict is Verdict.COMPATIBLE_AFTER_RECONFIGURATION}
        is_done_by_flink = rules and rules <= _DONE_BY_FLINK
        return not is_done_by_flink and before.digest() != after.digest()

    def _lost_for_flink(self, snapshots: list[TypeSerializerConfigSnapshot[Any]], old: str, new: str) -> Finding | None:
        """Return a finding on the first snapshot that makes Flink refuse a now restorable operator, or None."""
        if not self.target.is_flink or not self.was.is_flink_restorable:
            return None
        return refused_by(self.target, self.stored_by, snapshots, old, new)

    def _restorable_after(self, key: RoleReport | None, states: list[StateReport]) -> bool | None:
        if self.was.unreadable:
            return None
        kept = all(state.is_flink_after for state in states if state.status is not Status.DROPPED)
        if self.was.key is None:
            return kept
        given = self.becomes.key
        label = label_after(key.result, self.was.key, given) if key and given else self.was.key.snapshot
        return kept and label.is_flink


def _not_judged(new: SerializerDescription, error: OldReaderUnavailable, role: str) -> Finding:
    """Return a refusal of a type that only a snapshot describes and this release cannot read, so it cannot judge."""
    return Finding(
        "$" + role, "READ-4", Verdict.INCOMPATIBLE, "", new.describe(),
        f"it differs from what is stored, and cannot be compared: {error.what}",
        (KEEP_OLD_TYPE, "leave the state out of the probe: it is then kept as it is"),
    )  # fmt: skip
