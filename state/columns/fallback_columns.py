"""Columns of values that are converted one by one: Avro, recursive records, and serializers that are not built in.

Avro                       as the equivalent built-in type (rule FAM-4): records as structs, and so on
a recursive record         text: the JSON that `stateshift export` writes
your own serializer        the same
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.json_forms import tagger_of
from .form import ColumnForm
from .scalars import TextForm

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa


@attrs.frozen(slots=False)
class JsonForm(TextForm):
    """Values without a column type of their own, as JSON."""

    @cached_property
    def _tagger(self) -> Callable[[Any], Any]:
        return tagger_of(self.serializer.snapshot_configuration())

    def _told(self, value: Any) -> Any:
        return super()._told(json.dumps(self._tagger(value), sort_keys=True))


@attrs.frozen
class CounterpartForm(ColumnForm):
    """Values that have an equivalent built-in type.

    Attributes:
        own: The form of the built-in type.
        to_own: Converts a value to the built-in type.
    """

    own: ColumnForm
    to_own: Callable[[Any], Any]

    @property
    def kind(self) -> pa.DataType:
        return self.own.kind

    def _told(self, value: Any) -> Any:
        return self.own.tell(self.to_own(value))
