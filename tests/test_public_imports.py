"""What the documentation, the README, the examples and the page of the API import is public, and stays importable.

From the first release on `public_imports.txt` only grows: STATESHIFT_RECORD=1 adds what is new. A line goes after its
deprecation has ended.
"""

from __future__ import annotations

import ast
import importlib
import os
import re
import textwrap
from typing import TYPE_CHECKING

import pytest
from docs.api_page import PLACES

import stateshift

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RECORDED = "tests/public_imports.txt"
STATEMENT = re.compile(r"^ *from stateshift[\w.]* import (?:\([^)]*\)|[^(\n]*)", re.MULTILINE)
PROMPT = re.compile(r"^(?:>>> |\.\.\. )", re.MULTILINE)


def shown(root: Path) -> Iterator[str]:
    """Yield what is imported anywhere: `module:name`."""
    yield from (f"stateshift:{name}" for name in stateshift.__all__)
    yield from (f"{module}:{name}" for module, names in PLACES.values() for name in names.split())
    pages = [root / "README.md", *(root / "docs").rglob("*.md"), *(root / "examples").rglob("*.py")]
    for page in pages:
        for statement in STATEMENT.findall(PROMPT.sub("", page.read_text(encoding="utf-8"))):
            (node,) = ast.parse(textwrap.dedent(statement)).body
            assert isinstance(node, ast.ImportFrom)
            yield from (f"{node.module}:{name.name}" for name in node.names)


def recorded(root: Path) -> list[str]:
    return (root / RECORDED).read_text(encoding="utf-8").splitlines()


def test_all_that_is_shown_is_recorded(root):
    if os.environ.get("STATESHIFT_RECORD"):
        known = recorded(root) if (root / RECORDED).exists() else []
        (root / RECORDED).write_text("".join(f"{name}\n" for name in sorted({*known, *shown(root)})), encoding="utf-8")

    assert set() == set(shown(root)) - set(recorded(root))


NAMES_OF_PYFLINK = "stateshift.pyflink."
FACE = {
    "stateshift", "stateshift.serializers", "stateshift.compat", "stateshift.compat.testing", "stateshift.state",
    "stateshift.state.testing", "stateshift.spark",
}  # fmt: skip
"""The public modules with names to import, beside those of PyFlink; `stateshift.spark.testing` has fixtures alone."""


def test_nothing_is_shown_from_deeper_than_the_face(root):
    modules = {line.partition(":")[0] for line in [*shown(root), *recorded(root)]}

    assert set() == {module for module in modules if not module.startswith(NAMES_OF_PYFLINK)} - FACE


def test_all_that_is_recorded_can_be_imported(root):
    missing = []
    for line in recorded(root):
        module, _, name = line.partition(":")
        try:
            getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            missing.append(line)

    assert [] == missing


@pytest.mark.parametrize("line", ["stateshift:record", "stateshift.spark:StreamJob"])
def test_what_a_reader_needs_first_is_among_them(root, line):
    assert line in recorded(root)
