"""What composites owe a migration: parts whose bytes would stay valid are rewritten along with the others."""

from __future__ import annotations

from stateshift import DataInputView, DataOutputView, Record
from stateshift.serializers.primitives.numeric import IntSerializer, LongSerializer
from stateshift.serializers.records.classes import RecordField
from stateshift.serializers.records.serializers import RecordSerializer


def test_a_renamed_field_moves_its_value_when_something_next_to_it_migrates():
    old_inner = RecordSerializer("Inner", (RecordField("was", LongSerializer()),))
    new_inner = RecordSerializer("Inner", (RecordField("now", LongSerializer(), aliases=("was",)),))
    old = RecordSerializer("Outer", (RecordField("inner", old_inner), RecordField("n", IntSerializer())))
    new = RecordSerializer("Outer", (RecordField("inner", new_inner), RecordField("n", LongSerializer())))
    stored = DataOutputView()
    old.serialize(Record("Outer", {"inner": Record("Inner", {"was": 5}), "n": 1}), stored)

    result = new.ensure_compatibility(old.snapshot_configuration())
    read = old.snapshot_configuration().restore_serializer().deserialize(DataInputView(stored.getvalue()))
    written = DataOutputView()
    new.serialize(result.conversion(read), written)

    assert new_inner.ensure_compatibility(old_inner.snapshot_configuration()).is_compatible_after_reconfiguration()
    assert result.is_migration_required()
    assert Record("Outer", {"inner": Record("Inner", {"now": 5}), "n": 1}) == new.deserialize(
        DataInputView(written.getvalue())
    )
