"""Columns of pickled values: binary, the bytes of the pickle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...serializers.pickled.serializers import CloudPickleSerializer, PickleSerializer, UnopenedPickleSerializer
from .factory import plain
from .scalars import FramedBytesCodec

if TYPE_CHECKING:
    from .factory import ColumnTable

_PICKLES = (UnopenedPickleSerializer, PickleSerializer, CloudPickleSerializer)

COLUMNS: ColumnTable = dict.fromkeys(_PICKLES, plain(FramedBytesCodec))
