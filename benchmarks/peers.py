"""The peers in Java: compiled once, and found where the tests of tests/interop find Flink."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import attrs

from stateshift.spark.java import cache_folder

HERE = Path(__file__).parent
ROOT = HERE.parent
SOURCES = HERE / "jvm"
RELEASE = "2.3"

sys.path.append(str(ROOT / "tests"))

from flink_jars import Unavailable, find_jars, find_jdk, javac_version, made_once  # noqa: E402 - needs the line above

from . import states_after, states_before  # noqa: E402 - as above

__all__ = ["Peers", "Unavailable", "find_peers"]

_OPENED = ("lang", "util", "time", "math", "lang.invoke", "util.concurrent", "text", "net", "io", "nio")


@attrs.frozen
class Peers:
    """What a peer needs.

    Attributes:
        java: The program.
        version: Of Java.
        flink: Of Flink.
        classes: Folder with `main`, `before` and `after`, and Avro's schemas.
        libraries: Jars of Flink and Avro.
    """

    java: Path
    version: str
    flink: str
    classes: Path
    libraries: tuple[Path, ...]

    def command(self, program: str, *arguments: object, records: str = "", options: tuple[str, ...] = ()) -> list[str]:
        """Give the command line of a peer.

        Args:
            program: Its class.
            arguments: Its own.
            records: Which version of `bench.Rec` it sees: before, after, or none.
            options: Of Java.
        """
        folders = [self.classes / "main", *([self.classes / records] if records else [])]
        path = ":".join(map(str, (*folders, *self.libraries)))
        opened = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in _OPENED]
        logging = f"-Dlog4j.configurationFile={SOURCES / 'log4j2.properties'}"
        return [str(self.java), *opened, logging, *options, "-cp", path, program, *map(str, arguments)]


def find_peers() -> Peers:
    """Find Java and the jars, and compile the peers where that was not done yet.

    Raises:
        Unavailable: Something is not here; with what, and why.
    """
    jdk = find_jdk()
    jars = find_jars(RELEASE)
    flink = next(jars.glob("flink-dist-*.jar"))
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise Unavailable("Avro Java is taken from pyspark, which is not installed")
    spark = Path(spec.origin).parent / "jars"
    avro = [*spark.glob("avro-1*.jar"), *spark.glob("jackson-*.jar")]
    logging = sorted(jars.glob("log4j-*.jar"))
    version = str(javac_version(jdk / "javac"))
    tables = sorted(jars.glob("flink-table-api-java-uber-*.jar")) + sorted(jars.glob("flink-table-runtime-*.jar"))
    libraries = (flink, *tables, *avro, *logging)
    files = sorted(SOURCES.rglob("*.java"))
    told = b"\0".join([flink.name.encode(), version.encode(), *(file.read_bytes() for file in files)])
    classes = cache_folder() / f"benchmarks-{hashlib.sha256(told).hexdigest()[:16]}"
    with made_once(classes) as fresh:
        if fresh:
            for part in ("before", "after", "main"):
                _compile(jdk, SOURCES / part, fresh / part, libraries)
            for name, states in (("before", states_before), ("after", states_after)):
                (fresh / f"{name}.avsc").write_text(json.dumps(states.AVRO), encoding="utf-8")
    release = flink.stem.removeprefix("flink-dist-")
    return Peers(jdk / "java", version, release, classes, libraries)


def _compile(jdk: Path, source: Path, target: Path, libraries: tuple[Path, ...]) -> None:
    files = sorted(map(str, source.glob("*.java")))
    command = [str(jdk / "javac"), "-nowarn", "-Xlint:none", "-proc:none", "-d", str(target)]
    command += ["-cp", ":".join(map(str, (target.parent / "before", *libraries))), *files]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise SystemExit(ran.stdout + ran.stderr)
