"""Machine code is compiled once, if there is much to do or it is requested; little state does without."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stateshift import Int32, Job, Operator, Savepoint, SavepointWriter, ValueStateDescriptor
from stateshift.state.transcode import executor_choice as choice
from stateshift.state.transcode.executor_choice import (
    COMPILING_BYTES,
    LOADING_BYTES,
    ExecutorName,
    choose_executor,
    lacks_numba,
    must_compile,
)

pytest.importorskip("numba")

MIGRATING = """
import json, sys
from stateshift import Job, Operator, ValueStateDescriptor
from stateshift.spark.migrate import migrate
from stateshift.state.savepoint.verify import verify

said = []
job = Job([Operator("op", key=int, states=[ValueStateDescriptor("s", int)])])
migrate(*sys.argv[1:3], job, announce=lambda report: said.append(report.estimate.compiles))
loaded = [name for name in ("numba", "numpy", "llvmlite") if name in sys.modules]
kernels = sys.modules.get("stateshift.state.transcode.numba_kernels")
called = {} if kernels is None else {
    name: parts for name, one in vars(kernels).items() if type(one).__name__ == "CompiledFunction"
    if (parts := [part for part in ("kept", "by_numba") if vars(one).get(part) is not None])
}
print(json.dumps({"loaded": loaded, "compiles": said[0], "called": called}))
"""

COMMANDS = """
import contextlib, io, json, sys
from stateshift.cli import main

with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    try:
        main(sys.argv[1:])
    except SystemExit as ended:
        status = ended.code
