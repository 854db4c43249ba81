"""The planner: it derives a migration plan from the verdicts of a check."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ..serializers.compatibility import Decision, Flag, Verdict
from ..serializers.containers.ttl import AtTime
from ..serializers.errors import IncompatibleState
from ..serializers.rewrite import fits_always, rewrite_of
from ..serializers.snapshot import require_registered, snapshot_to_bytes
from .called_code import called_code
from .description import MAP_VALUE, StateKind
from .header_snapshots import Labels, label_after
from .lazy_tables import state_in
from .plan import (
    NEW_SERIALIZER,
    Merging,
    MigrationPlan,
    OperatorAction,
    OperatorPlan,
    Recoding,
    Rekeying,
    StateAction,
    StatePlan,
    Transformation,
)
from .reference_time import checked_time, length_ms, milliseconds, now
from .report import Status
from .rewritten_keys import OPERATOR
from .roles import KEY, NAMESPACE
from .scan_report import is_asked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime, timedelta

    from ..serializers.compatibility import Finding
    from ..serializers.errors import Detail
    from .description import SerializerDescription
    from .parts import Part
    from .report import CheckReport, OperatorReport, StateReport


def plan(
    report: CheckReport, *, reference_time: datetime | None = None, looks_at_values: bool = False
) -> MigrationPlan:
    """Return the plan of a migration, with an action for every stored operator and state.

    Args:
        report: The report of the check.
        reference_time: See `MigrationPlan`; to the millisecond, with a time zone. By default, the time of this call; it
            is not used if no state gains or loses a time to live.
        looks_at_values: Whether to rewrite states whose bytes stay, but whose values may not fit
            (`may_fail_per_value`), so that such values are found by the migration and not by the job.

    Raises:
        IncompatibleState: The check refuses; the error lists every state and every finding.
        DeclarationError: The reference time has no time zone; or a snapshot class of a new type is not registered.
    """
    if report.decision is Decision.REFUSE:
        raise _refusal(report)
    for operator in report.operators:
        _require_registered(operator)
    at = checked_time(reference_time) if reference_time is not None else None
    at = at or now() if any(_switches(state) for _, state in report.states()) else None
    stored = [operator for operator in report.operators if operator.status is not Status.NEW]
    operators = tuple(_operator(operator, at, looks=looks_at_values) for operator in stored)
    groups = report.repartition.for_all if report.repartition is not None else 0
    return MigrationPlan(report.old.origin, report.new.origin, operators, report.target, at, groups)


def _require_registered(operator: OperatorReport) -> None:
    """Refuse types under which state could be written, and never be restored (rule SNAP-6)."""
    if operator.was is None or operator.becomes is None:
        return
    parts = [(f"the key of {operator.title}", operator.becomes.key)]
    for state in operator.states:
        if state.was is not None and state.becomes is not None:
            parts += ((f"the state {state.name!r}", one) for one in state.becomes.serializers())
    for what, part in parts:
        if part is not None and part.serializer is not None:
            require_registered(part.snapshot, what)


@attrs.frozen
class ScanPlan:
    """What a scan reads of one operator: the parts with flags that only the stored values can answer.

    Attributes:
        operator: The check of the operator.
        key: How its keys are read; None if they have no such flag.
        states: The states with such flags, each with how it is read; None if the check refuses it.
        namespaces: How the namespaces of a state are read, by the name of the state, if they have such flags.
    """

    operator: OperatorReport
    key: Recoding | None
    states: tuple[tuple[StateReport, StatePlan | None], ...]
    namespaces: dict[str, Recoding]

    @property
    def stored_id(self) -> str:
        """The id of the operator in the savepoint."""
        was = self.operator.was
        return (was.stored_id if was is not None else "") or self.operator.operator_id


def plan_scan(report: CheckReport) -> Iterator[ScanPlan]:
    """Yield what a scan has to read to answer the flags of a check; values are read as a migration would read them.

    No flag says whether a converter or a transform takes every value; so these states are read, too.
    """
    for operator in report.operators:
        # A timer is nothing but key and namespace: it is read with the keys.
        stored = (one for one in operator.states if one.was is not None and one.kind is not StateKind.TIMERS)
        states = [state for state in stored if _asks(state.result.findings) or state.converter or state.transform]
        key = _scanned_key(operator)
        if operator.was is None or not (states or key):
            continue
        at = now() if any(map(_switches, states)) else None
        plans = ((one, None if one.result.is_incompatible() else _state(one, at, looks=True)) for one in states)
        namespaces = {
            one.name: _check_of(NAMESPACE, one.becomes.namespace)
            for one in states
            if one.namespace is not None and _asks(one.namespace.result.findings)
            and one.becomes is not None and one.becomes.namespace is not None
        }  # fmt: skip
        yield ScanPlan(operator, key, tuple(plans), namespaces)


def _asks(findings: tuple[Finding, ...]) -> bool:
    return any(map(is_asked, findings))


def _scanned_key(operator: OperatorReport) -> Recoding | None:
    role, becomes = operator.key, operator.becomes
    if role is None or role.result.is_incompatible() or becomes is None or becomes.key is None:
        return None
    if not _asks(role.result.findings):
        return None
    return _check_of(KEY, becomes.key) if role.reader is None else _rekeying(operator).key


def _check_of(step: str, becomes: SerializerDescription) -> Recoding:
    """Return the check of a part whose bytes stay, by its reader in the new job."""
    serializer = becomes.new_side()
    return Recoding(step, serializer, NEW_SERIALIZER, None, serializer)


def _switches(report: StateReport) -> bool:
    return any(finding.rule in {"STATE-4", "STATE-5"} for finding in report.result.findings)


def _operator(report: OperatorReport, at: datetime | None, *, looks: bool) -> OperatorPlan:
    states = tuple(_state(state, at, looks=looks) for state in report.states if state.was is not None)
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
    changes = relabels_key or is_reframed or rekeying is not None or any(state.changes for state in states)
    action = OperatorAction.REWRITE if changes else OperatorAction.COPY
    stored_id = report.was.stored_id if report.was is not None else ""
    new_id = report.operator_id if stored_id else ""
    identity, in_job = stored_id or report.operator_id, report.becomes is not None
    return OperatorPlan(
        identity, report.uid, action, key, relabels_key, states, in_job, new_id, is_reframed,
        rekeying=rekeying, max_parallelism=report.max_parallelism,
    )  # fmt: skip


def _rekeying(report: OperatorReport) -> Rekeying:
    """Return the rewriting of an operator's keys: to another type, or only into other key groups."""
    role, was, becomes = report.key, report.was, report.becomes
    assert role is not None and was is not None and becomes is not None  # noqa: S101, PT018 - judged before
    assert was.key is not None and becomes.key is not None  # noqa: S101, PT018 - the role was judged by the keys
    merging = dict(report.merges)
    merges = tuple(
        (
            state.was.stored_name or state.name,
            Merging(merging[state_in(state.name)], state.kind, state.serializer_after),
        )
        for state in report.states
        if state.was is not None and state_in(state.name) in merging and state.kind.is_keyed
    )
    if role.reader is None:
        label = label_after(role.result, was.key, becomes.key)
        stays = label.restore_serializer()
        code = called_code((), merges=dict(merges).values(), serializers=(stays,))
        return Rekeying(stays, merges=merges, findings=role.result.findings, code=code)
    serializer = becomes.key.new_side()
    conversion = role.result.conversion
    key = Recoding(
        KEY, role.reader.reader, str(role.reader.source), conversion, serializer, converter=role.converter
    )  # fmt: skip
    code = called_code((key,), merges=dict(merges).values())
    return Rekeying(serializer, key, merges, role.result.findings, code)


