"""`stateshift migrate spark:OLD spark:NEW`: the checkpoint of a Spark query, copied under the types of a new query."""

from __future__ import annotations

import functools
import json
import shlex
from typing import TYPE_CHECKING, Any, TypeVar, cast

import attrs
import click
from click.core import ParameterSource

from ..serializers.errors import StateShiftError
from ..serializers.wording import many
from .failures import Status
from .options import search_here
from .output import Column, Line, Table, print_json, print_styled
from .spark_checkpoints import is_spark, spark_is_meant, time_text
from .spark_queries import built, query_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..spark.checkpoint.checking import Known
    from ..spark.checkpoint.judging import QueryReport
    from ..spark.checkpoint.migrating.conversion import FieldChanges
    from ..spark.checkpoint.migrating.new_side import NewSide
    from ..spark.checkpoint.migrating.report import CheckpointReport, StoreReport
    from ..spark.checkpoint.reader import SparkCheckpoint
    from .spark_queries import QueryOptions

F = TypeVar("F", bound="Callable[..., Any]")

_TAKEN = {"source", "target_place", "like", "dry_run", "with_json", "redact"}
_OWN = {
    "rename_field", "keep_field", "fill", "merge_field", "ttl", "convert_field", "drop_variable", "operator_map",
    "drop_uncommitted", "new_query_id", "query", "was", "accept", "require_recording",
}  # fmt: skip
_COLUMNS = (
    Column("operator", is_name=True),
    Column("store", is_name=True),
    Column("done"),
    Column("read", is_number=True),
    Column("written", is_number=True),
    Column("merged", is_number=True),
)


@attrs.frozen
class SparkChanges:
    """The options that only a checkpoint of Spark takes.

    Attributes:
        fields: What types do not say, by the number of the operator: renames, fills, merges, converters by path.
        variables: The variables that are dropped, by the number of the operator.
        operators: The new numbers of old operators; None: the state is dropped.
        drop_uncommitted: Whether a batch that is not committed is left out.
        new_query_id: Whether the copy gets a query id of its own.
    """

    fields: dict[int, dict[str, dict[str, Any]]]
    variables: dict[int, list[str]]
    operators: dict[int, int | None]
    drop_uncommitted: bool
    new_query_id: bool

    def of_fields(self) -> dict[int, FieldChanges]:
        """Return what types do not say; the functions of converters are imported.

        Raises:
            JobNotFound: There is no such function.
        """
        from ..spark.checkpoint.migrating.conversion import FieldChanges  # it needs numpy, which comes with an extra

        found = {}
        for operator in {**self.fields, **self.variables}:
            changes = self.fields.get(operator, {})
            places = changes.get("converters", {})
            functions = {path: _function(place) for path, place in places.items()}
            dropped = self.variables.get(operator, ())
            found[operator] = FieldChanges(**changes | {"converters": functions}, drops=dropped)
        return found


_REPEATED = "Can be given several times."
_OF_FIELDS = {
    "--rename-field": (
        "renames", "OPERATOR:OLD=NEW", f"A field that has a new name, such as 0:key.k=key.user. {_REPEATED}",
    ),
    "--fill": (
        "fills", "OPERATOR:PATH=JSON",
        f"What stored rows have in a new field, such as 0:value.count=0. {_REPEATED}",
    ),
    "--merge-field": (
        "merges", "OPERATOR:PATH=RULE",
        f"How the values of keys that become equal are merged: sum, min or max. {_REPEATED}",
    ),
    "--ttl": (
        "ttls", "OPERATOR:VARIABLE=MS",
        "When stored entries of a variable expire: so many milliseconds after the last batch, or with a sign, later or "
        "earlier than before, such as 0:count=+60000. " + _REPEATED,
    ),
    "--convert-field": (
        "converters", "OPERATOR:PATH=MODULE:FUNCTION",
        "A function that makes the new values of a field from the old ones, both as Arrow arrays. " + _REPEATED,
    ),
}  # fmt: skip
"""The options that say something of a field: the argument of `FieldChanges`, the form, and the help."""
_OF_OPERATORS = {
    "--keep-field": (
        "OPERATOR:PATH", f"A field that keeps the stored value of its name, such as 0:value.sum. {_REPEATED}",
    ),
    "--drop-variable": (
        "OPERATOR:VARIABLE",
        f"A variable that the new query does not have, and whose entries are dropped, such as 0:total. {_REPEATED}",
    ),
    "--map": (
        "OLD:NEW",
        "The number that an operator has in the new query, where it is not clear; 0: drops the state of operator 0. "
        + _REPEATED,
    ),
}  # fmt: skip
_SWITCHES = {
    "--new-query-id": "The copy gets a query id of its own, for a query that runs beside the old one.",
    "--drop-uncommitted": "Leave out a batch that is planned and not committed; sinks may then see rows twice.",
}