print(json.dumps([status, [name for name in ("numba", "numpy", "llvmlite") if name in sys.modules]]))
"""


def job_of(item):
    return Job([Operator("op", key=int, states=[ValueStateDescriptor("s", item)])])


def savepoint_of(folder, entries):
    with SavepointWriter(folder, job_of(Int32)) as writer:
        for key in range(entries):
            writer.put("op", "s", key, key)
    return folder


def run(*arguments, cache, **variables):
    environ = {name: value for name, value in os.environ.items() if name != choice.VARIABLE}
    environ |= {"NUMBA_CACHE_DIR": str(cache)} | variables
    ran = subprocess.run(
        [sys.executable, *map(str, arguments)], capture_output=True, text=True, check=False, env=environ
    )
    assert (0, "") == (ran.returncode, ran.stderr[-2000:])
    return json.loads(ran.stdout)


def files_in(folder):
    return {file: file.stat().st_mtime_ns for file in Path(folder).rglob("*.nbc")}


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv(choice.VARIABLE, raising=False)
    monkeypatch.delitem(sys.modules, choice._NUMBA_MODULE, raising=False)


@pytest.fixture
def kept_cache(empty_cache):  # noqa: ARG001 - it is to be there
    assert not choice.is_compiled()
    choice.code_folder().mkdir(parents=True)
    (choice.code_folder() / f"{choice.REWRITE}.nbi").touch()


def test_little_state_on_a_machine_without_machine_code_loads_neither_numba_nor_numpy(tmp_path):
    place = savepoint_of(tmp_path / "old", 2_000)

    told = run("-c", MIGRATING, place, tmp_path / "new", cache=tmp_path / "cache")

    assert {"loaded": [], "compiles": False, "called": {}} == told
    assert {} == files_in(tmp_path / "cache")


@pytest.mark.parametrize("command", ["inspect", "verify", "verify --values", "export -o"])
def test_commands_on_little_state_load_neither_though_code_is_kept(tmp_path, command):
    place = savepoint_of(tmp_path / "old", 500)
    name, *options = command.split()
    more = [tmp_path / "out"] if name == "export" else []

    assert [0, []] == run("-c", COMMANDS, name, place, *options, *more, cache=choice.code_folder().parent)


@pytest.mark.slow
def test_more_state_goes_as_objects_where_nothing_is_compiled_yet(tmp_path):
    place = savepoint_of(tmp_path / "old", 100_000)

    told = run("-c", MIGRATING, place, tmp_path / "new", cache=tmp_path / "cache")

    assert {"loaded": [], "compiles": False, "called": {}} == told
    assert {} == files_in(tmp_path / "cache")
    assert 100_000 == sum(1 for _ in Savepoint.open(tmp_path / "new").operator("op").state("s").read_entries())


@pytest.mark.slow
def test_after_a_warm_up_a_migration_calls_what_is_kept_without_numba(tmp_path):
    """The cache begins as one that this machine has, but for a function: to compile all of them takes long."""
    place, cache, name = savepoint_of(tmp_path / "old", 100_000), tmp_path / "cache", choice.code_folder().name
    run("-m", "stateshift", "warm-up", "--json", cache=choice.code_folder().parent)  # in `make test` it has been made
    left_out = shutil.ignore_patterns("numba_kernels.find_run.*", "test_*")  # other tests have compiled what is theirs
    shutil.copytree(choice.code_folder(), cache / name, ignore=left_out)

    first = run("-m", "stateshift", "warm-up", "--json", cache=cache)
    compiled = files_in(cache)
    again = run("-m", "stateshift", "warm-up", "--json", cache=cache)
    told = run("-c", MIGRATING, place, tmp_path / "new", cache=cache)

    assert cache in Path(first["folder"]).parents
    assert ["find_run"] == [one["name"] for one in first["functions"] if one["compiled"]]
    assert {False} == {one["compiled"] for one in again["functions"]}
    assert 0 == again["seconds"] < first["seconds"]
    assert len(first["functions"]) == len(compiled)
    assert compiled == files_in(cache)
    assert ["numpy", "llvmlite"] == told["loaded"]
    assert ["kept"] == told["called"]["rewrite"]
    assert {("kept",)} == {(*parts,) for parts in told["called"].values()}


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda data: memoryview(bytearray(data))])
def test_bytes_of_every_kind_have_one_signature(kind):
    from stateshift.state.transcode import numba_kernels as kernels

    block = kind(bytes.fromhex("00000001 05 00000001 07 00000001 85 00000001 07") + bytes(96))

    for function, numbers in ((kernels.find_run, (0, 20)), (kernels.survey, (10, 5, 1))):
        kernels.call(function, block, *numbers)
        kernels.call(function.by_numba, block, *numbers)
        assert 1 == len(function.by_numba.signatures)


@pytest.mark.usefixtures("empty_cache")
def test_it_pays_to_compile_only_for_a_plan_of_very_much():
    def chosen(size, **how):
        executor = choose_executor(size, **how)
        return executor, must_compile(executor)

    assert (ExecutorName.OBJECTS, False) == chosen(1 << 10, compiles=True)
    assert (ExecutorName.OBJECTS, False) == chosen(COMPILING_BYTES - 1, compiles=True)
    assert (ExecutorName.NUMBA, True) == chosen(COMPILING_BYTES, compiles=True)
    assert (ExecutorName.OBJECTS, False) == chosen(1 << 40)


@pytest.mark.usefixtures("kept_cache")
def test_what_is_kept_is_used_where_loading_it_pays():
    assert ExecutorName.OBJECTS is choose_executor(LOADING_BYTES - 1, compiles=True)
    assert ExecutorName.NUMBA is choose_executor(LOADING_BYTES, compiles=True)
    assert ExecutorName.NUMBA is choose_executor(LOADING_BYTES)
    assert not must_compile(ExecutorName.NUMBA)


@pytest.mark.usefixtures("kept_cache")
def test_what_is_loaded_is_used_for_anything(monkeypatch):
    monkeypatch.setitem(sys.modules, choice._NUMBA_MODULE, object())

    assert ExecutorName.NUMBA is choose_executor(0)


@pytest.mark.usefixtures("kept_cache")
def test_without_numba_objects_do_all_and_that_is_known_unless_it_was_asked_for(monkeypatch):
    monkeypatch.setattr(choice, "has_numba", lambda: False)

    assert ExecutorName.OBJECTS is choose_executor(1 << 40, compiles=True)
    assert lacks_numba(ExecutorName.OBJECTS, LOADING_BYTES)
    assert not lacks_numba(ExecutorName.OBJECTS, LOADING_BYTES - 1)
    monkeypatch.setenv(choice.VARIABLE, "objects")
    assert not lacks_numba(ExecutorName.OBJECTS, LOADING_BYTES)


def test_code_is_kept_at_the_users_where_the_package_may_not_be_written(tmp_path, monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    beside = tmp_path / "package"
    (beside / "__pycache__").mkdir(parents=True)
    monkeypatch.setattr(choice, "_HERE", beside)
    name = choice._folder_name()

    assert beside / "__pycache__" / name == choice.code_folder()
    monkeypatch.setattr(choice.os, "access", lambda *_: False)
    if sys.platform == "linux":
        assert tmp_path / "stateshift" / name == choice.code_folder()
    (beside / "__pycache__" / name).mkdir()
    (beside / "__pycache__" / name / f"{choice.REWRITE}.nbi").touch()
    assert beside / "__pycache__" / name == choice.code_folder()
