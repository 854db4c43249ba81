"""Avro: schemas, the classes that they describe, and how one schema reads what another one wrote."""

from ..families import Family
from ..stored_names import former_names

__getattr__ = former_names(__name__)

FAMILY = Family(
    __package__,
    snapshots=(".serializers",),
    rewrites=".rewrites:REWRITES",
    json_forms=".json_forms:JSON_FORMS",
)
