"""Jobs in modules outside any install, savepoints to migrate, and what is compared of the results."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from object_store import other_s3, s3, secret, upload  # noqa: F401 - fixtures
from pyspark import cloudpickle

from stateshift import Job, MigrationOptions, Operator, Savepoint, SavepointWriter, ValueStateDescriptor
from stateshift.serializers.registry import registry
from stateshift.state.testing import migrate_in_process

COUNTS = Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", int)])])


@pytest.fixture
def users_folder(tmp_path, monkeypatch):
    """A folder outside any install; modules imported from there, and what they register, are forgotten afterwards."""
    folder = tmp_path / "users"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(cloudpickle.cloudpickle, "_PICKLE_BY_VALUE_MODULES", set())
    with registry.restored():
        yield folder
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def load(users_folder):
    """`load("job", job="…", helper="…")`: write modules, and import the first as the command line does."""

    def write_and_import(name, **sources):
        for module, source in sources.items():
            (users_folder / f"{module}.py").write_text(source, encoding="utf-8")
        importlib.invalidate_caches()
        return importlib.import_module(name)

    return write_and_import


@pytest.fixture(scope="session")
def account_jobs(root):
    """The jobs of the examples by version of their class: `account_jobs[3]`."""
    folder = str(root / "examples")
    sys.path.insert(0, folder)
    try:
        return {version: importlib.import_module(f"accounts_v{version}").job for version in (1, 2, 3, 4)}
    finally:
        sys.path.remove(folder)


@pytest.fixture
def counts(tmp_path):
    """`counts(1000)`: a savepoint with the state `count` of operator `counter`, in which key n has the value n."""

    def write(number, *, parallelism=1):
        with SavepointWriter(tmp_path / f"counts-{number}", COUNTS, parallelism=parallelism) as writer:
            for key in range(number):
                writer.put("counter", "count", key, key)
        return tmp_path / f"counts-{number}"

    return write


@pytest.fixture(scope="session")
def in_process():
    """Migrate without Spark: what the run on Spark must give, to the byte."""

    def run(source, target, job, *, parallelism=None):
        migrate_in_process(Savepoint.open(source), target, job, MigrationOptions(parallelism=parallelism))

    return run


def content_of(folder):
    """All files of a savepoint by name, without the time in its lineage."""
    content = {file.name: file.read_bytes() for file in Path(folder).iterdir()}
    lineage = json.loads(content.pop("_stateshift.json"))
    assert lineage.pop("created")
    return content | {"_stateshift.json": lineage}


def facts_of(folder):
    """What must not change of a source: content and times of the folder and all files."""
    folder = Path(folder)
    return {
        path.relative_to(folder).as_posix(): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in (folder, *folder.rglob("*"))
    }


def values_of(place, operator, state):
    """Entries of a state by key, with the namespace left out."""
    return {entry.key: entry.value for entry in Savepoint.open(place).operator(operator).state(state).read_entries()}


@pytest.fixture(scope="session", name="content_of")
def _content_of():
    return content_of


@pytest.fixture(scope="session", name="facts_of")
def _facts_of():
    return facts_of


@pytest.fixture(scope="session", name="values_of")
def _values_of():
    return values_of


@pytest.fixture
def start_python(tmp_path):
    """`start_python(source)`: another process with its own driver, in its own process group; killed at the end.

    Its temporary files, and those of its JVM, are in the folder `scratch`.
    """
    started = []
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    java = f"{os.environ['SPARK_SUBMIT_OPTS']} -Djava.io.tmpdir={scratch}"

    def start(source, *arguments):
        script = tmp_path / f"script-{len(started)}.py"
        script.write_text(source, encoding="utf-8")
        process = subprocess.Popen(
            [sys.executable, script, *map(str, arguments)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path, start_new_session=True,
            env=os.environ | {"TMPDIR": str(scratch), "SPARK_SUBMIT_OPTS": java},
        )  # fmt: skip
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate(timeout=60)
