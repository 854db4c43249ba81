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

from ....serializers.errors import CorruptFile, MigrationFailed
from ....serializers.spark_rows.row_encoder import Encoded, encode_rows, rows_of
from ....serializers.spark_rows.rows import Rows, decode_rows
from ...formats.spark.layout_encoder import LayoutEncoder
from ...formats.spark.layouts import RowEncoding
from ...formats.spark.operators import DEFAULT_STORE
from ...formats.spark.reader import ROCKSDB
from ...formats.spark.rocksdb_files import Databases
from ...formats.spark.rocksdb_writer import DatabaseWriter, WrittenFamily, shares_of, write_parts
from ...formats.spark.store_writer import EntryBlock, snapshot_name, snapshots

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from ...formats.spark.reader import SparkStore
    from ...formats.spark.store_files import Entries
    from ...storage.files import Folder
    from .operator_copy import OperatorCopy
    from .preparation import PreparedCopy
    from .report import Counts

    Numbers = NDArray[Any]
    Entry = Encoded | Sequence[bytes]
    Write = Callable[[SparkStore, Entry, Entry, Numbers | None], None]
    """Writes keys and values of a store of the copy; each goes to the partition of its number, and is left out if that
    is not open; None: all go to the only one. Bytes are written as they are, after rows comes what a provider adds.
    """


_BUFFER_BYTES = 64 << 20
_HEAD_BYTES, _NOTHING = 1, 256


def target_of(folder: Folder, store: SparkStore, partition: int) -> Folder:
    """Return the folder of a partition of a store in a copy."""
    of_partition = folder.folder(f"state/{store.operator}/{partition}")
    return of_partition if store.facts.name == DEFAULT_STORE else of_partition.folder(store.facts.name)


def routes(count: int, missing: list[int], *, moves: bool, most_open: int) -> Iterator[tuple[list[int], list[int]]]:
    """Yield partitions to read, and those to write from them at the same time.

    Args:
        count: The number of partitions.
        missing: Those that are not written yet.
        moves: Whether entries move to other partitions; else those of each stay in it.
        most_open: How many may be open at once.
    """
    if not moves:
        yield from (([one], [one]) for one in missing)
        return
    for start in range(0, len(missing), most_open):
        yield list(range(count)), missing[start : start + most_open]


def require_all(
    name: str, counts: Counts, *, moves: bool, details: Iterable[str] = (), is_lost: bool = False
) -> Counts:
    """Return what was counted of a store, or of a variable.

    Args:
        name: Its name.
        counts: How many entries were read from each partition, are in each of the copy, and were merged.
        moves: Whether entries move to other partitions, or are merged.
        details: What else was counted, a line each.
        is_lost: Whether that shows that entries were lost.

    Raises:
        MigrationFailed: Entries were lost.
    """
    read, written, merged = counts
    if is_lost or sum(read) != sum(written) + merged or (not moves and read != written):
        raise MigrationFailed(
            f"{name}: {sum(read):,} entries were read, {sum(written):,} are in the copy, {merged:,} were merged",
            details=[f"  read from each partition: {read}", f"  written to each: {written}", *details],
            advice="please report this; the copy must not be used",
        )
    return counts


@attrs.frozen
class Provider(ABC):
    """Reads the entries of stores that have the same files, and writes them to the copy.

    Attributes:
        migration: The whole migration.
        operator: What is done with these stores.
        folder: The folder of the copy.
    """

    migration: PreparedCopy
    operator: OperatorCopy
    folder: Folder

    @classmethod
    def of(cls, migration: PreparedCopy, operator: OperatorCopy, folder: Folder) -> Provider:
        """Return the provider of a checkpoint."""
        kind = _Databases if migration.settings.provider == ROCKSDB else _Snapshots
        return kind(migration, operator, folder)

    @property
    @abstractmethod
    def most_open(self) -> int:
        """How many partitions may be open at once."""

    @abstractmethod
    def file(self, partition: int) -> str:
        """Return the name of the file that says that a partition is complete."""

    @abstractmethod
    def blocks(self, store: SparkStore, partition: int) -> Iterator[Entries]:
        """Yield the keys and values of a partition of a store, as rows; errors as in `SparkStore.stored_blocks`."""

    @abstractmethod
    def open(self, partitions: list[int]) -> AbstractContextManager[Write]:
        """Open partitions for writing; each is there when the `with` block ends."""

    def target(self, partition: int) -> Folder:
        """Return the folder of a partition in the copy."""
        stores = self.operator.stores
        return target_of(self.folder, stores[0].now if stores else self.operator.now.stores[0], partition)

    def copied(self) -> Callable[[SparkStore], SparkStore]:
        """Return the function that returns a store as it is in the copy; what it opens is opened once for all."""
        operator, log = self.operator, self.migration.log
        place = self.folder.folder(f"state/{operator.number}")
        databases = Databases(operator.now.stores[0].databases.lists)

        def copied(store: SparkStore) -> SparkStore:
            facts = attrs.evolve(store.facts, partitions=operator.partitions)
            return attrs.evolve(store, facts=facts, folder=place, log=log, databases=databases)

        return copied

    def is_written(self, partition: int) -> bool:
        """Whether a partition is complete."""
        return self.target(partition).exists(self.file(partition))


