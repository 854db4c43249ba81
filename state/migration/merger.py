"""Merging of the values of keys that become one, by a merge function.

Source: rule ROLE-4.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.containers.ttl import TtlValue
from ...serializers.errors import MigrationFailed, StateShiftError, shown
from ...serializers.limits import require_room
from ...serializers.pickled.trust import trusting
from ..entry_keys import encode
from ..formats.flink.entries import read_stored
from ..transcode.entry_layout import entry_values, map_value
from ..user_code import called

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...compat.plan import Merging

_WAY_OUT = "correct the merge function, or let the key_converter of the operator keep the keys apart"


@attrs.frozen
class Merger:
    """Merges the stored values of entries by a merge function, as planned."""

    merging: Merging

    def merged(self, values: Sequence[bytes]) -> bytes | None:
        """Merge values from left to right; return None if the result is an empty list.

        Raises:
            ValueNotConvertible: The function failed, or its result is not a value of the state.
        """
        result = reduce(self._both, map(self._read, values))
        kind = self.merging.serializer
        try:
            data = called(
                lambda: self._written(result),
                lambda: f"{self._name} returned {shown(result)}, which cannot be written as {kind.describe()}",
            )
        except StateShiftError as error:
            error.advice = error.advice or _WAY_OUT
            raise
        if data is not None:
            require_room(len(data))
            self._prove(result, data)
        return data

    def _prove(self, value: Any, data: bytes) -> None:
        """Check that the serializer reads the written value, and writes the same bytes again (rule RUN-7)."""
        with trusting(()):  # pickles are not opened: their bytes are not always the same
            again = self._written(self._read(data))
        if again != data:
            raise MigrationFailed(
                f"the serializer does not write the same bytes from which it read {shown(value)}",
                rule="RUN-7",
                advice="make the serializer deterministic; nothing is published",
            )

    @property
    def _name(self) -> str:
        return f"the merge function {self.merging.merge.name}"

    def _both(self, first: Any, second: Any) -> Any:
        if isinstance(first, TtlValue) and isinstance(second, TtlValue):
            value = self._called(first.value, second.value)
            return TtlValue(max(first.last_access_ms, second.last_access_ms), value)
        return self._called(first, second)

    def _called(self, first: Any, second: Any) -> Any:
        return called(
            lambda: self.merging.merge.function(first, second),
            lambda: f"{self._name} failed on {shown(first)} and {shown(second)}",
            _WAY_OUT,
        )

    def _read(self, data: bytes) -> Any:
        return read_stored(self.merging.kind, self.merging.serializer, data)

    def _written(self, value: Any) -> bytes | None:
        """Write a merged value. None is an error even for a list: the function may lack a return statement."""
        kind, serializer = self.merging.kind, self.merging.serializer
        if kind.has_user_keys:
            return map_value(serializer, value)
        if not kind.has_elements or value is None:
            return encode(serializer, value)
        entries = entry_values(kind, serializer, value)
        return entries[0][1] if entries else None
