"""Values in a wrapper: a null flag, or a snapshot that says whether values have a time to live.

TTL-aware snapshots: Flink 2's wrapper that notes whether a state has TTL; the bytes are those of the inner snapshot.

    bool has TTL, SNAP

Source: format notes 6.1. Seen in Flink's class files, in no savepoint yet. A second wrapper of this kind is our own.

The Java classes of values: an array of objects is stored with the class of its elements.

Flink loads that class on a restore, and compares it with the job's. A snapshot names it in its `java_class`, if it has
one. Source: the type informations of Flink 2.3, whose `getTypeClass` returns the class that the array's serializer
stores.

Optional values: Flink's NullableSerializer around another serializer, and the rules OPT-1 to OPT-3.

    bool is null; if null `padding` zero bytes, else the value

Most layouts include a null flag (fields of records, values of maps, elements of sets) and need no wrapper.
Source: format notes 6.1 and 7; compatibility rules 4.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import attrs

from .. import rewrite
from ..byte_forms import INT, checked, utf8
from ..compatibility import Child, CompatibilityResult, Finding, Verdict, compose
from ..errors import CorruptSavepoint, DeclarationError, OldReaderUnavailable, StateShiftError, add_step, at_step
from ..registry import register_snapshot
from ..serializer import KEEP_OLD_TYPE, TypeSerializer, unrelated
from ..snapshot import (
    CompositeTypeSerializerSnapshot,
    TypeSerializerConfigSnapshot,
    read_versioned_snapshot,
    write_versioned_snapshot,
)
from ..ways_out import by_migration

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..byte_forms import Fields
    from ..serializer import TypeDeserializer
    from ..snapshot import Speller
    from ..views import DataInputView, DataOutputView


@register_snapshot
@attrs.define
class TtlAwareSerializerSnapshot(TypeSerializerConfigSnapshot[Any]):
    """Snapshot of Flink's TtlAwareSerializer.

    Attributes:
        has_ttl: Whether the inner snapshot is one of values with time stamps.
        inner: The snapshot that describes the bytes.
    """

    snapshot_id: ClassVar[str] = "org.apache.flink.runtime.state.ttl.TtlAwareSerializerSnapshot"
    kind: ClassVar[str] = "ttl_aware"

    has_ttl: bool = False
    inner: TypeSerializerConfigSnapshot[Any] | None = None

    def children(self) -> tuple[TypeSerializerConfigSnapshot[Any], ...]:
        return () if self.inner is None else (self.inner,)

    def describe(self) -> str:
        return "nothing yet" if self.inner is None else self.inner.describe()

    def spell(self, speller: Speller) -> str:
        return self.describe() if self.inner is None else speller.part(self.inner)

    def write(self, target: DataOutputView) -> None:
        target.write_boolean(self.has_ttl)
        write_versioned_snapshot(target, self._wrapped())

    def read(self, source: DataInputView) -> None:
        self.has_ttl = source.read_boolean()
        self.inner = read_versioned_snapshot(source)

    def restore_serializer(self) -> TypeSerializer[Any]:
        return self._wrapped().restore_serializer()

    def _wrapped(self) -> TypeSerializerConfigSnapshot[Any]:
        if self.inner is None:
            raise OldReaderUnavailable("a TTL-aware snapshot must be read or given an inner snapshot")
        return self.inner


_DECLARED = utf8("declared facts")


@register_snapshot
@attrs.define
class LazyMigrationSnapshot(TtlAwareSerializerSnapshot):
    """Marks values that are outside of the table of their state while that is migrated lazily; Flink refuses them.

        SNAP; in version 2 then i32 length, and what code declares beyond the snapshot, as JSON in UTF-8

    Attributes:
        inner: The snapshot that describes the bytes.
        declared: Facts as JSON, by which the migration can be finished without its code; "": they are not known.
    """

    snapshot_id: ClassVar[str] = "stateshift/lazy-migration"

    has_ttl: bool = attrs.field(default=False, init=False)
    inner: TypeSerializerConfigSnapshot[Any] | None = None
    declared: str = ""

    def get_version(self) -> int:
        return 2 if self.declared else 1

    def get_compatible_versions(self) -> tuple[int, ...]:
        return (1, 2)

    def write(self, target: DataOutputView) -> None:
        write_versioned_snapshot(target, self._wrapped())
        if self.declared:
            _DECLARED.write(target, self.declared)

    def read(self, source: DataInputView) -> None:
        self.inner = read_versioned_snapshot(source)
        if self.get_read_version() > 1:
            self.declared = _DECLARED.read(source)


def judged_within(
    serializer: TypeSerializer[Any], snapshot: TtlAwareSerializerSnapshot
) -> CompatibilityResult[Any] | None:
    """Return the serializer's result for the inner snapshot; None if there is no inner snapshot."""
    return None if snapshot.inner is None else serializer.ensure_compatibility(snapshot.inner)


def without_ttl_awareness(snapshot: TypeSerializerConfigSnapshot[Any]) -> TypeSerializerConfigSnapshot[Any]:
    """Return the snapshot that describes the bytes, which a new serializer should judge."""
    while isinstance(snapshot, TtlAwareSerializerSnapshot) and snapshot.inner is not None:
        snapshot = snapshot.inner
    return snapshot


ANY_CLASS = "java.lang.Object"


def java_class_of(snapshot: TypeSerializerConfigSnapshot[Any]) -> str:
    """Return the class of values as Java's `Class.getName` does; `java.lang.Object` if it is not known."""
    known: str = getattr(without_ttl_awareness(snapshot), "java_class", "")
    return known or ANY_CLASS


