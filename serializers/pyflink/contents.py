"""Flink's bytes around what PyFlink's coders wrote, with the type of the content.

Flink knows only bytes, and a savepoint says no more. The type of the content is what a job declares, or what was
recorded of it; snapshots carry it in memory, and write what Flink writes. So bytes of which nothing is known are taken
for what is declared, and the check says that it cannot know: rules PYF-1 and PYF-2.

    PyFlinkBytes     byte[]            one value
    PyFlinkElements  byte[]            all elements that were added to a list between two flushes, one after the other
    PyFlinkKey       ByteArrayWrapper  one key of a map
    PyFlinkPickle    byte[]            one row or tuple of thread mode, as a pickle
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from .. import rewrite
from ..byte_forms import UTF
from ..compatibility import Child, CompatibilityResult, Finding, Flag, Verdict, compose
from ..containers.arrays import BytePrimitiveArraySerializerSnapshot, BytesSerializer
from ..containers.lists import ListSerializer
from ..errors import CorruptSavepoint, ValueNotConvertible, at_step, shown
from ..pickled.rules import written_anew
from ..pickled.serializers import PickleSerializer
from ..registry import register_snapshot
from ..rows.serializers import by_told_names
from ..serializer import Counterpart, TypeSerializer, incompatible, unrelated
from ..snapshot import OWN_PREFIX, SNAPSHOT, FormedSnapshot, TypeSerializerConfigSnapshot
from ..views import DataInputView, DataOutputView
from ..wording import many
from .byte_keys import ByteArrayWrapperSerializer, ByteArrayWrapperSerializerSnapshot
from .row_pickles import opened, pickled

if TYPE_CHECKING:
    from ..byte_forms import Fields
    from ..snapshot import Speller

_DECLARE = "declare the type with which the job of PyFlink wrote the state"


class ContentSnapshot(TypeSerializerConfigSnapshot[Any]):
    """Base of the snapshots of bytes whose content is known; it writes those of the bytes alone.

    Attributes:
        content: The snapshot of the content; None: it is not known, as in a savepoint.
    """

    tells_all: ClassVar[bool] = False
    reader: ClassVar[type[ContentSerializer]]
    content: TypeSerializerConfigSnapshot[Any] | None

    def recorded(self) -> TypeSerializerConfigSnapshot[Any]:
        """Return what records have in its place: with the content."""
        return self if self.content is None else RecordedContentSnapshot(self.reader.__name__, self.content)

    @property
    def is_flink(self) -> bool:
        """Whether Flink knows this snapshot: it does, since the content is not written."""
        return True

    def children(self) -> tuple[TypeSerializerConfigSnapshot[Any], ...]:
        return () if self.content is None else (self.content,)

    def describe(self) -> str:
        return self.reader.words + ("" if self.content is None else f" of {self.content.describe()}")

    def spell(self, speller: Speller) -> str:
        return self.describe() if self.content is None else f"{self.reader.words} of {speller.part(self.content)}"

    def counterpart(self) -> Counterpart | None:
        """Return the content, which has the same values."""
        return None if self.content is None else self.reader(self.content.restore_serializer()).counterpart()

    def restore_serializer(self) -> TypeSerializer[Any]:
        return self.reader.plain() if self.content is None else self.reader(self.content.restore_serializer())


def has_content(snapshot: TypeSerializerConfigSnapshot[Any]) -> bool:
    """Whether a type has bytes whose content is known."""
    if isinstance(snapshot, ContentSnapshot):
        return snapshot.content is not None
    return any(map(has_content, snapshot.children()))


@attrs.frozen
class ContentSerializer(TypeSerializer[Any]):
    """Base of the serializers of bytes whose content is known.

    Attributes:
        content: The serializer of the content, as `coder_for` returns it.
    """

    words: ClassVar[str]
    plain: ClassVar[type[TypeSerializer[Any]]]
    """The serializer of the bytes alone."""
    stored: ClassVar[type[TypeSerializerConfigSnapshot[Any]]]
    """The snapshot of the bytes alone."""
    described: ClassVar[Any]
    """The snapshot that carries the content."""

    content: TypeSerializer[Any]

    layout = rewrite.Blob()

    def serialize(self, value: Any, target: DataOutputView) -> None:
        inner = DataOutputView()
        self._write(value, inner)
        data = inner.getvalue()
        target.write_int(len(data))
        target.write(data)

    def deserialize(self, source: DataInputView) -> Any:
        size = source.read_size("bytes")
        inner = source.part(source.position, size)
        source.skip_bytes(size)
        try:
            value = self._read(inner)
        except CorruptSavepoint as error:
            what = f"bytes of PyFlink do not hold {self.content.describe()}: {error.what}"
            told = ValueNotConvertible(what, advice=_DECLARE)
            told.where.update(error.where)
            raise told from error
        if inner.remaining():
            left = many(inner.remaining(), "byte")
            what = f"bytes of PyFlink go on after {self.content.describe()}, by {left}"
            raise ValueNotConvertible(what, advice=_DECLARE, offset=inner.position)
        return value

    @abstractmethod
    def _write(self, value: Any, inner: DataOutputView) -> None: ...

    @abstractmethod
    def _read(self, inner: DataInputView) -> Any: ...

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[Any]:
        snapshot: TypeSerializerConfigSnapshot[Any] = self.described(self.content.snapshot_configuration())
        return snapshot

    def ensure_compatibility(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[Any]:
        if isinstance(snapshot, ContentSnapshot) and snapshot.content is not None:
            return self._of_content(snapshot, snapshot.content)
        if not isinstance(snapshot, self.stored):
            return unrelated(self, snapshot)
        reason = "the savepoint does not say what PyFlink's coder wrote into these bytes"
        finding = Finding(
            "$", "PYF-1", Verdict.COMPATIBLE, snapshot.describe(), self.describe(), reason,
            ("read the values, which shows whether they are of this type",), (Flag.UNVERIFIED, Flag.MAY_FAIL_PER_VALUE),
        )  # fmt: skip
        return CompatibilityResult.compatible(finding)

    def _of_content(
        self, snapshot: ContentSnapshot, content: TypeSerializerConfigSnapshot[Any]
    ) -> CompatibilityResult[Any]:
        if snapshot.reader is not type(self):
            reason = "one value, several elements and a key of a map are kept in bytes of different kinds"
            return incompatible(self, snapshot, "PYF-2", reason)
        result = by_told_names(self.content, content).ensure_compatibility(content)
        if isinstance(self.content, PickleSerializer):
            result = written_anew(self.content, content, result)
        of = type(self)
        return compose(
            CompatibilityResult.compatible(),
            [Child("", self.content, result, content.restore_serializer)],
            rebuild=lambda nested: of(nested[0]),
            convert=lambda conversions: self._conversion(conversions[0]),
            read_with=lambda readers: of(readers[0]),
        )

    def _conversion(self, convert: Any) -> Any:
        return convert


def _as_it_is(value: Any) -> Any:
    return value


@attrs.frozen
class _OneSerializer(ContentSerializer):
    """Base of the serializers of bytes that hold exactly one value."""

    def _write(self, value: Any, inner: DataOutputView) -> None:
        self.content.serialize(value, inner)

    def _read(self, inner: DataInputView) -> Any:
        return self.content.deserialize(inner)

    def counterpart(self) -> Counterpart | None:
        return self.content.counterpart() or Counterpart(self.content, _as_it_is, _as_it_is)


@attrs.frozen
class PyFlinkBytes(_OneSerializer):
    """A `byte[]` that holds exactly one value."""

    words = "bytes"
    plain = BytesSerializer
    stored = BytePrimitiveArraySerializerSnapshot


@attrs.frozen
class PyFlinkKey(_OneSerializer):
    """A `ByteArrayWrapper` that holds exactly one key of a map."""

    words = "wrapped bytes"
    plain = ByteArrayWrapperSerializer
    stored = ByteArrayWrapperSerializerSnapshot


@attrs.frozen
class ConvertEach:
    """Converts each element."""

    convert: Any

    def __call__(self, values: Any) -> Any:
        with at_step("[]"):
            return [None if value is None else self.convert(value) for value in values]


@attrs.frozen
class PyFlinkElements(ContentSerializer):
    """A `byte[]` that holds one or more elements of a list state; its values are lists."""

    words = "bytes"
    plain = BytesSerializer
    stored = BytePrimitiveArraySerializerSnapshot

    def _write(self, value: Any, inner: DataOutputView) -> None:
        with at_step("[]"):
            for element in value:
                self.content.serialize(element, inner)

    def _read(self, inner: DataInputView) -> list[Any]:
        elements: list[Any] = []
        with at_step("[]"):
            while inner.remaining():
                elements.append(self.content.deserialize(inner))
        if not elements:
            raise CorruptSavepoint("there is no element", offset=inner.position)
        return elements

    def counterpart(self) -> Counterpart | None:
        return Counterpart(ListSerializer(self.content), _as_it_is, _as_it_is)

    def _conversion(self, convert: Any) -> Any:
        return None if convert is None else ConvertEach(convert)


@attrs.frozen
class PyFlinkPickle(_OneSerializer):
    """A `byte[]` that is the pickle of exactly one row or tuple, as thread mode keeps these."""

    words = "pickle"
    plain = BytesSerializer
    stored = BytePrimitiveArraySerializerSnapshot

    def _write(self, value: Any, inner: DataOutputView) -> None:
        inner.write(pickled(self._declared(value)))

    def _read(self, inner: DataInputView) -> Any:
        value = opened(bytes(inner.read_fully(inner.remaining())))
        try:
            self._declared(value)
        except ValueNotConvertible as error:
            raise CorruptSavepoint(error.what) from error
        return value

    def _declared(self, value: Any) -> Any:
        """Return a value as its type reads it: rows with the names of their columns."""
        target = DataOutputView()
        self.content.serialize(value, target)
        return self.content.deserialize(DataInputView(target.getvalue()))


@attrs.define
class _BytesOf(ContentSnapshot, BytePrimitiveArraySerializerSnapshot):  # type: ignore[misc,valid-type]
    reader: ClassVar[type[ContentSerializer]] = PyFlinkBytes
    content: TypeSerializerConfigSnapshot[Any] | None = None


@attrs.define
class _ElementsOf(ContentSnapshot, BytePrimitiveArraySerializerSnapshot):  # type: ignore[misc,valid-type]
    reader: ClassVar[type[ContentSerializer]] = PyFlinkElements
    content: TypeSerializerConfigSnapshot[Any] | None = None


@attrs.define
class _KeyOf(ContentSnapshot, ByteArrayWrapperSerializerSnapshot):  # type: ignore[misc,valid-type]
    reader: ClassVar[type[ContentSerializer]] = PyFlinkKey
    content: TypeSerializerConfigSnapshot[Any] | None = None


@attrs.define
class _PickleOf(ContentSnapshot, BytePrimitiveArraySerializerSnapshot):  # type: ignore[misc,valid-type]
    reader: ClassVar[type[ContentSerializer]] = PyFlinkPickle
    content: TypeSerializerConfigSnapshot[Any] | None = None


@register_snapshot
@attrs.define
class RecordedContentSnapshot(FormedSnapshot[Any]):
    """Bytes whose content is known, as they stand in a record; a reader of the record gets a `ContentSnapshot`.

    Attributes:
        reader: The name of the class of their serializer.
        content: The snapshot of the content.
    """

    snapshot_id: ClassVar[str] = OWN_PREFIX + "pyflink-content"
    body: ClassVar[Fields] = {"reader": UTF, "content": SNAPSHOT}

    reader: str = ""
    content: TypeSerializerConfigSnapshot[Any] = attrs.field(factory=BytePrimitiveArraySerializerSnapshot)

    def meant(self) -> TypeSerializerConfigSnapshot[Any]:
        if self.reader not in _READERS:
            raise CorruptSavepoint(f"bytes of PyFlink are recorded as {shown(self.reader)}, which is not known")
        snapshot: TypeSerializerConfigSnapshot[Any] = _READERS[self.reader].described(self.content)
        return snapshot

    def restore_serializer(self) -> TypeSerializer[Any]:
        return self.meant().restore_serializer()


_READERS: dict[str, type[ContentSerializer]] = {
    one.__name__: one for one in (PyFlinkBytes, PyFlinkElements, PyFlinkKey, PyFlinkPickle)
}
PyFlinkBytes.described, PyFlinkElements.described, PyFlinkKey.described = _BytesOf, _ElementsOf, _KeyOf
PyFlinkPickle.described = _PickleOf
