"""Either: a value of one of two types, as Flink stores it.

    bool is left, then the value of that side

Source: format notes 6.1 and 7. The rule book has no separate rule for it: sides pair by position, like items of a
tuple.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

import attrs

from .. import layout
from ..compatibility import Child, CompatibilityResult, compose
from ..errors import StateShiftError, ValueNotConvertible, add_step, shown
from ..registry import register_snapshot
from ..serializer import TypeSerializer, unrelated
from ..snapshot import CompositeTypeSerializerSnapshot, TypeSerializerConfigSnapshot
from ..stored_names import lasting

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..serializer import TypeDeserializer
    from ..views import DataInputView, DataOutputView

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
    def layout(self) -> layout.Layout:
        return layout.Either(self.left.layout, self.right.layout)

    def serialize(self, value: Either[Any, Any], target: DataOutputView) -> None:
        if not isinstance(value, Left | Right):
            raise ValueNotConvertible(f"{shown(value)} is neither a Left nor a Right")
        is_left = isinstance(value, Left)
        target.write_boolean(is_left)
        try:
            (self.left if is_left else self.right).serialize(value.value, target)
        except StateShiftError as error:
            add_step(error, _STEPS[not is_left])
            raise

    def deserialize(self, source: DataInputView) -> Either[Any, Any]:
        is_left = source.read_boolean()
        try:
            return Left(self.left.deserialize(source)) if is_left else Right(self.right.deserialize(source))
        except StateShiftError as error:
            add_step(error, _STEPS[not is_left])
            raise

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
            read_with=_read_with,
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
        try:
            converted = convert(value.value)
            return Left(converted) if is_left else Right(converted)
        except StateShiftError as error:
            add_step(error, _STEPS[not is_left])
            raise


def _read_with(readers: list[TypeDeserializer[Any]]) -> TypeDeserializer[Any]:
    left, right = (cast("TypeSerializer[Any]", reader) for reader in readers)
    return EitherSerializer(left, right)


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