def array_class_of(component: str) -> str:
    """Return the class of an array of a class: `[Ljava.lang.Long;`."""
    return f"[{component}" if component.startswith("[") else f"[L{component};"


T = TypeVar("T")

_MAX_PADDING = 0xFFFF


@attrs.frozen
class IfPresent:
    """Converts a value; None stays None."""

    convert: Callable[[Any], Any]

    def __call__(self, value: Any) -> Any:
        if value is None:
            return None
        with at_step("?"):
            return self.convert(value)


@attrs.frozen
class OptionalSerializer(TypeSerializer[T | None]):
    """Flink's NullableSerializer: a null flag before a value.

    Attributes:
        value: The serializer of a value that is not null.
        padding: The number of zero bytes after a null's flag: 0, or the length of the value, so that all values have
            one length.
    """

    value: TypeSerializer[T]
    padding: int = 0

    def __attrs_post_init__(self) -> None:
        length = getattr(self.value, "length", self.padding)  # a fallback deserializer declares none
        if self.padding not in {0, length}:
            raise DeclarationError(
                f"a null is padded with {self.padding} bytes, but the value takes {length}",
                advice="pad with the length of the value, or with nothing",
            )

    @property
    def length(self) -> int:
        return 1 + self.padding if self.padding else -1

    @property
    def is_immutable_type(self) -> bool:
        return self.value.is_immutable_type

    @property
    def layout(self) -> rewrite.ByteRewrite:
        return rewrite.Nullable(self.value.layout, self.padding)

    def serialize(self, value: T | None, target: DataOutputView) -> None:
        if value is None:
            target.write(b"\1" + bytes(self.padding))
            return
        target.write_byte(0)
        try:
            self.value.serialize(value, target)
        except StateShiftError as error:
            add_step(error, "?")
            raise

    def deserialize(self, source: DataInputView) -> T | None:
        if source.read_boolean():
            source.skip_bytes(self.padding)
            return None
        try:
            return self.value.deserialize(source)
        except StateShiftError as error:
            add_step(error, "?")
            raise

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[T | None]:
        return NullableSerializerSnapshot((self.value.snapshot_configuration(),), self.padding)

    def ensure_compatibility(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[T | None]:
        is_stamped = snapshot.kind in {"ttl", "ttl_aware"}
        if is_stamped or (snapshot.counterpart() is not None and self.value.counterpart() is None):
            return unrelated(self, snapshot)  # another family's null is judged together with its value
        if not isinstance(snapshot, NullableSerializerSnapshot):
            return self._from_required(snapshot)
        findings: tuple[Finding, ...] = ()
        if snapshot.padding != self.padding:
            reason = f"a stored null is followed by {snapshot.padding} bytes of padding, which is kept"
            verdict = Verdict.COMPATIBLE_AFTER_RECONFIGURATION
            findings = (Finding("$", "OPT-3", verdict, snapshot.describe(), self.describe(), reason),)
        return self._compose(
            findings,
            snapshot.nested[0],
            rebuild=lambda nested: OptionalSerializer(nested[0], snapshot.padding),
            read_with=lambda readers: OptionalSerializer(readers[0], snapshot.padding),
        )

    def _from_required(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[T | None]:
        reason = "values may be null, so a flag is stored before each"
        ways = (by_migration("each value gets its flag"), KEEP_OLD_TYPE)
        finding = Finding(
            "$", "OPT-1", Verdict.REQUIRES_MIGRATION, snapshot.describe(), self.describe(), reason, ways
        )  # fmt: skip
        return self._compose(
            (finding,),
            snapshot,
            rebuild=lambda nested: OptionalSerializer(nested[0], self.padding),
            read_with=lambda readers: readers[0],
        )

    def _compose(
        self,
        findings: tuple[Finding, ...],
        old: TypeSerializerConfigSnapshot[Any],
        *,
        rebuild: Callable[[list[TypeSerializer[Any]]], TypeSerializer[Any]],
        read_with: Callable[[list[Any]], TypeDeserializer[Any]],
    ) -> CompatibilityResult[T | None]:
        result = self.value.ensure_compatibility(old)
        verdict = max((finding.verdict for finding in findings), default=Verdict.COMPATIBLE)
        outer: CompatibilityResult[Any] = CompatibilityResult(verdict, findings)
        return compose(
            outer,
            [Child("?", self.value, result, old.restore_serializer)],
            rebuild=rebuild,
            convert=lambda conversions: None if conversions[0] is None else IfPresent(conversions[0]),
            read_with=read_with,
        )


@register_snapshot
@attrs.define
class NullableSerializerSnapshot(CompositeTypeSerializerSnapshot[Any]):
    """Snapshot of `OptionalSerializer`; the outer part is i32 padding length."""

    snapshot_id: ClassVar[str] = (
        "org.apache.flink.api.java.typeutils.runtime.NullableSerializer$NullableSerializerSnapshot"
    )
    kind: ClassVar[str] = "optional"
    outer_version: ClassVar[int] = 2
    nested_count: ClassVar[int] = 1
    steps: ClassVar[tuple[str, ...]] = ("?",)
    outer: ClassVar[Fields] = {
        "padding": checked(INT, range(_MAX_PADDING + 1).__contains__, "a null is padded with {} bytes")
    }

    nested: tuple[TypeSerializerConfigSnapshot[Any], ...] = ()
    padding: int = 0

    @property
    def java_class(self) -> str:
        """The Java class of the values that are not null."""
        return java_class_of(self.nested[0])

    def restore_serializer(self) -> TypeSerializer[Any]:
        value = self.restore_nested(0)
        try:
            return OptionalSerializer(value, self.padding)
        except DeclarationError as error:
            raise CorruptSavepoint(error.what) from error
