"""The files of a copy by the provider of its state stores: HDFS-backed, Spark's default, or RocksDB.

Between reading and writing, keys and values are rows as `row_encoder` makes them, whatever a provider has around them.
The copy keeps the provider, and what is set of it: codec, row checksums, the ids of files in checkpoint format 2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from ....serializers.errors import CorruptFile
from ..operators import DEFAULT_STORE
from ..reader import ROCKSDB
from ..row_places import Rows
from .rocksdb_writer import DatabaseWriter, shares_of
from .row_encoder import rows_of
from .store_writer import EntryBlock, snapshot_name, snapshots

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from ....state.storage.files import Folder
    from ..reader import SparkStore
    from ..store_files import Entries
    from .plan import MigrationPlan, StorePlan
    from .row_encoder import Encoded

    Numbers = NDArray[Any]
    Write = Callable[[Encoded, Encoded, Numbers], None]
    """Writes keys and values; each goes to the partition of its number, and is left out if that is not open."""


_BUFFER_BYTES = 64 << 20
_HEAD_BYTES, _NOTHING = 1, 256


def target_of(folder: Folder, number: int, store: SparkStore, partition: int) -> Folder:
    """Return the folder of a partition of a store in a copy, where its operator has this number."""
    of_partition = folder.folder(f"state/{number}/{partition}")
    return of_partition if store.facts.name == DEFAULT_STORE else of_partition.folder(store.facts.name)


@attrs.frozen
class Provider(ABC):
    """Reads the entries of a store, and writes them to the copy.

    Attributes:
        migration: The whole migration.
        plan: What is done with the store.
        folder: The folder of the copy.
    """

    migration: MigrationPlan
    plan: StorePlan
    folder: Folder

    @classmethod
    def of(cls, migration: MigrationPlan, plan: StorePlan, folder: Folder) -> Provider:
        """Return the provider of a checkpoint."""
        kind = _Databases if migration.settings.provider == ROCKSDB else _Snapshots
        return kind(migration, plan, folder)

    @property
    @abstractmethod
    def most_open(self) -> int:
        """How many partitions may be open at once."""

    @abstractmethod
    def file(self, partition: int) -> str:
        """Return the name of the file that says that a partition is complete."""

    @abstractmethod
    def blocks(self, partition: int) -> Iterator[Entries]:
        """Yield the keys and values of a partition of the source, as rows; errors as in `SparkStore.stored_blocks`."""

    @abstractmethod
    def open(self, partitions: list[int]) -> AbstractContextManager[Write]:
        """Open partitions for writing; each is there when the `with` block ends."""

    def target(self, partition: int) -> Folder:
        """Return the folder of a partition in the copy."""
        return target_of(self.folder, self.plan.number, self.plan.store, partition)

    def is_written(self, partition: int) -> bool:
        """Whether a partition is complete."""
        return self.target(partition).exists(self.file(partition))


class _Snapshots(Provider):
    """Snapshots of the HDFS-backed provider; rows are stored as they are."""

    @property
    def most_open(self) -> int:
        return 256 if self.folder.is_local else 32

    def file(self, partition: int) -> str:
        return snapshot_name(self.migration.batch + 1)

    def blocks(self, partition: int) -> Iterator[Entries]:
        return self.plan.store.stored_blocks(partition)

    @contextmanager
    def open(self, partitions: list[int]) -> Iterator[Write]:
        settings, count = self.migration.settings, self.plan.store.partitions
        folders = list(map(self.target, partitions))
        with snapshots(folders, self.migration.batch + 1, settings.codec) as streams:

            def write(keys: Encoded, values: Encoded, partition: Numbers) -> None:
                block = EntryBlock.of(keys, values, partition, count, has_checksums=settings.has_row_checksums)
                for stream, one in zip(streams, partitions, strict=True):
                    stream.write(block.share(one))

            yield write


class _Databases(Provider):
    """Databases of the RocksDB provider; a byte is in front of each row."""

    @property
    def most_open(self) -> int:
        return 64  # each has some open files, and a buffer of its own

    def file(self, partition: int) -> str:
        return self._writer(partition, 0).name

    def blocks(self, partition: int) -> Iterator[Entries]:
        for block in self.plan.store.stored_blocks(partition):
            yield _without_heads(block[0]), _without_heads(block[1])

    @contextmanager
    def open(self, partitions: list[int]) -> Iterator[Write]:
        with ExitStack() as stack:
            each = _BUFFER_BYTES // len(partitions)
            writers = {one: stack.enter_context(self._writer(one, each)) for one in partitions}
            yield lambda keys, values, partition: write_rows(writers, keys, values, partition)
            for writer in writers.values():
                writer.flush(waits=False)

    def _writer(self, partition: int, buffer_bytes: int) -> DatabaseWriter:
        settings = self.migration.settings
        return DatabaseWriter(
            self.target(partition),
            version=self.migration.batch + 1,
            unique_id=self.plan.store.unique_id(partition),
            has_checksums=settings.has_row_checksums,
            delimiter=settings.delimiter,
            buffer_bytes=buffer_bytes,
        )


def write_rows(writers: Mapping[int, DatabaseWriter], keys: Encoded, values: Encoded, partition: Numbers) -> None:
    """Write rows to the partitions of their numbers."""
    order, shares = shares_of(partition, writers)
    of_keys, of_values = (rows_of(one, zeros=_HEAD_BYTES, order=order) for one in (keys, values))
    for number, share in shares:
        writers[number].write("", of_keys[share], of_values[share])


def _without_heads(stored: Sequence[bytes]) -> Rows:
    rows = Rows.of(stored)
    heads = np.where(rows.sizes > 0, rows.data[rows.starts].astype(np.int64), _NOTHING)
    if heads.any():
        first = int(heads[(heads != 0).argmax()])
        raise CorruptFile(f"a row begins with {'nothing' if first == _NOTHING else f'{first:02x}'}, and not with 00")
    return Rows(rows.data, rows.starts + _HEAD_BYTES, rows.sizes - _HEAD_BYTES)
