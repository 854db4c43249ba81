"""Avro: schemas, the classes that they describe, and how one schema reads what another one wrote."""

from ..families import family_of
from ..stored_names import former_names

__getattr__ = former_names(__name__)

FAMILY = family_of(__package__, "rewrites json_forms", snapshots=(".serializers",))
