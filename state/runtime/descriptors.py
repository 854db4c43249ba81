"""State descriptors, named as in PyFlink.

Types are given as type hints or serializers: `ValueStateDescriptor("account", Account)`.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, get_origin

import attrs

from ...compat.description import Converter, SerializerDescription, StateDescription, StateKind, StateTransform
from ...serializers.containers.lists import ListSerializer, MapSerializer
from ...serializers.containers.ttl import TtlSerializer, taking_null
from ...serializers.errors import DeclarationError, StateShiftError, shown
from ...serializers.flink.namespaces import VoidNamespaceSerializer
from ...serializers.hints import as_serializer, serializer_for, strip_none
from ...serializers.limits import require_name
from ...serializers.pickled.trust import refuse_pickles
from ...serializers.serializer import K, TypeSerializer, V
from ...serializers.stored_names import warn_deprecated
from ...serializers.views import DataOutputView
from .aggregates import in_order
from .functions import AggregateFunction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ...serializers.hints import Hint
    from ...serializers.serializer import TypeDeserializer
    from .time_to_live import StateTtlConfig

    D = TypeVar("D", bound="type[StateDescriptor]")


def _with_former_arguments(
    function: str = "", *, proposed: Mapping[str, str] = MappingProxyType({}), **former: str
) -> Callable[[D], D]:
    """Return a decorator that lets a descriptor take the arguments that it had before it had PyFlink's.

    Args:
        function: The name of the second argument, where it is a function; before, the type was in its place.
        proposed: The present name of an argument by that of the first proposal for PyFlink, which is taken as well.
        former: The present name of an argument by its former name here.
    """

    def decorate(cls: D) -> D:
        create = cls.__init__

        @functools.wraps(create)
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it becomes that
            for name in kwargs.keys() & proposed.keys():
                if proposed[name] in kwargs:
                    raise DeclarationError(f"{cls.__name__} has both {name}=… and {proposed[name]}=…")
                kwargs[proposed[name]] = kwargs.pop(name)
            for name in kwargs.keys() & former.keys():
                _deprecated(f"{cls.__name__}({name}=…)", f"{former[name]}=…")
                kwargs[former[name]] = kwargs.pop(name)
            if function and len(args) > 1 and not _is_function(args[1]):
                _deprecated(f"{cls.__name__}(name, type)", f"{cls.__name__}(name, {function}, type)")
                args = (args[0], kwargs.pop(function, None), *args[1:])
            elif function and len(args) < 2:
                kwargs.setdefault(function, None)
            create(self, *args, **kwargs)

        cls.__init__ = __init__  # type: ignore[method-assign]  # it takes more than the class declares
        return cls

    return decorate


def _deprecated(what: str, use: str) -> None:
    warn_deprecated(what, since="0.1", removed_in="1.0", use=use, stacklevel=3)


def _is_function(given: Any) -> bool:
    """Whether this is a function, or None, and not a type hint; classes are hints."""
    if given is None or isinstance(given, AggregateFunction):
        return True
    return callable(given) and not isinstance(given, type | TypeSerializer) and get_origin(given) is None


def _checked_name(_: Any, __: Any, name: str) -> None:
    if not isinstance(name, str) or not name:
        raise DeclarationError(f"the name of a state must be a non-empty string, not {shown(name)}")
    require_name(name, "a state")


def _namespace_serializer(hint: Any) -> TypeSerializer[Any]:
    """Return the serializer of a hint. Its type is not that of the values, which `as_serializer` carries on."""
    return serializer_for(hint)


def _found_by_bytes(state: StateDescriptor, _: Any, serializer: TypeSerializer[Any]) -> None:
    refuse_pickles(serializer, f"a key or namespace of the state {state.name!r}")


def _time_to_live(given: bool | StateTtlConfig) -> bool | StateTtlConfig:  # noqa: FBT001 - a converter
    if isinstance(given, bool):
        return given
    from .time_to_live import StateTtlConfig

    return False if isinstance(given, StateTtlConfig) and not given.is_enabled() else given


def _checked_length(descriptor: Any, _: Any, lived: timedelta | None) -> None:
    if lived is None:
        return
    if not isinstance(lived, timedelta) or lived < timedelta(milliseconds=1):
        raise DeclarationError(
            f"the former time to live of state {descriptor.name!r} is {shown(lived)}",
            advice="pass a timedelta of a millisecond or more, such as former_time_to_live=timedelta(days=7)",
        )
    if descriptor.time_to_live:
        raise DeclarationError(
            f"the state {descriptor.name!r} has both time_to_live and former_time_to_live",
            advice="keep only time_to_live if the state still has TTL: changing its length needs no migration",
        )


def _checked_transform(descriptor: Any, _: Any, transform: StateTransform | None) -> None:
    if transform is None:
        return
    what = f"the transform of the state {descriptor.name!r}"
    if not isinstance(transform, StateTransform):
        raise DeclarationError(
            f"{what} is {shown(transform)}, which does not specify the kind of the stored state",
            advice="wrap the function, such as in StateTransform.from_value(…)",
        )
    if transform.old_kind is descriptor.kind:
        raise DeclarationError(
            f"{what} takes {transform.old_kind} state, but that is already the kind of the state",
            advice="use a converter, which changes values within a kind of state",
        )


def optional_converter(function: Callable[[Any], Any] | Converter | None) -> Converter | None:
    """Wrap a function in a `Converter` that has its name; return a `Converter` or None unchanged."""
    return function if function is None or isinstance(function, Converter) else Converter.of(function)


def _checked_aggregate(descriptor: Any, _: Any, function: Any) -> None:
    if not isinstance(function, AggregateFunction | None):
        raise DeclarationError(
            f"the agg_function of state {descriptor.name!r} is {shown(function)}", advice="pass an AggregateFunction"
        )


@attrs.frozen
class StateDescriptor(ABC):
    """The base class of state descriptors.

    Attributes:
        name: The name of the state in the savepoint; unique among the states of an operator.
        converter: Converts a stored value to the new type. It is called with the value, an element of list state, or a
            value of map state, as the generic reader returns it. Where the stored type equals the new one already, the
            user states whether the values have been converted before (rule STATE-8).
        fallback_deserializer: Reads the stored values where no other reader can (rule READ-3); with TTL it reads the
            bytes after the time stamp.
        namespace: The serializer of the namespace, for window and custom state; plain keyed state has none.
        time_to_live: Whether the state has TTL, as after `enable_time_to_live`: each value, each element of list state
            and each value of map state is stored with the time of its last access. The duration is not stored. A
            program that runs gives a `StateTtlConfig` here; checks and migrations need only True.
        former_time_to_live: For a state that had TTL and no longer has it: how long values lived after their last
            access. A migration then drops and counts the values that have expired by its reference time (rule STATE-5);
            without it nothing is dropped, because the duration is not stored. It has no effect where no stamps are
            stored.
        transform: Builds the state from a stored state of another kind, such as list state from value state (rule
            STATE-2).
    """

    kind: ClassVar[StateKind]

    name: str = attrs.field(validator=_checked_name)
    converter: Converter | None = attrs.field(default=None, converter=optional_converter, kw_only=True)
    fallback_deserializer: TypeDeserializer[Any] | None = attrs.field(default=None, kw_only=True)
    namespace: TypeSerializer[Any] = attrs.field(
        factory=VoidNamespaceSerializer, converter=_namespace_serializer, validator=_found_by_bytes, kw_only=True
    )
    time_to_live: bool | StateTtlConfig = attrs.field(default=False, converter=_time_to_live, kw_only=True)
    former_time_to_live: timedelta | None = attrs.field(default=None, validator=_checked_length, kw_only=True)
    transform: StateTransform | None = attrs.field(default=None, validator=_checked_transform, kw_only=True)

    def get_name(self) -> str:
        """Return the name of the state."""
        return self.name

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Enable TTL, as in PyFlink; call it before the state is asked for. A descriptor allows no other change."""
        object.__setattr__(self, "time_to_live", _time_to_live(ttl_config))

    def _stamped(self, serializer: TypeSerializer[Any]) -> TypeSerializer[Any]:
        """Return the serializer of the stored values: with TTL, each has a time stamp before it."""
        if not self.time_to_live:
            return serializer
        if isinstance(serializer, TtlSerializer):
            raise DeclarationError(
                f"the state {self.name!r} has time_to_live, but its serializer already writes time stamps",
                advice="declare the type of the value without time stamps",
            )
        return TtlSerializer(serializer)

    @abstractmethod
    def state_serializer(self) -> TypeSerializer[Any]:
        """Return the serializer in the state's metadata: for list state the list's, for map state the map's."""

    def describe(self) -> StateDescription:
        """Return a description of the state for the compatibility check."""
        value = SerializerDescription.of(
            self.state_serializer(), fallback=self.fallback_deserializer, converter=self.converter
        )
        return StateDescription(
            self.name, self.kind, value, namespace=SerializerDescription.of(self.namespace),
            former_time_to_live=self.former_time_to_live, transform=self.transform,
        )  # fmt: skip


