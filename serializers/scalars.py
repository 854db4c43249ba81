"""Scalars: types without parameters, each described by one row: numbers, booleans, text, dates and times.

The row of a type is an attribute of its serializer class, `row`. From the rows in its `table`, a family derives what it
registers for the types: JSON forms, hints in source, byte rewrites, column codecs, drawn values. So a new number or
time is a row, with a class for its name.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import attrs

from . import rewrite
from .registry import register_snapshot
from .serializer import TypeSerializer
from .snapshot import FlinkSnapshot

if TYPE_CHECKING:
    from .serializer import TypeDeserializer
    from .snapshot import TypeSerializerConfigSnapshot

T = TypeVar("T")

BASE = "org.apache.flink.api.common.typeutils.base."


def flink_id(name: str, package: str = BASE) -> str:
    """Return the snapshot id of Flink's serializer of a name, such as `Long`."""
    return f"{package}{name}Serializer${name}SerializerSnapshot"


@attrs.frozen
class Scalar:
    """A row of a table: all that makes one type differ from its siblings.

    Attributes:
        name: The name of the type in messages.
        flink: Flink's name of it, as in `LongSerializer`.
        java_class: The Java class of the values; "" where no array can have them as elements.
        form: The format of the stored numbers, as of `struct`: `>q`; "" where values differ in length.
        hint: The type hint that `init` writes.
        arrow: Arrow's name of the type that means this type in a column; "" where there is no such type.
        array: The letter of Java's primitive type in the name of an array, `J` as in `[J`; "" where Java has none.
        stays: The byte rewrite of values that stay: by default as many bytes, whatever they are; None: there is none.
        size: The number of bytes of every value, or -1 if it varies.
        layout: The layout of values.
        packing: `form`, compiled.
    """

    name: str
    flink: str
    java_class: str
    form: str
    hint: str
    arrow: str = attrs.field(default="", kw_only=True)
    array: str = attrs.field(default="", kw_only=True)
    stays: rewrite.ByteRewrite | None = attrs.field(kw_only=True)
    size: int = attrs.field(init=False)
    layout: rewrite.ByteRewrite = attrs.field(init=False, eq=False)
    packing: struct.Struct = attrs.field(init=False, eq=False)

    @stays.default
    def _as_many_bytes(self) -> rewrite.ByteRewrite | None:
        return rewrite.Fixed(struct.calcsize(self.form)) if self.form else None

    @size.default
    def _size(self) -> int:
        return struct.calcsize(self.form) if self.form else -1

    @layout.default
    def _layout(self) -> rewrite.ByteRewrite:
        return rewrite.Fixed(self.size) if self.form else self.stays or rewrite.ByteRewrite()

    @packing.default
    def _compiled(self) -> struct.Struct:
        return struct.Struct(self.form)


@attrs.frozen
class ScalarSerializer(TypeSerializer[T]):
    """Base of the serializers of scalars."""

    row: ClassVar[Scalar]
    snapshot: ClassVar[type[ScalarSnapshot[Any]]]
    """The class of the snapshot, which `snapshot_of` sets."""
    restored: ClassVar[dict[str, bool]] = {}
    """The arguments of a serializer that reads whatever is stored."""

    @property
    def length(self) -> int:
        return self.row.size

    is_immutable_type = True

    @property
    def layout(self) -> rewrite.ByteRewrite:
        return self.row.layout

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[T]:
        return self.snapshot()


class ScalarSnapshot(FlinkSnapshot[T]):
    """Base of the snapshots of scalars, which are completed by `snapshot_of`."""

    serializer: ClassVar[type[ScalarSerializer[Any]]]

    def describe(self) -> str:
        return self.serializer.row.name

    def restore_serializer(self) -> TypeSerializer[T]:
        return self.serializer(**self.serializer.restored)


def snapshot_of(
    serializer: type[ScalarSerializer[Any]], base: type[ScalarSnapshot[Any]] | None = None, *, snapshot_id: str = ""
) -> type[ScalarSnapshot[Any]]:
    """Return the registered snapshot class of a scalar, made of what its row says; give it the name of Flink's.

    Args:
        serializer: The serializer of the scalar.
        base: What it has in common with its siblings; None: nothing, and its kind is the name of the scalar.
        snapshot_id: The id of the snapshot, where it is not that of a serializer in Flink's package of basic types.
    """
    row = serializer.row
    body = {
        "__module__": serializer.__module__,
        "__doc__": f"Snapshot of `{serializer.__name__}`.",
        "serializer": serializer,
        "snapshot_id": snapshot_id or flink_id(row.flink),
        **({"java_class": row.java_class} if row.java_class else {}),
        **({"kind": row.name} if base is None else {}),
    }
    serializer.snapshot = register_snapshot(type(f"{row.flink}SerializerSnapshot", (base or ScalarSnapshot,), body))
    return serializer.snapshot


def kept(
    writer: ScalarSerializer[Any], reader: TypeDeserializer[Any], conversion: rewrite.Conversion
) -> rewrite.ByteRewrite | None:
    """Return the byte rewrite of values of one type that stay as they are."""
    return writer.row.stays if isinstance(reader, type(writer)) and conversion is None else None
