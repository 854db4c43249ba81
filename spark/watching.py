"""A Spark job in a thread of its own, so that this one can tell how far it is, and stop it."""

from __future__ import annotations

import os
import re
import subprocess
import time
import traceback
import uuid
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ..serializers.errors import MigrationFailed, NoSpaceLeft, StateShiftError, cause_text, shown, values_are_redacted
from ..serializers.escaping import one_line
from ..state.progress import Progress
from .interrupts import interrupts_kept

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from pyspark import SparkContext

T = TypeVar("T")

POLL_S = 0.2
_JAVA_END_S = 0.5
_LONGEST_END_S = 15.0  # Spark gives a worker of a cancelled task two seconds, and looks every other two
_LONGEST_CAUSE = 300
_PYTHON_FAILURE = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\w\S*?)(?:: (.*))?$", re.MULTILINE)
_TASK_FAILURE = re.compile(r"most recent failure: .*? executor [^)]*\): (.+)")
_JAVA_CLASS = re.compile(r"^(?:[a-z]\w*\.)+[A-Z][\w$]*(?:Exception|Error): ")
MISSING_MODULE = re.compile(r"ModuleNotFoundError: No module named '([^']+)'")


def run_watched(
    context: SparkContext,
    action: Callable[[], T],
    phase: str,
    tell: Callable[[Progress], None],
    description: str = "",
) -> T:
    """Run what starts Spark jobs, and tell of their tasks while they run.

    Args:
        context: Where they run.
        action: Starts them, and waits for the result.
        phase: What they do, in a word.
        tell: Is called with how many tasks are finished; more may turn up on the way.
        description: What Spark's pages call the jobs; by default the phase.

    Raises:
        MigrationFailed: Spark gave up.
    """

    def look(group: str) -> None:
        finished, running = tasks_of(context, group)
        tell(Progress(phase, finished, finished + max(running, 1)))

    result = run_in_group(context, action, look, description or phase, _told)
    tell(Progress(phase, 1, 1))
    return result


def run_in_group(
    context: SparkContext,
    action: Callable[[], T],
    look: Callable[[str], None],
    description: str,
    told: Callable[[Exception], Exception],
    **where: Any,
) -> T:
    """Run what starts Spark jobs as a group, which is stopped when anything ends it early.

    Args:
        context: Where they run.
        action: Starts them, and waits for the result.
        look: Is called now and then with the name of the group; what it raises ends the action.
        description: What Spark's pages call the jobs.
        told: Gives what is raised for an error of the action.
        where: For the error that tells of an ended JVM.

    Raises:
        MigrationFailed: The JVM has ended.
    """
    from pyspark import InheritableThread

    group = f"stateshift-{uuid.uuid4().hex[:8]}"

    def run() -> T:
        try:
            # Not by interrupts: an interrupted task ends at once and leaves its worker behind, still writing.
            context.setJobGroup(group, one_line(description), interruptOnCancel=False)
            return action()
        except Exception as error:
            raise_if_java_ended(context, error, **where)
            failure = told(error)
            if failure is error:
                raise
            raise failure from error

    try:
        return run_aside(InheritableThread, run, partial(look, group), partial(stop_group, context, group))
    except Exception as error:
        raise_if_java_ended(context, error, **where)
        raise


def run_aside(
    thread_of: type[threading.Thread],
    action: Callable[[], T],
    look: Callable[[], None],
    stop: Callable[[threading.Thread], None],
) -> T:
    """Run something in a thread of its own, so that this one can look how far it is, and stop it.

    Args:
        thread_of: What the thread is.
        action: Is run there; what it raises is raised here.
        look: Is called now and then; what it raises ends the action, as Ctrl-C does.
        stop: Ends what the action has begun; gets its thread, which may have ended.
    """
    outcome: list[T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(action())
        except BaseException as error:  # noqa: BLE001 - it is raised in the caller's thread
            failure.append(error)

    thread = thread_of(target=run, daemon=True)
    with interrupts_kept() as interrupts:
        thread.start()
        try:
            while thread.is_alive():
                interrupts.check()
                look()
                thread.join(POLL_S)
            interrupts.check()
        except BaseException:
            stop(thread)
            raise
        if failure:
            stop(thread)
            raise failure[0]
    return outcome[0]


def stop_group(context: SparkContext, group: str, thread: threading.Thread) -> None:
    """Stop all tasks, and wait until none can write any more."""
    from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]

    if java_has_ended(context):
        return
    try:
        context.cancelJobGroup(group)
    except (ConnectionError, Py4JNetworkError):
        return  # it is about to end, and does not answer any more
    deadline = time.monotonic() + _LONGEST_END_S
    while time.monotonic() < deadline and (thread.is_alive() or tasks_of(context, group)[1]):
        thread.join(POLL_S)
        time.sleep(POLL_S / 10)


