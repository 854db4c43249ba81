"""Avro: schemas, the classes that they describe, and how one schema reads what another one wrote."""

from ..stored_names import former_names

__getattr__ = former_names(__name__)
