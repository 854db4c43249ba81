"""Every type with parts looks into them for nulls."""

from __future__ import annotations

import built_in
import pytest

from stateshift.serializers.containers.sequences import SequenceSnapshot
from stateshift.serializers.families import Ability, families
from stateshift.serializers.snapshot import CompositeTypeSerializerSnapshot

EXCUSED = {
    "StringArraySerializerSnapshot": "elements of arrays are declared nullable anyway, and strings have no parts",
    "TimerSerializerSnapshot": "timers are not read for nulls",
}


def has_parts(cls):
    is_primitive = "PrimitiveArray" in cls.__name__
    return issubclass(cls, CompositeTypeSerializerSnapshot | SequenceSnapshot) and not is_primitive


@pytest.mark.parametrize("cls", [cls for cls in built_in.snapshots() if has_parts(cls)])
def test_every_type_with_parts_looks_into_them_or_has_a_reason_not_to(cls):
    looks = families.find(Ability.NULLS, cls) is not None

    assert (cls.__name__ not in EXCUSED) == looks
