"""Values that are told one by one: of Avro, of circles, and of serializers that are not built in.

Avro                       as the same type among stateshift's own (rule FAM-4): records as structs, and so on
a record within itself     text: the JSON that `stateshift export` writes
your own serializer        the same
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs

from ..savepoint.json_encoding import tagger_of
from .form import ColumnForm
from .scalars import TextForm

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa


@attrs.frozen(slots=False)
class JsonForm(TextForm):
    """What no column holds by its type, as JSON."""

    @cached_property
    def _tagger(self) -> Callable[[Any], Any]:
        return tagger_of(self.serializer.snapshot_configuration())

    def _told(self, value: Any) -> Any:
        return super()._told(json.dumps(self._tagger(value), sort_keys=True))


@attrs.frozen
class CounterpartForm(ColumnForm):
    """What has the same type among stateshift's own.

    Attributes:
        own: The form of that type.
        to_own: Turns a value into one of that type.
    """

    own: ColumnForm
    to_own: Callable[[Any], Any]

    @property
    def kind(self) -> pa.DataType:
        return self.own.kind

    def _told(self, value: Any) -> Any:
        return self.own.tell(self.to_own(value))
