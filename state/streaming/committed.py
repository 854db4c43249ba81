"""Which manifests are committed: those that the engine has in its own checkpoint, byte for byte.

The engine commits the manifests of a batch with the batch, so its checkpoint is the record of what holds. What lies
beside the state is compared with that record. Only where it cannot be read, manifests are chosen by their names
(`written.Written`), which is said (`Committed.unproven`). Source: notes on Spark, 2.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ...serializers.errors import CorruptFile, CorruptSavepoint, LibraryNotFound, SavepointNotFound, UnsupportedFormat
from ..formats.spark.commit_log import last_committed
from ..publication.lineage import FileDigest
from .manifest import MANIFESTS, RUNS, Manifest
from .stored_json import PUT_BACK
from .written import Written

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .directory import StateDirectory


@attrs.frozen
class Committed:
    """The state after a batch.

    Attributes:
        epoch: Its epoch; 0: no slot has run in this directory.
        manifests: The manifests of its slots.
        unproven: Why it is not known which manifests the engine has committed, so that names decided; "": it is known.
    """

    epoch: int
    manifests: tuple[Manifest, ...]
    unproven: str = ""


def committed_manifests(directory: StateDirectory, batch: int) -> Committed:
    """Return the committed manifests of the slots after a batch.

    Raises:
        CorruptFile: What was committed is not there as it was: a manifest is missing or altered, or a start or an epoch
            is not recorded any more.
        SavepointNotFound: The batch is an earlier one, whose manifests were deleted.
        AttemptsUndecided: The engine was not asked, and two attempts wrote a manifest for a slot.
    """
    written = Written.in_directory(directory)
    _require_epochs(directory, written)
    told = engine_manifests(directory, batch)
    if isinstance(told, str):
        epoch, found = written.chosen(batch)
        return Committed(epoch, tuple(found), told)
    own = [(one, data) for one, data in told if one.directory == directory.id]
    if strange := next((one for one, _ in told if one.directory not in {directory.id, *directory.copied_from}), None):
        raise CorruptFile(
            f"the checkpoint {directory.checkpoint} has the manifest of another state directory",
            advice="put back the file that identifies the directory, or its checkpoint",
            file=f"{directory.folder.place}/{MANIFESTS}/{strange.name}",
        )
    epoch = max((one.epoch for one, _ in own), default=0)
    present = [(one, data) for one, data in own if one.epoch == epoch]
    _require_as_committed(directory, present, batch)
    epochs = written.epochs
    for one, _ in present:
        if epochs.get(one.run) != epoch:
            raise CorruptFile(
                f"start {one.run} of the query is not recorded as it was: its state is of epoch {epoch}",
                advice=PUT_BACK,
                file=f"{directory.folder.place}/{RUNS}",
            )
    return Committed(epoch, tuple(one for one, _ in present))


def engine_manifests(directory: StateDirectory, batch: int) -> list[tuple[Manifest, bytes]] | str:
    """Return all manifests that the engine has after a committed batch, and their bytes; or why it is not known.

    Some may be of earlier epochs, or of the directory that this one was copied from.

    Raises:
        UntrustedPlace: The checkpoint is in another store.
        StorageFailed: Its store does not answer.
    """
    checkpoint = directory.checkpoint_folder
    if not checkpoint.exists("state"):
        return f"the checkpoint {checkpoint} has no state of Spark"
    try:
        from ..formats.spark.manifests import manifests_after  # it loads pyarrow, which savepoints do without

        found = manifests_after(checkpoint, batch)
        return [(Manifest.from_bytes(data), data) for data in found]
    except ModuleNotFoundError as error:  # also a library of an optional extra
        why = error.what if isinstance(error, LibraryNotFound) else f"{error.name} is not installed"
    except (CorruptFile, CorruptSavepoint, SavepointNotFound, UnsupportedFormat) as error:
        # Spark could not go on either, but the state may be sound: it is not withheld.
        file = f" ({error.where['file']})" if "file" in error.where else ""
        why = f"{error.what}{file}"
    return f"the state of Spark in {checkpoint} cannot be read: {why}"


def require_intact(directory: StateDirectory, manifests: Iterable[Manifest]) -> None:
    """Refuse a state whose files are not as their slot or source wrote them; the data of RocksDB is not read.

    Raises:
        SavepointNotFound: A file is missing.
        CorruptFile: A file was damaged or altered.
    """
    for manifest in manifests:
        for name, digest in manifest.digests.items():
            if FileDigest.of_file(directory.files, name).xxh128 != digest:
                raise CorruptFile(
                    "the file is not as it was written: its digest is another one",
                    advice=PUT_BACK,
                    file=f"{directory.files.place}/{name}",
                )


def _require_as_committed(directory: StateDirectory, manifests: list[tuple[Manifest, bytes]], batch: int) -> None:
    """Refuse a directory in which a committed manifest is missing or differs."""
    folder = directory.folder.folder(MANIFESTS)
    there = set(folder.names())
    for one, data in manifests:
        file = f"{folder.place}/{one.name}"
        if one.name not in there:
            what = f"the manifest of slot {one.slot}, which Spark has committed with batch {one.batch}, is missing"
            if batch != last_committed(directory.checkpoint_folder):
                raise SavepointNotFound(what, file=file)
            raise CorruptFile(what, advice=PUT_BACK, file=file)
        if folder.read(one.name) != data:
            raise CorruptFile(
                f"the manifest of slot {one.slot} is not the one that Spark has committed with batch {one.batch}",
                advice=PUT_BACK,
                file=file,
            )


def _require_epochs(directory: StateDirectory, written: Written) -> None:
    """Refuse a directory in which an epoch of its query is missing or was altered."""
    for number in sorted({run.epoch for run in written.runs}):
        directory.epoch(number)
