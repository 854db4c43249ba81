"""`stateshift migrate --follow` and `--finish`: most of the work is done while the job runs."""

from __future__ import annotations

import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import attrs
import click

from ..serializers.errors import SavepointNotFound, TargetExists
from ..state.progress import size_text
from ..state.storage.stores import parted
from .options import allowed_roots, as_one, is_spark, refuse_options
from .output import print_json, print_lines, print_notice
from .progress import show_progress
from .render.migration import announce_run
from .run_failures import failures_told
from .spark_options import OF_CHANGES, ONLY_OF_QUERIES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..compat.description import JobDescription
    from ..state.following.follower import Follower, FollowStatus
    from ..state.migration.options import MigrationOptions
    from ..state.migration.report import MigrationReport
    from .new_side import NewSide

_TOLD_EACH_S = 10.0
_MEGABYTE = 1_000_000
_ONLY_FOLLOWING = {"throttle", "interval", "once", "until"}
"""The arguments that only `--follow` takes."""
_NOT_WHILE_FOLLOWING = {"downgrade", "dry_run", "master", "py_files"} | ONLY_OF_QUERIES | OF_CHANGES
"""The arguments that neither `--follow` nor `--finish` takes."""


@attrs.frozen
class Following:
    """The values of `--follow`, `--finish` and what belongs to them.

    Attributes:
        follow: Whether to convert while the job runs.
        finish: Whether to convert the rest, after its stop.
        work: The folder for what is converted while the job runs; "": the one beside the target.
        throttle: How many megabytes of the job's files are looked at in a second; None: as many as can be.
        interval: How often to look for a new checkpoint, in seconds.
        once: Whether to end when the newest checkpoint is converted.
        until: The folder to which the stop writes its savepoint; then the rest is converted. "": it is not watched.
    """

    follow: bool
    finish: bool
    work: str
    throttle: float | None
    interval: float
    once: bool
    until: str

    def follower(
        self, source: str, target: str, side: NewSide, options: MigrationOptions, told: _Told | None = None
    ) -> Follower:
        """Return what follows a job to the new types; arguments as those of the command."""
        from ..state.following.follower import Follower

        most = None if self.throttle is None else self.throttle * _MEGABYTE
        return Follower(
            source, target, self._new_types(source, side, options), options,
            work=self.work, most_bytes_per_s=most, allow_roots=allowed_roots(), until=self.until,
            tell=told or (lambda _: None),
        )  # fmt: skip

    def _new_types(self, source: str, side: NewSide, options: MigrationOptions) -> JobDescription | None:
        """Return the new types; None if they stay.

        Raises:
            UsageError: An option is given that does not go together with `--follow` or `--finish`, or both are.
        """
        from ..state.plans.compiled_plan import is_compiled_plan

        if self.follow and self.finish:
            raise click.UsageError("--follow is while the job runs, --finish after its stop: give one of them")
        if self.once and self.until:
            raise click.UsageError("--once ends before the stop, --until with it: give one of them")
        refuse_options("{} is not for --follow and --finish", names=_NOT_WHILE_FOLLOWING)
        if is_spark(source):
            raise click.UsageError("--follow and --finish are for jobs of Flink, not for checkpoints of Spark queries")
        if side.plan and not is_compiled_plan(side.plan):
            raise click.UsageError("the file of a plan is of one savepoint: give the options of the plan instead of it")
        given = side.unless_types_stay("", options)
        return None if given is None else given.describe()


def _of_options(**given: Any) -> Following:
    following = Following(**given)
    if not following.follow:
        refuse_options("{} is only for --follow", names=_ONLY_FOLLOWING | (set() if following.finish else {"work"}))
    return following


follow_options = as_one(
    "following",
    _of_options,
    click.option(
        "--follow",
        is_flag=True,
        help="While the job runs: SOURCE is the folder of its checkpoints. Convert the newest, then what changes.",
    ),
    click.option(
        "--finish",
        is_flag=True,
        help="After --follow and the stop: SOURCE is the final savepoint. Convert the rest, and write TARGET.",
    ),
    click.option(
        "--work",
        metavar="FOLDER",
        default="",
        help="A new or empty local folder for what is converted while the job runs.  [default: TARGET.following]",
    ),
    click.option(
        "--throttle",
        type=click.FloatRange(min=0, min_open=True),
        metavar="MB",
        help="With --follow: look at no more than this many megabytes of the job's files in a second.",
    ),
    click.option(
        "--interval",
        type=click.FloatRange(min=0, min_open=True),
        default=2.0,
        show_default=True,
        metavar="SECONDS",
        help="With --follow: how often to look for a new checkpoint.",
    ),
    click.option("--once", is_flag=True, help="With --follow: end when the newest checkpoint is converted."),
    click.option(
        "--until",
        metavar="FOLDER",
        default="",
        help="With --follow: the folder that the stop writes its savepoint to. When it is there, do as --finish does.",
    ),
)


