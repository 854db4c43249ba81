"""Making of a plan file from a savepoint and new types. It needs no Spark, reads the source, and writes nothing."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import attrs

from ... import __version__
from ...compat.explain import finding_line
from ...compat.old_reader import ReaderSource
from ...compat.plain_data import fields_of, plain
from ...compat.plan import StateAction
from ...compat.plan_data import rekeying_data, to_data
from ...compat.reference_time import time_text
from ...compat.report import worst_decision
from ...compat.rules import rule_book
from ...compat.type_difference import type_text
from ...compat.way_back import ways_back_after
from ...serializers.compatibility import Decision
from ...serializers.errors import DeclarationError, PlanChanged, located
from ..formats.flink.missing_files import require_files
from ..job import job_described, load_job
from ..savepoint.reader import Savepoint
from .failing_values import failures_counted
from .options import MigrationOptions
from .plan_file import FILES, OF_QUERIES, RECORDED, STARTS_EMPTY, NewTypes, PlanFile, StoredPlace
from .preparation import prepare
from .repartition import with_merges_loaded
from .run import new_parallelism, try_out
from .tasks import CopyTask, KeepTask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ...compat.description import JobDescription
    from ...compat.header_snapshots import Labels
    from ...compat.plan import MigrationPlan, OperatorPlan, Recoding, StatePlan
    from ...compat.way_back import Place, WayBack
    from ...serializers.compatibility import Finding
    from ..formats.flink.roots import AllowedRoot
    from ..job import Job
    from ..savepoint.reader import SavepointOperator
    from ..savepoint.states import Measure
    from ..storage.files import Folder
    from .preparation import Preparation
    from .report import MigrationReport

_BOTH: dict[str, Any] = {"old": None, "new": None}
AT_RUN = "when the run begins"


def make_plan(
    savepoint: Savepoint,
    job: Job | JobDescription | None,
    options: MigrationOptions,
    new_types: NewTypes,
    *,
    place: str = "",
    counted: bool = True,
    code_of: Callable[[JobDescription], JobDescription | None] = lambda _: None,
    progress: Callable[[str], None] = lambda _: None,
) -> PlanFile:
    """Return the plan of a migration, after converting one entry of each state as a trial (rule READ-5).

    Args:
        savepoint: The source.
        job: The new types; None if they do not change.
        options: The options of the migration.
        new_types: The origin of `job`, for the file.
        place: The location of the source to write to the file; by default its own.
        counted: Whether the entries and bytes of each state are counted, for which all keyed state is read once.
        code_of: A function that returns what the code of the job that wrote the savepoint declares, for the rollback.
        progress: A callback that is called with the name of what is being read.

    Raises:
        IncompatibleState: The check fails, so there is no plan.
        ValueNotConvertible: The trial entry of a state cannot be converted.
        StateNotFound, DeclarationError, UnsupportedFormat, CorruptSavepoint: As `prepare`.
        SavepointNotFound: Files are missing.
    """
    with located(savepoint=savepoint.place):
        require_files(savepoint.metadata.streams, savepoint.folder)
    prepared = prepare(savepoint, job, options)
    planned = plan_of(prepared, options, new_types, place=place, code_of=code_of)
    progress("one entry of each state")
    with failures_counted(savepoint, prepared.plan):
        tried = try_out(savepoint, prepared.plan)
    for operator in planned.operators:
        stored = savepoint.operator(operator["operator_id"])
        progress(stored.title)
        measures = _measures(stored) if counted else {}
        for state in operator["states"]:
            state["tried"] = tried.get((operator["operator_id"], state["name"]))
            stored_kind = state["transform"]["from"] if state["transform"] else state["kind"]
            measure = measures.get((stored_kind, state["name"]))
            state["entries"], state["bytes"] = (measure.entries, measure.size_bytes) if measure else (None, None)
    return attrs.evolve(planned, summary=planned.summary | _sums(planned.operators))


def plan_of(
    prepared: Preparation,
    options: MigrationOptions,
    new_types: NewTypes,
    *,
    place: str = "",
    code_of: Callable[[JobDescription], JobDescription | None] = lambda _: None,
) -> PlanFile:
    """Return the plan of a prepared migration, without reading any entry; a run is checked against it.

    Args:
        prepared: The prepared migration.
        options: The options with which it was prepared.
        new_types: The origin of the new types.
        place: The location of the source to write to the file.
        code_of: A function, as in `make_plan`.
    """
    savepoint, plan = prepared.savepoint, prepared.plan
    stored = savepoint.describe(trust_stored_serializers=options.trust_stored_serializers, trust=options.trust)
    backs = ways_back_after(stored, plan)
    copies = sum(isinstance(task, CopyTask) for task in prepared.tasks)
    summary = {
        "decision": str(Decision.START if plan.is_empty else Decision.MIGRATE),
        "states": _actions(plan),
        "reference_time": _reference_time(plan, options),
        "flink_restorable": _is_flink_restorable(prepared),
        "streams_rewritten": len(prepared.tasks) - copies - sum(isinstance(one, KeepTask) for one in prepared.tasks),
        "files_copied": copies,
        "bytes_to_read": sum(task.size_bytes for task in prepared.tasks),
        "entries": None,
        "bytes": None,
    } | ({STARTS_EMPTY: [*prepared.starts_empty]} if prepared.starts_empty else {})
    return PlanFile(
        stateshift=__version__,
        source=StoredPlace.of(savepoint, place),
        new_types=new_types,
        options=options,
        summary=summary,
        rollback={
            "source": "untouched: the old job can start on it at any time",
            "old_job_on_result": str(worst_decision(one.decision for one in backs.values())),
            RECORDED: None if plan.is_empty else _recorded_rollback(stored, plan, code_of(stored)),
        },
        operators=[
            _operator_data(one, savepoint.operator(one.operator_id), backs, _files_data(prepared, one))
            | {"plan_sha256": _digest(data)}
            for one, data in zip(plan.operators, to_data(plan)["operators"], strict=True)
        ],
        made=plan,
    )


def query_plan_file(report: MigrationReport, new_types: NewTypes, typed: dict[str, Any] | None = None) -> PlanFile:
    """Return the plan of a query's migration that wrote nothing; a run that follows it makes the same one.

    Args:
        report: The report of the migration.
        new_types: The origin of the new types, for the file.
        typed: The options of the command, as they were typed.
    """
    assert report.query is not None  # noqa: S101 - it is of one
    return PlanFile(
        stateshift=__version__,
        source=StoredPlace(f"{OF_QUERIES}{report.source}", ""),
        new_types=new_types,
        options=MigrationOptions(),
        typed=typed or {},
        summary={
            "decision": str(Decision.START if report.copied_only else Decision.MIGRATE),
            "states": _actions(report.plan),
            **fields_of(report, "streams_rewritten=tasks files_copied=copies"),
            **dict.fromkeys(("reference_time", "flink_restorable", "bytes_to_read", "entries", "bytes")),
            "query": report.query.to_data(),
        },
        rollback={"source": report.rollback, "old_job_on_result": None, RECORDED: None},
        operators=[
            _operator_data(one) | {"plan_sha256": _digest(data)}
            for one, data in zip(report.plan.operators, to_data(report.plan)["operators"], strict=True)
        ],
        made=report.plan,
    )


def _files_data(prepared: Preparation, plan: OperatorPlan) -> dict[str, dict[str, int]]:
    """Return how many files in databases are kept and read of each keyed state of an operator, and their bytes."""
    data: dict[str, dict[str, int]] = {}
    for what, states in zip(("kept", "read"), prepared.files_of(plan), strict=True):
        for one in states:
            data.setdefault(one.state, {}).update({what: one.files, f"{what}_bytes": one.size})
    return data


def _actions(plan: MigrationPlan) -> dict[str, int]:
    """Return the number of states by what is done with them; new ones are listed where there are some."""
    found = Counter(state.action for operator in plan.operators for state in operator.states)
    listed = (one for one in StateAction if one is not StateAction.WRITE and (found[one] or one is not StateAction.NEW))
    return {str(action): found[action] for action in listed}


def prepare_as_planned(
    savepoint: Savepoint,
    job: Job | JobDescription | None,
    options: MigrationOptions,
    expected: PlanFile,
    *,
    resumed: Folder | None = None,
) -> Preparation:
    """Prepare exactly the migration of a plan file.

    Args:
        savepoint: The source.
        job: The new types; None to use the origin in the file. A job that it names is then imported.
        options: The options of the migration; if they are the defaults, the options of the file apply.
        expected: The plan.
        resumed: The target of a dead run, as in `prepare`.

    Raises:
        PlanChanged: Savepoint or job differ from when the plan was made, or the file was changed.
        DeclarationError: The options differ from those in the file, or the file names no job and none is passed.
        IncompatibleState: The check fails now.
    """
    expected.require_same_source(savepoint)
    if options == MigrationOptions():
        options = expected.options
    expected.require_same_options(options)
    options = attrs.evolve(options, repartition=with_merges_loaded(options.repartition))
    new = job if job is not None else new_side_of(expected.new_types, allow_roots=savepoint.folder.roots)
    prepared = prepare(savepoint, new, options, resumed=resumed)
    expected.require_same(plan_of(prepared, options, expected.new_types))
    return prepared


def new_side_of(
    new_types: NewTypes,
    load: Callable[[str], Job] = load_job,
    *,
    like: str = "",
    allow_roots: Iterable[AllowedRoot] = (),
) -> JobDescription | None:
    """Return the new types from the origin in a plan file; None if they do not change.

    Args:
        new_types: The origin in the file.
        load: A function that imports the job.
        like: The present location of the probe, or of the template; by default the one in the file.
        allow_roots: The folders where its files may lie, as in `Savepoint.open`.

    Raises:
        JobNotFound: The job cannot be loaded.
        CorruptFile, UnsupportedFormat: A compiled plan cannot be read.
        PlanChanged: The probe or the template is another savepoint.
        DeclarationError: The file does not name the job, which was passed in Python.
    """
    if new_types.stay:
        return None

    def opened(stored: StoredPlace | None, what: str) -> JobDescription | None:
        if stored is None:
            return None
        found = Savepoint.open(like or stored.place, allow_roots=allow_roots)
        if found.metadata_sha256 != stored.metadata_sha256:
            raise PlanChanged.before_writing(
                f"the {what} {found.place} is not the savepoint that the plan was made with",
                advice="pass that savepoint, or make the plan again",
            )
        return found.describe()

    if new_types.plan:
        from ..plans.operators import describe_plans

        template = opened(new_types.template, "template")
        return describe_plans(new_types.plan, new_types.old_plan, **new_types.said, template=template)
    probe = opened(new_types.probe, "probe")
    if probe is not None:
        return probe.as_probe()
    if not new_types.job:
        raise DeclarationError.before_writing(
            "the plan was made for a Job object in Python, which a plan file cannot contain",
            advice="pass the job to migrate()",
        )
    return job_described(new_types.job, new_types.old_job, load)


def _is_flink_restorable(prepared: Preparation) -> bool | None:
    """Whether Flink knows all types of the job's operators in the result; None if some of them cannot be read."""
    restorable = True
    for operator in prepared.plan.operators:
        if operator.in_job and not operator.is_flink_restorable:
            return False
        restorable = restorable and not prepared.savepoint.operator(operator.operator_id).unreadable
    return restorable or None


