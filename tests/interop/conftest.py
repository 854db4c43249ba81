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
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from contextlib import contextmanager
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import attrs
import pytest

from stateshift.spark.java import cache_folder

RELEASES = {"2.3": "2.3.0", "1.20": "1.20.5"}
PROGRAMS = Path(__file__).parent / "flink-restore"


class Unavailable(Exception):
    """Something that real Flink needs is not here; the message says what, and why."""


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.interop)


RESTORED = []


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


@attrs.frozen
class Flink:
    """What a run needs.

    Attributes:
        release: "2.3" or "1.20".
        jars: Folder with `flink-dist-*.jar`.
        work: Folder with the compiled programs.
        jdk: Folder with `java` and `javac`.
    """

    release: str
    jars: Path
    work: Path
    jdk: Path

    def restore(self, savepoint, *options, evo):
        """Run `run-restore.sh`; give its JSON, whether Flink restored or refused."""
        with tempfile.TemporaryDirectory(prefix="stateshift-flink-") as scratch:
            out = Path(scratch) / "out.json"
            variables = {"JARS": str(self.jars), "WORK": str(self.work), "EVO": str(evo), "TMPDIR": scratch}
            command = [str(PROGRAMS / "run-restore.sh"), str(savepoint), str(out), *options]
            ran = _run(command, self.jdk, variables, timeout_s=300)
            if not out.exists():
                raise AssertionError(f"Flink neither restored nor refused (status {ran.returncode}):\n{ran.stderr}")
            return json.loads(out.read_text(encoding="utf-8"))

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

    @cache
    def ready(release):
        try:
            jdk = _jdk()
            jars = _jars(release)
            return Flink(release, jars, _compiled(release, jars, jdk), jdk)
        except Unavailable as error:
            if os.environ.get("STATESHIFT_INTEROP") == "required":
                pytest.fail(f"real Flink is required here and cannot be run: {error}", pytrace=False)
            pytest.skip(str(error))

    return ready


@pytest.fixture(scope="session")
def flink_restore(flink):
    """`flink_restore(savepoint)`: `status` is `restored` (then `operators` has the contents) or `failed` (`causes`).

    Without `scenario`, each state is registered with the serializer that its own snapshot restores to. With one
    (`"account"`), descriptors are those of a user's job, and `evo` picks the version of its class: 1; 2: fields added,
    one removed; 3: also `visits` as long; 4: as 1, with `name` renamed to `title`. `ttl` names the states that have
    TTL, in place of those that have it in the scenario, and `ttl_ms` says for how long.
    """

    def restore(
        savepoint, *, scenario=None, evo=1, backend="hashmap", parallelism=None, release="2.3", ttl=None, ttl_ms=None
    ):
        options = ["--backend", backend]
        options += [] if ttl is None else ["--ttl", ",".join(ttl) or "none"]
        options += ["--ttl-ms", str(ttl_ms)] if ttl_ms else []
        options += ["--scenario", scenario] if scenario else []
        options += ["--parallelism", str(parallelism)] if parallelism else []
        return flink(release).restore(savepoint, *options, evo=evo)

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


def _run(command, jdk, variables, *, timeout_s):
    variables = os.environ | variables | {"PATH": f"{jdk}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=timeout_s, check=False)


def _jdk():
    """Give the folder of a `javac` of Java 17 or later."""
    home = os.environ.get("JAVA_HOME")
    places = [Path(home) / "bin" / "javac"] if home else []
    on_path = shutil.which("javac")
    places += [Path(on_path).resolve()] if on_path else []
    for javac in places:
        version = _javac_version(javac)
        if version and int(version.partition(".")[0]) >= 17:
            return javac.parent
    raise Unavailable("no JDK 17 or later (javac) under JAVA_HOME or on the path")


def _javac_version(javac):
    try:
        answer = subprocess.run([javac, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return None
    found = re.search(r"^javac (\d+[\d.]*)", answer.stdout + answer.stderr, re.MULTILINE)
    return found[1] if answer.returncode == 0 and found else None


def _jars(release):
    """Give the folder of Flink's jars, downloaded once."""
    target = cache_folder() / f"flink-{RELEASES[release]}"
    with _made_once(target) as fresh:
        if fresh:
            _download(RELEASES[release], fresh)
    return target


def _download(version, target):
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="download-") as scratch:
        package = f"apache-flink-libraries=={version}"
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", scratch, package]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        files = list(Path(scratch).iterdir())
        if ran.returncode != 0 or len(files) != 1:
            last = (ran.stderr.strip().splitlines() or ["nothing was downloaded"])[-1]
            raise Unavailable(f"pip cannot download {package} (a few hundred MB): {last}")
        _unpack_jars(files[0], target)
    if not list(target.glob("flink-dist-*.jar")):
        raise Unavailable(f"{files[0].name} holds no flink-dist jar")


def _unpack_jars(package, target):
    """A wheel or a source archive; of either only the jars in pyflink/lib."""
    if zipfile.is_zipfile(package):
        with zipfile.ZipFile(package) as archive:
            for name in archive.namelist():
                if _is_jar(name):
                    with archive.open(name) as source, (target / Path(name).name).open("wb") as file:
                        shutil.copyfileobj(source, file)
        return
    with tarfile.open(package) as archive:
        for member in archive:
            source = archive.extractfile(member) if _is_jar(member.name) else None
            if source:
                with source, (target / Path(member.name).name).open("wb") as file:
                    shutil.copyfileobj(source, file)


def _is_jar(name):
    path = Path(name)
    return path.suffix == ".jar" and path.parent.name in ("lib", "deps")


def _compiled(release, jars, jdk):
    """Give the folder of the compiled programs, kept by what went into them."""
    digest = hashlib.sha256(f"{RELEASES[release]} {_javac_version(jdk / 'javac')}".encode())
    for file in sorted(PROGRAMS.rglob("*")):
        if file.is_file() and file.suffix in (".java", ".in", ".sh"):
            digest.update(file.relative_to(PROGRAMS).as_posix().encode() + b"\0" + file.read_bytes())
    target = cache_folder() / f"flink-restore-{digest.hexdigest()[:16]}"
    with _made_once(target) as fresh:
        if fresh:
            legacy = "legacy." if release == "2.3" else "''"
            script = f'. "$HERE/env.sh"; setup {release} "$JARS" {legacy}'
            variables = {"HERE": str(PROGRAMS), "WORK": str(fresh), "JARS": str(jars)}
            ran = _run(["bash", "-euo", "pipefail", "-c", script], jdk, variables, timeout_s=300)
            assert ran.returncode == 0, ran.stdout + ran.stderr
    return target


@contextmanager
def _made_once(target):
    """Give a folder to fill, which then becomes `target` whole or not at all; None if that is there already."""
    if target.is_dir():
        yield None
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=target.parent, prefix=f"{target.name}-"))
    try:
        yield fresh
        if not target.is_dir():  # another run may have been faster
            fresh.rename(target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
