"""What a program says of its states, and what cannot be meant."""

import enum
import re

import attrs
import pytest

from stateshift import (
    AggregatingStateDescriptor,
    DeclarationError,
    FoldingStateDescriptor,
    Int32,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    TimeWindow,
    TypeSerializer,
    ValueStateDescriptor,
    record,
)
from stateshift.compat.description import Converter, StateKind
from stateshift.serializers.flink.namespaces import VoidNamespaceSerializer
from stateshift.serializers.primitives.numeric import LongSerializer


@record(java_class="fx.Account")
@attrs.frozen
class Account:
    id: int
    name: str | None = None


class Level(enum.Enum):
    LOW = 1


@pytest.mark.parametrize(
    ("descriptor", "kind", "words"),
    [
        (ValueStateDescriptor("s", Account), StateKind.VALUE, "fx.Account"),
        (ReducingStateDescriptor("s", max, int), StateKind.REDUCING, "long"),
        (AggregatingStateDescriptor("s", None, tuple[int, float]), StateKind.AGGREGATING, "tuple<long, double>"),
        (ListStateDescriptor("s", Int32), StateKind.LIST, "list<int>"),
        (MapStateDescriptor("s", str, Level), StateKind.MAP, "map<string, enum Level>"),
        (ValueStateDescriptor("s", int | None), StateKind.VALUE, "optional<long>"),
    ],
)
def test_a_descriptor_describes_its_state(descriptor, kind, words):
    description = descriptor.describe()

    assert ("s", kind, words) == (description.name, description.kind, description.describe())
    assert VoidNamespaceSerializer().snapshot_configuration() == description.namespace.snapshot
    assert description.key is None


def test_a_serializer_is_taken_as_it_is():
    class Other(LongSerializer):
        pass

    assert Other is type(ValueStateDescriptor("s", Other()).value_serializer)


def test_a_namespace_is_a_hint_or_a_serializer():
    description = ValueStateDescriptor("s", int, namespace=TimeWindow).describe()

    assert "TimeWindow" == description.namespace.describe()


def test_a_converter_is_known_by_its_name():
    state = ValueStateDescriptor("s", int, converter=len)

    assert Converter("builtins.len", len) == state.converter
    assert state.converter == state.describe().value.converter
    assert state.converter is attrs.evolve(state, name="t").converter


@pytest.mark.parametrize("name", ["", None, 5, b"s"])
def test_a_name_is_a_text(name):
    with pytest.raises(DeclarationError, match="must be a non-empty string"):
        ValueStateDescriptor(name, int)


@pytest.mark.parametrize("hint", [object, list, "int", 5, int | str])
def test_a_type_without_a_serializer_is_refused(hint):
    with pytest.raises(DeclarationError):
        ValueStateDescriptor("s", hint)


class Stubborn(LongSerializer):
    """As a user's: it raises what it likes."""

    def serialize(self, value, target):
        raise KeyError(value)


@pytest.mark.parametrize(
    ("hint", "default"),
    [
        (int, "a"),
        (Int32, 2**31),
        (str, 5),
        (Account, Account("x")),
        (Account, 5),
        (bytes, "text"),
        (list[int], [1, "a"]),
        (tuple[int, str], (1,)),
        (Level, "LOW"),
        (bool, 1),
        (Stubborn(), 5),
    ],
)
@pytest.mark.parametrize("kind", [ValueStateDescriptor, ReducingStateDescriptor, AggregatingStateDescriptor])
def test_a_default_that_does_not_fit_is_refused_when_it_is_declared(kind, hint, default):
    function = [] if kind is ValueStateDescriptor else [None]
    with pytest.raises(DeclarationError, match="the default value of state 'score' does not fit its type"):
        kind("score", *function, hint, default)


@pytest.mark.parametrize(
    ("hint", "default"), [(int, 0), (str, ""), (Account, Account(1)), (list[int], []), (int, None), (Level, Level.LOW)]
)
def test_a_default_that_fits_is_kept(hint, default):
    assert default == ValueStateDescriptor("s", hint, default).default_value