def _rekeyed(state: StatePlan) -> StatePlan:
    """Return the plan of a state whose values stay as bytes, while its keys are rewritten."""
    stays = state.action in {StateAction.COPY, StateAction.RELABEL}
    return attrs.evolve(state, action=StateAction.REKEY) if stays and state.kind.is_keyed else state


def _state(report: StateReport, at: datetime | None, *, looks: bool) -> StatePlan:
    was, new = report.was, report.labels_after
    assert was is not None and new is not None  # noqa: S101, PT018 - only stored states that are not refused get here
    old, findings = Labels.of(was), report.result.findings
    name = was.stored_name or was.name
    becomes = was.name if report.joined is None else state_in(was.name)
    new_name = becomes if becomes != name else ""
    if report.status is Status.DROPPED:
        return StatePlan(name, was.kind, StateAction.DROP, old, old)
    is_read = looks and any(finding.has(Flag.MAY_FAIL_PER_VALUE) for finding in findings)
    if report.values is None or (report.values.verdict < Verdict.REQUIRES_MIGRATION and not is_read):
        action = StateAction.COPY if old.digest() == new.digest() and not new_name else StateAction.RELABEL
        return StatePlan(name, report.kind, action, old, new, findings=findings, new_name=new_name)
    if not report.parts:  # timers: they are nothing but key and namespace
        return StatePlan(name, report.kind, StateAction.RELABEL, old, new, findings=findings, new_name=new_name)
    *user_key, value = report.parts
    recoding = _recoding(value, report.converter)
    user_key_recoding = _recoding(user_key[0], "") if user_key else None
    transform = _transformation(report)
    code = called_code((recoding, user_key_recoding), transform)
    loses_stamps = report.kind.is_keyed and value.had_stamps and not value.gets_stamps
    lived = report.becomes.former_time_to_live if report.becomes is not None and loses_stamps else None
    if recoding is not None and at is not None and _switches(report):
        recoding = _at_time(recoding, at, lived, stamps_nulls=value.stamps_nulls)
    return StatePlan(
        name, report.kind, StateAction.CONVERT, old, new,
        recoding, user_key_recoding, findings, new_name, lived, transform, was.value.trust, code,
    )  # fmt: skip


