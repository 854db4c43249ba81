"""`EmbeddedRocksDBStateBackend`: the keyed state of one subtask in a RocksDB database on the local disk."""

from __future__ import annotations

import shutil
import uuid
from typing import TYPE_CHECKING, Any

from ....serializers.errors import DeclarationError
from ...formats.flink.database_files import database_placed
from ...formats.flink.database_stream import common, require_same_states
from ...formats.flink.handles import DatabaseHandle
from ...formats.flink.keyed_readers import read_header
from ...key_groups import prefix_size
from ...rocksdb.ranges import KeyRanges
from ...rocksdb.workspace import LiveFolder
from ..configuration import Configuration
from ..sorted.backend import SortedStateBackend
from .checkpoints import DatabaseCheckpointStrategy
from .options import PREFIX, DatabaseOptions
from .store import RocksDBStore

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ....serializers.serializer import TypeSerializer
    from ...formats.flink.handles import KeyedHandle
    from ...formats.flink.keyed_stream import KeyedReader
    from ...storage.files import Folder
    from .options import RocksDBOptionsFactory


class EmbeddedRocksDBStateBackend(SortedStateBackend):
    """Keyed state in RocksDB, which may be larger than the memory.

    Args:
        key: The serializer of the keys.
        max_parallelism: The number of key groups of the operator.
        key_groups: Those of this subtask.
        configuration: The configuration; by default that of the environment.
        options_factory: Changes the options of RocksDB; it replaces that of the configuration.
        key_ranges: Into how many parts, by key groups, each state is divided that has 32 MB of files or more, so that a
            checkpoint after a merge has a part of it again, and not all. Flink restores a checkpoint only if it is 1.

    Raises:
        LibraryNotFound: `rocksdict` is not installed.
        DeclarationError: The options factory of the configuration cannot be made, or `key_ranges` is less than 1.
        StorageFailed: The local folder cannot be used.
    """

    def __init__(
        self,
        key: TypeSerializer[Any],
        max_parallelism: int,
        key_groups: range,
        *,
        configuration: Configuration | None = None,
        options_factory: RocksDBOptionsFactory | None = None,
        key_ranges: int = 1,
    ) -> None:
        if key_ranges < 1:
            raise DeclarationError(
                f"states cannot be divided into {key_ranges} parts",
                advice="let key_ranges be 1 for whole states, or more",
            )
        configuration = Configuration.of() if configuration is None else configuration
        self._options = DatabaseOptions(configuration, options_factory)
        self._ranges = KeyRanges(key_groups, prefix_size(max_parallelism), key_ranges)
        self._place = LiveFolder(configuration[f"{PREFIX}localdir"] or "")
        try:
            self._database = RocksDBStore.new(self._place.path / "db", self._options, self._ranges)
        except BaseException:
            self._place.delete()
            raise
        self._strategy = DatabaseCheckpointStrategy(
            self,
            incremental=configuration["execution.checkpointing.incremental"],
            threads=configuration[f"{PREFIX}checkpoint.transfer.thread.num"],
        )
        super().__init__(
            self._database,
            key,
            max_parallelism,
            key_groups,
            cache_bytes=configuration[f"{PREFIX}write-batch-size"],
            heap_timers=configuration[f"{PREFIX}timer-service.factory"] == "HEAP",
            held_timers=configuration[f"{PREFIX}timer-service.cache-size"],
        )

    @property
    def folder(self) -> Path:
        """The folder of the database."""
        return self._database.folder

    def checkpoint_strategy(self) -> DatabaseCheckpointStrategy:
        return self._strategy

    def link_files(self) -> Path:
        """Write everything to files, and return a new folder with links to them, which the caller deletes."""
        folder = self._place.path / f"files-{uuid.uuid4().hex}"
        self._database.link(folder)
        return folder

    def adopt(self, handles: Sequence[KeyedHandle], folder: Folder) -> list[KeyedHandle]:
        """Open the database that has the most of this subtask's key groups; the others are left."""
        databases = [handle for handle in handles if isinstance(handle, DatabaseHandle)]
        if not databases or self.header.states:
            return list(handles)
        chosen = max(databases, key=lambda handle: len(common(handle.key_groups, self.key_groups)))
        header = read_header(chosen, folder)
        place, sizes = self._place.path / "restored", {file.name: file.stream.size for file in chosen.files}
        with database_placed(chosen, folder, place) as names:
            restored = RocksDBStore.restored(place, self._options, self._ranges, names, sizes)
        self._database.close()
        shutil.rmtree(self._database.folder, ignore_errors=True)
        self._store = self._database = restored
        require_same_states(header, restored.families)
        for info in header.states:
            self.add_stored(info)
        if chosen.key_groups == self.key_groups:
            self._strategy.take_over(chosen)
        return [handle for handle in handles if handle is not chosen]

    def restore(self, stored: KeyedReader) -> None:
        states = stored.header.states
        for info in states:
            self.add_stored(info)
            self._database.table(info.name)
        with self._database.loading() as add:
            for block in stored.blocks(self.key_groups):
                add(states[block.state_id].name, block)

    def dispose(self) -> None:
        super().dispose()
        self._place.delete()
