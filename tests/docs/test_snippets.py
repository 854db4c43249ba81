"""Every snippet of README.md and docs/ is run as a reader would run it, in the order of its page.

Fences and what they mean here:

    python                      run, in one namespace per page
    python title="accounts.py"  saved under that name in the page's current folder
    pycon                       an interactive session; what it prints is compared
    console                     lines that begin with `$ ` are run in bash, the lines after them are their output
    console no-run="reason"     not run; every one is listed in NOT_RUN
    toml title="pyproject.toml" saved under that name, after what the page has put there; it must be TOML
    yaml title="ci.yaml"        saved under that name
    text                        drawings and tables

A page starts in a folder that looks like a clone: `tests` and `examples` are there. `…` stands for any run of text in
a line, or, alone in a line, for any run of lines. Pages that have a session of Spark share one. A page in WITH_FLINK
has a cluster of real Flink with its command `flink`, and jars of jobs: `make interop-native` runs it.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import subprocess
import sys
import tomllib
import types
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import pytest
from flink_jars import Unavailable, find_jars, find_jdk
from flink_session import flink_session
from warm_commands import warm_commands

from stateshift.serializers.registry import registry

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

PHASES = "starting Spark|planning|migrating|copying|publishing|writing|encoding|digests|streams|scanning"
PROGRESS = re.compile(rf"({PHASES})\b.*(done|…)|to do: .*|  (about \d[\d,]* s (in this|on Spark)|free space there:).*")
NOT_RUN_PREFIXES = (
    "git clone ",  # the reader's way to get what is already here
    "cd stateshift",  # a page starts in the clone
    "make ",  # each is a target of the Makefile (checked below); CI runs them
    ". .venv/bin/activate",  # the interpreter of the test is that environment
    "pip install ",  # tests/test_packaging.py installs
)
NOT_RUN = {
    "$ flink stop --type native --savepointPath /data/savepoints JOB": "no Flink cluster here",
    "$ stateshift migrate /data/checkpoints/JOB accounts-v2 --job counting:job --follow --until /data/savepoints": (
        "no Flink cluster here"
    ),
    "$ stateshift check spark:tests/fixtures/spark-4.3/checksums/checkpoint --query clicks:changed": (
        "each check starts Spark; the same is checked in Python"
    ),
    "$ stateshift migrate spark:/data/clicks spark:/data/clicks-v2 --query clicks:with_a_count --dry-run": (
        "it starts Spark; the same is run in Python below"
    ),
    "$ flink run -s after/ …": "no Flink cluster here; make interop restores such savepoints in real Flink",
    "$ stateshift migrate /data/sp-1 /data/sp-1-v2 --job accounts:job --prove flink --flink-home /opt/flink "
    "--job-jar job.jar": "it starts real Flink; make prove does so",
    "$ stateshift verify /data/sp-1-v2 --prove flink --flink-home /opt/flink --job-jar job.jar --json": (
        "it starts real Flink; make prove does so"
    ),
    "$ stateshift migrate s3://bucket/sp-1 s3://bucket/sp-1-v2 --job accounts:job --master spark://host:7077": (
        "needs a Spark cluster and a bucket"
    ),
    "$ spark-submit --master spark://host:7077 --py-files accounts_v3.py migrate_accounts.py s3://bucket/sp-1 "
    "s3://bucket/sp-1-v2": "needs a Spark cluster and a bucket",
    "$ stateshift inspect 's3://bucket/sp-1?endpoint_override=minio.local:9000&scheme=http'": (
        "needs a Spark cluster and a bucket"
    ),
}
"""Blocks with a `no-run` reason: their first line -> the reason."""

SLOW = {"run-on-a-cluster.md", "test-your-serializer.md"}
WITH_FLINK = {"run-blue-and-green.md": "blue-green"}
"""Pages that need a cluster: the folder in tests/interop with the sources of their jobs."""
ON_SPARK = [pytest.mark.xdist_group("spark"), pytest.mark.slow]
MAY_REFUSE = re.compile(r"(stateshift (check|diff|verify)|pytest)\b")
NEXT = re.compile(r"^next: (?:.* then )?(stateshift migrate .*)$", re.MULTILINE)
FENCE = re.compile(r"^```(?P<language>\w*)(?P<info>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


@attrs.frozen
class Snippet:
    """A fenced block, with the line at which it stands."""

    language: str
    info: str
    body: str
    line: int

    def option(self, name: str) -> str | None:
        found = re.search(rf'{name}="([^"]*)"', self.info)
        return found[1] if found else None

    def commands(self) -> Iterator[tuple[str, list[str]]]:
        """Give each command of a console block with the lines shown after it."""
        command, shown = "", []
        for line in self.body.splitlines():
            if line.startswith("$ "):
                if command:
                    yield command, shown
                command, shown = line[2:], []
            elif command.endswith("\\") and not shown:
                command += "\n" + line
            else:
                assert command, f"output without a command in line {self.line}: {line}"
                shown.append(line)
        yield command, shown


def snippets_of(page: Path) -> list[Snippet]:
    text = page.read_text(encoding="utf-8")
    return [
        Snippet(found["language"], found["info"].strip(), found["body"], text.count("\n", 0, found.start()) + 1)
        for found in FENCE.finditer(text)
    ]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def has_session(page: Path) -> bool:
    """Whether the page starts Spark in its Python session."""
    return any("stateshift.spark" in snippet.body for snippet in snippets_of(page) if snippet.language == "pycon")


def matches(shown: list[str], real: list[str]) -> bool:
    """Compare output with what a page shows; `…` stands for a run of text, or, alone in a line, of lines."""
    pieces = []
    for line in shown:
        if line.strip() == "…":
            pieces.append(r"(?:[^\n]*\n)*?")
        else:
            pieces.append("[^\n]*?".join(re.escape(part) for part in line.rstrip().split("…")) + r"[ ]*\n")
    return re.fullmatch("".join(pieces), "".join(line.rstrip() + "\n" for line in real)) is not None


def matches_words(shown: list[str], real: list[str]) -> bool:
    """Compare output with what a page shows wherever lines are divided: that depends on how long paths are."""
    words = " ".join(" ".join(line.removesuffix(" \\") for line in real).split())
    pieces = re.split(" ?… ?", " ".join(" ".join(line.removesuffix(" \\") for line in shown).split()))
    return re.fullmatch(".*?".join(map(re.escape, pieces)), words) is not None


class Reader:
    """A user following a page: a folder, a shell, and a Python session."""

    def __init__(self, folder: Path, commands: Path) -> None:
        self.folder = folder
        self.notes = folder.with_name("last-folder")
        self.status = 0
        self.module = types.ModuleType("docs_page")
        self.environment = {
            name: value
            for name, value in os.environ.items()
            # CI: pytest shortens nothing there, and a reader sits at a terminal.
            if not name.startswith(("STATESHIFT_", "PYTHON")) and name not in {"CI", "BUILD_NUMBER"}
        }
        self.environment |= {
            "PATH": os.pathsep.join(map(str, (commands, Path(sys.executable).parent, os.environ["PATH"]))),
            "COLUMNS": "200",
            "NO_COLOR": "1",
            "PYTEST_ADDOPTS": "--hypothesis-profile=ci",  # on a busy machine an example takes longer than its deadline
        }

    def type_in(self, command: str) -> list[str]:
        script = f'(exit {self.status})\n{command}\nstatus=$?\npwd > "{self.notes}"\nexit $status'
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env=self.environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=180,
            check=False,
        )
        self.status = done.returncode
        self.folder = Path(self.notes.read_text(encoding="utf-8").strip())
        # What a command says while it works depends on how long that takes.
        return [line for line in done.stdout.splitlines() if not PROGRESS.fullmatch(line)]

    def run(self, snippet: Snippet) -> None:
        with contextlib.chdir(self.folder):
            getattr(self, snippet.language)(snippet)

    def console(self, snippet: Snippet) -> None:
        commands = list(snippet.commands())
        for index, (command, shown) in enumerate(commands):
            if command.startswith(NOT_RUN_PREFIXES):
                assert shown == [], f"line {snippet.line}: output of a command that no test runs: {command}"
                continue
            real = self.type_in(command)
            told = "\n".join(real)
            has_paths = any(place in told for place in (str(self.notes.parent), str(ROOT)))
            is_shown = matches(shown, real) or (has_paths and matches_words(shown, real))
            assert is_shown, f"line {snippet.line}: {command}\nshows\n{chr(10).join(shown)}\nand is\n{told}"
            asked = index + 1 < len(commands) and commands[index + 1][0] == "echo $?"
            allowed = {0, 1, 4} if MAY_REFUSE.match(command) else {0}
            assert asked or self.status in allowed, f"line {snippet.line}: {command} exits with {self.status}\n{told}"
            for following in NEXT.findall(re.sub(r" \\\n +", " ", told)):
                self.try_next(following)

    def try_next(self, command: str) -> None:
        """Follow what a command says is next, without writing anything."""
        status, place = self.status, self.folder / "no" / "where"
        real = self.type_in(f"{command.replace('NEW_SAVEPOINT', str(place))} --dry-run")
        assert self.status in {0, 6}, "\n".join([command, *real])  # 6: of a value, which no check sees
        self.status = status

    def python(self, snippet: Snippet) -> None:
        file = snippet.option("title")
        if file is not None:
            Path(file).parent.mkdir(parents=True, exist_ok=True)
            Path(file).write_text(snippet.body, encoding="utf-8")
            return
        exec(compile(snippet.body, f"line {snippet.line}", "exec"), vars(self.module))  # noqa: S102 - our own docs

    def toml(self, snippet: Snippet) -> None:
        file = Path(snippet.option("title"))
        before = file.read_text(encoding="utf-8") if file.exists() else ""
        tomllib.loads(before + snippet.body)
        file.write_text(before + snippet.body, encoding="utf-8")

    def yaml(self, snippet: Snippet) -> None:
        file = Path(snippet.option("title"))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(snippet.body, encoding="utf-8")

    def pycon(self, snippet: Snippet) -> None:
        test = doctest.DocTestParser().get_doctest(
            snippet.body, vars(self.module), f"line {snippet.line}", None, snippet.line
        )
        report = io.StringIO()
        checker = _Shown()
        doctest.DocTestRunner(checker, verbose=False).run(test, out=report.write, clear_globs=False)
        vars(self.module).update(test.globs)
        assert report.getvalue() == "", report.getvalue()

    def text(self, snippet: Snippet) -> None:
        assert "$ " not in snippet.body, f"line {snippet.line}: commands stand in console blocks"


class _Shown(doctest.OutputChecker):
    """Compares as everywhere on these pages."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return matches(want.splitlines(), got.splitlines())


