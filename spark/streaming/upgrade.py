"""The upgrade of a query: it judges whether functions can go on from the state, and makes the next epoch's state."""

from __future__ import annotations

from copy import deepcopy
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from ...compat.check import check
from ...compat.description import JobDescription, OperatorDescription
from ...compat.edits import Edits
from ...compat.gate.recording import digest, from_json, to_json
from ...compat.lazy_tables import number_of, state_in
from ...compat.policy import Policy
from ...compat.repartition import Repartition
from ...serializers.compatibility import Decision, Flag, Verdict
from ...serializers.errors import DeclarationError, StateShiftError, cause_text
from ...serializers.ways_out import Option
from ...state.backends.heap.backend import HashMapStateBackend
from ...state.backends.restore_check import RESTORING, RestoreCheck, RestoreRefused
from ...state.directory.directory import Epoch
from ...state.formats.flink.metadata import METADATA, write_metadata
from ...state.job import Operator
from ...state.publication.lineage import LINEAGE
from ...state.savepoint.reader import Savepoint
from ...state.streaming.slot import OperatorSpec, SlotTask
from ...state.streaming.source import SourceSpec, SourceTask

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import SparkSession

    from ...state.backends.lazy_forms import Layout
    from ...state.directory.directory import StateDirectory
    from ...state.formats.flink.roots import AllowedRoot
    from ...state.migration.options import MigrationOptions
    from .job import StreamJob

_QUERY = "the query"
REFUSE, MIGRATE, LAZY = HOW = ("refuse", "migrate", "lazy")


@attrs.frozen
class _ByDefault(Policy):
    """The policy of a start for which no options are given."""

    accepted_by: ClassVar[str] = "pass options=MigrationOptions() to start"


UPGRADING = attrs.evolve(RESTORING, policy=_ByDefault(forbid={Flag.DROPS, Flag.POSSIBLE_RENAME, Flag.LOSSY}))
"""The options of a start by default: what a migration, or the way back, would lose is refused."""

_MIGRATE_ADVICE = (
    'pass on_incompatible="migrate" to start: a Spark job then migrates the state, and the query goes on where it stood'
)
_LAZY_ADVICE = '; or "lazy": each value is then migrated when it is written'
_LOSS_ADVICE = "change the types in one of the ways above; or pass options=MigrationOptions() to accept what is lost"
_WAYS_ADVICE = "take one of the ways above, and start again"
_KEY_ADVICE = (
    "keep the type of the keys: key_by(…, key_type=…); or convert them: key_by(…, key_converter=…), with"
    ' on_incompatible="migrate"'
)
_EDITS = (Option.RENAME_STATE, Option.RENAME_UID, Option.DROP, Option.CONVERT)
_EDITS_ADVICE = '; edits are made by a migration: pass on_incompatible="migrate", too'
_NOT_LAZY_ADVICE = 'pass on_incompatible="migrate"'


