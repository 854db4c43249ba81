"""Folders on the local disk for files that a database needs and that lie elsewhere: on a store, or within other files.

    TMPDIR/stateshift-rocksdb-UID/KEY/        the files, and `complete` when all of them are there
    TMPDIR/stateshift-rocksdb-UID/KEY.lock    locked exclusively to fill or delete the folder, shared while it is kept

A folder is filled once, and used by all processes of a machine that need it: each task reads some key groups of it.
A process keeps the folder that it used last until it needs another one or ends. A process that is killed leaves its
folder behind; the next one that needs any deletes it.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import tempfile
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ...serializers.errors import NoSpaceLeft, StorageFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_COMPLETE = "complete"
_SPARE_BYTES = 64 << 20


class _Lease:
    """The use of a folder by this process.

    Args:
        base: The folder of all such folders.
        key: The name of the folder.
    """

    def __init__(self, base: Path, key: str) -> None:
        self.folder, self._lock = base / key, base / f"{key}.lock"
        self._descriptor = -1
        self.users = 0
        self.mutex = threading.Lock()

    def acquire(self, fill: Callable[[Path], None]) -> None:
        """Wait until the folder is filled, or fill it; other processes may use it at the same time."""
        import fcntl

        while self._descriptor < 0:
            descriptor = self._locked(fcntl.LOCK_SH)
            if (self.folder / _COMPLETE).exists():
                self._descriptor = descriptor
                return
            os.close(descriptor)
            descriptor = self._locked(fcntl.LOCK_EX)
            try:
                if not (self.folder / _COMPLETE).exists():
                    shutil.rmtree(self.folder, ignore_errors=True)
                    self.folder.mkdir()
                    fill(self.folder)
                    (self.folder / _COMPLETE).touch()
            except BaseException:
                self._delete(descriptor)
                raise
            os.close(descriptor)  # until it is locked again, another process may delete the folder

    def release(self) -> None:
        """Delete the folder, unless other processes use it."""
        import fcntl

        descriptor, self._descriptor = self._descriptor, -1
        if descriptor < 0:
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
        else:
            self._delete(descriptor)

    def delete_if_abandoned(self) -> None:
        """Delete the folder if no process uses it."""
        import fcntl

        with suppress(OSError):
            descriptor = os.open(self._lock, os.O_RDWR)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
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


_leases: dict[str, _Lease] = {}
_mutex = threading.Lock()


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
    base = _own_base()
    with _mutex:
        lease = _leases.setdefault(key, _Lease(base, key))
        lease.users += 1
    try:
        with lease.mutex:
            lease.acquire(lambda folder: _fill(folder, size, fill))
        yield lease.folder
    finally:
        with _mutex:
            lease.users -= 1
            for other in [name for name, held in _leases.items() if not held.users and name != key]:
                _leases.pop(other).release()


@atexit.register
def release_all() -> None:
    """Delete the folders of this process that no process uses."""
    with _mutex:
        for key in [key for key, lease in _leases.items() if not lease.users]:
            _leases.pop(key).release()


def _fill(folder: Path, size: int, fill: Callable[[Path], None]) -> None:
    for lock in folder.parent.glob("*.lock"):
        if lock.stem != folder.name:
            _Lease(folder.parent, lock.stem).delete_if_abandoned()
    free = shutil.disk_usage(folder).free
    if size + _SPARE_BYTES > free:
        raise NoSpaceLeft(
            f"the files of a database have {size:,} bytes, and {folder.parent} has {free:,} bytes left for them",
            advice="set TMPDIR to a folder on a larger disk; the databases that are read at the same time must fit",
            written="Nothing was written.",
        )
    fill(folder)


def _own_base() -> Path:
    base = Path(tempfile.gettempdir(), f"stateshift-rocksdb-{os.getuid()}")
    base.mkdir(mode=0o700, exist_ok=True)
    facts = base.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or facts.st_mode & 0o022:
        raise StorageFailed(
            f"{base} must be a folder that only this user may write to", advice="delete it, or set TMPDIR"
        )
    return base