@pytest.fixture(scope="module")
def commands():
    with warm_commands() as folder:
        yield folder


@pytest.fixture
def reader(tmp_path, commands):
    """A reader in a folder like a clone."""
    clone = tmp_path / "stateshift"
    clone.mkdir()
    for name in ("tests", "examples"):
        (clone / name).symlink_to(ROOT / name)
    paths = list(sys.path)
    person = Reader(clone, commands)
    sys.modules[person.module.__name__] = person.module
    sys.path.insert(0, "")
    with registry.restored():  # a page may register snapshots, whose modules go with it
        yield person
    sys.path[:] = paths
    del sys.modules[person.module.__name__]


def marks_of(page: Path) -> list[pytest.MarkDecorator]:
    if has_session(page):
        return ON_SPARK
    if page.name in WITH_FLINK:
        return [pytest.mark.interop, pytest.mark.slow]
    return [pytest.mark.slow] if page.name in SLOW else []


@contextlib.contextmanager
def flink_for(page: Path, reader: Reader) -> Iterator[None]:
    """Give a reader the command `flink`, and the jars of the page's jobs, until the `with` block ends."""
    try:
        jars, jdk = find_jars("2.3"), find_jdk()
    except Unavailable as error:
        if os.environ.get("STATESHIFT_INTEROP") == "required":
            pytest.fail(f"real Flink is required here and cannot be run: {error}", pytrace=False)
        pytest.skip(str(error))
    sources, place = ROOT / "tests" / "interop" / WITH_FLINK[page.name], reader.folder.parent
    path = ":".join(map(str, jars.glob("*.jar")))
    for version in sorted(sources.glob("v*")):
        classes, jar = place / version.name, reader.folder / f"accounts-{version.name}.jar"
        files = [*sources.glob("job/*.java"), *version.glob("*.java")]
        compiled = [jdk / "javac", "-nowarn", "-proc:none", "-d", classes, "-cp", path, *files]
        packed = [jdk / "jar", "--create", "--file", jar, "--main-class", "shop.Accounts", "-C", classes, "."]
        for command in (compiled, packed):
            subprocess.run(command, check=True)
    with flink_session(place / "flink", jars, jdk, ROOT / "tests/interop/flink-restore/log4j2.properties") as commands:
        reader.environment["PATH"] = f"{commands}{os.pathsep}{reader.environment['PATH']}"
        yield


