"""Check that no file outside a family of serializers names more than two of its classes.

What a family's classes can do is registered by the family itself (`serializers/families.py`), so that a new family
touches no list elsewhere. Imports for type checkers do not count. An exception needs a reason.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("serializers", "compat", "state", "spark", "pyflink", "cli")
MOST = 2
KINDS = "list, map and time-stamped state is stored as values of these types"
SPACES = "windows, the void namespace and timers are parts of entries"
ALLOWED = {
    "compat/parts.py": KINDS,
    "compat/testing/values.py": "the values that the harness writes before and behind those of a serializer",
    "compat/testing/strategies/hints.py": "the types without parts that the harness draws",
    "state/columnar/stored_forms.py": "rows of a DataFrame are compared with stored values part by part",
    "state/columnar/column_values.py": "the values of times in columns",
    "state/columnar/column_types.py": "the types that columns of a DataFrame stand for where no job declares them",
    "state/runtime/descriptors.py": KINDS,
    "state/job_strategies.py": "the types of keys that the harness draws",
    "state/migration/block_rewriter.py": KINDS,
    "state/runtime/windows/assigners.py": SPACES,
    "compat/layouts.py": "as which states PyFlink keeps those of a function",
    "state/runtime/pyflink_layout.py": "as which states PyFlink keeps those of a function",
    "pyflink/common/typeinfo.py": "the words that PyFlink has for types",
    "pyflink/datastream/window.py": "the windows that PyFlink has",
    "state/formats/flink/value_readers.py": KINDS,
    "state/savepoint/writer.py": SPACES,
    "state/transcode/entry_check.py": SPACES,
}
"""File -> why it may name more than `MOST`."""


def named_classes(file: Path, families: set[str]) -> dict[str, set[str]]:
    """Return the classes that a file imports at run time, by family."""
    package = ("stateshift", *file.relative_to(ROOT).parts[:-1])
    found: dict[str, set[str]] = defaultdict(set)
    for node in _run_time(ast.parse(file.read_text())):
        base = package[: len(package) - node.level + 1] if node.level else ()
        module = (*base, *(node.module or "").split("."))
        if module[:2] == ("stateshift", "serializers") and len(module) > 2 and module[2] in families:
            found[module[2]] |= {
                alias.name for alias in node.names if alias.name[:1].isupper() and not alias.name.isupper()
            }
    return found


def _run_time(tree: ast.AST) -> Iterator[ast.ImportFrom]:
    """Yield the imports that run."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.ImportFrom):
            yield node
        else:
            yield from _run_time(node)


def main() -> int:
    """Print what is wrong, and return the exit status."""
    families = {file.parent.name for file in ROOT.glob("serializers/*/__init__.py") if "FAMILY" in file.read_text()}
    problems, unused = [], set(ALLOWED)
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*.py")):
            name = file.relative_to(ROOT).as_posix()
            if name.split("/")[1] in families:
                continue
            many = {family: names for family, names in named_classes(file, families).items() if len(names) > MOST}
            if many and name not in ALLOWED:
                problems += [f"{name} names {', '.join(sorted(names))} of {family}" for family, names in many.items()]
            elif many:
                unused.discard(name)
    problems += [f"{name} is allowed more, and needs it no longer" for name in sorted(unused)]
    print("\n".join(problems) or f"No file outside the {len(families)} families names more than {MOST} classes of one.")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
