"""What type checkers make of a serializer defined by a user (`make types`)."""

from __future__ import annotations

from typing import Any, assert_type

import attrs

from stateshift import (
    CompatibilityResult,
    DataInputView,
    DataOutputView,
    Decision,
    Finding,
    TypeDeserializer,
    TypeSerializer,
    TypeSerializerConfigSnapshot,
    ValueStateDescriptor,
    Verdict,
    register_serializer,
    register_snapshot,
)


@attrs.frozen
class Money:
    cents: int


@attrs.frozen
class MoneySerializer(TypeSerializer[Money]):
    def serialize(self, value: Money, target: DataOutputView) -> None:
        target.write_long(value.cents)

    def deserialize(self, source: DataInputView) -> Money:
        return Money(source.read_long())

    def snapshot_configuration(self) -> MoneySnapshot:
        return MoneySnapshot()

    def ensure_compatibility(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[Money]:
        if isinstance(snapshot, MoneySnapshot):
            return CompatibilityResult.compatible()
        if snapshot.describe() == "money":
            return CompatibilityResult.compatible_after_reconfiguration(self)
        if snapshot.describe() == "long":
            finding = Finding("$", "MONEY-1", Verdict.REQUIRES_MIGRATION, "long", "money", "a long is cents", ())
            return CompatibilityResult.requires_migration(finding, fallback=self)
        return super().ensure_compatibility(snapshot)


@register_snapshot
@attrs.define
class MoneySnapshot(TypeSerializerConfigSnapshot[Money]):
    snapshot_id = "stateshift/typing-test.money"

    def write(self, target: DataOutputView) -> None:
        target.write_boolean(True)

    def read(self, source: DataInputView) -> None:
        source.read_boolean()

    def restore_serializer(self) -> MoneySerializer:
        return MoneySerializer()


register_serializer(Money, MoneySerializer())
register_serializer(str, MoneySerializer())  # type: ignore[misc]
"""A serializer of other values is seen."""

answer = MoneySerializer().ensure_compatibility(MoneySnapshot())
assert_type(answer, CompatibilityResult[Money])
assert_type(answer.verdict, Verdict)
assert_type(answer.verdict.decision, Decision)
assert_type(answer.findings, tuple[Finding, ...])
assert_type(MoneySnapshot().restore_serializer().deserialize(DataInputView(bytes(8))), Money)
assert_type(ValueStateDescriptor("purse", MoneySerializer()), ValueStateDescriptor[Money])
reader: TypeDeserializer[Money] = MoneySerializer()
