"""A limit on values with shared parts that are written as trees: far more than was stored is refused."""

from __future__ import annotations

from ..errors import ValueNotConvertible
from ..tree_size import PART, size_of_part

_LEAST_UNFOLDED = 8 << 20


class Unfolding:
    """Counts the size of a value as a tree, in which a shared part counts each time that it occurs.

    Attributes:
        left: The remaining size, in the units of `size_of_part`.
    """

    __slots__ = ("left",)

    def __init__(self, most: int) -> None:
        """Start with the largest allowed size."""
        self.left = most

    @classmethod
    def of_pickle(cls, size_bytes: int) -> Unfolding:
        """Return the limit for a pickle: what one of its size holds without sharing, and half a million parts more."""
        return cls(_LEAST_UNFOLDED + (PART + 1) * size_bytes)

    def count(self, value: object) -> None:
        """Count one part, without the parts within it.

        Raises:
            ValueNotConvertible: The limit is exceeded.
        """
        self.left -= size_of_part(value)
        if self.left < 0:
            raise ValueNotConvertible(
                "a pickled object shares its parts so often that it is far larger written out than it is stored, or it "
                "contains itself",
                advice="handle such values in a converter",
                rule="FAM-1",
            )
