"""Where revisions of a job come from: files of its history, a git reference, a savepoint, a recorded snapshot."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import click

from ..serializers.errors import CorruptFile, DeclarationError, located
from ..serializers.escaping import shell_word
from .sides import describe_side, is_there

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..compat.description import JobDescription
    from ..compat.gate.history import History
    from ..compat.gate.levels import Revision
    from ..compat.gate.stamps import Stamps
    from .project import Project

_GIT_TIMEOUT_S = 60


def read_history(folder: Path) -> History:
    """Read the history in a folder; one that is not there is empty.

    Raises:
        CorruptFile: A file in it is no revision.
    """
    from ..compat.gate.history import SUFFIX, History
    from ..compat.gate.stamps import FILE

    names = sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []
    with located(history=str(folder)):
        return History.of(_Files({file.name: partial(_content, file) for file in names if file.name != FILE}))


class _Files(Mapping[str, "str | bytes"]):
    """Files by their names, each read when it is asked for: a long history is not held in memory."""

    def __init__(self, readers: Mapping[str, Callable[[], str | bytes]]) -> None:
        """Take what reads each."""
        self._readers = readers

    def __getitem__(self, name: str) -> str | bytes:
        return self._readers[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)


def read_stamps(folder: Path) -> Stamps:
    """Read which revision runs where; nothing where nobody has said it.

    Raises:
        CorruptFile: The file is damaged.
    """
    from ..compat.gate.stamps import FILE, Stamps

    file = folder / FILE
    with located(history=str(folder)):
        return Stamps.from_json(_content(file)) if file.exists() else Stamps()


def _content(file: Path) -> bytes:
    """Read a regular file of a history; any other is refused."""
    from ..compat.json_files import MOST_BYTES
    from ..state.storage.files import read_file

    return read_file(str(file), most_bytes=MOST_BYTES)


def history_at(reference: str, project: Project) -> History | None:
    """Read the history as it was at a git reference, in the folder that the project named then.

    Returns:
        None where git knows no reference of that name; an empty history where there was none.

    Raises:
        CorruptFile: A file in it is no revision.
    """
    from .project import FILE, Project

    here = project.folder.resolve()
    commit = _git(here, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{reference}^{{commit}}")
    if commit is None:
        return None
    commit, top = commit.strip(), Path((_git(here, "rev-parse", "--show-toplevel") or "").strip()).resolve()
    said = _git(top, "show", f"{commit}:{(here / FILE).relative_to(top).as_posix()}") or ""
    folders = [Project.said_by(said, here).history, project.history]
    found = [_history_in(top, commit, folder) for folder in dict.fromkeys(folder.absolute() for folder in folders)]
    return next((history for history in found if history.revisions), found[0])


def _history_in(top: Path, commit: str, folder: Path) -> History:
    """Read the history that a folder has at a commit of the repository at `top`."""
    from ..compat.gate.history import SUFFIX, History
    from ..compat.gate.stamps import FILE

    if not folder.resolve().is_relative_to(top):
        return History()
    path = folder.resolve().relative_to(top).as_posix()
    listed = _git(top, "ls-tree", "-z", "--name-only", commit, f"{path}/") or ""
    files = {
        Path(name).name: partial(_shown, top, f"{commit}:{name}")
        for name in listed.split("\0")
        if name.endswith(SUFFIX) and Path(name).name != FILE
    }
    with located(history=f"{path} at {commit[:12]}"):
        return History.of(_Files(files))


def _shown(top: Path, name: str) -> str:
    return _git(top, "show", name) or ""


def require_kept(earlier: History, kept: History, reference: str, folder: Path) -> None:
    """Refuse a change that takes the ground away on which it is judged: revisions are added, and never removed.

    Raises:
        DeclarationError: A revision that the reference has is gone, or was edited; or there is none on either side.
    """
    known = {revision.id for revision in kept.revisions}
    gone = [revision.name for revision in earlier.revisions if revision.id not in known]
    if gone:
        raise DeclarationError(
            f"the history at {reference} has {', '.join(gone)}, and {folder} has not: revisions are added, and never"
            " removed or edited",
            advice=f"merge {reference}, if they are newer than this branch; else bring the files back: git checkout"
            f" {shell_word(reference)} -- FOLDER",
        )
    if not kept.revisions:
        raise _nothing_recorded(f"neither {reference} nor {folder} has a revision")


def require_revisions(kept: History, folder: Path, *, named_by: str) -> None:
    """Refuse an empty history where one is named: a folder that is mistyped would accept everything.

    Raises:
        DeclarationError: It has no revision.
    """
    if not kept.revisions:
        what = "has no revision" if folder.is_dir() else "is not there"
        raise _nothing_recorded(f"{named_by} names the history {folder}, which {what}")


def _nothing_recorded(what: str) -> DeclarationError:
    return DeclarationError(
        f"{what}, so that there is nothing to hold the job against",
        advice="correct the name of the folder; or, if there never was a revision, record the first: stateshift"
        " snapshot --job MODULE:ATTRIBUTE -m MESSAGE",
    )


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


def code_of(stored: JobDescription) -> JobDescription | None:
    """Return the newest recorded revision of the project that declares just the types that are stored, if there is one.

    Raises:
        CorruptFile: A file of the history is no revision.
    """
    from ..compat.gate.history import SUFFIX, RecordedRevision
    from ..compat.gate.stamps import FILE
    from ..compat.way_back import declares
    from .project import Project

    folder = Project.find(Path.cwd()).history
    for file in sorted(folder.glob(f"*{SUFFIX}"), reverse=True) if folder.is_dir() else []:
        if file.name != FILE:
            with located(history=str(folder)):
                found = RecordedRevision.from_json(file.name.removesuffix(SUFFIX), _content(file)).description
            if declares(found, stored):
                return attrs.evolve(found, origin=f"revision {file.name.removesuffix(SUFFIX)}")
    return None


def is_history(place: Path, folder: Path) -> bool:
    """Whether `--against` names a folder of recorded revisions: one that is no savepoint, or the project's `folder`.

    That one is empty before a first revision is recorded in it.
    """
    if place.absolute() == folder.absolute():
        return True
    return is_there(place) and place.is_dir() and not (place / "_metadata").exists()


def revisions_against(text: str, kept: History, project: Project) -> list[Revision]:
    """Give the revisions that `--against` names, the oldest first.

    Args:
        text: A folder of recorded revisions; a revision in the project's history, or a stamp on one, which stands for
            all that it follows; a savepoint; a file of `stateshift snapshot`, or of a revision; a job; or a git
            reference, at which the history is read.
        kept: The history in that folder, else the project's.
        project: Whose history it is.

    Raises:
        UsageError: It is none of these.
        DeclarationError: There is no history where there should be one.
    """
    from ..compat.gate.history import judged
    from ..compat.gate.levels import Revision

    place, folder = Path(text), project.history
    if is_history(place, folder):
        require_revisions(kept, place, named_by="--against")
        kept.require_one_head()
        return judged(kept.revisions)
    if project.names_history:
        require_revisions(kept, folder, named_by="pyproject.toml")
    if is_there(place) or ":" in text:
        return [Revision(text, describe_side(text))]
    stamp = read_stamps(folder).find(text)
    try:
        return judged(kept.up_to(kept.find(stamp.revision if stamp else text)))
    except DeclarationError as error:
        at_reference = history_at(text, project)
        if at_reference is None:
            names = ", ".join(one.name for one in kept.revisions) or "none"
            raise click.UsageError(
                f"--against {text!r} is no folder, savepoint, file, job or git reference, and no revision or stamp: "
                f"revisions in {folder} are {names}"
            ) from error
    require_kept(at_reference, kept, text, folder)
    at_reference.require_one_head()
    known = {revision.id for revision in at_reference.revisions}
    return judged(revision for revision in kept.revisions if revision.id in known)