def follow(
    source: str,
    target: str,
    side: NewSide,
    options: MigrationOptions,
    following: Following,
    target_exists: str,
    *,
    with_json: bool,
) -> MigrationReport | None:
    """Follow a job until the process is interrupted, or another one has finished; arguments as those of the command.

    Returns:
        The report of the migration, if it was finished here.
    """
    from ..state.publication.publish import IfTargetExists

    told = _Told(with_json=with_json)
    follower = following.follower(source, target, side, options, told)
    follower.check_target(IfTargetExists(target_exists))
    stopped = ""
    with _interrupts_explained(follower):
        while not stopped:
            try:
                status = follower.step()
            except TargetExists:
                if not follower.status.newest:
                    raise
                status = follower.status  # the process that finishes is at work
            except SavepointNotFound:
                stopped = follower.wait(0)  # a job that ends deletes its checkpoints
                if not stopped:
                    raise
                break
            told.tell(status)
            if status.finished or (following.once and status.is_up_to_date):
                return None
            stopped = follower.wait(following.interval)
    print_notice(f"the savepoint of the stop is there: {stopped}")
    return _finished(follower, stopped, target_exists)


def finish(
    source: str, target: str, side: NewSide, options: MigrationOptions, following: Following, target_exists: str
) -> MigrationReport:
    """Convert what a follower has left; arguments as those of the command."""
    return _finished(following.follower(source, target, side, options), source, target_exists)


def _finished(follower: Follower, snapshot: str, target_exists: str) -> MigrationReport:
    from ..state.publication.publish import IfTargetExists

    with show_progress() as progress, failures_told(follower.target):
        return follower.finish(
            snapshot, target_exists=IfTargetExists(target_exists), announce=announce_run, progress=progress
        )


class _Told:
    """Prints the status when a checkpoint is converted or a new one appears, and otherwise at intervals.

    Args:
        with_json: Whether each status is a line of JSON.
    """

    def __init__(self, *, with_json: bool) -> None:
        self._with_json, self._told_s, self._last = with_json, time.monotonic(), ("", "", False)
        self._known = set[str]()

    def __call__(self, status: FollowStatus) -> None:
        """Print a status if the last one was printed an interval ago."""
        if status.states and time.monotonic() - self._told_s > _TOLD_EACH_S:
            self.tell(status, always=True)

    def tell(self, status: FollowStatus, *, always: bool = False) -> None:
        """Print a status if it differs from the last one."""
        now = (status.checkpoint, status.newest, status.finished)
        if not always and now == self._last and time.monotonic() - self._told_s < _TOLD_EACH_S:
            return
        self._last, self._told_s = now, time.monotonic()
        if self._with_json:
            print_json(status.to_data(), as_line=True)
            return
        print_notice(
            *self._news("begins again", status.begun_again),
            *self._news("at the end", status.at_the_end),
            *self._news("passed over", status.passed_over),
        )
        print_lines([_status_text(status)])

    def _news(self, what: str, lines: tuple[str, ...]) -> list[str]:
        """Return lines that were not told yet."""
        new = [line for line in lines if line not in self._known]
        self._known.update(new)
        return [f"{what}: {line}" for line in new]


def _status_text(status: FollowStatus) -> str:
    if status.finished:
        return "finished: the new savepoint is published"
    if not status.newest:
        return "waiting for the first completed checkpoint"
    name = parted(status.newest)[0].rpartition("/")[2]
    parts = [f"{name} is converted" if status.is_up_to_date else f"{name}: {size_text(status.bytes_left)} left"]
    if status.lag_s is not None:
        parts.append(f"{status.lag_s:.0f} s behind")
    if status.linked_bytes:
        parts.append(f"{size_text(status.linked_bytes)} of deleted files held")
    if status.stop_s is not None:
        parts.append(f"a stop now costs about {status.stop_s:.1f} s")
    return ", ".join(parts)


@contextmanager
def _interrupts_explained(follower: Follower) -> Iterator[None]:
    """Let SIGTERM end the process as Ctrl-C does, and say that nothing is lost."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except KeyboardInterrupt as error:
        error.add_note(f"What is converted stays in {follower.work}: the same command goes on with it.")
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
