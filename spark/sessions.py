"""A quiet Spark session that finds its Java, and runs workers with the caller's Python."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import uuid
import warnings
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

import attrs

from ..serializers.errors import LibraryNotFound, MigrationFailed, StateShiftError
from ..state.progress import Progress, report_progress
from .interrupts import interrupts_kept
from .java import java_home
from .jobs import java_has_ended

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

DEFAULT_MASTER = "local[*,4]"  # four attempts per task; local[*] alone never retries
_LOG = Path(__file__).with_name("log4j2.properties")

D = TypeVar("D", bound="Driver")
FORKS_LOADED = {"spark.python.daemon.module": f"{__package__}.daemon"}
"""Settings of a session whose workers are forked from a process that has loaded machine code."""

JAVA_SCHEDULES = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
"""A JVM that only schedules ends before its optimizing compiler pays off; runs take half a second less without it."""


class Driver(Protocol):
    """A running Spark, as far as jobs of tasks need it: a session, or a substitute."""

    @property
    def sparkContext(self) -> SparkContext:  # noqa: N802 - Spark's name
        """The context that runs jobs."""

    def stop(self) -> None:
        """Stop Spark, with everything that it started."""


@attrs.frozen
class WithoutSql:
    """A substitute for a session if no DataFrame is needed: Java takes a second to load the classes of SQL.

    Attributes:
        sparkContext: The context that runs jobs.
    """

    sparkContext: SparkContext  # noqa: N815 - Spark's name

    def stop(self) -> None:
        """Stop Spark."""
        self.sparkContext.stop()


def session(
    master: str = DEFAULT_MASTER,
    app_name: str = "stateshift",
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return the running session of this process, or start one; Ctrl-C is handled as before, and not by PySpark.

    Args:
        master: The master, in Spark's syntax. It is ignored if a session is running.
        app_name: The name of the application in Spark.
        conf: Spark settings; they override those made here.

    Raises:
        JavaNotFound: There is no Java 17 or later.
        LibraryNotFound: pyspark is not installed.
        StateShiftError: `master` is not a valid master.
        MigrationFailed: Spark does not start.
    """
    return _running() or _started(master, app_name, conf or {}, _session_of)


def require_libraries(what: str, *names: str) -> None:
    """Refuse work that needs Spark if the required libraries are missing.

    Args:
        what: The work that needs them, in words.
        names: The modules to import.

    Raises:
        LibraryNotFound: A module is not installed.
    """
    for name in names:
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            missing = f"{what} needs {name}, which is not installed"
            raise LibraryNotFound(missing, advice="pip install 'stateshift[spark]'") from error


def _running() -> SparkSession | None:
    require_libraries("a Spark session", "pyspark")
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def with_sql(driver: Driver) -> SparkSession:
    """Return a session with SQL: the driver itself, or the session for its substitute."""
    return _session_of(driver.sparkContext, {}) if isinstance(driver, WithoutSql) else cast("SparkSession", driver)


