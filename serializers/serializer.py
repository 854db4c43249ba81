"""`TypeSerializer`: turns objects into bytes and back, and judges what was stored before.

A counterpart is the same type in another family (rule FAM-4).

A family whose types have a counterpart among stateshift's own types returns it: a serializer of that type, and
conversions of values to it and back. Stored values are then judged and converted as values of the counterpart, so that
each family needs one translation instead of one for every other family. Source: compatibility rules, section 6.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import attrs

from .compatibility import CompatibilityResult, Finding, Verdict
from .families import ANY, families
from .rewrite import ByteRewrite, Fixed
from .ways_out import Does, WayOut, by_migration

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import TypeVar as TypeVarWithDefault

    from .snapshot import TypeSerializerConfigSnapshot
    from .views import DataInputView, DataOutputView

    Convert = Callable[[Any], Any]

    K = TypeVarWithDefault("K", default=Any)
    V = TypeVarWithDefault("V", default=Any)
else:  # before Python 3.13, only type checkers know defaults
    K, V = TypeVar("K"), TypeVar("V")

MIGRATE = by_migration("each value is rewritten")


@attrs.frozen
class Counterpart:
    """The same type in one of stateshift's own families.

    Attributes:
        serializer: The serializer of that type; only used to judge compatibility.
        to_own: Converts a value of the family to a generic value of the counterpart.
        from_own: Converts in the other direction.
    """

    serializer: TypeSerializer[Any]
    to_own: Convert
    from_own: Convert


@attrs.frozen
class _Steps:
    """Conversions that are applied one after the other."""

    steps: tuple[Convert, ...]

    def __call__(self, value: Any) -> Any:
        for step in self.steps:
            value = step(value)
        return value


def across_families(
    new: TypeSerializer[Any], snapshot: TypeSerializerConfigSnapshot[Any], *ways_out: WayOut | str
) -> CompatibilityResult[Any] | None:
    """Judge a snapshot of another family by the counterparts of both types (FAM-4).

    Args:
        new: The serializer of the new type.
        snapshot: The snapshot of the stored type.
        ways_out: What can be done other than a migration.

    Returns:
        The result for the counterparts, at best `requires_migration`; None if neither side has a counterpart.
    """
    was, becomes = snapshot.counterpart(), new.counterpart()
    if was is None and becomes is None:
        return None
    stored = snapshot if was is None else was.serializer.snapshot_configuration()
    asked = new if becomes is None else becomes.serializer
    result = asked.ensure_compatibility(stored)
    if stored.kind != asked.snapshot_configuration().kind and result.is_incompatible():
        return attrs.evolve(result, children=())
    reason = "the same type in another family, with other bytes"
    finding = Finding(
        "$", "FAM-4", Verdict.REQUIRES_MIGRATION, snapshot.describe(), new.describe(), reason, (MIGRATE, *ways_out)
    )
    findings = (finding, *result.findings)
    if result.is_incompatible():
        return CompatibilityResult.incompatible(*findings)
    steps = (was.to_own if was else None, result.conversion, becomes.from_own if becomes else None)
    # A fallback reads the bytes of the type that was compared; if that is a counterpart, the stored bytes are others.
    across: CompatibilityResult[Any] = CompatibilityResult.requires_migration(
        *findings,
        fallback=result.fallback if was is None else None,
        conversion=_Steps(tuple(step for step in steps if step is not None)),
    )
    return attrs.evolve(across, obstacles=result.obstacles)


T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

DECLARED = {"stateshift.declared": True}
"""Metadata of a serializer's attribute that is not in the snapshot, but that a check without the code needs."""

RESTORED = "stateshift.restored"
NULLS_DECLARED = DECLARED | {RESTORED: True}
"""`DECLARED`, for an attribute that says whether nulls are allowed: a restored serializer reads any null."""

IDENTITY = {"stateshift.identity": True}
"""`DECLARED`, for the name of a Python class where the type has another `name`."""

KEEP_OLD_TYPE = WayOut("keep the old type")


def converter_that(says: str) -> WayOut:
    """Return the way out of a converter that says what `says` says."""
    words = f"register a converter (converter=… of the state's descriptor), a function that says {says}"
    return WayOut(words, does=Does.CONVERT)


CONVERTER = converter_that("what the old value becomes")


class TypeDeserializer(Protocol[T_co]):
    """Reads values: a serializer, or a fallback for bytes whose serializer is gone (rule READ-3)."""

    def deserialize(self, source: DataInputView) -> T_co:
        """Read one value; raises `CorruptSavepoint` on bytes that cannot be one, as every short read does."""


