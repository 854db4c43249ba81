"""How pytest finds the tests."""

from __future__ import annotations

from pathlib import Path


def test_a_folder_has_one_node_however_often_it_is_collected(request):
    """Else the fixtures of its `conftest.py` would be lost where files and folders are named in any order."""
    top = request.node.parent.parent
    first, again = (top.ihook.pytest_collect_directory(path=Path(__file__).parent, parent=top.parent) for _ in range(2))

    assert top is first
    assert top is again
