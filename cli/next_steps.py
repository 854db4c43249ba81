"""What a person does next: the command that goes on, with all that was given; how the job starts on a savepoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..serializers.escaping import shell_word
from ..state.storage.stores import parted

if TYPE_CHECKING:
    from collections.abc import Iterable

ARGUMENTS = "stateshift.arguments"
"""What the context's `meta` has of the command line behind the name of the command, as it was typed."""
_OF_THE_ANSWER = {"--json"}


def options_given(other: click.Command, *, only: Iterable[str] = ()) -> str:
    """Give the options of the running command that another one has too, as they were typed, quoted for a shell.

    Args:
        other: The command that is to be told.
        only: The options that are wanted, where it takes the others from elsewhere.
    """
    context = click.get_current_context()
    given, _, _ = context.command.make_parser(context).parse_args(list(context.meta[ARGUMENTS]))
    known = {name for option in other.params for name in option.opts} - _OF_THE_ANSWER
    wanted = known.intersection(only or known)
    words: list[str] = []
    for option in context.command.params:
        if not isinstance(option, click.Option) or option.name not in given or option.opts[0] not in wanted:
            continue
        spelling, value = option.opts[0], given[option.name]
        if option.is_flag:
            words.append(spelling)
            continue
        words += [f"{spelling} {shell_word(one)}" for one in (value if option.multiple else [value])]
    return " ".join(words)


def start_lines(place: str, *, flink_restorable: bool | None, with_orphans: bool) -> list[str]:
    """Say how a Flink job starts on a savepoint, or why none can.

    Args:
        place: The savepoint, as the person wrote it. The options of a URI are pyarrow's, and left out: Flink is told
            elsewhere how a store is reached.
        flink_restorable: Whether Flink knows every snapshot of the job's operators; None: it cannot be told.
        with_orphans: Whether the savepoint has operators that the job does not: Flink then wants to be told so.
    """
    if flink_restorable is False:
        reason = "which does not know stateshift's own serializers (for it, give each record its java_class)"
        return [f"start the job: not in Flink, {reason}"]
    place, _ = parted(place)
    orphans = " --allowNonRestoredState" if with_orphans else ""
    lines = [f"start the job: flink run -s {shell_word(place)}{orphans} …"]
    if with_orphans:
        lines.append("  (the job lacks an operator of the savepoint; Flink drops its state only when told so)")
    return lines
