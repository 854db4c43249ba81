"""Shared code of lists, sets, maps and tuples: writing and converting their parts, and finding duplicates."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any

from ..compatibility import CompatibilityResult, Finding, Flag, Verdict, worst
from ..errors import CorruptSavepoint, StateShiftError, ValueNotConvertible, ValuesCollide, add_step, cause_text, shown
from ..views import DataInputView, DataOutputView
from .optional import NullableSerializerSnapshot, OptionalSerializer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ..serializer import TypeSerializer
    from ..snapshot import TypeSerializerConfigSnapshot


NULLS_UNTOLD = "Flink does not say whether nulls are stored here; one would fail"


def encode_each(serializer: TypeSerializer[Any], items: Iterable[Any], step: str) -> list[bytes]:
    """Return the bytes of each item; `step` is added to an error's path."""
    scratch, ends = DataOutputView(), [0]
    try:
        for item in items:
            serializer.serialize(item, scratch)
            ends.append(len(scratch))
    except StateShiftError as error:
        add_step(error, step)
        raise
    data = scratch.getvalue()
    return [data[start:end] for start, end in itertools.pairwise(ends)]


def convert_each(convert: Callable[[Any], Any], items: Iterable[Any], step: str) -> list[Any]:
    """Convert each item but nulls, which are left to the new serializer; `step` is added to an error's path."""
    try:
        return [None if item is None else convert(item) for item in items]
    except StateShiftError as error:
        add_step(error, step)
        raise


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
    if _has_a_null_of_its_own(stored) and serializer.counterpart() is None:
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
    ways, flags = ("declare it optional: … | None",), (Flag.MAY_FAIL_PER_VALUE,)
    old, new = stored.describe(), serializer.describe()
    return (Finding("$" + step, "OPT-5", Verdict.COMPATIBLE, old, new, NULLS_UNTOLD, ways, flags),)


def _has_a_null_of_its_own(stored: TypeSerializerConfigSnapshot[Any]) -> bool:
    """Whether the snapshot describes an optional type of another family."""
    counterpart = stored.counterpart()
    return counterpart is not None and isinstance(counterpart.serializer, OptionalSerializer)


def outer_result(findings: tuple[Finding, ...]) -> CompatibilityResult[Any]:
    """Return a composite's own result, for `compose`."""
    return CompatibilityResult(worst([finding.verdict for finding in findings]), findings)
