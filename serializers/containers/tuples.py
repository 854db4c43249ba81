"""Tuples, and `Either`.

Tuples of fixed arity: Flink's Tuple0 to Tuple25, and the rules TUP-1 to TUP-4.

    the items one after the other: no count, no null flags; Tuple0 is one byte 42

Source: format notes 6.1 and 7; compatibility rules 4.5. The class files of Flink 2.3 show that Flink's check ignores
the tuple class, and that an item of declared length 0 makes the length unknown.

Either: a value of one of two types, as Flink stores it.

    bool is left, then the value of that side

Source: format notes 6.1 and 7. The rule book has no separate rule for it: sides pair by position, like items of a
tuple.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import attrs

from .. import rewrite
from ..byte_forms import UTF
from ..compatibility import Child, CompatibilityResult, Finding, Verdict, compose
from ..errors import CorruptSavepoint, DeclarationError, StateShiftError, ValueNotConvertible, add_step, at_step, shown
from ..registry import register_snapshot
from ..serializer import CONVERTER, KEEP_OLD_TYPE, TypeSerializer, incompatible, unrelated
from ..snapshot import CompositeTypeSerializerSnapshot, FlinkSnapshot, TypeSerializerConfigSnapshot
from ..stored_names import lasting
from ..ways_out import Does, WayOut
from .pieces import outer_result

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..byte_forms import Fields
    from ..views import DataInputView, DataOutputView

MAX_ARITY = 25
_RUNTIME = "org.apache.flink.api.java.typeutils.runtime."
_TUPLES = "org.apache.flink.api.java.tuple.Tuple"
EMPTY = 42
_TO_A_RECORD = WayOut(f"move to a record: {CONVERTER.words}", does=Does.CONVERT)


@attrs.frozen
class TupleConversion:
    """Converts item by item."""

    items: tuple[Callable[[Any], Any] | None, ...]

    def __call__(self, value: Any) -> tuple[Any, ...]:
        converted = []
        for index, (convert, item) in enumerate(zip(self.items, value, strict=True)):
            try:
                converted.append(item if convert is None or item is None else convert(item))
            except StateShiftError as error:
                add_step(error, f"({index})")
                raise
        return tuple(converted)


@attrs.frozen
class TupleSerializer(TypeSerializer[tuple[Any, ...]]):
    """Flink's TupleSerializer (and Tuple0Serializer, for a tuple without items).

    Attributes:
        fields: The serializers of the items, by position.
        tuple_class: The Java class; by default `Tuple<n>` of the arity.
    """

    fields: tuple[TypeSerializer[Any], ...]
    tuple_class: str = ""

    def __attrs_post_init__(self) -> None:
        if len(self.fields) > MAX_ARITY:
            raise DeclarationError(
                f"a tuple of {len(self.fields)} items, but Flink's tuples have at most {MAX_ARITY}",
                advice="use a record: an attrs class, a dataclass or a named tuple",
            )
        if not self.tuple_class:
            object.__setattr__(self, "tuple_class", f"{_TUPLES}{len(self.fields)}")

    @property
    def length(self) -> int:
        if not self.fields:
            return 1
        lengths = [field.length for field in self.fields]
        return sum(lengths) if min(lengths) > 0 else -1

    @property
    def is_immutable_type(self) -> bool:
        return all(field.is_immutable_type for field in self.fields)

    @property
    def layout(self) -> rewrite.ByteRewrite:
        if not self.fields:
            return rewrite.Fixed(1)
        return rewrite.Sequence(tuple(field.layout for field in self.fields))

    def serialize(self, value: tuple[Any, ...], target: DataOutputView) -> None:
        if not isinstance(value, tuple | list) or len(value) != len(self.fields):
            raise ValueNotConvertible(f"{shown(value)} is not a tuple of {len(self.fields)} items")
        if not self.fields:
            target.write_byte(EMPTY)
            return
        index = 0
        try:
            for index, (field, item) in enumerate(zip(self.fields, value, strict=True)):  # noqa: B007 - used below
                field.serialize(item, target)
        except StateShiftError as error:
            add_step(error, f"({index})")
            raise

    def deserialize(self, source: DataInputView) -> tuple[Any, ...]:
        if not self.fields:
            if source.read_byte() != EMPTY:
                raise CorruptSavepoint("a tuple without items is not the byte 42", offset=source.position - 1)
            return ()
        items: list[Any] = []
        try:
            for field in self.fields:
                items.append(field.deserialize(source))  # noqa: PERF401 - the number of items is used below
        except StateShiftError as error:
            add_step(error, f"({len(items)})")
            raise
        return tuple(items)

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[tuple[Any, ...]]:
        if not self.fields:
            return Tuple0SerializerSnapshot()
        nested = tuple(field.snapshot_configuration() for field in self.fields)
        return TupleSerializerSnapshot(nested, self.tuple_class)

    def ensure_compatibility(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[tuple[Any, ...]]:
        if not isinstance(snapshot, TupleSerializerSnapshot | Tuple0SerializerSnapshot):
            return unrelated(self, snapshot)
        stored = snapshot.children()
        if len(stored) != len(self.fields):
            counts = f"{len(stored)} stored and {len(self.fields)} declared"
            reason = f"the number of items differs ({counts}), and items have no names to pair them by"
            return incompatible(
                self,
                snapshot,
                "TUP-3",
                reason,
                KEEP_OLD_TYPE,
                _TO_A_RECORD,
            )
        old_class = snapshot.java_class
        findings: tuple[Finding, ...] = ()
        if old_class != self.tuple_class:
            verdict, reason = Verdict.COMPATIBLE_AFTER_RECONFIGURATION, "the Java class is not in the bytes; it is kept"
            findings = (Finding("$", "TUP-1", verdict, old_class, self.tuple_class, reason),)
        return compose(
            outer_result(findings),
            [
                Child(f"({index})", field, field.ensure_compatibility(old), old.restore_serializer)
                for index, (field, old) in enumerate(zip(self.fields, stored, strict=True))
            ],
            rebuild=lambda nested: TupleSerializer(tuple(nested), old_class),
            convert=lambda parts: None if not any(parts) else TupleConversion(tuple(parts)),
            read_with=lambda readers: TupleSerializer(tuple(readers)),
        )


@register_snapshot
@attrs.define
class TupleSerializerSnapshot(CompositeTypeSerializerSnapshot[Any]):
    """Snapshot of `TupleSerializer`; the outer part is UTF tuple class."""

    snapshot_id: ClassVar[str] = _RUNTIME + "TupleSerializerSnapshot"
    kind: ClassVar[str] = "tuple"
    outer_version: ClassVar[int] = 2
    outer: ClassVar[Fields] = {"tuple_class": UTF}

    nested: tuple[TypeSerializerConfigSnapshot[Any], ...] = ()
    tuple_class: str = ""

    @property
    def java_class(self) -> str:
        """The Java class of the values."""
        return self.tuple_class

    def read(self, source: DataInputView) -> None:
        start = source.position
        super().read(source)
        if not 1 <= len(self.nested) <= MAX_ARITY:
            raise CorruptSavepoint(f"a tuple of {len(self.nested)} items is described", offset=start)

    def restore_serializer(self) -> TypeSerializer[Any]:
        fields = tuple(self.restore_nested(index) for index in range(len(self.nested)))
        return TupleSerializer(fields, self.tuple_class)


@register_snapshot
class Tuple0SerializerSnapshot(FlinkSnapshot[tuple[Any, ...]]):
    """Snapshot of `TupleSerializer(())`, for which Flink has a separate serializer."""

    snapshot_id: ClassVar[str] = _RUNTIME + "Tuple0SerializerSnapshot"
    kind: ClassVar[str] = "tuple"
    java_class: ClassVar[str] = _TUPLES + "0"

    def describe(self) -> str:
        return "tuple<>"

    def restore_serializer(self) -> TypeSerializer[Any]:
        return TupleSerializer(())


L = TypeVar("L")
R = TypeVar("R")

_STEPS = ("|0", "|1")


@lasting
class Either(Generic[L, R]):
    """A value of one of two types: a `Left` or a `Right`. As a type hint: `Either[str, int]`."""

    __slots__ = ()

    value: Any


@lasting
@attrs.frozen
class Left(Either[L, Any]):
    """A value of the left type."""

    value: L


@lasting
@attrs.frozen
class Right(Either[Any, R]):
    """A value of the right type."""

    value: R


@attrs.frozen
class EitherSerializer(TypeSerializer[Either[Any, Any]]):
    """Flink's EitherSerializer: the serializer for `Either[A, B]`.

    Attributes:
        left: The serializer of the values in a `Left`.
        right: The serializer of the values in a `Right`.
    """

    left: TypeSerializer[Any]
    right: TypeSerializer[Any]

    @property
    def layout(self) -> rewrite.ByteRewrite:
        return rewrite.Either(self.left.layout, self.right.layout)

    def serialize(self, value: Either[Any, Any], target: DataOutputView) -> None:
        if not isinstance(value, Left | Right):
            raise ValueNotConvertible(f"{shown(value)} is neither a Left nor a Right")
        is_left = isinstance(value, Left)
        target.write_boolean(is_left)
        with at_step(_STEPS[not is_left]):
            (self.left if is_left else self.right).serialize(value.value, target)

    def deserialize(self, source: DataInputView) -> Either[Any, Any]:
        is_left = source.read_boolean()
        with at_step(_STEPS[not is_left]):
            return Left(self.left.deserialize(source)) if is_left else Right(self.right.deserialize(source))

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[Either[Any, Any]]:
        return JavaEitherSerializerSnapshot((self.left.snapshot_configuration(), self.right.snapshot_configuration()))

    def ensure_compatibility(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[Any]:
        if not isinstance(snapshot, JavaEitherSerializerSnapshot):
            return unrelated(self, snapshot)
        sides = zip(_STEPS, (self.left, self.right), snapshot.nested, strict=True)
        return compose(
            CompatibilityResult.compatible(),
            [Child(step, side, side.ensure_compatibility(old), old.restore_serializer) for step, side, old in sides],
            rebuild=lambda nested: EitherSerializer(*nested),
            convert=lambda parts: None if parts == [None, None] else EitherConversion(*parts),
            read_with=lambda readers: EitherSerializer(*readers),
        )


@attrs.frozen
class EitherConversion:
    """Converts the side that is present."""

    left: Callable[[Any], Any] | None
    right: Callable[[Any], Any] | None

    def __call__(self, value: Either[Any, Any]) -> Either[Any, Any]:
        is_left = isinstance(value, Left)
        convert = self.left if is_left else self.right
        if convert is None or value.value is None:
            return value
        with at_step(_STEPS[not is_left]):
            converted = convert(value.value)
            return Left(converted) if is_left else Right(converted)


@register_snapshot
@attrs.define
class JavaEitherSerializerSnapshot(CompositeTypeSerializerSnapshot[Any]):
    """Snapshot of `EitherSerializer`; nested are left and right."""

    snapshot_id: ClassVar[str] = "org.apache.flink.api.java.typeutils.runtime.JavaEitherSerializerSnapshot"
    kind: ClassVar[str] = "either"
    java_class: ClassVar[str] = "org.apache.flink.types.Either"
    nested_count: ClassVar[int] = 2
    steps: ClassVar[tuple[str, ...]] = _STEPS

    nested: tuple[TypeSerializerConfigSnapshot[Any], ...] = ()

    def restore_serializer(self) -> TypeSerializer[Any]:
        return EitherSerializer(self.restore_nested(0), self.restore_nested(1))
