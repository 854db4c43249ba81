"""A Spark session that is quiet, finds its Java, and runs workers on the Python of the caller."""

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
from .in_arrow import pandas_unmentioned
from .interrupts import interrupts_kept
from .java import java_home
from .watching import java_has_ended

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

DEFAULT_MASTER = "local[*,4]"  # four attempts a task; local[*] alone never tries again
_LOG = Path(__file__).with_name("log4j2.properties")

D = TypeVar("D", bound="Driver")


class Driver(Protocol):
    """A running Spark, as far as jobs of tasks need it: a session, or what stands for one."""

    @property
    def sparkContext(self) -> SparkContext:  # noqa: N802 - Spark's name
        """Runs jobs."""

    def stop(self) -> None:
        """End it, with all that it started."""


@attrs.frozen
class WithoutSql:
    """Stands for a session where no data frame is needed: the classes of SQL take Java a second to load.

    Attributes:
        sparkContext: Runs jobs.
    """

    sparkContext: SparkContext  # noqa: N815 - Spark's name

    def stop(self) -> None:
        """End it."""
        self.sparkContext.stop()


def session(
    master: str = DEFAULT_MASTER,
    app_name: str = "stateshift",
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """Give the running session of this process, or start one; Ctrl-C is handled as before, and not by PySpark.

    Args:
        master: Where to run, as Spark spells it. Not looked at where a session runs already.
        app_name: What Spark calls the run.
        conf: Spark settings; they win over those made here.

    Raises:
        JavaNotFound: No Java 17 or later.
        LibraryNotFound: pyspark is not installed.
        StateShiftError: `master` is none.
        MigrationFailed: Spark does not start.
    """
    return _running() or _started(master, app_name, conf or {}, _session_of)


def require_libraries(what: str, *names: str) -> None:
    """Refuse what needs Spark where the libraries for it are missing.

    Args:
        what: What needs them, in words.
        names: Modules to import.

    Raises:
        LibraryNotFound: One is not installed.
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
    """Give a session that has SQL: itself, or that of what stood for one."""
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
    """Start Spark, and give what is made of its context and of the settings."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException

    _check_master(master)
    settings = {"spark.master": master, "spark.app.name": app_name, **_settings(master, conf)}
    variables = _variables(master)
    # Interrupted, PySpark would leave without the JVM that it has just launched.
    with _environment(variables), pandas_unmentioned(), interrupts_kept() as interrupts:
        # From Python 3.12 on: the JVM is forked while a run's claim is kept alive by a thread; the child only execs.
        warnings.filterwarnings("ignore", message=".*multi-threaded, use of fork", category=DeprecationWarning)
        try:
            context = SparkContext.getOrCreate(SparkConf().setAll(list(settings.items())))
            interrupts.keep_again()  # PySpark sets its own handler of interrupts, and calls the JVM on
            return made_of(context, settings)
        except (PySparkException, Py4JError) as error:
            raise _no_start(error, master, variables["JAVA_HOME"]) from error


def _check_master(master: str) -> None:
    """Refuse what Spark's launcher refuses with a stack trace."""
    if master.startswith("sc:"):
        raise StateShiftError(
            f"{master} is a Spark Connect server, and no master",
            advice=f"from Python, pass session=SparkSession.builder.remote({master!r}).getOrCreate()",
            written="Nothing was written.",
        )
    if master != "yarn" and not master.startswith(("local", "spark", "k8s")):
        raise StateShiftError(
            f"{master!r} is no master that Spark knows",
            advice="give local[*,4], spark://host:port, yarn, or k8s://https://host:port",
            written="Nothing was written.",
        )


def _no_start(error: Exception, master: str, java: str) -> MigrationFailed:
    """Say why Spark does not start: the message of the first Java exception, or the first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    told = next((line.partition("Exception: ")[2] for line in lines if "Exception: " in line), lines[0])
    if "stopped SparkContext" in told:  # PySpark goes on where the master did not answer, and fails over that
        told = f"the master {master} does not answer"
    return MigrationFailed(
        f"Spark does not start: {told}", advice=f"check the master {master}, the settings, and the Java in {java}"
    )


@contextmanager
def own_session(master: str = DEFAULT_MASTER, conf: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """Give the running session of this process; or start one, and stop it when the `with` block ends."""
    with _own(lambda: session(master, conf=conf)) as given:
        yield given


@contextmanager
def own_driver(master: str = DEFAULT_MASTER, conf: Mapping[str, str] | None = None) -> Iterator[Driver]:
    """As `own_session`; what is started on a local master has no SQL.

    On a cluster it has: PySpark takes a moment to notice that a master did not answer, and to load SQL takes longer.
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
    """Stop Spark. Where Java has ended there is nothing to stop, and another error tells so."""
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
    """Leave it to a thread to end PySpark's server of accumulators, which looks only once a second whether it is to."""
    server = getattr(context, "_accumulatorServer", None)
    if server is None or isinstance(server.server_address, str):  # that is a file, which is removed at its end
        yield
        return
    context._accumulatorServer = None  # type: ignore[assignment]  # noqa: SLF001 - there is no other way
    try:
        yield
    finally:
        Thread(target=server.shutdown, daemon=True).start()


def _is_running() -> bool:
    """Whether this process has a Spark context; a session may be that of another thread, which is not seen here."""
    if "pyspark" not in sys.modules:
        return False
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None  # noqa: SLF001 - there is no other way to ask


def _is_local(master: str) -> bool:
    return master.startswith("local")


def _settings(master: str, given: Mapping[str, str]) -> dict[str, str]:
    settings = {
        # The working folder stays off the workers' path: started from a checkout of stateshift, `state` or `spark`
        # would be importable there under a second name.
        "spark.executorEnv.PYTHONSAFEPATH": "1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOG.as_uri()}",
    }
    if _is_local(master):
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "1g",  # entries never travel through the JVM
            "spark.sql.warehouse.dir": _warehouse(),
        }
    options = "spark.driver.extraJavaOptions"
    joined = f"{settings[options]} {given[options]}" if options in given else settings[options]
    return settings | dict(given) | {options: joined}


def _variables(master: str) -> dict[str, str]:
    """Environment for the JVM, and from there for the workers that it starts."""
    if not _is_local(master):
        # The workers of a cluster have their own Python and network; the user's settings for them stand.
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
    """Set variables while the JVM starts; the caller's own environment is as before afterwards."""
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
    """Name a folder that Spark makes when a table is first saved, and that goes when this process ends."""
    folder = Path(tempfile.gettempdir()) / f"stateshift-spark-{uuid.uuid4().hex[:12]}"
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return str(folder)


def scratch_folder() -> Path:
    """Make a folder that goes when this process ends."""
    folder = tempfile.mkdtemp(prefix="stateshift-spark-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
