"""`spark-submit` to a cluster of real executor processes: states are read, joined, written and migrated there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pyspark
import pytest
from user_modules import marks

from stateshift import Savepoint
from stateshift.spark.java import java_home
from stateshift.state.savepoint.verify import verify
from stateshift.state.testing import write_savepoint

pytestmark = [pytest.mark.faults, pytest.mark.slow]  # no faults, but as slow as those

KEYS = 2_000
MARKS = marks(
    "stateshift/test-cluster.mark",
    """

def text_of(number):
    return str(number)


new_counts = Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", str, converter=text_of)])])
""",
)
SUBMITTED = """
import json, sys, urllib.request
from pyspark.sql import SparkSession, functions as sf
import submitted_marks
from stateshift.spark import register
from stateshift.spark.migrate import migrate
from stateshift.state.migration.options import MigrationOptions

counts, marks = sys.argv[1:3]  # from the current folder on: the executors are elsewhere
spark = register(SparkSession.builder.getOrCreate())

def read(place, operator, state):
    return spark.read.format("savepoint").options(operator=operator, state=state).load(place)

def told(page):
    with urllib.request.urlopen(f"{spark.sparkContext.uiWebUrl}/{page}") as answer:
        return json.load(answer)

frame = read(counts, "counter", "count")
names = spark.createDataFrame([(7, "seven"), (-1, "none")], ["key", "name"])
changed = frame.withColumn("value", sf.col("value") * 2).select("key", "value").write.format("savepoint")
changed.options(base=counts, operator="counter", state="count").mode("overwrite").save("twice")
report = migrate("twice", "texts", submitted_marks.new_counts, MigrationOptions(parallelism=4), session=spark)
page = f"api/v1/applications/{spark.sparkContext.applicationId}"
print(json.dumps({
    "rows": frame.count(),
    "partitions": [frame.rdd.getNumPartitions(), frame.where("key = 7").rdd.getNumPartitions()],
    "joined": [list(row) for row in frame.join(names, "key").select("key", "value", "name").collect()],
    "marks": [[row.key, str(row.value)] for row in read(marks, "o", "mark").collect()],
    "written": report.states[0].written,
    "executors": sorted(one["id"] for one in told(f"{page}/executors") if one["completedTasks"]),
    "jobs": [[job["numTasks"], job["numCompletedTasks"], job["description"]] for job in told(f"{page}/jobs")
             if job.get("description", "").startswith("stateshift")],
    "counted": {name.partition("stateshift.")[2]: found["value"]
                for name, found in told("metrics/json/")["gauges"].items() if "stateshift." in name},
    "sizes": [report.bytes_read],
}))
spark.stop()
"""


@pytest.fixture
def installation(tmp_path):
    """Spark as it is installed, but in a folder to which its workers may write."""
    folder = tmp_path / "spark"
    folder.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        if entry.name != "work":
            (folder / entry.name).symlink_to(entry)
    return folder


@pytest.fixture
def submitted(installation, tmp_path):
    """`submitted(script, *arguments, master=…, modules={…})`: what a script prints that `spark-submit` runs."""

    def run(script, *arguments, master, modules):
        (tmp_path / "script.py").write_text(script, encoding="utf-8")
        with zipfile.ZipFile(tmp_path / "modules.zip", "w") as archive:
            for name, source in modules.items():
                archive.writestr(f"{name}.py", source)
        settings = {
            "spark.executor.memory": "512m", "spark.executor.extraJavaOptions": os.environ["SPARK_SUBMIT_OPTS"],
            "spark.sql.shuffle.partitions": 2, "spark.sql.warehouse.dir": tmp_path / "warehouse",
            "spark.ui.port": 0, "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
        }  # fmt: skip
        done = subprocess.run(
            [installation / "bin" / "spark-submit", "--master", master, "--py-files", tmp_path / "modules.zip",
             *(part for name, value in settings.items() for part in ("--conf", f"{name}={value}")),
             tmp_path / "script.py", *arguments],
            capture_output=True, text=True, cwd=tmp_path, timeout=240, check=False,
            env=os.environ | {"JAVA_HOME": str(java_home()), "SPARK_HOME": str(installation), "PYTHONSAFEPATH": "1",
                              "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run


def test_states_are_read_written_and_migrated_by_executors(submitted, counts, tmp_path, load, values_of):
    counts(KEYS, parallelism=2)
    write_savepoint(tmp_path / "marks", load("submitted_marks", submitted_marks=MARKS).job, {"o/mark": {"Ann": 1}})

    facts = submitted(SUBMITTED, f"counts-{KEYS}", "marks", master="local-cluster[2,1,1024]",
                      modules={"submitted_marks": MARKS})  # fmt: skip

    assert facts["rows"] == KEYS
    assert facts["partitions"][0] > facts["partitions"][1] == 1
    assert facts["joined"] == [[7, 7, "seven"]]
    assert facts["marks"] == [["Ann", "1"]]
    assert facts["executors"] == ["0", "1"]
    assert values_of(tmp_path / "twice", "counter", "count") == {key: 2 * key for key in range(KEYS)}
    assert values_of(tmp_path / "texts", "counter", "count") == {key: str(2 * key) for key in range(KEYS)}
    assert all(verify(Savepoint.open(tmp_path / name)).ok for name in ("twice", "texts"))
    assert facts["counted"] == {"entries": KEYS, "bytes": facts["sizes"][0]}
    assert [(4, 4)] == [(tasks, done) for tasks, done, _ in facts["jobs"]]
