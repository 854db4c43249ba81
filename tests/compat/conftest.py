"""Small serializers with every kind of answer, and short ways to describe a job."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import attrs
import pytest

from stateshift import (
    CompatibilityResult,
    Finding,
    OldReaderUnavailable,
    TypeSerializer,
    TypeSerializerConfigSnapshot,
    Verdict,
    register_snapshot,
)
from stateshift.compat.description import JobDescription, OperatorDescription, SerializerDescription, StateDescription

UID, OPERATOR_ID = "accounts", "0123456789abcdef0123456789abcdef"


@attrs.frozen
class LayoutSerializer(TypeSerializer[int]):
    """Writes an int after a marker byte, which its snapshot has; answers as `answer` says."""

    marker: int = 1
    answer: str = "compatible"
    fallback: Any = None

    def serialize(self, value, target):
        target.write_byte(self.marker)
        target.write_int(value)

    def deserialize(self, source):
        assert source.read_byte() == self.marker, "bytes of another layout"
        return source.read_int()

    def snapshot_configuration(self):
        return LayoutSnapshot(self.marker)

    def ensure_compatibility(self, snapshot):
        if self.answer == "raises":
            raise RuntimeError("no answer")
        if self.answer == "reconfigured":
            return CompatibilityResult.compatible_after_reconfiguration(LayoutSerializer(snapshot.marker))
        if self.answer == "relabelled" and snapshot.marker != self.marker:
            return CompatibilityResult.compatible_after_reconfiguration(LayoutSerializer(self.marker))
        if self.answer == "migrates":
            finding = Finding("$", "TEST-1", Verdict.REQUIRES_MIGRATION, "one", "two", "another marker", ("migrate",))
            return CompatibilityResult.requires_migration(finding, fallback=self.fallback)
        if self.answer == "refuses":
            return CompatibilityResult.incompatible(
                Finding("$", "TEST-2", Verdict.INCOMPATIBLE, "one", "two", "never", ("keep the old type",))
            )
        return CompatibilityResult.compatible()


@register_snapshot
@attrs.define
class LayoutSnapshot(TypeSerializerConfigSnapshot[int]):
    snapshot_id: ClassVar[str] = "stateshift/test-layout"

    marker: int = 1
    restorable: bool = True

    def describe(self):
        return f"layout {self.marker}"

    def write(self, target):
        target.write_byte(self.marker)
        target.write_boolean(self.restorable)

    def read(self, source):
        self.marker, self.restorable = source.read_byte(), source.read_boolean()

    def restore_serializer(self):
        if not self.restorable:
            raise OldReaderUnavailable("the class is gone")
        return LayoutSerializer(self.marker)


def describe(given):
    """Give the description of a serializer or snapshot; a description stays as it is."""
    if isinstance(given, TypeSerializer):
        return SerializerDescription.of(given)
    return SerializerDescription(given) if isinstance(given, TypeSerializerConfigSnapshot) else given


def state(name, kind, value, **others):
    return StateDescription(name, kind, describe(value), **{role: describe(given) for role, given in others.items()})


def job(*states, origin="job", key=None, **others):
    key = describe(key) if key is not None else None
    return JobDescription(origin, (OperatorDescription(OPERATOR_ID, UID, key=key, states=states, **others),))


@pytest.fixture(scope="session")
def make():
    return SimpleNamespace(
        describe=describe,
        state=state,
        job=job,
        Layout=LayoutSerializer,
        LayoutSnapshot=LayoutSnapshot,
        operator_id=OPERATOR_ID,
    )
