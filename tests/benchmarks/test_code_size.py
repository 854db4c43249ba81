"""What `benchmarks.code_size` counts."""

from __future__ import annotations

import pytest

from benchmarks.code_size import FOLDERS, ROOT, code_lines, import_graph, largest_circle


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", 0),
        ('"""A module."""\n\n# Why.\nimport os\nfrom os import (\n    path,\n)\n', 0),
        ('x = 1  # why\n"""What x is."""\n', 1),
        ('def f(\n    x,\n):\n    """Return it."""\n    return x\n', 4),
        ('text = """\nno docstring\n"""\n', 3),
        ("if x:\n\n    pass\n", 2),
    ],
)
def test_lines_of_code_have_a_token_that_is_no_comment_docstring_or_import(text, lines):
    assert lines == code_lines(text)


def test_cycles_go_through_imports_within_functions_and_not_through_those_for_types(tmp_path):
    modules = {
        "__init__": "",
        "a": "from .b import x\n",
        "b": "def f():\n    from . import c\n",
        "c": "from .a import y\nfrom .d import z\n",
        "d": "if TYPE_CHECKING:\n    from .a import y\nimport os\n",
    }
    (tmp_path / "house").mkdir()
    for name, text in modules.items():
        (tmp_path / "house" / f"{name}.py").write_text(text)

    graph = import_graph(tmp_path, ["house"])

    assert {"house.a": {"house.b"}, "house.b": {"house.c"}, "house.c": {"house.a", "house.d"}} == {
        module: names for module, names in graph.items() if names
    }
    assert ("house.a", "house.b", "house.c") == largest_circle(graph)


def test_a_package_without_import_cycles_has_none():
    assert () == largest_circle({"a": {"b"}, "b": set()})


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_import_cycle_of_the_package_is_longer_than_three(folder):
    assert len(largest_circle(import_graph(ROOT, [folder]))) <= 3
