"""Arrays of Java's primitives: `byte[]` with its rule TEXT-1, and seven others.

    i32 n, n elements (boolean as bool, char as u16, byte as raw bytes)

A `byte[]` is `bytes` in Python, every other array is a list. Arrays of objects are in `object_arrays`.
Source: format notes 6.1 and 7.
"""

from __future__ import annotations

import array
import struct
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from .. import rewrite
from ..compatibility import CompatibilityResult, Finding, Verdict, compose
from ..errors import CorruptSavepoint, DeclarationError, ValueNotConvertible, at_step, shown
from ..primitives.numeric import (
    BooleanSerializer,
    ByteSerializer,
    DoubleSerializer,
    FloatSerializer,
    IntSerializer,
    LongSerializer,
    ShortSerializer,
)
from ..primitives.text import CharSerializer
from ..registry import register_snapshot
from ..scalars import BASE, Scalar, ScalarSerializer, flink_id, snapshot_of
from ..serializer import KEEP_OLD_TYPE, TypeSerializer, converter_that, unrelated
from ..snapshot import FlinkSnapshot, TypeSerializerConfigSnapshot
from ..ways_out import by_migration
from .pieces import (
    STEP,
    SequenceSnapshot,
    convert_elements,
    element_child,
    from_other,
)

if TYPE_CHECKING:
    from ..views import DataInputView, DataOutputView

ARRAY = BASE + "array."


def text_to_utf8(value: str | None) -> bytes | None:
    """Encode text as UTF-8 (rule TEXT-1).

    Raises:
        ValueNotConvertible: The text has a lone surrogate, as a Java string may.
    """
    try:
        return None if value is None else value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueNotConvertible(
            f"{shown(value)} contains a lone surrogate, which UTF-8 cannot encode",
            advice=converter_that("how such text becomes bytes"),
            rule="TEXT-1",
        ) from error