class TypeSerializer(ABC, Generic[T]):
    """Turns objects of one type into bytes and back, and judges what an older serializer has stored.

    Subclasses are frozen (`attrs.frozen`): writing changes nothing in them (rule SNAP-11), one instance may be shared
    between threads, and it can be pickled. A serializer writes the objects of its type and also the generic values (a
    `Record`, a `Symbol`) that a serializer restored from its snapshot reads, so that state can be rewritten without the
    user's classes.

    Attributes:
        length: The number of bytes of every value, or -1. In Flink it decides how keys are framed: it is part of the
            format.
        is_immutable_type: Whether nobody can change a value. Objects of other types are copied, by their bytes, where
            a state would hand out one of them more than once.
    """

    @property
    def length(self) -> int:
        """The number of bytes of every value, or -1 if it varies."""
        return -1

    @property
    def is_immutable_type(self) -> bool:
        """Whether nobody can change a value; by default not known, so False."""
        return False

    @property
    def is_counted(self) -> bool:
        """Whether the values are keys of a map that says how often each is there: where two become one, it adds."""
        return False

    @abstractmethod
    def serialize(self, value: T, target: DataOutputView) -> None:
        """Write one value; raises `ValueNotConvertible` where it does not fit (the output is then unusable)."""

    @abstractmethod
    def deserialize(self, source: DataInputView) -> T:
        """Read one value; raises `CorruptSavepoint` on bytes that this serializer cannot have written."""

    @abstractmethod
    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[T]:
        """Return the snapshot of this serializer, for the state's metadata."""

    def ensure_compatibility(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[T]:
        """Check whether this serializer can take over what `snapshot`'s serializer has written (rules V-1 to V-6).

        Unless overridden: compatible with an equal snapshot, incompatible with any other.
        """
        return (
            CompatibilityResult.compatible() if snapshot == self.snapshot_configuration() else unrelated(self, snapshot)
        )

    def counterpart(self) -> Counterpart | None:
        """Return the same type in one of stateshift's own families; None if there is none (rule FAM-4)."""
        return self.snapshot_configuration().counterpart()

    @property
    def layout(self) -> ByteRewrite:
        """The layout of a value's bytes. By default fixed where `length` is, else opaque."""
        return Fixed(self.length) if self.length >= 0 else ByteRewrite()

    def copy_bytes(self, source: DataInputView, target: DataOutputView) -> None:
        """Copy one value's bytes, without objects in between where the layout allows it."""
        start = source.position
        shape = self.layout
        if shape.can_skip:
            shape.skip(source)
        else:
            self.deserialize(source)
        target.write(source.span(start))

    def describe(self) -> str:
        """Return the type's name as people know it: `long`, `list<string>`, `fx.Account`."""
        return self.snapshot_configuration().describe()


def incompatible(
    serializer: TypeSerializer[T],
    snapshot: TypeSerializerConfigSnapshot[Any],
    rule: str,
    reason: str,
    *ways_out: WayOut | str,
) -> CompatibilityResult[T]:
    """Return the result `incompatible` with one finding, at the root path."""
    old, new = snapshot.describe(), serializer.describe()
    ways = ways_out or (KEEP_OLD_TYPE, CONVERTER)
    return CompatibilityResult.incompatible(Finding("$", rule, Verdict.INCOMPATIBLE, old, new, reason, ways))


def unrelated(serializer: TypeSerializer[T], snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[T]:
    """Return the result for a snapshot of another kind; the checks of all families end here.

    Rules between families, and counterparts, are tried first; so time stamps around a value, and Flink's marker for
    them, are no kind of their own. Everything else is refused. Rules STATE-5, FAM-1, FAM-4, OPT-2, PRIM-4, LIST-3,
    MAP-4, ENUM-8, FAM-2.
    """
    old, new = snapshot.kind, serializer.snapshot_configuration().kind
    answer = families.judge(old, ANY, serializer, snapshot) or across_families(serializer, snapshot, KEEP_OLD_TYPE)
    if answer is not None:
        return answer
    if old == "optional":
        return incompatible(
            serializer, snapshot, "OPT-2", "a stored null has no value in the new type",
            "declare the type optional (T | None)", CONVERTER,
        )  # fmt: skip
    primitives = {"boolean", "number", "char", "string", "bytes"}
    if old in primitives and new in primitives:
        reason = (
            "no conversion between a char and another type is defined"
            if "char" in {old, new}
            else "no conversion keeps the meaning"
        )
        return incompatible(serializer, snapshot, "PRIM-4", reason)
    sequences = {"array", "list", "set", "tuple"}
    if old in sequences and new in sequences:
        return incompatible(serializer, snapshot, "LIST-3", "order and duplicates have no agreed translation")
    if "map" in {old, new}:
        return incompatible(serializer, snapshot, "MAP-4", "a map and another type have no agreed translation")
    if "enum" in {old, new} and {old, new} & primitives:
        return incompatible(serializer, snapshot, "ENUM-8", "an enum and a plain value have no agreed translation")
    if (old, new) == ("row", "record"):
        reason = "the stored row does not have the names of its columns, by which fields are found"
        return incompatible(serializer, snapshot, "FAM-2", reason)
    return incompatible(serializer, snapshot, "FAM-2", "the two are of different kinds")