class UpgradeJudgement:
    """The check of a job's functions against the state of its query.

    Args:
        job: The job.
        options: The options of the check and the migration.
        how: What may be done where state needs a migration: one of `HOW`.
        savepoint: The state.
        epoch: Its epoch; None: a query is to begin with it.
        may_end: Whether a lazy migration may be over: all slots have run since it began.

    Attributes:
        before: The state as the functions find it, before they change its types: with the edits of the options.
        lazy: The states that are migrated lazily from now on, as in `Epoch`.

    Raises:
        RestoreRefused: The functions cannot go on from the state, or not in the way that is allowed.
        DeclarationError: The options need a migration.
    """

    def __init__(
        self,
        job: StreamJob,
        options: MigrationOptions,
        how: str,
        savepoint: Savepoint,
        epoch: Epoch | None = None,
        *,
        may_end: bool = True,
    ) -> None:
        self._job, self.options, self._how, self._may_end = job, options, how, may_end
        self._epoch = epoch or Epoch(0, 0, 0, (), {})
        self._trust = {"trust_stored_serializers": options.trust_stored_serializers, "trust": options.trust}
        self._stored = savepoint.describe(**self._trust)  # type: ignore[arg-type]
        if epoch is not None:
            self._stored = attrs.evolve(self._stored, origin=f"its state in {savepoint.place}")
        self.lazy: dict[str, dict[str, str]] = {}
        if options.edits and how != MIGRATE:
            raise DeclarationError.before_writing(
                "states can only be renamed, dropped or converted by a migration",
                advice='pass on_incompatible="migrate", too',
            )
        tables = [state.name for one in self._stored.operators for state in one.states]
        if options.edits and (lazy := sorted({state_in(name) for name in tables if number_of(name)})):
            raise DeclarationError.before_writing(
                f"the lazy migration of {', '.join(map(repr, lazy))} is not over, and edits would change a part of it",
                advice='start once without edits, with on_incompatible="migrate"; and with edits some batches later',
            )
        self.before = before = options.edits.apply(self._with_left_finished())
        self._is_migrated, self._ends = bool(options.edits), False
        found: list[OperatorDescription] = []
        specs: list[OperatorSpec | SourceSpec] = [*job.operators.values(), *job.sources.values()]
        for spec in specs:
            found += self._judged(before, spec)
        self._wanted = JobDescription(_QUERY, tuple(found))

    @property
    def changes(self) -> bool:
        """Whether a new epoch begins: state is migrated, or a lazy migration begins or ends."""
        return bool(self.migrations) or self._ends or self.lazy != self._epoch.lazy

    @property
    def lazy_types(self) -> str:
        """The recorded types for the states in `lazy`; "": there are none."""
        if not self.lazy:
            return ""
        return self._epoch.types if self.lazy == self._epoch.lazy else to_json(self._wanted)

    @property
    def migrations(self) -> list[tuple[JobDescription, MigrationOptions]]:
        """The types and options of the migrations before the start, in turn.

        What a lazy migration has left gets the types of that one first, as if it had been touched: the way from there
        to the present types may be another one than a direct one, as where a field was renamed twice.
        """
        steps = []
        if self._left and (self._is_migrated or self.lazy != self._epoch.lazy):
            steps.append((self._lazy_before, RESTORING))
        if self._is_migrated:
            steps.append((self._wanted, self.options))
        return steps

    @cached_property
    def _lazy_before(self) -> JobDescription:
        """The types that the lazy migration before this start had."""
        return from_json(self._epoch.types)

    @cached_property
    def _left(self) -> set[tuple[str, str]]:
        """The tables that a lazy migration has left in an old form, by operator id and name."""
        if not self._epoch.types:
            return set()
        report = check(self._stored, self._lazy_before, target=RESTORING.restore_target)
        return {
            (operator.operator_id, state.was.name)
            for operator, state in report.states()
            if state.was is not None and state.decision is not Decision.START
        }

    def _with_left_finished(self) -> JobDescription:
        """Return the description of the stored state as it will be when the lazy migration is complete."""
        uids = {Operator.named(uid).id: uid for uid in self._epoch.lazy}

        def finished(operator: OperatorDescription) -> OperatorDescription:
            of_lazy = self._epoch.lazy.get(uids.get(operator.operator_id, ""), {})
            by_name = {state.name: state for state in operator.states if state.kind.is_keyed}
            states = [
                attrs.evolve(by_name[of_lazy[state_in(state.name)]], name=state.name)
                if (operator.operator_id, state.name) in self._left
                else state
                for state in operator.states
            ]
            return attrs.evolve(operator, states=tuple(states))

        return attrs.evolve(self._stored, operators=tuple(map(finished, self._stored.operators)))

    def _judged(self, before: JobDescription, spec: OperatorSpec | SourceSpec) -> tuple[OperatorDescription, ...]:
        """Judge an operator, and return it with its states as the function registers them."""
        options, uid = attrs.evolve(self.options, edits=Edits()), spec.uid
        identity = Operator.named(uid).id
        stored = next((one for one in before.operators if one.operator_id == identity), None)
        stored = stored or OperatorDescription(identity, uid)
        key = spec.key if isinstance(spec, OperatorSpec) else None
        going_on = self._epoch.lazy.get(uid, {})
        check = RestoreCheck(before.origin, stored, key, options, program=_QUERY)
        try:
            try:
                _probe(spec, self._job.functions[spec.uid], check)
            except RestoreRefused as refused:
                converter = self._job.key_converters.get(uid)
                if converter is None or not is_key_refused(refused):
                    raise
                repartition = self.options.repartition or Repartition()
                self.options, options = (attrs.evolve(one, repartition=repartition) for one in (self.options, options))
                check = RestoreCheck(before.origin, stored, key, options, program=_QUERY, key_converter=converter)
                _probe(spec, self._job.functions[spec.uid], check)
        except RestoreRefused as refused:
            if refused.report.decision is Decision.REFUSE:
                accepts = self.options.policy is UPGRADING.policy and refused.report.verdict is not Verdict.INCOMPATIBLE
                ways = (way for _, _, finding in refused.report.findings() for way in finding.ways_out)
                is_edit = any(way.mentions(option) for way in ways for option in _EDITS)
                edits = _EDITS_ADVICE if is_edit and self._how != MIGRATE else ""
                refused.advice = _LOSS_ADVICE if accepts else _WAYS_ADVICE + edits
                if is_key_refused(refused):
                    refused.advice = _KEY_ADVICE
                raise
            if self._how == REFUSE:
                is_rekeyed = any(one.key and one.key.decision is Decision.MIGRATE for one in refused.report.operators)
                refused.advice = _MIGRATE_ADVICE if is_rekeyed else _MIGRATE_ADVICE + _LAZY_ADVICE
                raise
            if self._how == MIGRATE:
                self._is_migrated = True
                return check.job.operators
            check = RestoreCheck(before.origin, stored, key, options, lazy=True, program=_QUERY)
            self._probe_lazily(spec, check)
            self.lazy[uid] = _presents(check.layouts)
            return check.job.operators
        has_left = not self._may_end or any(operator_id == identity for operator_id, _ in self._left)
        if going_on and has_left and self._how != MIGRATE and self._is_same(check.job.operators):
            self.lazy[uid] = going_on
        elif going_on and has_left and self._how == REFUSE:
            raise DeclarationError.before_writing(
                f"the types of operator {uid!r} have changed, and the lazy migration to those before is not over",
                advice='pass on_incompatible="migrate": what is left gets the types before, and then the new ones',
            )
        self._ends = self._ends or bool(going_on and not has_left)
        return check.job.operators

    def _is_same(self, operators: tuple[OperatorDescription, ...]) -> bool:
        """Whether an operator declares the types to which its state is being migrated lazily."""
        new = JobDescription(_QUERY, operators)
        ids = {one.operator_id for one in operators}
        before = [one for one in self._lazy_before.operators if one.operator_id in ids]
        return digest(attrs.evolve(self._lazy_before, operators=tuple(before))) == digest(new)

    def _probe_lazily(self, spec: OperatorSpec | SourceSpec, check: RestoreCheck) -> None:
        try:
            _probe(spec, self._job.functions[spec.uid], check)
        except RestoreRefused as refused:
            refused.advice = _NOT_LAZY_ADVICE
            raise


