"""The face of the package: names that are loaded when they are used."""

from __future__ import annotations

import ast
import builtins
import importlib
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import attrs
import pytest

import stateshift

FACES = [
    "stateshift", "stateshift.serializers", "stateshift.compat", "stateshift.compat.testing", "stateshift.state",
    "stateshift.spark",
]  # fmt: skip
"""The packages whose public names are those of a stub."""


@pytest.mark.parametrize("name", FACES)
def test_each_line_of_a_stub_is_an_import_under_the_same_name(name):
    """What `__init__.py` makes of the lines is what Python's grammar says that they are."""
    face = importlib.import_module(name)
    tree = ast.parse(Path(f"{face.__file__}i").read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    read = {node.names[0].asname: f"{'.' * node.level}{node.module}" for node in imports}

    assert [node.lineno for node in imports if len(node.names) > 1 or node.names[0].name != node.names[0].asname] == []
    assert read == face._PLACES
    assert sorted(read) == face.__all__


@pytest.mark.parametrize("name", FACES)
def test_no_part_of_a_package_is_called_like_a_name_of_its_face(name):
    """Importing such a part would put a module in the place of the name."""
    face = importlib.import_module(name)
    folder = Path(face.__file__).parent
    parts = {file.stem for file in folder.glob("*.py")} | {file.parent.name for file in folder.glob("*/__init__.py")}

    assert parts & set(face.__all__) == set()


def test_the_package_works_from_a_zip_file(root, tmp_path):
    """As which Spark hands packages out to workers."""
    suffixes = {".py", ".pyi", ".txt"}
    serializers = [file for file in (root / "serializers").rglob("*.*") if file.suffix in suffixes]
    with zipfile.ZipFile(tmp_path / "package.zip", "w") as packed:
        for file in [*root.glob("__init__.py*"), *serializers]:
            packed.write(file, Path("stateshift") / file.relative_to(root))
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'package.zip')!r})\n"
        "import stateshift\nprint(stateshift.__file__)\nfrom stateshift import Row\nprint(Row.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert f"{tmp_path / 'package.zip' / 'stateshift' / '__init__.py'}\nRow\n" == done.stdout, done.stderr


WITHOUT_LIBRARIES = """
import sys

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"pyspark", "py4j", "pandas", "numpy", "numba", "fastavro"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NotInstalled())
from stateshift import *
"""


def test_every_name_is_there_without_the_optional_libraries():
    code = f"{WITHOUT_LIBRARIES}\nprint(migrate.__name__, bootstrap.__name__, StateSource.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert "migrate bootstrap StateSource\n" == done.stdout, done.stderr


@pytest.mark.parametrize("name", ["pyspark", "pandas", "numpy", "numba", "fastavro"])
def test_no_name_of_the_face_loads_an_optional_library(name):
    code = f"from stateshift import *\nimport sys\nprint({name!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "False\n" == done.stdout


def test_what_needs_spark_says_what_to_install(tmp_path):
    code = f"{WITHOUT_LIBRARIES}\nbootstrap({str(tmp_path / 'new')!r}, Job([]), [])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert "bootstrap needs pyspark, which is not installed" in done.stderr
    assert "pip install 'stateshift[spark]'" in done.stderr
    assert not (tmp_path / "new").exists()


def test_errors_that_a_public_docstring_names_are_public():
    """Users can catch the errors that they see."""
    told = set()
    for name in stateshift.__all__:
        thing = getattr(stateshift, name)
        documented = [thing, *vars(thing).values()] if isinstance(thing, type) else [thing]
        for docstring in filter(None, (getattr(one, "__doc__", None) for one in documented)):
            raised = re.search(r"^ *Raises:\n(.*)", docstring, re.MULTILINE | re.DOTALL)
            if isinstance(docstring, str) and raised:
                told |= set(re.findall(r"(?:^|, ) *([A-Z]\w+)(?=[:,])", raised[1], re.MULTILINE))
    errors = {name for name in told if not hasattr(builtins, name)}

    assert errors
    assert errors - set(stateshift.__all__) == set()


@pytest.mark.parametrize("name", stateshift.__all__)
def test_a_name_is_that_of_its_module(name):
    module = importlib.import_module(stateshift._PLACES[name], "stateshift")

    assert getattr(module, name) is getattr(stateshift, name)
    assert name in dir(stateshift)


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'stateshift' has no attribute 'nothing'"):
        stateshift.nothing  # noqa: B018 - the access is what is tried


def test_importing_the_package_loads_no_room():
    code = "import stateshift, sys; print([name for name in sys.modules if name.startswith('stateshift.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "[]\n" == done.stdout


