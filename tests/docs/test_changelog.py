"""The changelog is made of the fragments; each of them is well-formed, and none is lost."""

from __future__ import annotations

import os
import re
import runpy

import pytest


@pytest.fixture(scope="module")
def script(root):
    return runpy.run_path(str(root / "changelog.d" / "changelog.py"))


@pytest.fixture
def repository(tmp_path):
    """A repository with three fragments of two kinds."""
    folder = tmp_path / "changelog.d"
    folder.mkdir()
    (folder / "README.md").write_text("not a fragment")
    (folder / "10-late.change.md").write_text("- Late.\n  Still late.\n- Later.\n")
    (folder / "9.change.md").write_text("Early.\n\nAnd more.\n")
    (folder / "3.breaking.md").write_text("Breaks.\n")
    return tmp_path


UNRELEASED = """### Breaking

Breaks.

### Changed

Early.

And more.

- Late.
  Still late.
- Later.
"""


def test_the_changelog_is_what_the_fragments_say(root, script):
    file = root / "CHANGELOG.md"
    if os.environ.get("STATESHIFT_RECORD"):
        file.write_text(script["changelog"](root), encoding="utf-8")

    assert script["changelog"](root) == file.read_text(encoding="utf-8"), "make changelog"


def test_every_fragment_is_in_it(root, script):
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    files = [file for files in script["fragments"](root / "changelog.d").values() for file in files]

    assert len(files) == len(list((root / "changelog.d").glob("*.*.md")))
    assert [file.name for file in files if file.read_text(encoding="utf-8").strip() not in text] == []


def test_no_fragment_has_a_heading_or_a_link_that_leads_nowhere(root, script):
    wrong = []
    for files in script["fragments"](root / "changelog.d").values():
        for file in files:
            text = file.read_text(encoding="utf-8")
            links = re.findall(r"\]\((?!https?:)([^)#]+)", text)
            wrong += [(file.name, line) for line in text.splitlines() if line.startswith("#")]
            wrong += [(file.name, link) for link in links if not (root / link).exists()]

    assert [] == wrong


def test_fragments_come_by_kind_and_issue(repository, script):
    assert script["changelog"](repository) == f"{script['HEAD']}\n## Unreleased\n\n{UNRELEASED}"


def test_making_it_twice_changes_nothing(repository, script):
    script["main"](repository)
    once = (repository / "CHANGELOG.md").read_text()
    script["main"](repository)

    assert once == (repository / "CHANGELOG.md").read_text()


def test_a_release_gives_the_section_its_name_and_removes_the_fragments(repository, script):
    script["main"](repository)
    script["main"](repository, "0.2.0")
    released = (repository / "CHANGELOG.md").read_text()

    assert re.search(r"^## 0\.2\.0 \(\d{4}-\d\d-\d\d\)\n\n### Breaking$", released, re.MULTILINE)
    assert UNRELEASED in released
    assert "Unreleased" not in released
    assert [file.name for file in (repository / "changelog.d").iterdir()] == ["README.md"]


def test_what_was_released_stays_as_it_stands(repository, script):
    script["main"](repository, "0.2.0")
    released = (repository / "CHANGELOG.md").read_text().removeprefix(script["HEAD"])
    (repository / "changelog.d" / "11.deprecation.md").write_text("`old()` is deprecated.\n")
    script["main"](repository)

    expected = f"{script['HEAD']}\n## Unreleased\n\n### Deprecated\n\n`old()` is deprecated.\n{released}"
    assert expected == (repository / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("name", ["words.change.md", "5.feature.md", "5.md", "5-Big.change.md"])
def test_a_fragment_that_is_called_otherwise_is_refused(repository, script, name):
    (repository / "changelog.d" / name).write_text("Something.\n")

    with pytest.raises(ValueError, match=f"^{re.escape(name)} is not called"):
        script["changelog"](repository)


def test_a_fragment_that_says_nothing_is_refused(repository, script):
    (repository / "changelog.d" / "5.change.md").write_text("\n")

    with pytest.raises(ValueError, match=r"5\.change\.md is empty"):
        script["changelog"](repository)
