"""The options of RocksDB by the configuration, and the memory that all databases of a process share."""

from __future__ import annotations

import importlib
import warnings
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import attrs

from ....serializers.errors import DeclarationError, shown
from ...rocksdb.database import require_library
from ...rocksdb.ranges import key_groups_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..configuration import Configuration

PREFIX = "state.backend.rocksdb."
_SORTED_RUNS, _SLOW_AFTER = 12, 16
"""With universal compaction a read looks into up to 12 files, which filters make cheap. RocksDB's default of 4 writes
almost three times as much into incremental checkpoints (`benchmarks.incremental`)."""
_PART_RUNS, _STEPS = 16, 8
"""Parts of a divided state get a file at the same checkpoints. So that they are not merged at the same ones, each waits
for two files more than the part before; the first for 16, since with 12 every second checkpoint had a merged part."""
_COMPRESSION = {
    "NO_COMPRESSION": "none",
    "SNAPPY_COMPRESSION": "snappy",
    "ZLIB_COMPRESSION": "zlib",
    "BZLIB2_COMPRESSION": "bz2",
    "LZ4_COMPRESSION": "lz4",
    "LZ4HC_COMPRESSION": "lz4hc",
    "ZSTD_COMPRESSION": "zstd",
}


@runtime_checkable
class RocksDBOptionsFactory(Protocol):
    """Changes the options of a database, as Flink's `RocksDBOptionsFactory`; the objects are those of `rocksdict`."""

    def create_db_options(self, current_options: Any) -> Any:
        """Return the options of the database: the given ones, changed."""

    def create_column_options(self, current_options: Any) -> Any:
        """Return the options of a column family, that is of a state: the given ones, changed."""

    def configure(self, configuration: Configuration) -> RocksDBOptionsFactory:
        """Return a factory with this configuration, usually itself."""


@attrs.frozen
class Memory:
    """A block cache, and the write buffers that are charged to it.

    Attributes:
        cache: `rocksdict.Cache`.
        buffers: `rocksdict.WriteBufferManager`.
    """

    cache: Any
    buffers: Any

    @classmethod
    def of(cls, size: int, buffer_ratio: float) -> Memory:
        """Divide a number of bytes; as in Flink, write buffers may exceed their limit by half."""
        library = require_library()
        memory = library.Cache(int((3 - buffer_ratio) * size / 3))
        limit = int(2 * size * buffer_ratio / 3)
        manager = library.WriteBufferManager.new_write_buffer_manager_with_cache(limit, allow_stall=False, cache=memory)
        return cls(memory, manager)


@cache
def _memory_of_process(size: int, buffer_ratio: float) -> Memory:
    """Return the memory of all databases of this process that have this configuration."""
    return Memory.of(size, buffer_ratio)


