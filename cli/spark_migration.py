"""`stateshift migrate spark:OLD spark:NEW`: the checkpoint of a Spark query, copied under the types of a new query."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any, TypeVar, cast

import attrs
import click
from click.core import ParameterSource

from ..serializers.wording import many
from .failures import Status
from .output import Column, Line, Table, print_json, print_styled
from .spark_checkpoints import is_spark, time_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..spark.checkpoint.migrating.conversion import FieldChanges
    from ..spark.checkpoint.migrating.report import CheckpointReport, StoreReport

F = TypeVar("F", bound="Callable[..., Any]")

_TAKEN = {"source", "target_place", "like", "dry_run", "with_json", "redact"}
_OWN = {"rename_field", "fill", "merge_field", "ttl", "drop_uncommitted"}
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
        fields: What types do not say, by the number of the operator.
        drop_uncommitted: Whether a batch that is not committed is left out.
    """

    fields: dict[int, FieldChanges]
    drop_uncommitted: bool


def spark_change_options(function: F) -> F:
    """Add the options for a checkpoint of Spark; the command receives them as `spark_changes`."""

    @click.option(
        "--rename-field",
        multiple=True,
        metavar="OPERATOR:OLD=NEW",
        help="spark: only. A field that has a new name, such as 0:key.k=key.user. Can be given several times.",
    )
    @click.option(
        "--fill",
        multiple=True,
        metavar="OPERATOR:PATH=JSON",
        help="spark: only. What stored rows have in a new field, such as 0:value.count=0. Can be given several times.",
    )
    @click.option(
        "--merge-field",
        multiple=True,
        metavar="OPERATOR:PATH=RULE",
        help="spark: only. How the values of keys that become equal are merged: sum, min or max. Can be given several "
        "times.",
    )
    @click.option(
        "--ttl",
        multiple=True,
        metavar="OPERATOR:VARIABLE=MS",
        help="spark: only. When stored entries of a variable expire: so many milliseconds after the last batch, or with"
        " a sign, later or earlier than before, such as 0:count=+60000. Can be given several times.",
    )
    @click.option(
        "--drop-uncommitted",
        is_flag=True,
        help="spark: only. Leave out a batch that is planned and not committed; sinks may then see rows twice.",
    )
    @functools.wraps(function)
    def with_changes(
        *args: Any,
        rename_field: tuple[str, ...],
        fill: tuple[str, ...],
        merge_field: tuple[str, ...],
        ttl: tuple[str, ...],
        drop_uncommitted: bool,
        **rest: Any,
    ) -> Any:
        parsed: dict[int, dict[str, dict[str, Any]]] = {}
        for kind, texts in (("renames", rename_field), ("fills", fill), ("merges", merge_field), ("ttls", ttl)):
            for text in texts:
                operator, path, said = _parted(text)
                if kind == "renames":
                    path, said = said, path
                value = _json(text, said) if kind == "fills" else said
                parsed.setdefault(operator, {}).setdefault(kind, {})[path] = value
        fields: dict[int, FieldChanges] = {}
        if parsed:
            from ..spark.checkpoint.migrating.conversion import (
                FieldChanges,  # it needs numpy, which comes with an extra
            )

            fields = {operator: FieldChanges(**changes) for operator, changes in parsed.items()}
        return function(*args, spark_changes=SparkChanges(fields, drop_uncommitted), **rest)

    return cast("F", with_changes)


def _parted(text: str) -> tuple[int, str, str]:
    operator, _, rest = text.partition(":")
    path, _, said = rest.partition("=")
    if not operator.isdigit() or not path or not said:
        raise click.UsageError(f"{text!r} is not OPERATOR:PATH=…, such as 0:value.count=0")
    return int(operator), path, said


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
        raise click.UsageError(f"a migration {kind} does not take {names}")


def migrate_spark(source: str, target: str, like: str, changes: SparkChanges, *, dry_run: bool, with_json: bool) -> int:
    """Migrate a checkpoint, and print what was done; return the exit status.

    Raises:
        UsageError: The target or the probe is no checkpoint of Spark.
    """
    if not is_spark(target):
        raise click.UsageError(f"the copy of a Spark query's checkpoint is one, too: write spark:{target}")
    if not is_spark(like):
        raise click.UsageError(
            "specify the new types: --like spark:PROBE, a checkpoint that the new query wrote on a little data"
        )
    from ..spark.checkpoint.migrating.migration import migrate_checkpoint

    report = migrate_checkpoint(
        source,
        target,
        like=like,
        changes=changes.fields,
        drop_uncommitted=changes.drop_uncommitted,
        dry_run=dry_run,
    )
    if with_json:
        print_json(attrs.asdict(report) | {"warnings": list(report.warnings)})
    else:
        print_styled(_lines(report))
    return Status.DONE


def _lines(report: CheckpointReport) -> Iterator[Line | Table]:
    converted = [one for one in report.stores if one.is_converted]
    if report.dry_run:
        yield [(f"plan: {many(len(converted), 'store')} of {len(report.stores)} converted, the others copied", "bold")]
    elif not converted:
        yield [(f"copied: no type of the state changes; {report.target}", "bold green")]
    else:
        entries = sum(sum(one.written) for one in converted)
        done = f"{many(entries, 'entry', 'entries')} of {many(len(converted), 'store')} converted"
        yield [(f"migrated: {done}, in {report.target}", "bold green")]
    rows = [[[(cell, "")] for cell in _cells(one, dry_run=report.dry_run)] for one in report.stores]
    yield Table(_COLUMNS, rows, indent=2)
    told = [f"  operator {one.operator}: {note}" for one in report.stores for note in one.notes]
    for text in dict.fromkeys(told):  # what changes in a key changes in each store of a join
        yield [(text, "")]
    for warning in report.warnings:
        yield [(f"  {warning}", "yellow")]
    watermark = f", watermark {time_text(report.watermark_ms)}" if report.watermark_ms else ""
    yield [(f"  kept: query {report.query_id}, batch {report.batch}, offsets{watermark}", "")]
    yield [
        ("  not compared: what types do not show, such as which column is aggregated, or the length of windows", "dim")
    ]
    if report.dry_run:
        yield [("dry run: nothing was written", "")]
    else:
        yield []
        yield [
            ("the source is untouched: the old query can go on from it until the new one has written to its sink", "")
        ]
        yield [(f"start the new query with checkpointLocation {report.target}", "bold")]


def _cells(one: StoreReport, *, dry_run: bool) -> list[str]:
    done = one.done or ("converted" if one.is_converted else "copied as files")
    counted = one.is_converted and not dry_run
    numbers = [f"{number:,}" for number in (sum(one.read), sum(one.written), one.merged)] if counted else ["", "", ""]
    return [f"{one.operator} ({one.kind})", one.store, done, *numbers]
