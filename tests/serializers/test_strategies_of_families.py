"""Every built-in serializer has a strategy of its values, or a reason why it has none."""

from __future__ import annotations

import attrs
import built_in
import pytest
from hypothesis import find
from hypothesis import strategies as st

from stateshift import DeclarationError
from stateshift.compat.testing.strategies import values_of
from stateshift.serializers.families import Ability, families
from stateshift.serializers.primitives.numeric import LongSerializer

EXCUSED = {
    "AvroSerializer": "its values depend on a schema, and on the class that is bound to it",
    "CloudPickleSerializer": "its values are objects of any class",
    "KryoBytesSerializer": "its values have no meaning here",
    "PickleSerializer": "its values are objects of any class",
    "TimerSerializer": "timers are no values of a state",
    "UnopenedPickleSerializer": "it reads what cannot be opened, and writes nothing",
}


@pytest.mark.parametrize("cls", built_in.serializers(), ids=lambda cls: cls.__name__)
def test_a_built_in_serializer_has_a_strategy_or_an_excuse(cls):
    has_strategy = families.find(Ability.STRATEGIES, cls) is not None

    assert has_strategy != (cls.__name__ in EXCUSED)


def test_all_tables_are_of_serializers_of_their_family():
    for package, family in families.built_in.items():
        for cls in family.table(Ability.STRATEGIES):
            assert cls.__module__.startswith(f"{package}.")


@attrs.frozen
class Shifted(LongSerializer):
    """Writes other bytes, and perhaps takes other values."""


def test_a_subclass_has_no_strategy_unless_one_is_given():
    with pytest.raises(DeclarationError, match=r"there is no strategy for values of long[^$]*own=\{Shifted: …\}"):
        values_of(Shifted())

    assert 9 == find(values_of(Shifted(), own={Shifted: st.just(9)}), lambda _: True)
