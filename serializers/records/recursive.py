"""Records that contain themselves, directly or through others: one serializer and one snapshot for a whole cycle.

Records that refer to each other form a cycle. Its outermost record gets the others; inside, all are references. They
are found while their serializers are made, by Tarjan's algorithm. The bytes are those of records; references are
followed by `recursion`. Source: compatibility rules, COMP-3.

Checks of classes wait until all cycles are known. Flink makes POJOs of classes, too, but not of a class within itself:
a field of it is a generic type, for Kryo. So is a list or map of it in Flink 1.20; in Flink 2.3 its type extractor
overflows the stack on these (both tried).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

import attrs

from .. import rewrite
from ..byte_forms import UTF, many
from ..errors import CorruptSavepoint, DeclarationError, ValueNotConvertible
from ..registry import register_snapshot
from ..serializer import TypeSerializer
from ..snapshot import OWN_PREFIX, FormedSnapshot, TypeSerializerConfigSnapshot
from ..stored_names import qualified_name
from . import recursion as record_scopes
from .classes import options_of
from .recursion import Reference, most_levels
from .serializers import (
    RECORD_SNAPSHOT,
    DescribedRecordSerializer,
    RecordSerializer,
    RecordSerializerSnapshot,
    RecordSnapshot,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..byte_forms import Fields
    from ..compatibility import CompatibilityResult
    from ..snapshot import Speller
    from ..views import DataInputView, DataOutputView
    from .serializers import Readers

K = TypeVar("K", bound=Hashable)
Others = tuple["DescribedRecordSerializer[Any]", ...]


@attrs.define
class Circles(Generic[K]):
    """Makes the serializers of records that may contain themselves.

    Attributes:
        make: Makes the serializer of one record, and calls `serializer` for its parts.
        close: Makes the final serializer of a record from its own and those of the other records of its cycle, of which
            it is the outermost one; None instead of the others: it does not contain itself.
        refer: Makes a reference to a record, by its key.
    """

    make: Callable[[K], DescribedRecordSerializer[Any]]
    close: Callable[[K, DescribedRecordSerializer[Any], Others | None], TypeSerializer[Any]]
    refer: Callable[[K], TypeSerializer[Any]]
    _open: list[K] = attrs.field(factory=list, init=False)
    _order: dict[K, int] = attrs.field(factory=dict, init=False)
    _lowest: dict[K, int] = attrs.field(factory=dict, init=False)
    _waiting: dict[K, DescribedRecordSerializer[Any]] = attrs.field(factory=dict, init=False)
    _referred: set[K] = attrs.field(factory=set, init=False)

    def serializer(self, key: K) -> TypeSerializer[Any]:
        """Return the serializer of a record, or a reference to it within its own cycle."""
        if key in self._order:
            self._reach(self._order[key])
            self._referred.add(key)
            return self.refer(key)
        order = self._order[key] = self._lowest[key] = len(self._order)
        self._open.append(key)
        made = self.make(key)
        self._open.pop()
        if self._lowest[key] < order:
            self._reach(self._lowest[key])
            self._waiting[key] = made
            self._referred.add(key)
            return self.refer(key)
        return self._closed(key, made)

    def _reach(self, order: int) -> None:
        inner = self._open[-1]
        self._lowest[inner] = min(self._lowest[inner], order)

    def _closed(self, key: K, made: DescribedRecordSerializer[Any]) -> TypeSerializer[Any]:
        circle = [one for one in self._waiting if self._order[one] > self._order[key]]
        others = tuple(self._waiting.pop(one) for one in circle)
        is_circle = key in self._referred
        for one in (key, *circle):
            del self._order[one], self._lowest[one]
            self._referred.discard(one)
        return self.close(key, made, others if is_circle else None)


T = TypeVar("T")

_ADVICE = "keep long chains in a map state or list state, one link an entry"


@attrs.frozen
class RecordReference(TypeSerializer[Any]):
    """Stands for a record within itself; usable only within its cycle.

    Attributes:
        name: The identity of the record.
    """

    name: str

    layout = rewrite.ByteRewrite()

    def serialize(self, value: Any, target: DataOutputView) -> None:
        with record_scopes.serializers.following(self.name, deeper=True) as (record, is_open):
            if is_open:
                DescribedRecordSerializer.serialize(record, value, target)
            else:
                record.serialize(value, target)

    def deserialize(self, source: DataInputView) -> Any:
        with record_scopes.serializers.following(self.name, deeper=True) as (record, is_open):
            return DescribedRecordSerializer.deserialize(record, source) if is_open else record.deserialize(source)

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[Any]:
        return RecordReferenceSnapshot(self.name)

    def ensure_compatibility(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[Any]:
        with record_scopes.serializers.following(self.name) as (record, _):
            result = record.ensure_compatibility(snapshot)
        if result.is_compatible_after_reconfiguration():
            return attrs.evolve(result, reconfigured=self)  # the cycle contains the copy, under this name
        return result


@register_snapshot
@attrs.define
class RecordReferenceSnapshot(Reference, FormedSnapshot[Any]):
    """Snapshot of `RecordReference`."""

    snapshot_id: ClassVar[str] = OWN_PREFIX + "record-reference"
    kind: ClassVar[str] = "record"
    body: ClassVar[Fields] = {"name": UTF}

    def describe(self) -> str:
        return self.name

    def spell(self, speller: Speller) -> str:
        try:
            with record_scopes.snapshots.following(self.name) as (record, _):
                return speller.part(record)
        except CorruptSavepoint:
            return self.name

    def restore_serializer(self) -> TypeSerializer[Any]:
        return RecordReference(self.name)


@attrs.frozen
class RecursiveRecordSerializer(RecordSerializer[T]):
    """A record that contains itself, with all records of its cycle.

    Attributes:
        others: The other records of the cycle, each once.
    """

    others: tuple[DescribedRecordSerializer[Any], ...] = ()

    @property
    def circle(self) -> Mapping[str, DescribedRecordSerializer[Any]]:
        return {record.name: record for record in (self, *self.others)}

    layout = rewrite.ByteRewrite()

    def serialize(self, value: T, target: DataOutputView) -> None:
        too_deep = f"{self._too_deep()}, or contains itself"
        with record_scopes.serializers.entered(self.circle, lambda: ValueNotConvertible(too_deep, advice=_ADVICE)):
            super().serialize(value, target)

    def deserialize(self, source: DataInputView) -> T:
        start = source.position

        def too_deep() -> CorruptSavepoint:
            return CorruptSavepoint(self._too_deep(), advice=_ADVICE, offset=start)

        with record_scopes.serializers.entered(self.circle, too_deep):
            return super().deserialize(source)

    def _too_deep(self) -> str:
        return f"a value of {self.name} is nested within itself more than {most_levels()} levels deep"

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[T]:
        plain = cast("RecordSerializerSnapshot", super().snapshot_configuration())
        others = tuple(cast("RecordSnapshot", record.snapshot_configuration()) for record in self.others)
        return RecursiveRecordSnapshot(plain.name, plain.fields, plain.registered, others)


@register_snapshot
@attrs.define
class RecursiveRecordSnapshot(RecordSerializerSnapshot):
    """Snapshot of `RecursiveRecordSerializer`: that of a record, and the others of its cycle."""

    snapshot_id: ClassVar[str] = OWN_PREFIX + "recursive-record"
    body: ClassVar[Fields] = {**RecordSerializerSnapshot.body, "others": many(RECORD_SNAPSHOT, "records of a cycle")}

    others: tuple[RecordSnapshot, ...] = ()

    @property
    def circle(self) -> Mapping[str, RecordSnapshot]:
        return {record.record_name(): record for record in (self, *self.others)}

    def children(self) -> tuple[TypeSerializerConfigSnapshot[Any], ...]:
        return (*super().children(), *self.others)

    def spell(self, speller: Speller) -> str:
        with record_scopes.snapshots.entered(self.circle):
            return super().spell(speller)

    def restore_with(self, readers: Readers, subclasses: Readers | None = None) -> DescribedRecordSerializer[Any]:
        return RecursiveRecordSerializer(
            self.name,
            self._restored_fields(readers),
            registered=self._restored_subclasses(self.registered, subclasses),
            allow_null=True,
            others=tuple(record.restore_with({}) for record in self.others),
        )

    def read(self, source: DataInputView) -> None:
        start = source.position
        super().read(source)
        if len(self.circle) <= len(self.others):
            raise CorruptSavepoint(f"two records around {self.name} have the same name", offset=start)


if TYPE_CHECKING:
    Make = Callable[[type], DescribedRecordSerializer[Any]]


def record_name(cls: type) -> str:
    """Return the identity of a class in the state: its Java class, else its qualified name."""
    return options_of(cls).java_class or qualified_name(cls)


def record_or_reference(cls: type, make: Make) -> TypeSerializer[Any]:
    """Return the serializer of a class, or a reference to it within its own cycle.

    Args:
        cls: The class.
        make: Makes the serializer of one class, and calls this function for its fields.

    Raises:
        DeclarationError: A class with a Java class contains itself, or a default does not fit.
    """
    making = _making.get()
    if making is not None:
        return making.circles.serializer(cls)
    making = _Making(make)
    token = _making.set(making)
    try:
        return making.circles.serializer(cls)
    finally:
        _making.reset(token)


def check_in_time(check: Callable[[], None]) -> None:
    """Check a default: at once, or, while serializers of classes are being made, when the class's cycle is complete."""
    making = _making.get()
    if making is None:
        check()
    else:
        making.checks.append(check)


