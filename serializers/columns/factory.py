"""The codec of each serializer: that of its family, else that of its counterpart, else JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ..errors import OldReaderUnavailable
from ..families import Ability, families
from .codec import ColumnCodec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa

    from ..serializer import TypeSerializer

    Maker = Callable[["Codecs", Any], ColumnCodec]
    """Returns the codec of a serializer, made with those of its parts."""
    ColumnTable = Mapping[type, Maker]
    """The table of `Ability.COLUMNS`."""


@attrs.frozen
class Codecs:
    """A factory of column codecs.

    Attributes:
        other: Makes the codec of values without a column type of their own. Its arguments are the serializer, and the
            codec of the values that it takes from a column; None: it takes any.
        exact: Whether big numbers and times become text, and rows have their kind: exactly as they are stored.
    """

    other: Callable[[TypeSerializer[Any], ColumnCodec | None], ColumnCodec]
    exact: bool = False

    def of(self, serializer: TypeSerializer[Any]) -> ColumnCodec:
        """Return the codec of a serializer's values; it must read generic values, as restored serializers do."""
        make: Maker | None = families.find(Ability.COLUMNS, type(serializer))
        if make is not None:
            return make(self, serializer)
        counterpart = serializer.snapshot_configuration().counterpart()
        if counterpart is None:
            return self.other(serializer, self._inherited(serializer))
        try:
            own = counterpart.serializer.snapshot_configuration().restore_serializer()
        except OldReaderUnavailable:  # an Avro union, which has no equivalent
            return self.other(serializer, None)
        return CounterpartCodec(serializer, self.of(own), counterpart.to_own)

    def _inherited(self, serializer: TypeSerializer[Any]) -> ColumnCodec | None:
        """Return the codec of the nearest base class: a subclass takes its values, though it may write other bytes."""
        makers = (families.find(Ability.COLUMNS, cls) for cls in type(serializer).__mro__[1:])
        make: Maker | None = next((make for make in makers if make is not None), None)
        return None if make is None else make(self, serializer)


def plain(make: Callable[[Any], ColumnCodec]) -> Maker:
    """Return a maker of codecs that depend on nothing but the serializer."""
    return lambda _, serializer: make(serializer)


@attrs.frozen
class CounterpartCodec(ColumnCodec):
    """Values that have an equivalent built-in type.

    Attributes:
        own: The codec of the built-in type.
        to_own: Converts a value to the built-in type.
    """

    own: ColumnCodec
    to_own: Callable[[Any], Any]

    @property
    def kind(self) -> pa.DataType:
        return self.own.kind

    def _told(self, value: Any) -> Any:
        return self.own.tell(self.to_own(value))
