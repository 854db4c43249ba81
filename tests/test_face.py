"""The face of the package: names that are loaded when they are used."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys

import attrs
import pytest

import stateshift


def test_tools_and_users_find_the_same_names(root):
    tree = ast.parse((root / "__init__.py").read_text(encoding="utf-8"))
    declared = {
        alias.name: f".{node.module}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.level == 1
        for alias in node.names
    }

    assert declared == stateshift._PLACES
    assert sorted(declared) == sorted(stateshift.__all__)


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


FAMILY = "stateshift.serializers.pojo"


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_the_command_line_says_what_it_is_without_loading_the_families(option):
    code = (
        "import sys\nfrom stateshift.cli import main\n"
        f"try: main([{option!r}])\nexcept SystemExit: pass\nprint({FAMILY!r} in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "False" == done.stdout.split("\n")[-2]


def test_who_looks_a_snapshot_up_finds_it_whatever_was_imported():
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
