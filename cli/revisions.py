"""Sources of a job's revisions: files of its history, a git reference, a savepoint, a recorded snapshot."""

from __future__ import annotations

import os
import subprocess
from collections import UserDict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click

from ..serializers.errors import CorruptFile, DeclarationError, located
from ..serializers.wording import shell_word
from .sides import describe_side, is_there

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..compat.description import JobDescription
    from ..compat.gate.history import History, RecordedRevision
    from ..compat.gate.levels import Revision
    from ..compat.gate.stamps import Stamps
    from ..state.project import Project

_GIT_TIMEOUT_S = 60


def read_history(folder: Path) -> History:
    """Read the history in a folder; a folder that does not exist is an empty history.

    Raises:
        CorruptFile: A file in it is not a revision.
    """
    from ..compat.gate.history import SUFFIX, History
    from ..compat.gate.recorded_queries import FOLDER
    from ..compat.gate.stamps import FILE

    files = {file.name: partial(_content, file) for file in folder.glob(f"*{SUFFIX}") if file.name != FILE}
    queries = {FOLDER + file.name: partial(_content, file) for file in (folder / FOLDER).glob(f"*{SUFFIX}")}
    with located(history=str(folder)):
        return History.of(_Files(files | queries))


class _Files(UserDict[str, Any]):
    """Files by name, each read on access by its function, so that a long history is not held in memory."""

    def __getitem__(self, name: str) -> str | bytes:
        return self.data[name]()  # type: ignore[no-any-return]


def read_stamps(folder: Path) -> Stamps:
    """Read the stamps in a folder; without a file of stamps, there are none.

    Raises:
        CorruptFile: The file is damaged.
    """
    from ..compat.gate.stamps import FILE, Stamps

    file = folder / FILE
    with located(history=str(folder)):
        return Stamps.from_json(_content(file)) if file.exists() else Stamps()


def _content(file: Path) -> bytes:
    """Return the content of a regular file of a history; any other kind of file is refused."""
    from ..compat.json_files import MOST_BYTES
    from ..state.storage.files import read_file

    return read_file(str(file), most_bytes=MOST_BYTES)


def history_at(reference: str, project: Project) -> History | None:
    """Read the history at a git reference, in the folder that the project named then.

    Returns:
        None if git does not know the reference; an empty history if there was none.

    Raises:
        CorruptFile: A file in it is not a revision.
    """
    found = _at(reference, project)
    if found is None:
        return None
    histories = [_history_in(*found[:2], folder) for folder in found[2]]
    return next((history for history in histories if history.revisions or history.queries), histories[0])


