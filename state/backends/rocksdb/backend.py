"""`EmbeddedRocksDBStateBackend`: the keyed state of one subtask in a RocksDB database on the local disk."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..configuration import Configuration
from ..sorted.backend import SortedStateBackend
from .options import PREFIX, DatabaseOptions
from .store import RocksDBStore

if TYPE_CHECKING:
    from ....serializers.serializer import TypeSerializer
    from .options import RocksDBOptionsFactory


class EmbeddedRocksDBStateBackend(SortedStateBackend):
    """Keyed state in RocksDB, which may be larger than the memory.

    Args:
        key: The serializer of the keys.
        max_parallelism: The number of key groups of the operator.
        key_groups: Those of this subtask.
        configuration: The configuration; by default that of the environment.
        options_factory: Changes the options of RocksDB; it replaces that of the configuration.

    Raises:
        LibraryNotFound: `rocksdict` is not installed.
        DeclarationError: The options factory of the configuration cannot be made.
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
    ) -> None:
        configuration = Configuration.of() if configuration is None else configuration
        local = configuration[f"{PREFIX}localdir"]
        if local:
            Path(local).mkdir(parents=True, exist_ok=True)
        self._folder = Path(tempfile.mkdtemp(prefix="stateshift-live-", dir=local))
        options = DatabaseOptions(configuration, options_factory)
        self._database = RocksDBStore(self._folder / "db", options.database, options.column_family)
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

    def dispose(self) -> None:
        super().dispose()
        shutil.rmtree(self._folder, ignore_errors=True)