class _Snapshots(Provider):
    """Snapshots of the HDFS-backed provider; rows are stored as they are."""

    @property
    def most_open(self) -> int:
        return 256 if self.folder.is_local else 32

    def file(self, partition: int) -> str:
        return snapshot_name(self.migration.query.batch + 1)

    def blocks(self, store: SparkStore, partition: int) -> Iterator[Entries]:
        return store.stored_blocks(partition)

    @contextmanager
    def open(self, partitions: list[int]) -> Iterator[Write]:
        settings, count = self.migration.settings, self.operator.partitions
        folders = list(map(self.target, partitions))
        with snapshots(folders, self.migration.query.batch + 1, settings.codec) as streams:

            def write(_: SparkStore, keys: Entry, values: Entry, partition: Numbers | None) -> None:
                assert isinstance(keys, Encoded)  # noqa: S101 - column families are in databases
                assert isinstance(values, Encoded)  # noqa: S101 - as above
                assert partition is not None  # noqa: S101 - as above
                block = EntryBlock.of(keys, values, partition, count, has_checksums=settings.has_row_checksums)
                for stream, one in zip(streams, partitions, strict=True):
                    stream.write(block.share(one))

            yield write


class _Databases(Provider):
    """Databases of the RocksDB provider; a byte is in front of each row, and some keys are no plain rows."""

    @property
    def most_open(self) -> int:
        return 16 if self.operator.has_variables else 64  # each has some open files, and a buffer of its own

    def file(self, partition: int) -> str:
        return self._writer(partition, 0).name

    def blocks(self, store: SparkStore, partition: int) -> Iterator[Entries]:
        layout = store.key_layout
        for keys, values in store.stored_blocks(partition):
            if layout.kind == "row":
                yield _without_heads(keys), _without_heads(values)
            else:
                of = store.require_schema().key
                rows = encode_rows(RowEncoding().decode_keys(keys, of, layout), of)
                yield rows_of(rows), _without_heads(values)

    @contextmanager
    def open(self, partitions: list[int]) -> Iterator[Write]:
        with ExitStack() as stack:
            each = _BUFFER_BYTES // len(partitions)
            writers = {one: stack.enter_context(self._writer(one, each)) for one in partitions}

            def write(store: SparkStore, keys: Entry, values: Entry, partition: Numbers | None) -> None:
                if isinstance(keys, Encoded) and isinstance(values, Encoded) and partition is not None:
                    write_rows(writers, store, keys, values, partition)
                elif not isinstance(keys, Encoded) and not isinstance(values, Encoded):
                    write_parts(writers, store.name, keys, values, partition)

            yield write
            for writer in writers.values():
                writer.flush(waits=False)

    def _writer(self, partition: int, buffer_bytes: int) -> DatabaseWriter:
        operator, settings = self.operator, self.migration.settings
        ids = (*self.migration.log.ids_of(operator.number, partition), "")
        return DatabaseWriter(
            self.target(partition),
            version=self.migration.query.batch + 1,
            unique_id=operator.stores[0].was.unique_id(partition) if operator.stores else ids[0],
            families=None if operator.files is None else written_families(operator.families),
            has_checksums=settings.has_row_checksums,
            delimiter=settings.delimiter,
            buffer_bytes=buffer_bytes,
        )


def written_families(stores: Iterable[SparkStore]) -> dict[str, WrittenFamily]:
    """Return the column families of a database of the copy: those of some stores, and the one that Spark adds."""
    found = {"default": WrittenFamily(1)}
    for number, store in enumerate(sorted(stores, key=lambda one: one.name), 2):
        assert store.family is not None  # noqa: S101 - it is one
        is_internal, is_list = store.family.is_internal, store.family.is_list
        found[store.name] = WrittenFamily(number, is_internal=is_internal, is_list=is_list)
    return found


def write_rows(
    writers: Mapping[int, DatabaseWriter], store: SparkStore, keys: Encoded, values: Encoded, partition: Numbers
) -> None:
    """Write rows of a store to the partitions of their numbers."""
    order, shares = shares_of(partition, writers)
    of_keys, of_values = _stored_keys(store, keys, order), rows_of(values, zeros=_HEAD_BYTES, order=order)
    name = "" if store.family is None else store.name
    for number, share in shares:
        writers[number].write(name, of_keys[share], of_values[share])


def _stored_keys(store: SparkStore, keys: Encoded, order: Numbers) -> Sequence[bytes]:
    """Return keys, in an order, as the database has them."""
    layout = store.key_layout
    if layout.kind == "row":
        return rows_of(keys, zeros=_HEAD_BYTES, order=order)
    of = store.require_schema().key
    return LayoutEncoder(is_avro=False).encode_keys(decode_rows(rows_of(keys, order=order), of), of, layout)


def _without_heads(stored: Sequence[bytes]) -> Rows:
    rows = Rows.of(stored)
    heads = np.where(rows.sizes > 0, rows.data[rows.starts].astype(np.int64), _NOTHING)
    if heads.any():
        first = int(heads[(heads != 0).argmax()])
        raise CorruptFile(f"a row begins with {'nothing' if first == _NOTHING else f'{first:02x}'}, and not with 00")
    return Rows(rows.data, rows.starts + _HEAD_BYTES, rows.sizes - _HEAD_BYTES)
