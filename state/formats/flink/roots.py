"""Allowed roots of the files that `_metadata` names by an absolute URI.

    the folder of `_metadata`           a self-contained savepoint
    ../shared and ../taskowned          beside a checkpoint's `chk-n`: files that checkpoints of a job share
    ../../JOB/shared, and the like      folders of other jobs beside it, which a claimed or rescaled checkpoint names
    roots that the caller allows        `--allow-root`, `allow_roots=`
    roots that the caller maps          `--checkpoint-root OLD=NEW`: what is named in OLD lies in NEW

A checkpoint that was moved or downloaded names files where they were. They are looked for by Flink's layout beside the
checkpoint: JOB/chk-N, JOB/shared, JOB/taskowned.

A savepoint is untrusted input: a URI in it may name any file that the user may read, and any host to which a signed
request would be sent. So a URI is only used as a path below one of these roots; the connection options of the store
come from the root. Links are resolved before a path is checked. Source: format notes 3.3.
"""

from __future__ import annotations

import os
import re
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import quote, unquote, urlsplit

import attrs

from ....serializers.errors import CorruptSavepoint, FilesElsewhere, SavepointNotFound, UntrustedPlace
from ....serializers.ways_out import Option, Told, WayOut
from ....serializers.wording import many
from ...storage.files import Folder, Root
from ...storage.identity import Identity
from ...storage.stores import bare, is_uri, parted, store_of
from .handles import AbsoluteFileHandle, RelativeFileHandle, SegmentHandle

if TYPE_CHECKING:
    from collections.abc import Iterable
    from urllib.parse import SplitResult

    from .handles import StreamHandle
    from .metadata import SavepointMetadata

AllowedRoot: TypeAlias = "str | os.PathLike[str] | tuple[str | os.PathLike[str], str | os.PathLike[str]]"
"""A folder that may contain files of a savepoint; or (old, new): what it names in `old` lies in `new`."""

_CHECKPOINT = re.compile(r"chk-\d+")
_OF_JOB = re.compile(r"(?P<folder>.*/(?P<job>[0-9a-f]{32})/(?P<kind>shared|taskowned|chk-\d+))(?P<below>(?:/[^/]+)*)")
_BESIDE_CHECKPOINT = ("shared", "taskowned")
_WITH_CONTAINER = {"abfs", "abfss"}  # container@account: the part before the @ is not a user
_WITH_BUCKETS = {"s3", "gs"}
_DO_NOT_TRUST = "do not trust this savepoint: Flink writes plain URIs"
_MOST_ROOTS = 20
"""If a message would list more roots, as with entropy in paths, it has one common root for each store instead."""
_MOST_LOOKED_FOR = 20
_NOTHING: Final = "Nothing else was read, and nothing was written."


def folder_at(place: str | os.PathLike[str], allow_roots: Iterable[AllowedRoot] = ()) -> Folder:
    """Return the folder at a place that was typed, with the roots that the caller allows."""
    return attrs.evolve(Folder.at(place), roots=tuple(map(_root_of, allow_roots)))


def _root_of(root: AllowedRoot) -> Root:
    if not isinstance(root, tuple):
        return Folder.at(root).place
    old, new = root
    return (Folder.at(old).place if is_uri(os.fspath(old)) else os.path.abspath(old), Folder.at(new).place)  # noqa: PTH100 - links are not resolved: the old place may be of another machine


def stored_file(uri: str, folder: Folder) -> tuple[Folder, str]:
    """Return the folder and the name by which to open a file that a savepoint names by a URI.

    Args:
        uri: The URI in `_metadata`.
        folder: The folder of the `_metadata`, with the roots that the caller allows.

    Raises:
        UntrustedPlace: The file is outside the roots, or the URI has its own options or credentials.
        CorruptSavepoint: The URI does not name a file.
    """
    parent, name = _split(uri)
    moved = _mapped(parent, folder)
    if moved is not None and not moved.is_local:
        return moved, name
    if moved is not None or not is_uri(parent):
        return local_file(f"{parent if moved is None else moved.place}/{name}", folder)
    place = _reached(parent, folder)
    if place is None:
        raise _refusal([parent], folder)
    return place, name


