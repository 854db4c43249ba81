"""Next steps: the command to run next, with the options given so far, and how the job starts on a savepoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..serializers.wording import shell_word
from ..state.storage.stores import parted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ARGUMENTS = "stateshift.arguments"
"""The key in the context's `meta` for the command line after the name of the command, as it was typed."""
_OF_THE_ANSWER = {"--json", "--html"}
"""Options that say where the answer goes, and not what is asked."""
_SQL_PLAN = "stateshift.sql_plan"
_TIMERS = "state.backend.rocksdb.timer-service.factory"


def options_given(other: str, *, only: Iterable[str] = ()) -> str:
    """Return the options of the running command that another one has too, as they were typed, quoted for a shell.

    Args:
        other: The name of the command to run next.
        only: The options to include, if it gets the others from elsewhere.
    """
    context = click.get_current_context()
    given, _, _ = context.command.make_parser(context).parse_args(list(context.meta[ARGUMENTS]))
    root = context.find_root()
    assert isinstance(root.command, click.Group)  # noqa: S101 - commands are run by it
    following = root.command.get_command(root, other)
    assert following is not None  # noqa: S101 - it is one of its commands
    known = {name: _choices(option) for option in following.params for name in option.opts}
    wanted = known.keys() - _OF_THE_ANSWER
    wanted = wanted.intersection(only or wanted)
    words: list[str] = []
    for option in context.command.params:
        if not isinstance(option, click.Option) or option.name not in given or option.opts[0] not in wanted:
            continue
        if _choices(option) != known[option.opts[0]]:  # `--format` of a check is that of its answer
            continue
        spelling, value = option.opts[0], given[option.name]
        if option.is_flag:
            words.append(spelling)
            continue
        words += [f"{spelling} {shell_word(one)}" for one in (value if option.multiple else [value])]
    return " ".join(words)


def _choices(option: click.Parameter) -> tuple[str, ...]:
    """Return the values that an option takes; none if it takes any."""
    return tuple(option.type.choices) if isinstance(option.type, click.Choice) else ()


def starts_with_plan(place: str) -> None:
    """Say that the new job is a query of Flink SQL, which is started with this compiled plan."""
    click.get_current_context().meta[_SQL_PLAN] = place


def flink_command(place: str, *, with_orphans: bool, is_native: bool = False, has_timers: bool = False) -> str:
    """Return the command that starts a Flink job on a savepoint; arguments as in `start_lines`.

    A query of Flink SQL is started by statements.
    """
    place, _ = parted(place)
    context = click.get_current_context(silent=True)
    plan = None if context is None else context.meta.get(_SQL_PLAN)
    if plan:
        unclaimed = " SET 'execution.state-recovery.ignore-unclaimed-state' = 'true';" if with_orphans else ""
        claim = " SET 'execution.state-recovery.claim-mode' = 'NO_CLAIM';" if is_native else ""
        timers = f" SET '{_TIMERS}' = 'ROCKSDB';" if has_timers else ""
        start = f"{claim}{timers}{unclaimed} EXECUTE PLAN {_literal(plan)};"
        return f"SET 'execution.state-recovery.path' = {_literal(place)};{start}"
    orphans = " --allowNonRestoredState" if with_orphans else ""
    claim = " --claimMode NO_CLAIM" if is_native else ""
    timers = f" -D{_TIMERS}=ROCKSDB" if has_timers else ""
    return f"flink run -s {shell_word(place)}{claim}{timers}{orphans} …"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def start_lines(
    place: str,
    *,
    flink_restorable: bool | None,
    with_orphans: bool,
    must_declare: bool = False,
    is_native: bool = False,
    has_timers: bool = False,
    moved_from: Sequence[str] = (),
) -> list[str]:
    """Return how a Flink job starts on a savepoint, or why it cannot.

    Args:
        place: The savepoint, as the user wrote it. The options in a URI are for pyarrow, and are left out: Flink has
            its own configuration of stores.
        flink_restorable: Whether Flink knows every snapshot of the job's operators; None if this is not known.
        with_orphans: Whether the savepoint has operators that the job does not have: Flink then needs an option to
            start.
        must_declare: Whether an operator has raw keyed state that it must declare.
        is_native: Whether it is a native savepoint of ours, whose first checkpoint would be broken by `CLAIM`
            (FLINK-39964).
        has_timers: Whether its timers are in files of RocksDB: a job that keeps timers on the heap does not find them
            there, and Flink does not say so.
        moved_from: The folders in which a moved checkpoint names its files.
    """
    if flink_restorable is False:
        reason = "which does not know stateshift's own serializers (for Flink, give each record its java_class)"
        return [f"start the job: not in Flink, {reason}"]
    if moved_from:
        places = " and ".join(moved_from)
        make = f"stateshift migrate {shell_word(place)} NEW_SAVEPOINT"
        return [f"start the job: not on this checkpoint, since Flink looks for its files in {places}; first {make}"]
    command = flink_command(place, with_orphans=with_orphans, is_native=is_native, has_timers=has_timers)
    lines = [f"start the job: {command}"]
    if has_timers:
        lines.append("  (the timers are in files of RocksDB: a job that keeps its own on the heap would lose them)")
    if with_orphans:
        lines.append("  (an operator of the savepoint is not in the job; Flink drops its state only with this option)")
    if must_declare:
        lines.append("  (an operator has raw keyed state, which Flink restores only if the operator declares it)")
    return lines


def query_start_lines(place: str) -> list[str]:
    """Return how a query goes on from its state directory, and what a Flink job starts on instead.

    Args:
        place: The state directory, as the user wrote it.
    """
    return [
        "start the query: StreamJob.start goes on from it",
        f"  a Flink job starts on a savepoint of it: stateshift savepoint {shell_word(place)} NEW_SAVEPOINT",
    ]
