"""`--import`: savepoints under snapshots defined by a user are read where the module that registers them is named."""

import os
import shutil
import subprocess
import sys

import pytest

MODULE = """
import attrs
from stateshift import DataInputView, DataOutputView, TypeSerializer, TypeSerializerConfigSnapshot, register_snapshot


class CentsSerializer(TypeSerializer[int]):
    def serialize(self, value, target):
        target.write_long(value)

    def deserialize(self, source):
        return source.read_long()

    def snapshot_configuration(self):
        return CentsSnapshot()


@register_snapshot
@attrs.define
class CentsSnapshot(TypeSerializerConfigSnapshot[int]):
    snapshot_id = "stateshift/import-test.cents"

    def write(self, target):
        pass

    def read(self, source):
        pass

    def restore_serializer(self):
        return CentsSerializer()
"""


WRITE = """
from import_test_cents import CentsSerializer
from stateshift import Job, Operator, SavepointWriter, ValueStateDescriptor

job = Job([Operator("purses", key=str, states=[ValueStateDescriptor("purse", CentsSerializer())])])
with SavepointWriter("savepoint", job) as writer:
    writer.put("purses", "purse", "Ann", 250)
"""


JOB = """
from import_test_cents import CentsSerializer
from stateshift import Job, Operator, ValueStateDescriptor

job = Job([Operator("purses", key=str, states=[ValueStateDescriptor("purse", CentsSerializer())])])


def larger(first, second):
    return max(first, second)
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("purse")
    (folder / "import_test_cents.py").write_text(MODULE)
    (folder / "import_test_job.py").write_text(JOB)
    subprocess.run([sys.executable, "-c", WRITE], cwd=folder, check=True)
    return folder


@pytest.fixture
def purse(written, tmp_path):
    """A savepoint of a module of the user, and the folder of that module; it is never imported in this process."""
    shutil.copytree(written, tmp_path, dirs_exist_ok=True)
    return tmp_path


def stateshift(folder, *arguments, path=""):
    return subprocess.run(
        [sys.executable, "-m", "stateshift", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(path)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_it_the_state_is_named_and_not_read(purse):
    answer = stateshift(purse, "inspect", "savepoint")

    assert answer.returncode == 0
    assert "unsupported" in answer.stdout
    assert "import-test.cents" in answer.stdout


def test_with_it_the_values_are_exported(purse):
    answer = stateshift(purse, "export", "savepoint", "--import", "import_test_cents")

    assert answer.returncode == 0, answer.stderr
    assert '"value": 250' in answer.stdout


def test_a_module_that_is_not_there_is_wrong_usage(purse):
    answer = stateshift(purse, "inspect", "savepoint", "--import", "nothing_here")

    assert answer.returncode == 2
    assert "nothing_here" in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "savepoint", "--job", "import_test_job:job"),
        ("diff", "savepoint", "import_test_job:job"),
        ("plan", "savepoint", "--job", "import_test_job:job"),
        ("migrate", "savepoint", "new", "--job", "import_test_job:job", "--dry-run"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_the_module_of_a_job_registers_for_it_without_the_option(purse, arguments):
    answer = stateshift(purse, *arguments)

    assert (answer.returncode, answer.stderr) == (0, "")
    assert "not registered" not in answer.stdout


_INTERRUPTED = """
import os, signal, sys

class AtImport:
    def find_spec(self, name, path=None, target=None):
        if name == "stateshift.cli.app":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, AtImport())
import stateshift.cli
"""


def test_an_interrupt_while_the_program_is_loaded_is_reported_without_a_trace():
    ran = subprocess.run([sys.executable, "-c", _INTERRUPTED], capture_output=True, text=True, check=False)

    assert (130, "", "\ninterrupted.\n") == (ran.returncode, ran.stdout, ran.stderr)


@pytest.mark.parametrize(
    "arguments",
    [
        ("inspect", "savepoint", "--import", "../import_test_cents.py"),
        ("check", "savepoint", "--job", "../import_test_job.py:job"),
        ("diff", "savepoint", "../import_test_job.py:job"),
        ("snapshot", "--job", "../import_test_job.py:job", "-m", "by its file"),
        ("plan", "savepoint", "--job", "../import_test_job.py:job", "-o", "plan.json"),
        ("migrate", "savepoint", "new", "--job", "../import_test_job.py:job"),
        (
            *("migrate", "savepoint", "new", "--repartition", "--max-parallelism", "64"),
            *("--merge", "purse=../import_test_job.py:larger"),
        ),
    ],
    ids=["inspect", "check", "diff", "snapshot", "plan", "migrate", "merge"],
)
def test_a_module_may_be_named_by_its_file(purse, arguments):
    """Wherever a module is named; the modules that it imports are found as always."""
    (purse / "inner").mkdir()
    shutil.copytree(purse / "savepoint", purse / "inner" / "savepoint")

    answer = stateshift(purse / "inner", *arguments, path=purse)

    assert answer.returncode == 0, answer.stderr
    assert "not registered" not in answer.stdout
    if "plan.json" in arguments:
        by_plan = stateshift(purse / "inner", "migrate", "savepoint", "new", "--plan", "plan.json", path=purse)
        assert by_plan.returncode == 0, by_plan.stderr
