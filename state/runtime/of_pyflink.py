"""Functions and descriptors of PyFlink itself, where a job file imports it: they are taken as ours.

As in `type_infos`, PyFlink is not imported here. Source: `pyflink.datastream.state` of PyFlink 2.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...serializers.pyflink import is_of_pyflink, type_as_ours
from .descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def as_ours(given: Any) -> Any:
    """Return a type or a descriptor of PyFlink as ours; anything else as it is.

    Raises:
        DeclarationError: It is a type that no state of PyFlink has.
    """
    made = next((_DESCRIPTORS[one.__name__] for one in type(given).__mro__ if one.__name__ in _DESCRIPTORS), None)
    if made is None or not is_of_pyflink(given):
        return type_as_ours(given)
    return made(given, given._ttl_config is not None)  # noqa: SLF001 - PyFlink has no other way to it


def _pair(given: Any) -> tuple[Any, Any]:
    return type_as_ours(given._key_type_info), type_as_ours(given._value_type_info)  # noqa: SLF001 - as above


_DESCRIPTORS: dict[str, Callable[[Any, Any], StateDescriptor]] = {
    "ValueStateDescriptor": lambda one, ttl: ValueStateDescriptor(
        one.name, type_as_ours(one.type_info), time_to_live=ttl
    ),
    "ListStateDescriptor": lambda one, ttl: ListStateDescriptor(
        one.name, type_as_ours(one.type_info.elem_type), time_to_live=ttl
    ),
    "MapStateDescriptor": lambda one, ttl: MapStateDescriptor(one.name, *_pair(one.type_info), time_to_live=ttl),
    "ReducingStateDescriptor": lambda one, ttl: ReducingStateDescriptor(
        one.name, None, type_as_ours(one.type_info), time_to_live=ttl
    ),
    "AggregatingStateDescriptor": lambda one, ttl: AggregatingStateDescriptor(
        one.name, None, type_as_ours(one.type_info), time_to_live=ttl
    ),
}
