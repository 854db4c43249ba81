"""A verification on Spark has the report of one in this process, whatever is wrong with the savepoint."""

import pickle
import random
import subprocess
import sys
from types import SimpleNamespace

import attrs
import pytest
from pyspark import TaskContext
from user_modules import marks

from stateshift import (
    Job,
    LibraryNotFound,
    ListStateDescriptor,
    Operator,
    PickleSerializer,
    SavepointWriter,
    StorageFailed,
    ValueStateDescriptor,
    verify,
)
from stateshift.serializers.registry import Additions
from stateshift.spark import sessions
from stateshift.spark import verify as verify_on_spark
from stateshift.spark.bundles import Bundles
from stateshift.spark.worker import Settings
from stateshift.state.publication.lineage import LINEAGE, FileDigest
from stateshift.state.savepoint import verify as verifying
from stateshift.state.savepoint.proof_tasks import DigestTask, Proofs
from stateshift.state.savepoint.verify import Outcome
from stateshift.state.savepoint.verify import verify as verify_here
from stateshift.state.storage.files import Folder

FIXTURES = (
    "hashmap-zoo-p1-m128", "rocksdb-account-v1", "hashmap-native-long-p2-m128", "rocksdb-string-p1-m200-snappy",
    "hashmap-operator-only-p2-m128", "rocksdb-windows-p1-m200",
)  # fmt: skip


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Streams are proven in parts."""
    monkeypatch.setattr(verifying, "PART_BYTES", 500)
    monkeypatch.setattr(verifying, "_PARTS_PER_SLOT", 1000)


@pytest.fixture
def written(tmp_path):
    job = Job(
        [Operator("o", key=int, states=[ValueStateDescriptor("s", str)], list_states=[ListStateDescriptor("l", int)])]
    )
    with SavepointWriter(tmp_path / "sp", job, parallelism=3) as writer:
        for number in range(3000):
            writer.put("o", "s", number, f"value {number}")
            writer.add("o", "l", number)
    return tmp_path / "sp"


@pytest.mark.parametrize("name", FIXTURES)
def test_the_report_is_that_of_this_process(spark, savepoint_of, name):
    assert verify_here(savepoint_of(name)) == verify(savepoint_of(name), session=spark)


@pytest.mark.parametrize("trust_digests", [False, True])
def test_what_was_written_is_proven_in_parts(spark, written, trust_digests):
    report = verify(written, session=spark, trust_digests=trust_digests)

    assert {Outcome.OK} == {check.status for check in report.checks}
    assert trust_digests == report.by_digests
    assert verify_here(written, trust_digests=trust_digests) == report


def outcomes(report):
    """What is found where; how many bytes are left where one is damaged depends on what was read at once."""
    return [(check.name, check.status, check.where.partition(",")[0]) for check in report.checks]


@pytest.mark.parametrize("with_digests", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_damage_is_reported_alike(spark, written, seed, with_digests):
    chosen = random.Random(seed)  # noqa: S311 - no secret
    file = chosen.choice(sorted(file for file in written.iterdir() if "keyed" in file.name))
    data = bytearray(file.read_bytes())
    for _ in range(3):
        data[chosen.randrange(len(data))] ^= 1 << chosen.randrange(8)
    file.write_bytes(data[:-20] if seed == 0 else data)
    if not with_digests:
        (written / LINEAGE).unlink()

    here = verify_here(written)

    assert not here.ok
    assert outcomes(here) == outcomes(verify(written, session=spark))


def test_a_file_that_is_missing_is_reported_alike(spark, written):
    next(file for file in written.iterdir() if "keyed-1" in file.name).unlink()

    here = verify_here(written)

    assert not here.ok
    assert here == verify(written, session=spark)


def test_snapshots_of_a_users_module_reach_the_workers(spark, load, tmp_path):
    job = load("marked", marked=marks("verified/mark")).job
    with SavepointWriter(tmp_path / "sp", job) as writer:
        for number in range(50):
            writer.put("o", "mark", f"key {number}", number)

    report = verify(tmp_path / "sp", session=spark)

    assert report.ok
    assert verify_here(tmp_path / "sp") == report


@pytest.mark.slow
def test_a_savepoint_in_a_store_is_read_by_the_executors(written, upload):
    """In a process of its own: the workers of a running session do not have the credentials of the store."""
    command = [sys.executable, "-m", "stateshift", "verify", upload(written, "verified-on-spark"), "--json"]

    here, on_spark = (
        subprocess.run([*command, *more], capture_output=True, text=True, timeout=120, check=False)
        for more in ((), ("--master", "local[2]"))
    )

    assert (0, here.stdout) == (on_spark.returncode, on_spark.stdout), on_spark.stderr


def test_progress_reports_the_tasks_of_spark(spark, written):
    told = []

    verify(written, session=spark, progress=told.append)

    assert ["starting Spark", "digests", "streams"] == list(dict.fromkeys(progress.phase for progress in told))
    assert told[-1].total == told[-1].done > 0


def test_what_progress_raises_ends_the_jobs(spark, written):
    class Stopped(Exception):
        pass

    def stop(progress):
        if progress.phase == "streams":
            raise Stopped

    with pytest.raises(Stopped):
        verify(written, session=spark, progress=stop)
    assert not spark.sparkContext.statusTracker().getActiveStageIds()


@attrs.define
class Visit:
    """What is pickled."""

    name: str


@pytest.fixture
def pickled(tmp_path):
    job = Job([Operator("o", key=int, states=[ValueStateDescriptor("s", PickleSerializer(Visit))])])
    with SavepointWriter(tmp_path / "pickled", job) as writer:
        for number in range(300):
            writer.put("o", "s", number, Visit("x"))
    return tmp_path / "pickled"


def phases_of(savepoint, **options):
    told = []
    assert verify(savepoint, progress=told.append, **options).ok
    return list(dict.fromkeys(progress.phase for progress in told))


@pytest.mark.usefixtures("spark")
def test_spark_proves_what_plain_python_would_take_longer_for(pickled, written, monkeypatch):
    monkeypatch.setenv("STATESHIFT_EXECUTOR", "numba")
    assert ["digests", "streams"] == phases_of(pickled)

    monkeypatch.setattr(verify_on_spark, "PYTHON_BYTES_PER_S", 100)

    assert ["digests", "starting Spark", "streams"] == phases_of(pickled)
    assert ["digests", "streams"] == phases_of(pickled, trust_digests=True)
    assert ["digests", "streams"] == phases_of(written)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("name", ["list_states", "union_list_states"])
def test_pickled_elements_are_counted_and_each_stream_of_an_operator_is_judged(tmp_path, monkeypatch, name):
    monkeypatch.setenv("STATESHIFT_EXECUTOR", "numba")
    monkeypatch.setattr(verify_on_spark, "PYTHON_BYTES_PER_S", 100)
    elements = {name: [ListStateDescriptor("l", PickleSerializer(Visit))]}
    plain = {name: [ListStateDescriptor("l", str)]}
    keyed = ValueStateDescriptor("s", PickleSerializer(Visit))
    jobs = {
        "elements": Operator("o", key=int, states=[ValueStateDescriptor("s", str)], **elements),
        "keyed": Operator("o", key=int, states=[keyed], **plain),
        "none": Operator("o", key=int, states=[ValueStateDescriptor("s", str)], **plain),
    }
    found = {}
    for title, operator in jobs.items():
        with SavepointWriter(tmp_path / title, Job([operator])) as writer:
            for number in range(300):
                writer.put("o", "s", number, Visit("x") if title == "keyed" else "text")
                writer.add("o", "l", Visit("x") if title == "elements" else "text")
        found[title] = "starting Spark" in phases_of(tmp_path / title)

    assert {"elements": True, "keyed": True, "none": False} == found


class _Failing(Folder):
    """A folder on a store that does not answer."""

    def size(self, name):
        raise StorageFailed("the store does not answer")


def test_a_failure_of_a_store_is_raised_for_spark_while_another_attempt_is_left(monkeypatch):
    proofs = Proofs.of("digests", [DigestTask("f", FileDigest(1, "00"))], _Failing("/sp"))
    work = Bundles(proofs, Settings(Additions(), redacted=False, attempts=2), 1, are_even=True)
    monkeypatch.setattr(Settings, "begin", lambda _: None)
    attempt = 0
    monkeypatch.setattr(TaskContext, "get", lambda: SimpleNamespace(attemptNumber=lambda: attempt))

    with pytest.raises(StorageFailed):
        list(work([[0]]))

    attempt = 1
    ((index, answer),) = map(pickle.loads, work([[0]]))
    assert (0, StorageFailed) == (index, type(answer))


def test_without_spark_this_process_proves_all(pickled, monkeypatch):
    monkeypatch.setattr(verify_on_spark, "PYTHON_BYTES_PER_S", 100)

    def missing(*_):
        raise LibraryNotFound("a Spark session needs pyspark, which is not installed")

    monkeypatch.setattr(sessions, "own_driver", missing)

    assert ["digests", "starting Spark", "streams"] == phases_of(pickled)
    with pytest.raises(LibraryNotFound):
        verify(pickled, master="local[1]")