class _SingleValueDescriptor(StateDescriptor, Generic[V]):
    """The base class of descriptors of one value; each subclass declares the fields, as mypy loses an inherited `V`."""

    __slots__ = ()

    value_serializer: TypeSerializer[V]
    default_value: V | None

    def __attrs_post_init__(self) -> None:
        if self.default_value is None:
            return
        try:
            self.value_serializer.serialize(self.default_value, DataOutputView())
        except Exception as error:
            reason = error.what if isinstance(error, StateShiftError) else f"{type(error).__name__}: {error}"
            raise DeclarationError(
                f"the default value of state {self.name!r} does not fit its type {self.value_serializer.describe()}: "
                f"{reason}"
            ) from error

    def state_serializer(self) -> TypeSerializer[Any]:
        return self._stamped(self.value_serializer)


@_with_former_arguments(value_serializer="value_type_info")
@attrs.frozen
class ValueStateDescriptor(_SingleValueDescriptor[V]):
    """State with one value for each key.

    Attributes:
        value_serializer: The type hint or serializer of the value; the argument is `value_type_info`.
        default_value: The result of `value()` for a key that has no value.
    """

    kind: ClassVar[StateKind] = StateKind.VALUE
    value_serializer: TypeSerializer[V] = attrs.field(converter=as_serializer, alias="value_type_info")
    default_value: V | None = None


