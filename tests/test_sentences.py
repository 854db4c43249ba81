"""Decisions travel as data: no code looks into a sentence of a finding, a problem, a note or an error.

Rewording a message must change nothing but the message. Laying out text (lines, columns) is no reading of it.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FOLDERS = ("serializers", "compat", "state", "spark", "pyflink", "cli")
SENTENCES = frozenset(
    {
        "advice", "details", "flags", "message", "next_command", "note", "notes", "origin", "reason", "reasons", "told",
        "way", "ways_out", "what", "why", "words", "written",
    }
)  # fmt: skip
"""Attributes that hold sentences, or hold texts of findings; and what a loop takes from them."""
ERRORS = frozenset({"error", "caught", "failure", "problem", "finding", "refused", "told"})
"""Names of which `str` makes a message."""
FINDINGS = frozenset({"change", "failure", "finding"})
"""Names of findings and what is like them: the types in words and the path are texts, too."""
LINES = frozenset({"sentence", "words"})
"""Names of what a report consists of."""
READS = frozenset(
    {"partition", "rpartition", "removeprefix", "removesuffix", "startswith", "endswith", "find", "index", "count"}
)
PATTERNS = frozenset({"search", "match", "fullmatch", "findall", "finditer", "sub"})

ALLOWED = {
    ("cli/output.py", "one[0].startswith('-')"): "layout: an option keeps its value in its line",
    ("serializers/ways_out.py", "way.words.removesuffix(':')"): "puts the way out itself into words",
    ("spark/jobs.py", "'No space left on device' not in str(error)"): "an error of Spark, whose message is all it has",
    ("spark/jobs.py", "str(error).partition('Driver stacktrace')"): "an error of Spark",
    (
        "spark/streaming/running_query.py",
        "_OURS.findall(str(error))",
    ): "an error of Spark, which quotes that of our worker",
    ("spark/source/options.py", "value not in words"): "the words that an option takes",
    ("spark/worker.py", "MISSING_MODULE.search(answer.what)"): "the message quotes Python's ModuleNotFoundError",
    ("state/rocksdb/database.py", "'No space left' in str(error)"): "an error of RocksDB",
    (
        "state/rocksdb/database.py",
        r"re.sub(' +in \\S*/|\\S*/(?=\\d+\\.sst|MANIFEST-|OPTIONS-|CURRENT)', ' ', str(error))",
    ): "an error of RocksDB, without the folder that it names",
}
"""What reads a sentence, by file and code, with the reason: what other programs say has no other form."""


def _is_sentence(node: ast.expr, taken: set[str]) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id=of), attr="new" | "old" | "path"):
            return of in FINDINGS
        case ast.Attribute(attr=name):
            return name in SENTENCES
        case ast.Subscript(value=value):
            return _is_sentence(value, taken)
        case ast.Name(id=name):
            return name in taken or name in LINES
        case ast.Call(func=ast.Name(id="str"), args=[ast.Name(id=name)]):
            return name in ERRORS or name in taken
        case ast.Call(func=ast.Name(id="str"), args=[of]):
            return _is_sentence(of, taken)
        case ast.Call(func=ast.Attribute(value=value, attr="lower" | "strip" | "replace")):
            return _is_sentence(value, taken)
    return False


def _taken(nodes: list[ast.AST]) -> set[str]:
    """Return the names of what loops take from sentences."""
    return {
        node.target.id
        for node in nodes
        if isinstance(node, ast.For | ast.comprehension)
        and isinstance(node.target, ast.Name)
        and _is_sentence(node.iter, set())
    }


def readings(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield what looks into a sentence."""
    nodes = [*ast.walk(tree)]
    scopes = [nodes]
    if _taken(nodes):  # a name counts within its function
        functions = [[*ast.walk(node)] for node in nodes if isinstance(node, ast.FunctionDef)]
        within = {id(one) for of in functions for one in of}
        scopes = [*functions, [node for node in nodes if id(node) not in within]]
    found: dict[int, ast.expr] = {}
    for scope in scopes:
        taken = _taken(scope)
        found |= {id(node): node for node in scope if isinstance(node, ast.expr) and _reads(node, taken)}
    yield from found.values()


def _reads(node: ast.expr, taken: set[str]) -> bool:
    match node:
        case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()], comparators=[side]):
            is_data = isinstance(side, ast.Attribute) and side.attr in {"flags", "ways_out"}
            return _is_sentence(side, taken) and (not is_data or isinstance(left, ast.Constant | ast.JoinedStr))
        case ast.Subscript(value=ast.Attribute(attr="path") as path, slice=ast.Slice()):
            return _is_sentence(path, taken)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="shlex"), attr="split"), args=[arg, *_]):
            return _is_sentence(arg, taken)
        case ast.Call(func=ast.Attribute(value=value, attr=name), args=args):
            is_read = name in READS and _is_sentence(value, taken)
            return is_read or (name in PATTERNS and any(_is_sentence(one, taken) for one in args))
    return False


