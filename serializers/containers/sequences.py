"""Shared code of arrays and lists: ordered elements, and the rules FAM-4 and LIST-2 between two kinds of them.

Both are lists in Python, and hold the same elements in the same order: rewriting turns one into the other.
A set or a tuple cannot become one (LIST-3). Source: compatibility rules 4.5 and 6.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from ..compatibility import Child, CompatibilityResult, Finding, Flag, Verdict, compose
from ..serializer import KEEP_OLD_TYPE
from ..snapshot import TypeSerializerConfigSnapshot
from .optional import NullableSerializerSnapshot, OptionalSerializer
from .pieces import convert_each, outer_result
from .ttl_aware import without_ttl_awareness

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..serializer import TypeDeserializer, TypeSerializer

STEP = "[]"

Convert = Callable[[Any], Any]


class SequenceSnapshot(TypeSerializerConfigSnapshot[Any]):
    """Snapshot of an array or a list. It must be the first base class."""

    elements_may_be_null: ClassVar[bool] = False
    """Whether the bytes can hold nulls among the elements, whatever the type of the elements."""

    @abstractmethod
    def element_snapshot(self) -> TypeSerializerConfigSnapshot[Any]:
        """Return the snapshot of the elements."""

    def restore_with(self, element: TypeDeserializer[Any]) -> TypeDeserializer[Any]:
        """Return a reader of the sequence that reads the elements with `element`."""
        return self.restore_serializer()


@attrs.frozen
class SequenceConversion:
    """Converts element by element; nulls stay, and are left to the new serializer."""

    convert: Convert

    def __call__(self, value: Any) -> list[Any]:
        return convert_each(self.convert, value, STEP)


def convert_elements(conversions: Sequence[Convert | None]) -> Convert | None:
    """Return the conversion of a sequence from that of its elements, for `compose`."""
    return None if conversions[0] is None else SequenceConversion(conversions[0])


def element_child(element: TypeSerializer[Any], snapshot: SequenceSnapshot) -> Child:
    """Return the elements as a part of a composite, with the result of their new serializer."""
    stored = without_ttl_awareness(snapshot.element_snapshot())
    return Child(STEP, element, element.ensure_compatibility(stored), stored.restore_serializer)


def from_other_sequence(
    new: TypeSerializer[Any], element: TypeSerializer[Any], snapshot: SequenceSnapshot, *, takes_null: bool
) -> CompatibilityResult[Any]:
    """Judge a sequence of other bytes: an array for a list, `Integer[]` for `int[]` (FAM-4, with LIST-2).

    Args:
        new: The serializer of the new sequence.
        element: The serializer of its elements.
        snapshot: The snapshot of the stored sequence.
        takes_null: Whether the new sequence can hold nulls among its elements.
    """
    stored = without_ttl_awareness(snapshot.element_snapshot())
    if takes_null and isinstance(stored, NullableSerializerSnapshot) and not isinstance(element, OptionalSerializer):
        element = OptionalSerializer(element)  # the flag of the new sequence marks its nulls
    reason = "the same elements in the same order, in other bytes"
    flags: tuple[str, ...] = ()
    if snapshot.elements_may_be_null and not takes_null and not isinstance(element, OptionalSerializer):
        reason += "; a null among them, which the stored type allows, would fail"
        flags = (Flag.MAY_FAIL_PER_VALUE,)
    finding = Finding(
        "$", "FAM-4", Verdict.REQUIRES_MIGRATION, snapshot.describe(), new.describe(), reason,
        ("migrate the state: each element is rewritten", KEEP_OLD_TYPE), flags,
    )  # fmt: skip
    return compose(
        outer_result((finding,)),
        [element_child(element, snapshot)],
        rebuild=lambda _: new,
        convert=convert_elements,
        read_with=lambda readers: snapshot.restore_with(readers[0]),
    )