def spark_change_options(function: F) -> F:
    """Add the options for a checkpoint of Spark; the command receives them as `spark_changes`."""

    @functools.wraps(function)
    def with_changes(*args: Any, **given: Any) -> Any:
        said = {kind: given.pop(name[2:].replace("-", "_")) for name, (kind, *_) in _OF_FIELDS.items()}
        kept, dropped, moved = (given.pop(name) for name in ("keep_field", "drop_variable", "operator_map"))
        switches = (given.pop(name) for name in ("drop_uncommitted", "new_query_id"))
        changes = SparkChanges(_fields(said, kept), _variables(dropped), dict(map(_numbers, moved)), *switches)
        return function(*args, spark_changes=changes, **given)

    decorated: Any = with_changes
    of_fields = {name: (form, told) for name, (_, form, told) in _OF_FIELDS.items()}
    for name, told in reversed(_SWITCHES.items()):
        decorated = click.option(name, is_flag=True, help=f"spark: only. {told}")(decorated)
    for name, (form, told) in reversed((of_fields | _OF_OPERATORS).items()):
        names = (name, "operator_map") if name == "--map" else (name,)  # `map` is Python's
        decorated = click.option(*names, multiple=True, metavar=form, help=f"spark: only. {told}")(decorated)
    return cast("F", decorated)


def _fields(said: dict[str, tuple[str, ...]], kept: tuple[str, ...]) -> dict[int, dict[str, dict[str, Any]]]:
    """Return what is said of fields, by the number of the operator and the argument of `FieldChanges`."""
    found: dict[int, dict[str, dict[str, Any]]] = {}
    for kind, texts in said.items():
        for text in texts:
            operator, path, value = _parted(text)
            if kind == "renames":
                path, value = value, path
            found.setdefault(operator, {}).setdefault(kind, {})[path] = _json(text, value) if kind == "fills" else value
    for number, path in map(_variable, kept):
        found.setdefault(number, {}).setdefault("renames", {})[path] = path
    return found


