"""Values that share their parts, written out as trees: counted, and ended where there is far more than was stored."""

from __future__ import annotations

from ..errors import ValueNotConvertible
from ..tree_size import PART, size_of_part

_LEAST_UNFOLDED = 8 << 20


class Unfolding:
    """Counts what a value is as a tree, in which a part that is shared stands as often as it is met.

    Attributes:
        left: How much more there may be, as `size_of_part` counts.
    """

    __slots__ = ("left",)

    def __init__(self, most: int) -> None:
        """Begin with what there may be in all."""
        self.left = most

    @classmethod
    def of_pickle(cls, size_bytes: int) -> Unfolding:
        """Give as much as a pickle of that size holds without sharing, and half a million parts more."""
        return cls(_LEAST_UNFOLDED + (PART + 1) * size_bytes)

    def count(self, value: object) -> None:
        """Count one part, without those within it.

        Raises:
            ValueNotConvertible: There are too many.
        """
        self.left -= size_of_part(value)
        if self.left < 0:
            raise ValueNotConvertible(
                "a pickled object shares its parts so often that it is far larger written out than it is stored, or it "
                "contains itself",
                advice="let a converter say what becomes of such a value",
                rule="FAM-1",
            )
