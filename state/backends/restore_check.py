"""The check in the middle of a restore: may a program go on from stored state, and with which serializers?

A function registers its states late, in `initialize_state` and `open`. As in Flink, a state is judged when it is
registered, against the stored one of its name: only then are its new types known. Flink ends the program at the first
state that does not fit. Here the restore ends after `open`, with one report on all states: until then no keyed state
can be accessed, because there is no key, and operator state that may not be read begins empty. Keys are judged with the
first state, since all keyed states have them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ...compat.check import check
from ...compat.description import JobDescription, OperatorDescription, SerializerDescription, StateKind
from ...compat.explain import text_lines
from ...compat.memo import Memo
from ...compat.targets import Target
from ...serializers.compatibility import Decision
from ...serializers.errors import IncompatibleState
from ..migration.options import MigrationOptions

if TYPE_CHECKING:
    from ...compat.description import StateDescription
    from ...compat.repartition import Repartition
    from ...compat.report import CheckReport, RoleReport, StateReport
    from ...serializers.serializer import TypeSerializer

RESTORING = MigrationOptions(restore_target=Target.ANY)
"""The options of a restore by default: stateshift itself goes on from the state, so headers need not please Flink."""


class RestoreRefused(IncompatibleState):
    """The program cannot go on from the stored state as it is.

    Attributes:
        report: The report of the check, with the decision: `migrate` or `refuse`.
    """

    def __init__(self, report: CheckReport) -> None:
        can_migrate = report.decision is Decision.MIGRATE
        super().__init__(
            f"{report.new.origin} cannot go on from {report.old.origin}"
            + (" before that is migrated" if can_migrate else ""),
            details=[f"  {line}" for line in text_lines(report)],
            advice="restore with migrate=True, which writes a migrated savepoint beside it; or run `stateshift migrate`"
            " with the new job, and restore from its target"
            if can_migrate
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
    """

    def __init__(
        self,
        origin: str,
        stored: OperatorDescription,
        key: TypeSerializer[Any] | None,
        options: MigrationOptions = RESTORING,
    ) -> None:
        self._options = options
        self._old = options.edits.apply(JobDescription(origin, (stored,)))
        (self._stored,) = self._old.operators
        self._key = None if key is None else SerializerDescription.of(key)
        self._states: dict[tuple[str, str], StateDescription] = {}
        self._is_over = False
        self._known: Memo[tuple[Any, ...], Any] = Memo()

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

    def judged(self, state: StateDescription) -> StateReport:
        """Judge a state that is registered.

        Raises:
            RestoreRefused: The program runs already, and the state cannot be taken over as it is.
        """
        self._states[state.kind.scope, state.name] = state
        alone = attrs.evolve(self._stored, states=tuple(old for old in self._stored.states if old.name == state.name))
        report = self._checked(attrs.evolve(self._old, operators=(alone,)), self._job(state))
        if self._is_over and report.decision is not Decision.START:
            raise RestoreRefused(report)
        return next(found for _, found in report.states() if found.becomes is not None)

    def taken_over(self, state: StateDescription) -> StateDescription | None:
        """Judge a state that is registered, and return it with the serializers that read what is stored.

        It is None where nothing may read the stored values as they are: the restore then fails in `finish`.

        Raises:
            RestoreRefused: As `judged`.
        """
        report = self.judged(state)
        if report.decision is not Decision.START:
            return None
        if report.was is None or not report.result.is_compatible_after_reconfiguration():
            return state
        if state.key is not None:
            key, value = (SerializerDescription.of(part.effective_serializer) for part in report.parts)
            return attrs.evolve(state, key=key, value=value)
        namespace = state.namespace and _reconfigured(state.namespace, report.namespace)
        value = state.value if state.kind is StateKind.TIMERS else SerializerDescription.of(report.serializer_after)
        return attrs.evolve(state, value=value, namespace=namespace)

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
        if report.decision is not Decision.START:
            raise RestoreRefused(report)

    def _job(self, *states: StateDescription) -> JobDescription:
        stored = self._stored
        described = OperatorDescription(stored.operator_id, stored.uid, stored.name, self._key, states)
        return JobDescription("the program", (described,))

    def _checked(self, old: JobDescription, new: JobDescription, keys: Repartition | None = None) -> CheckReport:
        target, policy = self._options.restore_target, self._options.policy
        return check(old, new, target=target, policy=policy, repartition=keys, known=self._known)



def _reconfigured(declared: SerializerDescription, role: RoleReport | None) -> SerializerDescription:
    """Return the reconfigured copy of the serializer of keys or namespaces, where the check made one."""
    if role is None or not role.result.is_compatible_after_reconfiguration():
        return declared
    return SerializerDescription.of(role.result.reconfigured_serializer)
