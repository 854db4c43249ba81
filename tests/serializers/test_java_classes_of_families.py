"""Every type of Flink's names the Java class of its values, which an array of them stores."""

from __future__ import annotations

import built_in
import pytest

from stateshift.serializers.snapshot import OWN_PREFIX

EXCUSED = {
    "AvroSerializerSnapshot": "no job can declare it, so no new array has such elements",
    "ByteArrayWrapperSerializerSnapshot": "PyFlink has it as a key of maps alone",
    "ExternalSerializerSnapshot": "the class is that of the snapshot within",
    "CountWindowSerializerSnapshot": "it describes namespaces",
    "GlobalWindowSerializerSnapshot": "it describes namespaces",
    "NullSerializerSnapshot": "it describes what is not there",
    "SqlGlobalWindowSerializerSnapshot": "it describes namespaces",
    "SqlTimeWindowSerializerSnapshot": "it describes namespaces",
    "TimeWindowSerializerSnapshot": "it describes namespaces",
    "TimerSerializerSnapshot": "timers are no values of a state",
    "TtlAwareSerializerSnapshot": "the class is that of the snapshot within",
    "TtlSerializerSnapshot": "Flink has it around whole values alone",
    "VoidNamespaceSerializerSnapshot": "it describes namespaces",
}
FLINKS = [cls for cls in built_in.snapshots() if not cls.snapshot_id.startswith(OWN_PREFIX)]


@pytest.mark.parametrize("cls", FLINKS)
def test_every_snapshot_of_flinks_names_a_java_class_or_has_a_reason_to_name_none(cls):
    assert (cls.__name__ not in EXCUSED) == hasattr(cls, "java_class")