def _variables(dropped: tuple[str, ...]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for number, name in map(_variable, dropped):
        found.setdefault(number, []).append(name)
    return found


def tried(report: QueryReport, opened: SparkCheckpoint, side: NewSide, known: Known) -> QueryReport:
    """Plan the migration that a report names; where that asks for more, the report has this in the place of it."""
    from ..spark.checkpoint.migrating.plan import Said, plan_migration
    from ..spark.checkpoint.migrating.ways_out import WayOut

    changes, accept = _typed(shlex.split(report.next_command))
    try:
        plan_migration(opened, side, known, Said(changes.of_fields(), changes.operators, accept))
    except StateShiftError as error:
        advice = error.advice.command if isinstance(error.advice, WayOut) else error.advice
        asks = (*error.what.splitlines(), *([f"what to do: {advice}"] if advice else []))
        return attrs.evolve(report, next_command="", next_asks=asks)
    return report


def _typed(words: list[str]) -> tuple[Any, ...]:
    """Return what the options of a command say that migrates a checkpoint of Spark."""

    @click.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
    @query_options
    @spark_change_options
    def read(*, of_query: QueryOptions, spark_changes: SparkChanges) -> tuple[Any, ...]:
        return spark_changes, of_query.accept

    return read.main(words, standalone_mode=False)  # type: ignore[no-any-return]


def _parted(text: str) -> tuple[int, str, str]:
    operator, _, rest = text.partition(":")
    path, _, said = rest.partition("=")
    if not operator.isdigit() or not path or not said:
        raise click.UsageError(f"{text!r} is not OPERATOR:PATH=…, such as 0:value.count=0")
    return int(operator), path, said


def _variable(text: str) -> tuple[int, str]:
    operator, _, name = text.partition(":")
    if not operator.isdigit() or not name:
        raise click.UsageError(f"{text!r} is not OPERATOR:NAME, such as 0:total")
    return int(operator), name


def _numbers(text: str) -> tuple[int, int | None]:
    old, colon, new = text.partition(":")
    if not (old.isdigit() and colon and (new.isdigit() or not new)):
        raise click.UsageError(
            f"{text!r} is not OLD:NEW, two numbers of operators, such as 0:1, or 0: to drop its state"
        )
    return int(old), int(new) if new else None


def _function(place: str) -> Any:
    from ..serializers.errors import JobNotFound
    from ..state.job import import_user_module

    module, _, name = place.rpartition(":")
    if not module or not name:
        raise JobNotFound(
            f"{place!r} does not name a function", advice="write module:function, such as clicks:to_total"
        )
    search_here()
    function = getattr(import_user_module(module), name, None)
    if not callable(function):
        raise JobNotFound(f"{module} has no function {name!r}", advice="name a function of the module")
    return function


def _json(text: str, said: str) -> Any:
    try:
        return json.loads(said)
    except ValueError as error:
        raise click.UsageError(f"{text!r}: {said!r} is no JSON (text stands in double quotes): {error}") from error


def refuse_other_options(context: click.Context, source: str) -> None:
    """Refuse options that the kind of source does not take.

    Raises:
        UsageError: There are some.
    """
    refused = (
        context.command.params if is_spark(source) else [one for one in context.command.params if one.name in _OWN]
    )
    taken = _TAKEN | _OWN if is_spark(source) else set[str]()
    wrong = [
        one.opts[0]
        for one in refused
        if one.name is not None
        and one.name not in taken
        and context.get_parameter_source(one.name) is ParameterSource.COMMANDLINE
    ]
    if wrong:
        names = ", ".join(sorted(wrong))
        kind = "of a Spark query's checkpoint" if is_spark(source) else "of a savepoint"
        raise click.UsageError(f"a migration {kind} does not take {names}{spark_is_meant(source)}")


def migrate_spark(
    source: str,
    target: str,
    like: str,
    of_query: QueryOptions,
    changes: SparkChanges,
    *,
    dry_run: bool,
    with_json: bool,
) -> int:
    """Migrate a checkpoint, and print what was done; return the exit status.

    Raises:
        UsageError: The target or the probe is no checkpoint of Spark, or not one new side is given.
    """
    if not is_spark(target):
        raise click.UsageError(f"the copy of a Spark query's checkpoint is one, too: write spark:{target}")
    if bool(like) is bool(of_query.query) or (like and not is_spark(like)):
        raise click.UsageError(
            "specify the new query: either --query MODULE:FUNCTION, or --like spark:PROBE, a checkpoint that it wrote"
            " on a little data"
        )
    if like and of_query:
        raise click.UsageError("--was, --accept and --require-recording apply with --query: a probe shows types alone")
    from ..spark.checkpoint.migrating.migration import migrate_checkpoint
    from ..spark.checkpoint.migrating.ways_out import WayOut
    from ..spark.checkpoint.reader import SparkCheckpoint

    last = SparkCheckpoint.open(source).log.last  # before Spark, which takes seconds to start
    with built(of_query, last) as (query, was):
        try:
            report = migrate_checkpoint(
                source,
                target,
                query=query,
                like=like or None,
                was=was,
                changes=changes.of_fields(),
                operators=changes.operators,
                accept=of_query.accept,
                drop_uncommitted=changes.drop_uncommitted,
                new_query_id=changes.new_query_id,
                require_recording=of_query.require_recording,
                dry_run=dry_run,
            )
        except StateShiftError as error:
            if isinstance(error.advice, WayOut):
                error.advice = error.advice.command
            raise
    if with_json:
        print_json(attrs.asdict(report) | {"warnings": list(report.warnings), "going_back": report.going_back})
    else:
        print_styled(_lines(report))
    return Status.DONE


def _lines(report: CheckpointReport) -> Iterator[Line | Table]:
    from ..spark.checkpoint.wording import as_written

    converted = [one for one in report.stores if one.is_converted and one.was is not None]
    if report.dry_run:
        yield [(f"plan: {many(len(converted), 'store')} of {len(report.stores)} converted, the others copied", "bold")]
    elif not converted:
        entries = sum(sum(one.read) for one in report.stores)
        kept = f"{many(entries, 'entry', 'entries')} as they were: no type of the state changes"
        yield [(f"copied: {kept}; {report.target}", "bold green")]
    else:
        entries = sum(sum(one.written) for one in converted)
        done = f"{many(entries, 'entry', 'entries')} of {many(len(converted), 'store')} converted"
        yield [(f"migrated: {done}, in {report.target}", "bold green")]
    rows = [[[(cell, "")] for cell in _cells(one, dry_run=report.dry_run)] for one in report.stores]
    yield Table(_COLUMNS, rows, indent=2)
    told = [f"  operator {one.operator}: {note}" for one in report.stores for note in one.notes]
    for text in dict.fromkeys(map(as_written, told)):  # what changes in a key changes in each store of a join
        yield [(text, "")]
    for warning in report.warnings:
        yield [(f"  {warning}", "yellow")]
    watermark = f", watermark {time_text(report.watermark_ms)}" if report.watermark_ms else ""
    query = f"query {report.query_id}, " * (not report.has_new_id)
    yield [(f"  kept: {query}batch {report.batch}, offsets{watermark}", "")]
    if report.has_new_id:
        yield [(f"  new: query {report.query_id or 'id'}", "")]
    if report.known_from:
        yield [(f"  what is computed was compared: known from {report.known_from}", "")]
    for line in report.not_compared:
        yield [(f"  not compared: {as_written(line)}", "dim")]
    for line in report.not_shown:
        yield [(f"  not shown by the files: {line}", "dim")]
    if report.dry_run:
        yield [("dry run: nothing was written", "")]
    else:
        yield []
        yield [("the source is untouched", "bold"), (f": {report.going_back}", "")]
        yield [(f"start the new query with checkpointLocation {report.target}", "bold")]


def _cells(one: StoreReport, *, dry_run: bool) -> list[str]:
    done = one.done or ("converted" if one.is_converted else "copied as files")
    counted = bool(one.read) and not dry_run
    numbers = [f"{number:,}" for number in (sum(one.read), sum(one.written), one.merged)] if counted else ["", "", ""]
    return [f"{one.operator} ({one.kind})", one.store, done, *numbers]
