"""`stateshift get`: everything that is stored under one key."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import attrs
import click

from ...compat.description import StateKind
from ...compat.plain_data import fields_of
from ...serializers.errors import OldReaderUnavailable, unless_redacted
from ...serializers.plain_forms import plain, value_text
from ...serializers.temporal.values import Instant
from ...serializers.wording import json_text, many
from ...state.progress import count_file_bytes, size_text
from ..key_choice import WantedKeys
from ..options import open_state, savepoint_argument, states_option, values_options
from ..output import Column, Table, print_json, print_notice, print_styled
from .export import LeftOut, Selection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..key_choice import KeyChoice
    from ..output import Block

_ENTRIES = (Column("state", is_name=True), Column("kind"), Column("key"), Column("namespace"),
            Column("value", is_text=True))  # fmt: skip


_MOST = 100
"""How many characters of a text, and elements of a list or map, the table shows."""
_NEGATIVE = re.compile(r"-[0-9][0-9.eE+-]*")


@attrs.define
class _BytesRead:
    """How many bytes of files were read.

    Attributes:
        metadata: Of `_metadata` and the headers of streams; of a Spark query, of its logs.
        state: Of entries.
    """

    metadata: int = 0
    state: int = 0

    @contextmanager
    def counted(self, of: str) -> Iterator[None]:
        """Count what is read in the `with` block."""

        def take(size: int) -> None:
            setattr(self, of, getattr(self, of) + size)

        with count_file_bytes.heard_by(take):
            yield


class _WithNegativeKeys(click.Command):
    """A command whose last argument may be a negative number, which is no option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        negative = [one for one in args if _NEGATIVE.fullmatch(one)] if "--" not in args else []
        return super().parse_args(
            ctx, [one for one in args if one not in negative] + ["--", *negative] * bool(negative)
        )


@click.command(
    "get",
    cls=_WithNegativeKeys,
    epilog="""\b
Examples:
  stateshift get /data/savepoints/sp-1 42
  stateshift get /data/savepoints/sp-1 customer-7 --operator accounts
  stateshift get s3://bucket/checkpoints/JOB/chk-9 '{"country": "fr", "id": 7}' --json
  stateshift get spark:/data/checkpoints/clicks '"a"'

\b
KEY is JSON, or a text: 42, "42" (a text that reads as a number), [7, "x"] (a tuple or a row), {"id": 7} (a record).
Of a checkpoint of a Spark query it has the fields of the grouping key, or some of them.
Only the key group of the key is read, or its partition. The Java hash of records, enums and other objects is not
known: then everything is read, and a line says so. Operators whose keys cannot be KEY are listed as skipped.
Exit status 7: some states cannot be read; the others were shown.""",
)
@savepoint_argument()
@click.argument("key")
@states_option
@values_options
def command(
    savepoint: str,
    key: str,
    *,
    plan: str,
    old_job: str,
    operator_name: str | None,
    state_name: str | None,
    trust: tuple[str, ...],
    with_json: bool,
) -> int:
    """Show every state of KEY in SAVEPOINT: values, lists, maps, windows and timers.

    spark:PLACE is the checkpoint of a query of Spark's own operators.
    """
    from ...serializers.pickled.trust import trusting
    from ...state.formats.flink.keyed_readers import databases_once

    wanted, size = WantedKeys.of_options((key,), None, ()), _BytesRead()
    with trusting(trust):
        with size.counted("metadata"):
            opened = open_state(savepoint, plan, old_job)
            for operator in opened.operators:
                _ = operator.states  # reads headers
        with size.counted("state"), databases_once():
            selected = Selection.of(opened, operator_name, state_name, wanted)
            entries = [_entries_of(selected, choice) for choice in selected.choices]
    if with_json:
        print_json(
            {"savepoint": opened.place, "key": unless_redacted(key)}
            | {"operators": [_data(*one) for one in zip(selected.choices, entries, strict=True)]}
            | {"unsupported": selected.unsupported_data()}
            | {"read": fields_of(size, "metadata_bytes=metadata state_bytes=state")}
        )
        return selected.status
    print_styled(_blocks(selected, entries, str(unless_redacted(key))))
    print_notice(f"read {size_text(size.state)} of state, and {size_text(size.metadata)} of metadata")
    for left_out in (*selected.unsupported, *selected.met):
        print_notice(left_out.notice())
    return selected.status


