"""A session of Spark Connect, whose server is another process: states are migrated, read and written there."""

from __future__ import annotations

import json

import pytest

from stateshift import Savepoint
from stateshift.state.savepoint.verify import verify

pytest.importorskip("grpc", reason="Spark Connect is an extra of pyspark: pip install 'pyspark[connect]'")

pytestmark = pytest.mark.slow

KEYS = 3_000
HELPER = """
def text_of(x):
    return str(x)

def unfit(x):
    if x == 1234:
        raise ValueError("no text for it")
    return str(x)
"""
RUN = """
import json, os, sys, warnings
warnings.filterwarnings("ignore")
from pyspark.sql import SparkSession
from stateshift import Job, Operator, StateShiftError, ValueStateDescriptor
from stateshift.state.migration.options import MigrationOptions
from stateshift.spark import StreamJob, register
from stateshift.spark.bootstrap import StateSource, bootstrap
from stateshift.spark.migrate import migrate
from stateshift.spark.verify import verify

folder, source = sys.argv[1:3]
sys.path.insert(0, f"{folder}/users")
from connect_helper import text_of, unfit
from packed_helper import text_of as packed_text_of

def told(action):
    try:
        return action()
    except StateShiftError as error:
        return f"{type(error).__name__}: {error}"

def job(convert):
    return Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", str, converter=convert)])])

os.environ["PYSPARK_PYTHON"] = sys.executable  # of the server, which starts the workers
spark = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false").getOrCreate()
facts = {"session": type(spark).__module__}
steps = []
four = MigrationOptions(parallelism=4)
report = migrate(source, f"{folder}/new", job(text_of), four, session=spark, progress=steps.append)
facts |= {"written": report.states[0].written, "steps": [(step.phase, step.done) for step in steps][-2:]}
packed = [f"{folder}/users/packed_helper.py"]
report = migrate(source, f"{folder}/packed", job(packed_text_of), session=spark, py_files=packed)
facts["packed"] = report.states[0].written
verified = verify(f"{folder}/packed", session=spark)
facts["verified"] = [verified.ok, verified == verify(f"{folder}/packed")]
facts["bad"] = told(lambda: migrate(source, f"{folder}/none", job(unfit), session=spark))
facts["left"] = os.path.exists(f"{folder}/none")
rows = spark.range(3).selectExpr("id", "cast(id as string) as text")
rows = StateSource("counter", "count", rows, key_by="id", value="text")
facts["bootstrap"] = told(lambda: bootstrap(f"{folder}/made", job(str), rows))
stream = spark.readStream.format("rate").load()
facts["streamed"] = told(lambda: StreamJob(f"{folder}/state", f"{folder}/checkpoint").stream(stream))

def read(place):
    return spark.read.format("savepoint").options(operator="counter", state="count").load(place)

register(spark)
frame = read(f"{folder}/new").where("key < 5 or key = 2999")
names = spark.createDataFrame([(7, "seven"), (4, "four")], ["key", "name"])
facts["joined"] = [list(row) for row in frame.join(names, "key").select("key", "value", "name").collect()]
facts["types"] = [field.dataType.simpleString() for field in frame.schema]
facts["one"] = [list(row)[1:] for row in read(f"{folder}/new").where("key = 2999").collect()]
changed = frame.selectExpr("key", "concat('n° ', value) as value").write.format("savepoint")
changed.options(base=f"{folder}/new", operator="counter", state="count").mode("overwrite").save(f"{folder}/changed")
print(json.dumps(facts))
spark.stop()
"""


def test_states_are_migrated_read_and_written_on_a_connect_session(tmp_path, counts, start_python, values_of):
    (tmp_path / "users").mkdir()
    for name in ("connect_helper", "packed_helper"):
        (tmp_path / "users" / f"{name}.py").write_text(HELPER)
    process = start_python(RUN, tmp_path, counts(KEYS))
    printed, errors = process.communicate(timeout=240)

    assert printed, errors
    facts = json.loads(printed.splitlines()[-1])
    assert facts["session"] == "pyspark.sql.connect.session"
    assert (facts["written"], facts["packed"], facts["left"]) == (KEYS, KEYS, False)
    assert facts["verified"] == [True, True]
    assert facts["steps"] == [["migrating", 4], ["publishing", 0]]
    assert "connect_helper.unfit failed on 1234: ValueError: no text for it" in facts["bad"]
    assert "Nothing was published" in facts["bad"]
    assert facts["bootstrap"].startswith("DeclarationError: making a savepoint from rows needs Spark's driver")
    assert "spark-submit" in facts["bootstrap"]
    assert facts["streamed"].startswith("DeclarationError: a function with state needs Spark's driver")
    assert facts["types"] == ["int", "bigint", "string"]
    assert facts["joined"] == [[4, "4", "four"]]
    assert facts["one"] == [[2999, "2999"]]
    assert values_of(tmp_path / "changed", "counter", "count") == {key: f"n° {key}" for key in [*range(5), 2999]}
    for name in ("new", "packed"):
        assert values_of(tmp_path / name, "counter", "count") == {key: str(key) for key in range(KEYS)}
        assert verify(Savepoint.open(tmp_path / name)).ok