def require_openable(job: StreamJob) -> None:
    """Open the functions of a new query on the driver, to find wrong declarations of state before the start.

    Raises:
        DeclarationError: A function cannot be opened.
    """
    specs: list[OperatorSpec | SourceSpec] = [*job.operators.values(), *job.sources.values()]
    for spec in specs:
        key = spec.key if isinstance(spec, OperatorSpec) else None
        stored = OperatorDescription(Operator.named(spec.uid).id, spec.uid)
        _probe(spec, job.functions[spec.uid], RestoreCheck("nothing", stored, key, RESTORING))


def _probe(spec: OperatorSpec | SourceSpec, function: Any, check: RestoreCheck) -> None:
    """Let a function register its states in a task that has no files.

    Its function is a deep copy, and not the pickled one: unpickling a class that was pickled by value changes that
    class in the process that has it.

    Raises:
        RestoreRefused: The function cannot go on from what the check knows, or not without a migration.
        DeclarationError: It cannot be opened.
    """
    own = deepcopy(function)
    try:
        if isinstance(spec, SourceSpec):
            SourceTask(spec, function=own).judge(check)
        else:
            SlotTask(attrs.evolve(spec, backend=HashMapStateBackend), 0, 1, 1, function=own).judge(check)
    except DeclarationError as error:
        raise _not_opened(spec.uid, error.what, error.advice, **error.where) from error
    except StateShiftError:
        raise
    except Exception as error:
        raise _not_opened(spec.uid, cause_text(error)) from error


