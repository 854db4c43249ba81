"""How long the values of a state live: PyFlink's `StateTtlConfig` and its builder.

Source: Flink's documentation, "State Time-To-Live (TTL)"; the names are those of `pyflink.datastream.state`.
"""

from __future__ import annotations

import enum
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.errors import DeclarationError, shown

if TYPE_CHECKING:
    from typing import Self

_COMPACTION = timedelta(days=30)


class _UpdateType(enum.Enum):
    """What renews the time stamp of a value. `Disabled`: nothing expires, and there are no time stamps."""

    Disabled = 0
    OnCreateAndWrite = 1
    OnReadAndWrite = 2


class _StateVisibility(enum.Enum):
    """Whether a value that has expired, but has not been removed yet, can be read."""

    ReturnExpiredIfNotCleanedUp = 0
    NeverReturnExpired = 1


class _TtlTimeCharacteristic(enum.Enum):
    """The time of the time stamps; Flink has only that of the clock."""

    ProcessingTime = 0


@attrs.frozen
class _IncrementalCleanupStrategy:
    """At each access of the state, some of its keys are looked at.

    Attributes:
        cleanup_size: The number of keys.
        run_cleanup_for_every_record: Whether keys are looked at for each element, too.
    """

    _cleanup_size: int = attrs.field(validator=attrs.validators.ge(1))
    _run_cleanup_for_every_record: bool

    def get_cleanup_size(self) -> int:
        """Return the number of keys that are looked at."""
        return self._cleanup_size

    def run_cleanup_for_every_record(self) -> bool:
        """Whether keys are looked at for each element, too."""
        return self._run_cleanup_for_every_record


@attrs.frozen
class _RocksdbCompactFilterCleanupStrategy:
    """Accepted as in Flink; what it promises is done at reads, checkpoints and snapshots."""

    _query_time_after_num_entries: int
    _periodic_compaction_time: timedelta = _COMPACTION

    def get_query_time_after_num_entries(self) -> int:
        """Return the number of entries after which Flink's filter looks at the clock."""
        return self._query_time_after_num_entries

    def get_periodic_compaction_time(self) -> timedelta:
        """Return the age at which Flink's RocksDB rewrites a file."""
        return self._periodic_compaction_time


@attrs.frozen
class _CleanupStrategies:
    """How expired values are removed. A value that is found expired when it is read is always removed."""

    _full_snapshot: bool = False
    _incremental: _IncrementalCleanupStrategy | None = None
    _compaction: _RocksdbCompactFilterCleanupStrategy | None = None
    _in_background: bool = True

    def is_cleanup_in_background(self) -> bool:
        """Whether the default cleanup is on."""
        return self._in_background

    def in_full_snapshot(self) -> bool:
        """Whether expired values are left out of snapshots."""
        return self._full_snapshot

    def is_done_by_snapshots(self) -> bool:
        """Whether expired values are left out of full snapshots, also in place of RocksDB's compaction filter."""
        return self._full_snapshot or self._compaction is not None

    def get_incremental_cleanup_strategy(self) -> _IncrementalCleanupStrategy | None:
        """Return how many keys are looked at for each access; None: none are."""
        default = _IncrementalCleanupStrategy(5, run_cleanup_for_every_record=False) if self._in_background else None
        return self._incremental or default

    def get_rocksdb_compact_filter_cleanup_strategy(self) -> _RocksdbCompactFilterCleanupStrategy | None:
        """Return what Flink's compaction filter would do; None: nothing."""
        return self._compaction or (_RocksdbCompactFilterCleanupStrategy(1000) if self._in_background else None)


@attrs.frozen
class StateTtlConfig:
    """How long the values of a state live, made by `StateTtlConfig.new_builder(timedelta(days=7))`.

    Attributes:
        update_type: What renews the time stamp of a value.
        state_visibility: Whether expired values can be read.
        ttl_time_characteristic: The time of the time stamps.
        ttl: The time from the last access of a value until it expires; at least a millisecond.
        cleanup_strategies: How expired values are removed.

    Raises:
        DeclarationError: `ttl` is not a timedelta of a millisecond or more.
    """

    UpdateType = _UpdateType
    StateVisibility = _StateVisibility
    TtlTimeCharacteristic = _TtlTimeCharacteristic
    CleanupStrategies = _CleanupStrategies

    _update_type: _UpdateType
    _state_visibility: _StateVisibility
    _ttl_time_characteristic: _TtlTimeCharacteristic
    _ttl: timedelta = attrs.field()
    _cleanup_strategies: _CleanupStrategies

    @_ttl.validator
    def _checked(self, _: Any, ttl: Any) -> None:
        if not isinstance(ttl, timedelta) or ttl < timedelta(milliseconds=1):
            raise DeclarationError(
                f"values cannot live for {shown(ttl)}", advice="pass a timedelta of a millisecond or more"
            )

    @staticmethod
    def new_builder(ttl: timedelta) -> StateTtlConfigBuilder:
        """Return a builder; without further calls, writes renew the time stamp, and expired values cannot be read."""
        return StateTtlConfigBuilder(ttl)

    def get_update_type(self) -> _UpdateType:
        """Return what renews the time stamp of a value."""
        return self._update_type

    def get_state_visibility(self) -> _StateVisibility:
        """Return whether expired values can be read."""
        return self._state_visibility

    def get_ttl(self) -> timedelta:
        """Return how long values live after their last access."""
        return self._ttl

    def get_ttl_time_characteristic(self) -> _TtlTimeCharacteristic:
        """Return the time of the time stamps."""
        return self._ttl_time_characteristic

    def is_enabled(self) -> bool:
        """Whether values expire at all."""
        return self._update_type is not _UpdateType.Disabled

    def get_cleanup_strategies(self) -> _CleanupStrategies:
        """Return how expired values are removed."""
        return self._cleanup_strategies


