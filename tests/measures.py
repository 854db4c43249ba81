"""A serializer with parameters, as a user writes it, and the contract of it."""

import attrs
from hypothesis import strategies as st

from stateshift import (
    CompatibilityResult,
    Finding,
    TypeSerializer,
    TypeSerializerConfigSnapshot,
    ValueNotConvertible,
    Verdict,
    register_snapshot,
)
from stateshift.compat.testing import SerializerContract


@attrs.frozen
class Measure:
    """A number of steps, with notes."""

    steps: int
    notes: tuple[str, ...] = ()


@attrs.frozen
class MeasureSerializer(TypeSerializer[Measure]):
    """The steps in two bytes or in four, and the notes as texts."""

    scale: int = 1
    wide: bool = False

    @property
    def is_immutable_type(self):
        return True

    def serialize(self, value, target):
        if not isinstance(value, Measure):
            raise ValueNotConvertible(f"{value!r} is no Measure")
        (target.write_int if self.wide else target.write_short)(value.steps * self.scale)
        target.write_int(len(value.notes))
        for note in value.notes:
            target.write_utf(note)

    def deserialize(self, source):
        steps = (source.read_int() if self.wide else source.read_short()) // self.scale
        count = source.read_size("notes", least_bytes_each=2)
        return Measure(steps, tuple(source.read_utf() for _ in range(count)))

    def snapshot_configuration(self):
        return MeasureSnapshot(self.scale, self.wide)

    def ensure_compatibility(self, snapshot):
        if not isinstance(snapshot, MeasureSnapshot) or snapshot == self.snapshot_configuration():
            return super().ensure_compatibility(snapshot)
        finding = Finding("$", "ACME-1", Verdict.REQUIRES_MIGRATION, "", "", "the bytes differ")
        return CompatibilityResult.requires_migration(finding)


@register_snapshot
@attrs.define
class MeasureSnapshot(TypeSerializerConfigSnapshot[Measure]):
    """Has both parameters."""

    snapshot_id = "stateshift/acme-measure"
    scale: int = 1
    wide: bool = False

    def write(self, target):
        target.write_int(self.scale)
        target.write_boolean(self.wide)

    def read(self, source):
        self.scale, self.wide = source.read_int(), source.read_boolean()

    def restore_serializer(self):
        return MeasureSerializer(self.scale, self.wide)


class Measures(SerializerContract):
    """Its contract; nothing is said of its parameters."""

    serializer = MeasureSerializer()
    values = st.builds(Measure, st.integers(-3000, 3000), st.lists(st.text("ab", max_size=3), max_size=2).map(tuple))
    edges = (Measure(0), Measure(-3000, ("a", "")), Measure(2))