@_with_former_arguments("reduce_function", value_serializer="type_info")
@attrs.frozen
class ReducingStateDescriptor(_SingleValueDescriptor[V]):
    """State with one value for each key, into which added values are reduced.

    Attributes:
        reduce_function: (value, value) -> value, a plain function or a `ReduceFunction`. It is not stored, so a change
            of it cannot be detected. Checks and migrations do not call it: None is enough for them.
        value_serializer: The type hint or serializer of the value; the argument is `type_info`.
        default_value: Has no effect.
    """

    kind: ClassVar[StateKind] = StateKind.REDUCING
    reduce_function: Callable[[V, V], V] | None
    value_serializer: TypeSerializer[V] = attrs.field(converter=as_serializer, alias="type_info")
    default_value: V | None = None

    def get_reduce_function(self) -> Callable[[V, V], V] | None:
        """Return the function."""
        return self.reduce_function


@_with_former_arguments(
    "agg_function",
    proposed={"aggregate_function": "agg_function", "acc_type_info": "state_type_info"},
    value_serializer="state_type_info",
)
@attrs.frozen
class AggregatingStateDescriptor(_SingleValueDescriptor[V]):
    """State with one accumulator for each key.

    Attributes:
        agg_function: Creates accumulators, adds values to them, and makes results of them. It is not stored. Checks and
            migrations do not call it: None is enough for them. The names of the arguments of its `add` must say which
            of them is the accumulator.
        value_serializer: The type hint or serializer of the accumulator; the argument is `state_type_info`.
        default_value: Has no effect.
    """

    kind: ClassVar[StateKind] = StateKind.AGGREGATING
    agg_function: AggregateFunction[Any, V, Any] | None = attrs.field(validator=_checked_aggregate)
    value_serializer: TypeSerializer[V] = attrs.field(converter=as_serializer, alias="state_type_info")
    default_value: V | None = None

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        # no converter: mypy would infer no `V` from its argument
        object.__setattr__(self, "agg_function", in_order(self.agg_function))

    def get_agg_function(self) -> AggregateFunction[Any, V, Any] | None:
        """Return the function."""
        return self.agg_function


