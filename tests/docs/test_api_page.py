"""The page of the API: made of the docstrings, with every public name and all that the other pages import."""

from __future__ import annotations

import os
from importlib import import_module

import pytest
from docs.api_page import PLACES, page

FACES = [
    "stateshift", "stateshift.serializers", "stateshift.compat", "stateshift.compat.testing", "stateshift.state",
    "stateshift.spark",
]  # fmt: skip


def test_the_page_is_what_the_docstrings_say(root):
    file = root / "docs" / "reference" / "api.md"
    if os.environ.get("STATESHIFT_RECORD"):
        file.write_text(page(), encoding="utf-8")

    assert page() == file.read_text(encoding="utf-8"), "made anew by STATESHIFT_RECORD=1"


@pytest.mark.parametrize("face", FACES)
def test_every_public_name_is_on_it(face):
    told = {(module, name) for module, names in PLACES.values() for name in names.split()}

    assert set() == {(face, name) for name in import_module(face).__all__} - told


def test_what_is_on_it_is_public():
    assert set() == {module for module, _ in PLACES.values()} - {*FACES, "stateshift.state.testing"}
