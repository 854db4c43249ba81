"""Write CHANGELOG.md from the fragments beside this file: `make changelog`; at a release with VERSION=0.2.0.

    # Changelog                   and what it is
    ## Unreleased                 made of the fragments, each time
    ## 0.1.0 (2026-11-25)         of a release: kept as it stands

towncrier would sort fragments by the words in their names, and by whether they begin with a list.
"""  # noqa: INP001 - a script, not a package

from __future__ import annotations

import datetime as dt
import re
import sys
from pathlib import Path

KINDS = {"breaking": "Breaking", "deprecation": "Deprecated", "change": "Changed"}
HEAD = """# Changelog

What users see of each release; [what is public, and what may change](docs/reference/stability.md) says what to expect.
"""
_NAME = re.compile(r"(?P<issue>\d+)(?:-(?P<what>[a-z0-9-]+))?\.(?P<kind>[a-z]+)\.md")
_RELEASED = re.compile(r"^## (?!Unreleased$).*\Z", re.MULTILINE | re.DOTALL)


def fragments(folder: Path) -> dict[str, list[Path]]:
    """Return the files of each kind, by issue and name.

    Raises:
        ValueError: A file is named otherwise, or says nothing.
    """
    found: dict[str, list[Path]] = {kind: [] for kind in KINDS}
    named = {file: _NAME.fullmatch(file.name) for file in folder.glob("*.md") if file.name != "README.md"}
    for file, name in named.items():
        if name is None or name["kind"] not in KINDS:
            kinds = ", ".join(KINDS)
            raise ValueError(f"{file.name} is not called <issue>.<kind>.md or <issue>-<what>.<kind>.md, with {kinds}")
        if not file.read_text(encoding="utf-8").strip():
            raise ValueError(f"{file.name} is empty")
        found[name["kind"]].append(file)
    for files in found.values():
        files.sort(key=lambda file: (int(re.split(r"\D", file.name)[0]), file.name))
    return found


def changelog(root: Path, title: str = "Unreleased") -> str:
    """Return the text of CHANGELOG.md: a section of all fragments under `title`, before those of releases."""
    parts = []
    for kind, files in fragments(root / "changelog.d").items():
        parts += [f"### {KINDS[kind]}"] * bool(files)
        parts += [file.read_text(encoding="utf-8").strip() for file in files]
    before = root / "CHANGELOG.md"
    released = _RELEASED.search(before.read_text(encoding="utf-8")) if before.exists() else None
    section = [f"## {title}", *parts] if parts else []
    return "\n\n".join([HEAD.strip(), *section, *([released[0].strip()] if released else [])]) + "\n"


def main(root: Path, version: str = "") -> None:
    """Write CHANGELOG.md; at a release the fragments have become its section, and go."""
    title = f"{version} ({dt.datetime.now(dt.UTC).date()})" if version else "Unreleased"
    text = changelog(root, title)
    (root / "CHANGELOG.md").write_text(text, encoding="utf-8")
    if version:
        for files in fragments(root / "changelog.d").values():
            for file in files:
                file.unlink()


if __name__ == "__main__":
    main(Path(__file__).parents[1], *sys.argv[1:2])
