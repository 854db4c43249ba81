"""Shared code of lists, sets, maps, tuples and arrays: writing and converting their parts, and finding duplicates.

Arrays and lists have ordered elements; the rules FAM-4 and LIST-2 between two kinds of them are here. Both are lists in
Python, and hold the same elements in the same order: rewriting turns one into the other. A set or a tuple cannot become
one (LIST-3). Source: compatibility rules 4.5 and 6.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from ..compatibility import Child, CompatibilityResult, Finding, Flag, Flagged, Nulls, Verdict, compose, worst
from ..errors import (
    CorruptSavepoint,
    ValueNotConvertible,
    ValuesCollide,
    at_step,
    cause_text,
    shown,
)
from ..serializer import KEEP_OLD_TYPE, unrelated
from ..snapshot import TypeSerializerConfigSnapshot
from ..views import DataInputView, DataOutputView
from ..ways_out import by_migration
from .wrappers import NullableSerializerSnapshot, OptionalSerializer, without_ttl_awareness

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..serializer import TypeDeserializer, TypeSerializer

NULLS_UNTOLD = "Flink does not say whether nulls are stored here; one would fail"


def encode_each(serializer: TypeSerializer[Any], items: Iterable[Any], step: str) -> list[bytes]:
    """Return the bytes of each item; `step` is added to an error's path."""
    scratch, ends = DataOutputView(), [0]
    with at_step(step):
        for item in items:
            serializer.serialize(item, scratch)
            ends.append(len(scratch))
    data = scratch.getvalue()
    return [data[start:end] for start, end in itertools.pairwise(ends)]


def convert_each(convert: Callable[[Any], Any], items: Iterable[Any], step: str) -> list[Any]:
    """Convert each item but nulls, which are left to the new serializer; `step` is added to an error's path."""
    with at_step(step):
        return [None if item is None else convert(item) for item in items]


def unique(items: Sequence[Any], which: str, step: str, rule: str | None = None) -> frozenset[Any]:
    """Return the items as a set, and refuse equal items.

    Args:
        items: The items that must differ.
        which: The beginning of the error message, in the plural: `elements of a set become`.
        step: The path step to an item.
        rule: The rule that requires the check, if any.

    Raises:
        ValuesCollide: Two items are equal.
        ValueNotConvertible: An item cannot be hashed.
    """
    try:
        distinct = frozenset(items)
    except TypeError as error:
        raise ValueNotConvertible(
            f"{which} values that are not hashable in Python: {cause_text(error)}",
            advice="use a type whose values are immutable, such as a frozen class, a tuple or a frozenset",
            path="$" + step,
        ) from error
    if len(distinct) < len(items):
        twin = Counter(items).most_common(1)[0][0]
        raise ValuesCollide(
            f"two {which} the same: {shown(twin)}",
            advice="let a converter keep them apart, or keep the old type",
            path="$" + step,
            rule=rule,
        )
    return distinct


def unique_as_stored(
    items: Sequence[Any], source: DataInputView, places: Sequence[tuple[int, int]], what: str, step: str
) -> frozenset[Any]:
    """Return items that were read as a set, and refuse equal items; the error depends on whether their bytes are equal.

    Args:
        items: The items that were read.
        source: The view that they were read from.
        places: Start and end of each item in `source`.
        what: What the items are, in the plural: `keys of a map`.
        step: The path step to an item.

    Raises:
        CorruptSavepoint: Two items have the same bytes, which no writer produces.
        ValuesCollide: Two items are equal in Python but have different bytes, such as 1.0 and 1.00.
        ValueNotConvertible: An item cannot be hashed.
    """
    try:
        return unique(items, f"stored {what} are, for Python,", step)
    except ValuesCollide as error:
        stored = Counter(source.part(start, end - start).peek(end - start) for start, end in places)
        if len(stored) < len(places):
            raise CorruptSavepoint(f"two {what} are the same", offset=places[0][0], path="$" + step) from error
        raise


