"""Folders on the local disk for files that a database needs and that lie elsewhere: on a store, or within other files.

    TMPDIR/stateshift-rocksdb-UID/KEY/        the files, and `complete` when all of them are there
    TMPDIR/stateshift-rocksdb-UID/KEY.lock    locked exclusively to fill or delete the folder, shared while it is in use

A folder is filled once, and used by all processes of a machine that need it: each task reads some key groups of it.
It stays for the next task. It is deleted when the process ends that used it, or when a new folder needs its space.
A process that is killed leaves its folders behind; a later one deletes what nobody used for ten minutes.

    DIR/stateshift-live-…/lock                locked as long as the process lives that has its database in the folder

A live database has a folder of its own. What a killed process leaves is deleted when the next live database begins.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import tempfile
import time
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from ...serializers.errors import NoSpaceLeft, StorageFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_COMPLETE = "complete"
_LIVE = "stateshift-live-"
_LOCK = ".lock"
_SPARE_BYTES = 64 << 20
_IDLE_S = 600.0


@attrs.frozen
class _SharedFolder:
    """A folder and its lock.

    Attributes:
        base: The folder of all such folders.
        key: The name of the folder.
    """

    base: Path
    key: str

    @property
    def folder(self) -> Path:
        """The folder."""
        return self.base / self.key

    @property
    def _lock(self) -> Path:
        return self.base / f"{self.key}{_LOCK}"

    @property
    def used_s(self) -> float:
        """The time of its last use in seconds since 1970; 0 where it is not complete."""
        with suppress(FileNotFoundError):
            return (self.folder / _COMPLETE).stat().st_mtime
        return 0.0

    def filled(self, fill: Callable[[_SharedFolder], None]) -> int:
        """Wait until the folder is filled, or fill it; return the descriptor of its lock, which is shared."""
        import fcntl

        while True:
            descriptor = self._locked(fcntl.LOCK_SH)
            if self.used_s:
                return descriptor
            os.close(descriptor)
            descriptor = self._locked(fcntl.LOCK_EX)
            try:
                if not self.used_s:
                    shutil.rmtree(self.folder, ignore_errors=True)
                    self.folder.mkdir()
                    fill(self)
                    (self.folder / _COMPLETE).touch()
            except BaseException:
                self._delete(descriptor)
                raise
            os.close(descriptor)  # until it is locked again, another process may delete the folder

    def delete_unless_used(self) -> None:
        """Delete the folder if no process uses it at this moment."""
        import fcntl

        with suppress(FileNotFoundError):
            descriptor = os.open(self._lock, os.O_RDWR)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
            else:
                self._delete(descriptor)

    def _locked(self, kind: int) -> int:
        """Lock the folder; return the descriptor of the lock, which no other process has deleted."""
        import fcntl

        while True:
            descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(descriptor, kind)
            with suppress(FileNotFoundError):
                if os.fstat(descriptor).st_ino == self._lock.stat().st_ino:
                    return descriptor
            os.close(descriptor)

    def _delete(self, descriptor: int) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.unlink(missing_ok=True)
        os.close(descriptor)


class LiveFolder:
    """A folder for a live database, which is empty at first; without `delete` it warns, as an open file does.

    Args:
        parent: The local folder in which it is made; "": that of temporary files.

    Attributes:
        path: The folder.

    Raises:
        StorageFailed: It cannot be made.
    """

    _lock: int | None = None

    def __init__(self, parent: str = "") -> None:
        import fcntl

        base = Path(parent or tempfile.gettempdir())
        try:
            base.mkdir(parents=True, exist_ok=True)
            _delete_dead(base)
            made = Path(tempfile.mkdtemp(prefix="stateshift-new-", dir=base))
            self._lock = os.open(made / "lock", os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            self.path = made.rename(made.with_name(made.name.replace("stateshift-new-", _LIVE)))  # as it is locked now
        except OSError as error:
            self._unlock()
            raise StorageFailed(f"a live database has no folder in {base}: {error.strerror}") from error

    def delete(self) -> None:
        """Delete the folder, which must not be used afterwards; deleting it twice is harmless."""
        if self._lock is not None:
            shutil.rmtree(self.path, ignore_errors=True)
            self._unlock()

    def _unlock(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)

    def __del__(self) -> None:
        if self._lock is not None:
            told = f"a live database was not closed, by `close` of its harness or `dispose` of its backend: {self.path}"
            self._unlock()  # the next live database deletes the folder: this may be a process that was forked
            warnings.warn(told, ResourceWarning, stacklevel=2, source=self)


def _delete_dead(base: Path) -> None:
    """Delete the folders of live databases whose processes have ended."""
    import fcntl

    for lock in base.glob(f"{_LIVE}*/lock"):
        with suppress(OSError):  # of another user, or just deleted
            descriptor = os.open(lock, os.O_RDWR)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
            finally:
                os.close(descriptor)


_used: set[_SharedFolder] = set()
"""The folders that this process used."""


@contextmanager
def shared_folder(key: str, size: int, fill: Callable[[Path], None]) -> Iterator[Path]:
    """Return a folder with the files that `fill` puts there, until the `with` block ends.

    Args:
        key: The name of the folder: equal keys mean equal files.
        size: The number of bytes of the files.
        fill: Puts the files in the folder; it is called only if no process of this machine did.

    Raises:
        NoSpaceLeft: The disk is too small for the files.
        StorageFailed: The folder for temporary files belongs to another user.
    """

    def fill_it(wanted: _SharedFolder) -> None:
        _make_room(wanted, size)
        fill(wanted.folder)

    shared = _SharedFolder(_own_base(), key)
    descriptor = shared.filled(fill_it)
    _used.add(shared)
    try:
        yield shared.folder
    finally:
        with suppress(FileNotFoundError):
            os.utime(shared.folder / _COMPLETE)
        os.close(descriptor)


def release(keys: Iterable[str]) -> None:
    """Delete folders that are no longer needed, whichever process of this machine used them, unless one still does."""
    for key in keys:
        _SharedFolder(_base(), key).delete_unless_used()


@atexit.register
def release_all() -> None:
    """Delete the folders that this process used, unless others still use them."""
    while _used:
        _used.pop().delete_unless_used()


def _make_room(wanted: _SharedFolder, size: int) -> None:
    """Delete folders that nobody used for long; if the disk is still too small, those in no use, the oldest first.

    Raises:
        NoSpaceLeft: The disk is too small.
    """
    others = [_SharedFolder(wanted.base, lock.name.removesuffix(_LOCK)) for lock in wanted.base.glob(f"*{_LOCK}")]
    for other in sorted(others, key=lambda one: one.used_s):
        is_idle = other.used_s < time.time() - _IDLE_S
        if other != wanted and (is_idle or _free_bytes(wanted) < size + _SPARE_BYTES):
            other.delete_unless_used()
    free = _free_bytes(wanted)
    if free < size + _SPARE_BYTES:
        raise NoSpaceLeft.before_writing(
            f"the files of a database have {size:,} bytes, and {wanted.base} has {free:,} bytes left for them",
            advice="set TMPDIR to a folder on a larger disk; the databases that are read at the same time must fit",
        )


def _free_bytes(shared: _SharedFolder) -> int:
    return shutil.disk_usage(shared.base).free


def _base() -> Path:
    return Path(tempfile.gettempdir(), f"stateshift-rocksdb-{os.getuid()}")


def _own_base() -> Path:
    base = _base()
    base.mkdir(mode=0o700, exist_ok=True)
    facts = base.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or facts.st_mode & 0o022:
        raise StorageFailed(
            f"{base} must be a folder that only this user may write to", advice="delete it, or set TMPDIR"
        )
    return base
