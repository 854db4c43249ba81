"""The click group of all commands: it loads the requested one, and turns its outcome into an exit status."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from .. import __version__
from ..serializers.errors import StateShiftError
from .failures import Status, print_defect, print_error, print_usage_error, status_of
from .next_steps import ARGUMENTS
from .output import OutputClosedError, answering, close_output, prepare_streams, print_notice, writing

if TYPE_CHECKING:
    from collections.abc import Sequence

# Command -> its module, and what `--help` says of it, in the order of the work. No name equals that of a module of the
# standard library.
_COMMANDS = {
    "inspect": ("inspection", "Show operators, states, types and sizes of a savepoint."),
    "get": ("get", "Show everything that is stored under one key."),
    "export": ("export", "Print the entries of a savepoint as JSON."),
    "sql": ("sql", "Query the states of a savepoint with SQL."),
    "init": ("init", "Write the job that a savepoint implies, to start yours from."),
    "check": ("check", "Report start, migrate or refuse, field by field."),
    "plan": ("plan", "Show what a migration would do, for review."),
    "migrate": ("migrate", "Write a new savepoint with the new types."),
    "verify": ("verify", "Verify that a savepoint is intact and every key in its place."),
    "diff": ("diff", "Show what differs between two savepoints, jobs or records."),
    "snapshot": ("snapshot", "Record the types of a savepoint or job in a file."),
    "record": ("record", "Keep beside a savepoint of PyFlink what its bytes hold."),
    "history": ("history", "List the recorded revisions of a job's state."),
    "heads": ("history", "Show the latest revisions: more than one after two branches."),
    "show": ("history", "Show one recorded revision: its states and their types."),
    "stamp": ("history", "Record which revision runs where."),
    "quarantine": ("quarantine", "List the values that a migration set aside."),
    "savepoint": ("savepoint", "Write a savepoint of a streaming query, running or stopped."),
    "explain": ("explain", "Show what a compiled plan of Flink SQL keeps as state, and what makes it grow."),
    "ttl": ("ttl", "Show or set the time to live of each state of a compiled plan of Flink SQL."),
    "rewind": ("state_directory", "Copy a streaming query as it was after an earlier batch."),
    "gc": ("state_directory", "Delete the files of a query's state directory that nothing needs."),
    "clean": ("clean", "Remove the files that a dead run left in its target."),
    "warm-up": ("warm_up", "Compile machine code before it is needed."),
    "rules": ("rules", "Show what a rule or a flag means, by its name."),
}
_ONLY_READ = {"inspect", "get", "verify", "diff", "explain", "history", "heads", "show", "quarantine", "rules", "sql"}
"""Commands that never write, so that their errors do not say whether something was written."""

_HELP = """Change the types of streaming state without losing the state.

Reads Flink savepoints, checks whether a job with changed types can take them over, and rewrites them if it
cannot, large ones on Spark. Savepoints are never modified: a migration writes a new one.
"""

_EPILOG = """\b
Examples:
  stateshift inspect /data/savepoints/sp-1
  stateshift get /data/savepoints/sp-1 42
  stateshift init /data/savepoints/sp-1 -o accounts.py
  stateshift check /data/savepoints/sp-1 --job accounts:job
  stateshift plan /data/savepoints/sp-1 --job accounts:job -o plan.json
  stateshift migrate /data/savepoints/sp-1 /data/savepoints/sp-1-v2 --job accounts:job
  stateshift verify /data/savepoints/sp-1-v2
  stateshift diff /data/savepoints/sp-1 accounts:job

\b
Exit status of every command:
  0  success; for a check: start, every state can be used as it is
  1  for a check, plan or migration: refuse; for verify: not verified; for diff: different
  2  wrong usage: options, a job that cannot be loaded, a target that exists
  3  input unreadable or corrupt
  4  for a check: migrate first (0 with --allow-migration)
  5  for a check against a history: drift, the job is not recorded (0 with --allow-drift)
  6  the run failed; nothing was published
  7  for an export: entries that cannot be read were left out
  8  refused only because aggregates of Flink SQL would begin now, which --allow-partial allows
"""


class _Context(click.Context):
    """The context of a command: while the command runs, stdout is for its answer alone."""

    def invoke(self, *args: Any, **kwargs: Any) -> Any:
        with answering():
            return super().invoke(*args, **kwargs)


class _Commands(click.Group):
    """The commands, each imported when it is requested."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module_name, short_help = _COMMANDS[cmd_name]
        module = import_module(f".commands.{module_name}", __package__)
        command: click.Command = getattr(module, f"{cmd_name}_command", None) or module.command
        command.context_class, command.short_help = _Context, short_help
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands, of which none is imported for it."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, short_help) for name, (_, short_help) in _COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in _COMMANDS and not args[0].startswith("-"):
            import difflib

            close = difflib.get_close_matches(args[0], _COMMANDS, n=1)
            known = f"did you mean {close[0]!r}?" if close else f"commands: {', '.join(_COMMANDS)}"
            raise click.UsageError(f"unknown command {args[0]!r}; {known}", ctx)
        ctx.meta[ARGUMENTS] = args[1:]
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; its errors and a closed pipe are handled here, since click would exit with 1 for them."""
        given = ctx.find_object(_Arguments)
        with_json = given is not None and given.with_json
        try:
            status = super().invoke(ctx)
            close_output()
        except OutputClosedError:
            raise
        except KeyboardInterrupt as interrupt:
            is_migration = ctx.invoked_subcommand == "migrate"
            unknown = ["A migration publishes nothing until it is complete."] if is_migration else []
            told = getattr(interrupt, "__notes__", unknown)
            print_notice("", " ".join(["interrupted.", *told]))
            return Status.INTERRUPTED
        except StateShiftError as error:
            print_error(error, with_json=with_json, only_reads=ctx.invoked_subcommand in _ONLY_READ)
            return status_of(error)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:  # noqa: BLE001 - status 1 would mean "refuse"
            print_defect(error, with_json=with_json)
            return Status.FAILED
        return status

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: FBT001, FBT002 - click's signature
        **extra: Any,
    ) -> Any:
        """Run the command and exit with its status; `standalone_mode` is ignored."""
        arguments = list(sys.argv[1:] if args is None else args)
        given = _Arguments(with_json="--json" in arguments)
        prepare_streams()
        try:
            try:
                with writing():  # help, which click writes
                    status = super().main(
                        arguments, prog_name or "stateshift", complete_var, standalone_mode=False, obj=given, **extra
                    )
            except click.ClickException as error:
                print_usage_error(error, with_json=given.with_json)
                status = Status.USAGE
            except click.Abort:
                status = Status.INTERRUPTED
            close_output()
        except OutputClosedError as closed:
            status = Status.OUTPUT_CLOSED
            if closed.reason:
                print_notice(f"Error: the output cannot be written: {closed.reason}")
                status = Status.FAILED
        sys.exit(int(status or 0))


class _Arguments:
    """Arguments that are known before a command is parsed: with `--json`, usage errors are JSON, too."""

    def __init__(self, *, with_json: bool) -> None:
        self.with_json = with_json


main = _Commands(
    "stateshift",
    help=_HELP,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=True,
)
main = click.version_option(__version__, prog_name="stateshift", message="%(prog)s %(version)s")(main)