def _entries_of(selected: Selection, choice: KeyChoice) -> list[dict[str, Any]]:
    """Return the entries of an operator, as an export has them."""
    entries: list[dict[str, Any]] = []
    for operator, states in selected.states:
        for state in states if operator is choice.operator else ():
            found = []
            try:
                found = [json.loads("".join(line)) for line in selected.source.lines(operator, state, lambda: None)]
            except OldReaderUnavailable as error:
                selected.met.append(LeftOut.met(operator, state.name, error, len(found)))
            entries += found
    return entries


def _data(choice: KeyChoice, entries: list[dict[str, Any]]) -> dict[str, Any]:
    parts = "partitions" if choice.operator.is_of_spark else "key_groups"
    return {
        "operator": choice.operator.title,
        "key_type": choice.key_type,
        "skipped": choice.why if choice.is_skipped else None,
        parts: None if choice.parts is None else list(choice.parts),
        "all_read": choice.why or None if choice.states and choice.parts is None else None,
        "entries": [{name: what for name, what in one.items() if name != "operator"} for one in entries],
    }


def _blocks(selected: Selection, entries: list[list[dict[str, Any]]], key: str) -> Iterator[Block]:
    skipped = []
    for choice, found in zip(selected.choices, entries, strict=True):
        if choice.is_skipped:
            skipped.append(choice.notice)
            continue
        yield [(choice.operator.heading, "bold"), (f", {_parts(choice)}", "")]
        if found:
            rows = [*map(_cells, found)]
            if len({row[2] for row in rows}) == 1:
                yield [(f"  key {rows[0][2]}", "")]
                rows = [[*row[:2], "", *row[3:]] for row in rows]
            used = [at for at in range(len(_ENTRIES)) if any(row[at] for row in rows)]
            yield Table.of([_ENTRIES[at] for at in used], ([row[at] for at in used] for row in rows))
        else:
            yield [(f"  nothing is stored under {key}", "")]
        yield []
    yield from ([(line, "")] for line in skipped)


def _parts(choice: KeyChoice) -> str:
    word = "partition" if choice.operator.is_of_spark else "key group"
    if choice.parts is None:
        return f"all {many(choice.total, word)} were read: {choice.why}"
    return f"{word} {', '.join(map(str, choice.parts))} of {choice.total:,}"


def _cells(entry: dict[str, Any]) -> list[str]:
    kind, key, version = entry["kind"], entry["key"], entry.get("lazy_version", entry.get("stored_as"))
    space = value_text(entry["namespace"]) if "namespace" in entry else ""
    value, timestamp = value_text(entry.get("value"), _MOST), entry.get("timestamp")
    match entry.get("value"):  # of a Spark query, with TTL
        case {"value": inner, "ttlExpirationMs": int(expiry)}:
            value = f"{value_text(inner, _MOST)}, expires at {Instant.of_epoch_milli(expiry)}"
    match key:  # of a Spark query, the keys of maps and timers are within those of their entries
        case {"key": key, "userKey": inner} if kind == StateKind.MAP:
            value = f"{value_text(inner, _MOST)}: {value}"
        case {"key": key, "expiryTimestampMs": timestamp} if kind == StateKind.TIMERS:
            pass
    if kind == StateKind.TIMERS and timestamp is not None:
        value = f"fires at {Instant.of_epoch_milli(timestamp)}"
    shown = kind if version is None else f"{kind}, version {version}"
    return [entry["state"], shown, json_text(plain(key)), space, value]