def _at(reference: str, project: Project) -> tuple[Path, str, list[Path]] | None:
    """Return the repository, the commit, and the folders of a history that the project named then, and names now.

    Returns:
        None if git does not know the reference.
    """
    from ..state.project import Project
    from ..state.project_settings import FILE

    here = project.folder.resolve()
    commit = _git(here, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{reference}^{{commit}}")
    if commit is None:
        return None
    commit, top = commit.strip(), Path((_git(here, "rev-parse", "--show-toplevel") or "").strip()).resolve()
    said = _git(top, "show", f"{commit}:{(here / FILE).relative_to(top).as_posix()}") or ""
    folders = [Project.said_by(said, here).history, project.history]
    return top, commit, list(dict.fromkeys(folder.absolute() for folder in folders))


def _history_in(top: Path, commit: str, folder: Path) -> History:
    """Read the history in a folder at a commit of the repository at `top`."""
    from ..compat.gate.history import SUFFIX, History
    from ..compat.gate.recorded_queries import FOLDER
    from ..compat.gate.stamps import FILE

    found = _files_in(top, commit, folder)
    files = {name: read for name, read in found.items() if name.endswith(SUFFIX) and name != FILE}
    files |= {FOLDER + name: read for name, read in _files_in(top, commit, folder / FOLDER).items()}
    path = Path(os.path.relpath(folder.resolve(), top)).as_posix()
    with located(history=f"{path} at {commit[:12]}"):
        return History.of(_Files(files))


def _files_in(top: Path, commit: str, folder: Path) -> dict[str, Callable[[], str]]:
    """Return the functions that read what is in a folder at a commit, by name."""
    if not folder.resolve().is_relative_to(top):
        return {}
    path = folder.resolve().relative_to(top).as_posix()
    listed = _git(top, "ls-tree", "-z", "--name-only", commit, f"{path}/") or ""
    return {Path(name).name: partial(_shown, top, f"{commit}:{name}") for name in listed.split("\0") if name}


def _shown(top: Path, name: str) -> str:
    return _git(top, "show", name) or ""


def require_kept(earlier: History, kept: History, reference: str, folder: Path) -> None:
    """Refuse a history from which revisions were removed: it is what the change is checked against.

    Raises:
        DeclarationError: A revision of the reference is missing or was edited; or neither side has a revision.
    """
    known = {revision.id for revision in kept.revisions}
    gone = [revision.name for revision in earlier.revisions if revision.id not in known]
    if gone:
        raise DeclarationError(
            f"the history at {reference} has {', '.join(gone)}, but {folder} does not: revisions are added, never "
            "removed"
            " or edited",
            advice=f"merge {reference}, if they are newer than this branch; else bring the files back: git checkout"
            f" {shell_word(reference)} -- FOLDER",
        )
    if not kept.revisions:
        raise _nothing_recorded(f"neither {reference} nor {folder} has a revision")


def require_revisions(kept: History, folder: Path, *, named_by: str) -> None:
    """Refuse an empty history if it was named: a misspelt folder would accept everything.

    Raises:
        DeclarationError: The history has no revision.
    """
    if not kept.revisions:
        what = "has no revision" if folder.is_dir() else "does not exist"
        raise _nothing_recorded(f"{named_by} names the history {folder}, which {what}")


def _nothing_recorded(what: str) -> DeclarationError:
    return DeclarationError(
        f"{what}, so there is nothing to check the job against",
        advice="correct the name of the folder; or, if there are no revisions yet, record the first: stateshift"
        " snapshot --job MODULE:ATTRIBUTE -m MESSAGE",
    )


def _git(folder: Path, *arguments: str) -> str | None:
    """Return the output of git; None if it fails or is not installed."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_GIT_TIMEOUT_S, check=False)  # noqa: S603 - no shell
        return done.stdout.decode("utf-8") if done.returncode == 0 else None
    except (OSError, subprocess.TimeoutExpired):
        return None
    except UnicodeDecodeError as error:
        raise CorruptFile("git returned a file that is not text") from error


def recorded_job(name: str, stored: JobDescription) -> JobDescription:
    """Return the declared types of a revision in the project's history, to go back to.

    Fields that later revisions have renamed are found under their later names, up to the revision that has written the
    state, if that is known.

    Args:
        name: The name of the revision, or of a stamp on it.
        stored: The state that is to go back.

    Raises:
        DeclarationError: No revision has the name, or several have it.
    """
    from ..compat.former_names import knowing_later_names
    from ..state.project import Project

    folder = Project.find(Path.cwd()).history
    stamp = read_stamps(folder).find(name)
    history = read_history(folder)
    found = history.find(stamp.revision if stamp else name)
    later = [revision.description for revision in _way_from(found, history, stored)]
    return attrs.evolve(knowing_later_names(found.description, later), origin=f"revision {found.name}")


def _way_from(found: RecordedRevision, history: History, stored: JobDescription) -> list[RecordedRevision]:
    """Return the revisions from one, without it, to the newest that declares the stored types; none if none does."""
    from ..compat.way_back import declares

    ways: dict[str, list[RecordedRevision]] = {found.id: []}
    last: list[RecordedRevision] = []
    for revision in history.revisions:  # each comes after its parents
        parent = next((parent for parent in revision.parents if parent in ways), None)
        if parent is not None:
            ways[revision.id] = [*ways[parent], revision]
            if declares(revision.description, stored):
                last = ways[revision.id]
    return last


def code_of(stored: JobDescription) -> JobDescription | None:
    """Return the newest recorded revision of the project that declares exactly the stored types, or None.

    Raises:
        CorruptFile: A file of the history is not a revision.
    """
    from ..state.project import Project

    folder = Project.find(Path.cwd()).history
    if not folder.is_dir():
        return None
    from ..compat.gate.history import SUFFIX, RecordedRevision
    from ..compat.gate.stamps import FILE
    from ..compat.way_back import declares

    for file in sorted(folder.glob(f"*{SUFFIX}"), reverse=True):
        if file.name != FILE:
            with located(history=str(folder)):
                found = RecordedRevision.from_json(file.name.removesuffix(SUFFIX), _content(file)).description
            if declares(found, stored):
                return attrs.evolve(found, origin=f"revision {file.name.removesuffix(SUFFIX)}")
    return None


def is_recorded(job: JobDescription) -> bool:
    """Whether a revision of the project's history declares exactly what a job declares.

    Raises:
        CorruptFile: A file of the history is not a revision.
    """
    from ..compat.gate.recording import digest
    from ..state.project import Project

    revisions = read_history(Project.find(Path.cwd()).history).revisions
    return bool(revisions) and digest(job) in {revision.sha256 for revision in revisions}


def is_history(place: Path, folder: Path) -> bool:
    """Whether `--against` names a folder of recorded revisions: the project's `folder`, or one that is not a savepoint.

    The project's folder is empty until the first revision is recorded in it.
    """
    if place.absolute() == folder.absolute():
        return True
    return is_there(place) and place.is_dir() and not (place / "_metadata").exists()


def revisions_against(text: str, kept: History, project: Project) -> list[Revision]:
    """Return the revisions that `--against` names, the oldest first.

    Args:
        text: A folder of recorded revisions; a revision in the project's history, or a stamp on one, which stands for
            it and all its ancestors; a savepoint; a file of `stateshift snapshot`, or of a revision; a job; or a git
            reference at which the history is read.
        kept: The history in that folder, or else the project's.
        project: The project of the history.

    Raises:
        UsageError: The text names none of these.
        DeclarationError: A history is missing.
    """
    from ..compat.gate.history import judged
    from ..compat.gate.levels import Revision

    place, folder = Path(text), project.history
    if is_history(place, folder):
        require_revisions(kept, place, named_by="--against")
        kept.require_one_head()
        return judged(kept.revisions, through_merge=True)
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
                f"--against {text!r} is not a folder, savepoint, file, job or git reference, nor a revision or stamp; "
                f"revisions in {folder}: {names}"
            ) from error
    require_kept(at_reference, kept, text, folder)
    known = {revision.id for revision in at_reference.revisions}
    return judged(revision for revision in kept.revisions if revision.id in known)
