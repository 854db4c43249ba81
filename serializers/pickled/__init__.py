"""Pickles as opaque bytes, which are opened only by callers that trust their class."""

from ..families import ANY, family_of
from ..stored_names import former_names

__getattr__ = former_names(__name__)

FAMILY = family_of(
    __package__,
    "columns json_forms",
    snapshots=(".serializers",),
    rules={("pickle", ANY): ".abilities:from_pickle", (ANY, "pickle"): ".abilities:to_pickle"},
)
