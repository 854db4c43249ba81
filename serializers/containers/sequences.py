"""Shared code of arrays and lists: ordered elements, and the rules FAM-4 and LIST-2 between two kinds of them.

Both are lists in Python, and hold the same elements in the same order: rewriting turns one into the other.
A set or a tuple cannot become one (LIST-3). Source: compatibility rules 4.5 and 6.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from .. import recipe
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


def sequence_recipe(
    reader: TypeDeserializer[Any],
    conversion: Convert | None,
    element: TypeSerializer[Any],
    *,
    is_flagged: bool = False,
    takes_null: bool = False,
) -> recipe.Recipe | None:
    """Return the recipe of a sequence from that of its elements.

    Args:
        reader: The reader of a sequence of this package; its `flags_elements` says whether each element has a flag "is
            present".
        conversion: The conversion of the sequence.
        element: The serializer that writes the elements.
        is_flagged: Whether each new element has such a flag.
        takes_null: Whether that flag may mark a null in the new sequence.
    """
    was_flagged = getattr(reader, "flags_elements", None)
    if was_flagged is None or not (conversion is None or isinstance(conversion, SequenceConversion)):
        return None
    stored: Any = reader
    item = recipe.recipe_of(stored.element, None if conversion is None else conversion.convert, element)
    if item is None:
        return None
    if was_flagged:
        null = b"\0" if is_flagged and takes_null else None
        item = recipe.Nullable(
            recipe.present(item), null_flag=0, value_flag=1, present=b"\1" if is_flagged else b"", null=null
        )
    elif is_flagged:
        item = recipe.Sequence((recipe.present(item),), (b"\1", 0))
    return recipe.Counted(item)


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
        ("migrate the state: each element is written again", KEEP_OLD_TYPE), flags,
    )  # fmt: skip
    return compose(
        outer_result((finding,)),
        [element_child(element, snapshot)],
        rebuild=lambda _: new,
        convert=convert_elements,
        read_with=lambda readers: snapshot.restore_with(readers[0]),
    )
