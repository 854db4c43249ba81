"""The column codecs, with JSON for values that no other codec takes.

a recursive record, an Avro union, a tuple or row without fields, your own serializer   the JSON that `export` writes
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.columns.codec import Codecs
from ...serializers.columns.scalars import TextCodec
from ...serializers.json_forms import tagger_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from ...serializers.columns.codec import ColumnCodec, Taker


def all_codecs(*, exact: bool = False) -> Codecs:
    """Return a factory of column codecs; `exact` as in `Codecs`."""
    return Codecs(JsonCodec, exact)


@attrs.frozen(slots=False)
class JsonCodec(TextCodec):
    """Values without a column type of their own: read as JSON, and written one by one.

    Attributes:
        taken: The codec of the values that the serializer takes from a column; None: it takes any.
    """

    taken: ColumnCodec | None = None

    @cached_property
    def _tagger(self) -> Callable[[Any], Any]:
        return tagger_of(self.serializer.snapshot_configuration())

    def _arrow_value(self, value: Any) -> Any:
        return super()._arrow_value(json.dumps(self._tagger(value), sort_keys=True))

    def mismatches(self, kind: pa.DataType, path: str = "") -> Iterator[tuple[str, str]]:
        return iter(()) if self.taken is None else self.taken.mismatches(kind, path)

    def taker(self) -> Taker | None:
        return None if self.taken is None else self.taken.taker()

    def within(self, kind: pa.DataType, path: str) -> Iterator[tuple[ColumnCodec, pa.DataType, str]]:
        return iter(()) if self.taken is None else self.taken.within(kind, path)
