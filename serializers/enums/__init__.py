"""Enums, stored by the names of their symbols."""

from ..stored_names import former_names

__getattr__ = former_names(__name__)
