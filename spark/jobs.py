"""Spark jobs in a separate thread, so that the calling thread can report their progress, and stop them."""

from __future__ import annotations

import os
import re
import subprocess
import time
import traceback
import uuid
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ..serializers.errors import MigrationFailed, NoSpaceLeft, StateShiftError, cause_text, shown, values_are_redacted
from ..serializers.ways_out import Option, Told, WayOut
from ..serializers.wording import one_line
from ..state.progress import Progress
from .interrupts import interrupts_kept

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from pyspark import SparkContext

T = TypeVar("T")

POLL_S = 0.2
_JAVA_END_S = 0.5
_LONGEST_END_S = 15.0  # Spark gives a worker of a cancelled task two seconds, and checks every two seconds
_LONGEST_CAUSE = 300
_PYTHON_FAILURE = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\w\S*?)(?:: (.*))?$", re.MULTILINE)
_TASK_FAILURE = re.compile(r"most recent failure: .*? executor [^)]*\): (.+)")
_JAVA_CLASS = re.compile(r"^(?:[a-z]\w*\.)+[A-Z][\w$]*(?:Exception|Error): ")
_AGAIN = "run it again: leftover files are removed first"
MISSING_MODULE = re.compile(r"ModuleNotFoundError: No module named '([^']+)'")


def run_watched(
    context: SparkContext,
    action: Callable[[], T],
    phase: str,
    tell: Callable[[Progress], None],
    description: str = "",
) -> T:
    """Run an action that starts Spark jobs, and report its tasks while they run.

    Args:
        context: The context of the jobs.
        action: A function that starts the jobs, and waits for the result.
        phase: The purpose of the jobs, in a word.
        tell: A function that is called with the number of finished tasks; further tasks may be added on the way.
        description: The description of the jobs on Spark's pages; by default the phase.

    Raises:
        MigrationFailed: Spark gave up.
    """

    def look(group: str) -> None:
        finished, running = tasks_of(context, group)
        tell(Progress(phase, finished, finished + max(running, 1)))

    result = run_in_group(context, action, look, description or phase, partial(failure_of_engine, again=_AGAIN))
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
    """Run an action that starts Spark jobs as a group; the group is cancelled if the action ends early for any reason.

    Args:
        context: The context of the jobs.
        action: A function that starts the jobs, and waits for the result.
        look: A function that is called regularly with the name of the group; an error in it ends the action.
        description: The description of the jobs on Spark's pages.
        told: A function that returns the error to raise for an error of the action.
        where: The location, for the error on an ended JVM.

    Raises:
        MigrationFailed: The JVM has ended.
    """
    from pyspark import InheritableThread

    group = f"stateshift-{uuid.uuid4().hex[:8]}"

    def run() -> T:
        try:
            # Without interrupts: an interrupted task ends at once and leaves its worker behind, still writing.
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
    """Run an action in a separate thread, so that this thread can monitor and stop it.

    Args:
        thread_of: The class of the thread.
        action: The function to run there; its errors are raised here.
        look: A function that is called regularly; an error in it ends the action, and so does Ctrl-C.
        stop: A function that ends what the action has begun; it takes the thread, which may have ended.
    """
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(action())
        except BaseException as error:  # noqa: BLE001 - it is raised in the caller's thread
            outcome.set_exception(error)

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
        if outcome.exception() is not None:
            stop(thread)
    return outcome.result()


def stop_group(context: SparkContext, group: str, thread: threading.Thread) -> None:
    """Cancel all tasks, and wait until none can write any more."""
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
    """Whether the JVM that PySpark started has ended, and with it all tasks and workers."""
    process = getattr(context._gateway, "proc", None)  # noqa: SLF001 - there is no other way to find out
    with suppress(subprocess.TimeoutExpired):  # the connection breaks a little before the process ends
        return process is not None and process.wait(_JAVA_END_S) is not None
    return False


def raise_if_java_ended(context: SparkContext, error: BaseException, **where: Any) -> None:
    """Raise an error if a run failed because the JVM has ended; an interrupt or an error of stateshift is left alone.

    Raises:
        MigrationFailed: The JVM has ended.
    """
    if not isinstance(error, Exception) or isinstance(error, StateShiftError):
        return
    if isinstance(error, ConnectionRefusedError) or java_has_ended(context):
        raise MigrationFailed(
            "Spark's Java process has ended: it was killed, or ran out of memory",
            advice="check the memory of this machine; run the same command again: leftover files are removed first",
            **where,
        ) from error


