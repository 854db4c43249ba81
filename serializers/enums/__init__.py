"""Enums, stored by the names of their symbols."""

from ..families import family_of
from ..stored_names import former_names

__getattr__ = former_names(__name__)

FAMILY = family_of(
    __package__,
    "rewrites columns strategies json_forms sources",
    snapshots=(".serializers",),
    classes=".hints:serializer_of_class",
)