def _at_time(recoding: Recoding, at: datetime, lived: timedelta | None, *, stamps_nulls: bool) -> Recoding:
    """Use the reference time for new time stamps, and to find expired values."""
    convert = recoding.conversion
    conversion = None if convert is None else AtTime(milliseconds(at), convert)
    expired = milliseconds(at) - length_ms(lived) if lived is not None else None
    null_stamp = milliseconds(at) if stamps_nulls else None
    return attrs.evolve(recoding, conversion=conversion, expired_until_ms=expired, null_stamp_ms=null_stamp)


def _transformation(report: StateReport) -> Transformation | None:
    given = report.becomes.transform if report.becomes is not None and report.transform else None
    return Transformation(given.old_kind, given.name, given.function) if given is not None else None


def _recoding(part: Part, converter: str) -> Recoding | None:
    """Return how a part of a converted state is rewritten or checked; None if all stored bytes fit as they are.

    A converted state is read as a whole: beside a part that changes, another part is checked by its reader in the new
    job, as snapshots do not mention every null.
    """
    if part.reader is None:
        serializer = part.effective_serializer
        rewrite = rewrite_of(serializer, None, serializer)
        flags_null = part.step == MAP_VALUE and not part.is_unframed
        if rewrite is not None and fits_always(rewrite) and (part.nullable or not flags_null):
            return None
        return Recoding(part.step, serializer, NEW_SERIALIZER, None, serializer, part.nullable)
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
    from .explain import finding_line
    from .likeness import OF_CHECK, alike

    refused = [one for one in report.findings() if one[2].verdict is Verdict.INCOMPATIBLE or one[2].forbidden]
    lines: list[Detail] = []
    for (operator, state, finding), others in alike(
        refused,
        told=lambda one: one[2],
        place=lambda one: f"{one[0].title}/{one[1].name}" if one[1] else one[0].title,
        whole=OF_CHECK,
    ):
        is_whole = operator.whole is not None and finding in operator.whole.result.findings
        what = f", state {state.name!r}" if state else ", the job" if finding.path == OPERATOR else ", the key"
        lines.append(f"  operator {operator.title}{'' if is_whole else what}: {finding_line(finding)}")
        lines += [("    ways out: ", finding.ways_out)] if finding.ways_out else []
        lines += [f"    {others}"] if others else []
    what = "types" if report.new.upgrade is None else "query"
    return IncompatibleState(
        f"{report.new.origin} cannot take over {report.old.origin}",
        details=lines,
        advice=f"change the {what} in one of the ways above, and check again",
        written="Nothing was changed.",
    )
