"""`AvroSerializer`: values in Avro's binary encoding, as dicts or as objects of a class, under stateshift's snapshot.

The bytes contain no schema; the snapshot does. Flink's own Avro serializer has other bytes: see `flink/avro`. The rules
AV-1 to AV-11 are in `rules`; AV-12 is in `schema` and the snapshot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import attrs

from ..byte_forms import UTF, utf8
from ..compatibility import CompatibilityResult, Verdict, worst
from ..defaults import NO_VALUE
from ..errors import CorruptSavepoint, DeclarationError, StateShiftError
from ..flink.opaque import AvroSerializerSnapshot
from ..registry import register_snapshot
from ..serializer import DECLARED, TypeSerializer, V, incompatible, unrelated
from ..snapshot import OWN_PREFIX, FormedSnapshot, TypeSerializerConfigSnapshot
from . import classes as avro_classes
from . import codec as avro_codec
from . import resolution as avro_defaults
from . import rules as avro_rules
from .counterpart import avro_counterpart
from .resolution import AvroConversion
from .schema import fingerprint, parse, schema_text

if TYPE_CHECKING:
    from ..byte_forms import Fields
    from ..serializer import Counterpart
    from ..views import DataInputView, DataOutputView
    from .schema import Node

C = TypeVar("C")


@register_snapshot
@attrs.define
class AvroSnapshot(FormedSnapshot[Any]):
    """Snapshot of `AvroSerializer`, with this body at version 1 (AV-12).

    Attributes:
        schema: The writer's schema, as JSON text.
        fingerprint: The CRC-64-AVRO of the parsing canonical form, in hex; schemas that differ only in
            documentation, defaults and the like have the same.
    """

    snapshot_id: ClassVar[str] = OWN_PREFIX + "avro"
    kind: ClassVar[str] = "avro"
    body: ClassVar[Fields] = {"schema": utf8("an Avro schema"), "fingerprint": UTF}

    schema: str = '"null"'
    fingerprint: str = ""

    def describe(self) -> str:
        return f"avro<{parse(self.schema).describe()}>"

    def spell(self, speller: Any) -> str:
        node = parse(self.schema)
        if node.type != "record":
            return self.describe()
        fields = ", ".join(f"{field.name}: {field.node.describe()}" for field in node.fields)
        return f"avro {node.name}{{{fields}}}"

    def read(self, source: DataInputView) -> None:
        start = source.position
        super().read(source)
        try:
            parse(self.schema)
        except DeclarationError as error:
            raise CorruptSavepoint(error.what, offset=start) from error

    def restore_serializer(self) -> TypeSerializer[Any]:
        return AvroSerializer(self.schema)

    def counterpart(self) -> Counterpart | None:
        return avro_counterpart(self.schema)


@attrs.frozen
class AvroSerializer(TypeSerializer[V]):
    """Values of an Avro schema: dicts, or objects of a class.

    Records are dicts, enums their symbol, unions the value of the branch. A record, enum or fixed of a union whose
    branches look alike in Python is (full name, value). Logical types are those of Python.

    Args:
        schema: JSON text, or the same as dicts and lists, or the name of a primitive type.
        python_class: An attrs class, dataclass or named tuple with the record's fields; None: dicts.
        read_as: The schema with the aliases by which stored values are read, where a history has more of them than the
            schema; "": it has all.

    Raises:
        DeclarationError: It is not a schema, a default does not fit its field, or the class does not fit the schema.
    """

    schema: str = attrs.field(converter=schema_text)
    python_class: type[V] | None = None
    read_as: str = attrs.field(default="", eq=False, repr=False, kw_only=True, metadata=DECLARED)

    @classmethod
    def of(cls, python_class: type[C]) -> AvroSerializer[C]:
        """Return the serializer of a class, with the class's own schema."""
        return AvroSerializer(avro_classes.schema_of(python_class), python_class)

    def __attrs_post_init__(self) -> None:
        try:
            self.schema.encode()
        except UnicodeEncodeError as error:
            raise DeclarationError(
                "an Avro schema contains half of a surrogate pair, which UTF-8 cannot encode"
            ) from error
        _check_defaults(self._node, "$", set())
        if self.python_class is not None:
            self._turns()

    def _turns(self) -> tuple[Any, Any]:
        cls: Any = self.python_class  # Any: type checkers do not see that it is hashable
        return avro_classes.binding(self.schema, cls)

    @property
    def _node(self) -> Node:
        return parse(self.schema)

    def serialize(self, value: V, target: DataOutputView) -> None:
        generic = value
        if self.python_class is not None:
            generic = self._turns()[1](value)
        avro_codec.write(self._node, generic, target)

    def deserialize(self, source: DataInputView) -> V:
        value: V = avro_codec.read(self._node, source)
        if self.python_class is None:
            return value
        found: V = self._turns()[0](value)
        return found

    def copy_bytes(self, source: DataInputView, target: DataOutputView) -> None:
        start = source.position
        avro_codec.skip(self._node, source)
        target.write(source.span(start))

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[V]:
        return AvroSnapshot(self.schema, fingerprint(self.schema))

    def describe(self) -> str:
        return f"avro<{self._node.describe()}>"

    def ensure_compatibility(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[V]:
        if isinstance(snapshot, AvroSerializerSnapshot):
            return incompatible(
                self, snapshot, "FAM-2", "Flink's Avro serializer does not write Avro's binary encoding"
            )
        if not isinstance(snapshot, AvroSnapshot):
            return unrelated(self, snapshot)
        cls: Any = self.python_class
        came_back = avro_classes.came_back(self.schema, cls) if cls is not None else ()
        if snapshot.schema == self.schema and not came_back:
            return CompatibilityResult.compatible()
        own = self.read_as or self.schema
        findings = came_back + avro_rules.resolve(parse(snapshot.schema), parse(own))
        verdict = worst([finding.verdict for finding in findings])
        if self.read_as and verdict is Verdict.COMPATIBLE:  # the bytes stay, under the schema that knows no later name
            return CompatibilityResult.compatible_after_reconfiguration(
                AvroSerializer(self.schema, self.python_class),
                *findings,
                conversion=AvroConversion(snapshot.schema, own),
            )
        # Even if the bytes stay valid, something around the value may migrate, which needs new field names.
        conversion = None if verdict is Verdict.INCOMPATIBLE else AvroConversion(snapshot.schema, own)
        return CompatibilityResult(verdict, findings, conversion=conversion)


def _check_defaults(node: Node, path: str, met: set[int]) -> None:
    if id(node) in met:
        return
    met.add(id(node))
    for index, branch in enumerate(node.branches):
        _check_defaults(branch, path + node.step(index), met)
    if node.items is not None:
        _check_defaults(node.items, path + ("[]" if node.type == "array" else "{}"), met)
    for field in node.fields:
        if field.default is not NO_VALUE:
            try:
                avro_defaults.default_value(field)
            except StateShiftError as error:
                raise DeclarationError(
                    f"the default of the Avro field {field.name!r} does not fit its type: {error.what}",
                    path=f"{path}.{field.name}",
                ) from error
        _check_defaults(field.node, f"{path}.{field.name}", met)