@_with_former_arguments(element_serializer="elem_type_info")
@attrs.frozen
class ListStateDescriptor(StateDescriptor, Generic[V]):
    """State with a list for each key, or a list of the operator (see `Operator`).

    Attributes:
        element_serializer: The type hint or serializer of one element, as in Flink: `int` declares a list of integers,
            and `list[int]` a list whose elements are lists. The argument is `elem_type_info`.
    """

    kind: ClassVar[StateKind] = StateKind.LIST
    element_serializer: TypeSerializer[V] = attrs.field(converter=as_serializer, alias="elem_type_info")

    def state_serializer(self) -> TypeSerializer[Any]:
        return ListSerializer(self._stamped(self.element_serializer))


@_with_former_arguments(key_serializer="key_type_info", value_type="value_type_info")
@attrs.frozen
class MapStateDescriptor(StateDescriptor, Generic[K, V]):
    """State with a map for each key, or a broadcast map (see `Operator`).

    Attributes:
        key_serializer: The type hint or serializer of the user keys; the argument is `key_type_info`.
        value_type: The type hint or serializer of the values; the argument is `value_type_info`. `T | None` uses the
            null flag of each entry (OPT-4).
        nullable_values: Whether a value may be None, where `value_type` is a serializer.
    """

    kind: ClassVar[StateKind] = StateKind.MAP
    key_serializer: TypeSerializer[K] = attrs.field(
        converter=as_serializer, validator=_found_by_bytes, alias="key_type_info"
    )
    value_type: Hint[V] = attrs.field(alias="value_type_info")
    nullable_values: bool = attrs.field(default=False, kw_only=True)
    _of_no_null: TypeSerializer[Any] = attrs.field(init=False, eq=False, repr=False)

    @_of_no_null.default
    def _made(self) -> TypeSerializer[Any]:
        return serializer_for(strip_none(self.value_type)[0])

    @property
    def value_serializer(self) -> TypeSerializer[Any]:
        """The serializer of a single value, as in broadcast state, whose entries have no null flag."""
        return serializer_for(self.value_type)

    def state_serializer(self) -> TypeSerializer[Any]:
        value, nullable = self._of_no_null, strip_none(self.value_type)[1] or self.nullable_values
        if self.time_to_live and nullable:
            value = taking_null(value) or value
        return MapSerializer(self.key_serializer, self._stamped(value), nullable_values=nullable)


@attrs.frozen
class FoldingStateDescriptor(_SingleValueDescriptor[V]):
    """State with one accumulator for each key, into which added values are folded; it is stored as value state.

    Deprecated since it exists, as in Flink: use `AggregatingStateDescriptor`.

    Attributes:
        initial_value: The accumulator of no values.
        fold_function: (accumulator, value) -> accumulator.
        value_serializer: The type hint or serializer of the accumulator; the argument is `type_info`.
        default_value: Has no effect.
    """

    kind: ClassVar[StateKind] = StateKind.VALUE
    initial_value: V
    fold_function: Callable[[V, Any], V]
    value_serializer: TypeSerializer[V] = attrs.field(converter=as_serializer, alias="type_info")
    default_value: V | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        warn_deprecated(
            "FoldingStateDescriptor", since="0.1", removed_in="1.0", use="AggregatingStateDescriptor", stacklevel=3
        )


DESCRIPTORS: dict[StateKind, type[StateDescriptor]] = {
    one.kind: one
    for one in (
        ValueStateDescriptor, ListStateDescriptor, MapStateDescriptor, ReducingStateDescriptor,
        AggregatingStateDescriptor,
    )
}  # fmt: skip
"""The descriptor of each kind of keyed state."""


def refuse_duplicates(names: Iterable[str], where: str) -> None:
    """Refuse duplicate names.

    Raises:
        DeclarationError: A name occurs twice; the message has the first such name.
    """
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise DeclarationError(f"{name!r} is declared twice in {where}", advice="give each a name of its own")
        seen.add(name)
