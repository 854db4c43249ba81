"""`how-the-code-is-laid-out.md`: the walks are as short as they are promised, and every file that it names is there."""

from __future__ import annotations

import re

import pytest

PAGE = "docs/explanation/how-the-code-is-laid-out.md"
WALKS = {"A check": 15, "A migration": 20, "A batch of a query": 15}
STEP = re.compile(r"^\d+\. `([\w/]+\.py)`: ", re.MULTILINE)
FILE = re.compile(r"`((?:serializers|compat|state|spark|cli)/[a-z_/]+\.(?:py|toml))`")


def section(root, title):
    text = (root / PAGE).read_text(encoding="utf-8")
    return text.partition(f"### {title}\n")[2].partition("\n#")[0]


@pytest.mark.parametrize("title", WALKS)
def test_a_walk_visits_few_files_and_none_twice(root, title):
    steps = STEP.findall(section(root, title))

    assert 10 <= len(steps) <= WALKS[title]
    assert sorted(set(steps)) == sorted(steps)


def test_every_file_on_the_page_is_there(root):
    named = FILE.findall((root / PAGE).read_text(encoding="utf-8"))

    assert len(named) > 40
    assert [] == [one for one in named if not (root / one).is_file()]


def test_every_room_of_state_is_in_the_drawing(root):
    drawing = (root / PAGE).read_text(encoding="utf-8").split("```")[1]
    rooms = sorted(one.parent.name for one in (root / "state").glob("*/__init__.py") if one.parent.name != "formats")

    assert [] == [room for room in rooms if not re.search(rf"\b{room}\b", drawing)]