def keep_null_flag(
    serializer: TypeSerializer[Any], stored: TypeSerializerConfigSnapshot[Any], step: str, *, nullable: bool
) -> tuple[TypeSerializer[Any], tuple[Finding, ...]]:
    """Pair an optional part, whose null flag is the container's, with a stored part that has a second null flag.

    For a POJO field `Map<String, List<Long>>`, Flink 2 makes a map of *nullable* lists, although the map has null flags
    already. The second flag stays, so that Flink restores what is written: a reconfigured copy wraps the part (OPT-3).

    Returns:
        The serializer that judges `stored`, and the finding if it was wrapped.
    """
    if not nullable or isinstance(serializer, OptionalSerializer):
        return serializer, ()
    other = stored.counterpart()
    if other is not None and isinstance(other.serializer, OptionalSerializer) and serializer.counterpart() is None:
        return OptionalSerializer(serializer), ()  # FAM-4 rewrites it, and the container's flag then marks a null
    if not isinstance(stored, NullableSerializerSnapshot):
        return serializer, ()
    wrapped: TypeSerializer[Any] = OptionalSerializer(
        serializer, stored.padding if serializer.length == stored.padding else 0
    )
    reason = "stored values have a null flag of their own beside that of the container; it is kept"
    verdict = Verdict.COMPATIBLE_AFTER_RECONFIGURATION
    return wrapped, (Finding("$" + step, "OPT-3", verdict, stored.describe(), wrapped.describe(), reason),)


def nulls_untold(
    serializer: TypeSerializer[Any], stored: TypeSerializerConfigSnapshot[Any], step: str, *, nullable: bool
) -> tuple[Finding, ...]:
    """Return the finding that nulls may be stored for a required part whose null flag is the container's (OPT-5)."""
    if nullable:
        return ()
    ways, flags = ("declare it optional: … | None",), (Flagged(Flag.MAY_FAIL_PER_VALUE, nulls=Nulls.UNTOLD),)
    old, new = stored.describe(), serializer.describe()
    return (Finding("$" + step, "OPT-5", Verdict.COMPATIBLE, old, new, NULLS_UNTOLD, ways, flags),)


def outer_result(findings: tuple[Finding, ...]) -> CompatibilityResult[Any]:
    """Return a composite's own result, for `compose`."""
    return CompatibilityResult(worst([finding.verdict for finding in findings]), findings)


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


def from_other(
    new: TypeSerializer[Any],
    element: TypeSerializer[Any],
    snapshot: TypeSerializerConfigSnapshot[Any],
    *,
    takes_null: bool,
) -> CompatibilityResult[Any]:
    """Judge what a sequence does not store itself: an array for a list, `Integer[]` for `int[]` (FAM-4, with LIST-2).

    Args:
        new: The serializer of the new sequence.
        element: The serializer of its elements.
        snapshot: The stored snapshot, of another sequence or anything else.
        takes_null: Whether the new sequence can hold nulls among its elements.
    """
    if not isinstance(snapshot, SequenceSnapshot):
        return unrelated(new, snapshot)
    stored = without_ttl_awareness(snapshot.element_snapshot())
    if takes_null and isinstance(stored, NullableSerializerSnapshot) and not isinstance(element, OptionalSerializer):
        element = OptionalSerializer(element)  # the flag of the new sequence marks its nulls
    reason = "the same elements in the same order, in other bytes"
    flags: tuple[Flagged | Flag, ...] = ()
    if snapshot.elements_may_be_null and not takes_null and not isinstance(element, OptionalSerializer):
        reason += "; a null among them, which the stored type allows, would fail"
        flags = (Flag.MAY_FAIL_PER_VALUE,)
    finding = Finding(
        "$", "FAM-4", Verdict.REQUIRES_MIGRATION, snapshot.describe(), new.describe(), reason,
        (by_migration("each element is rewritten"), KEEP_OLD_TYPE), flags,
    )  # fmt: skip
    return compose(
        outer_result((finding,)),
        [element_child(element, snapshot)],
        rebuild=lambda _: new,
        convert=convert_elements,
        read_with=lambda readers: snapshot.restore_with(readers[0]),
    )