def _reference_time(plan: MigrationPlan, options: MigrationOptions) -> str | None:
    """Return the time at which values get or lose their time to live, as text; None if none does.

    Without the option it is the start of the run: timestamps from the time of planning might have expired by then.
    """
    if plan.reference_time is None:
        return None
    return time_text(plan.reference_time) if options.reference_time is not None else AT_RUN


def _measures(operator: SavepointOperator) -> dict[tuple[str, str], Measure]:
    found = {}
    for sizes in operator.measure().states:
        if sizes.error is not None:
            raise sizes.error
        if sizes.measure is not None:
            found[str(sizes.state.kind), sizes.state.name] = sizes.measure
    return found


def _sums(operators: list[dict[str, Any]]) -> dict[str, int | None]:
    """Return the sums of entries and bytes; None if a state was not counted."""
    states = [state for operator in operators for state in operator["states"]]
    return {
        name: None if any(state[name] is None for state in states) else sum(state[name] for state in states)
        for name in ("entries", "bytes")
    }


def _operator_data(
    plan: OperatorPlan,
    stored: SavepointOperator | None = None,
    backs: Mapping[Place, WayBack] = MappingProxyType({}),
    files: Mapping[str, dict[str, int]] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the plan of an operator as data; one of a query has nothing of what only a savepoint says."""
    key, groups = None, dict.fromkeys(("parallelism", "max_parallelism", "flink_restorable"), _BOTH)
    if stored is not None:
        is_divided = plan.is_rewritten and plan.rewrites_keyed
        becomes = new_parallelism(stored.stored, plan) if is_divided else stored.parallelism
        groups = {
            "parallelism": {"old": stored.parallelism, "new": plan.parallelism or becomes},
            "max_parallelism": {"old": stored.max_parallelism, "new": plan.max_parallelism or stored.max_parallelism},
            "flink_restorable": {
                "old": stored.description.is_flink_restorable,
                "new": None if stored.unreadable else plan.is_flink_restorable,
            },
        }
    if plan.key is not None and stored is not None and stored.key is not None:
        key = {
            "old": type_text(stored.key),
            "new": type_text(plan.key),
            "relabelled": plan.relabels_key,
            "rekeying": rekeying_data(plan.rekeying),
        }
    return {
        "operator_id": plan.operator_id,
        "uid": (stored and stored.uid) or plan.uid,
        "new_uid": plan.uid if plan.new_id else None,
        **fields_of(plan, "new_operator_id=new_id? action in_job compression reframed=is_reframed"),
        **fields_of(plan, "native=is_native? bad_values"),
        **groups,
        **fields_of(stored, "unreadable? keeps custom_raw_keyed_state=has_custom_raw_keyed_state?"),
        "key": key,
        "states": [
            _state_data(state, backs.get((plan.operator_id, state.kind.scope, state.name)))
            | ({FILES: files[state.name]} if state.kind.is_keyed and state.name in files else {})
            for state in plan.states
        ],
    }


def _digest(data: dict[str, Any]) -> str:
    """Return the digest of an operator's plan as lineages store it, so that no change goes unnoticed."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def _recorded_rollback(
    stored: JobDescription, plan: MigrationPlan, code: JobDescription | None
) -> dict[str, Any] | None:
    """Return whether the old job could use the result, according to its recorded code; None if there is none."""
    if code is None:
        return None
    names = {operator.operator_id: operator.uid or operator.operator_id for operator in plan.operators}
    found = ways_back_after(stored, plan, code)
    return {
        "by": code.origin,
        "old_job_on_result": str(worst_decision(one.decision for one in found.values())),
        "reasons": [
            f"{names[operator_id]}/{state}: {reason}"
            for (operator_id, _, state), one in found.items()
            for reason in _reasons(one)
            if one.decision is not Decision.START
        ],
    }


