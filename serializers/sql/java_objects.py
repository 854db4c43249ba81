"""Objects in Java serialization, as structure: what is in the stream, without what a class of Java would do with it.

Flink's snapshots of SQL types hold such objects, without a length. They are parsed to find their end and to read the
logical types in them. No class is looked up, and nothing is run. What was parsed is written again byte for byte.

    stream    u16 0xACED, u16 5, then one content
    content   u8 tag, then by tag
      0x70 null          nothing
      0x71 reference     i32 0x7E0000 + handle: the n-th class, object, string, array or enum of the stream
      0x72 class         UTF name, i64 serial version, u8 flags, u16 n, n fields, annotations, content: class above it
      0x73 object        content: its class; for each class of the chain, from the top: fields, [annotations]
      0x74, 0x7C string  UTF; i64 size and modified UTF-8
      0x75 array         content: its class; i32 n, n values
      0x76 class object  content: the class
      0x77, 0x7A block   u8 or i32 size, bytes
      0x7E enum          content: its class; content: the constant's name
    field     u8 type, UTF name; of an object or array also content: the type's name
    annotations          contents up to 0x78, where a class writes data of its own (flag 1)

Source: Java Object Serialization Specification, 6.4; native snapshot notes, 6.1. Proxies, externalizable objects and
exceptions are refused.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, NoReturn

import attrs

from ..errors import CorruptSavepoint
from ..limits import MAX_NESTING
from ..views import DataInputView, DataOutputView, decode_modified_utf8, encode_modified_utf8

if TYPE_CHECKING:
    from collections.abc import Callable

JAVA_STREAM = b"\xac\xed\x00\x05"
"""How each stream begins."""
_NULL, _REFERENCE, _CLASS, _OBJECT, _STRING, _ARRAY, _CLASS_OBJECT, _BLOCK, _END = range(0x70, 0x79)
_LONG_BLOCK, _LONG_STRING, _ENUM = 0x7A, 0x7C, 0x7E
_FIRST_HANDLE = 0x7E0000
_WRITES_DATA, _SERIALIZABLE, _EXTERNALIZABLE = 1, 2, 4
_NUMBERS = {code: struct.Struct(">" + form) for code, form in zip("BCDFIJSZ", "bHdfiqh?", strict=True)}
_MOST_UTF = 0xFFFF


class UnreadJavaObject(CorruptSavepoint):
    """An object in Java serialization holds what is not read here: what only Java could read, or what is damaged."""


@attrs.frozen
class JavaField:
    """A field of a class.

    Attributes:
        code: The letter of its type: a primitive type, `L` of an object, `[` of an array.
        name: The name.
        type: The name of an object's or array's type; None of a primitive type.
    """

    code: str
    name: str
    type: JavaString | None = None


@attrs.frozen(eq=False)
class JavaString:
    """A string; Java writes each only once, so two equal strings need not be the same one."""

    text: str


@attrs.define(eq=False)
class JavaClass:
    """A class, as a stream describes it.

    Attributes:
        name: The name.
        serial_version: Its `serialVersionUID`.
        flags: Whether it is serializable, an enum, and writes data of its own.
        fields: The fields that it adds to those of the class above it.
        annotations: What its loader has added.
        above: The class above it, if that is serializable.
    """

    name: str
    serial_version: int
    flags: int = _SERIALIZABLE
    fields: tuple[JavaField, ...] = ()
    annotations: tuple[Any, ...] = ()
    above: JavaClass | None = None

    def chain(self) -> list[JavaClass]:
        """Return the class and all above it, from the top."""
        return [*(self.above.chain() if self.above else ()), self]


@attrs.define(eq=False)
class JavaObject:
    """An object.

    Attributes:
        of: Its class.
        parts: For each class of the chain, from the top: the class, the values of its fields, and what it wrote beside
            them.
    """

    of: JavaClass
    parts: list[tuple[JavaClass, list[Any], tuple[Any, ...]]] = attrs.field(factory=list)

    def get(self, name: str) -> Any:
        """Return the value of a field; None if there is none."""
        for described, values, _ in self.parts:
            for field, value in zip(described.fields, values, strict=True):
                if field.name == name:
                    return value.text if isinstance(value, JavaString) else value
        return None

    def written(self) -> list[Any]:
        """Return the objects that its classes wrote beside their fields."""
        return [item for *_, more in self.parts for item in more if not isinstance(item, bytes)]


@attrs.define(eq=False)
class JavaArray:
    """An array.

    Attributes:
        of: Its class, whose name has the type of the items: `[I`.
        items: The items.
    """

    of: JavaClass
    items: list[Any] = attrs.field(factory=list)


@attrs.define(eq=False)
class JavaEnum:
    """A constant of an enum."""

    of: JavaClass
    constant: JavaString | None = None


@attrs.frozen(eq=False)
class JavaClassObject:
    """A class as a value."""

    of: JavaClass | None


def read_java_object(source: DataInputView) -> Any:
    """Read one stream of one object.

    Raises:
        CorruptSavepoint: The bytes are none, or hold what only Java could read.
    """
    start = source.position
    if source.read_fully(len(JAVA_STREAM)) != JAVA_STREAM:
        raise CorruptSavepoint("an object in Java serialization does not begin as one", offset=start)
    return _Reader(source).content()


def enum_constant(data: bytes, *fields: str) -> str:
    """Return the name of the constant of an enum to which fields lead from an object; "" where there is none.

    Args:
        data: A stream of one object, or other bytes.
        fields: The names of fields, each of the object before it.
    """
    try:
        found = read_java_object(DataInputView(data))
    except CorruptSavepoint:
        return ""
    for name in fields:
        found = found.get(name) if isinstance(found, JavaObject) else None
    return found.constant.text if isinstance(found, JavaEnum) and found.constant is not None else ""


@attrs.define
class _Reader:
    source: DataInputView
    handles: list[Any] = attrs.field(factory=list)
    depth: int = 0

    def content(self) -> Any:
        return self._of_tag(self.source.read_unsigned_byte())

    def _of_tag(self, tag: int) -> Any:
        read = _READERS.get(tag)
        if read is None:
            self._refuse(f"has the tag {tag:#04x}, which is not read")
        if self.depth >= MAX_NESTING:
            self._refuse(f"is nested more than {MAX_NESTING} deep")
        self.depth += 1
        value = read(self)
        self.depth -= 1
        return value

    def _refuse(self, why: str) -> NoReturn:
        raise UnreadJavaObject(f"an object in Java serialization {why}", offset=self.source.position)

    def _kept(self, value: Any) -> Any:
        self.handles.append(value)
        return value

    def reference(self) -> Any:
        handle = self.source.read_int() - _FIRST_HANDLE
        if not 0 <= handle < len(self.handles):
            self._refuse("refers to what is not in it")
        return self.handles[handle]

    def class_described(self) -> JavaClass:
        source = self.source
        described = self._kept(JavaClass(source.read_utf(), source.read_long()))
        described.flags = source.read_unsigned_byte()
        described.fields = tuple(self._field() for _ in range(source.read_unsigned_short()))
        described.annotations = self._annotations()
        described.above = self._class()
        chain, above = {id(described)}, described.above
        while above is not None:
            if id(above) in chain:
                self._refuse("has a class that is above itself")
            chain.add(id(above))
            above = above.above
        return described  # type: ignore[no-any-return]  # what was kept

    def _field(self) -> JavaField:
        code, name = chr(self.source.read_unsigned_byte()), self.source.read_utf()
        if code in _NUMBERS:
            return JavaField(code, name)
        if code not in "L[":
            self._refuse(f"has a field of the type {code!r}")
        told = self.content()
        if not isinstance(told, JavaString):
            self._refuse("has a field of a type without a name")
        return JavaField(code, name, told)

    def _annotations(self) -> tuple[Any, ...]:
        found = []
        while (tag := self.source.read_unsigned_byte()) != _END:
            found.append(self._of_tag(tag))
        return tuple(found)

    def _class(self, *, required: bool = False) -> Any:
        found = self.content()
        if not isinstance(found, JavaClass) and (required or found is not None):
            self._refuse("has no class where one is needed")
        return found

    def object(self) -> JavaObject:
        made = self._kept(JavaObject(self._class(required=True)))
        for described in made.of.chain():
            if described.flags & _EXTERNALIZABLE:
                self._refuse(f"has an externalizable object, of {described.name}, which only Java reads")
            values = [self._value(field.code) for field in described.fields]
            made.parts.append((described, values, self._annotations() if described.flags & _WRITES_DATA else ()))
        return made  # type: ignore[no-any-return]  # what was kept

    def _value(self, code: str) -> Any:
        form = _NUMBERS.get(code)
        return self.content() if form is None else self.source.unpack(form)[0]

    def string(self) -> JavaString:
        return self._kept(JavaString(self.source.read_utf()))  # type: ignore[no-any-return]  # what was kept

    def long_string(self) -> JavaString:
        start = self.source.position
        size = self.source.read_long()
        if not _MOST_UTF < size <= self.source.remaining():
            raise CorruptSavepoint("a long string in Java serialization has another size", offset=start)
        return self._kept(JavaString(decode_modified_utf8(self.source.read_fully(size))))  # type: ignore[no-any-return]

    def array(self) -> JavaArray:
        made = self._kept(JavaArray(self._class(required=True)))
        code = made.of.name[1:2]
        form = _NUMBERS.get(code)
        count = self.source.read_size("items", least_bytes_each=form.size if form else 1)
        made.items.extend(self._value(code) for _ in range(count))
        return made  # type: ignore[no-any-return]  # what was kept

    def class_object(self) -> JavaClassObject:
        return self._kept(JavaClassObject(self._class()))  # type: ignore[no-any-return]  # what was kept

    def enum(self) -> JavaEnum:
        made = self._kept(JavaEnum(self._class(required=True)))
        made.constant = self.content()
        if not isinstance(made.constant, JavaString):
            self._refuse("has a constant without a name")
        return made  # type: ignore[no-any-return]  # what was kept

    def block(self) -> bytes:
        return self.source.read_fully(self.source.read_unsigned_byte())

    def long_block(self) -> bytes:
        return self.source.read_fully(self.source.read_size("bytes of a block"))


_READERS: dict[int, Callable[[_Reader], Any]] = {
    _NULL: lambda _: None,
    _REFERENCE: _Reader.reference,
    _CLASS: _Reader.class_described,
    _OBJECT: _Reader.object,
    _STRING: _Reader.string,
    _ARRAY: _Reader.array,
    _CLASS_OBJECT: _Reader.class_object,
    _BLOCK: _Reader.block,
    _LONG_BLOCK: _Reader.long_block,
    _LONG_STRING: _Reader.long_string,
    _ENUM: _Reader.enum,
}


def write_java_object(value: Any, target: DataOutputView) -> None:
    """Write one stream of one object, as Java does: what occurs again is a reference."""
    target.write(JAVA_STREAM)
    _Writer(target).content(value)


@attrs.define
class _Writer:
    target: DataOutputView
    handles: dict[int, int] = attrs.field(factory=dict)

    def content(self, value: Any) -> None:
        handle = self.handles.get(id(value))
        if value is None:
            self.target.write_byte(_NULL)
        elif handle is not None:
            self.target.write_byte(_REFERENCE)
            self.target.write_int(_FIRST_HANDLE + handle)
        else:
            _WRITERS[type(value)](self, value)

    def _keep(self, value: Any) -> None:
        self.handles[id(value)] = len(self.handles)

    def class_described(self, described: JavaClass) -> None:
        target = self.target
        target.write_byte(_CLASS)
        target.write_utf(described.name)
        target.write_long(described.serial_version)
        self._keep(described)
        target.write_byte(described.flags)
        target.write_unsigned_short(len(described.fields))
        for field in described.fields:
            target.write_byte(ord(field.code))
            target.write_utf(field.name)
            if field.type is not None:
                self.content(field.type)
        self._annotations(described.annotations)
        self.content(described.above)

    def _annotations(self, annotations: tuple[Any, ...]) -> None:
        for item in annotations:
            self.content(item)
        self.target.write_byte(_END)

    def object(self, value: JavaObject) -> None:
        self.target.write_byte(_OBJECT)
        self.content(value.of)
        self._keep(value)
        for described, values, written in value.parts:
            for field, item in zip(described.fields, values, strict=True):
                self._value(field.code, item)
            if described.flags & _WRITES_DATA:
                self._annotations(written)

    def _value(self, code: str, value: Any) -> None:
        form = _NUMBERS.get(code)
        if form is None:
            self.content(value)
        else:
            self.target.write(form.pack(value))

    def string(self, value: JavaString) -> None:
        data = encode_modified_utf8(value.text)
        if len(data) > _MOST_UTF:
            self.target.write_byte(_LONG_STRING)
            self.target.write_long(len(data))
            self.target.write(data)
        else:
            self.target.write_byte(_STRING)
            self.target.write_utf(value.text)
        self._keep(value)

    def array(self, value: JavaArray) -> None:
        self.target.write_byte(_ARRAY)
        self.content(value.of)
        self._keep(value)
        self.target.write_int(len(value.items))
        for item in value.items:
            self._value(value.of.name[1:2], item)

    def class_object(self, value: JavaClassObject) -> None:
        self.target.write_byte(_CLASS_OBJECT)
        self.content(value.of)
        self._keep(value)

    def enum(self, value: JavaEnum) -> None:
        self.target.write_byte(_ENUM)
        self.content(value.of)
        self._keep(value)
        self.content(value.constant)

    def block(self, value: bytes) -> None:
        if len(value) > 0xFF:
            self.target.write_byte(_LONG_BLOCK)
            self.target.write_int(len(value))
        else:
            self.target.write_byte(_BLOCK)
            self.target.write_byte(len(value))
        self.target.write(value)


_WRITERS: dict[type, Callable[[_Writer, Any], None]] = {
    JavaClass: _Writer.class_described,
    JavaObject: _Writer.object,
    JavaString: _Writer.string,
    JavaArray: _Writer.array,
    JavaClassObject: _Writer.class_object,
    JavaEnum: _Writer.enum,
    bytes: _Writer.block,
}
