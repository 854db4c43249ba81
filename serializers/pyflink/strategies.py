"""Strategies of bytes of PyFlink's coders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from ..drawing import always
from .byte_keys import ByteArrayWrapperSerializer

if TYPE_CHECKING:
    from ..drawing import StrategyTable

STRATEGIES: StrategyTable = {ByteArrayWrapperSerializer: always(st.binary(max_size=12))}