def _not_opened(uid: str, why: str, advice: str = "", **where: object) -> DeclarationError:
    return DeclarationError.before_writing(
        f"the function of {uid!r} cannot be opened: {why}",
        advice=f"{advice or 'correct it'} (each start first opens it on the driver, to see which states it has)",
        **where,
    )


def write_base(
    directory: StateDirectory,
    savepoint: Savepoint,
    name: str,
    judgement: UpgradeJudgement,
    session: SparkSession | None,
) -> tuple[dict[str, Any], ...]:
    """Write the savepoint that a new epoch begins with, in as many migrations as needed; return its history.

    If the process dies, there is no epoch, and the next start chooses another number.

    Args:
        directory: The state directory.
        savepoint: The present state.
        name: The name of the folder in `bases`.
        judgement: What has to be done.
        session: The session of the migrations; None: they choose by the size of the state.
    """
    steps = judgement.migrations
    places = [*(f"{name}-{word}" for word in ("was", "left")[: len(steps)]), name]
    was = directory.base(places[0])
    was.create()
    if savepoint.lineage is not None:
        was.write(LINEAGE, savepoint.lineage.to_json())
    was.write_last(METADATA, write_metadata(savepoint.metadata))
    roots = [directory.folder.place, *directory.folder.roots]
    for source, target, (types, options) in zip(places, places[1:], steps, strict=False):
        from ..migrate import migrate

        place = directory.base(target).place
        migrate(directory.base(source).place, place, types, options, session=session, allow_roots=roots)
    return _history(directory, name)


def write_beginning(
    directory: StateDirectory,
    place: str,
    name: str,
    judgement: UpgradeJudgement,
    session: SparkSession,
    *,
    allow_roots: Iterable[AllowedRoot],
) -> tuple[dict[str, Any], ...]:
    """Write the savepoint that a new query begins with; return its history.

    The state is copied, so that the query does not need the files of the other place.

    Args:
        directory: The state directory.
        place: The other savepoint.
        name: The name of the folder in `bases`.
        judgement: What has to be done with its state.
        session: The session of the migration.
        allow_roots: Further folders that may contain its files.
    """
    from ..migrate import migrate

    types, options = next(iter(judgement.migrations), (None, judgement.options))
    migrate(place, directory.base(name).place, types, options, session=session, allow_roots=allow_roots)
    return _history(directory, name)


def is_key_refused(refused: RestoreRefused) -> bool:
    """Whether the keys have another type, and nothing converts them."""
    return any(one.key is not None and one.key.decision is Decision.REFUSE for one in refused.report.operators)


def _history(directory: StateDirectory, name: str) -> tuple[dict[str, Any], ...]:
    roots = [directory.folder.place, *directory.folder.roots]
    lineage = Savepoint.open(directory.base(name).place, allow_roots=roots).lineage
    return () if lineage is None else lineage.migrations


def _presents(layouts: Mapping[str, Layout]) -> dict[str, str]:
    """Return the present tables of the states that are migrated."""
    return {
        state: layout.present
        for state, layout in layouts.items()
        if any(plan is not None for plan in layout.plans.values())
    }
