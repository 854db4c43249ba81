"""Numbers that stand side by side, each perhaps behind a null flag: gathered at once, as one item of raw bytes.

That holds where no flag says null, which nearly always is so for the rows of a block; other blocks are decoded number
by number. Source: performance notes, "Columnar transcoding in numpy".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np
import pyarrow as pa

from .bytes_at import PADDING, matrix_at, number_array
from .optional import OptionalForm
from .scalars import BooleanForm, NumberForm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .bytes_at import Flags, Places
    from .form import Cells, ColumnForm

_LEAST = 2


@attrs.frozen
class Numbers:
    """Several columns at once.

    Attributes:
        columns: Of the numbers.
        ends: Where the last one of each row ends.
        odd: Which rows were not understood.
    """

    columns: list[pa.Array]
    ends: Places
    odd: Flags


def decode_numbers(forms: Sequence[ColumnForm], cells: Cells) -> Numbers | None:
    """Decode as many numbers and booleans as stand first; None where they are few, or one may be null."""
    formats: list[str] = []
    offsets: list[int] = []
    flags: list[int] = []
    numbers: list[NumberForm | BooleanForm] = []
    size = 0
    for form in forms:
        inner = form.value if isinstance(form, OptionalForm) and form.null_flag else form
        if not isinstance(inner, NumberForm | BooleanForm) or size + 1 + inner.size > PADDING:
            break
        if inner is not form:
            flags.append(size)
            size += 1
        formats.append(inner.form if isinstance(inner, NumberForm) else "u1")
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
        if isinstance(number, NumberForm):
            columns.append(number_array(number.type, values.astype(values.dtype.newbyteorder("="))))
        else:
            columns.append(pa.array(values == 1))
            odd |= values > 1
    return Numbers(columns, ends, odd)
