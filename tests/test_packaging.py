"""The root folder is the package: what that promises, and what it must not let through."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from stateshift.serializers.families import _BUILT_IN

HOUSES = ("cli", "serializers", "compat", "state", "spark", "pyflink")


@pytest.fixture(scope="session")
def project(root):
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))


def modules(root):
    """The files of the package, by path from the root."""
    inside = [file.relative_to(root) for house in HOUSES for file in (root / house).rglob("*.py")]
    return sorted([*(file.relative_to(root) for file in root.glob("*.py")), *inside])


def test_the_list_of_packages_equals_the_folders(root, project):
    """An editable install finds a new folder anyway; a wheel would leave it out."""
    folders = {".".join(("stateshift", *file.parent.parts)) for file in modules(root)}

    assert folders == set(project["tool"]["setuptools"]["packages"])


def test_every_folder_of_the_package_has_an_init(root):
    folders = {file.parent for file in modules(root)}

    assert [folder for folder in folders if not (root / folder / "__init__.py").exists()] == []


def test_every_family_of_serializers_is_registered_and_has_its_layer(root, project):
    folders = {
        file.parent.name
        for file in (root / "serializers").glob("*/__init__.py")
        if "FAMILY" in file.read_text(encoding="utf-8")
    }
    (layers,) = (
        contract["layers"]
        for contract in project["tool"]["importlinter"]["contracts"]
        if contract.get("containers") == ["stateshift.serializers"]
    )

    assert folders == set(_BUILT_IN)
    assert folders <= {name.strip() for layer in layers for name in layer.split("|")}


def test_no_other_python_file_lies_at_the_root(root):
    """It would be shipped inside the package."""
    at_the_root = {file.name for file in root.glob("*.py")}

    assert at_the_root <= {"__init__.py", "__main__.py"}


def test_no_module_is_named_like_one_of_the_standard_library(root):
    """A worker or a tool that is started inside a package folder would import ours instead.

    `pyflink/common` has PyFlink's `time` and `types`, which programs import by these paths.
    """
    files = [file for file in modules(root) if file.parent != Path("pyflink/common")]
    names = {file.stem for file in files} | {part for file in files for part in file.parent.parts}

    assert names & (sys.stdlib_module_names - {"__main__"}) == set()


def test_no_module_is_loaded_under_a_second_name(root):
    """Pytest would import the root's `__init__.py` as a package called like the checkout."""
    files = {root / file for file in modules(root)}
    loaded = [
        name
        for name, module in list(sys.modules.items())
        if name != "__main__" and getattr(module, "__file__", None) and Path(module.__file__).resolve() in files
    ]

    assert [name for name in loaded if name.partition(".")[0] != "stateshift"] == []


def test_importing_the_package_imports_neither_spark_nor_avro():
    program = (
        "import sys, stateshift, stateshift.pyflink.common, stateshift.pyflink.datastream;"
        "print([n for n in ('pyspark', 'py4j', 'pandas', 'fastavro') if n in sys.modules])"
    )

    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert answer.stdout.strip() == "[]"


@pytest.fixture(scope="session")
def wheel(root, tmp_path_factory):
    """A wheel built from a clean copy: a build in the checkout would leave, and take up, `build/lib`."""
    folder = tmp_path_factory.mktemp("wheel")
    copy = folder / "copy"
    skipped = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "tests")
    shutil.copytree(root, copy, ignore=skipped)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, copy]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return next(folder.glob("stateshift-*.whl"))


@pytest.mark.slow
def test_a_wheel_holds_the_modules_and_nothing_else(root, project, wheel):
    data = {
        Path("stateshift") / file.relative_to(root)
        for package, names in project["tool"]["setuptools"]["package-data"].items()
        for name in names
        for file in root.joinpath(*package.split(".")[1:]).glob(name)
    }
    expected = {Path("stateshift") / file for file in modules(root)} | data

    packed = {Path(name) for name in zipfile.ZipFile(wheel).namelist()}

    assert {file for file in packed if not file.parts[0].endswith(".dist-info")} == expected


@pytest.fixture(scope="session")
def core_install(wheel, tmp_path_factory):
    """Run a program of an environment that has the wheel without extras."""
    folder = tmp_path_factory.mktemp("core")
    venv.create(folder / "env")
    programs = folder / "env" / "bin"
    pip = [sys.executable, "-m", "pip", "--python", programs / "python"]
    install = [*pip, "install", "--quiet", "--no-compile", "--disable-pip-version-check", wheel]
    ran = subprocess.run(install, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

    def run(program, *arguments, **variables):
        command = [programs / program, *map(str, arguments)]
        return subprocess.run(
            command, cwd=folder, env=clean | variables, capture_output=True, text=True, check=False, timeout=120
        )

    return run


@pytest.mark.slow
class TestCoreInstall:
    """Without extras: everything but migration."""

    def test_it_has_no_spark(self, core_install):
        names = "import importlib.metadata as found; print(*(one.name for one in found.distributions()))"
        installed = set(core_install("python", "-c", names).stdout.split())

        assert {"pyspark", "py4j", "pandas"} & installed == set()
        assert {"stateshift", "attrs", "fastavro"} <= installed

    @pytest.mark.parametrize("start", [("stateshift",), ("python", "-m", "stateshift")])
    def test_the_command_line_shows_its_help(self, core_install, start):
        shown = core_install(*start, "--help")

        assert (shown.returncode, shown.stderr) == (0, "")
        assert "migrate" in shown.stdout

    def test_inspect_and_export_read_a_savepoint_of_flink(self, core_install, savepoint_of, expected_of):
        savepoint = savepoint_of("rocksdb-account-v1")

        inspected = core_install("stateshift", "inspect", savepoint)
        exported = core_install("stateshift", "export", savepoint, "--format", "tagged")

        assert (inspected.returncode, inspected.stderr) == (0, "")
        assert "account" in inspected.stdout
        assert (exported.returncode, exported.stderr) == (0, "")
        assert len(json.loads(exported.stdout)["operators"]) == len(expected_of("rocksdb-account-v1")["operators"])

    def test_check_judges_a_job(self, core_install, root, savepoint_of):
        """The job of the demo, Account v3: Flink refuses it, we migrate (exit status 4)."""
        checked = core_install(
            "stateshift",
            "check",
            savepoint_of("rocksdb-account-v1"),
            "--job",
            "accounts_v3:job",
            PYTHONPATH=str(root / "examples"),
        )

        assert (checked.returncode, checked.stderr) == (4, "")
        assert "visits" in checked.stdout

    def test_migrate_needs_the_extra_where_spark_is_named(self, core_install, root, savepoint_of, tmp_path):
        def migrate(*more):
            source, target = savepoint_of("rocksdb-account-v1"), tmp_path / f"target-{len(more)}"
            examples = {"PYTHONPATH": str(root / "examples")}
            return core_install("stateshift", "migrate", source, target, "--job", "accounts_v3:job", *more, **examples)

        little, named = migrate(), migrate("--master", "local[1]")

        assert little.returncode == 0, little.stderr
        assert core_install("stateshift", "verify", tmp_path / "target-0").returncode == 0
        assert named.returncode != 0
        assert "stateshift[spark]" in named.stderr
        assert not (tmp_path / "target-2").exists()