def stored_place(place: str, *typed: Folder) -> Folder:
    """Return the folder that a stored file names by its place: the only way from stored text to a place.

    Options in the text are dropped, since they may send a signed request to any host. Those of a place that a person
    typed count instead: of an allowed root that contains the folder, else of a typed place in the same store. A local
    folder has no host, and is where the text says.

    Args:
        place: A path or URI from a stored file.
        typed: Folders at places that were typed, with the roots that the caller allows.

    Raises:
        UntrustedPlace: It is in another store than all of them.
        StorageFailed: It cannot be a folder.
    """
    base = Folder.at(parted(place)[0]).place
    for folder in typed:
        if (found := _found(base, folder)) is not None:
            return found
    if not is_uri(base):
        return Folder(base)
    for folder in typed:
        if _server_of(base) == _server_of(folder.place):
            return Folder.at(base + parted(folder.place)[1])
    raise UntrustedPlace(
        f"a stored file names {bare(base)}, which is in another store than {typed[0]}, so it is not contacted",
        roots=(bare(base),),
        advice="if you trust this place, allow it with this option, and with the options of its store, if it needs any",
        written=_NOTHING,
        file=typed[0].place,
    )


def _server_of(place: str) -> tuple[str, str]:
    """Return the kind of a store, and the host that a URI of it names; buckets have none of their own."""
    store = store_of(place)
    host = "" if store in _WITH_BUCKETS else urlsplit(parted(place)[0]).netloc
    return store, host.rpartition("@")[2].lower()


def uri_of(folder: Folder) -> str:
    """Return the URI by which `_metadata` names a folder; without the connection options of a store."""
    return parted(folder.place)[0] if is_uri(folder.place) else f"file:{quote(folder.place)}"


def local_file(path: str, folder: Folder) -> tuple[Folder, str]:
    """Return the real folder and name of a local file of a savepoint, with links resolved.

    Args:
        path: The absolute path.
        folder: The folder of the `_metadata`, with the roots that the caller allows.

    Raises:
        UntrustedPlace: The file is outside the roots.
    """
    parent, _, name = os.path.realpath(path).rpartition("/")
    place = _reached(parent or "/", folder)
    if place is None:
        raise _refusal([parent or "/"], folder)
    return place, name


def require_reachable(metadata: SavepointMetadata, folder: Folder) -> None:
    """Refuse a savepoint with files outside its roots, before any of them is opened.

    Args:
        metadata: The content of `_metadata`.
        folder: The savepoint's folder, with the roots that the caller allows.

    Raises:
        UntrustedPlace: Files are outside the roots; the message has all roots that are needed, and how to allow them.
        FilesElsewhere: They are files of jobs that are not beside the checkpoint.
        SavepointNotFound: A place where files should lie now does not exist.
        CorruptSavepoint: A URI does not name a file.
    """
    streams = list(metadata.streams)
    names = _names(streams)
    remarks = _remarks_on_pairs(names, folder)
    elsewhere = [parent for parent in names if _found(parent, folder) is None]
    linked = [parent for parent in _linked(streams, folder) if _reached(parent, folder) is None]
    if not elsewhere and not linked:
        return
    is_moved = bool(elsewhere) and folder.exists(names[elsewhere[0]][0])
    if not linked and not is_moved and all(map(_OF_JOB.fullmatch, elsewhere)):
        raise _incomplete({parent: names[parent] for parent in elsewhere}, names, folder, remarks)
    raise _refusal([*elsewhere, *linked], folder, is_moved=is_moved, remarks=remarks)


def _remarks_on_pairs(names: dict[str, list[str]], folder: Folder) -> str:
    """Return which places to which files were moved are of no use, for an error; "" if none is.

    Raises:
        SavepointNotFound: A folder where files should lie now does not exist.
        FilesElsewhere: The two folders were exchanged.
    """
    remarks = []
    for old, new in (root for root in folder.roots if not isinstance(root, str)):
        if any(_names_below(old, parent) is not None for parent in names):
            if not Folder(new).exists():
                raise SavepointNotFound(
                    f"the folder {new} does not exist, in which files of {old} are said to lie",
                    advice=WayOut.telling("check the second folder of", Option.CHECKPOINT_ROOT, old, new),
                )
            continue
        remarks.append(f"; it names no file in {old}, for which another folder was given")
        named = [parent for parent in names if _names_below(new, parent) is not None]
        if named and not any(_below(new, _names_below(new, one) or []).exists(names[one][0]) for one in named):
            raise FilesElsewhere(
                f"the pair of folders is the wrong way round: the savepoint names files in {new}, which are not there",
                options=(Told.of(Option.CHECKPOINT_ROOT, new, old),),
                advice="give OLD=NEW: the folder that the savepoint names, and the one where its files are",
                written=_NOTHING,
            )
    return "".join(remarks)


