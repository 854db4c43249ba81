"""Every promise of "What is promised, and how it is tested" names tests that there are, and that are run."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "what-is-promised.md"
NAMED = re.findall(r"`(tests/[\w/.-]+\.py)::(\w+)`", PAGE.read_text(encoding="utf-8"))
WHOLE = {"test_the_source_is_never_changed.py", "test_live_runs.py", "test_sources_that_change.py"}
"""Modules that hold promises and nothing else, so all of their tests are named."""


def names_of_tests(file):
    """Give the names of the tests of a module, those in classes too, without importing it."""
    return {
        node.name
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


@pytest.mark.parametrize(("file", "name"), NAMED, ids="::".join)
def test_a_test_that_the_page_names_exists(file, name):
    assert name in names_of_tests(ROOT / file)


def test_each_promise_names_a_test():
    sections = PAGE.read_text(encoding="utf-8").partition("## What is not promised")[0]
    promises = re.split(r"^(?=\*\*)", sections, flags=re.MULTILINE)[1:]

    assert promises
    assert [promise for promise in promises if "::test_" not in promise] == []


@pytest.mark.parametrize("module", sorted(WHOLE))
def test_the_page_names_all_tests_of_a_module_of_promises(module):
    named = {name for file, name in NAMED if file.endswith(f"/{module}")}

    assert names_of_tests(ROOT / "tests" / "spark" / module) == named
