"""A serializer whose snapshot class was not registered; a test imports it before it is."""

import attrs

from stateshift import TypeSerializer, TypeSerializerConfigSnapshot


@attrs.frozen
class Forgotten(TypeSerializer[int]):
    """Numbers."""

    def serialize(self, value, target):
        target.write_long(value)

    def deserialize(self, source):
        return source.read_long()

    def snapshot_configuration(self):
        return ForgottenSnapshot()


@attrs.define
class ForgottenSnapshot(TypeSerializerConfigSnapshot[int]):
    """Nobody registers it."""

    snapshot_id = "stateshift/acme-forgotten"

    def write(self, target):
        """Nothing."""

    def read(self, source):
        """Nothing."""

    def restore_serializer(self):
        return Forgotten()
