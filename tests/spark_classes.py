"""The classes of Spark in one file, read and verified: a JVM of the tests that has it starts with half the work.

    python tests/spark_classes.py    writes the file; `make test` does so once

Java ignores a file that does not fit its version or its jars.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

ARCHIVE = Path(__file__).parents[1] / ".cache" / "spark.jsa"

# A JVM of the tests lives for seconds: code that is compiled at once is worth more to it than code that is fast.
OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData -Xlog:disable"
"""Of every JVM of the tests, also the one that only puts together the command line of the other."""


def java_options():
    """What the JVMs of the tests are started with."""
    return f"{OPTIONS} -XX:SharedArchiveFile={ARCHIVE}" if ARCHIVE.exists() else OPTIONS


def write():
    """Do a little of what tests do, in a JVM that writes down at its end which classes it has loaded."""
    from stateshift.spark import register
    from stateshift.spark.session import session

    written = ARCHIVE.with_suffix(".part")  # Java would crash with a file that was cut off
    ARCHIVE.parent.mkdir(exist_ok=True)
    os.environ["SPARK_SUBMIT_OPTS"] = f"{OPTIONS} -XX:ArchiveClassesAtExit={written}"
    spark = register(session("local[2,4]"))
    assert 3 == spark.range(5).selectExpr("id * 2 AS x").repartition(2).where("x > 3").count()
    assert 45 == spark.sparkContext.parallelize(range(10), 2).sum()
    java = spark.sparkContext._gateway.proc
    spark.stop()
    java.stdin.close()
    java.wait(300)
    if java.returncode == 0 and written.exists():  # not every Java writes one
        written.replace(ARCHIVE)


if __name__ == "__main__":
    sys.exit(write())