def tasks_of(context: SparkContext, group: str) -> tuple[int, int]:
    """Return the numbers of finished and of running tasks."""
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
    """Return the number of attempts per task on this master."""
    return attempts_with(context.master or "", context.getConf().get("spark.task.maxFailures"))


def attempts_with(master: str, most_failures: str | None) -> int:
    """Return the attempts per task on a master, by its URL and the setting `spark.task.maxFailures`."""
    local = re.fullmatch(r"local(?:\[[^],]+(?:,\s*(\d+))?\])?", master)
    return int(local[1] or 1) if local else int(most_failures or 4)


def failure_of_engine(
    error: Exception, again: str, more: str = "give it more memory", titles: Sequence[str] = (), **where: Any
) -> StateShiftError:
    """Return an error that says why Spark gave up; errors of stateshift are returned as they are.

    Args:
        error: The error that the jobs ended with.
        again: The advice to run it again, in words that follow "and".
        more: The advice where a worker has died.
        titles: The name of the operator in messages, by the number of Spark's task; may be empty.
        where: The location.
    """
    if isinstance(error, StateShiftError):
        return error
    text = str(error)
    failed = re.search(r"Task (\d+) in stage \S+ failed (\d+) times", text)
    if failed is not None and int(failed[1]) < len(titles):
        where["operator"] = titles[int(failed[1])]
    missing = MISSING_MODULE.search(text)
    if missing is not None:
        return MigrationFailed(
            f"the workers cannot import the module {missing[1]!r}",
            advice=WayOut("pass its file:", (Told.of(Option.PY_FILES, "FILE"),), more=f"; then {again}"),
            **where,
        )
    if failed is not None and "crashed" in text:
        times = "once" if failed[2] == "1" else f"{failed[2]} times"
        return MigrationFailed(
            f"a worker process died {times} on the same task: it was killed, or ran out of memory",
            advice=f"{more}, or a master that retries tasks (local[*,4]); {again}",
            **where,
        )
    return gave_up(error, f"see Spark's log, and {again}", **where)


def gave_up(error: Exception, advice: str, **where: Any) -> StateShiftError:
    """Return an error that says why Spark gave up, from its message alone."""
    if "No space left on device" not in str(error):
        return MigrationFailed(f"Spark gave up: {cause_of(error)}", advice=advice, **where)
    place = os.environ.get("SPARK_LOCAL_DIRS", "the folder for temporary files")
    return NoSpaceLeft(
        f"no space left in the folder where Spark sorts data: {place}",
        advice="free space there, or set SPARK_LOCAL_DIRS to a folder on a larger disk; "
        "run it again: leftover files are removed first",
        **where,
    )


def without_values(error: Exception) -> StateShiftError:
    """Return an error to raise `from None` in a task with redacted values: Spark also logs the causes of errors."""
    if isinstance(error, StateShiftError):
        return error
    trace = "".join(traceback.format_tb(error.__traceback__))
    return MigrationFailed(f"a worker failed with {cause_text(error)}", details=trace.splitlines())


def cause_of(error: Exception) -> str:
    """Return in one line why Spark gave up, as its errors contain stack traces of Java and of Python.

    For a failed worker, it is the Python error there; else the error that ended the task, or Spark itself.
    """
    text = str(error).partition("Driver stacktrace")[0]
    raised = _PYTHON_FAILURE.findall(text)
    if raised:
        name, message = raised[-1]
        return f"a worker failed with {name}" + (f": {shown(message, _LONGEST_CAUSE)}" if message else "")
    task = _TASK_FAILURE.search(text)
    if task is not None and values_are_redacted():
        return task[1].partition(": ")[0]  # only the class, since SQL's messages contain values
    lines = [task[1]] if task else [line.strip().removeprefix(": ") for line in text.splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith("An error occurred while calling")]
    return _JAVA_CLASS.sub("", told[0]) if told else type(error).__name__