@pytest.mark.parametrize(
    ("descriptor", "words"),
    [
        (ValueStateDescriptor("s", int, time_to_live=True), "ttl<long>"),
        (ListStateDescriptor("s", int, time_to_live=True), "list<ttl<long>>"),
        (MapStateDescriptor("s", str, int, time_to_live=True), "map<string, ttl<long>>"),
    ],
)
def test_time_to_live_stamps_each_value_element_and_map_value(descriptor, words):
    assert words == descriptor.describe().describe()
    assert isinstance(descriptor.state_serializer(), TypeSerializer)


def test_descriptors_are_values():
    one, other = (MapStateDescriptor("s", str, int) for _ in range(2))

    assert one == other
    assert hash(one) == hash(other)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        one.name = "t"


def test_an_optional_value_of_a_map_uses_the_flag_that_every_entry_has_opt_4():
    plain, optional = MapStateDescriptor("m", str, int), MapStateDescriptor("m", str, int | None)

    assert optional.state_serializer().nullable_values
    assert plain.state_serializer().snapshot_configuration() == optional.state_serializer().snapshot_configuration()
    assert "optional<long>" == optional.value_serializer.describe()


def test_the_arguments_are_pyflink_s():
    descriptor = ReducingStateDescriptor("s", reduce_function=max, type_info=int)

    assert ReducingStateDescriptor("s", max, int) == descriptor
    assert ("s", max) == (descriptor.get_name(), descriptor.get_reduce_function())
    assert ValueStateDescriptor("s", int) == ValueStateDescriptor("s", value_type_info=int)
    assert ListStateDescriptor("s", int) == ListStateDescriptor("s", elem_type_info=int)
    assert MapStateDescriptor("s", str, int) == MapStateDescriptor("s", key_type_info=str, value_type_info=int)


@pytest.mark.parametrize(
    ("former", "present", "words"),
    [
        (lambda: ReducingStateDescriptor("s", int), ReducingStateDescriptor("s", None, int), "(name, type)"),
        (
            lambda: ReducingStateDescriptor("s", int, reduce_function=max),
            ReducingStateDescriptor("s", max, int),
            "ReducingStateDescriptor(name, reduce_function, type)",
        ),
        (lambda: ReducingStateDescriptor("s", int, 5), ReducingStateDescriptor("s", None, int, 5), "(name, type)"),
        (
            lambda: AggregatingStateDescriptor("s", list[int], time_to_live=True),
            AggregatingStateDescriptor("s", None, list[int], time_to_live=True),
            "AggregatingStateDescriptor(name, agg_function, type)",
        ),
        (
            lambda: ReducingStateDescriptor("s", Int32, reduce_function=max),
            ReducingStateDescriptor("s", max, Int32),
            "(name, type)",
        ),
        (
            lambda: ReducingStateDescriptor("s", value_serializer=LongSerializer()),
            ReducingStateDescriptor("s", None, int),
            "type_info=…",
        ),
        (lambda: ValueStateDescriptor("s", value_serializer=int), ValueStateDescriptor("s", int), "value_type_info=…"),
        (lambda: ListStateDescriptor("s", element_serializer=int), ListStateDescriptor("s", int), "elem_type_info=…"),
        (
            lambda: MapStateDescriptor("s", key_serializer=str, value_type_info=int),
            MapStateDescriptor("s", str, int),
            "key_type_info=…",
        ),
        (lambda: MapStateDescriptor("s", str, value_type=int), MapStateDescriptor("s", str, int), "value_type_info=…"),
    ],
)
def test_the_former_arguments_still_work_and_say_what_to_write(former, present, words):
    with pytest.warns(DeprecationWarning, match=re.escape(words)) as caught:
        found = former()

    assert present == found
    assert [__file__] == [warning.filename for warning in caught]


def test_a_folding_state_is_deprecated_and_stored_as_value_state():
    with pytest.warns(
        DeprecationWarning, match=r"FoldingStateDescriptor is deprecated.*use AggregatingStateDescriptor"
    ):
        descriptor = FoldingStateDescriptor("s", 0, lambda total, one: total + one, int)

    assert (StateKind.VALUE, "long") == (descriptor.kind, descriptor.describe().describe())


def test_an_aggregate_function_is_one():
    with pytest.raises(DeclarationError, match="the agg_function of state 's' is"):
        AggregatingStateDescriptor("s", max, int)