FAMILY = "stateshift.serializers.records.pojo"


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_the_command_line_says_what_it_is_without_loading_the_commands(option):
    code = (
        "import sys\nfrom stateshift.cli import main\n"
        f"try: main([{option!r}])\nexcept SystemExit: pass\n"
        "print([name for name in ('stateshift.cli.commands', 'stateshift.compat') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "[]" == done.stdout.split("\n")[-2]


HEAVY = (
    "cloudpickle", "duckdb", "fastavro", "importlib.metadata", "jinja2", "llvmlite", "numba", "numpy", "pandas", "py4j",
    "pyarrow", "pyspark", "rich", "rocksdict", "stateshift.compat.layouts", "stateshift.compat.queries",
    "stateshift.compat.sql", "stateshift.serializers.avro.serializers", "stateshift.serializers.enums.serializers",
    "stateshift.serializers.pickled.serializers", "stateshift.serializers.pyflink.contents",
    "stateshift.serializers.rows.serializers", "stateshift.serializers.spark_rows",
    "stateshift.serializers.sql.serializers", "stateshift.spark.sessions", "stateshift.state.plans.compiled_plan",
    "stateshift.state.plans.operators", "stateshift.state.savepoint.verify",
)  # fmt: skip
"""What takes long to import, and only some states need."""
NOT_OF = {
    "check": ("stateshift.spark", "stateshift.state.publication.publish"),
    "get": ("stateshift.compat.check", "stateshift.compat.report", "stateshift.spark", "stateshift.state.job"),
    "migrate": (
        "stateshift.cli.revisions", "stateshift.compat.explain", "stateshift.compat.gate",
        "stateshift.compat.way_back", "stateshift.serializers.records.abilities", "stateshift.serializers.source",
        "stateshift.serializers.temporal.values", "stateshift.spark.bundles", "stateshift.state.migration.new_keys",
        "stateshift.state.migration.planning", "stateshift.state.migration.scan",
        "stateshift.state.runtime.time_to_live",
    ),
}  # fmt: skip
"""And what one command does not need."""


@pytest.mark.parametrize("command", ["check", "get", "migrate"])
def test_a_command_loads_only_what_its_state_needs(savepoint_of, root, tmp_path, command):
    savepoint = savepoint_of("rocksdb-account-v1")
    arguments = {
        "check": [savepoint, "--job", "accounts_v3:job"],
        "get": [savepoint, "1"],
        "migrate": [savepoint, tmp_path / "new", "--job", "accounts_v3:job"],
    }[command]
    unneeded = (*HEAVY, *NOT_OF[command])
    code = (
        "import sys\nfrom stateshift.cli import main\n"
        f"try: main({[command, *map(str, arguments)]!r})\n"
        f"except SystemExit as done: print(done.code, [name for name in {unneeded!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root / "examples", capture_output=True, text=True, check=False
    )

    assert ("4" if command == "check" else "0", "[]") == (*done.stdout.split("\n")[-2].split(" ", 1),), done.stderr


def test_a_snapshot_is_found_whatever_was_imported():
    code = (
        "import sys\nfrom stateshift.serializers.registry import registry\n"
        f"print({FAMILY!r} in sys.modules, registry.snapshot_class("
        "'org.apache.flink.api.java.typeutils.runtime.PojoSerializerSnapshot').__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "False PojoSerializerSnapshot\n" == done.stdout


@pytest.mark.parametrize("name", [name for name in stateshift.__all__ if attrs.has(getattr(stateshift, name))])
def test_type_checkers_know_what_each_argument_takes(name):
    """A bare `tuple` as converter makes mypy refuse every tuple of names."""
    bare = [field.name for field in attrs.fields(getattr(stateshift, name)) if field.converter is tuple]

    assert [] == bare


def test_the_verbs_are_all_that_a_job_of_a_user_needs(tmp_path):
    """Little state is migrated without Spark."""
    from stateshift import (
        Job,
        MigrationOptions,
        Operator,
        Repartition,
        SavepointWriter,
        ValueStateDescriptor,
        migrate,
        open_savepoint,
        verify,
    )

    def job(of):
        return Job([Operator("shop", key=str, states=[ValueStateDescriptor("orders", of)])])

    places = before, migrated, repartitioned = [
        str(tmp_path / name) for name in ("before", "migrated", "repartitioned")
    ]
    with SavepointWriter(before, job(stateshift.Int32)) as writer:
        writer.put("shop", "orders", "Ada", 1)
    assert migrate(before, migrated, job(int)).states[0].written == 1
    options = MigrationOptions(repartition=Repartition(max_parallelism={"shop": 1000}))
    assert migrate(migrated, repartitioned, None, options).states[0].written == 1

    after = open_savepoint(repartitioned)

    assert [128, 128, 1000] == [open_savepoint(place).operator("shop").max_parallelism for place in places]
    assert [("Ada", 1)] == [(e.key, e.value) for e in after.operator("shop").state("orders").read_entries()]
    assert verify(after) == verify(repartitioned)
    assert verify(repartitioned).ok
    with pytest.raises(stateshift.SavepointNotFound):
        verify(tmp_path)