@pytest.mark.parametrize("page", [pytest.param(page, marks=marks_of(page), id=name_of(page)) for page in PAGES])
def test_the_snippets_of_a_page_print_what_it_shows(page, reader):
    with flink_for(page, reader) if page.name in WITH_FLINK else contextlib.nullcontext():
        for snippet in snippets_of(page):
            reason = snippet.option("no-run")
            if reason is not None:
                assert NOT_RUN.get(snippet.body.splitlines()[0]) == reason, "a block that is not run is listed here"
                continue
            assert hasattr(reader, snippet.language), f"{name_of(page)}:{snippet.line}: no known kind of snippet"
            reader.run(snippet)


def test_every_block_that_is_not_run_still_stands_in_a_page():
    standing = {
        snippet.body.splitlines()[0]
        for page in PAGES
        for snippet in snippets_of(page)
        if snippet.option("no-run") is not None
    }

    assert set(NOT_RUN) == standing


def test_targets_of_make_that_pages_name_exist():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {
        target
        for page in PAGES
        for target in re.findall(r"\bmake ([a-z]+)`|^\$ make ([a-z]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
        for target in target
        if target
    }

    assert named
    assert named - targets == set()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_between_pages_lead_to_files_and_headings(page):
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http:", "https:")):
            continue
        path, _, heading = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (heading and heading not in headings_of(file)):
            broken.append(target)

    assert broken == []


def headings_of(page: Path) -> set[str]:
    """Give the anchors of a page's headings, as web views of Markdown make them."""
    titles = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_an_ellipsis_stands_for_text_in_a_line_and_for_lines_when_alone():
    assert matches(["a … c", "…", "end"], ["a bb c", "x", "y", "end"])
    assert not matches(["a … c"], ["a bb d"])
    assert not matches([], ["something"])
