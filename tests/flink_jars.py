"""Where real Flink comes from: a JDK, and the jars of the PyPI package apache-flink-libraries, kept in a cache.

Imported by the tests of tests/interop and by the benchmarks.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from contextlib import contextmanager
from pathlib import Path

from stateshift.spark.java import cache_folder

RELEASES = {"2.3": "2.3.0", "1.20": "1.20.5"}


class Unavailable(Exception):
    """Something that real Flink needs is not here; the message says what, and why."""


def find_jdk():
    """Give the folder of a `javac` of Java 17 or later."""
    home = os.environ.get("JAVA_HOME")
    places = [Path(home) / "bin" / "javac"] if home else []
    on_path = shutil.which("javac")
    places += [Path(on_path).resolve()] if on_path else []
    for javac in places:
        version = javac_version(javac)
        if version and int(version.partition(".")[0]) >= 17:
            return javac.parent
    raise Unavailable("no JDK 17 or later (javac) under JAVA_HOME or on the path")


def javac_version(javac):
    try:
        answer = subprocess.run([javac, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return None
    found = re.search(r"^javac (\d+[\d.]*)", answer.stdout + answer.stderr, re.MULTILINE)
    return found[1] if answer.returncode == 0 and found else None


def find_jars(release):
    """Give the folder of Flink's jars, downloaded once."""
    target = cache_folder() / f"flink-{RELEASES[release]}"
    with made_once(target) as fresh:
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


@contextmanager
def made_once(target):
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
