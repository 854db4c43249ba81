"""The page of PyFlink's names is made of the modules here, and of a kept list, which is that of PyFlink's own."""

from __future__ import annotations

import json
import os
from importlib import import_module
from pathlib import Path

import pytest
from docs.pyflink_page import ELSEWHERE, MARK, NAMES, NOT, is_here, kept, names_of_pyflink, tables

PAGE = "docs/reference/pyflink.md"


def test_the_kept_names_are_those_of_pyflink():
    if "STATESHIFT_PYFLINK" not in os.environ:
        pytest.skip("STATESHIFT_PYFLINK names no folder with the package pyflink")
    found = names_of_pyflink(Path(os.environ["STATESHIFT_PYFLINK"]))
    if os.environ.get("STATESHIFT_RECORD"):
        NAMES.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")

    assert found == kept()


def test_the_page_is_what_is_here(root):
    page = root / PAGE
    head, _, told = page.read_text(encoding="utf-8").partition(MARK)
    if os.environ.get("STATESHIFT_RECORD"):
        page.write_text(f"{head}{MARK}{tables()}", encoding="utf-8")
    else:
        assert tables() == told, "made anew by STATESHIFT_RECORD=1"

    assert f"PyFlink {kept()['apache-flink'].rpartition('.')[0]}," in head


def test_what_is_said_of_a_name_is_said_of_one_that_pyflink_has_and_we_do_not():
    names = kept()["names"]
    said = {
        (module, name)
        for table in (ELSEWHERE, NOT)
        for module, of in table.items()
        for one in of
        for name in one.split()
    }

    assert [] == sorted((module, name) for module, name in said if name != "*" and name not in names.get(module, ()))
    assert [] == sorted((module, name) for module, name in said if is_here(module, name))


def modules(root):
    for file in sorted((root / "pyflink").rglob("*.py")):
        parts = file.relative_to(root).with_suffix("").parts
        yield import_module(".".join(("stateshift", *(parts[:-1] if parts[-1] == "__init__" else parts))))


def test_a_module_exports_what_it_says(root):
    """What a module does not export is not in PyFlink's, but for the extensions."""
    names = {f"stateshift.pyflink.{module}": of for module, of in kept()["names"].items()}
    for module in modules(root):
        exported = getattr(module, "__all__", [])
        assert sorted(exported) == list(exported), module.__name__
        assert [] == [name for name in exported if not hasattr(module, name)]
        if module.__name__ != "stateshift.pyflink.extensions":
            assert [] == [name for name in exported if name not in names[module.__name__]]
