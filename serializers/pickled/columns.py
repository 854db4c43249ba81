"""Columns of pickled values: binary, the bytes of the pickle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..columns.codec import plain
from ..columns.scalars import FramedBytesCodec
from .serializers import CloudPickleSerializer, PickleSerializer, UnopenedPickleSerializer

if TYPE_CHECKING:
    from ..columns.codec import ColumnTable

_PICKLES = (UnopenedPickleSerializer, PickleSerializer, CloudPickleSerializer)

COLUMNS: ColumnTable = dict.fromkeys(_PICKLES, plain(FramedBytesCodec))
