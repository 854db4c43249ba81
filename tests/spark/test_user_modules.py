"""The user's modules on the workers."""

from __future__ import annotations

import importlib
import zipfile

import attrs
import pytest

from stateshift import StateShiftError
from stateshift.spark.user_modules import hand_out, send_by_value

JOB = """
import enum
import attrs
import helpers_beside
from helpers_beside import double

class Colour(enum.Enum):
    RED = 1

@attrs.frozen
class Account:
    id: int
    colour: Colour

def grow(account):
    return attrs.evolve(account, id=double(account.id) + helpers_beside.ONE)
"""
HELPERS = """
ONE = 1
def double(x):
    return 2 * x
"""


def ship_modules(spark, modules, files=()):
    return send_by_value(modules, hand_out(spark, files), spark)


def test_a_job_outside_any_install_runs_on_the_workers_with_the_helpers_next_to_it(spark, load):
    job = load("job_outside", job_outside=JOB, helpers_beside=HELPERS)
    account = job.Account(20, job.Colour.RED)

    shipped = ship_modules(spark, [job])
    grown = spark.sparkContext.parallelize([account], 1).map(job.grow).collect()

    assert shipped == ("helpers_beside", "job_outside")
    assert grown == [job.Account(41, job.Colour.RED)]


def test_without_shipping_the_workers_do_not_know_it(spark, load):
    job = load("job_unshipped", job_unshipped="def grow(x):\n    return x\n")

    with pytest.raises(Exception, match="No module named 'job_unshipped'"):
        spark.sparkContext.parallelize([1], 1).map(job.grow).collect()


def test_a_package_travels_with_its_submodules(spark, load, tmp_path):
    package = tmp_path / "users" / "job_package"
    package.mkdir()
    (package / "__init__.py").write_text("from .parts import add\n")
    (package / "parts.py").write_text("def add(x):\n    return x + 1\n")
    job = load("job_package")

    assert ship_modules(spark, [importlib.import_module("job_package.parts")]) == ("job_package",)
    assert spark.sparkContext.parallelize([1], 1).map(job.add).collect() == [2]


def test_an_installed_module_is_not_shipped(spark):
    """By value its classes would be others than those that the workers import."""
    assert ship_modules(spark, [attrs, importlib.import_module("stateshift.serializers"), importlib]) == ()


@pytest.mark.parametrize("suffix", [".zip", ".whl"])
def test_files_named_by_the_user_are_importable_on_the_workers(spark, tmp_path, suffix):
    """Spark hands out a .whl and then does not put it on the path."""
    name = f"handed_out_as_{suffix[1:]}"
    file = tmp_path / f"{name}-1.0-py3-none-any{suffix}"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"{name}.py", "VALUE = 7\n")

    def value(name):
        import importlib

        return importlib.import_module(name).VALUE

    assert ship_modules(spark, [], [file]) == ()
    assert spark.sparkContext.parallelize([name], 1).map(value).collect() == [7]


def test_a_file_of_another_kind_is_refused(spark, tmp_path):
    (tmp_path / "job.txt").touch()

    with pytest.raises(StateShiftError, match=r"job\.txt cannot be sent to the workers"):
        ship_modules(spark, [], [tmp_path / "job.txt"])


@pytest.mark.parametrize("path", ["{folder}", "."])
def test_a_module_that_only_the_driver_has_on_its_pythonpath_is_shipped(spark, load, users_folder, monkeypatch, path):
    """The driver's PYTHONPATH is not that of the workers, and a relative one is another folder there."""
    monkeypatch.chdir(users_folder)
    monkeypatch.setenv("PYTHONPATH", path.format(folder=users_folder))
    job = load("job_on_path", job_on_path="def grow(x):\n    return x + 1\n")

    assert ship_modules(spark, [job]) == ("job_on_path",)
    assert spark.sparkContext.parallelize([1], 1).map(job.grow).collect() == [2]


def test_a_module_that_a_worker_has_as_it_is_here_is_not_shipped(spark, load, users_folder, monkeypatch, tmp_path):
    """So it is with `--py-files` of spark-submit, which puts them on the driver's PYTHONPATH."""
    monkeypatch.setenv("PYTHONPATH", str(users_folder))
    sources = {"job_on_both": "ONE = 1\n", "job_changed": "ONE = 1\n"}
    jobs = [load(name, **{name: source}) for name, source in sources.items()]
    with zipfile.ZipFile(tmp_path / "jobs.zip", "w") as archive:
        archive.writestr("job_on_both.py", "ONE = 1\n")
        archive.writestr("job_changed.py", "ONE = 2\n")
    spark.sparkContext.addPyFile(str(tmp_path / "jobs.zip"))

    assert ship_modules(spark, jobs) == ("job_changed",)
