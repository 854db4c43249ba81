"""The machine code for columns, by the executor; numba is imported on its first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..transcode.choice import ExecutorName

if TYPE_CHECKING:
    from ...serializers.columns.bytes_at import DecodeFlat, Flat


def flat_decoder(executor: ExecutorName) -> DecodeFlat | None:
    """Return what decodes adjacent numbers, booleans and strings by machine code; None for other executors."""
    return _decode_flat if executor is ExecutorName.NUMBA else None


def _decode_flat(*arguments: Any) -> Flat:
    from .flat_numba import decode_flat

    return decode_flat(*arguments)
