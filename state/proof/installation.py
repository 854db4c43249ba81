"""Flink on this machine: its jars, a JDK, and the program that restores a savepoint with them."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote_plus

import attrs

from ...serializers.errors import StateShiftError, StorageFailed
from ..java import Java, cache_folder, installed, probe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

OLDEST_JAVA = 11
_PROGRAM = Path(__file__).parent / "Prove.java"
_OPENED = ("lang", "util", "time", "math", "lang.invoke", "util.concurrent", "text", "net", "io", "nio")
_ENDS = ([["done"]], [["failed"]])
_DIST = re.compile(r"flink-dist-(\d[^/]*)\.jar")


class FlinkNotFound(StateShiftError, FileNotFoundError):
    """Something that real Flink needs was not found.

    Attributes:
        tried: The places that were searched, and what was found in each.
    """

    written = "Nothing was read or written."

    def __init__(self, what: str, *, tried: Iterable[str], advice: str) -> None:
        self.tried = tuple(tried)
        super().__init__(what, details=[f"  - {each}" for each in self.tried], advice=advice)


class FlinkFailed(StateShiftError, RuntimeError):
    """Flink ended without an answer: it says nothing about the savepoint."""


@attrs.frozen
class Answer:
    """What Flink found.

    Attributes:
        java: The version of the Java that ran it.
        savepoint: The folder of the canonical savepoint that it took; None where it took none.
        refused: The messages of the error that ended it, the outermost first; empty if it came to its end.
        left_out: The operators that it could not restore, by id, each with the reason: a class is missing.
        broken: The operators of which it cannot read a header, by id, each with the reason.
        found: The keys and timers that it found again, by operator id and state.
        lost: The number of those that it has and does not find, by operator id and state.
        examples: Some of the lost ones, by operator id and state.
        log: The file of its log.
    """

    java: str
    savepoint: Path | None
    refused: tuple[str, ...]
    left_out: dict[str, str]
    broken: dict[str, str]
    found: Counter[tuple[str, str]]
    lost: Counter[tuple[str, str]]
    examples: dict[tuple[str, str], str]
    log: Path


@attrs.frozen
class FlinkInstallation:
    """The jars of Flink, and the JDK that runs it.

    Attributes:
        release: The release, such as `2.3.0`.
        jars: The class path: the jars of the job first.
        java: The JDK.
    """

    release: str
    jars: tuple[str, ...]
    java: Java

    @classmethod
    def find(cls, place: str = "", job_jars: Iterable[str] = ()) -> FlinkInstallation:
        """Find Flink and a JDK.

        Args:
            place: An installation of Flink, or a folder with its jars; "": FLINK_HOME, else the jars of PyFlink.
            job_jars: Jars or folders with the classes of the job, which serializers may need.

        Raises:
            FlinkNotFound: Something is missing; the message has the places that were searched.
        """
        for jar in job_jars:
            if not Path(jar).exists():
                raise FlinkNotFound(f"there is no {jar}", tried=(), advice="name the jar with the classes of the job")
        tried = []
        for name, folder in _places(place):
            dist = next((jar for jar in sorted(folder.glob("flink-dist-*.jar"))), None) if folder else None
            if folder is None or dist is None or (found := _DIST.fullmatch(dist.name)) is None:
                tried.append(f"{name}: " + (f"no flink-dist-*.jar in {folder}" if folder else "none"))
                continue
            python = sorted((folder.parent / "opt").glob("flink-python-*.jar"))
            jars = (*map(os.path.abspath, job_jars), f"{folder.absolute()}/*", *map(str, python))
            return cls(found[1], jars, _find_jdk())
        raise FlinkNotFound(
            "no Flink was found",
            tried=tried,
            advice=(
                "name an installation of Flink, or a folder with its jars, or set FLINK_HOME;"
                " pip install apache-flink-libraries brings the jars alone"
            ),
        )

    def restore(self, savepoint: str, scratch: Path, backend: str, tell: Callable[[str], None]) -> Answer:
        """Let Flink restore a savepoint, take a canonical one of what it has restored, and look its keys up.

        Args:
            savepoint: The local folder.
            scratch: An empty folder, for that savepoint, for files of Flink's backends, and for its log.
            backend: `hashmap` or `rocksdb`.
            tell: Called with what Flink does, in words.

        Raises:
            FlinkFailed: It ended without an answer.
        """
        for name in ("taken", "tmp"):
            (scratch / name).mkdir()
        log = scratch / "flink.log"
        command = [str(self.java.home / "bin" / "java")]
        command += [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in _OPENED]
        command += ["-XX:+UseSerialGC", "-Dlog4j2.level=INFO", f"-Djava.io.tmpdir={scratch / 'tmp'}"]
        command += ["-cp", os.pathsep.join((str(self._compiled()), *self.jars))]
        command += ["Prove", savepoint, str(scratch / "taken"), backend]
        with (
            log.open("wb") as errors,
            subprocess.Popen(  # noqa: S603 - the user's own Java
                command, stdout=subprocess.PIPE, stderr=errors, text=True, encoding="utf-8", env=_environment()
            ) as run,
        ):
            assert run.stdout is not None  # noqa: S101 - it is a pipe
            try:
                lines = list(_heard(run.stdout, tell))
            finally:
                run.kill()  # threads of RocksDB may keep a Java that has answered from its end
        if lines[-1:] not in _ENDS:
            raise FlinkFailed(
                f"Flink {self.release} ended before it had an answer; this says nothing about the savepoint",
                advice=f"see its log: {kept_log(log)}",
            )
        for _, cause in (line for line in lines if line[0] == "exhausted"):
            raise FlinkFailed(
                f"Flink {self.release} has not enough memory or disk, which says nothing about the savepoint:"
                f" {cause[:200]}",
                advice=f"set JAVA_TOOL_OPTIONS=-Xmx4g for memory, TMPDIR for a larger disk; its log: {kept_log(log)}",
            )
        return _answer(lines, log)

    def _compiled(self) -> Path:
        """Return the folder of the compiled program, which is kept by what went into it."""
        told = b"\0".join([_PROGRAM.read_bytes(), self.release.encode(), str(self.java.version).encode()])
        target = cache_folder() / f"prove-{hashlib.sha256(told).hexdigest()[:16]}"
        if target.is_dir():
            return target
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            fresh = Path(tempfile.mkdtemp(dir=target.parent, prefix=f"{target.name}-"))
        except OSError as error:
            what = f"the program that restores savepoints cannot be compiled to {target}: {error.strerror}"
            raise StorageFailed(what, advice="set STATESHIFT_CACHE to a folder that can be written") from error
        try:
            command = [str(self.java.home / "bin" / "javac"), "-nowarn", "-proc:none", "-Xlint:none", "-d", str(fresh)]
            command += ["-encoding", "UTF-8", "-cp", os.pathsep.join(self.jars), str(_PROGRAM)]
            ran = subprocess.run(  # noqa: S603 - the user's own Java
                command, capture_output=True, text=True, errors="replace", check=False, env=_environment()
            )
            if ran.returncode:
                raise FlinkFailed(
                    f"Flink {self.release} is not one that this release knows: the program that restores savepoints"
                    f" cannot be compiled with its jars: {next(iter(ran.stderr.splitlines()), '')}",
                    advice="use a release of Flink from 1.20 to 2.3",
                )
            try:
                fresh.rename(target)
            except OSError:  # another run was faster
                if not target.is_dir():
                    raise
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
        return target


def _environment() -> dict[str, str]:
    """Return the environment of Java, which takes the names of files for those of the locale."""
    return {**os.environ, "LC_ALL": "C.UTF-8"}


def kept_log(log: Path) -> Path:
    """Copy a log from the scratch folder, which is removed, to where it stays; return the place."""
    handle, name = tempfile.mkstemp(prefix="stateshift-flink-", suffix=".log")
    os.close(handle)
    shutil.copyfile(log, name)
    return Path(name)


def _heard(lines: Iterable[str], tell: Callable[[str], None]) -> Iterator[list[str]]:
    """Yield the fields of lines up to the one that ends the answer; tell the steps."""
    for line in lines:
        fields = line.rstrip("\n").split("\t")
        if fields[0] == "step":
            tell(fields[1])
        yield fields
        if [fields] in _ENDS:
            return


def _answer(lines: Iterable[list[str]], log: Path) -> Answer:
    java, savepoint = "", None
    refused, left_out, broken = list[str](), dict[str, str](), dict[str, str]()
    found, lost, examples = Counter[tuple[str, str]](), Counter[tuple[str, str]](), dict[tuple[str, str], str]()
    for word, *fields in lines:
        if word == "java":
            (java,) = fields
        elif word == "savepoint":
            savepoint = Path(fields[0])
        elif word == "refused":
            refused.append(fields[0])
        elif word == "unproven":
            left_out[fields[0]] = fields[1]
        elif word == "broken":
            broken[fields[0]] = fields[1]
        elif word == "found":
            found[fields[0], unquote_plus(fields[1])] += int(fields[2])
        elif word == "lost":
            place = fields[0], unquote_plus(fields[1])
            lost[place] += int(fields[2])
            examples[place] = fields[3]
    return Answer(java, savepoint, tuple(refused), left_out, broken, found, lost, examples, log)


def _find_jdk() -> Java:
    tried = []
    for place, program in installed():
        java = probe(program) if program is not None else None
        if java is None:
            tried.append(f"{place}: " + (f"{program} does not run" if program else "none"))
        elif java.version < OLDEST_JAVA:
            tried.append(f"{place}: {program} is Java {java.version}")
        elif not any((java.home / "bin" / name).exists() for name in ("javac", "javac.exe")):
            tried.append(f"{place}: {java.home} has no compiler (javac)")
        else:
            return java
    raise FlinkNotFound(
        f"Flink needs a JDK of Java {OLDEST_JAVA} or later, which was not found",
        tried=tried,
        advice="install a JDK, such as OpenJDK 17, and set JAVA_HOME",
    )


def _places(place: str) -> Iterator[tuple[str, Path | None]]:
    """Yield the places where Flink may be, each with the folder of its jars, which may not exist."""
    if place:
        yield "the place that was given", _jars_in(Path(place))
        return
    home = os.environ.get("FLINK_HOME")
    yield "FLINK_HOME", _jars_in(Path(home)) if home else None
    spec = find_spec("pyflink") if "pyflink" not in sys.modules else sys.modules["pyflink"].__spec__
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    yield "the packages of PyFlink", _jars_in(Path(folders[0])) if folders else None


def _jars_in(place: Path) -> Path:
    return place / "lib" if (place / "lib").is_dir() else place
