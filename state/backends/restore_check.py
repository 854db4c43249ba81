"""The check in the middle of a restore: may a program go on from stored state, and with which serializers?

A function registers its states late, in `initialize_state` and `open`. As in Flink, a state is judged when it is
registered, against the stored one of its name: only then are its new types known. Flink ends the program at the first
state that does not fit. Here the restore ends after `open`, with one report on all states: until then no keyed state
can be accessed, because there is no key, and operator state that may not be read begins empty. Keys are judged with the
first state, since all keyed states have them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.check import check
from ...compat.description import JobDescription, OperatorDescription, SerializerDescription, StateKind
from ...compat.explain import text_lines
from ...compat.lazy_tables import declared_text, former_types, skips_types, state_in, tables_of
from ...compat.memo import Memo
from ...compat.one_time_changes import ROW
from ...compat.planner import plan
from ...compat.reference_time import now
from ...compat.report import worst_decision
from ...compat.targets import Target
from ...serializers.compatibility import Decision
from ...serializers.errors import IncompatibleState
from ..migration.options import MigrationOptions
from .lazy_forms import Layout

if TYPE_CHECKING:
    from collections.abc import Collection

    from ...compat.description import Converter, StateDescription
    from ...compat.plan import StatePlan
    from ...compat.repartition import Repartition
    from ...compat.report import CheckReport, RoleReport, StateReport
    from ...serializers.serializer import TypeSerializer

RESTORING = MigrationOptions(restore_target=Target.ANY)
"""The options of a restore by default: stateshift itself goes on from the state, so headers need not please Flink."""


class RestoreRefused(IncompatibleState):
    """The program cannot go on from the stored state as it is.

    Args:
        report: The report of the check.
        not_lazy: Why states cannot be migrated lazily, although they are to be, by name.
        left: As the attribute of `RestoreCheck`.

    Attributes:
        report: The report, with the decision: `migrate` or `refuse`.
    """

    def __init__(self, report: CheckReport, not_lazy: dict[str, str] | None = None, left: Collection[str] = ()) -> None:
        can_migrate = report.decision is Decision.MIGRATE
        lines = [f"  {name} cannot be migrated lazily: {reason}" for name, reason in (not_lazy or {}).items()]
        super().__init__(
            f"{report.new.origin} cannot go on from {report.old.origin}"
            + (" before that is migrated" if can_migrate else ""),
            details=[*lines, *(f"  {line}".rstrip() for line in text_lines(report, python=True))],
            advice="restore with migrate=True, which writes a migrated savepoint beside it; or run `stateshift migrate`"
            " with the new job, and restore from its target"
            if can_migrate
            else "restore with migrate=True: what is left first gets the types of the lazy migration that is not over"
            if left
            else "change the types in one of the ways above, and restore again",
            written="Nothing was changed.",
        )
        self.report = report


class RestoreCheck:
    """Judges the states of an operator while a program registers them.

    Args:
        origin: Where the stored state is from, in words.
        stored: The stored operator.
        key: The serializer of the program's keys; None: the operator is not keyed.
        options: Edits, policy and target, as for a migration.
        lazy: The names of keyed states that are migrated lazily where they need a migration; True: all. A mapping has
            for each the name of its present table, which all subtasks have in common (`Layout`).
        program: The program, in words.
        key_converter: Converts a stored key whose bytes are not valid for the new type, as that of `Operator`.

    Attributes:
        layouts: The tables of the states that have several, or get them, because they are migrated lazily.
        left: The states that have other types in the program than those to which they are being migrated lazily.
    """

    def __init__(
        self,
        origin: str,
        stored: OperatorDescription,
        key: TypeSerializer[Any] | None,
        options: MigrationOptions = RESTORING,
        lazy: bool | Collection[str] = (),  # noqa: FBT001 - as in the harness
        program: str = "the program",
        key_converter: Converter | None = None,
    ) -> None:
        self._options, self._lazy, self._now = options, lazy, options.reference_time or now()
        self._program = program
        self._unedited = JobDescription(origin, (stored,))
        self._old = options.edits.apply(self._unedited)
        (self._stored,) = self._old.operators
        self._key = None if key is None else SerializerDescription.of(key, converter=key_converter)
        self._states: dict[tuple[str, str], StateDescription] = {}
        self._not_lazy: dict[str, str] = {}
        self._is_over = False
        self._known: Memo[tuple[Any, ...], Any] = Memo()
        self.layouts: dict[str, Layout] = {}
        self.left: set[str] = set()
        self._plans: dict[str, StatePlan | None] = {}

    @property
    def key(self) -> TypeSerializer[Any] | None:
        """The serializer that reads the stored keys; that of the program, where they cannot be taken over."""
        if self._key is None:
            return None
        report = self._checked(self._old, self._job())
        return _reconfigured(self._key, report.operators[0].key).new_side()

    @property
    def job(self) -> JobDescription:
        """The new side: the operator with the states that were registered so far."""
        return self._job(*self._states.values())

    @property
    def former_job(self) -> JobDescription:
        """The types to which states are being migrated lazily, as the job that finishes that."""
        return former_types(self._unedited)

    @property
    def lazy_states(self) -> list[str]:
        """The states that are migrated lazily."""
        return sorted(self.layouts)

    def taken_over(self, state: StateDescription) -> StateDescription | None:
        """Judge a state that is registered, and return it with the serializers that read what is stored.

        It is None where nothing may read the stored values as they are: the restore then fails in `finish`.

        Raises:
            RestoreRefused: The program runs already, and the state cannot be taken over as it is.
        """
        self._states[state.kind.scope, state.name] = state
        tables = tables_of(state.name, [old.name for old in self._stored.states]) if state.kind.is_keyed else []
        taken, reports = state, [self._judged(state, name) for name in tables or [state.name]]
        named = list(zip(tables or [state.name], reports, strict=True))
        for name, report in named:
            taken = _as_stored(taken, _of_state(report, name))
        if len(reports) > 1 and taken is not state:  # one table decides how, and the others follow
            named = [(name, self._judged(taken, name)) for name in tables]
        worst = max((report for _, report in named), key=lambda report: _BY_DECISION.index(report.decision))
        if skips_types([_of_state(report, name) for name, report in named], goes_on=True):
            self.left.add(state.name)
        elif all(self._is_readable(_of_state(report, name), report, taken) for name, report in named):
            present, declared = "", declared_text(state.value)
            if isinstance(self._lazy, Mapping):  # of a query, which records its types itself
                present, declared = self._lazy.get(state.name, ""), ""
            plans = {name: self._plans[name] for name in tables}
            layout = Layout.of(state.name, plans, present, declared) if tables else None
            if layout is not None:
                self.layouts[state.name] = layout
            return taken
        if self._is_over:
            raise RestoreRefused(worst, self._not_lazy, self.left)
        return None

    def has_stored(self, name: str) -> bool:
        """Whether there is a stored state of this name."""
        return any(state.name == name for state in self._stored.states)

    def report(self) -> CheckReport:
        """Return the report on all states of the operator, registered or only stored."""
        return self._checked(self._old, self.job, self._options.repartition)

    def finish(self) -> None:
        """End the restore, when the function has been opened.

        Raises:
            RestoreRefused: A state cannot be taken over as it is.
        """
        self._is_over = True
        report = self.report()
        keys = [operator.key.decision for operator in report.operators if operator.key is not None]
        states = [state.decision for _, state in report.states() if not self._is_lazy(state)]
        if worst_decision([*keys, *states]) is not Decision.START:
            raise RestoreRefused(report, self._not_lazy, self.left)

    def _is_lazy(self, state: StateReport) -> bool:
        return state.kind.is_keyed and state_in(state.name) in self.layouts

    def _is_readable(self, state: StateReport, report: CheckReport, taken: StateDescription) -> bool:
        """Whether the values of a table can be read as they are, or lazily; the plan is then kept."""
        name = state_in(state.name)
        if report.decision is Decision.START:
            self._plans[state.name] = None
            return _as_stored(taken, state) is taken or _snapshots(_as_stored(taken, state)) == _snapshots(taken)
        is_lazy = self._lazy if isinstance(self._lazy, bool) else name in self._lazy
        if report.decision is Decision.REFUSE or not is_lazy:
            return False
        made = plan(report, reference_time=self._now).operators[0]
        planned = made.state(state.name, keyed=state.kind.is_keyed)
        reason = "it is new" if planned is None else _not_lazy(state, planned)
        if planned is None or reason:
            self._not_lazy[name] = reason
            return False
        self._plans[state.name] = planned
        return True

    def _judged(self, state: StateDescription, table: str) -> CheckReport:
        alone = tuple(old for old in self._stored.states if old.name == table)
        old = attrs.evolve(self._old, operators=(attrs.evolve(self._stored, states=alone),))
        return self._checked(old, self._job(state))

    def _job(self, *states: StateDescription) -> JobDescription:
        stored = self._stored
        described = OperatorDescription(stored.operator_id, stored.uid, stored.name, self._key, states)
        return JobDescription(self._program, (described,))

    def _checked(self, old: JobDescription, new: JobDescription, keys: Repartition | None = None) -> CheckReport:
        target, policy = self._options.restore_target, self._options.policy
        return check(old, new, target=target, policy=policy, repartition=keys, known=self._known)


_BY_DECISION = (Decision.START, Decision.MIGRATE, Decision.REFUSE)


def _of_state(report: CheckReport, table: str) -> StateReport:
    """Return the report on a table, or on a new state, in a report on it alone."""
    return next(state for _, state in report.states() if state.name == table and state.becomes is not None)


def _as_stored(state: StateDescription, report: StateReport) -> StateDescription:
    """Return a state with the serializers that a reconfiguration made for stored values; else the same state."""
    is_reconfigured = report.was is not None and report.result.is_compatible_after_reconfiguration()
    if report.decision is not Decision.START or not is_reconfigured:
        return state
    if state.key is not None:
        key, value = (SerializerDescription.of(part.effective_serializer) for part in report.parts)
        return attrs.evolve(state, key=key, value=value)
    namespace = state.namespace and _reconfigured(state.namespace, report.namespace)
    value = state.value if state.kind is StateKind.TIMERS else SerializerDescription.of(report.serializer_after)
    return attrs.evolve(state, value=value, namespace=namespace)


def _snapshots(state: StateDescription) -> list[tuple[str, str]]:
    return [part.identity for part in state.serializers()]


def _not_lazy(state: StateReport, planned: StatePlan) -> str:
    """Return why a migration of a state cannot be done lazily, value by value, or ""."""
    if not state.kind.is_keyed:
        return "operator state is read as a whole when the program starts"
    if planned.transform is not None:
        return f"each {state.kind} is made from a whole state of another kind"
    if planned.user_key is not None:
        return "its map keys change, so an entry would not be found under its key"
    if planned.new_name not in {"", state_in(planned.name)}:
        return "it is renamed"
    if planned.value is not None and planned.value.converter:
        return f"the converter {planned.value.converter} would have to be kept for values that are stored in this form"
    if any(finding.rule == ROW for finding in planned.findings):
        return "the types do not show which values have their columns in the new order"
    return ""


def _reconfigured(declared: SerializerDescription, role: RoleReport | None) -> SerializerDescription:
    """Return the reconfigured copy of the serializer of keys or namespaces, where the check made one."""
    if role is None or not role.result.is_compatible_after_reconfiguration():
        return declared
    return SerializerDescription.of(role.result.reconfigured_serializer)
