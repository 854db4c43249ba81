"""The column codecs, with JSON for values that no other codec takes.

a recursive record, an Avro union, a tuple or row without fields, your own serializer   the JSON that `export` writes
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.columns.factory import Codecs
from ...serializers.columns.scalars import TextCodec
from ..savepoint.json_encoding import tagger_of

if TYPE_CHECKING:
    from collections.abc import Callable


def all_codecs(*, exact: bool = False) -> Codecs:
    """Return a factory of column codecs; `exact` as in `Codecs`."""
    return Codecs(JsonCodec, exact)


@attrs.frozen(slots=False)
class JsonCodec(TextCodec):
    """Values without a column type of their own, as JSON."""

    @cached_property
    def _tagger(self) -> Callable[[Any], Any]:
        return tagger_of(self.serializer.snapshot_configuration())

    def _told(self, value: Any) -> Any:
        return super()._told(json.dumps(self._tagger(value), sort_keys=True))