def _state_data(state: StatePlan, back: WayBack | None) -> dict[str, Any]:
    return {
        **fields_of(state, "name new_name? kind"),
        "transform": plain(state.transform, "name from=old_kind"),
        **fields_of(state, "action"),
        **dict.fromkeys(("entries", "bytes", "tried")),
        **fields_of(state, "former_time_to_live_s=former_time_to_live"),
        "old": _types(state.old),
        "new": _types(state.new),
        "rewrites": [_rewrite_data(piece) for piece in state.recodings],
        "findings": [_finding_data(finding) for finding in state.findings],
        "code": dict(state.code),
        "old_job": None if back is None else {"decision": str(back.decision), "reasons": _reasons(back)},
    }


def _reasons(back: WayBack) -> list[str]:
    """Return why the old job cannot use a state as it is, or what has to be reviewed."""
    if back.decision is Decision.MIGRATE:
        return [f"only after a migration back{back.loss}"]
    return [finding_line(one) for one in back.findings] or [back.note] * bool(back.note)


def _types(labels: Labels) -> dict[str, str | None]:
    """Return the types of a state as text, and the digest of their snapshots."""
    return {
        "type": type_text(labels.value),
        "key": None if labels.key is None else type_text(labels.key),
        "namespace": None if labels.namespace is None else type_text(labels.namespace),
        "snapshots_sha256": labels.digest(),
    }


def _rewrite_data(piece: Recoding) -> dict[str, str | None]:
    """Return the names of the reader, converter and writer of a piece; the full name for readers from elsewhere."""
    reader = piece.source
    if reader != ReaderSource.SNAPSHOT:
        reader = f"{reader} {type(piece.reader).__module__}.{type(piece.reader).__qualname__}"
    writer = type(piece.writer).__name__
    return {"path": piece.path, "reader": reader, "converter": piece.converter or None, "writer": writer}


def _finding_data(finding: Finding) -> dict[str, Any]:
    """Return a finding without what only a check reports, and not an accepted plan."""
    rule = rule_book().get(finding.rule)
    data = fields_of(finding, "path rule verdict old new reason flags")
    return data | {"conversion": (rule.conversion if rule is not None else "") or None}
