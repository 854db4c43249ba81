"""Where revisions of a job come from: files of its history, a git reference, a savepoint, a recorded snapshot."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import click

from ..serializers.errors import CorruptFile, located
from .sides import describe_side, is_there

if TYPE_CHECKING:
    from ..compat.description import JobDescription
    from ..compat.history import History
    from ..compat.levels import Revision
    from ..compat.stamps import Stamps

_GIT_TIMEOUT_S = 60


def read_history(folder: Path) -> History:
    """Read the history in a folder; one that is not there is empty.

    Raises:
        CorruptFile: A file in it is no revision.
    """
    from ..compat.history import SUFFIX, History
    from ..compat.stamps import FILE

    names = sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []
    with located(history=str(folder)):
        return History.of({file.name: _content(file) for file in names if file.name != FILE})


def read_stamps(folder: Path) -> Stamps:
    """Read which revision runs where; nothing where nobody has said it.

    Raises:
        CorruptFile: The file is damaged.
    """
    from ..compat.stamps import FILE, Stamps

    file = folder / FILE
    with located(history=str(folder)):
        return Stamps.from_json(_content(file)) if file.exists() else Stamps()


def _content(file: Path) -> bytes:
    """Read a regular file of a history; any other is refused."""
    from ..compat.json_files import MOST_BYTES
    from ..state.savepoint.files import read_file

    return read_file(str(file), most_bytes=MOST_BYTES)


def history_at(reference: str, folder: Path) -> History | None:
    """Read the history as it was at a git reference; None where git knows none of that name.

    Raises:
        CorruptFile: A file in it is no revision.
    """
    from ..compat.history import SUFFIX, History
    from ..compat.stamps import FILE

    where = folder if folder.is_dir() else folder.parent
    commit = _git(where, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{reference}^{{commit}}")
    if commit is None:
        return None
    top = _git(where, "rev-parse", "--show-toplevel") or ""
    path = folder.resolve().relative_to(Path(top.strip()).resolve()).as_posix()
    listed = _git(Path(top.strip()), "ls-tree", "-z", "--name-only", commit.strip(), f"{path}/") or ""
    files = {
        Path(name).name: _git(Path(top.strip()), "show", f"{commit.strip()}:{name}") or ""
        for name in listed.split("\0")
        if name.endswith(SUFFIX) and Path(name).name != FILE
    }
    with located(history=f"{path} at {reference}"):
        return History.of(files)


def _git(folder: Path, *arguments: str) -> str | None:
    """Give what git prints; None where it fails or is not there."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_GIT_TIMEOUT_S, check=False)  # noqa: S603 - no shell
        return done.stdout.decode("utf-8") if done.returncode == 0 else None
    except (OSError, subprocess.TimeoutExpired):
        return None
    except UnicodeDecodeError as error:
        raise CorruptFile("git gave a file that is no text") from error


def recorded_job(name: str) -> JobDescription:
    """Give what a revision of the project's history declared, as the types to go back to.

    Args:
        name: Of the revision, or of a stamp on one.

    Raises:
        DeclarationError: There is none of that name, or there are several.
    """
    from .project import Project

    folder = Project.find(Path.cwd()).history
    stamp = read_stamps(folder).find(name)
    found = read_history(folder).find(stamp.revision if stamp else name)
    return attrs.evolve(found.description, origin=f"revision {found.name}")


def is_history(place: Path, folder: Path) -> bool:
    """Whether `--against` names a folder of recorded revisions: one that is no savepoint, or the project's `folder`.

    That one is empty before a first revision is recorded in it.
    """
    if place.absolute() == folder.absolute():
        return True
    return is_there(place) and place.is_dir() and not (place / "_metadata").exists()


def revisions_against(text: str, history: History, folder: Path) -> list[Revision]:
    """Give the revisions that `--against` names, the oldest first.

    Args:
        text: A folder of recorded revisions; a revision in the project's history, or a stamp on one, which stands for
            all that it follows; a savepoint; a file of `stateshift snapshot`; a job; or a git reference, at which the
            history is read.
        history: The one in that folder, else the project's.
        folder: The project's history.

    Raises:
        UsageError: It is none of these.
    """
    from ..compat.history import judged
    from ..compat.levels import Revision
    from ..serializers.errors import DeclarationError

    place = Path(text)
    if is_history(place, folder):
        history.require_one_head()
        return judged(history.revisions)
    if is_there(place) or ":" in text:
        return [Revision(text, describe_side(text))]
    stamp = read_stamps(folder).find(text)
    try:
        return judged(history.up_to(history.find(stamp.revision if stamp else text)))
    except DeclarationError as error:
        at_reference = history_at(text, folder)
        if at_reference is None:
            names = ", ".join(one.name for one in history.revisions) or "none"
            raise click.UsageError(
                f"--against {text!r} is no folder, savepoint, file, job or git reference, and no revision or stamp: "
                f"revisions in {folder} are {names}"
            ) from error
        at_reference.require_one_head()
        return judged(at_reference.revisions)
