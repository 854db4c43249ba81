"""Real Flink as a fixture: `flink_restore` starts a job of it from a savepoint and gives what that job sees.

The jars come from the PyPI package apache-flink-libraries, the programs are `flink-restore/`. Both are kept in the
user's cache. Where they cannot be had the tests are skipped, or fail under STATESHIFT_INTEROP=required. At the end a
table says what was restored where.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from contextlib import ExitStack, suppress
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from threading import Timer

import attrs
import pytest
from flink_jars import RELEASES, Unavailable, find_jars, find_jdk, javac_version, made_once
from live_backends import _closed_backends  # noqa: F401 - a fixture

from stateshift.spark.java import cache_folder

PROGRAMS = Path(__file__).parent / "flink-restore"


LONGEST = (
    "written_native", "bootstrapped", "sql_upgrades", "sql", "live_checkpoints", "sql_tables", "lazy_migration",
    "sql_accumulators", "sql_ttl", "sql_samples", "live_backends",
)  # fmt: skip
"""Files that take longest: the processes of `make interop` begin with them, so that none is alone at the end."""


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    places = {here / f"test_{name}.py": place for place, name in enumerate(LONGEST)}
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.interop)
    items.sort(key=lambda item: places.get(item.path, len(places)))


RESTORED = []


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["restored"] = RESTORED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    RESTORED.extend(getattr(node, "workeroutput", {}).get("restored", ()))


@pytest.fixture(scope="session")
def restorations():
    """What Flink restored with equal contents: (fixture, its Flink, restored by, backend, parallelism)."""
    return RESTORED


def pytest_terminal_summary(terminalreporter):
    if RESTORED:
        terminalreporter.section("restored by real Flink with equal contents")
        rows = [("savepoint", "of", "by", "backend", "parallelism")]
        rows += [tuple("as before" if cell is None else str(cell) for cell in row) for row in RESTORED]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            terminalreporter.write_line("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))
    skipped = terminalreporter.stats.get("skipped", ())
    reasons = {report.longrepr[2] for report in skipped if "tests/interop/" in report.nodeid}
    for reason in sorted(reasons):
        terminalreporter.write_line(reason.replace("Skipped", "SKIPPED"))


ALONE = {"--next", "--claim"}
"""Options of a job that goes on, or keeps what it restored from."""


@attrs.frozen
class Server:
    """A cluster in a Java that restores one savepoint after another: the first takes seconds, the others none.

    Attributes:
        process: It reads requests, and answers each with a line.
        scratch: A folder for its files.
    """

    process: subprocess.Popen
    scratch: Path

    @classmethod
    def started(cls, flink, evo):
        scratch = Path(tempfile.mkdtemp(prefix="stateshift-flink-"))
        variables = {"JARS": str(flink.jars), "WORK": str(flink.work), "EVO": str(evo), "TMPDIR": str(scratch)}
        with (scratch / "errors").open("w") as errors:
            process = subprocess.Popen(
                [PROGRAMS / "run-restore.sh", "--serve"],
                env=_environment(flink.jdk, variables), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                text=True, start_new_session=True,
            )  # fmt: skip
        return cls(process, scratch)

    @property
    def runs(self):
        return self.process.poll() is None

    def restore(self, savepoint, *options):
        """Give the JSON of one restore."""
        out = self.scratch / "out.json"
        out.unlink(missing_ok=True)
        words = ("--savepoint", Path(savepoint).absolute(), "--out", out, *options)
        self.process.stdin.write("\t".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        patience = Timer(300, self._kill)
        patience.start()
        while (line := self.process.stdout.readline()) and not line.startswith("restore "):
            pass
        patience.cancel()
        if not line:
            raise AssertionError(f"Flink neither restored nor refused:\n{(self.scratch / 'errors').read_text()}")
        return json.loads(out.read_text(encoding="utf-8"))

    def end(self):
        self._kill()
        self.process.communicate()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def _kill(self):
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


@attrs.frozen
class Flink:
    """What a run needs.

    Attributes:
        release: "2.3" or "1.20".
        jars: Folder with `flink-dist-*.jar`.
        work: Folder with the compiled programs.
        jdk: Folder with `java` and `javac`.
        servers: What restores one savepoint after another, by the version of the evolution classes.
    """

    release: str
    jars: Path
    work: Path
    jdk: Path
    servers: dict[str, Server] = attrs.field(factory=dict, eq=False)

    def restore(self, savepoint, *options, evo, classes=None):
        """Let `fx.Restore` restore; give its JSON, whether Flink restored or refused. `classes` go before all others.

        A job with classes of its own, or that goes on after its restore, has a Java of its own.
        """
        if not classes and not ALONE & set(options):
            return self._server(str(evo)).restore(savepoint, *options)
        with tempfile.TemporaryDirectory(prefix="stateshift-flink-") as scratch:
            out = Path(scratch) / "out.json"
            variables = {"JARS": str(self.jars), "WORK": str(self.work), "EVO": str(evo), "TMPDIR": scratch}
            variables |= {"VAR": str(classes)} if classes else {}
            command = [str(PROGRAMS / "run-restore.sh"), str(savepoint), str(out), *options]
            ran = _run(command, self.jdk, variables, timeout_s=300)
            if not out.exists():
                raise AssertionError(f"Flink neither restored nor refused (status {ran.returncode}):\n{ran.stderr}")
            return json.loads(out.read_text(encoding="utf-8"))

    def _server(self, evo):
        """Give the Java that restores with that version of the classes; only the last two keep running."""
        server = self.servers.pop(evo, None)
        if server is None or not server.runs:
            server = Server.started(self, evo)
        self.servers[evo] = server
        while len(self.servers) > 2:
            self.servers.pop(next(iter(self.servers))).end()
        return server

    def end(self):
        """End what runs for it."""
        while self.servers:
            self.servers.popitem()[1].end()

    def fire(self, savepoint, *options):
        """Run the job of `HeapTimers.java` from a savepoint to the end of its input; give which timers fired."""
        with tempfile.TemporaryDirectory(prefix="stateshift-flink-") as scratch:
            out = Path(scratch) / "out.json"
            setup = f'. "$HERE/env.sh"; setup {self.release} "$JARS" ""; '
            script = setup + 'flink 1 fx.HeapTimers --fire --savepoint "$0" --out "$1" "${@:2}"'
            variables = {"HERE": str(PROGRAMS), "JARS": str(self.jars), "WORK": str(self.work), "TMPDIR": scratch}
            command = ["bash", "-euo", "pipefail", "-c", script, savepoint, out, *options]
            ran = _run(command, self.jdk, variables, timeout_s=120)
            assert out.exists(), f"Flink neither restored nor refused (status {ran.returncode}):\n{ran.stderr}"
            return json.loads(out.read_text(encoding="utf-8"))

    def write_timers(self, target, *options):
        """Run the job of `HeapTimers.java` up to a canonical savepoint below a folder; give the place of that."""
        script = f'. "$HERE/env.sh"; setup {self.release} "$JARS" ""; '
        script += 'flink 1 fx.HeapTimers --write --snapshot canonical --out "$0" --root "$0/checkpoints" "$@"'
        variables = {"HERE": str(PROGRAMS), "JARS": str(self.jars), "WORK": str(self.work), "TMPDIR": str(target)}
        ran = _run(["bash", "-euo", "pipefail", "-c", script, target, *options], self.jdk, variables, timeout_s=120)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return target / "savepoint"

    def go_on(self, savepoint, events, *options):
        """Run the jobs of `WindowJobs.java` from a savepoint over the events of a file; give what windows emitted."""
        with tempfile.TemporaryDirectory(prefix="stateshift-flink-") as scratch:
            out = Path(scratch) / "out.json"
            setup = f'. "$HERE/env.sh"; setup {self.release} "$JARS" ""; '
            script = setup + 'flink 1 fx.WindowJobs --savepoint "$0" --events "$1" --out "$2" "${@:3}"'
            variables = {"HERE": str(PROGRAMS), "JARS": str(self.jars), "WORK": str(self.work), "TMPDIR": scratch}
            command = ["bash", "-euo", "pipefail", "-c", script, savepoint, events, out, *options]
            ran = _run(command, self.jdk, variables, timeout_s=120)
            assert out.exists(), f"Flink neither restored nor refused (status {ran.returncode}):\n{ran.stderr}"
            return json.loads(out.read_text(encoding="utf-8"))

    def compile(self, folder, *sources):
        """Compile Java classes, each given as its text, into a folder; give that."""
        files = []
        for source in sources:
            name = re.search(r"public (?:final )?(?:class|enum) (\w+)", source)[1]
            files.append(folder / f"{name}.java")
            files[-1].write_text(source, encoding="utf-8")
        ran = _run([self.jdk / "javac", "-nowarn", "-d", folder, *files], self.jdk, {}, timeout_s=120)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return folder

    def table(self, program, file):
        """Give the text of the table that a program prints: `fx.Hashes`, `fx.Values`."""
        script = f'. "$HERE/env.sh"; setup {self.release} "$JARS" ""; flink 1 {program} "{file}"'
        variables = {"HERE": str(PROGRAMS), "JARS": str(self.jars), "WORK": str(self.work), "TMPDIR": str(file.parent)}
        ran = _run(["bash", "-euo", "pipefail", "-c", script], self.jdk, variables, timeout_s=120)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return file.read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def flink():
    """`flink("2.3")`: that Flink, ready to run; downloaded and compiled on first use."""
    ended = ExitStack()

    @cache
    def ready(release):
        try:
            jdk = find_jdk()
            jars = find_jars(release)
            made = Flink(release, jars, _compiled(release, jars, jdk), jdk)
            ended.callback(made.end)
            return made
        except Unavailable as error:
            if os.environ.get("STATESHIFT_INTEROP") == "required":
                pytest.fail(f"real Flink is required here and cannot be run: {error}", pytrace=False)
            pytest.skip(str(error))

    with ended:
        yield ready


@pytest.fixture(scope="session")
def flink_restore(flink):
    """`flink_restore(savepoint)`: `status` is `restored` (then `operators` has the contents) or `failed` (`causes`).

    Without `scenario`, each state is registered with the serializer that its own snapshot restores to. With one
    (`"account"`), descriptors are those of a user's job, and `evo` picks the version of its class: 1; 2: fields added,
    one removed; 3: also `visits` as long; 4: as 1, with `name` renamed to `title`. `ttl` names the states that have
    TTL, in place of those that have it in the scenario, and `ttl_ms` says for how long. `scenario="@FILE"` takes
    descriptors from a text (flink-restore/README.md), and `classes` is the folder of the program's own. `following` is
    a folder below which the job then takes incremental checkpoints of its own, of which the last one stays.
    `max_parallelism` is what the job sets for each operator in place of what the savepoint has; 0: it sets none. If
    `chained`, the operators are one task. If `claim`, the savepoint becomes the job's.
    """

    def restore(
        savepoint, *, scenario=None, evo=1, backend="hashmap", parallelism=None, release="2.3", ttl=None, ttl_ms=None,
        classes=None, following=None, max_parallelism=None, chained=False,
        claim=False,
    ):  # fmt: skip
        options = ["--backend", backend]
        options += [] if ttl is None else ["--ttl", ",".join(ttl) or "none"]
        options += ["--ttl-ms", str(ttl_ms)] if ttl_ms else []
        options += ["--scenario", scenario] if scenario else []
        options += ["--parallelism", str(parallelism)] if parallelism else []
        options += ["--next", str(following)] if following else []
        options += [] if max_parallelism is None else ["--max-parallelism", str(max_parallelism)]
        options += ["--chained"] if chained else []
        options += ["--claim"] if claim else []
        return flink(release).restore(savepoint, *options, evo=evo, classes=classes)

    return restore


@pytest.fixture(scope="session")
def same_contents():
    """`same_contents(expected, restored)`: one line per state that differs; none when Flink saw what was expected.

    `expected` has the shape of a fixture's `expected.json`; with `export=True`, `restored` is an export instead.
    """
    spec = spec_from_file_location("compare_restore", PROGRAMS / "compare_restore.py")
    compare = module_from_spec(spec)
    spec.loader.exec_module(compare)

    def differences(expected, restored, *, export=False):
        if not export and restored["status"] != "restored":
            return ["not restored", *restored["causes"]]
        wanted, got = compare.norm(expected, True), compare.norm(restored, export)
        return [
            f"{operator} {part} {state}: expected {json.dumps(want)[:300]}, got {json.dumps(have)[:300]}"
            for operator in sorted(wanted.keys() | got.keys())
            for part in ("keyed", "timers", "operator", "broadcast")
            for state, want, have in _pairs(wanted.get(operator, {}).get(part, {}), got.get(operator, {}).get(part, {}))
            if want != have
        ]

    return differences


def _pairs(wanted, got):
    return [(state, wanted.get(state), got.get(state)) for state in sorted(wanted.keys() | got.keys())]


def _environment(jdk, variables):
    return os.environ | variables | {"PATH": f"{jdk}{os.pathsep}{os.environ['PATH']}"}


def _run(command, jdk, variables, *, timeout_s):
    variables = _environment(jdk, variables)
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=timeout_s, check=False)


def _compiled(release, jars, jdk):
    """Give the folder of the compiled programs, kept by what went into them."""
    digest = hashlib.sha256(f"{RELEASES[release]} {javac_version(jdk / 'javac')}".encode())
    for file in sorted(PROGRAMS.rglob("*")):
        if file.is_file() and file.suffix in (".java", ".in", ".sh"):
            digest.update(file.relative_to(PROGRAMS).as_posix().encode() + b"\0" + file.read_bytes())
    target = cache_folder() / f"flink-restore-{digest.hexdigest()[:16]}"
    with made_once(target) as fresh:
        if fresh:
            legacy = "legacy." if release == "2.3" else "''"
            script = f'. "$HERE/env.sh"; setup {release} "$JARS" {legacy}'
            variables = {"HERE": str(PROGRAMS), "WORK": str(fresh), "JARS": str(jars)}
            ran = _run(["bash", "-euo", "pipefail", "-c", script], jdk, variables, timeout_s=300)
            assert ran.returncode == 0, ran.stdout + ran.stderr
    return target
