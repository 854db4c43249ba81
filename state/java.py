"""Java on this machine, and the folder for files that can be created again."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import attrs


@attrs.frozen
class Java:
    """A working Java installation.

    Attributes:
        home: The root folder; the program is `home/bin/java`.
        version: The major version.
    """

    home: Path
    version: int


def installed() -> list[tuple[str, Path | None]]:
    """Return the places where Java may be installed, each with its `java` program, which may not exist."""
    home = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    return [
        ("JAVA_HOME", Path(home) / "bin" / "java" if home else None),
        ("java on the path", Path(on_path) if on_path else None),
    ]


def probe(program: Path) -> Java | None:
    """Return the installation of a `java` program; None if it does not run.

    It is read from the properties that the program prints, and not from the text of its version, which differs by
    vendor. They also include the real home behind a link or a version manager's wrapper.
    """
    command = [str(program), "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60, check=False)  # noqa: S603 - the user's own Java
    except (OSError, subprocess.SubprocessError):
        return None
    home = re.search(r"^\s*java\.home = (.+?)\s*$", answer.stderr, re.MULTILINE)
    version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", answer.stderr, re.MULTILINE)
    if answer.returncode != 0 or home is None or version is None:
        return None
    return Java(Path(home[1]), int(version[1]))


def cache_folder() -> Path:
    """Return the folder for files that can be created again: STATESHIFT_CACHE, else the user's cache."""
    named = os.environ.get("STATESHIFT_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stateshift"