class BytesSerializer(ScalarSerializer[bytes]):
    """Flink's byte[]: the serializer for the hint `bytes`."""

    row = Scalar("bytes", "BytePrimitiveArray", "[B", "", "bytes", arrow="binary", stays=rewrite.Blob())

    def serialize(self, value: bytes, target: DataOutputView) -> None:
        if not isinstance(value, bytes):
            raise ValueNotConvertible(f"{shown(value)} is not bytes")
        target.write_int(len(value))
        target.write(value)

    def deserialize(self, source: DataInputView) -> bytes:
        return source.read_fully(source.read_size("bytes"))

    def ensure_compatibility(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[bytes]:
        if isinstance(snapshot, BytePrimitiveArraySerializerSnapshot):
            return CompatibilityResult.compatible()
        if snapshot.kind != "string":
            return unrelated(self, snapshot)
        finding = Finding(
            "$", "TEXT-1", Verdict.REQUIRES_MIGRATION, snapshot.describe(), self.describe(),
            "text becomes its UTF-8 bytes", (by_migration("text is encoded as UTF-8"), KEEP_OLD_TYPE),
        )  # fmt: skip
        return CompatibilityResult.requires_migration(finding, conversion=text_to_utf8)


BytePrimitiveArraySerializerSnapshot = snapshot_of(
    BytesSerializer, snapshot_id=flink_id(BytesSerializer.row.flink, ARRAY)
)


_INTEGERS, _FLOATS = (">h", ">i", ">q"), (">f", ">d")


def is_primitive(serializer: TypeSerializer[Any]) -> bool:
    """Whether Java has a primitive type for these values, so that an array of them holds no nulls."""
    return type(serializer) in ARRAYS


@attrs.frozen
class PrimitiveArraySerializer(TypeSerializer[list[Any]]):
    """Flink's boolean[], char[], short[], int[], long[], float[] and double[]: the serializer for `Array[Int32]`.

    Attributes:
        element: The serializer of the elements, one whose values are primitives in Java.
    """

    flags_elements: ClassVar[bool] = False

    element: TypeSerializer[Any]

    def __attrs_post_init__(self) -> None:
        if isinstance(self.element, ByteSerializer):
            raise DeclarationError("an array of bytes is bytes in Python", advice="write bytes instead of Array[Int8]")
        if not is_primitive(self.element):
            raise DeclarationError(
                f"{self.element.describe()} is not a primitive type of Java", advice="use a GenericArraySerializer"
            )

    @property
    def _form(self) -> str:
        return ARRAYS[type(self.element)].element.row.form

    @property
    def layout(self) -> rewrite.ByteRewrite:
        return rewrite.Blob(self.element.length)

    def serialize(self, value: list[Any], target: DataOutputView) -> None:
        if not isinstance(value, list | tuple | array.array):
            raise ValueNotConvertible(f"{shown(value)} is not a list")
        target.write_int(len(value))
        packed = self._packed(value)
        if packed is not None:
            target.write(packed)
            return
        with at_step(STEP):
            for item in value:
                self.element.serialize(item, target)

    def _packed(self, value: list[Any] | tuple[Any, ...] | array.array[Any]) -> bytes | None:
        """Return the bytes of plain numbers, packed at once; None if the element serializer must check each of them."""
        form = self._form
        if form not in _INTEGERS and not (form in _FLOATS and all(type(item) is float for item in value)):
            return None
        try:
            return struct.pack(f">{len(value)}{form[1:]}", *value)
        except (struct.error, OverflowError):
            return None

    def deserialize(self, source: DataInputView) -> list[Any]:
        count = source.read_size("elements of an array", least_bytes_each=self.element.length)
        start = source.position
        data = source.read_fully(count * self.element.length)
        if isinstance(self.element, BooleanSerializer):
            return _booleans(data, start)
        items = struct.unpack(f">{count}{self._form[1:]}", data)
        return list(map(chr, items) if isinstance(self.element, CharSerializer) else items)

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[list[Any]]:
        return ARRAYS[type(self.element)]()

    def ensure_compatibility(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[list[Any]]:
        if isinstance(snapshot, PrimitiveArraySnapshot):
            return compose(
                CompatibilityResult.compatible(),
                [element_child(self.element, snapshot)],
                rebuild=lambda _: self,
                convert=convert_elements,
                read_with=lambda _: snapshot.restore_serializer(),
            )
        return from_other(self, self.element, snapshot, takes_null=False)


def _booleans(data: bytes, start: int) -> list[bool]:
    other = data.translate(None, b"\0\1")
    if other:
        offset = start + data.index(other[:1])
        raise CorruptSavepoint(f"byte {other[0]:#04x} where a boolean was expected", offset=offset, path="$" + STEP)
    return [byte == 1 for byte in data]


class PrimitiveArraySnapshot(SequenceSnapshot, FlinkSnapshot[list[Any]]):
    """Snapshot of an array of primitives other than byte[]; `element` is the serializer of the elements."""

    kind: ClassVar[str] = "array"
    java_class: ClassVar[str]
    element: ClassVar[ScalarSerializer[Any]]

    def describe(self) -> str:
        return f"array<{self.element.describe()}>"

    def element_snapshot(self) -> TypeSerializerConfigSnapshot[Any]:
        return self.element.snapshot_configuration()

    def restore_serializer(self) -> TypeSerializer[list[Any]]:
        return PrimitiveArraySerializer(self.element)


ARRAYS: dict[type[TypeSerializer[Any]], type[PrimitiveArraySnapshot]] = {}
"""Serializer of an element -> the snapshot of an array of them."""


def _array_of(element: type[ScalarSerializer[Any]]) -> type[PrimitiveArraySnapshot]:
    """Return the registered snapshot class of an array of a scalar, made of what its row says."""
    name = f"{element.row.flink}PrimitiveArray"
    body = {
        "__module__": __name__,
        "__doc__": f"Snapshot of an array of `{element.__name__}`.",
        "element": element(),
        "java_class": f"[{element.row.array}",
        "snapshot_id": flink_id(name, ARRAY),
    }
    ARRAYS[element] = register_snapshot(type(f"{name}SerializerSnapshot", (PrimitiveArraySnapshot,), body))
    return ARRAYS[element]


BooleanPrimitiveArraySerializerSnapshot = _array_of(BooleanSerializer)
CharPrimitiveArraySerializerSnapshot = _array_of(CharSerializer)
ShortPrimitiveArraySerializerSnapshot = _array_of(ShortSerializer)
IntPrimitiveArraySerializerSnapshot = _array_of(IntSerializer)
LongPrimitiveArraySerializerSnapshot = _array_of(LongSerializer)
FloatPrimitiveArraySerializerSnapshot = _array_of(FloatSerializer)
DoublePrimitiveArraySerializerSnapshot = _array_of(DoubleSerializer)
