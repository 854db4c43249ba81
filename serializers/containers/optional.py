"""Optional values: Flink's NullableSerializer around another serializer, and the rules OPT-1 to OPT-3.

    bool is null; if null `padding` zero bytes, else the value

Most layouts include a null flag (fields of records, values of maps, elements of sets) and need no wrapper.
Source: format notes 6.1 and 7; compatibility rules 4.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import attrs

from .. import layout
from ..compatibility import Child, CompatibilityResult, Finding, Verdict, compose
from ..errors import CorruptSavepoint, DeclarationError, StateShiftError, add_step
from ..registry import register_snapshot
from ..serializer import KEEP_OLD_TYPE, TypeSerializer, unrelated
from ..snapshot import CompositeTypeSerializerSnapshot, TypeSerializerConfigSnapshot
from .java_classes import java_class_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..serializer import TypeDeserializer
    from ..views import DataInputView, DataOutputView

T = TypeVar("T")

_MAX_PADDING = 0xFFFF


@attrs.frozen
class IfPresent:
    """Converts a value; None stays None."""

    convert: Callable[[Any], Any]

    def __call__(self, value: Any) -> Any:
        if value is None:
            return None
        try:
            return self.convert(value)
        except StateShiftError as error:
            add_step(error, "?")
            raise


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
    def layout(self) -> layout.Layout:
        return layout.Nullable(self.value.layout, self.padding)

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
            read_with=lambda readers: OptionalSerializer(cast("TypeSerializer[Any]", readers[0]), snapshot.padding),
        )

    def _from_required(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[T | None]:
        reason = "values may be null, so a flag is stored before each"
        ways = ("migrate the state: each value gets its flag", KEEP_OLD_TYPE)
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
        read_with: Callable[[list[TypeDeserializer[Any]]], TypeDeserializer[Any]],
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

    nested: tuple[TypeSerializerConfigSnapshot[Any], ...] = ()
    padding: int = 0

    @property
    def java_class(self) -> str:
        """The Java class of the values that are not null."""
        return java_class_of(self.nested[0])

    def write_outer_snapshot(self, target: DataOutputView) -> None:
        target.write_int(self.padding)

    def read_outer_snapshot(self, read_outer_version: int, source: DataInputView) -> None:
        start = source.position
        self.padding = source.read_int()
        if not 0 <= self.padding <= _MAX_PADDING:
            raise CorruptSavepoint(f"a null is padded with {self.padding} bytes", offset=start)

    def restore_serializer(self) -> TypeSerializer[Any]:
        value = self.restore_nested(0)
        try:
            return OptionalSerializer(value, self.padding)
        except DeclarationError as error:
            raise CorruptSavepoint(error.what) from error
