"""Columns of bytes of PyFlink's coders: binary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..columns.codec import plain
from ..containers.columns import BinaryCodec
from .byte_keys import ByteArrayWrapperSerializer

if TYPE_CHECKING:
    from ..columns.codec import ColumnTable

COLUMNS: ColumnTable = {ByteArrayWrapperSerializer: plain(BinaryCodec)}
