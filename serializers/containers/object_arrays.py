"""Arrays of objects: `String[]`, and all others, boxed numbers included.

    StringArray   i32 n, n strings, any of which may be the null form
    GenericArray  i32 n, n x (bool is present, the element if so)

The flag means *is present* here; elsewhere it means *is null*. Source: format notes 6.1 and 7; the class files of Flink
2.3 show that Flink refuses an array with another component class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import attrs

from .. import rewrite
from ..byte_forms import UTF
from ..compatibility import CompatibilityResult, Finding, Verdict, compose
from ..errors import ValueNotConvertible, at_step, shown
from ..primitives.text import StringSerializer, StringSerializerSnapshot
from ..registry import register_snapshot
from ..scalars import BASE, flink_id
from ..serializer import NULLS_DECLARED, TypeSerializer
from ..snapshot import CompositeTypeSerializerSnapshot, FlinkSnapshot, TypeSerializerConfigSnapshot
from .arrays import ARRAY
from .pieces import (
    STEP,
    SequenceSnapshot,
    convert_elements,
    element_child,
    from_other,
    keep_null_flag,
    nulls_untold,
    outer_result,
)
from .wrappers import array_class_of, java_class_of

if TYPE_CHECKING:
    from ..byte_forms import Fields
    from ..serializer import TypeDeserializer
    from ..snapshot import Speller
    from ..views import DataInputView, DataOutputView

E = TypeVar("E")

_BOXED = {"boolean", "number", "char"}


def _items(value: object) -> list[Any] | tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise ValueNotConvertible(f"{shown(value)} is not a list")
    return value


def _refuse_null() -> None:
    raise ValueNotConvertible(
        "found null in an array whose elements are not declared optional",
        advice="declare the element optional: Array[… | None]",
    )


@attrs.frozen
class StringArraySerializer(TypeSerializer[list[str | None]]):
    """Flink's String[]: the serializer for `Array[str]`.

    Attributes:
        nullable_elements: Whether None may be an element; strings have their own null form.
    """

    flags_elements: ClassVar[bool] = False

    nullable_elements: bool = attrs.field(default=False, kw_only=True, metadata=NULLS_DECLARED)

    @property
    def element(self) -> StringSerializer:
        """The serializer of the elements."""
        return StringSerializer(allow_null=self.nullable_elements)

    layout = rewrite.Counted(rewrite.Text())

    def serialize(self, value: list[str | None], target: DataOutputView) -> None:
        items, element = _items(value), self.element
        target.write_int(len(items))
        with at_step(STEP):
            for item in items:
                if item is None and not self.nullable_elements:
                    _refuse_null()
                element.serialize(item, target)

    def deserialize(self, source: DataInputView) -> list[str | None]:
        count, element = source.read_size("strings of an array"), StringSerializer(allow_null=True)
        with at_step(STEP):
            items: list[str | None] = [element.deserialize(source) for _ in range(count)]
            if None in items and not self.nullable_elements:
                _refuse_null()
        return items

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[list[str | None]]:
        return StringArraySerializerSnapshot()

    def ensure_compatibility(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[Any]:
        if isinstance(snapshot, StringArraySerializerSnapshot):
            stored = snapshot.element_snapshot()
            return outer_result(nulls_untold(self.element, stored, STEP, nullable=self.nullable_elements))
        return from_other(self, self.element, snapshot, takes_null=self.nullable_elements)


@attrs.frozen
class GenericArraySerializer(TypeSerializer[list[E | None]]):
    """Flink's arrays of objects: for `Array[T]` where T is not a primitive, and for `Array[Int32 | None]` (Integer[]).

    Attributes:
        element: The serializer of the elements that are not null.
        component_class: The Java class of the elements; by default the class of `element`'s values.
        nullable_elements: Whether None may be an element; the layout has a flag for it.
    """

    flags_elements: ClassVar[bool] = True

    element: TypeSerializer[E]
    component_class: str = ""
    nullable_elements: bool = attrs.field(default=False, kw_only=True, metadata=NULLS_DECLARED)

    def __attrs_post_init__(self) -> None:
        # The element may be a fallback deserializer, which has no snapshot and so no known class.
        if not self.component_class and isinstance(self.element, TypeSerializer):
            object.__setattr__(self, "component_class", java_class_of(self.element.snapshot_configuration()))

    @property
    def layout(self) -> rewrite.ByteRewrite:
        return rewrite.Counted(rewrite.Nullable(self.element.layout, null_flag=0))

    def serialize(self, value: list[E | None], target: DataOutputView) -> None:
        items = _items(value)
        target.write_int(len(items))
        with at_step(STEP):
            for item in items:
                target.write_boolean(item is not None)
                if item is not None:
                    self.element.serialize(item, target)
                elif not self.nullable_elements:
                    _refuse_null()

    def deserialize(self, source: DataInputView) -> list[E | None]:
        items: list[E | None] = []
        with at_step(STEP):
            for _ in range(source.read_size("elements of an array")):
                if source.read_boolean():
                    items.append(self.element.deserialize(source))
                    continue
                if not self.nullable_elements:
                    _refuse_null()
                items.append(None)
        return items

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[list[E | None]]:
        return GenericArraySerializerSnapshot(self.component_class, (self.element.snapshot_configuration(),))

    def ensure_compatibility(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[Any]:
        if not isinstance(snapshot, GenericArraySerializerSnapshot):
            return from_other(self, self.element, snapshot, takes_null=self.nullable_elements)
        kept, findings = self._component_to_keep(snapshot)
        stored = snapshot.element_snapshot()
        element, flags_kept = keep_null_flag(self.element, stored, STEP, nullable=self.nullable_elements)
        untold = nulls_untold(element, stored, STEP, nullable=self.nullable_elements)
        return compose(
            outer_result(findings + flags_kept + untold),
            [element_child(element, snapshot)],
            rebuild=lambda nested: attrs.evolve(self, element=nested[0], component_class=kept),
            convert=convert_elements,
            read_with=lambda readers: snapshot.restore_with(readers[0]),
        )

    def _component_to_keep(self, snapshot: GenericArraySerializerSnapshot) -> tuple[str, tuple[Finding, ...]]:
        """Return the component class of a reconfigured copy: the stored one, unless it is that of the stored elements.

        Flink takes over only an array of the same class. The class is not in the bytes, so the stored one can stay; if
        the element's class is renamed (REC-11), the array's component class follows.
        """
        old, new = snapshot.component_class, self.component_class
        if old == new or old == java_class_of(snapshot.element_snapshot()):
            return new, ()
        verdict, reason = Verdict.COMPATIBLE_AFTER_RECONFIGURATION, "the Java class is not in the bytes; it is kept"
        return old, (Finding("$", "LIST-1", verdict, f"{old}[]", f"{new}[]", reason),)


@register_snapshot
class StringArraySerializerSnapshot(SequenceSnapshot, FlinkSnapshot[Any]):
    """Snapshot of `StringArraySerializer`.

    It does not say whether nulls are stored, so a restored serializer reads them.
    """

    snapshot_id: ClassVar[str] = flink_id("StringArray", ARRAY)
    kind: ClassVar[str] = "array"
    elements_may_be_null: ClassVar[bool] = True
    java_class: ClassVar[str] = "[Ljava.lang.String;"

    def describe(self) -> str:
        return "array<string>"

    def element_snapshot(self) -> TypeSerializerConfigSnapshot[Any]:
        return StringSerializerSnapshot()

    def restore_serializer(self) -> TypeSerializer[Any]:
        return StringArraySerializer(nullable_elements=True)


@register_snapshot
@attrs.define
class GenericArraySerializerSnapshot(SequenceSnapshot, CompositeTypeSerializerSnapshot[Any]):
    """Snapshot of `GenericArraySerializer`; the outer part is the component class.

    It does not say whether nulls are stored, so a restored serializer reads them.
    """

    snapshot_id: ClassVar[str] = BASE + "GenericArraySerializerSnapshot"
    kind: ClassVar[str] = "array"
    nested_count: ClassVar[int] = 1
    steps: ClassVar[tuple[str, ...]] = (STEP,)
    outer: ClassVar[Fields] = {"component_class": UTF}
    elements_may_be_null: ClassVar[bool] = True

    component_class: str = ""
    nested: tuple[TypeSerializerConfigSnapshot[Any], ...] = ()

    @property
    def java_class(self) -> str:
        """The Java class of the array."""
        return array_class_of(self.component_class)

    def describe(self) -> str:
        element = self.nested[0]
        words = element.describe()
        # Java's Integer[] differs from int[] in that it can hold nulls.
        return f"array<optional<{words}>>" if element.kind in _BOXED else f"array<{words}>"

    def spell(self, speller: Speller) -> str:
        return self.describe() if self.nested[0].kind in _BOXED else f"array<{speller.part(self.nested[0])}>"

    def element_snapshot(self) -> TypeSerializerConfigSnapshot[Any]:
        return self.nested[0]

    def restore_serializer(self) -> TypeSerializer[Any]:
        return self.restore_with(self.restore_nested(0))

    def restore_with(self, element: TypeDeserializer[Any]) -> TypeSerializer[Any]:
        serializer = cast("TypeSerializer[Any]", element)
        return GenericArraySerializer(serializer, self.component_class, nullable_elements=True)
