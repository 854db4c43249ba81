"""Decoding of adjacent plain parts at once, each optionally after a null flag.

Machine code decodes part by part, row by row. numpy gathers numbers and booleans as one item of raw bytes, if no row of
a block has a null, which is nearly always the case; other blocks are decoded number by number.
Source: performance notes, "Columnar transcoding in numpy".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np
import pyarrow as pa

from .bytes_at import PADDING, bitmap, matrix_at, none, number_array
from .flat import TEXT
from .optional import OptionalCodec
from .scalars import BooleanCodec, NumberCodec, StringCodec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .bytes_at import Flags, Places
    from .codec import Cells, ColumnCodec

_LEAST = 2


@attrs.frozen
class Parts:
    """Several decoded columns.

    Attributes:
        columns: The columns of the parts.
        ends: The position after the last part of each row.
        odd: Whether each row is odd: it could not be decoded.
    """

    columns: list[pa.Array]
    ends: Places
    odd: Flags


def decode_flat(codecs: Sequence[ColumnCodec], cells: Cells) -> Parts | None:
    """Decode the leading numbers, booleans and strings by machine code; return None if it does not apply.

    Args:
        codecs: The codecs of the parts.
        cells: The positions of the first part in each row.
    """
    if cells.decode_flat is None:
        return None
    bare: list[ColumnCodec] = []
    flagged: list[bool] = []
    for codec in codecs:
        inner = (
            codec.value if isinstance(codec, OptionalCodec) and codec.null_flag == 1 and not codec.padding else codec
        )
        if not isinstance(inner, NumberCodec | BooleanCodec) and type(inner) is not StringCodec:
            break
        bare.append(inner)
        flagged.append(inner is not codec)
    if len(bare) < _LEAST and not any(isinstance(codec, StringCodec) for codec in bare):
        return None
    sizes = [TEXT if isinstance(codec, StringCodec) else codec.size for codec in bare]
    found = cells.decode_flat(cells.data, cells.starts, cells.limits, ~none(len(cells)), sizes, flagged)
    columns, odd = [], found.odd
    for codec, number, text, there in zip(bare, found.numbers, found.texts, found.present, strict=True):
        if isinstance(codec, NumberCodec):
            values = number.view(codec.form).astype(np.dtype(codec.form).newbyteorder("="))
            columns.append(number_array(codec.kind, values, there))
        elif isinstance(codec, BooleanCodec):
            columns.append(pa.array(number == 1, mask=None if there.all() else ~there))
            odd |= number > 1
        else:
            buffers = [bitmap(there), pa.py_buffer(text[0]), pa.py_buffer(text[1])]
            columns.append(pa.Array.from_buffers(pa.string(), len(cells), buffers))
    return Parts(columns, found.ends, odd)


def decode_numbers(codecs: Sequence[ColumnCodec], cells: Cells) -> Parts | None:
    """Decode the leading numbers and booleans; return None where they are few, or one of them is null."""
    formats: list[str] = []
    offsets: list[int] = []
    flags: list[int] = []
    numbers: list[NumberCodec | BooleanCodec] = []
    size = 0
    for codec in codecs:
        inner = codec.value if isinstance(codec, OptionalCodec) and codec.null_flag else codec
        if not isinstance(inner, NumberCodec | BooleanCodec) or size + 1 + inner.size > PADDING:
            break
        if inner is not codec:
            flags.append(size)
            size += 1
        formats.append(inner.form if isinstance(inner, NumberCodec) else "u1")
        offsets.append(size)
        numbers.append(inner)
        size += inner.size
    if len(numbers) < _LEAST:
        return None
    names = [str(index) for index in range(len(numbers))]
    flag_names = [f"flag {offset}" for offset in flags]
    dtype = np.dtype(
        {"names": [*names, *flag_names], "formats": [*formats, *("u1" for _ in flags)], "offsets": [*offsets, *flags],
         "itemsize": size}
    )  # fmt: skip
    found = matrix_at(cells.data, cells.starts, size).view(dtype)
    if any(found[name].any() for name in flag_names):
        return None
    ends, odd = cells.skipped(size)
    columns = []
    for name, number in zip(names, numbers, strict=True):
        values = found[name]
        if isinstance(number, NumberCodec):
            columns.append(number_array(number.kind, values.astype(values.dtype.newbyteorder("="))))
        else:
            columns.append(pa.array(values == 1))
            odd |= values > 1
    return Parts(columns, ends, odd)