def test_no_code_looks_into_a_sentence(pytestconfig):
    root: Path = pytestconfig.rootpath
    found = {
        (str(file.relative_to(root)), ast.unparse(node))
        for folder in FOLDERS
        for file in (root / folder).rglob("*.py")
        for node in readings(ast.parse(file.read_text(encoding="utf-8")))
    }

    assert set(ALLOWED) == found


@pytest.mark.parametrize(
    "code",
    [
        "'merged' in finding.reason",
        "error.advice.partition(': ')",
        "[one for one in finding.ways_out if one.startswith('migrate')]",
        "any(flag.partition(':')[0] == 'drops' for flag in finding.flags)",
        "'parse_edits(' in refused.what",
        "'keep it' in finding.ways_out",
        "str(problem).removeprefix('start the job: ')",
        "PATTERN.search(str(error))",
        "re.sub('a', 'b', report.note)",
        "finding.old.startswith('optional<')",
        "tuple(ROOT.sub('$', text) for text in words)",
        "finding.path.removeprefix('$<').removesuffix('>')",
        "finding.path[2:-1]",
        "shlex.split(report.next_command)",
        "report.old.origin.removeprefix('Spark checkpoint ')",
    ],
)
def test_it_would_be_found(code):
    assert 1 == len([*readings(ast.parse(code))])


@pytest.mark.parametrize("code", ["finding.reason.splitlines()", "path in problems", "LOOK in finding.ways_out"])
def test_layout_and_data_are_no_reading(code):
    assert [] == [*readings(ast.parse(code))]


def test_paths_of_columns_are_taken_apart_by_their_class(pytestconfig):
    root: Path = pytestconfig.rootpath
    files = [file for folder in ("compat/queries", "serializers/spark_rows") for file in (root / folder).glob("*.py")]
    nodes = [node for file in files for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))]

    found = [
        ast.unparse(node)
        for node in nodes
        if isinstance(node, ast.Attribute)
        and node.attr in READS
        and isinstance(node.value, ast.Attribute)
        and node.value.attr in {"instead", "path", "source"}
    ]

    assert len(nodes) > 1000
    assert [] == found


VERBS = "check|diff|explain|export|init|inspect|migrate|plan|quarantine|rewind|savepoint|show|snapshot|stamp|ttl|verify"
WORDS_OF_THE_SHELL = re.compile(rf"(?<![\w`-])(?:--[a-z][a-z-]+(?![\w-])|stateshift (?:{VERBS})\b)")
"""An option, or a command, within a text; in backticks it is a name."""
FACES = ("serializers/ways_out.py", "compat/testing/")
TOLD_ALIKE = {
    "compat/explain.py": "the text of a check, which the command line and errors share",
    "compat/gate/recording.py": "the name of a stored format",
    "compat/likeness.py": "the text of a check",
    "serializers/pickled/unpickler.py": "it says both",
    "serializers/spark_rows/rules.py": "the command of ways out",
    "spark/java.py": "options of Java",
    "spark/queries/check.py": "what a caller on the command line typed",
    "spark/queries/gate.py": "the command of ways out",
    "state/columnar/bootstrap.py": "a report of Python names the command that proves it",
    "state/migration/plan_file.py": "the name of a stored format",
    "state/proof/installation.py": "options of Java",
}
"""Files whose texts have words of the shell, with the reason."""


def told_in_shell(tree: ast.AST) -> Iterator[str]:
    """Yield texts that name options or commands, and are not the command of a way out."""
    nodes = [*ast.walk(tree)]
    commands = [one.value for one in nodes if isinstance(one, ast.keyword) and one.arg == "command"]
    texts = [one.value for one in nodes if isinstance(one, ast.Expr)]
    left = {id(one) for of in (*commands, *texts) for one in ast.walk(of) if not isinstance(of, ast.Call | ast.Yield)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in left:
            yield from WORDS_OF_THE_SHELL.findall(node.value)


def test_options_and_commands_are_data_below_the_command_line(pytestconfig):
    root: Path = pytestconfig.rootpath
    found = {
        str(file.relative_to(root)): told
        for folder in FOLDERS[:-1]
        for file in (root / folder).rglob("*.py")
        if (told := [*told_in_shell(ast.parse(file.read_text(encoding="utf-8")))])
    }

    assert {} == {file: told for file, told in found.items() if not file.startswith(FACES) and file not in TOLD_ALIKE}
    assert set(TOLD_ALIKE) == {file for file in found if not file.startswith(FACES)}


@pytest.mark.parametrize("text", ["export without --trust", "prove it: stateshift verify PLACE"])
def test_such_a_text_would_be_found(text):
    assert [*told_in_shell(ast.parse(f"raise Error(advice={text!r})"))]
    assert not [*told_in_shell(ast.parse(f"raise Error(advice=WayOut('do', command={text!r}))"))]