def with_moved(metadata: SavepointMetadata, folder: Folder) -> Folder:
    """Return the folder with further roots: those where files lie after a checkpoint was moved, by Flink's layout.

    Args:
        metadata: The content of `_metadata`.
        folder: The savepoint's folder, with the roots that the caller allows.
    """
    names = _names(list(metadata.streams))
    missing = [parent for parent in names if _found(parent, folder) is None]
    moved = {pair for parent in missing if (pair := _moved_to(parent, names[parent], folder)) is not None}
    return attrs.evolve(folder, roots=(*folder.roots, *sorted(moved))) if moved else folder


def moved_from(metadata: SavepointMetadata, folder: Folder) -> tuple[str, ...]:
    """Return the folders in which `_metadata` names files that lie elsewhere now, sorted."""
    names = _names(list(metadata.streams))
    pairs = [root for root in folder.roots if not isinstance(root, str)]
    found = (next((old for old, _ in pairs if _names_below(old, parent) is not None), "") for parent in names)
    return tuple(sorted({old for old in found if old}))


def holding(parents: Iterable[Folder], folder: Folder) -> frozenset[Folder]:
    """Return the folders that nobody but Flink may write to, because they have files of a savepoint.

    Args:
        parents: The folders that its files are in.
        folder: The folder of its `_metadata`, with the places to which folders were moved.

    Returns:
        These folders, and the folders of jobs that contain them: `shared` and `taskowned`, where they lie now.
    """
    found = set(parents)
    for parent in parents:
        base, options = parted(parent.place)
        if of_job := _OF_JOB.fullmatch(base):
            found.add(Folder(of_job["folder"] + options))
        for old, new in (root for root in folder.roots if not isinstance(root, str)):
            if _OF_JOB.fullmatch(old) and _names_below(new, base) is not None:
                found.add(Folder(new))
    return frozenset(found)


def _names(streams: list[StreamHandle]) -> dict[str, list[str]]:
    """Return the folders that a savepoint names by absolute URIs, each with the names of its files."""
    found: dict[str, list[str]] = {}
    for stream in streams:
        if isinstance(stream, AbsoluteFileHandle | SegmentHandle):
            parent, name = _split(stream.uri)
            found.setdefault(parent, []).append(name)
    return found


def _moved_to(parent: str, names: list[str], folder: Folder) -> tuple[str, str] | None:
    """Return a folder of a job as `_metadata` names it, and the one beside the checkpoint that has its files now.

    Args:
        parent: The folder that `_metadata` names.
        names: The names of files in it; a file may be missing, so several are looked for.
        folder: The folder of the checkpoint.
    """
    found = _OF_JOB.fullmatch(parent)
    base, options = parted(folder.place)
    job, _, checkpoint = base.rpartition("/")
    if found is None or not _CHECKPOINT.fullmatch(checkpoint) or ".." in parent.split("/"):
        return None
    for beside in (f"{job.rpartition('/')[0]}/{found['job']}/{found['kind']}", f"{job}/{found['kind']}"):
        now = Folder(f"{beside}{found['below']}{options}")
        if any(map(now.exists, names[:_MOST_LOOKED_FOR])):
            return found["folder"], beside + options
    return None


def _linked(streams: list[StreamHandle], folder: Folder) -> set[str]:
    """Return the local folders to which files of a savepoint are links."""
    found = set()
    for stream in streams:
        if isinstance(stream, RelativeFileHandle) and folder.is_local:
            path = f"{folder.place}/{stream.path}"
        elif isinstance(stream, AbsoluteFileHandle | SegmentHandle) and store_of(stream.uri) == "file":
            parent, name = _split(stream.uri)
            place = _mapped(parent, folder)
            if place is not None and not place.is_local:
                continue
            path = f"{parent if place is None else place.place}/{name}"
        else:
            continue
        if "\0" not in path and os.path.islink(path):  # noqa: PTH114 - a name that is too long is no link
            found.add(os.path.realpath(path).rpartition("/")[0] or "/")
    return found