class DatabaseOptions:
    """Makes the options of a database and of its column families.

    Args:
        configuration: The configuration.
        factory: Changes the options; by default that of the configuration, if it names one.

    Raises:
        DeclarationError: The factory cannot be imported, or lacks a method.
    """

    def __init__(self, configuration: Configuration, factory: RocksDBOptionsFactory | None = None) -> None:
        self._library, self._configuration = require_library(), configuration
        named = self._value("options-factory")
        self._factory = factory if factory is not None or not named else _imported(named)
        if self._factory is not None:
            self._factory = self._factory.configure(configuration)
        self._memory = self._shared_memory()
        if self._memory is not None and self._factory is not None:
            warnings.warn(
                "the memory of RocksDB is managed, so sizes of caches and block formats that the options factory sets"
                f" are replaced; set {PREFIX}memory.managed to false to keep them",
                UserWarning,
                stacklevel=3,
            )

    def apply(self, database: Any, families: Mapping[str, Any]) -> None:
        """Change the options of a stored database, and those of its column families."""
        self.database(database)
        for name, family in families.items():
            self.column_family(name, family)

    def database(self, options: Any = None) -> Any:
        """Return the options of the database: the given ones, changed, or new ones."""
        options, value = self._library.Options(raw_mode=True) if options is None else options, self._value
        options.create_if_missing(create_if_missing=True)
        options.create_missing_column_families(create_missing_cfs=True)
        options.set_use_fsync(False)
        options.set_stats_dump_period_sec(0)
        options.set_max_background_jobs(value("thread.num"))
        options.set_max_open_files(value("files.open"))
        options.set_max_log_file_size(value("log.max-file-size"))
        options.set_keep_log_file_num(value("log.file-num"))
        if value("log.dir"):
            options.set_db_log_dir(value("log.dir"))
        if self._factory is not None:
            options = self._factory.create_db_options(options)
        if self._memory is not None:
            options.set_write_buffer_manager(self._memory.buffers)
        return options

    def column_family(self, name: str, options: Any = None) -> Any:
        """Return the options of the column family of a name: the given ones, changed, or new ones."""
        library, value = self._library, self._value
        options = library.Options(raw_mode=True) if options is None else options
        style = value("compaction.style").lower()
        if style == "none":
            options.set_disable_auto_compactions(True)
        else:
            options.set_compaction_style(getattr(library.DBCompactionStyle, style)())
        if style == "universal":
            runs = _sorted_runs(key_groups_of(name))
            options.set_level_zero_file_num_compaction_trigger(runs)
            options.set_level_zero_slowdown_writes_trigger(runs + _SLOW_AFTER)
            options.set_level_zero_stop_writes_trigger(runs + 2 * _SLOW_AFTER)
        options.set_level_compaction_dynamic_level_bytes(value("compaction.level.use-dynamic-size"))
        options.set_target_file_size_base(value("compaction.level.target-file-size-base"))
        options.set_max_bytes_for_level_base(value("compaction.level.max-size-level-base"))
        options.set_write_buffer_size(value("writebuffer.size"))
        options.set_max_write_buffer_number(value("writebuffer.count"))
        options.set_min_write_buffer_number_to_merge(value("writebuffer.number-to-merge"))
        kinds = [_compression(library, name) for name in value("compression.per.level")]
        if len(kinds) == 1:
            options.set_compression_type(kinds[0])
        elif kinds:
            options.set_compression_per_level(kinds)
        options.set_block_based_table_factory(self._blocks())
        if self._factory is not None:
            options = self._factory.create_column_options(options)
        if self._memory is not None:
            options.set_block_based_table_factory(self._blocks())
        return options

    def _blocks(self) -> Any:
        """Return the options of the files' blocks; with managed memory the cache has their indexes and filters, too."""
        blocks, value = self._library.BlockBasedOptions(), self._value
        blocks.set_block_size(value("block.blocksize"))
        blocks.set_metadata_block_size(value("block.metadata-blocksize"))
        if value("use-bloom-filter"):
            blocks.set_bloom_filter(value("bloom-filter.bits-per-key"), block_based=False)
        if self._memory is None:
            blocks.set_block_cache(self._library.Cache(value("block.cache-size")))
            return blocks
        blocks.set_block_cache(self._memory.cache)
        blocks.set_cache_index_and_filter_blocks(True)
        blocks.set_pin_l0_filter_and_index_blocks_in_cache(True)
        if value("memory.partitioned-index-filters"):
            blocks.set_index_type(self._library.BlockBasedIndexType.two_level_index_search())
            blocks.set_partition_filters(True)
            blocks.set_pin_top_level_index_and_filter(True)
        return blocks

    def _shared_memory(self) -> Memory | None:
        ratio, fixed = self._value("memory.write-buffer-ratio"), self._value("memory.fixed-per-slot")
        if fixed:
            return Memory.of(fixed, ratio)
        if self._value("memory.managed"):
            return _memory_of_process(self._value("memory.fixed-per-tm"), ratio)
        return None

    def _value(self, name: str) -> Any:
        return self._configuration[PREFIX + name]


def _sorted_runs(part: range | None) -> int:
    """Return with how many files a column family is merged, which has some key groups or all."""
    return _SORTED_RUNS if part is None else _PART_RUNS + 2 * (part.start // len(part) % _STEPS)


def _compression(library: Any, name: str) -> Any:
    if name.upper() not in _COMPRESSION:
        raise DeclarationError(
            f"{name!r} is not a compression of RocksDB", advice=f"choose from {', '.join(_COMPRESSION)}"
        )
    return getattr(library.DBCompressionType, _COMPRESSION[name.upper()])()


def _imported(name: str) -> RocksDBOptionsFactory:
    module, _, attribute = name.partition(":")
    try:
        made = getattr(importlib.import_module(module), attribute)()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise DeclarationError(
            f"{PREFIX}options-factory is {shown(name)}, which cannot be made: {error}",
            advice="name a class that takes no arguments, as module:class",
        ) from error
    if not isinstance(made, RocksDBOptionsFactory):
        raise DeclarationError(
            f"{PREFIX}options-factory is {shown(name)}, which lacks a method",
            advice="define create_db_options, create_column_options and configure",
        )
    return made
