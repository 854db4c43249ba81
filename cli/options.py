"""Arguments and options shared by several commands."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from click.core import ParameterSource

from ..serializers.compatibility import Flag
from ..serializers.errors import (
    SavepointNotFound,
    StateShiftError,
    UnsupportedFormat,
    located,
    redact_values,
)
from ..serializers.ways_out import WayOut
from .output import print_notice

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from datetime import datetime

    from ..compat.edits import Edits
    from ..compat.policy import Policy
    from ..compat.repartition import Repartition
    from ..state.directory.directory import StateDirectory
    from ..state.formats.flink.roots import AllowedRoot
    from ..state.formats.spark.reader import SparkCheckpoint
    from ..state.job import Job
    from ..state.migration.options import MigrationOptions
    from ..state.migration.plan_file import PlanFile
    from ..state.savepoint.reader import Savepoint

F = TypeVar("F", bound="Callable[..., Any]")


def together(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return options as one decorator; help lists them in this order."""
    return lambda function: functools.reduce(lambda decorated, option: option(decorated), reversed(options), function)


def as_one(name: str, make: Callable[..., Any], *options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return options whose values a command receives as one argument.

    Args:
        name: The argument.
        make: Returns its value; it is called with those of the options, by name.
        options: The options; others that became one argument may be among them.
    """
    grouped, exposed = grouped_by(*options), names_of(*options)
    names = {*grouped, *exposed.difference(*grouped.values())}

    def add(function: F) -> F:
        @functools.wraps(function)
        def with_one(*args: Any, **given: Any) -> Any:
            made = make(**{each: given.pop(each) for each in names})
            return function(*args, **{name: made}, **given)

        decorated: Any = with_one
        setattr(decorated, _GROUPED, {**getattr(function, _GROUPED, {}), name: exposed})
        return cast("F", together(*options)(decorated))

    return add


def names_of(*options: Callable[[Any], Any]) -> set[str]:
    """Return the names of the arguments that options become, each by itself."""
    return {one.name for one in getattr(_declared(options), "__click_params__", ()) if one.expose_value}


def grouped_by(*options: Callable[[Any], Any]) -> dict[str, set[str]]:
    """Return the names of those that become one argument, by the name of that."""
    return dict(getattr(_declared(options), _GROUPED, {}))


def _declared(options: tuple[Callable[[Any], Any], ...]) -> Callable[..., None]:
    def nothing(**_: Any) -> None: ...

    return together(*options)(nothing)


_GROUPED = "stateshift_grouped"
"""The attribute of a decorated function with the options that became one argument, by the name of that."""
PREFIX = "spark:"
"""What the place of a checkpoint of a Spark query begins with."""
_TAKES_SPARK = {"check", "inspect", "get", "export", "migrate", "plan", "snapshot", "sql", "verify"}
"""Commands that take checkpoints of Spark queries."""


def _folder(context: click.Context, _: click.Parameter, place: str | None) -> str | None:
    """Return the folder of a savepoint; as in Flink, the file `_metadata` in it is accepted, too."""
    if place is None:
        return None
    command = context.info_name or ""
    if command not in _TAKES_SPARK:
        refuse(place, command)
    if not place:
        raise click.BadParameter("the place is empty")
    return place.removesuffix("_metadata").rstrip("/") or "/" if place.endswith("/_metadata") else place


def is_spark(place: str | None) -> bool:
    """Whether an argument names a checkpoint of a Spark query."""
    return place is not None and place.startswith(PREFIX)


def spark_is_meant(*places: str | None) -> str:
    """Return what to write instead of places that are checkpoints of Spark queries, as the end of a message, or ""."""
    from ..state.savepoint.reader import looks_like_spark
    from ..state.storage.files import Folder

    meant = [one for one in places if one and not is_spark(one) and looks_like_spark(Folder.at(one))]
    return "".join(f"; {one} is the checkpoint of a Spark query: write {PREFIX}{one}" for one in meant)


def refuse(place: str | None, command: str) -> None:
    """Refuse a checkpoint of Spark for a command that does not read them.

    Raises:
        UnsupportedFormat: It is one.
    """
    if is_spark(place):
        raise UnsupportedFormat(
            f"stateshift {command} does not take checkpoints of Spark queries yet",
            advice="inspect, get, export, sql, diff, snapshot, check, plan, migrate and verify take them; to compare"
            " one with new code: stateshift check spark:CHECKPOINT --query MODULE:FUNCTION",
            savepoint=place,
            checkpoint=place,
        )


def refuse_options(told: str, *, names: Collection[str] = (), others_than: Collection[str] | None = None) -> None:
    """Refuse options that are given and do not apply, instead of ignoring them.

    Args:
        told: What is said of them; their names stand for `{}`.
        names: The names of the arguments of the command that do not apply.
        others_than: Instead of them, those that do.

    Raises:
        UsageError: Such an option is given.
    """
    context = click.get_current_context()
    wrong = [
        one.opts[0] if isinstance(one, click.Option) else (one.name or "").upper()
        for one in context.command.params
        if context.get_parameter_source(one.name or "") is ParameterSource.COMMANDLINE
        and (one.name in names if others_than is None else one.name not in others_than)
    ]
    if wrong:
        raise click.UsageError(told.format(", ".join(sorted(wrong))))


def savepoint_argument(name: str = "savepoint", *, required: bool = True) -> Callable[[F], F]:
    """Add an argument for the folder or URI of a savepoint; None if it is optional and left out."""
    metavar = name.upper() if required else f"[{name.upper()}]"
    argument = click.argument(name, metavar=metavar, required=required, callback=_folder)
    return together(argument, allow_root_option)


NOT_COMPARED = "not compared with what Spark has committed"
_ALLOWED, _MOVED = "stateshift.allow_roots", "stateshift.checkpoint_roots"


def _allow(context: click.Context, _: click.Parameter, places: tuple[str, ...]) -> None:
    context.meta[_ALLOWED] = places


def _move(context: click.Context, _: click.Parameter, pairs: tuple[str, ...]) -> None:
    moved = [(old, new) for old, _, new in (pair.partition("=") for pair in pairs)]
    if not all(old and new for old, new in moved):
        raise click.BadParameter("give OLD=NEW: the folder that the checkpoint names, and the one where its files are")
    context.meta[_MOVED] = tuple(moved)


allow_root_option = together(
    click.option(
        "--allow-root",
        multiple=True,
        expose_value=False,
        is_eager=True,  # savepoints may be opened while other options are parsed
        callback=_allow,
        metavar="PLACE",
        help="Allow files of a savepoint that lie in this folder or URI, outside its own. Can be given several times.",
    ),
    click.option(
        "--checkpoint-root",
        multiple=True,
        expose_value=False,
        is_eager=True,
        callback=_move,
        metavar="OLD=NEW",
        help="Read files that a moved checkpoint names in the folder or URI OLD from NEW. Can be given several times."
        " Not needed where JOB/chk-N, JOB/shared and JOB/taskowned still lie beside each other.",
    ),
)
"""`--allow-root` and `--checkpoint-root`, for `open_savepoint`; commands that open savepoints have them."""


def allowed_roots() -> tuple[AllowedRoot, ...]:
    """Return the values of `--allow-root` and `--checkpoint-root`."""
    meta = click.get_current_context().meta
    return (*meta.get(_ALLOWED, ()), *meta.get(_MOVED, ()))


def open_savepoint(place: str) -> Savepoint:
    """Open a savepoint; its files may be in the places of `--allow-root` and `--checkpoint-root`."""
    from ..state.savepoint.reader import Savepoint

    refuse(place, click.get_current_context().info_name or "")
    refuse_plan(place)
    opened = Savepoint.open(place, allow_roots=allowed_roots())
    if opened.query is not None and opened.query.unproven:
        print_notice(f"{NOT_COMPARED}: {opened.query.unproven}")
    return opened


def refuse_plan(place: str) -> None:
    """Refuse a compiled plan of Flink SQL in the place of a savepoint; raises `SavepointNotFound`."""
    if is_plan_file(place):
        raise SavepointNotFound(
            "it is a compiled plan of Flink SQL, not a savepoint",
            savepoint=place,
            advice=(
                "name the savepoint first, and the plan with --plan or --old-plan",
                WayOut("see what the query keeps:", command="stateshift explain PLAN"),
            ),
        )


def is_plan_file(place: str) -> bool:
    """Whether there is a compiled plan of Flink SQL in a local file."""
    try:
        if not Path(place).is_file() or Path(place).name == "_metadata":
            return False
        from ..state.plans.compiled_plan import is_compiled_plan

        return is_compiled_plan(place)
    except (OSError, StateShiftError):  # what it is instead is found where it is read
        return False


def open_state(place: str, plan: str = "", old_job: str = "") -> Savepoint | SparkCheckpoint:
    """Open a savepoint as `open_savepoint` does, or the checkpoint of a Spark query.

    Args:
        place: Where it is.
        plan: The compiled plan of Flink SQL that wrote it, which names the columns of rows; "": they have no names.
        old_job: The job that wrote it, which says what bytes of PyFlink hold; "": they stay bytes.

    Raises:
        UsageError: A plan or a job is given for a Spark query.
        DeclarationError: The plan or the job is not that of the savepoint.
    """
    if is_spark(place):
        from ..state.formats.spark.reader import SparkCheckpoint

        if plan:
            raise click.UsageError("--plan names the columns of Flink SQL; the checkpoint of a Spark query has them")
        if old_job:
            raise click.UsageError("--old-job says what bytes of PyFlink hold; a Spark query has none")
        return SparkCheckpoint.open(place)
    former = load_job_here(old_job).describe(f"job {old_job}") if old_job else None
    opened = open_savepoint(place)
    if former is not None:
        opened = opened.told_by(former)
    return opened.named_by(plan) if plan else opened


def open_state_directory(place: str) -> StateDirectory:
    """Open a state directory; its checkpoint may be in the places of `--allow-root` and `--checkpoint-root`."""
    from ..state.directory.directory import StateDirectory
    from ..state.formats.flink.roots import folder_at

    return StateDirectory.open(folder_at(place, allowed_roots()))


def _redact(_: click.Context, __: click.Parameter, enabled: bool) -> None:  # noqa: FBT001 - click's signature
    redact_values(enabled)


common_options = together(
    click.option("--json", "with_json", is_flag=True, help="Print one JSON document on stdout, and nothing else."),
    click.option(
        "--redact",
        is_flag=True,
        expose_value=False,
        callback=_redact,
        help="Keep keys and values out of messages (personal data).",
    ),
)
"""`--json` and `--redact`, which every command has."""
columns_option = click.option(
    "--plan",
    default="",
    metavar="PLAN",
    help="The compiled plan of Flink SQL that wrote the savepoint: columns of its rows have their names.",
)
"""`--plan` of the commands that show state."""
old_job_option = click.option(
    "--old-job",
    default="",
    metavar="MODULE:ATTRIBUTE",
    help="The job that wrote the state, as it was then: it says what the bytes of PyFlink's states hold.",
)
"""`--old-job`, for state of PyFlink."""
operator_option = click.option("--operator", "operator_name", metavar="UID|ID", help="Only this operator.")
states_option = together(
    operator_option, click.option("--state", "state_name", metavar="NAME", help="Only states of this name.")
)
"""`--operator` and `--state`."""
all_option = click.option(
    "--all",
    "everything",
    is_flag=True,
    help="List everything: also states that are fine, and what is the same in several places.",
)
"""`--all`, for reports on very many states; the command receives it as `everything`."""
target_option = click.option(
    "--target",
    type=click.Choice(["auto", "any", "flink", "flink-1.20", "flink-2.3"]),
    default="auto",
    show_default=True,
    help="What is to restore it. auto: Flink, if it knows all types of an operator before and after. flink: "
    "refuse what Flink could no longer restore. With a release: also what that one cannot read; a new savepoint is "
    "written as it writes them. any: never Flink.",
)
"""`--target`: Flink, one of its releases, or any, if Flink need not restore the state."""


def _policy(forbid: tuple[str, ...], allow_empty: tuple[str, ...]) -> Policy:
    from ..compat.policy import Policy

    return Policy(Flag if "all" in forbid else forbid, allow_empty)


policy_options = as_one(
    "policy",
    _policy,
    click.option(
        "--forbid",
        multiple=True,
        type=click.Choice([*map(str, Flag), "all"]),
        metavar="FLAG",
        help=f"Refuse what has this flag: {', '.join(Flag)}; or all. Can be given several times.",
    ),
    click.option(
        "--allow-empty",
        multiple=True,
        metavar="STATE",
        help="A state of the job that is meant to start empty; UID/STATE if not unique. Can be given several times.",
    ),
)
"""`--forbid FLAG` and `--allow-empty STATE`; the command receives them as one argument `policy`."""


def class_trust_option(help_text: str = "") -> Callable[[F], F]:
    """Return `--trust CLASS`, for pickled values; by default, for a command that shows them."""
    shows = (
        "Show the content of pickled values of this class, such as shop.Account. Nothing is imported. Can be given "
        "several times."
    )
    return click.option("--trust", multiple=True, metavar="CLASS", help=help_text or shows)


trust_option = together(
    click.option(
        "--trust-stored-serializers",
        is_flag=True,
        help="Allow unpickling serializers stored beside the savepoint, which runs code that comes with it.",
    ),
    class_trust_option(
        "Allow opening pickled values that name this class, such as shop.Account. by-value:shop.Account also runs code "
        "that comes within them. Can be given several times."
    ),
)
"""`--trust-stored-serializers` (rule READ-2), and `--trust CLASS` for pickled values."""


def _import(_: click.Context, __: click.Parameter, modules: tuple[str, ...]) -> None:
    if not modules:
        return
    from ..state.job import import_user_module

    search_here()
    for name in modules:
        import_user_module(name)


import_option = click.option(
    "--import",
    multiple=True,
    expose_value=False,
    callback=_import,
    metavar="MODULE",
    help="Import a module that registers snapshots of your own, by its name or the path of its .py file; the "
    "current folder is searched first.",
)
"""`--import module`, for snapshots and serializers registered by a user's module."""
values_options = together(columns_option, old_job_option, class_trust_option(), import_option, common_options)
"""What every command that prints values has."""


def _edits(**given: tuple[str, ...]) -> Edits:
    from ..state.migration.edits import parse_edits

    return parse_edits(**given)


edit_options = as_one(
    "edits",
    _edits,
    click.option("--drop", multiple=True, metavar="STATE", help="Leave a state out; UID/STATE if not unique."),
    click.option("--rename-state", "rename_states", multiple=True, metavar="OLD=NEW", help="Give a state a new name."),
    click.option("--rename-uid", "rename_uids", multiple=True, metavar="OLD=NEW", help="Give an operator a new uid."),
    click.option(
        "--convert",
        multiple=True,
        metavar="STATE",
        help="A state that was not converted yet, if its type does not show it: its converter is called, or its "
        "columns are written in their new order. UID/<key> for a key.",
    ),
)
"""`--drop`, `--rename-state`, `--rename-uid` and `--convert`; the command receives them as `edits`."""


def reference_time_of(_: click.Context, __: click.Parameter, text: str | None) -> datetime | None:
    """Return the time that `--reference-time` names; None if it is not given."""
    from ..compat.reference_time import parse_time

    return None if text is None else parse_time(text)


def _repartition(*, is_allowed: bool, max_parallelism: tuple[str, ...], merge: tuple[str, ...]) -> Repartition | None:
    if not is_allowed and (max_parallelism or merge):
        option = "--max-parallelism" if max_parallelism else "--merge"
        raise click.UsageError(f"{option} requires --repartition, which rewrites keys")
    if not is_allowed:
        return None
    from ..state.migration.repartition import parse_repartition

    if merge:
        search_here()
    return parse_repartition(max_parallelism=max_parallelism, merge=merge)


repartition_options = as_one(
    "repartition",
    _repartition,
    click.option(
        "--repartition",
        "is_allowed",
        is_flag=True,
        help="Rewrite the keys of operators whose key type has changed, with all their keyed state and timers.",
    ),
    click.option(
        "--max-parallelism",
        multiple=True,
        metavar="[UID=]N",
        help="With --repartition: number of key groups of every operator of the job, or of one.",
    ),
    click.option(
        "--merge",
        multiple=True,
        metavar="STATE=MODULE:FUNCTION",
        help="With --repartition: how to merge the values of two keys that become one. By default, they are refused.",
    ),
)
"""`--repartition`, `--max-parallelism` and `--merge`; the command receives them as `repartition`."""


def _migration_options(
    *, target: str, compression: str, form: str, bad_values: str, max_bad_values: int | None, **given: Any
) -> MigrationOptions:
    from ..compat.plan import BadValues, Compression, SavepointFormatType
    from ..compat.targets import Target
    from ..state.migration.options import MAX_BAD_VALUES, MigrationOptions

    is_planned = click.get_current_context().params.get("plan_place")
    if max_bad_values is not None and bad_values == "abort" and not is_planned:
        raise click.UsageError("--max-bad-values requires --bad-values quarantine")
    return MigrationOptions(
        restore_target=Target(target),
        compression=Compression(compression),
        format=SavepointFormatType(form),
        bad_values=BadValues(bad_values),
        max_bad_values=max_bad_values or MAX_BAD_VALUES,
        **given,
    )


migration_options = as_one(
    "options",
    _migration_options,
    edit_options,
    click.option(
        "--parallelism",
        type=click.IntRange(1, 1 << 15),
        metavar="N",
        help="Subtasks of every operator with state. [default: as before, or more if rewritten keyed state is large]",
    ),
    click.option(
        "--compression",
        type=click.Choice(["keep", "none", "snappy"]),
        default="keep",
        show_default=True,
        help="Whether to compress the streams of TARGET; keep: as they were.",
    ),
    click.option(
        "--format",
        "form",
        type=click.Choice(["keep", "canonical", "native"]),
        default="keep",
        show_default=True,
        help="The format of keyed state in TARGET: canonical, which every state backend restores; native, files of "
        "RocksDB, which its backend restores without inserting entries; keep: as it was.",
    ),
    click.option(
        "--absolute",
        is_flag=True,
        help="Name files of RocksDB by absolute URIs, for a job that starts with --claimMode CLAIM; TARGET can then not"
        " be moved.",
    ),
    repartition_options,
    target_option,
    trust_option,
    click.option(
        "--no-source-digests",
        "source_digests",
        flag_value=False,
        default=True,
        help="Read a source whose files do not match its lineage, although damage could then go unnoticed.",
    ),
    policy_options,
    click.option(
        "--bad-values",
        type=click.Choice(["abort", "quarantine"]),
        default="abort",
        show_default=True,
        help="What to do with a value that does not fit its new type: end the run, or set the value aside and list it.",
    ),
    click.option(
        "--max-bad-values",
        type=click.IntRange(1),
        metavar="N",
        help="With --bad-values quarantine: the run fails if there are more in total. [default: 1000]",
    ),
    click.option(
        "--reference-time",
        metavar="TIME",
        callback=reference_time_of,
        help="If state gains or loses TTL: the time stamp of its values, and the time of expiry. ISO 8601 with a "
        "zone. [default: when the run is planned]",
    ),
)
"""The options of a migration except for new types; the command receives them as one argument `options`."""


def read_plan(file: str, *, of_query: bool = False) -> PlanFile:
    """Read a plan file; errors include its name.

    Raises:
        UsageError: It is the plan of a savepoint, and that of a query's checkpoint is meant, or the other way round.
    """
    from ..compat.json_files import MOST_BYTES
    from ..state.migration.plan_file import PlanFile
    from ..state.storage.files import read_file

    with located(file=file):
        plan = PlanFile.from_json(read_file(file, most_bytes=MOST_BYTES))
    if (plan.typed is not None) is not of_query:
        raise click.UsageError(f"{file} is the plan for {plan.source.place}, and another kind of state is given")
    return plan


def announce_plan(file: str, plan: PlanFile, allowed: Iterable[str]) -> None:
    """Print what a plan is of, and what it allows that is off by default, such as to import a function."""
    granted = ", ".join(allowed)
    more = f"; it grants permissions that are off by default: {granted}" if granted else ""
    print_notice(f"plan {file}: {plan.new_types}, made by stateshift {plan.stateshift}{more}")


def refuse_other_options(planned: object, given: object, fields: Mapping[str, str] | None = None) -> None:
    """Refuse options on the command line that contradict a plan.

    Args:
        planned: The options of the plan.
        given: Those of the command line.
        fields: Their fields, where these have other names than the arguments of the command.

    Raises:
        UsageError: One does.
    """
    context = click.get_current_context()
    for parameter in context.command.params:
        name = parameter.name or ""
        field = (fields or {}).get(name, name)
        is_given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if is_given and getattr(given, field, None) != getattr(planned, field, None):
            raise click.UsageError(f"{parameter.opts[0]} differs from the plan; leave it out, or make the plan again")


def load_job_here(place: str) -> Job:
    """Load a job as `python -m` would find it: the current folder comes first."""
    from ..state.job import load_job

    search_here()
    return load_job(place)


def search_here() -> None:
    """Search modules in the current folder before all others."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)


spark_options = together(
    click.option(
        "--master",
        metavar="URL",
        help="Spark master. By default local[*,4], with 4 attempts for each task; for little state, Spark is not used.",
    ),
    click.option(
        "--py-files",
        multiple=True,
        metavar="FILE[,FILE…]",
        callback=lambda _context, _parameter, given: [name for names in given for name in names.split(",") if name],
        help="Further .py, .zip, .egg or .whl files for Spark's workers. Modules in the job's folder are sent "
        "automatically.",
    ),
)
"""`--master` and `--py-files`, which become the arguments `master` and `py_files`."""
