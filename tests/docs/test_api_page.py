"""The page of the API: made of the docstrings, with every public name and all that the other pages import."""

from __future__ import annotations

import os
import re

from docs.api_page import PLACES, page

import stateshift

IMPORT = re.compile(r"^(?:>>> |\.\.\. )?from (stateshift[\w.]*) import \(?([^#\n()]*)", re.MULTILINE)


def test_the_page_is_what_the_docstrings_say(root):
    file = root / "docs" / "reference" / "api.md"
    if os.environ.get("STATESHIFT_RECORD"):
        file.write_text(page(), encoding="utf-8")

    assert page() == file.read_text(encoding="utf-8"), "made anew by STATESHIFT_RECORD=1"


def test_every_public_name_is_on_it():
    told = {(module, name) for module, names in PLACES.values() for name in names.split()}
    public = {("stateshift", name) for name in stateshift.__all__}

    assert set() == public - told


def test_what_other_pages_import_is_on_it_or_said_to_be_inner(root):
    told = {name for _, names in PLACES.values() for name in names.split()}
    used = set()
    for file in [root / "README.md", *(root / "docs").rglob("*.md")]:
        for module, names in IMPORT.findall(file.read_text(encoding="utf-8")):
            used |= {(module, name) for name in re.findall(r"\w+", names)}

    assert set() == {(module, name) for module, name in used if name not in told and module not in INNER}


INNER = {
    "stateshift.serializers.containers.tuples", "stateshift.serializers.containers.ttl", "stateshift.state.testing",
    "stateshift.state.migration.preparation", "stateshift.state.migration.planning",
    "stateshift.state.migration.plan_file", "stateshift.compat.testing.strategies",
}  # fmt: skip
"""Modules for which a page shows how the parts work, or which it documents itself."""