@attrs.define
class _Making:
    """The state of making serializers of classes.

    Attributes:
        make: Makes the serializer of one class.
        checks: Checks that must wait until a cycle is complete: whether defaults can be written.
    """

    make: Make
    circles: Circles[type] = attrs.field(init=False)
    checks: list[Callable[[], None]] = attrs.field(factory=list, init=False)
    _begun: dict[type, int] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.circles = Circles(self._begin, self._close, lambda cls: RecordReference(record_name(cls)))

    def _begin(self, cls: type) -> DescribedRecordSerializer[Any]:
        self._begun[cls] = len(self.checks)
        return self.make(cls)

    def _close(self, cls: type, made: DescribedRecordSerializer[Any], others: Others | None) -> TypeSerializer[Any]:
        if others is not None:
            made = _circle(made, others)
        begun = self._begun.pop(cls)
        due, self.checks[begun:] = self.checks[begun:], []
        with record_scopes.serializers.entered(made.circle):
            for check in due:
                check()
        return made


_making: ContextVar[_Making | None] = ContextVar("_making", default=None)


def _circle(record: DescribedRecordSerializer[T], others: Others) -> DescribedRecordSerializer[T]:
    """Return the serializer of a class that contains itself."""
    java = next((one for one in (record, *others) if not isinstance(one, RecordSerializer)), None)
    if java is not None:
        raise DeclarationError(
            f"{java.name} contains itself, and has a Java class: Flink leaves the inner ones to Kryo, whose bytes are "
            "not written by this release",
            advice="leave the java_class out, for a state of stateshift's own; or store the inner records in a map "
            "state or list state of their own, and refer to them by key",
        )
    names = [one.name for one in (record, *others)]
    if len(set(names)) < len(names):
        raise DeclarationError(f"two classes around {record.name} have the same name: {', '.join(sorted(names))}")
    return RecursiveRecordSerializer(
        **{field.name: getattr(record, field.name) for field in attrs.fields(RecordSerializer)}, others=others
    )
