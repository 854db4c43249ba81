"""What the tests' Spark starts with half the work from: its Java classes in one file, and its Python compiled.

    python tests/spark_classes.py    writes both; `make test` does so once

The classes are read and verified. Java ignores a file that does not fit its version or its jars. Of its Python, Spark
gives its workers archives without compiled code, which each process would compile again: the home that is made here
has the installed packages in their places.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[1]
ARCHIVE = ROOT / ".cache" / "spark.jsa"
HOME = ROOT / ".cache" / "spark" / "pyspark"
"""With links to all that is installed as pyspark; py4j lies beside it, as where they are installed."""

# A JVM of the tests lives for seconds: code that is compiled at once is worth more to it than code that is fast.
OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData -Xlog:disable"
"""Of every JVM of the tests, also the one that only puts together the command line of the other."""


def java_options():
    """What the JVMs of the tests are started with."""
    return f"{OPTIONS} -XX:SharedArchiveFile={ARCHIVE}" if ARCHIVE.exists() else OPTIONS


def environment():
    """The variables by which Spark is started in the tests."""
    variables = {"SPARK_SUBMIT_OPTS": java_options(), "SPARK_LAUNCHER_OPTS": OPTIONS}
    if (HOME / "__init__.py").exists() and (HOME / "__init__.py").samefile(_installed("pyspark") / "__init__.py"):
        variables["SPARK_HOME"] = str(HOME)
    return variables


def _installed(package):
    return Path(find_spec(package).origin).parent


def write_home():
    """Link what is installed, but for the two archives."""
    pyspark, py4j = _installed("pyspark"), _installed("py4j")
    shutil.rmtree(HOME.parent, ignore_errors=True)
    (HOME / "python" / "lib").mkdir(parents=True)
    (HOME.parent / "py4j").symlink_to(py4j)
    for entry in {*pyspark.iterdir(), *(pyspark / "python").iterdir()}:
        if entry.name not in {"python", "lib"}:
            (HOME / entry.relative_to(pyspark)).symlink_to(entry)
    for archive in (pyspark / "python" / "lib").glob("*.zip"):
        package = py4j if archive.name.startswith("py4j") else pyspark
        (HOME / "python" / "lib" / archive.name).mkdir()
        (HOME / "python" / "lib" / archive.name / package.name).symlink_to(package)


def write_archive():
    """Do a little of what tests do, in a JVM that writes down at its end which classes it has loaded."""
    from stateshift.spark import register
    from stateshift.spark.sessions import session

    written = ARCHIVE.with_suffix(".part")  # Java would crash with a file that was cut off
    os.environ |= environment() | {"SPARK_SUBMIT_OPTS": f"{OPTIONS} -XX:ArchiveClassesAtExit={written}"}
    spark = register(session("local[2,4]"))
    assert 3 == spark.range(5).selectExpr("id * 2 AS x").repartition(2).where("x > 3").count()
    assert 45 == spark.sparkContext.parallelize(range(10), 2).sum()
    with tempfile.TemporaryDirectory() as folder:
        _use_sql(spark, f"{folder}/states", f"{folder}/rows")
    java = spark.sparkContext._gateway.proc
    spark.stop()
    java.stdin.close()
    java.wait(1200)
    if java.returncode == 0 and written.exists():  # not every Java writes one
        written.replace(ARCHIVE)


def _use_sql(spark, states, rows):
    given = spark.createDataFrame([(1, "a"), (2, "b"), (3, "a")], "key bigint, value string")
    state = {"operator": "o", "state": "s"}
    given.write.format("savepoint").mode("append").options(**state).save(states)
    found = spark.read.format("savepoint").options(**state).load(states)
    joined = found.join(given.groupBy("value").count(), "value").orderBy("key")
    assert [1, 2, 3] == [row["key"] for row in joined.collect()]
    joined.mapInArrow(lambda batches: batches, joined.schema).write.parquet(rows)
    assert 3 == len(spark.read.parquet(rows).collect())


if __name__ == "__main__":
    ARCHIVE.parent.mkdir(exist_ok=True)
    write_home()
    sys.exit(write_archive())
