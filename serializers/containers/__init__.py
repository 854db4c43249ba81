"""Containers: optional values, lists, sets, maps, arrays, tuples, `Either`, and values with a time to live."""

from ..families import ANY, family_of
from ..stored_names import former_names

__getattr__ = former_names(__name__)

FAMILY = family_of(
    __package__,
    "columns strategies hints json_forms sources nulls",
    rewrites=".rewrites:REWRITES",
    snapshots=(".arrays", ".lists", ".object_arrays", ".ttl", ".tuples", ".wrappers"),
    rules={("ttl", ANY): ".ttl:switched_off", ("ttl_aware", ANY): ".wrappers:judged_within"},
)
