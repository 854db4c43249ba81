"""A user's module as text: a serializer that is not installed, and a job with it."""

from __future__ import annotations

_MODULE = """
import attrs
from stateshift import Job, Operator, TypeSerializer, TypeSerializerConfigSnapshot
from stateshift import ValueStateDescriptor, register_snapshot


class MarkSerializer(TypeSerializer[int]):
    def serialize(self, value, target):
        target.write_long(value)

    def deserialize(self, source):
        return source.read_long()

    def snapshot_configuration(self):
        return MarkSnapshot()


@register_snapshot
@attrs.define
class MarkSnapshot(TypeSerializerConfigSnapshot[int]):
    snapshot_id = "SNAPSHOT_ID"

    def write(self, target):
        pass

    def read(self, source):
        pass

    def restore_serializer(self):
        return MarkSerializer()


job = Job([Operator("o", key=str, states=[ValueStateDescriptor("mark", MarkSerializer())])])
"""


def marks(snapshot_id: str, more: str = "") -> str:
    """Give the module; `more` stands at its end."""
    return _MODULE.replace("SNAPSHOT_ID", snapshot_id) + more