def _split(uri: str) -> tuple[str, str]:
    """Split the URI of a file into its folder, as a local path or a normalized URI, and its name.

    Raises:
        UntrustedPlace: The URI has connection options or credentials.
        CorruptSavepoint: The URI is malformed, or does not name a file.
    """
    try:
        parts = urlsplit(uri)
    except ValueError as error:
        raise _no_file(uri) from error
    path = unquote(parts.path)
    if not is_uri(uri) or "\0" in path or path.rpartition("/")[2] in {"", ".", ".."}:
        raise _no_file(uri)
    own = _own_options(parts)
    if own:
        raise UntrustedPlace(
            f"the savepoint names the file {bare(uri)} with {own} of its own",
            advice=f"only the URI of the savepoint or an allowed root may have store options; {_DO_NOT_TRUST}",
            written=_NOTHING,
        )
    above, _, name = path.rpartition("/")
    store = store_of(uri)
    if store == "file":
        return above or "/", name  # `..` is not resolved, because links before it may change its meaning
    names: list[str] = []
    for step in above.split("/"):
        if step == "..":
            names = names[:-1]
        elif step not in {"", "."}:
            names.append(quote(step))
    return "/".join([f"{store}://{parts.netloc}", *names]), name


def _no_file(uri: str) -> CorruptSavepoint:
    return CorruptSavepoint(f"{bare(uri)!r} is not the URI of a file", advice=_DO_NOT_TRUST)


def _own_options(parts: SplitResult) -> str:
    """Return the kind of the parts of a URI beside its path, in words; "" where it has none."""
    user, at, _ = parts.netloc.rpartition("@")
    if at and (parts.scheme.lower() not in _WITH_CONTAINER or ":" in user):
        return "credentials"
    if parts.query or parts.fragment:
        return "options"
    is_local = parts.scheme.lower() == "file"
    return "a host" if is_local and parts.netloc.lower() not in {"", "localhost"} else ""


def _reached(parent: str, folder: Folder) -> Folder | None:
    """Return a folder with the connection options of the root that contains it; None where no root does.

    Args:
        parent: A local path, or a URI without options.
        folder: The folder of the savepoint.
    """
    allowed = (root if isinstance(root, str) else root[1] for root in folder.roots)
    for root in (*_own_roots(folder.place), *allowed):
        names = _names_below(root, parent)
        if names is not None:
            return _below(root, names) if is_uri(root) else Folder(os.path.realpath(parent))
    return None


def _mapped(parent: str, folder: Folder) -> Folder | None:
    """Return the folder where the files of another one lie since they were moved; None where nothing says so."""
    for old, new in (root for root in folder.roots if not isinstance(root, str)):
        names = _names_below(old, parent)
        if names is not None:
            return _below(new, names)
    return None


def _found(parent: str, folder: Folder) -> Folder | None:
    return _mapped(parent, folder) or _reached(parent, folder)


def _names_below(root: str, place: str) -> list[str] | None:
    """Return the names that lead from a root to a place; None where it is not in the root.

    Args:
        root: A local path or URI, with connection options.
        place: A local path, or a URI without options.
    """
    if store_of(root) != store_of(place):
        return None
    wanted, holds = Identity.of(place + parted(root)[1]), Identity.of(root)
    if not wanted.is_same(holds) and not wanted.is_inside(holds):
        return None
    if is_uri(root):
        return [str(name) for name in wanted.steps[len(holds.steps) :]]
    names = os.path.relpath(os.path.realpath(place), os.path.realpath(root)).split("/")
    return [name for name in names if name != "."]


def _below(root: str, names: list[str]) -> Folder:
    base, options = parted(root)
    if is_uri(root):
        return Folder("/".join([base, *map(quote, names)]) + options)
    return Folder(os.path.realpath("/".join([base, *names])))


def _own_roots(place: str) -> tuple[str, ...]:
    """Return the folder of a savepoint; for a checkpoint also the folders that the job's checkpoints share."""
    base, options = parted(place)
    above, _, name = base.rpartition("/")
    if not _CHECKPOINT.fullmatch(name):
        return (place,)
    return (place, *(f"{above}/{beside}{options}" for beside in _BESIDE_CHECKPOINT))


