"""The page of PyFlink's names: what is under the same path here, what is elsewhere, and what is not there, and why."""

from __future__ import annotations

import ast
import json
import re
from importlib import import_module
from pathlib import Path

from stateshift.pyflink.absent import ELSEWHERE, NOT

NAMES = Path(__file__).parents[1] / "fixtures" / "pyflink-names.json"
PARTS = ("common", "datastream")

MARK = "<!-- From here on made by tests/docs/test_pyflink_page.py -->\n\n"


def names_of_pyflink(folder):
    """Read PyFlink's public names by module: those of `__all__`, and all other classes and functions.

    Each has its public methods, but for those that are about Java.
    """
    found = {}
    for part in PARTS:
        for file in sorted((folder / "pyflink" / part).rglob("*.py")):
            tree = ast.parse(file.read_text(encoding="utf-8"))
            own = {
                node.name: _methods(node)
                for node in tree.body
                if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_")
            }
            listed = [
                name
                for node in tree.body
                if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
                for name in ast.literal_eval(node.value)
            ]
            inner = file.relative_to(folder / "pyflink").with_suffix("")
            module = ".".join(inner.parts[:-1] if inner.name == "__init__" else inner.parts)
            if names := sorted({*own, *listed}):
                found[module] = {name: own.get(name, []) for name in names}
    version = ast.parse((folder / "pyflink" / "version.py").read_text(encoding="utf-8")).body[-1].value.value
    return {"apache-flink": version, "names": found}


def _methods(node):
    names = [item.name for item in node.body if isinstance(item, ast.FunctionDef)]
    return sorted({name for name in names if not re.search("^_|java|(^|_)j_", name)})


def kept():
    """Give the list of PyFlink's names that is kept."""
    return json.loads(NAMES.read_text(encoding="utf-8"))


def is_here(module, name):
    place = f"stateshift.pyflink.{module}"
    try:
        return name in vars(import_module(place))
    except ModuleNotFoundError:
        return False


def told(table, module, name, names):
    """Find what a table says of a name; where a package re-exports it, what is said of the module that has it."""
    places = [module, *(other for other in names if other.startswith(f"{module}.") and name in names[other])]
    said = [table[place] for place in places if place in table]
    by_name = [text for of in said for listed, text in of.items() if name in listed.split()]
    return next(iter([*by_name, *(of["*"] for of in said if "*" in of)]), None)


def verdict(module, name, names):
    """Return what is said of a name: here, elsewhere or not, and the remark."""
    if is_here(module, name):
        thing = getattr(import_module(f"stateshift.pyflink.{module}"), name)
        lacking = [f"`{method}`" for method in names[module][name] if not hasattr(thing, method)]
        return "here", f"without {', '.join(lacking)}" if lacking and isinstance(thing, type) else ""
    for word, table in (("elsewhere", ELSEWHERE), ("not", NOT)):
        text = told(table, module, name, names)
        if text is not None:
            return word, text
    raise LookupError(f"{module}.{name} is neither here, nor does ELSEWHERE or NOT say anything of it")


def tables():
    """Give the text of the tables, one for each module of PyFlink."""
    names, parts = kept()["names"], []
    for module, of in names.items():
        rows = {}
        for name in of:
            rows.setdefault(verdict(module, name, names), []).append(f"`{name}`")
        order = sorted(rows, key=lambda row: (("here", "elsewhere", "not").index(row[0]), row[1]))
        lines = [f"| {', '.join(rows[row])} | {row[0]} | {row[1]} |" for row in order]
        parts.append(
            "\n".join([f"### pyflink.{module}\n", "| name | | where, or why |", "| --- | --- | --- |", *lines])
        )
    return "\n\n".join(parts) + "\n"
