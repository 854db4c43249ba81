"""Containers: optional values, lists, sets, maps, arrays, tuples, `Either`, and values with a time to live."""

from ..families import ANY, Family
from ..stored_names import former_names

__getattr__ = former_names(__name__)

FAMILY = Family(
    __package__,
    snapshots=(".arrays", ".either", ".lists", ".maps", ".object_arrays", ".optional", ".ttl", ".ttl_aware", ".tuples"),
    rules={("ttl", ANY): ".ttl:switched_off", ("ttl_aware", ANY): ".ttl_aware:judged_within"},
    rewrites=".rewrites:REWRITES",
    columns=".columns:COLUMNS",
    strategies=".strategies:STRATEGIES",
    hints=".hints:HINTS",
    json_forms=".json_forms:JSON_FORMS",
    sources=".sources:SOURCES",
    nulls=".sources:NULLS",
)