def _incomplete(
    missing: dict[str, list[str]], names: dict[str, list[str]], folder: Folder, remarks: str
) -> FilesElsewhere:
    """Return the error for files in folders of jobs that do not lie beside a checkpoint.

    Args:
        missing: The folders, each with the names of its files.
        names: All folders that the checkpoint names, with the names of their files.
        folder: The folder of the checkpoint.
        remarks: What is wrong with the places to which files were moved.
    """
    roots = _roots_of(list(missing))
    count = sum(len(set(files)) for files in missing.values())
    they = "it was" if count == 1 else "they were"
    others = f" and {many(len(roots) - 1, 'other folder')}" if len(roots) > 1 else ""
    there = many(count, "file of the checkpoint is", "files of the checkpoint are")
    options = []
    for root in roots:
        options.append(Told.of(Option.CHECKPOINT_ROOT, root, "FOLDER"))
        if is_uri(root) or Path(root).exists():
            options.append(Told.of(Option.ALLOW_ROOT, root))
    beside = _places_beside(list(missing), names, folder)
    where = f"to {beside}" if beside else "as Flink has it, JOB/chk-N with JOB/shared beside it"
    advice = f"download what is missing {where}, or say with an option where the files are"
    return FilesElsewhere(
        f"{there} missing: {they} in {roots[0]}{others}{remarks}",
        roots=roots,
        options=tuple(options),
        advice=advice,
        written=_NOTHING,
        savepoint=folder.place,
    )


def _places_beside(missing: list[str], names: dict[str, list[str]], folder: Folder) -> str:
    """Return where missing folders of jobs would be found, by Flink's layout; "" if the checkpoint does not have it."""
    job, _, checkpoint = parted(folder.place)[0].rpartition("/")
    if not _CHECKPOINT.fullmatch(checkpoint):
        return ""
    jobs = {one["job"] for one in filter(None, map(_OF_JOB.fullmatch, names))}
    above, _, name = job.rpartition("/")
    is_renamed = len(jobs) == 1 and name not in jobs
    found = filter(None, map(_OF_JOB.fullmatch, missing))
    places = {f"{job}/{one['kind']}" if is_renamed else f"{above}/{one['job']}/{one['kind']}" for one in found}
    return " and ".join(sorted(places))


def _refusal(parents: list[str], folder: Folder, *, is_moved: bool = False, remarks: str = "") -> UntrustedPlace:
    """Return the error for files outside the roots, with one line for each root on how to allow it."""
    roots = _roots_of(parents)
    whose = "its folder" if len(_own_roots(folder.place)) == 1 else "its folder and its job's `shared` and `taskowned`"
    others = f" and {many(len(parents) - 1, 'other folder')}" if len(parents) > 1 else ""
    what = f"files of the savepoint lie outside {whose}, in {parents[0]}{others}, so they are not read{remarks}"
    ways = [WayOut("if you trust these places and the origin of the savepoint, allow them with these options")]
    if any(map(_OF_JOB.fullmatch, parents)):
        ways.append(WayOut.telling("if they were moved, say where to:", Option.CHECKPOINT_ROOT, roots[0], "FOLDER"))
    if is_moved:
        what += "; there is a file of that name next to _metadata, because the savepoint was moved or copied here"
        ways = [
            WayOut(f"move the savepoint back to {roots[0]}, where Flink expects it, too"),
            WayOut("take a canonical one, whose file names are relative"),
            WayOut("to read the files there instead, allow that with these options"),
        ]
    return UntrustedPlace(what, roots=roots, advice=tuple(ways), written=_NOTHING, savepoint=folder.place)


def _roots_of(parents: list[str]) -> tuple[str, ...]:
    """Return the folders to allow; for files of checkpoints the folders that the job's checkpoints share."""
    roots = {_cut(parent) for parent in parents}
    if len(roots) > _MOST_ROOTS:
        roots = {_common([root for root in roots if _host(root) == host]) for host in set(map(_host, roots))}
    return tuple(sorted(roots))


def _cut(parent: str) -> str:
    names = parent.split("/")
    at = next((at for at, name in enumerate(names) if name in _BESIDE_CHECKPOINT or _CHECKPOINT.fullmatch(name)), None)
    return parent if at is None else "/".join(names[: at + 1])


def _host(root: str) -> str:
    return "/".join(root.split("/")[:3]) if is_uri(root) else ""


def _common(roots: list[str]) -> str:
    steps = zip(*(root.split("/") for root in roots), strict=False)
    return "/".join(step[0] for step in takewhile(lambda step: len(set(step)) == 1, steps)) or "/"
