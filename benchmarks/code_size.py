"""How much there is to read: lines, lines of code, files, and the largest import circle of each top-level folder.

    python -m benchmarks.code_size [--json] [FOLDER …]

A line of code is one with a token that is neither comment nor docstring nor part of an import. A circle is a set of
modules each of which leads to each other one by imports that run, be it within functions; imports for types alone do
not count.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import tokenize
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("serializers", "compat", "state", "spark", "pyflink", "cli")
_NO_CODE = frozenset(
    (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
)


@attrs.frozen
class Size:
    """Of a folder.

    Attributes:
        files: Its modules.
        lines: All of their lines.
        code: Lines with code.
        circle: The names of the modules of its largest import circle; none where there is no circle.
    """

    files: int
    lines: int
    code: int
    circle: tuple[str, ...]


def code_lines(text: str) -> int:
    """Return how many lines have code."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    lines = chain.from_iterable(
        range(token.start[0], token.end[0] + 1) for token in tokens if token.type not in _NO_CODE
    )
    return len(set(lines) - set(_other_lines(ast.parse(text))))


def _other_lines(tree: ast.AST) -> Iterator[int]:
    """Yield the lines of docstrings and of imports."""
    for node in ast.walk(tree):
        is_text = (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        )
        if is_text or isinstance(node, ast.Import | ast.ImportFrom):
            yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)


def imports_of(tree: ast.AST, module: str, *, is_package: bool) -> Iterator[str]:
    """Yield the names that a module imports when it runs, each with that of its module before it."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.ImportFrom):
            above = module.split(".") if is_package else module.split(".")[:-1]
            base = above[: len(above) - node.level + 1] if node.level else []
            origin = ".".join([*base, *(node.module.split(".") if node.module else [])])
            yield from (f"{origin}.{name.name}" for name in node.names)
        elif not isinstance(node, ast.Import):
            yield from imports_of(node, module, is_package=is_package)


def largest_circle(graph: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """Return the largest set of nodes each of which leads to each other one; nothing where no node leads to itself."""
    reached = {node: _reached(graph, node) for node in graph}
    circles = {
        tuple(sorted(other for other in reached[node] if node in reached.get(other, ())))
        for node in graph
        if node in reached[node]
    }
    return max(circles, key=lambda circle: (len(circle), circle), default=())


def _reached(graph: Mapping[str, Iterable[str]], start: str) -> set[str]:
    found: set[str] = set()
    ahead = list(graph[start])
    while ahead:
        node = ahead.pop()
        if node not in found:
            found.add(node)
            ahead.extend(graph.get(node, ()))
    return found


def import_graph(root: Path, folders: Iterable[str]) -> dict[str, set[str]]:
    """Return the modules of some folders, each with those among them that it imports."""
    files = {_module(root, file): file for folder in folders for file in sorted((root / folder).rglob("*.py"))}
    graph = {}
    for module, file in files.items():
        names = imports_of(ast.parse(file.read_text()), module, is_package=file.name == "__init__.py")
        graph[module] = {_known(name, files) for name in names} - {"", module}
    return graph


def _module(root: Path, file: Path) -> str:
    parts = file.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _known(name: str, files: Mapping[str, Path]) -> str:
    """Return the module that an imported name is or comes from; "" for those of others."""
    above = name.rpartition(".")[0]
    return name if name in files else above if above in files else ""


def sizes(root: Path, folders: Iterable[str]) -> dict[str, Size]:
    """Return the size of each folder."""
    folders = tuple(folders)
    graph, found = import_graph(root, folders), {}
    for folder in folders:
        texts = [file.read_text() for file in sorted((root / folder).rglob("*.py"))]
        own = {module: names for module, names in graph.items() if module == folder or module.startswith(f"{folder}.")}
        lines, code = (sum(map(count, texts)) for count in (lambda text: text.count("\n"), code_lines))
        found[folder] = Size(len(texts), lines, code, largest_circle(own))
    return found


def main() -> None:
    """Print the sizes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", default=FOLDERS)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = sizes(ROOT, arguments.folders)
    if arguments.json:
        print(json.dumps({folder: attrs.asdict(size) for folder, size in found.items()}, indent=2))
        return
    print(f"{'folder':<14}{'files':>7}{'lines':>9}{'code':>9}  largest circle")
    for folder, size in found.items():
        print(f"{folder:<14}{size.files:>7}{size.lines:>9,}{size.code:>9,}  {len(size.circle)}")
    files, lines, code = (sum(getattr(size, name) for size in found.values()) for name in ("files", "lines", "code"))
    print(f"{'all':<14}{files:>7}{lines:>9,}{code:>9,}")


if __name__ == "__main__":
    main()
