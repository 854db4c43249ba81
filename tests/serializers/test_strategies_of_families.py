"""Every built-in serializer has a strategy of its values, or a reason why it has none."""

from __future__ import annotations

import inspect
import pkgutil
from importlib import import_module

import attrs
import pytest
from hypothesis import find
from hypothesis import strategies as st

from stateshift import DeclarationError, TypeSerializer
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


def is_a_serializer(cls, module):
    """Whether a public class of a module is a serializer with instances."""
    is_own = inspect.isclass(cls) and cls.__module__ == module and not cls.__name__.startswith("_")
    return is_own and issubclass(cls, TypeSerializer) and not inspect.isabstract(cls)


def built_in_serializers():
    """The public serializer classes of the built-in families."""
    found = []
    for family in families.built_in:
        for module in pkgutil.iter_modules(import_module(family).__path__, f"{family}."):
            held = vars(import_module(module.name)).values()
            found += [cls for cls in held if is_a_serializer(cls, module.name)]
    return found


@pytest.mark.parametrize("cls", built_in_serializers(), ids=lambda cls: cls.__name__)
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
    with pytest.raises(DeclarationError, match=r"nothing is known of the values of long[^$]*own=\{Shifted: …\}"):
        values_of(Shifted())

    assert 9 == find(values_of(Shifted(), own={Shifted: st.just(9)}), lambda _: True)