class StateTtlConfigBuilder:
    """Builds a `StateTtlConfig`; each method returns the builder."""

    def __init__(self, ttl: timedelta) -> None:
        self._ttl = ttl
        self._update_type = _UpdateType.OnCreateAndWrite
        self._state_visibility = _StateVisibility.NeverReturnExpired
        self._characteristic = _TtlTimeCharacteristic.ProcessingTime
        self._cleanup = _CleanupStrategies()

    def set_ttl(self, ttl: timedelta) -> Self:
        """Set how long values live after their last access."""
        self._ttl = ttl
        return self

    def set_update_type(self, update_type: _UpdateType) -> Self:
        """Set what renews the time stamp of a value."""
        self._update_type = update_type
        return self

    def update_ttl_on_create_and_write(self) -> Self:
        """Renew time stamps at writes only."""
        return self.set_update_type(_UpdateType.OnCreateAndWrite)

    def update_ttl_on_read_and_write(self) -> Self:
        """Renew time stamps at reads, too."""
        return self.set_update_type(_UpdateType.OnReadAndWrite)

    def set_state_visibility(self, state_visibility: _StateVisibility) -> Self:
        """Set whether expired values can be read."""
        self._state_visibility = state_visibility
        return self

    def return_expired_if_not_cleaned_up(self) -> Self:
        """Return expired values until they are removed; reading a value removes it."""
        return self.set_state_visibility(_StateVisibility.ReturnExpiredIfNotCleanedUp)

    def never_return_expired(self) -> Self:
        """Return no expired values."""
        return self.set_state_visibility(_StateVisibility.NeverReturnExpired)

    def set_ttl_time_characteristic(self, ttl_time_characteristic: _TtlTimeCharacteristic) -> Self:
        """Set the time of the time stamps."""
        self._characteristic = ttl_time_characteristic
        return self

    def use_processing_time(self) -> Self:
        """Take the time stamps from the clock."""
        return self.set_ttl_time_characteristic(_TtlTimeCharacteristic.ProcessingTime)

    def cleanup_full_snapshot(self) -> Self:
        """Leave expired values out of snapshots. The working state keeps them."""
        self._cleanup = attrs.evolve(self._cleanup, full_snapshot=True)
        return self

    def cleanup_incrementally(self, cleanup_size: int, run_cleanup_for_every_record: bool) -> Self:  # noqa: FBT001 - as in PyFlink
        """Look at some keys for each access of the state, and remove what has expired: on the heap only, as in Flink.

        Args:
            cleanup_size: The number of keys.
            run_cleanup_for_every_record: Whether keys are looked at for each element, too.
        """
        strategy = _IncrementalCleanupStrategy(cleanup_size, run_cleanup_for_every_record)
        self._cleanup = attrs.evolve(self._cleanup, incremental=strategy)
        return self

    def cleanup_in_rocksdb_compact_filter(
        self, query_time_after_num_entries: int, periodic_compaction_time: timedelta | None = None
    ) -> Self:
        """Remove what has expired from RocksDB at checkpoints, some at each, since rocksdict has no such filter.

        It is the default, too. Called explicitly, savepoints and checkpoints of the heap leave out what has expired.

        Args:
            query_time_after_num_entries: Has no effect.
            periodic_compaction_time: Has no effect.
        """
        strategy = _RocksdbCompactFilterCleanupStrategy(
            query_time_after_num_entries, periodic_compaction_time or _COMPACTION
        )
        self._cleanup = attrs.evolve(self._cleanup, compaction=strategy)
        return self

    def disable_cleanup_in_background(self) -> Self:
        """Switch the default cleanup off; what was asked for explicitly stays on."""
        self._cleanup = attrs.evolve(self._cleanup, in_background=False)
        return self

    def build(self) -> StateTtlConfig:
        """Return the configuration.

        Raises:
            DeclarationError: The time is not a timedelta of a millisecond or more.
        """
        return StateTtlConfig(self._update_type, self._state_visibility, self._characteristic, self._ttl, self._cleanup)


StateTtlConfig.Builder = StateTtlConfigBuilder  # type: ignore[attr-defined]