def _session_of(_: SparkContext, settings: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _without_sql(context: SparkContext, _: Mapping[str, str]) -> WithoutSql:
    return WithoutSql(context)


def _started(
    master: str, app_name: str, conf: Mapping[str, str], made_of: Callable[[SparkContext, Mapping[str, str]], D]
) -> D:
    """Start Spark, and return the driver made of its context and the settings."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException

    _check_master(master)
    settings = {"spark.master": master, "spark.app.name": app_name, **_settings(master, conf)}
    variables = _variables(master)
    report_progress(Progress("starting Spark", 0, 1))
    # If interrupted, PySpark would leave the JVM behind that it has just launched.
    with _environment(variables), interrupts_kept() as interrupts:
        # Python 3.12 warns that the JVM is forked while a thread keeps the run's claim; the child only calls exec.
        warnings.filterwarnings("ignore", message=".*multi-threaded, use of fork", category=DeprecationWarning)
        try:
            context = SparkContext.getOrCreate(SparkConf().setAll(list(settings.items())))
            interrupts.keep_again()  # PySpark sets its own handler of interrupts, which calls the JVM
            return made_of(context, settings)
        except (PySparkException, Py4JError) as error:
            raise _no_start(error, master, variables["JAVA_HOME"]) from error


def _check_master(master: str) -> None:
    """Refuse a master that Spark's launcher refuses with a stack trace."""
    if master.startswith("sc:"):
        raise StateShiftError.before_writing(
            f"{master} is a Spark Connect server, not a master",
            advice=f"from Python, pass session=SparkSession.builder.remote({master!r}).getOrCreate()",
        )
    if master != "yarn" and not master.startswith(("local", "spark", "k8s")):
        raise StateShiftError.before_writing(
            f"{master!r} is not a master that Spark supports",
            advice="give local[*,4], spark://host:port, yarn, or k8s://https://host:port",
        )


def _no_start(error: Exception, master: str, java: str) -> MigrationFailed:
    """Return why Spark does not start: the message of the first Java exception, or the first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    told = next((line.partition("Exception: ")[2] for line in lines if "Exception: " in line), lines[0])
    if "stopped SparkContext" in told:  # PySpark continues if the master did not answer, and fails later
        told = f"the master {master} does not answer"
    return MigrationFailed(
        f"Spark did not start: {told}", advice=f"check the master {master}, the settings, and the Java in {java}"
    )


@contextmanager
def own_session(master: str = DEFAULT_MASTER) -> Iterator[SparkSession]:
    """Yield the running session of this process; or start one, and stop it when the `with` block ends."""
    with _own(lambda: session(master)) as given:
        yield given


@contextmanager
def own_driver(master: str = DEFAULT_MASTER, conf: Mapping[str, str] | None = None) -> Iterator[Driver]:
    """Yield a driver as `own_session` does; one that is started on a local master has no SQL.

    On a cluster it has SQL: PySpark takes a moment to notice that a master did not answer, and loading SQL takes
    longer.
    """
    made_of: Callable[..., Driver] = _without_sql if _is_local(master) else _session_of
    with _own(lambda: _running() or _started(master, "stateshift", conf or {}, made_of)) as given:
        yield given


@contextmanager
def _own(start: Callable[[], D]) -> Iterator[D]:
    was_running = _is_running()
    with ExitStack() as until_end:
        with interrupts_kept() as interrupts:
            given = start()
            if not was_running:
                until_end.callback(_stop, given)
            interrupts.check()
        yield given


def _stop(driver: Driver) -> None:
    """Stop Spark. If Java has ended, there is nothing to stop, and another error reports it."""
    context = driver.sparkContext
    with warnings.catch_warnings(), interrupts_kept(), _accumulators_aside(context):
        warnings.filterwarnings("ignore", message="Unable to cleanly shutdown Spark JVM process")
        try:
            driver.stop()
        except Exception:
            if not java_has_ended(context):
                raise


@contextmanager
def _accumulators_aside(context: SparkContext) -> Iterator[None]:
    """End PySpark's accumulator server in a thread, since the server checks only once a second whether it is to end."""
    server = getattr(context, "_accumulatorServer", None)
    if server is None or isinstance(server.server_address, str):  # the address is a file, which is removed at its end
        yield
        return
    context._accumulatorServer = None  # type: ignore[assignment]  # noqa: SLF001 - there is no other way
    try:
        yield
    finally:
        Thread(target=server.shutdown, daemon=True).start()


def _is_running() -> bool:
    """Whether this process has a Spark context; sessions of other threads are not visible here otherwise."""
    if "pyspark" not in sys.modules:
        return False
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None  # noqa: SLF001 - there is no other way to ask


def _is_local(master: str) -> bool:
    return master.startswith("local")


def _settings(master: str, given: Mapping[str, str]) -> dict[str, str]:
    settings = {
        # The working folder is not on the workers' path: in a checkout of stateshift, `state` or `spark` would
        # be importable there under a second name.
        "spark.executorEnv.PYTHONSAFEPATH": "1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOG.as_uri()}",
    }
    if _is_local(master):
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "1g",  # entries never pass through the JVM
            "spark.sql.warehouse.dir": _warehouse(),
        }
    options = "spark.driver.extraJavaOptions"
    joined = f"{settings[options]} {given[options]}" if options in given else settings[options]
    return settings | dict(given) | {options: joined}


def _variables(master: str) -> dict[str, str]:
    """Return the environment variables of the JVM, which its workers inherit."""
    if not _is_local(master):
        # The workers of a cluster have their own Python and network; the user's settings for them stay.
        python = os.environ.get("PYSPARK_PYTHON", sys.executable)
        return {"JAVA_HOME": str(java_home()), "PYSPARK_PYTHON": python, "PYTHONSAFEPATH": "1"}
    return {
        "JAVA_HOME": str(java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONSAFEPATH": "1",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables while the JVM starts, and restore the caller's environment afterwards."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _warehouse() -> str:
    """Return a path for a folder that Spark creates with the first saved table, and that is removed at exit."""
    folder = Path(tempfile.gettempdir()) / f"stateshift-spark-{uuid.uuid4().hex[:12]}"
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return str(folder)


def scratch_folder() -> Path:
    """Create a folder that is removed when this process ends."""
    folder = tempfile.mkdtemp(prefix="stateshift-spark-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