def java_has_ended(context: SparkContext) -> bool:
    """Whether the JVM that PySpark has started is gone; with it go all tasks and workers."""
    process = getattr(context._gateway, "proc", None)  # noqa: SLF001 - there is no other way to ask
    with suppress(subprocess.TimeoutExpired):  # the broken connection is seen a little earlier than the end
        return process is not None and process.wait(_JAVA_END_S) is not None
    return False


def raise_if_java_ended(context: SparkContext, error: BaseException, **where: Any) -> None:
    """Say so where it is why a run failed; an interrupt stays what it is.

    Raises:
        MigrationFailed: The JVM is gone.
    """
    if not isinstance(error, Exception) or isinstance(error, StateShiftError):
        return
    if isinstance(error, ConnectionRefusedError) or java_has_ended(context):
        raise MigrationFailed(
            "Spark's Java process has ended: it was killed, or ran out of memory",
            advice="look at the memory of this machine; "
            "run the same command again: what is left behind is cleared first",
            **where,
        ) from error


def tasks_of(context: SparkContext, group: str) -> tuple[int, int]:
    """How many tasks are finished, and how many run."""
    tracker = context.statusTracker()
    finished, running = 0, 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info else ():
            stage_info = tracker.getStageInfo(stage)
            finished += stage_info.numCompletedTasks if stage_info else 0
            running += stage_info.numActiveTasks if stage_info else 0
    return finished, running


def attempts_of(context: SparkContext) -> int:
    """How often the master lets a task fail before it gives up."""
    return attempts_with(context.master or "", context.getConf().get("spark.task.maxFailures"))


def attempts_with(master: str, most_failures: str | None) -> int:
    """How often a master lets a task fail, by its URL and the setting `spark.task.maxFailures`."""
    local = re.fullmatch(r"local(?:\[[^],]+(?:,\s*(\d+))?\])?", master)
    return int(local[1] or 1) if local else int(most_failures or 4)


def _told(error: Exception) -> Exception:
    """Say why Spark gave up; errors of ours stay what they are."""
    if isinstance(error, StateShiftError):
        return error
    text = str(error)
    again = "run it again: what is left behind is cleared first"
    missing = MISSING_MODULE.search(text)
    if missing is not None:
        return MigrationFailed(
            f"the workers have no module {missing[1]!r}", advice=f"hand its file out with py_files=…, and {again}"
        )
    failed = re.search(r"Task \d+ in stage \S+ failed (\d+) times", text)
    if failed is not None and "crashed" in text:
        times = "once" if failed[1] == "1" else f"{failed[1]} times"
        return MigrationFailed(
            f"a worker process died {times} over the same piece of work: it was killed, or ran out of memory",
            advice=f"give it more memory, or a master that tries again (local[*,4]); {again}",
        )
    return gave_up(error, f"see Spark's log, mend the query, and {again}")


def gave_up(error: Exception, advice: str, **where: Any) -> StateShiftError:
    """Say why Spark gave up, where nothing more is known than what it says."""
    if "No space left on device" not in str(error):
        return MigrationFailed(f"Spark gave up: {cause_of(error)}", advice=advice, **where)
    place = os.environ.get("SPARK_LOCAL_DIRS", "the folder for temporary files")
    return NoSpaceLeft(
        f"no space is left where Spark keeps what it sorts: {place}",
        advice="make room there, or let SPARK_LOCAL_DIRS name a folder on a larger disk; "
        "run it again: what is left behind is cleared first",
        **where,
    )


def without_values(error: Exception) -> StateShiftError:
    """Give an error as a task raises it where values are redacted, `from None`: Spark logs what is behind it, too."""
    if isinstance(error, StateShiftError):
        return error
    trace = "".join(traceback.format_tb(error.__traceback__))
    return MigrationFailed(f"a worker failed with {cause_text(error)}", details=trace.splitlines())


def cause_of(error: Exception) -> str:
    """Give in a line why Spark gave up; what it raises comes with stack traces of Java and of Python.

    Of a failed worker it is what Python raised there; else what ended the task, or Spark itself.
    """
    text = str(error).partition("Driver stacktrace")[0]
    raised = _PYTHON_FAILURE.findall(text)
    if raised:
        name, message = raised[-1]
        return f"a worker failed with {name}" + (f": {shown(message, _LONGEST_CAUSE)}" if message else "")
    task = _TASK_FAILURE.search(text)
    if task is not None and values_are_redacted():
        return task[1].partition(": ")[0]  # the class; SQL's messages show values
    lines = [task[1]] if task else [line.strip().removeprefix(": ") for line in text.splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith("An error occurred while calling")]
    return _JAVA_CLASS.sub("", told[0]) if told else type(error).__name__
