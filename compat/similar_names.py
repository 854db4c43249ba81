"""Names that are alike, as one that was changed and what it was before: a name is looked for among many at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SIMILAR = 0.6
"""How alike two names are, at least: what difflib takes by default."""
_LONGEST = 100
"""Of longer names no bound is computed, so that it needs little memory whatever names a file has."""
_LETTERS = 128


class SimilarNames:
    """Names among which similar ones are looked for.

    `difflib.SequenceMatcher` decides, which takes long: so it decides only where the longest common subsequence, which
    is as long as what it finds or longer, allows that two names are similar. That of one name with each of the others
    takes a few operations on integers, in which each of the others has a span of bits, one for each letter.

    Source: Hyyrö, Bit-parallel LCS-length computation revisited (2004).
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._spans: _Spans | None = None

    def like(self, name: str) -> Iterator[int]:
        """Yield the indexes of the similar names."""
        from difflib import SequenceMatcher  # seldom needed, and slow to import

        if self._spans is None:
            self._spans = _Spans.of(self._names)
        most = self._spans.most_in_common(name) if len(name) <= _LONGEST else None
        matcher = SequenceMatcher(b=name)
        for index, one in enumerate(self._names):
            if most is not None and len(one) <= _LONGEST and 2 * most[index] < _SIMILAR * (len(name) + len(one)):
                continue
            matcher.set_seq1(one)
            if all(ratio() >= _SIMILAR for ratio in (matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio)):
                yield index


@attrs.frozen(eq=False)
class _Spans:
    """Names as spans of bits, each of so many bytes, with a free bit that keeps additions of spans apart.

    Attributes:
        size: The number of bytes of a span.
        letters: The bits at which a letter stands, by the letter; some letters that few names have share theirs.
        every: The bits of all letters.
        lengths: The lengths of the names; 0 for those that are too long.
    """

    size: int
    letters: dict[str, int]
    every: int
    lengths: Sequence[int]

    @classmethod
    def of(cls, names: Sequence[str]) -> _Spans:
        short = [name if len(name) <= _LONGEST else "" for name in names]
        lengths = [len(name) for name in short]
        size = max(lengths, default=0) // 8 + 1
        text = "".join(_folded(name).ljust(8 * size) for name in short)[::-1]  # the last letter is the lowest bit
        within = "".join("1" * length + "0" * (8 * size - length) for length in lengths)[::-1]
        places = {letter: text.translate(_Is(letter)) for letter in set(text)}
        return cls(size, {letter: int(bits, 2) for letter, bits in places.items()}, int(within or "0", 2), lengths)

    def most_in_common(self, name: str) -> list[int]:
        """Return the length of the longest common subsequence with each name, or more."""
        left = self.every  # a bit is cleared where the common subsequence gets longer
        for letter in _folded(name):
            met = left & self.letters.get(letter, 0)
            left = (left + met | left - met) & self.every
        spans, size = left.to_bytes(len(self.lengths) * self.size, "little"), self.size
        ends = range(0, len(spans), size)
        return [
            length - int.from_bytes(spans[at : at + size], "little").bit_count()
            for at, length in zip(ends, self.lengths, strict=True)
        ]


class _Is(dict[int, str]):
    """A table for `str.translate`: 1 for a letter, 0 for each other one."""

    def __init__(self, letter: str) -> None:
        super().__init__({ord(letter): "1"})

    def __missing__(self, _: int) -> str:
        return "0"


def _folded(name: str) -> str:
    """Return a name in which letters that are counted as one are one: what they have in common is no less."""
    return name if name.isascii() else "".join(chr(ord(letter) % _LETTERS) for letter in name)
