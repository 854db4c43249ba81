"""The notebook of the examples, run cell by cell: each result is shown as what it is."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

RUN = """
import sys, nbclient, nbformat
notebook = nbformat.read(sys.argv[1], as_version=4)
nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": sys.argv[2]}}).execute()
nbformat.write(notebook, sys.argv[1])
"""
SHOWN = (
    "Savepoint", "Profile", "Job", "CheckReport", "PlanFile", "MigrationReport", "VerifyReport", "Difference",
)  # fmt: skip


@pytest.fixture(scope="module")
def outputs(root, tmp_path_factory):
    """What the cells show, in their order: each a dict from the kind of a text to the text."""
    pytest.importorskip("nbclient", reason="nbclient runs the notebook: make installs it")
    folder = tmp_path_factory.mktemp("notebook")
    shutil.copytree(root / "examples", folder / "examples")
    own = {"IPYTHONDIR": str(folder / "ipython"), "JUPYTER_RUNTIME_DIR": str(folder), "TMPDIR": str(folder)}
    file = folder / "examples" / "migration.ipynb"
    ran = subprocess.run(
        [sys.executable, "-c", RUN, file, file.parent],
        env=os.environ | own,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
    found = [output for cell in cells if cell["cell_type"] == "code" for output in cell["outputs"]]
    return [{kind: "".join(text) for kind, text in output["data"].items()} for output in found if "data" in output]


@pytest.mark.slow
def test_it_goes_from_a_savepoint_to_a_migrated_one_and_shows_each_object(outputs):
    shown = {kind: one for one in outputs for kind in SHOWN if one["text/plain"].startswith(f"<{kind} ")}

    assert set(SHOWN) == set(shown)
    for one in shown.values():
        assert one["text/html"].lstrip().startswith('<div class="stateshift">')
        assert "<script" not in one["text/html"]
        assert len(one["text/plain"]) < 500
    assert "accounts-v3" in outputs[-1]["text/plain"]


@pytest.mark.slow
def test_what_it_shows_is_shown_by_a_browser_without_anything_from_elsewhere(outputs, opened, tmp_path):
    file = tmp_path / "shown.html"
    pieces = "".join(one["text/html"] for one in outputs if "text/html" in one)
    file.write_text(f"<!doctype html><meta charset=utf-8><body>{pieces}", encoding="utf-8")
    page = opened(file, scheme="dark")
    back, text = page.locator("div.stateshift").first.evaluate(
        "one => [getComputedStyle(one).backgroundColor, getComputedStyle(one).color]"
    )

    ids = [one.get_attribute("id") for one in page.locator("[id]").all()]
    links = [one.get_attribute("href").removeprefix("#") for one in page.locator("a[href]").all()]
    assert len(set(ids)) == len(ids)  # or a link of one object would lead into another
    assert set(links) <= set(ids)
    assert page.get_by_role("heading", name="4 of 7 states must be rewritten before the job can start").is_visible()
    assert back != "rgba(0, 0, 0, 0)" != text  # a notebook may be white where its reader's system is dark


def test_it_is_stored_without_what_it_shows(root):
    """Outputs would be large, would be out of date, and have the places of a machine."""
    cells = json.loads((root / "examples" / "migration.ipynb").read_text(encoding="utf-8"))["cells"]

    assert [[]] * sum(cell["cell_type"] == "code" for cell in cells) == [
        cell["outputs"] for cell in cells if cell["cell_type"] == "code"
    ]
