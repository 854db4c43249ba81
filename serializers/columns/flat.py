"""What machine code does for columns: it decodes adjacent numbers, booleans and strings in one pass over the rows.

The machine code itself is above the model, and handed in with the places of the values (`Cells.decode_flat`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from .bytes_at import Bytes, Flags, Places

    DecodeFlat = Callable[[Bytes, Places, Places, Flags, list[int], list[bool]], "Flat"]
    """Decodes numbers, booleans and strings by machine code.

    Its arguments are the padded bytes, the position of the first part in each row, the position that each row must not
    go past, whether each row has a value (the others take no bytes, and all their parts are null), for each part the
    number of bytes of a number or `TEXT`, and for each part whether it has a null flag before it.
    """

TEXT = 0
"""The size of a part that is a string."""


@attrs.frozen
class Flat:
    """Parts of many rows as machine code decodes them; the first three lists have one item for each part.

    Attributes:
        numbers: For a number its big-endian bytes in each row, 0 where it is null; empty for a string.
        texts: For a string the offsets of the rows, with the end of the last row, and the bytes of all rows.
        present: Whether each row has a value.
        ends: The position after the last part of each row.
        odd: Whether each row is odd: it could not be decoded.
    """

    numbers: list[Bytes]
    texts: list[tuple[np.ndarray[Any, Any], Bytes]]
    present: list[Flags]
    ends: Places
    odd: Flags
