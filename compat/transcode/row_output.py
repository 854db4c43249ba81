"""What an op list writes for many entries together: parts one after the other, of the same size in all, or of many.

Parts of a known size that follow one another are put together in rows, and these written at once. A part of many sizes
is written in the width of the longest: what is too much lies where something is written later, or, where that is not
so, the part is written to the byte. The order: such parts from left to right, those of keys after them, then the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from . import columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .columns import Column
    from .rows import Rows, Spot

_SIGN_SIZES = (4, 2, 1)


@attrs.define
class _Fixed:
    """A part of one size; `put` writes it into rows of bytes, from a column of these on, unless it is a constant."""

    size: int
    put: Callable[[Any, int], None] | None
    awake: Column | None
    constant: bytes = b""


@attrs.define
class _Ragged:
    """A part of many sizes, copied from places of the old bytes.

    Attributes:
        at: The places.
        sizes: Of each.
        rows: What lies there, in the width of the longest; None: it is written to the byte.
        to: Where it goes.
    """

    at: Column
    sizes: Column
    rows: Any = None
    to: Any = None


class Stencils:
    """Rows of bytes that are filled in again and again; what is the same in all of them is written but once."""

    def __init__(self) -> None:
        self._kept: dict[tuple[tuple[int, bytes], ...], Any] = {}

    def rows(self, count: int, parts: list[_Fixed]) -> Any:
        """Give rows for some parts, with the constants among them."""
        layout = tuple((part.size, part.constant) for part in parts)
        rows = self._kept.get(layout)
        if rows is None or len(rows) < count:
            rows = self._kept[layout] = np.empty((count, sum(size for size, _ in layout)), np.uint8)
            for place, part in _placed(parts):
                if part.constant:
                    kind = f"V{part.size}"
                    _assign(rows, place, kind, np.frombuffer(part.constant, kind)[0])
        return rows[:count]


class Output:
    """Takes what is written, and writes it when all entries have turned out to be sound.

    Args:
        rows: The entries.
        stencils: Of the op list.

    Attributes:
        texts: Beginnings and ends of texts whose characters are still to be looked at.
    """

    def __init__(self, rows: Rows, stencils: Stencils) -> None:
        self._rows, self._stencils = rows, stencils
        self._parts: list[_Fixed | _Ragged] = []
        self.texts: list[tuple[Spot, Spot]] = []

    def _fixed(self, size: int, put: Callable[[Any, int], None]) -> None:
        self._parts.append(_Fixed(size, put, self._rows.awake))

    def put(self, dtype: str, numbers: Column) -> None:
        """Write numbers of a type."""
        size = np.dtype(dtype).itemsize
        self._fixed(size, lambda target, to: _assign(target, to, dtype, numbers))

    def constant(self, data: bytes) -> None:
        """Write the same bytes for each."""
        self._parts.append(_Fixed(len(data), None, self._rows.awake, data))

    def piece(self, spot: Spot, size: int) -> None:
        """Copy as many bytes for each."""
        if size:
            found = self._rows.seen(spot, size)
            self._fixed(size, lambda target, to: _assign(target, to, f"V{size}", found.view(f"V{size}")[:, 0]))

    def sign(self, spot: Spot, size: int) -> None:
        """Write as many bytes that repeat the sign of the byte at a place."""
        signs = self._rows.byte(spot).view(np.int8) >> 7
        for one in _SIGN_SIZES:
            if size & one:
                self.put(f"i{one}", signs)

    def copy(self, first: Spot, last: Spot) -> None:
        """Copy what lies between two places."""
        if first.column == last.column:
            self.piece(first, last.behind - first.behind)
            return
        at, sizes = self._between(first, last)
        part = _Ragged(at, sizes if self._rows.awake is None else np.where(self._rows.awake, sizes, 0))
        self._parts.append(part)
        if self._rows.awake is None:
            part.rows = self._rows.widely(first, sizes)
            self._look_at(first, last, part)

    def _between(self, first: Spot, last: Spot) -> tuple[Column, Column]:
        """Give a place, and how many bytes lie between it and another; entries where that is not so are odd."""
        at = self._rows.at(first)
        sizes = self._rows.at(last) - at
        if len(sizes) and sizes.min() < 0:
            self._rows.decline(sizes < 0)
            sizes = np.maximum(sizes, 0)
        return at, sizes

    def _look_at(self, first: Spot, last: Spot, part: _Ragged) -> None:
        """Look at the characters of a text that is copied whole, with nothing but such bytes before it."""
        for text in self.texts:
            begin, end = text
            is_whole = end == last and begin.column == first.column and part.rows is not None
            if is_whole and all(
                self._rows.is_plain(first.moved(behind)) for behind in range(begin.behind - first.behind)
            ):
                clear = columns.have_no_top_bits(part.rows, part.sizes)
                if clear is not None:
                    self._rows.decline(~clear)
                self.texts.remove(text)
                return

    def look_at_texts(self) -> None:
        """Look at the characters of texts that are not copied, or not whole; entries with others than ASCII are odd."""
        for first, last in self.texts:
            at, sizes = self._between(first, last)
            rows = self._rows.widely(first, sizes)
            if rows is None:
                self._rows.decline(~columns.are_ascii(self._rows.buffer, at, sizes))
            elif (clear := columns.have_no_top_bits(rows, sizes)) is not None:
                self._rows.decline(~clear)
        self.texts = []

    def written(self, starts: Column, heads: Column, keys: Any) -> tuple[Any, Column]:
        """Write the entries; all must be sound.

        Args:
            starts: Where each old one begins.
            heads: Bytes of its key, with the length before it.
            keys: These, in the width of the longest; None: they are written to the byte.

        Returns:
            The new entries, and where each ends.
        """
        values = np.zeros(len(starts), np.int64)
        groups = self._grouped()
        head = _Ragged(starts, heads, keys)
        length = _Fixed(4, lambda target, to: _assign(target, to, ">i4", values), None)
        for group in groups:
            values += group.sizes if isinstance(group, _Ragged) else _sizes(group)
        sizes = values + heads + 4
        ends = np.cumsum(sizes)
        target = np.empty((int(ends[-1]) if len(ends) else 0) + columns.WIDEST + columns.PADDING, np.uint8)
        front = groups[0] if groups else None
        if isinstance(front, list) and front[0].awake is None:
            front.insert(0, length)
        else:
            groups.insert(0, [length])
        self._write(target, ends - sizes, head, groups)
        return target[: ends[-1] if len(ends) else 0].data, ends

    def _grouped(self) -> list[_Ragged | list[_Fixed]]:
        """Put parts of known sizes together that follow one another in the same entries."""
        groups: list[_Ragged | list[_Fixed]] = []
        for part in self._parts:
            if isinstance(part, _Ragged):
                groups.append(part)
            elif groups and isinstance(groups[-1], list) and groups[-1][-1].awake is part.awake:
                groups[-1].append(part)
            else:
                groups.append([part])
        return groups

    def _write(self, target: Any, to: Column, head: _Ragged, groups: list[_Ragged | list[_Fixed]]) -> None:
        fixed, ragged = [], []
        head.to = to
        at = to + head.sizes
        for group in groups:
            if isinstance(group, _Ragged):
                group.to = at
                ragged.append(group)
                at = at + group.sizes
            else:
                fixed.append((group, at))
                at = at + _sizes(group)
        for part in _in_safe_order(head, ragged):
            if part.rows is not None:
                columns.scattered(target, part.to, part.rows)
        for part in (head, *ragged):
            if part.rows is None:
                columns.copy_ragged(target, part.to, self._rows.buffer, part.at, part.sizes)
        for group, place in fixed:
            rows = self._stencils.rows(len(place), group)
            for column, one in _placed(group):
                if one.put is not None:
                    one.put(rows, column)
            awake = group[0].awake
            columns.scattered(target, *((place, rows) if awake is None else (place[awake], rows[awake])))


def _in_safe_order(head: _Ragged, ragged: list[_Ragged]) -> list[_Ragged]:
    """Give the parts in the order of writing; those that would spoil others are to be written to the byte.

    A part may run into what is written later: parts behind it in its entry, and in the next one all before the first of
    these parts.
    """
    wide = [part for part in ragged if part.rows is not None]
    if not wide:
        return [head]
    first = wide[0].to
    for part in wide:
        if (part.to[:-1] + part.rows.shape[1] > first[1:]).any():
            part.rows = None
    if head.rows is not None and (head.to + head.rows.shape[1] > first).any():
        head.rows = None
    return [*wide, head]


def _assign(target: Any, to: int, dtype: str, values: Any) -> None:
    target[:, to : to + np.dtype(dtype).itemsize].view(dtype)[:, 0] = values


def _sizes(group: list[_Fixed]) -> Any:
    size = sum(part.size for part in group)
    return size if group[0].awake is None else np.where(group[0].awake, size, 0)


def _placed(parts: list[_Fixed]) -> Iterator[tuple[int, _Fixed]]:
    """Give each of some parts that follow one another with its place."""
    place = 0
    for part in parts:
        yield place, part
        place += part.size
