"""The pages of the API: made of the docstrings, with every public name and all that the other pages import."""

from __future__ import annotations

import os
from importlib import import_module

import pytest
from docs.api_page import PLACES, pages

FACES = [
    "stateshift", "stateshift.serializers", "stateshift.compat", "stateshift.compat.testing", "stateshift.state",
    "stateshift.spark",
]  # fmt: skip


def test_the_pages_are_what_the_docstrings_say(root):
    folder = root / "docs" / "reference"
    if os.environ.get("STATESHIFT_RECORD"):
        (folder / "api").mkdir(exist_ok=True)
        for name, text in pages().items():
            (folder / name).write_text(text, encoding="utf-8")

    files = [folder / "api.md", *(folder / "api").glob("*.md")]
    found = {file.relative_to(folder).as_posix(): file.read_text(encoding="utf-8") for file in files}
    assert pages() == found, "made anew by STATESHIFT_RECORD=1"


def test_no_signature_shows_what_stands_for_no_default():
    assert [] == [line for text in pages().values() for line in text.splitlines() if "NOTHING" in line]


@pytest.mark.parametrize("face", FACES)
def test_every_public_name_is_on_it(face):
    told = {(module, name) for module, names in PLACES.values() for name in names.split()}

    assert set() == {(face, name) for name in import_module(face).__all__} - told


def test_what_is_on_it_is_public():
    modules = {module for module, _ in PLACES.values() if not module.startswith("stateshift.pyflink.")}

    assert set() == modules - {*FACES, "stateshift.state.testing"}
